"""How many bytes a matched collective carries on one rank, and how that is known.

Recorded sizes go first, then those that the user says. Kernels inside graphs and custom kernels
have none on record: there an all-reduce of the target or the draft carries the activations of all
tokens that the stage reads, so its size is tokens x hidden size x element bytes. What nothing says
stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from specscope.analyzers.collective_match import Matched
from specscope.analyzers.columns import ABSENT, Int, Small
from specscope.analyzers.cycles import Cycles
from specscope.analyzers.words import (
    ACCEPT,
    DECODE,
    DRAFT,
    DRAFT_EXTEND,
    PREFILL,
    STAGES,
    VERIFY,
)
from specscope.traces.model_config import ModelWidth

BYTES_SOURCES: Final = ("recorded", "model_config", "unknown", "user")
RECORDED, MODEL_CONFIG, UNKNOWN_SIZE, BY_USER = range(len(BYTES_SOURCES))

# Kinds of kernels that sum activations over the ranks, by the last word of their family.
_SUMMING: Final = ("allreduce", "allreduce_norm")
_TARGET_STAGES: Final = (VERIFY, DECODE, PREFILL)
_DRAFT_STAGES: Final = (DRAFT, DRAFT_EXTEND)

# No forward reads more tokens: a larger number in a mark is not meant.
_MOST_TOKENS: Final = 1 << 26


@dataclass(frozen=True)
class Models:
    """Widths of the target and of the draft; one draft config serves where they differ.

    `given` are bytes of an all-reduce by stage, as the user says them: they go before a config.
    """

    target: ModelWidth | None = None
    draft: ModelWidth | None = None
    given: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Sizes:
    """By collective: bytes in on one rank (ABSENT: unknown), and index into BYTES_SOURCES."""

    bytes: Int
    source: Small
    assumption: str = ""  # what sizes by a config rest on; empty where there are none


def sizes_of(
    matched: Matched, cycles: Cycles | None, context: Mapping[str, Any], models: Models
) -> Sizes:
    """The size of every matched collective; `cycles` are the first rank's."""
    size = matched.bytes.copy()
    source = np.where(size != ABSENT, RECORDED, UNKNOWN_SIZE).astype(np.int32)
    summing = np.array([kind.rpartition(".")[2] in _SUMMING for kind in matched.kind], dtype=bool)
    stage = np.where(matched.stage == ACCEPT, VERIFY, matched.stage)
    for name, given in models.given.items():
        mine = (size == ABSENT) & summing & (stage == STAGES.index(name))
        size[mine], source[mine] = given, BY_USER
    if cycles is None or (models.target is None and models.draft is None):
        return Sizes(size, source)
    tokens = _tokens(matched, cycles, context)
    draft = models.draft or models.target
    for model, stages in ((models.target, _TARGET_STAGES), (draft, _DRAFT_STAGES)):
        mine = (size == ABSENT) & (tokens != ABSENT) & summing & np.isin(matched.stage, stages)
        if model is None or not mine.any():
            continue
        size[mine] = tokens[mine] * model.token_bytes
        source[mine] = MODEL_CONFIG
    return Sizes(size, source, _assumption(matched, source, models))


def _tokens(matched: Matched, cycles: Cycles, context: Mapping[str, Any]) -> Int:
    """Tokens that the forward of each collective reads; ABSENT: not known."""
    tokens = np.full(len(matched), ABSENT, np.int64)
    apart = _draft_is_apart(matched)
    for row, (cycle, stage) in enumerate(
        zip(matched.cycle[0].tolist(), matched.stage.tolist(), strict=True)
    ):
        if not 0 <= cycle < len(cycles):
            continue
        if stage == DRAFT_EXTEND and not matched.in_graph[row]:
            continue  # it may read the accepted tokens alone
        read = cycles.tokens[cycle] if stage in _TARGET_STAGES else None
        if read is None:
            batch = cycles.batch[cycle] or _whole(context.get("batch"))
            of_each = _tokens_a_sequence(stage, cycles.kind[cycle], cycles.k[cycle], context, apart)
            read = batch * of_each if batch is not None and of_each is not None else 0
        if 0 < read <= _MOST_TOKENS:
            tokens[row] = read
    return tokens


def _draft_is_apart(matched: Matched) -> bool:
    """Are the draft's first pass and its steps two stages?

    In one stage they read different numbers of tokens, and nothing tells the passes apart.
    """
    return {DRAFT, DRAFT_EXTEND} <= set(matched.stage.tolist())


def _tokens_a_sequence(
    stage: int, kind: str, k: int | None, context: Mapping[str, Any], apart: bool
) -> int | None:
    """Tokens that one forward of the stage reads of each sequence."""
    if kind == "decode":
        return 1 if stage in (DECODE, VERIFY) else None
    if kind != "speculation":
        return None
    width = _whole(context.get("topk")) or 1
    if stage == DRAFT:
        return width if apart else None
    if stage == VERIFY or (stage == DRAFT_EXTEND and apart):
        given = _whole(context.get("draft_tokens"))
        steps = k or _whole(context.get("k"))
        # A tree of more than one branch verifies as many tokens as it was told to.
        return given or (steps + 1 if steps and width == 1 else None)
    return None


def _whole(value: object) -> int | None:
    """A whole number above 0, else None."""
    if not isinstance(value, int | float) or value < 1 or value != int(value):
        return None
    return int(value)


def _assumption(matched: Matched, source: Small, models: Models) -> str:
    """What the sizes by a config rest on, in words."""
    by_config = source == MODEL_CONFIG
    if not by_config.any():
        return ""
    parts = []
    for name, model, stages in (
        ("target", models.target, _TARGET_STAGES),
        ("draft", models.draft or models.target, _DRAFT_STAGES),
    ):
        if model is not None and (by_config & np.isin(matched.stage, stages)).any():
            of = "" if name == "target" or models.draft is not None else " (the target's config)"
            parts.append(f"{name} {model.hidden_size:,} x {model.element_bytes} bytes a token{of}")
    return (
        f"sizes by config: {', '.join(parts)}; every all-reduce carries all tokens of its stage, "
        "and no graph is padded to a larger batch"
    )
