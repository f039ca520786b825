"""Where acceptance comes from: files beside the traces, the cycle log; which source counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import specscope
from specscope.analyzers import acceptance_sources
from specscope.analyzers.acceptance import Acceptance
from specscope.analyzers.acceptance_sources import of_file, of_served, sources
from specscope.analyzers.inputs import Inputs
from specscope.analyzers.unprofiled import Reference
from specscope.profiler.cycle_log_rows import Row
from specscope.profiler.cycle_log_writer import Identity, Pieces
from specscope.traces.context import read_context
from specscope.traces.run import Run
from specscope.traces.served import Served


def log(folder: Path, lengths: list[list[int]], *, k: int = 3) -> Run:
    folder.mkdir(exist_ok=True)
    pieces = Pieces(
        folder, Identity(0, 1, 10**18, 10**18, pid=1), piece_bytes=1 << 20, total_bytes=1 << 30
    )
    rows = []
    for number, each in enumerate(lengths):
        values = (number, None, len(each), None, k, None, None)
        at = number * 1_000_000
        rows.append(Row.of("cycle", values, at, at + 950_000, 1))
        rows.append(Row.of("draft", values, at, at + 300_000, 1))
        rows.append(Row.of("verify", values, at + 300_000, at + 900_000, 1))
        rows.append(Row.accept(number, each, at + 900_000, 1))
    pieces.write(rows)
    pieces.close()
    return specscope.load(folder)


def context(folder: Path, **content: Any) -> dict[str, Any]:
    (folder / "meta.json").write_text(json.dumps(content))
    known, notes = read_context(folder)
    assert notes == []
    return known


def test_a_cycle_log_gives_length_and_positions(tmp_path: Path) -> None:
    """Lengths 1, 3, 4, 2 and six more of 1: 10 sequence-cycles, 16 tokens."""
    run = log(tmp_path / "log", [[1, 3], [4, 2], [1, 1], [1, 1], [1, 1]])
    found = specscope.analyze(run).throughput
    assert found is not None
    assert found.acceptance is not None
    assert found.acceptance.source == "cycle log"
    assert found.acceptance.accept_length == pytest.approx(1.6)
    assert found.acceptance.cycles == 10
    assert found.acceptance.by_position == pytest.approx((0.3, 0.2, 0.1))
    assert found.tokens_per_second is not None


def test_a_file_beside_the_log_goes_before_it_and_the_log_keeps_its_positions(
    tmp_path: Path,
) -> None:
    run = log(tmp_path / "log", [[1, 3]] * 5)
    (tmp_path / "log" / "run.json").write_text(json.dumps({"accept_length": 2.5, "batch": 2}))
    run = specscope.load(tmp_path / "log")
    found = sources(run, Reference(), Inputs(), 3)
    assert [one.source for one in found] == ["run.json", "cycle log"]
    assert found[0].by_position == ()
    assert found[1].by_position == pytest.approx((0.5, 0.5, 0.0))


def test_the_order_is_option_files_run_json(tmp_path: Path) -> None:
    run = Run((), context={"accept_length": 2.0, "source": "run.json"})
    named = tuple(Served(name, "vllm", accept_length=3.0, cycles=9) for name in ("a", "b"))
    found = sources(run, Reference(accept_length=4.0), Inputs(served=named), 3)
    assert [one.source for one in found] == ["--accept-length", "a", "b", "run.json"]


def test_a_histogram_of_meta_json_gives_positions_of_all_steps(tmp_path: Path) -> None:
    info = {"spec_correct_drafts_histogram": [0, 212, 29], "spec_verify_ct": 241}
    known = context(tmp_path, unprofiled={"accept_length": 2.12, "server_spec_info": info})
    found = of_file(known, 3, False)
    assert found is not None
    assert found.by_position == pytest.approx((1.0, 29 / 241, 0.0))
    assert found.cycles == 241


def test_rates_of_run_json_go_before_a_histogram(tmp_path: Path) -> None:
    info = {"spec_accept_histogram": [1, 1]}
    known = context(tmp_path, accept_by_position=[0.8, 0.5], unprofiled={"server_spec_info": info})
    found = of_file(known, 2, False)
    assert found is not None
    assert found.by_position == (0.8, 0.5)
    assert found.accept_length == pytest.approx(2.3)


@pytest.mark.parametrize(
    "content",
    [
        {"accept_by_position": [0.5, 0.8]},  # they never rise
        {"accept_by_position": [1.5]},
        {"accept_by_position": ["a"]},
        {"accept_by_position": {"0": 1}},
        {"accept_by_position": [True]},
        {"simulated_acceptance": "yes"},
        {"unprofiled": {"server_spec_info": {"spec_accept_histogram": [-1]}}},
        {"baseline": {"step_ms": -3}},
    ],
)
def test_values_that_cannot_be_meant_are_left_out_and_said(
    tmp_path: Path, content: dict[str, Any]
) -> None:
    (tmp_path / "run.json").write_text(json.dumps(content))
    known, (note,) = read_context(tmp_path)
    assert known == {"source": "run.json"}
    assert note.code == "context_value"


def test_run_json_of_a_run_without_speculation_has_no_positions_and_no_note(
    tmp_path: Path,
) -> None:
    assert context(tmp_path, accept_by_position=[], accept_length=None)["source"] == "meta.json"
    assert of_file({"accept_by_position": []}, None, False) is None


@pytest.mark.parametrize(("k", "length"), [(3, 1 + 167 / (259 / 3)), (None, None)])
def test_an_old_log_of_vllm_needs_k(k: int | None, length: float | None) -> None:
    served = Served("server log x", "vllm", accepted=167, drafted=259)
    found = of_served(served, {}, k, False)
    assert (found.accept_length if found else None) == (length and pytest.approx(length))
    if found is not None:
        assert found.rate == pytest.approx(0.645, abs=0.0005)


def test_a_rate_of_an_old_sglang_is_converted_and_of_no_version_left_out() -> None:
    served = Served("x", "sglang", accept_length=2.1, cycles=9, rate=2.1 / 4)
    old = of_served(served, {"engine_version": "0.5.9"}, 3, False)
    unknown = of_served(served, {}, 3, False)
    assert old is not None
    assert unknown is not None
    assert old.rate == pytest.approx(1.1 / 3)
    assert unknown.rate is None


def test_a_simulating_server_is_named_with_every_source_but_the_option() -> None:
    run = Run((), context={"accept_length": 2.0, "simulated_acceptance": True})
    named = (Served("server log x", "sglang", accept_length=2.0, cycles=9),)
    found = sources(run, Reference(accept_length=2.0), Inputs(served=named), 3)
    assert [one.simulated for one in found] == [False, True, True]
    assert found[1].name == "2.00 (server log x, simulated by the server)"


def test_lengths_that_cannot_be_are_not_counted(tmp_path: Path) -> None:
    run = log(tmp_path / "log", [[0, 2], [-1, 2]])
    found = acceptance_sources.of_log(run.ranks[0], 3, False)
    assert found == Acceptance(2.0, "cycle log", False, (1.0, 0.0, 0.0), 2.0)
