"""`specscope whatif` from the outside: what goes where, refusals, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from specscope import exits
from specscope.cli import _group
from tests.dashboards import reports
from tests.shared import shared_path
from tests.test_cli import Done

RECORDING = reports.ROOT / reports.BUNDLED
Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*args: str | Path) -> Done:
        capsys.readouterr()
        code = exits.call(_group, ["whatif", "--no-cache", *map(str, args)])
        found = capsys.readouterr()
        return Done(code, found.out, found.err)

    return call


def test_without_a_lever_it_says_what_would_help_most(run: Run) -> None:
    done = run(RECORDING)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("What would help most: ")
    assert "Replayed unchanged: " in done.out
    assert "error 0.00 %" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_a_lever_is_answered_with_range_bound_and_the_assumption_that_decides(run: Run) -> None:
    done = run(RECORDING, "--draft-tp", "1")
    assert done.code == 0
    assert done.out.startswith("the draft on one GPU: the cycle would take ")
    assert "the draft's compute decides" in " ".join(done.out.split())
    assert "What if" in done.out


def test_quiet_is_the_sentence_alone(run: Run) -> None:
    done = run(RECORDING, "--allreduce-speedup", "2", "--quiet")
    assert done.code == 0
    assert len(done.out.splitlines()) == 1
    assert done.out.startswith("all-reduce 2 times as fast: ")


def test_json_holds_every_figure_and_one_grid_per_lever(run: Run) -> None:
    done = run(RECORDING, "--verify-speedup", "2", "--json")
    found = json.loads(done.out)
    assert done.code == 0
    assert found["schema_version"] == 1
    assert abs(found["unchanged"]["error"]) < 0.01
    assert [row["lever"] for row in found["asked"]] == ["verify-speedup"]
    assert {"no-gaps", "allreduce-speedup", "draft-tp", "verify-speedup"} <= set(found["grid"])
    for points in found["grid"].values():
        assert all(point["low"] <= point["cycle_ns"] <= point["high"] for point in points)
    now = next(point for point in found["grid"]["verify-speedup"] if point["value"] == 1)
    assert now["cycle_ns"] == pytest.approx(found["cycle_ns"], rel=1e-6)


def test_predictions_are_made_on_the_cycle_without_the_profiler(run: Run) -> None:
    recorded = json.loads(run(RECORDING, "--json", "--cycle-ms", "1000").out)["perturbation"]
    assert recorded["state"] == "other_server"
    wanted = recorded["profiled_ns"] / 1e6 * 0.985
    done = run(RECORDING, "--json", "--cycle-ms", f"{wanted:.4f}")
    found = json.loads(done.out)
    assert found["perturbation"]["state"] == "corrected"
    assert found["perturbation"]["source"] == "--cycle-ms"
    assert found["cycle_ns"] == pytest.approx(wanted * 1e6, rel=3e-4)
    assert sum(part["ns"] for part in found["perturbation"]["taken"]) == pytest.approx(
        found["perturbation"]["profiled_ns"] - found["cycle_ns"], rel=1e-3
    )


def test_a_lever_that_the_run_cannot_answer_says_what_to_record(run: Run) -> None:
    done = run(RECORDING, "--draft-graph", "--batch", "4")
    assert done.code == 4
    assert "--draft-graph: the draft is launched as a graph already" in done.err
    assert "--batch: " in done.err
    assert len(done.err.splitlines()) == 1
    assert done.out  # the list is printed all the same


def test_beside_a_rate_accept_length_and_batch_are_what_was_measured(run: Run) -> None:
    lever = json.loads(run(RECORDING, "--json", "--accept-length", "2.5").out)
    assert [row["lever"] for row in lever["asked"]] == ["accept-length"]
    args = ("--tokens-per-second", "300", "--accept-length", "2.1", "--batch", "1")
    measured = json.loads(run(RECORDING, "--json", *args).out)
    assert measured["asked"] == []
    assert measured["perturbation"]["reference_ns"] == pytest.approx(7e6)


def test_a_range_of_steps_answers_every_number_of_it(run: Run) -> None:
    done = run(RECORDING, "--json", "--steps", "2..4")
    asked = json.loads(done.out)["asked"]
    assert [(row["lever"], row["value"]) for row in asked] == [("steps", n) for n in "234"]
    assert json.loads(run(RECORDING, "--json", "--steps", "3").out)["asked"] == asked[1:2]


def test_a_reference_a_little_longer_than_the_recording_anchors_the_rates(run: Run) -> None:
    recorded = json.loads(run(RECORDING, "--json").out)["perturbation"]["profiled_ns"]
    args = (RECORDING, "--json", "--cycle-ms", f"{recorded * 1.02 / 1e6:.6f}")
    found = json.loads(run(*args).out)
    assert found["perturbation"]["state"] == "agrees"
    length = found["tokens_per_second"] * recorded * 1.02 / 1e9 / 8
    assert length == pytest.approx(float(found["acceptance"].split()[0]), abs=0.006)
    assert any("tokens/s are of the cycle without a profiler" in one for one in found["notes"])


def test_the_steps_on_record_give_the_present_rate(run: Run) -> None:
    found = json.loads(run(RECORDING, "--json").out)
    now = found["steps"]["rows"][2]
    assert now["cycle_ns"] == pytest.approx([found["cycle_ns"]] * 2)
    assert now["tokens_per_second"] == pytest.approx([found["tokens_per_second"]] * 2)


def test_few_cycles_and_ranges_of_hooks_still_give_batch_steps_and_a_rate(run: Run) -> None:
    path = shared_path("cases", "a11_three_draft_steps.json")
    done = run(path, "--batch", "1", "--accept-length", "3", "--json")
    found = json.loads(done.out)
    length, batch = found["asked"]
    assert (done.code, length["refused"], batch["refused"]) == (0, None, None)
    assert length["tokens_per_second"] == pytest.approx([3e9 / found["cycle_ns"]] * 2)
    assert "steps" in found["grid"]
    said = run(path, "--accept-length", "3").out
    assert said.startswith("accept length 3: ")
    assert "tokens/s" in said.splitlines()[0]
    refused = run(path, "--accept-length", "5", "--batch", "2")
    assert "with 3 draft tokens it lies between 1 and 4" in refused.err
    assert "What if" not in refused.out.splitlines()


@pytest.mark.parametrize(
    "args",
    [
        ("--draft-tp", "2"),
        ("--steps", "0"),
        ("--steps", "9"),
        ("--steps", "1..9"),
        ("--steps", "3..2"),
        ("--steps", "1.."),
        ("--allreduce-speedup", "0"),
        ("--verify-speedup", "nan"),
    ],
)
def test_a_value_that_cannot_be_meant_is_wrong_usage(run: Run, args: tuple[str, str]) -> None:
    done = run(RECORDING, *args)
    assert done.code == 2
    assert len(done.err.splitlines()) == 1


def test_a_file_that_is_no_trace_is_unreadable(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a trace")
    assert run(path).code == 3
