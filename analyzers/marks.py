"""What a range written by an engine means: stage, forward, step, counts.

The table is data (`rules/annotations.toml`); names are read once per distinct name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from specscope.analyzers.name_rules import bundled
from specscope.analyzers.words import STAGES

ROLES = ("stage", "forward", "step", "capture", "none")
# A mark is short; the tail of a long name decides nothing.
MAX_NAME_CHARS = 512


@dataclass(frozen=True)
class Rule:
    """One row of the table."""

    id: str
    role: str
    pattern: re.Pattern[str]
    stage: int | None
    opens: bool
    kind: str | None
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Mark:
    """One annotation, read. Counts are None where the name does not give them.

    `kind` is the kind of the step as far as the mark says: speculation, decode, prefill,
    mixed, empty or None.
    """

    rule: str
    role: str
    stage: int | None
    opens: bool = False
    batch: int | None = None
    tokens: int | None = None
    k: int | None = None
    kind: str | None = None


@cache
def rules() -> tuple[Rule, ...]:
    """The bundled table, in order."""
    rows: list[dict[str, Any]] = bundled("annotations.toml")["rule"]
    return tuple(
        Rule(
            id=row["id"],
            role=row["role"],
            pattern=re.compile(row["pattern"]),
            stage=STAGES.index(row["stage"]) if "stage" in row else None,
            opens=bool(row.get("opens", False)),
            kind=row.get("kind"),
            examples=tuple(row["examples"]),
        )
        for row in rows
    )


def read(name: str) -> Mark | None:
    """The mark of one range name, or None when no rule knows it."""
    name = name[:MAX_NAME_CHARS]
    for rule in rules():
        match = rule.pattern.match(name)
        if match:
            return _mark(rule, match.groupdict())
    return None


def read_all(names: Sequence[str]) -> list[Mark | None]:
    """`read` for every name."""
    return [read(name) for name in names]


def _mark(rule: Rule, groups: dict[str, str | None]) -> Mark:
    batch, tokens, k, kind = _integer(groups.get("b")), _integer(groups.get("t")), None, rule.kind
    if rule.role == "step":
        batch, tokens, k, kind = _step(groups)
    return Mark(rule.id, rule.role, rule.stage, rule.opens, batch, tokens, k, kind)


def _step(groups: dict[str, str | None]) -> tuple[int | None, int | None, int | None, str | None]:
    """Batch, tokens, k and kind of an `execute_*` mark.

    A generating request brings one token without drafts and k + 1 with them.
    """
    if "new" in groups:
        new, cached = _integer(groups["new"]) or 0, _integer(groups["cached"]) or 0
        kind = "mixed" if new and cached else "prefill" if new else "cached" if cached else "empty"
        return new + cached, None, None, kind
    context, generation = _integer(groups.get("ctx_r")) or 0, _integer(groups.get("gen_r")) or 0
    tokens = _tokens(groups.get("gen_t"))
    if context and generation:
        return generation, tokens, None, "mixed"
    if context:
        return context, _tokens(groups.get("ctx_t")), None, "prefill"
    if not generation:
        return 0, 0, None, "empty"
    if tokens is None:
        return generation, None, None, "cached"
    width = tokens // generation
    if tokens > generation:
        return (
            generation,
            tokens,
            width - 1 if width * generation == tokens else None,
            "speculation",
        )
    return generation, tokens, 0, "decode"


def _tokens(text: str | None) -> int | None:
    """Token count in the brackets of a mark: `N`, `N_SQ` or `sqNsk..`."""
    match = re.match(r"(?:sq)?(\d{1,12})", text or "")
    return int(match.group(1)) if match else None


def _integer(text: str | None) -> int | None:
    return int(text) if text and len(text) <= 12 else None
