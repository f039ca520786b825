"""A capture from end to end: the traces of all ranks, run.json, a baseline."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from specscope.profiler import (
    gpu_state,
    local_server,
    recording,
    trace_files,
)
from specscope.profiler.capture import capture
from specscope.profiler.local_server import LocalServer
from specscope.profiler.server_errors import UnsuitableError
from specscope.traces.context import read_context
from tests.profiler.captures import BOTH, SCHEMA, document, options, server
from tests.profiler.fake_servers import (
    FakeSglang,
    Faults,
    expected_rates,
    trace_bytes,
)


@pytest.fixture(autouse=True)
def a_quick_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of these servers are seen as soon as they are written."""
    monkeypatch.setattr(recording, "_GRACE_SECONDS", 1.0)
    monkeypatch.setattr(recording, "_PAUSE_SECONDS", 0.05)


@BOTH
def test_a_capture_leaves_the_traces_of_all_ranks_and_run_json(tmp_path: Path, kind: str) -> None:
    with server(kind, tmp_path) as fake:
        done = capture(options(fake, tmp_path / "out"))
    assert [trace_files.read_whole(path) is not None for path in done.traces] == [True, True]
    assert {path.parent for path in done.traces} == {tmp_path / "out"}
    assert done.elsewhere == ""
    run = document(done)
    jsonschema.validate(run, SCHEMA)
    assert run["engine"] == kind
    assert run["accept_length"] == pytest.approx(3.0, abs=0.2)
    assert run["accept_by_position"] == pytest.approx(expected_rates(), abs=0.1)
    assert run["profile"]["files"] == sorted(path.name for path in done.traces)


@BOTH
def test_the_context_of_the_traces_has_what_was_measured(tmp_path: Path, kind: str) -> None:
    with server(kind, tmp_path) as fake:
        done = capture(options(fake, tmp_path / "out"))
    context, notes = read_context(tmp_path / "out")
    run = document(done)
    assert notes == []
    for key in ("cycle_ms", "tokens_per_second", "accept_length", "batch", "k", "engine"):
        assert context[key] == run[key]
    assert context["accept_by_position"] == run["accept_by_position"]
    assert context["source"] == "run.json"


@BOTH
def test_the_profile_is_bounded_in_steps(tmp_path: Path, kind: str) -> None:
    with server(kind, tmp_path) as fake:
        capture(options(fake, tmp_path / "out", cycles=6))
    (body,) = fake.asked("/start_profile")[-1:]
    assert body["num_steps" if kind == "sglang" else "max_iterations"] >= 8


def test_sglang_is_never_profiled_by_stage_and_stacks_are_said_outright(tmp_path: Path) -> None:
    """Stacks are on in SGLang when a request does not say."""
    for stacks in (False, True):
        with FakeSglang() as fake:
            capture(options(fake, tmp_path / str(stacks), stacks=stacks))
        (body,) = fake.asked("/start_profile")
        assert (body["with_stack"], body["profile_by_stage"]) == (stacks, False)
        assert body["output_dir"] == str(tmp_path / str(stacks))


def test_vllm_is_stopped_once_and_its_front_end_is_left_out(tmp_path: Path) -> None:
    with server("vllm", tmp_path) as fake:
        done = capture(options(fake, tmp_path / "out"))
    assert len([call for call in fake.calls if call[:2] == ("POST", "/stop_profile")]) == 1
    assert not [path for path in done.traces if "async_llm" in path.name]
    assert len(list((tmp_path / "server").glob("*"))) == 3  # the server's own stay


def test_an_older_capture_in_the_servers_folder_is_not_taken(tmp_path: Path) -> None:
    with server("vllm", tmp_path) as fake:
        old = tmp_path / "server" / "rank0.1600000000000000000.pt.trace.json.gz"
        old.write_bytes(trace_bytes(0, 2))
        done = capture(options(fake, tmp_path / "out"))
    assert old.name not in {path.name for path in done.traces}


@BOTH
def test_files_that_still_grow_are_waited_for(tmp_path: Path, kind: str) -> None:
    with server(kind, tmp_path, faults=Faults(writing="slow")) as fake:
        done = capture(options(fake, tmp_path / "out"))
    assert [path.read_bytes() for path in done.traces] == [trace_bytes(0, 2), trace_bytes(1, 2)]


def test_vllm_without_counters_is_measured_by_its_tokens(tmp_path: Path) -> None:
    with server("vllm", tmp_path, faults=Faults(no_metrics=True), cycle_seconds=0.005) as fake:
        done = capture(options(fake, tmp_path / "out", profile=False))
    run = document(done)
    assert run["accept_length"] is None
    assert run["step_ms"] > 0


def test_the_load_runs_while_the_profile_does(tmp_path: Path) -> None:
    """A profiler that counts steps does not end on an idle server."""
    with FakeSglang(info={"context_length": 110}) as fake:  # less than the cycles to record
        said: list[str] = []
        done = capture(options(fake, tmp_path / "out", cycles=40, tokens=91, say=said.append))
    assert len(done.traces) == 2
    assert any("prefills will lie between the 40 to record" in line for line in said)


@BOTH
def test_a_plain_server_is_measured_the_same_way(tmp_path: Path, kind: str) -> None:
    (tmp_path / "plain").mkdir()
    with (
        server(kind, tmp_path) as fake,
        server(kind, tmp_path / "plain", speculates=False, cycle_seconds=0.004) as plain,
    ):
        done = capture(options(fake, tmp_path / "out", baseline_url=plain.url))
        lengths = {len(rows) for rows in plain.prompts}
    run = document(done)
    jsonschema.validate(run, SCHEMA)
    assert run["baseline"]["step_ms"] == pytest.approx(plain.real_cycle_ms(), rel=0.4)
    assert run["baseline"]["url"] == plain.url
    assert lengths == {2}
    assert read_context(tmp_path / "out")[0]["baseline_step_ms"] == run["baseline"]["step_ms"]


def test_a_plain_server_measured_earlier_is_taken_from_its_run_json(tmp_path: Path) -> None:
    with FakeSglang(speculates=False) as plain:
        earlier = capture(options(plain, tmp_path / "plain", profile=False))
    assert "cycle_ms" not in document(earlier)
    said: list[str] = []
    with FakeSglang() as fake:
        done = capture(
            options(
                fake,
                tmp_path / "out",
                profile=False,
                batch=3,
                baseline_run=tmp_path / "plain",
                say=said.append,
            )
        )
    run = document(done)
    jsonschema.validate(run, SCHEMA)
    assert run["baseline"]["step_ms"] == document(earlier)["step_ms"]
    assert any("the baseline has batch 2, this server 3" in line for line in said)
    with FakeSglang() as fake, pytest.raises(UnsuitableError, match="no step_ms"):
        capture(options(fake, tmp_path / "again", profile=False, baseline_run=tmp_path / "out"))


def test_a_baseline_that_speculates_is_refused(tmp_path: Path) -> None:
    with (
        FakeSglang() as fake,
        FakeSglang() as other,
        pytest.raises(UnsuitableError, match=r"speculates \(EAGLE3\)"),
    ):
        capture(options(fake, tmp_path / "out", baseline_url=other.url))


def test_the_gpus_are_looked_at_under_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = threading.Event()
    seen = []

    def sample() -> list[dict[str, Any]]:
        seen.append(busy.is_set())
        return [{"name": "NVIDIA H200", "index": 0}]

    class Watched(FakeSglang):
        def run(self, batch: int, tokens: int) -> tuple[int, list[int]]:
            busy.set()
            try:
                return super().run(batch, tokens)
            finally:
                busy.clear()

    monkeypatch.setattr(gpu_state, "sample", sample)
    with Watched(cycle_seconds=0.01) as fake:
        done = capture(options(fake, tmp_path / "out", profile=False))
    assert seen == [True, True]
    run = document(done)
    jsonschema.validate(run, SCHEMA)
    assert run["gpus"][0]["name"] == "NVIDIA H200"


@pytest.mark.parametrize(
    ("environment", "simulated"),
    [
        ({"SGLANG_SIMULATE_ACC_LEN": "2.1"}, True),
        ({"SGLANG_SIMULATE_ACC_LEN": "-1"}, False),
        ({}, False),
    ],
)
def test_simulated_acceptance_is_seen_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], simulated: bool
) -> None:
    local = LocalServer(1, (), environment)
    monkeypatch.setattr(local_server, "find", lambda port: local)
    said: list[str] = []
    with FakeSglang() as fake:
        done = capture(options(fake, tmp_path / "out", profile=False, say=said.append))
    assert document(done)["simulated_acceptance"] is simulated
    assert any("acceptance is simulated" in line for line in said) is simulated


def test_simulated_acceptance_of_a_far_server_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_server, "find", lambda port: None)
    with FakeSglang() as fake:
        done = capture(options(fake, tmp_path / "out", profile=False))
    assert document(done)["simulated_acceptance"] is None
