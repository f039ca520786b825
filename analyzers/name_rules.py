"""Match many kernel names against an ordered list of patterns, first match wins.

Patterns are RE2 syntax (run by Arrow): matching is linear in the text whatever the pattern,
so neither a hostile name nor a careless rule can stall an analysis. Look-around and back
references do not exist there; order does their work.

Cost: some ten passes over the distinct names, fewer for those matched early; 2,800 names
against 120 rules take 30 ms. The ranks of a run, and many runs of one engine, have the same names:
what was asked before is remembered.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import resources
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

HEAD_CHARS = 4096
TAIL_CHARS = 1024

# Patterns asked as one alternation. All 120 at once outgrow the memory RE2 gives its automaton
# and take it ten times as long as two halves (60 ms against 8 for 2,800 names).
BLOCK = 24

# Answers that are remembered, of names of at most so many characters: some 10 MB.
MOST_KNOWN = 20_000
LONGEST_KNOWN = 500

Indices = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)


def clip_names(names: pa.Array) -> pa.Array:
    """Names with the middle of very long ones left out.

    What a kernel is stands at its start, what it is called on at its end; a name of 1 MB is
    not worth more than both. The two parts are joined by a line end, which no `.` crosses.
    """
    names = pc.fill_null(names, "")
    is_long = pc.greater(pc.utf8_length(names), HEAD_CHARS + TAIL_CHARS)
    if not pc.any(is_long).as_py():
        return names
    head = pc.utf8_slice_codeunits(names, 0, HEAD_CHARS)
    tail = pc.utf8_slice_codeunits(names, -TAIL_CHARS)
    return pc.if_else(is_long, pc.binary_join_element_wise(head, tail, "\n"), names)


def pattern_error(pattern: str) -> str | None:
    """Why RE2 does not take that pattern, or None when it does."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        return str(error).removeprefix("Invalid regular expression: ")
    return None


# In place of an answer: not asked yet.
_UNKNOWN = -2


class Matcher:
    """An ordered list of patterns that answers which one is the first to match a name."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = tuple(patterns)
        self._known: dict[str, int] = {}

    def first(self, names: pa.Array) -> Indices:
        """Index of the first pattern that matches each name, -1 where none does.

        Args:
            names: string array, one row a distinct name; null counts as empty.

        Returns:
            int32[len(names)].
        """
        names = clip_names(names)
        texts, known = names.to_pylist(), self._known
        answers = [known.get(text, _UNKNOWN) for text in texts]
        rows = [row for row, answer in enumerate(answers) if answer == _UNKNOWN]
        if not rows:
            return np.array(answers, np.int32)
        if len(known) + len(rows) > MOST_KNOWN:
            known = self._known = {}  # another, since other threads read the old one
        found = self._first(names.take(pa.array(rows, pa.int64())))
        for row, answer in zip(rows, found.tolist(), strict=True):
            answers[row] = answer
            if len(texts[row]) <= LONGEST_KNOWN and len(known) < MOST_KNOWN:
                known[texts[row]] = answer
        return np.array(answers, np.int32)

    def _first(self, names: pa.Array) -> Indices:
        found = np.full(len(names), -1, np.int32)
        rows = np.arange(len(names), dtype=np.int64)
        if not self._patterns or not len(rows):
            return found
        for low in range(0, len(self._patterns), BLOCK):
            high = min(low + BLOCK, len(self._patterns))
            matched = self._any(names, low, high)
            self._narrow(names.filter(pa.array(matched)), rows[matched], low, high, found)
            names, rows = names.filter(pa.array(~matched)), rows[~matched]
        return found

    def every(self, names: pa.Array) -> npt.NDArray[np.bool_]:
        """Whether each pattern matches each name: bool[len(names), patterns]."""
        names = clip_names(names)
        out = np.zeros((len(names), len(self._patterns)), np.bool_)
        for column in range(len(self._patterns)):
            out[:, column] = self._any(names, column, column + 1)
        return out

    def _narrow(self, names: pa.Array, rows: Rows, low: int, high: int, found: Indices) -> None:
        """Halve the patterns until one is left; every name here matches one of [low, high).

        A name that matches anything in the lower half has its first match there, so the order
        is kept although each half is asked as one alternation.
        """
        while len(rows):
            if high - low == 1:
                found[rows] = low
                return
            middle = (low + high) // 2
            lower = self._any(names, low, middle)
            self._narrow(names.filter(pa.array(lower)), rows[lower], low, middle, found)
            names, rows, low = names.filter(pa.array(~lower)), rows[~lower], middle

    def _any(self, names: pa.Array, low: int, high: int) -> npt.NDArray[np.bool_]:
        joined = "|".join(f"(?:{pattern})" for pattern in self._patterns[low:high])
        try:
            answer = pc.match_substring_regex(names, joined)
        except pa.ArrowInvalid:
            # Good alone, too large together (or the same group name twice).
            if high - low == 1:
                raise
            middle = (low + high) // 2
            return self._any(names, low, middle) | self._any(names, middle, high)
        return np.asarray(answer.to_numpy(zero_copy_only=False), np.bool_)


def as_array(names: pa.Array | Sequence[str]) -> pa.Array:
    """Names as an Arrow string array."""
    return names if isinstance(names, pa.Array) else pa.array(names, pa.string())


def values_and_rows(column: pa.ChunkedArray | pa.Array) -> tuple[pa.Array, Rows]:
    """Distinct texts of a column, and which of them each row has.

    Returns:
        The values, and int64[rows] of positions in them; a null row has len(values).
    """
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        # Chunks may come with dictionaries of their own; one makes each name be asked once.
        chunks = column.unify_dictionaries().chunks
        column = pa.concat_arrays(chunks) if chunks else pa.array([], column.type)
    values = column.dictionary
    rows = pc.fill_null(column.indices.cast(pa.int64()), len(values))
    return values, np.asarray(rows.to_numpy(zero_copy_only=False), np.int64)


def per_row(of_value: npt.NDArray[Number], rows: Rows, of_null: Number) -> npt.NDArray[Number]:
    """What belongs to each value, laid out over the rows of `values_and_rows`."""
    return np.append(of_value, of_null).astype(of_value.dtype)[rows]


def bundled(file_name: str) -> dict[str, Any]:
    """A rules file of this package, read."""
    text = resources.files("specscope.analyzers").joinpath("rules", file_name).read_text("utf-8")
    return tomllib.loads(text)


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML text, read; ValueError with the place when it is none."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
