"""One fixed colour for each stage, in terminal, HTML and figures.

Chosen by search: at least 3:1 against white and against near-black, and told apart by people
with each kind of colour blindness (tests/dashboards/test_palette.py). Colour is never the only
sign: names stand beside it, collectives are hatched, idle is light.
"""

from __future__ import annotations

from typing import Final

STAGE_COLOURS: Final = {
    "draft": "#AF8917",
    "verify": "#1859F8",
    "accept": "#2CA0A6",
    "draft_extend": "#D03ACF",
    "schedule": "#646464",
    "decode": "#14742B",
    "prefill": "#E6695E",
    "unplaced": "#8D8D8D",
}

# A part of a stage has the colour of its stage.
COLOUR_OF_ROW: Final = {**STAGE_COLOURS, "verify_only": STAGE_COLOURS["verify"]}

BAD: Final = "#E6695E"
GOOD: Final = "#14742B"
WARNING: Final = "#AF8917"


def stage_colour(stage: str | None) -> str:
    """The colour of that stage; that of `unplaced` for what has none."""
    return COLOUR_OF_ROW.get(stage or "", STAGE_COLOURS["unplaced"])


def tint(colour: str, share: float) -> str:
    """The colour mixed with white: `share` 1 is the colour itself, 0 is white."""
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    mixed = [round(255 - (255 - part) * share) for part in parts]
    return "#" + "".join(f"{part:02X}" for part in mixed)
