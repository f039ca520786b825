"""A figure with its words, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go


@dataclass(frozen=True)
class Panel:
    """One view. Without a figure `empty` says why, and what would give one.

    `note` says how to read it, and what is left out of it.
    """

    name: str  # id on the page
    title: str
    figure: go.Figure | None = None
    note: str = ""
    empty: str = ""


# Points in one figure: more make a page slow and say nothing more at its width.
MOST_POINTS = 5_000
