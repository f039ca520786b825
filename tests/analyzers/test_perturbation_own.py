"""The cycle without the profiler, held against CUDA events taken without one.

The events are of other starts of the same servers, so the reference is the events' own cycle.
"""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from specscope.analyzers.perturbation import Corrected, correct, cost_taken
from specscope.analyzers.replay import replay
from tests.analyzers import own_replays

EVENTS = own_replays.OWN / "events-unprofiled"
STAGES = ("draft", "verify", "draft_extend")
# Recording: the server whose events are the truth, and its cycle in milliseconds.
REFERENCES = {
    "tp2-8b-eagle3-k3-nvlink-bs1": ("tp2-8b-nvlink-bs1", 6.54),
    "tp2-8b-eagle3-k3-nvlink-bs1-100cycles": ("tp2-8b-nvlink-bs1", 6.54),
    "tp2-8b-eagle3-k3-nvlink-bs1-hooked": ("tp2-8b-nvlink-bs1", 6.54),
    "tp2-70b-eagle3-k3-nvlink-bs1": ("tp2-70b-nvlink-bs1", 26.07),
    "tp2-70b-eagle3-k3-nvlink-bs8": ("tp2-70b-nvlink-bs8", 29.30),
    "tp2-70b-eagle3-k3-shm-bs1": ("tp2-70b-shm-bs1", 27.85),
    "tp2-70b-eagle3-k3-shm-bs8": ("tp2-70b-shm-bs8", 36.75),
    "tp4-70b-eagle3-k3-shm-bs1": ("tp4-70b-shm-bs1", 19.74),
    "tp4-70b-eagle3-k3-shm-bs1-hooked": ("tp4-70b-shm-bs1", 19.74),
}
# CUDA events of the first cycles are of a server that warms up.
_WARM = 5


@cache
def truth_of(server: str) -> dict[str, float]:
    """Medians over the cycles, mean over the ranks, in milliseconds."""
    ranks = []
    for path in sorted(EVENTS.glob(f"{server}-gpu*.json")):
        rows = json.loads(path.read_text())[_WARM:]
        ranks.append([np.median([row[f"{stage}_ms"] for row in rows]) for stage in STAGES])
    return dict(zip(STAGES, np.mean(ranks, axis=0).tolist(), strict=True))


@cache
def corrected_of(name: str) -> Corrected:
    return correct(own_replays.replay_of(name), (REFERENCES[name][1] * 1e6, "--cycle-ms"))


def by_shares(name: str) -> dict[str, float]:
    """The first simple rule: the recorded share of the reference."""
    report = own_replays.report_of(name)
    return {stage: report.share(stage).cycle_share.value * REFERENCES[name][1] for stage in STAGES}


def by_even_idle(name: str) -> dict[str, float]:
    """The second: work as recorded, idle shrunk evenly until the cycle fits."""
    report, reference = own_replays.report_of(name), REFERENCES[name][1]
    cycle = corrected_of(name).profiled_ns / 1e6
    rows = [row for row in report.shares if row.rank is None and row.part_of is None]
    work = sum(row.work_share for row in rows) * cycle
    kept = (reference - work) / (sum(row.idle_share for row in rows) * cycle)
    shares = {stage: report.share(stage) for stage in STAGES}
    return {
        stage: (row.work_share + kept * row.idle_share) * cycle for stage, row in shares.items()
    }


@pytest.mark.parametrize("name", REFERENCES)
def test_corrected_stages_are_those_of_the_events(name: str) -> None:
    one, truth = corrected_of(name), truth_of(REFERENCES[name][0])
    assert one.state == "corrected"
    assert one.cycle_ns == pytest.approx(REFERENCES[name][1] * 1e6, rel=2e-4)
    found = {stage: (one.stage_ns(stage) or 0) / 1e6 for stage in STAGES}
    assert found["verify"] == pytest.approx(truth["verify"], rel=0.05)
    assert found["draft"] == pytest.approx(truth["draft"], abs=0.2)
    assert found["draft_extend"] == pytest.approx(truth["draft_extend"], abs=0.2)


def mean_errors(guesses: dict[str, dict[str, float]]) -> dict[str, float]:
    """Mean absolute error of each stage over the recordings, in milliseconds."""
    return {
        stage: float(
            np.mean(
                [abs(guesses[n][stage] - truth_of(REFERENCES[n][0])[stage]) for n in REFERENCES]
            )
        )
        for stage in STAGES
    }


def test_the_replay_errs_less_than_either_simple_rule_in_every_stage() -> None:
    own = {
        name: {stage: (corrected_of(name).stage_ns(stage) or 0) / 1e6 for stage in STAGES}
        for name in REFERENCES
    }
    errors = mean_errors(own)
    for rule in (by_shares, by_even_idle):
        other = mean_errors({name: rule(name) for name in REFERENCES})
        assert all(errors[stage] < other[stage] for stage in STAGES), (errors, other)


def test_idle_shrunk_evenly_reads_verify_of_a_host_bound_server_too_high() -> None:
    name = "tp2-8b-eagle3-k3-nvlink-bs1"
    truth = truth_of(REFERENCES[name][0])["verify"]
    assert by_even_idle(name)["verify"] / truth > 1.08


def test_it_says_where_the_profiler_stretched_the_cycle() -> None:
    one = corrected_of("tp2-8b-eagle3-k3-nvlink-bs1")
    assert [part.what for part in one.taken] == ["graph launches", "kernel launches"]
    assert sum(part.ns for part in one.taken) == pytest.approx(one.profiled_ns - one.cycle_ns)
    assert "stretched the cycle by 36." in one.text
    bound = corrected_of("tp2-70b-eagle3-k3-nvlink-bs1")
    assert [part.what for part in bound.taken] == ["graph launches"]


def test_the_more_is_taken_the_earlier_everything_is() -> None:
    one = own_replays.replay_of("tp2-8b-eagle3-k3-nvlink-bs1")
    lengths = cost_taken(one)
    times = [replay(one.plan, lengths(amount)) for amount in np.linspace(0, 3, 13)]
    assert all((later <= earlier).all() for earlier, later in zip(times, times[1:], strict=False))
    assert (lengths(0.0) == one.graph.edges.ns).all()


@pytest.mark.parametrize(
    ("cycle_ms", "says"), [(9.3, "longer than the profiled one"), (4.0, "shorter than the GPU's")]
)
def test_a_cycle_of_another_server_corrects_nothing(cycle_ms: float, says: str) -> None:
    one = correct(
        own_replays.replay_of("tp2-8b-eagle3-k3-nvlink-bs1"), (cycle_ms * 1e6, "--cycle-ms")
    )
    assert one.state == "other_server"
    assert says in one.text
    assert one.cycle_ns == one.profiled_ns


def test_a_cycle_hardly_longer_than_the_profiled_one_agrees() -> None:
    one = correct(own_replays.replay_of("tp4-70b-eagle3-k3-shm-bs8"), (31.63e6, "meta.json"))
    assert one.state == "agrees"
    assert one.cycle_ns == one.profiled_ns


def test_without_a_reference_it_says_that_predictions_are_of_the_profiled_cycle() -> None:
    one = correct(own_replays.replay_of("tp2-8b-eagle3-k3-nvlink-bs1"), None)
    assert one.state == "profiled"
    assert "--cycle-ms" in one.text
