"""The clocks of the ranks of one run, brought together by the ends of their collectives.

All ranks leave a collective at nearly the same moment, the smaller it is the more so: the ends
of larger rings differ between ranks by more than clocks do. So the collectives of the stage with
the smallest messages tell offset and drift of every rank against the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specscope.analyzers.collective_match import Matched
from specscope.analyzers.columns import ABSENT, Int
from specscope.analyzers.words import DRAFT

Float = npt.NDArray[np.float64]

# Of a size or stage at least so many, or all there are where none has as many; with fewer than
# the last, offset and lateness cannot be told apart.
FEWEST = 16
FEWEST_AT_ALL = 4
# Largest median residual that is believed: half the length of the collectives used, within these.
MOST_RESIDUAL_NS = 10_000.0
NEVER_ABOVE_NS = 50_000.0
# Collectives that end on a rank before another began, by more than the residual allows.
MOST_IMPOSSIBLE = 0.05
# Pairs of points for a slope: more add nothing.
_MOST_POINTS = 400
# A drift is believed beyond so many standard errors, and this much over the capture.
_SURE = 5.0
_LEAST_DRIFT_NS = 1_000.0
_PPM = 1e6
# Places at which a step is tried, and the part of the points that tells how well one fits.
_STEPS = 37
_COUNTED = 0.95


@dataclass(frozen=True)
class Clock:
    """One rank's clock against the first rank's: later by `offset_ns` in the middle."""

    rank: int
    offset_ns: float  # base times of the files taken into account
    drift_ppm: float  # 0 where none can be told
    residual_ns: float  # median of what offset and drift leave
    spread_ns: float  # 95 % of the residuals are smaller


@dataclass(frozen=True)
class Clocks:
    """The clocks of all ranks, and what they were told by."""

    clocks: tuple[Clock, ...]
    used: int  # collectives
    stage: int  # of the first of them
    middle_ns: int  # time of the first rank at which the offsets hold

    @property
    def residual_ns(self) -> float:
        """The largest residual of a rank."""
        return max(clock.residual_ns for clock in self.clocks)

    @property
    def spread_ns(self) -> float:
        """The largest spread of a rank."""
        return max(clock.spread_ns for clock in self.clocks)

    def common(self, row: int, times: Int) -> Int:
        """Absolute times of the rank in that row, on the clock of the first rank."""
        clock = self.clocks[row]
        if not clock.offset_ns and not clock.drift_ppm:
            return times
        passed = (times - self.middle_ns).astype(np.float64)
        late = clock.offset_ns + (passed - clock.offset_ns) * (clock.drift_ppm / _PPM)
        return times - np.rint(late).astype(np.int64)

    def seen(self, row: int, times: Int) -> Int:
        """Times on the first rank's clock as the clock of the rank in that row shows them."""
        clock = self.clocks[row]
        if not clock.offset_ns and not clock.drift_ppm:
            return times
        passed = (times - self.middle_ns).astype(np.float64)
        slope = clock.drift_ppm / _PPM
        late = clock.offset_ns + passed * (slope / (1 - slope))
        return times + np.rint(late).astype(np.int64)


def align(matched: Matched, start: Int, end: Int) -> Clocks | str:
    """The clocks of the ranks, or why they cannot be told.

    `start` and `end` are absolute times by [rank, collective] on the ranks' own clocks.
    """
    length = (end - start).min(axis=0)
    used = smallest(matched, length)
    if len(used) < FEWEST_AT_ALL:
        return (
            f"{len(used)} collectives are too few to align clocks by, {FEWEST_AT_ALL} are needed; "
            "capture more cycles"
        )
    ends = end[:, used]
    middle = int(np.sort(ends[0])[len(used) // 2])
    clocks = [Clock(matched.ranks[0], 0.0, 0.0, 0.0, 0.0)]
    for number, own in zip(matched.ranks[1:], ends[1:], strict=True):
        clocks.append(_against(number, ends[0], own, middle))
    typical = float(np.median(length[used]))
    found = Clocks(tuple(clocks), len(used), int(matched.stage[used[0]]), middle)
    allowed = min(max(MOST_RESIDUAL_NS, typical / 2), NEVER_ABOVE_NS)
    worst = max(clocks, key=lambda clock: clock.residual_ns)
    if worst.residual_ns > allowed:
        return (
            f"the clocks of ranks {matched.ranks[0]} and {worst.rank} cannot be aligned: the ends "
            f"of {len(used)} collectives differ by {worst.residual_ns / 1e3:,.1f} us around their "
            f"median, {allowed / 1e3:,.1f} us are allowed; they are not of the same moments, as in "
            "traces of two different runs, or sampled or filtered ones"
        )
    return _possible(matched, found, start, end)


def smallest(matched: Matched, length: Int) -> Int:
    """The collectives with the smallest messages: of all sizes where recorded, else of a stage.

    A draft step reads one token a sequence, fewer than any other forward. Without a draft it is
    the stage whose collectives are the shortest on the rank that waited least.
    """
    if (matched.bytes != ABSENT).all():
        sizes = np.unique(matched.bytes)
        counts = [int((matched.bytes <= size).sum()) for size in sizes]
        reach = next((i for i, count in enumerate(counts) if count >= FEWEST), len(sizes) - 1)
        return np.flatnonzero(matched.bytes <= sizes[reach])
    rows = {stage: np.flatnonzero(matched.stage == stage) for stage in set(matched.stage.tolist())}
    enough = {stage: found for stage, found in rows.items() if len(found) >= FEWEST} or rows
    if DRAFT in enough:
        return enough[DRAFT]
    return min(enough.values(), key=lambda found: float(np.median(length[found])))


def _against(number: int, first: Int, own: Int, middle: int) -> Clock:
    """Offset and drift of one rank by the ends of the same collectives on both."""
    apart = own - first
    # Whole nanoseconds first: bases since 1970 do not fit a double.
    rough = int(np.sort(apart)[len(apart) // 2])
    left = (apart - rough).astype(np.float64)
    passed = (first - middle).astype(np.float64)
    slope = _slope(passed, left)
    rest = left - slope * passed
    offset = float(np.median(rest))
    residual = np.abs(rest - offset)
    return Clock(
        number,
        rough + offset,
        slope * _PPM,
        float(np.median(residual)),
        float(np.quantile(residual, 0.95)),
    )


def _slope(passed: Float, left: Float) -> float:
    """Median of the slopes between pairs; 0 where the drift is not beyond doubt."""
    if len(passed) < FEWEST:
        return 0.0
    some = np.linspace(0, len(passed) - 1, min(len(passed), _MOST_POINTS)).astype(np.int64)
    x, y = passed[some], left[some]
    span = float(x.max() - x.min())
    # Pairs that lie close together say nothing about a slope.
    a, b = np.triu_indices(len(some), 1)
    far = np.abs(x[b] - x[a]) > span / 3
    if not far.any():
        return 0.0
    slope = float(np.median((y[b] - y[a])[far] / (x[b] - x[a])[far]))
    rest = y - slope * x
    scatter = 1.4826 * float(np.median(np.abs(rest - np.median(rest))))
    error = 1.25 * scatter / (np.sqrt(len(some)) * max(float(np.std(x)), 1.0))
    sure = abs(slope) > _SURE * error and abs(slope) * span > _LEAST_DRIFT_NS
    # A clock that was set once within the capture leaves a step, which a line only smears.
    return slope if sure and _misses(rest) < _misses_of_step(y) else 0.0


def _misses(rest: Float) -> float:
    """How far values lie from their median, the furthest left out."""
    apart = np.sort(np.abs(rest - np.median(rest)))
    return float(apart[: max(int(_COUNTED * len(apart)), 1)].mean())


def _misses_of_step(y: Float) -> float:
    """The same for the best of the steps: one level up to a point, another from there on."""
    places = np.linspace(0.05, 0.95, _STEPS) * len(y)
    return min(
        _misses(np.concatenate((y[:at] - np.median(y[:at]), y[at:] - np.median(y[at:]))))
        for at in np.unique(places.astype(np.int64)).tolist()
        if 0 < at < len(y)
    )


def _possible(matched: Matched, clocks: Clocks, start: Int, end: Int) -> Clocks | str:
    """No rank leaves a collective before every rank has begun it."""
    common = [clocks.common(row, times) for row, times in enumerate(start)]
    began = np.max(common, axis=0)
    left = np.min([clocks.common(row, times) for row, times in enumerate(end)], axis=0)
    slack = max(MOST_RESIDUAL_NS, 2 * clocks.spread_ns)
    impossible = float(np.mean(left < began - slack))
    if impossible > MOST_IMPOSSIBLE:
        return (
            f"{100 * impossible:.0f} % of the matched collectives end on one rank before they "
            "begin on another: they are not the same ones, as in traces of two different runs, or "
            "sampled or filtered ones"
        )
    return clocks
