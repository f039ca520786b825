"""The grammar of specscope's own ranges: `specscope:<stage>|c=<cycle>|s=<step>|b=<batch>|...`.

One module writes and reads it. Version 1: ASCII; the stage is a word of `STAGES`, or `cycle`
for the whole cycle, which is no stage; every field is optional and an integer; unknown
fields are kept out, so that later versions stay readable. In an NVTX domain named
`specscope` the bare text after the colon means the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

GRAMMAR_VERSION = 1
PREFIX = "specscope:"
# The NVTX domain in which the prefix is left out.
DOMAIN = "specscope"
CYCLE = "cycle"
STAGES = ("draft", "verify", "accept", "draft_extend", "schedule", "decode", "prefill")

# Field letter -> attribute of RangeName.
FIELDS = {
    "c": "cycle",
    "s": "step",
    "b": "batch",
    "t": "tokens",
    "k": "k",
    "r": "rank",
    "n": "size",
}

_MARKS = tuple(f"|{letter}=" for letter in FIELDS)
_FIELD = re.compile(r"([a-z]+)=(-?\d{1,18})\Z")


@dataclass(frozen=True)
class RangeName:
    """One range name, read. `stage` is a stage or `cycle`."""

    stage: str
    cycle: int | None = None
    step: int | None = None
    batch: int | None = None
    tokens: int | None = None
    k: int | None = None
    rank: int | None = None
    size: int | None = None


def write(name: RangeName) -> str:
    """The text of a range, fields in the order of `FIELDS`, absent ones left out."""
    if name.stage not in (*STAGES, CYCLE):
        raise ValueError(f"unknown stage {name.stage!r}")
    values = tuple(getattr(name, attribute) for attribute in FIELDS.values())
    return PREFIX + bare(name.stage, values)


def bare(stage: str, values: tuple[int | None, ...]) -> str:
    """The text after the colon, from values in the order of `FIELDS`.

    For hooks, which write a range in half a microsecond; nothing is checked.
    """
    text = stage
    for mark, value in zip(_MARKS, values, strict=True):
        if value is not None:
            text += f"{mark}{value}"
    return text


def read(text: str) -> RangeName | None:
    """The range that `text` names, or None when it is not of this grammar."""
    if not text.startswith(PREFIX):
        return None
    stage, *fields = text[len(PREFIX) :].split("|")
    if stage not in STAGES and stage != CYCLE:
        return None
    values: dict[str, int] = {}
    for field in fields:
        match = _FIELD.match(field)
        if match and match.group(1) in FIELDS:
            values[FIELDS[match.group(1)]] = int(match.group(2))
    return RangeName(stage, **values)
