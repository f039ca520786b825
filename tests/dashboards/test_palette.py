"""One colour a stage, for every eye and on both backgrounds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from specscope.analyzers.words import STAGES
from specscope.dashboards.palette import STAGE_COLOURS, stage_colour, tint

Colour = npt.NDArray[np.float64]

# How people with each kind of colour blindness see linear RGB (Machado et al. 2009, severity 1).
SIGHT = {
    "all cones": np.eye(3),
    "no red cones": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "no green cones": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "no blue cones": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
WHITE, NEAR_BLACK = "#FFFFFF", "#161616"


def linear(colour: str) -> Colour:
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(XYZ[1] @ linear(colour))


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def lab(light: Colour) -> Colour:
    """CIE L*a*b* of linear RGB, white D65."""
    xyz = XYZ @ np.clip(light, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_every_stage_has_a_colour_of_its_own() -> None:
    assert tuple(STAGE_COLOURS) == STAGES
    assert len(set(STAGE_COLOURS.values())) == len(STAGES)


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_stands_out_on_white_and_on_black(stage: str) -> None:
    assert contrast(STAGE_COLOURS[stage], WHITE) >= 3
    assert contrast(STAGE_COLOURS[stage], NEAR_BLACK) >= 2.9


@pytest.mark.parametrize("sight", SIGHT)
def test_stages_of_one_cycle_are_told_apart_by_every_eye(sight: str) -> None:
    seen = {
        stage: lab(SIGHT[sight] @ linear(colour))
        for stage, colour in STAGE_COLOURS.items()
        if stage != "unplaced"
    }
    for one, other in combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 18, (one, other)


def test_a_part_has_the_colour_of_its_stage() -> None:
    assert stage_colour("verify_only") == stage_colour("verify")


def test_what_has_no_stage_is_grey() -> None:
    assert stage_colour(None) == STAGE_COLOURS["unplaced"]


def test_a_tint_goes_from_white_to_the_colour() -> None:
    assert (tint("#1859F8", 0), tint("#1859F8", 1)) == ("#FFFFFF", "#1859F8")
