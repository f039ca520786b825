"""Texts of an export by their id, only those that are asked for.

The table of strings also holds the environment and the output of the profiled program. What no
kept row refers to never leaves it.
"""

from __future__ import annotations

import numpy as np

from .events import ABSENT
from .nsys_store import Codes, Ints, Store

# Longest name kept; the tail of a template instance of a megabyte decides nothing.
NAME_LENGTH = 1 << 16


class Strings:
    """`StringIds` of one export."""

    def __init__(self, store: Store) -> None:
        found = store.read("StringIds", ["id"], ["value"])
        order = np.argsort(found["id"], kind="stable")
        self._ids = found["id"][order]
        codes, self._texts = found.texts["value"]
        self._codes = codes[order]

    def coded(self, ids: Ints) -> tuple[Codes, list[str]]:
        """Codes into the list of the distinct texts that these ids name; -1 for unknown ids."""
        known = np.unique(ids[ids != ABSENT])
        at = np.searchsorted(self._ids, known)
        at = np.minimum(at, max(len(self._ids) - 1, 0))
        there = (self._ids[at] == known) if len(self._ids) else np.zeros(len(known), np.bool_)
        place: dict[str, int] = {}
        lut = np.full(len(known) + 1, -1, np.int32)  # the last entry: no id
        for row in np.flatnonzero(there).tolist():
            code = int(self._codes[at[row]])
            if code >= 0:
                text = self._texts[code][:NAME_LENGTH]
                lut[row] = place.setdefault(text, len(place))
        index = np.searchsorted(known, ids)
        index[ids == ABSENT] = len(known)
        return lut[index], list(place)

    def text(self, id_: int) -> str | None:
        """One text, or None where there is none of that id."""
        codes, words = self.coded(np.array([id_], np.int64))
        return words[codes[0]] if codes[0] >= 0 else None
