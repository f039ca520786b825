"""The engine's device timers beside the stages of the trace."""

from __future__ import annotations

from typing import Any

import pytest

from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.device_check import check_of
from specscope.analyzers.inputs import Inputs
from specscope.traces.server_metrics import DeviceSeconds
from tests.shared import shared_path


def device(**seconds: float) -> DeviceSeconds:
    return DeviceSeconds("metrics m.txt", tuple(sorted(seconds.items())), True)


class _Share:
    """What the check asks of a stage."""

    rank = None

    def __init__(self, stage: str, work_ns: float) -> None:
        self.stage, self.work_ns = stage, work_ns


def shares(**work: float) -> Any:
    return [_Share(stage, ns) for stage, ns in work.items()]


def test_stages_are_compared_as_parts_of_their_own_sum() -> None:
    found = check_of(
        device(target_verify=9.0, eagle_draft=1.0, idle=50.0, extend=3.0),
        shares(verify=8.0, draft=2.0, schedule=5.0),
    )
    assert found is not None
    assert [(row.stage, row.share, row.trace_share) for row in found.rows] == [
        ("verify", 0.9, 0.8),
        ("draft", 0.1, 0.2),
    ]
    assert found.left_out == ("extend", "idle")


def test_verify_is_compared_without_accept_where_they_are_told_apart() -> None:
    found = check_of(
        device(target_verify=9.0, eagle_draft=1.0),
        shares(verify=18.0, verify_only=6.0, draft=2.0),
    )
    assert found is not None
    assert found.rows[0].trace_share == pytest.approx(0.75)


@pytest.mark.parametrize("seconds", [{}, {"decode": 4.0}, {"target_verify": 4.0}])
def test_one_stage_alone_is_no_comparison(seconds: dict[str, float]) -> None:
    assert check_of(device(**seconds), shares(verify=8.0, draft=2.0)) is None


def test_a_recording_is_held_against_them() -> None:
    import specscope

    run = specscope.load(shared_path("traces", "own", "tp2-8b-eagle3-k3-nvlink-bs1"), cache=False)
    given = device(target_verify=8.0, eagle_draft=1.0, eagle_draft_extend=1.0)
    found = analyze(run, Options(inputs=Inputs(device=given))).throughput
    assert found is not None
    assert found.device is not None
    by_stage = {row.stage: row.trace_share for row in found.device.rows}
    assert sum(share or 0 for share in by_stage.values()) == pytest.approx(1)
    assert (by_stage["verify"] or 0) > 0.8
