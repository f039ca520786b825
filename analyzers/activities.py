"""What an op does: its activity, from an ordered table of kernel-name rules.

The table is data (`rules/activities.toml`); a user's file goes before it. It answers what a
kernel is for, not which stage it belongs to: that is `bookkeeping` and the stage evidence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from specscope.analyzers.name_rules import (
    Matcher,
    as_array,
    bundled,
    parse_toml,
    pattern_error,
    per_row,
    values_and_rows,
)
from specscope.traces.errors import UsageError

ACTIVITIES = (
    "attention",
    "gemm",
    "moe",
    "norm",
    "activation",
    "rope",
    "kv_write",
    "sampling",
    "tree",
    "collective",
    "fused_collective",
    "copy",
    "set",
    "elementwise",
    "graph",
    "other",
)
"""The vocabulary; the position of a word is its code."""

CODE_OF_ACTIVITY = {name: code for code, name in enumerate(ACTIVITIES)}

OTHER = np.int8(CODE_OF_ACTIVITY["other"])

COMPUTE, COLLECTIVE, COPY, SET = range(4)

CLASS_OF_ACTIVITY = {
    name: {"collective": COLLECTIVE, "fused_collective": COLLECTIVE, "copy": COPY, "set": SET}.get(
        name, COMPUTE
    )
    for name in ACTIVITIES
}
"""Who owns an instant when several streams work: the lowest class (docs/activities.md)."""

CLASS_OF_CODE: npt.NDArray[np.int8] = np.array(
    [CLASS_OF_ACTIVITY[name] for name in ACTIVITIES], np.int8
)

# The kind of an op decides before its name does; a kernel is asked for its name.
_ACTIVITY_OF_KIND = {"copy": "copy", "set": "set", "graph": "graph"}

MAX_FILE_BYTES = 256 * 1024
MAX_RULES = 200
MAX_PATTERN_CHARS = 500
# RE2 takes time in proportion to what counted repetitions expand to: \w{900} costs as much as
# 900 rules.
MAX_EXPANDED_CHARS = 2000
_KEYS = ("id", "activity", "pattern", "family", "examples", "note")

Codes = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Rule:
    """One row of the table: a name that matches `pattern` does `activity`."""

    id: str
    activity: str
    pattern: str
    family: str
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rules:
    """An ordered table of rules, first match wins."""

    rules: tuple[Rule, ...]

    @cached_property
    def _matcher(self) -> Matcher:
        return Matcher([rule.pattern for rule in self.rules])

    @cached_property
    def _codes(self) -> Codes:
        # The last entry answers index -1: no rule matched.
        codes = [CODE_OF_ACTIVITY[rule.activity] for rule in self.rules]
        return np.array([*codes, OTHER], np.int8)

    def match(self, names: pa.Array | Sequence[str]) -> npt.NDArray[np.int32]:
        """Index of the rule that decides each name, -1 for none: int32[len(names)]."""
        return self._matcher.first(as_array(names))

    def codes(self, names: pa.Array | Sequence[str]) -> Codes:
        """Activity code of each name, taken as a kernel's: int8[len(names)]."""
        return self._codes[self.match(names)]

    def families(self, names: pa.Array | Sequence[str]) -> list[str]:
        """Finer class of each name, such as `nccl.allreduce`; `other` where no rule matches."""
        return [self.rules[row].family if row >= 0 else "other" for row in self.match(names)]


def load_rules(user_file: Path | None = None) -> Rules:
    """The bundled table, behind the rules of the user's file where one is given.

    Args:
        user_file: TOML with `[[rule]]` tables (docs/activities.md).

    Raises:
        UsageError: the file cannot be used; one line with the file, the rule and the mend.
    """
    builtin = _builtin_rules()
    if user_file is None:
        return builtin
    return Rules((*_user_rules(user_file), *builtin.rules))


def classify(
    names: pa.Array | Sequence[str],
    kinds: Sequence[str] | None = None,
    rules: Rules | None = None,
) -> Codes:
    """Activity code of each op: int8[len(names)], positions in `ACTIVITIES`.

    Args:
        names: one name an op; distinct ones are looked up once.
        kinds: kind of each op (kernel, copy, set, graph). Without it the names that tracers
            give to copies and sets tell those apart.
        rules: the table, bundled when left out.

    >>> [ACTIVITIES[code] for code in classify(["nvjet_tst_64x8", "Memset (Device)"])]
    ['gemm', 'set']
    """
    rules = rules or load_rules()
    values, rows = values_and_rows(as_array(names))
    of_value = rules.codes(values)
    if kinds is None:
        of_value = _by_tracer_name(values, of_value)
        return per_row(of_value, rows, OTHER)
    return _by_kind(per_row(of_value, rows, OTHER), as_array(kinds))


def activity_codes(ops: pa.Table, rules: Rules | None = None) -> Codes:
    """Activity code of each row of an ops table: int8[rows], positions in `ACTIVITIES`."""
    rules = rules or load_rules()
    names, rows = values_and_rows(ops.column("name"))
    return _by_kind(per_row(rules.codes(names), rows, OTHER), ops.column("kind"))


def activity_column(ops: pa.Table, rules: Rules | None = None) -> pa.DictionaryArray:
    """Activity of each row of an ops table (`traces.schema.OPS`), in words.

    The dictionary is `ACTIVITIES`, so the indices are the codes.
    """
    return as_words(activity_codes(ops, rules))


def as_words(codes: Codes) -> pa.DictionaryArray:
    """Codes as a dictionary array over `ACTIVITIES`."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(ACTIVITIES))


def family_column(ops: pa.Table, rules: Rules | None = None) -> pa.DictionaryArray:
    """Finer class of each row of an ops table; ops that are no kernels have their kind."""
    rules = rules or load_rules()
    names, name_rows = values_and_rows(ops.column("name"))
    kinds, kind_rows = values_and_rows(ops.column("kind"))
    by_name = pa.array([*rules.families(names), "other"]).take(pa.array(name_rows))
    own = [word if word in _ACTIVITY_OF_KIND else None for word in kinds.to_pylist()]
    by_kind = pa.array([*own, None], pa.string()).take(pa.array(kind_rows))
    return pc.coalesce(by_kind, by_name).dictionary_encode()


def _by_tracer_name(names: pa.Array, codes: Codes) -> Codes:
    """Codes with those of the names that tracers give to copies and sets put right."""
    codes = codes.copy()
    for activity, pattern in (("copy", "^(?:Memcpy |Copy(?:Device|Host)To)"), ("set", "^Memset ")):
        hits = Matcher([pattern]).first(names) == 0
        codes[hits] = CODE_OF_ACTIVITY[activity]
    return codes


def _codes_of_kinds(words: Sequence[str | None]) -> Codes:
    """Activity code that each kind alone decides, -1 where the name has to be asked."""
    decided = [_ACTIVITY_OF_KIND.get(word or "") for word in words]
    return np.array([CODE_OF_ACTIVITY[word] if word else -1 for word in decided], np.int8)


def _by_kind(codes: Codes, kinds: pa.ChunkedArray | pa.Array) -> Codes:
    """Codes with those of copies, sets and graph launches put by their kind."""
    words, rows = values_and_rows(kinds)
    decided = per_row(_codes_of_kinds(words.to_pylist()), rows, np.int8(-1))
    return np.where(decided >= 0, decided, codes).astype(np.int8)


@cache
def _builtin_rules() -> Rules:
    return Rules(
        tuple(
            Rule(
                row["id"],
                row["activity"],
                row["pattern"],
                row["family"],
                tuple(row["examples"]),
            )
            for row in bundled("activities.toml")["rule"]
        )
    )


def _user_rules(path: Path) -> tuple[Rule, ...]:
    rows = _read_user_file(path).get("rule")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{path}: no rules in it: write tables headed [[rule]]")
    if len(rows) > MAX_RULES:
        raise UsageError(f"{path}: {len(rows)} rules: join patterns, {MAX_RULES} are the most")
    rules: list[Rule] = []
    for number, row in enumerate(rows, 1):
        place = f"{path}: rule {number}"
        rule = _user_rule(place, row)
        if any(rule.id == other.id for other in rules):
            raise UsageError(f"{place} ({rule.id!r}): a second rule of that id: give it another")
        rules.append(rule)
    return tuple(rules)


def _read_user_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}): check the path of --activity-rules"
        ) from None
    if len(content) > MAX_FILE_BYTES:
        raise UsageError(f"{path}: larger than {MAX_FILE_BYTES // 1024} KiB: is it a rules file?")
    try:
        table = parse_toml(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text: save it as UTF-8") from None
    except ValueError as error:
        raise UsageError(f"{path}: not TOML, {_one_line(str(error))}: mend that line") from None
    unknown = sorted(set(table) - {"rule"})
    if unknown:
        raise UsageError(
            f"{path}: {_one_line(repr(unknown[0]))} is not known: write tables headed [[rule]]"
        )
    return table


def _user_rule(place: str, row: dict[str, Any]) -> Rule:
    name = row.get("id")
    if not isinstance(name, str) or not name:
        raise UsageError(f"{place}: has no id: add id = 'my-rule'")
    place = f"{place} ({_one_line(repr(name))})"
    unknown = sorted(set(row) - set(_KEYS))
    if unknown:
        raise UsageError(
            f"{place}: {_one_line(repr(unknown[0]))} is not known: use {', '.join(_KEYS)}"
        )
    activity = row.get("activity")
    allowed = [word for word in ACTIVITIES if word != "graph"]
    if activity not in allowed:
        raise UsageError(
            f"{place}: activity is {_one_line(repr(activity))}: use one of {', '.join(allowed)}"
        )
    pattern = _user_pattern(place, row.get("pattern"))
    family = row.get("family", name)
    if not isinstance(family, str):
        raise UsageError(f"{place}: family is no text: put it in quotes")
    examples = row.get("examples", [])
    if not isinstance(examples, list) or not all(isinstance(text, str) for text in examples):
        raise UsageError(f"{place}: examples is no list of texts: write examples = ['name']")
    misses = Matcher([pattern]).first(pa.array(examples, pa.string())) < 0
    if misses.any():
        missed = examples[int(np.argmax(misses))]
        raise UsageError(
            f"{place}: its example {_one_line(repr(missed))} does not match: mend the pattern"
        )
    return Rule(name, activity, pattern, family, tuple(examples))


def _user_pattern(place: str, pattern: object) -> str:
    if not isinstance(pattern, str) or not pattern:
        raise UsageError(f"{place}: has no pattern: add pattern = '^my_kernel'")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise UsageError(
            f"{place}: pattern of {len(pattern)} characters: split it, "
            f"{MAX_PATTERN_CHARS} are the most"
        )
    counts = re.findall(r"\{(\d+)(?:,(\d*))?\}", pattern)
    repeats = math.prod(max(1, int(low), int(high or 0)) for low, high in counts)
    if len(pattern) * repeats > MAX_EXPANDED_CHARS:
        raise UsageError(
            f"{place}: pattern repeats {repeats} times by its {{counts}}: write + or * there"
        )
    wrong = pattern_error(pattern)
    if wrong is not None:
        raise UsageError(
            f"{place}: pattern is not usable, {_one_line(wrong)}: RE2 syntax is meant; in place "
            "of look-around put a rule before this one"
        )
    if Matcher([pattern]).first(pa.array([""]))[0] == 0:
        raise UsageError(f"{place}: pattern matches every name: add the letters it has to have")
    return pattern


def _one_line(text: str, limit: int = 120) -> str:
    """Text of a user's file made safe for one line of a terminal."""
    safe = "".join(letter if letter.isprintable() else "?" for letter in text)
    return safe if len(safe) <= limit else safe[:limit] + "..."
