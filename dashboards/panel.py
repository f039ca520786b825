"""A figure with its words, or the reason why there is none."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

import plotly.graph_objects as go


@dataclass(frozen=True)
class Panel:
    """One view. Without a figure `empty` says why, and what would give one.

    `note` says how to read it, and what is left out of it.
    """

    name: str  # id on the page
    title: str
    figure: go.Figure | None = field(default=None, repr=False)
    note: str = ""
    empty: str = ""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """What a notebook shows: the figure, by Plotly's own choice of renderer, or the reason."""
        if self.figure is None:
            words = f"{self.title}: {self.empty}"
            return {"text/plain": words, "text/html": f"<p>{html.escape(words)}</p>"}
        return dict(self.figure._repr_mimebundle_(include, exclude))


# Points in one figure: more make a page slow and say nothing more at its width.
MOST_POINTS = 5_000
