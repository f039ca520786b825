"""A capture from end to end, on servers that answer as the engines do, and what goes wrong."""

from __future__ import annotations

import gzip
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from specscope.profiler import (
    capture_place,
    capture_warnings,
    gpu_state,
    graph_traces,
    local_server,
    masking,
    recording,
    run_file,
    trace_files,
    vllm_command,
)
from specscope.profiler.capture import Captured, Options, capture
from specscope.profiler.engine_probe import Engine
from specscope.profiler.http_api import Api, Reply
from specscope.profiler.local_server import LocalServer
from specscope.profiler.server_errors import ServerError, UnsuitableError
from specscope.traces.context import read_context
from tests.profiler.fake_servers import (
    SECRET,
    Fake,
    FakeSglang,
    FakeVllm,
    Faults,
    expected_rates,
    trace_bytes,
)

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "traces" / "run.schema.json").read_text("utf-8"))


@pytest.fixture(autouse=True)
def a_quick_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of these servers are seen as soon as they are written."""
    monkeypatch.setattr(recording, "_GRACE_SECONDS", 1.0)
    monkeypatch.setattr(recording, "_PAUSE_SECONDS", 0.05)


def options(fake: Fake, out: Path, **more: Any) -> Options:
    chosen: dict[str, Any] = {
        "cycles": 5,
        "batch": 2,
        "prompt_tokens": 8,
        "tokens": 91,
        "repetitions": 2,
        "out": out,
        "timeout": 20.0,
        "api_key": fake.api_key,
    }
    if isinstance(fake, FakeVllm):
        chosen["profiler_dir"] = fake.folder
    return Options(fake.url, **{**chosen, **more})


def document(done: Captured) -> Any:
    return json.loads(done.run.read_text("utf-8"))


def server(kind: str, tmp_path: Path, **more: Any) -> Fake:
    if kind == "sglang":
        return FakeSglang(**more)
    folder = tmp_path / "server"
    folder.mkdir()
    return FakeVllm(folder=folder, **more)


BOTH = pytest.mark.parametrize("kind", ["sglang", "vllm"])


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


@BOTH
@pytest.mark.parametrize(
    ("writing", "words"),
    [("cut", "0 of 2 traces are whole after 2 s"), ("missing", "missing: rank 1")],
)
def test_files_that_never_come_whole_are_named(
    tmp_path: Path, kind: str, writing: str, words: str
) -> None:
    with (
        server(kind, tmp_path, faults=Faults(writing=writing)) as fake,
        pytest.raises(ServerError, match=words) as raised,
    ):
        capture(options(fake, tmp_path / "out", timeout=2.0))
    assert "\n" not in str(raised.value)


@BOTH
def test_what_was_measured_stays_when_the_profile_fails(tmp_path: Path, kind: str) -> None:
    with (
        server(kind, tmp_path, faults=Faults(dies=True)) as fake,
        pytest.raises(ServerError, match="does not answer"),
    ):
        capture(options(fake, tmp_path / "out"))
    run = json.loads((tmp_path / "out" / "run.json").read_text("utf-8"))
    jsonschema.validate(run, SCHEMA)
    assert run["profile"] is None
    assert run["cycle_ms"] > 0


@BOTH
def test_traces_on_another_disk_are_said_to_be_there(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_server, "find", lambda port: None)
    with server(kind, tmp_path, faults=Faults(writing="nowhere")) as fake:
        more: dict[str, Any] = {"server_out": "/far/away"} if kind == "sglang" else {}
        done = capture(options(fake, tmp_path / "out", **more))
    assert done.traces == ()
    assert f"copy them into {tmp_path / 'out'}" in done.elsewhere
    if kind == "sglang":
        assert "in /far/away" in done.elsewhere
        assert fake.asked("/start_profile")[0]["output_dir"] == "/far/away"
    jsonschema.validate(document(done), SCHEMA)


def test_a_profile_left_running_is_ended_before_anything_is_measured(tmp_path: Path) -> None:
    """Figures measured under it would be wrong, and a new start would throw it away."""
    with FakeSglang() as fake:
        fake._start({"output_dir": str(tmp_path / "theirs"), "num_steps": 10_000})
        done = capture(options(fake, tmp_path / "out"))
        paths = [path for _, path, _ in fake.calls]
    assert paths.index("/stop_profile") < paths.index("/generate")
    assert len(list((tmp_path / "theirs").iterdir())) == 2
    assert len(done.traces) == 2


def test_a_start_that_somebody_elses_profile_swallows_is_named(tmp_path: Path) -> None:
    """SGLang 0.5.23 answers a second start with 200, and keeps the first one's folder."""
    with FakeSglang() as fake:

        def between(text: str) -> None:
            if text.startswith("recording"):
                fake._start({"output_dir": str(tmp_path / "theirs"), "num_steps": 10_000})

        with pytest.raises(ServerError, match="a profile that was running already"):
            capture(options(fake, tmp_path / "out", say=between))


@pytest.mark.parametrize(
    ("kind", "status", "words"),
    [
        ("sglang", 500, "one is running already, POST /stop_profile ends it"),
        ("vllm", 409, "is being profiled already"),
        ("vllm", 500, "does not start its profiler"),
    ],
)
def test_a_profiler_that_does_not_start_is_one_line(
    tmp_path: Path, kind: str, status: int, words: str
) -> None:
    with (
        server(kind, tmp_path, faults=Faults(refuses=status)) as fake,
        pytest.raises(ServerError, match=words),
    ):
        capture(options(fake, tmp_path / "out"))


def test_vllm_without_a_profiler_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with server("vllm", tmp_path, faults=Faults(no_profiler=True)) as fake:
        with pytest.raises(UnsuitableError, match="--profiler-config"):
            capture(options(fake, tmp_path / "out"))
        assert not fake.asked("/v1/completions")
        done = capture(options(fake, tmp_path / "out", profile=False))
    assert document(done)["profile"] is None


def test_vllm_without_counters_is_measured_by_its_tokens(tmp_path: Path) -> None:
    with server("vllm", tmp_path, faults=Faults(no_metrics=True), cycle_seconds=0.005) as fake:
        done = capture(options(fake, tmp_path / "out", profile=False))
    run = document(done)
    assert run["accept_length"] is None
    assert run["step_ms"] > 0


def test_a_profile_is_ended_when_the_user_gives_up(tmp_path: Path) -> None:
    def give_up(text: str) -> None:
        if text.startswith("waiting for traces"):
            raise KeyboardInterrupt

    with FakeSglang(faults=Faults(writing="cut")) as fake:
        with pytest.raises(KeyboardInterrupt):
            capture(options(fake, tmp_path / "out", tick=give_up))
        paths = [path for _, path, _ in fake.calls]
    assert "/stop_profile" in paths[paths.index("/start_profile") :]


def test_the_load_runs_while_the_profile_does(tmp_path: Path) -> None:
    """A profiler that counts steps does not end on an idle server."""
    with FakeSglang(info={"context_length": 110}) as fake:  # less than the cycles to record
        said: list[str] = []
        done = capture(options(fake, tmp_path / "out", cycles=40, tokens=91, say=said.append))
    assert len(done.traces) == 2
    assert any("prefills will lie between the 40 to record" in line for line in said)


# The baseline.


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


# Secrets.


def everything_in(folder: Path) -> str:
    return "".join(p.read_bytes().decode("latin-1") for p in folder.rglob("*") if p.is_file())


def test_a_planted_secret_is_in_nothing_that_is_written_or_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = LocalServer(
        1,
        ("python", "-m", "sglang.launch_server", "--api-key", SECRET, "--x", "1"),
        {"SGLANG_ADMIN_API_KEY": SECRET, "SGLANG_NOTE": f"Bearer {SECRET}"},
    )
    monkeypatch.setattr(local_server, "find", lambda port: local)
    info = {
        "admin_api_key": SECRET,
        "nested": {"hf_token": SECRET, "deep": [f"--api-key={SECRET}", {"password": SECRET}]},
        "served_model_name": f"name-with-{SECRET}-inside",
    }
    said: list[str] = []
    with FakeSglang(api_key=SECRET, info=info) as fake:
        done = capture(options(fake, tmp_path / "out", say=said.append, tick=said.append))
        sent = {headers.get("Authorization") for headers in fake.headers}
    assert sent == {f"Bearer {SECRET}"}
    assert SECRET not in everything_in(tmp_path)
    assert SECRET not in " ".join(said)
    run = document(done)
    jsonschema.validate(run, SCHEMA)
    assert run["server_args"]["nested"]["deep"][1]["password"] == masking.MASK
    assert run["server_args"]["launch_command"].startswith("--model-path target --api-key ***")


def test_a_secret_in_a_command_line_is_masked_where_it_is_not_the_key_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM takes several keys after one --api-key."""
    command = ("vllm", "serve", "m", "--api-key", "first-one", "second-one", "--seed", "1")
    monkeypatch.setattr(local_server, "find", lambda port: LocalServer(1, command))
    with server("vllm", tmp_path, faults=Faults(no_profiler=True)) as fake:
        done = capture(options(fake, tmp_path / "out", profile=False))
    assert "-one" not in everything_in(tmp_path / "out")
    assert document(done)["server_args"]["seed"] == 1


# Where to.


def engine(local: LocalServer | None, *, at_home: bool = True, name: str = "sglang") -> Engine:
    return Engine(name, local=local, at_home=at_home)


OURS = LocalServer(1, ())


@pytest.mark.parametrize(
    ("local", "given", "told"),
    [
        (OURS, {}, "{cwd}/specscope-capture-"),
        (OURS, {"out": Path("x")}, "{cwd}/x"),
        (LocalServer(1, (), same_user=False), {}, "/tmp/specscope-capture-"),
        (LocalServer(1, (), same_disk=False), {}, "/tmp/specscope-capture-"),
        (None, {}, "/tmp/specscope-capture-"),
        (None, {"out": Path("x"), "server_out": "/shared/x"}, "/shared/x"),
    ],
)
def test_a_server_is_only_told_of_a_folder_that_it_can_make(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    local: LocalServer | None,
    given: dict[str, Any],
    told: str,
) -> None:
    """SGLang dies when it cannot make its output folder."""
    monkeypatch.chdir(tmp_path)
    place = capture_place.choose(engine(local), **given)
    assert str(place.told).startswith(told.format(cwd=tmp_path))


def test_a_folder_with_an_earlier_capture_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UnsuitableError, match="already; give --out another"):
        capture_place.choose(engine(OURS), out=tmp_path)


def test_vllms_folder_is_found_by_its_command_or_environment() -> None:
    command = ("vllm", "serve", "m", "--profiler-config", '{"torch_profiler_dir": "t"}')

    local = LocalServer(1, command, folder=Path("/srv"))
    by_command = Engine("vllm", local=local, arguments=vllm_command.arguments(command))
    assert capture_place.choose(by_command, out=Path("o")).watched == Path("/srv/t")
    local = LocalServer(1, (), {"VLLM_TORCH_PROFILER_DIR": "/abs"})
    assert capture_place.choose(Engine("vllm", local=local), out=Path("o")).watched == Path("/abs")
    assert capture_place.choose(Engine("vllm"), out=Path("o")).watched is None


# Files.


@pytest.mark.parametrize(
    ("damage", "whole"),
    [
        (lambda raw: raw, True),
        (lambda raw: raw[:-1], False),
        (lambda raw: raw[:-6], False),
        (lambda raw: raw[: len(raw) // 2], False),
        (lambda raw: raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:], False),
        (lambda raw: raw + raw, True),
        (lambda raw: b"", False),
        (lambda raw: gzip.compress(gzip.decompress(raw)[:-2]), False),
        (gzip.decompress, True),
        (lambda raw: gzip.decompress(raw)[:-2], False),
    ],
)
def test_a_file_is_whole_when_its_trailer_and_its_json_are(
    tmp_path: Path, damage: Callable[[bytes], bytes], whole: bool
) -> None:
    path = tmp_path / "a-TP-0.trace.json.gz"
    path.write_bytes(damage(trace_bytes(0, 4)))
    found = trace_files.read_whole(path)
    assert (found is not None) == whole
    assert found is None or found.world_size == 4


def test_a_file_counts_once_its_size_stands_still(tmp_path: Path) -> None:
    watch = trace_files.Watch(tmp_path)
    path = tmp_path / "a-TP-0.trace.json.gz"
    raw = trace_bytes(0, 2)
    assert watch.look() == trace_files.Standing()
    path.write_bytes(raw[:10])
    assert watch.look().unfinished == (path.name,)
    path.write_bytes(raw)
    assert watch.look().whole == ()
    assert [file.path for file in watch.look().whole] == [path]
    path.write_bytes(raw[:-3])
    assert watch.look().whole == ()


@pytest.mark.parametrize(
    ("name", "is_trace"),
    [
        ("1796017833.8-TP-0.trace.json.gz", True),
        ("rank0.1796.pt.trace.json.gz", True),
        ("dp0_pp0_tp1_dcp0_ep0_rank1.1796.pt.trace.json", True),
        ("host_8235.async_llm.1796.pt.trace.json.gz", False),
        ("rank0.profiler_out.txt", False),
        ("merged-1.trace.json.gz", False),
        ("run.json", False),
        ("1-TP-0-memory.pickle", False),
    ],
)
def test_traces_of_workers_are_told_by_their_names(name: str, is_trace: bool) -> None:
    assert trace_files.is_trace(name) == is_trace


def test_ranks_are_read_out_of_names() -> None:
    names = ("1-TP-3.trace.json.gz", "dp0_pp0_tp1_rank1.2.pt.trace.json.gz", "x.json")
    files = tuple(trace_files.Whole(Path(name), 1, None) for name in names)
    assert trace_files.Standing(files).ranks() == (1, 3)


# The process, the GPUs, the warnings, the graphs.


def test_the_process_behind_a_port_is_found() -> None:
    with FakeSglang() as fake:
        found = local_server.find(fake.port)
    assert found is not None
    assert found.pid == os.getpid()
    assert (found.same_user, found.same_disk) == (True, True)
    assert abs(found.started - time.time()) < 3600 * 24
    assert all(
        name.startswith(local_server.PREFIXES) or name in local_server.NAMES
        for name in found.environment
    )
    assert local_server.find(1) is None


@pytest.mark.parametrize(
    ("host", "is_local"), [("127.0.0.1", True), ("localhost", True), ("192.0.2.1", False)]
)
def test_addresses_of_this_machine_are_known(host: str, is_local: bool) -> None:
    assert local_server.is_local(host) == is_local


def test_the_gpus_are_read_from_nvidia_smi() -> None:
    text = (
        "0, NVIDIA H200, 580.159.04, 1980, 1980, 3201, 413.39, 76424\n"
        "1, NVIDIA H200, 580.159.04, [N/A], 1980, 3201, [Not Supported], 76424\n"
    )
    first, second = gpu_state.read(text)
    assert (first["name"], first["sm_clock_mhz"], first["power_w"]) == ("NVIDIA H200", 1980, 413.39)
    assert (second["sm_clock_mhz"], second["power_w"]) == (None, None)
    assert gpu_state.sample("no-such-program") is None


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
    ("name", "arguments", "environment", "words"),
    [
        ("sglang", {}, {}, "stands still while it writes"),
        ("sglang", {}, {"SGLANG_PROFILE_V2": "1"}, "by stage only"),
        ("vllm", {"profiler_config": {"profiler": "torch"}}, {}, "records stacks"),
        ("vllm", {}, {}, "VLLM_CUSTOM_SCOPES_FOR_PROFILING=1 is not set"),
    ],
)
def test_what_is_known_to_go_wrong_is_said_before(
    name: str, arguments: dict[str, Any], environment: dict[str, str], words: str
) -> None:
    server = Engine(name, arguments=arguments, local=LocalServer(1, (), environment))
    assert any(words in text for text in capture_warnings.before_profiling(server, stacks=False))


def test_a_well_started_vllm_is_not_warned_about() -> None:
    config = {"profiler_config": {"torch_profiler_with_stack": False}}
    local = LocalServer(1, (), {"VLLM_CUSTOM_SCOPES_FOR_PROFILING": "1"})
    server = Engine("vllm", arguments=config, local=local)
    assert capture_warnings.before_profiling(server, stacks=False) == []
    assert len(capture_warnings.before_profiling(server, stacks=True)) == 1


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


def test_graph_captures_of_this_server_are_brought(tmp_path: Path) -> None:
    inner = tmp_path / "server" / "graph_capture_profile"
    inner.mkdir(parents=True)
    (inner / "DecodeCudaGraphRunner_bs_1_rank0.json.gz").write_bytes(b"new")
    stale = inner / "DecodeCudaGraphRunner_bs_8_rank0.json.gz"
    stale.write_bytes(b"old")
    os.utime(stale, (1, 1))
    environment = {"SGLANG_TORCH_PROFILER_DIR": str(tmp_path / "server")}
    local = LocalServer(1, (), environment, started=time.time() - 60)
    found = graph_traces.collect(engine(local), tmp_path / "out")
    assert [path.name for path in found.files] == ["DecodeCudaGraphRunner_bs_1_rank0.json.gz"]
    assert found.files[0].read_bytes() == b"new"


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (Engine("sglang", "0.5.23"), "SGLANG_GRAPH_BATCH_CAPTURE=1 .*--enable-profile-cuda-graph"),
        (Engine("sglang", "0.5.15"), "SGLANG_ENABLE_CUDA_GRAPH_CAPTURE_TRACE=1"),
        (Engine("sglang", "0.5.9"), "0.5.9 writes none"),
        (Engine("vllm", "0.32.0"), '"capture_torch_profiler": true'),
        (
            Engine("sglang", "0.5.23", arguments={"enable_profile_cuda_graph": False}),
            "it was not started for them",
        ),
    ],
)
def test_without_graph_captures_the_start_that_makes_them_is_said(
    tmp_path: Path, server: Engine, words: str
) -> None:
    import re

    found = graph_traces.collect(server, tmp_path)
    assert found.files == ()
    assert re.search(words, found.missing)


def test_a_text_of_run_json_is_ascii_and_ends_in_a_line() -> None:
    text = run_file.text_of({"model": "modèle\u202e", "server_args": {}})
    assert text.isascii()
    assert text.endswith("}\n")


# Before anything is asked of the server.


@pytest.mark.parametrize("where", ["file", "file/below", "/proc/x"])
def test_a_place_that_cannot_be_written_is_said_before_the_server_is_asked(
    tmp_path: Path, where: str
) -> None:
    (tmp_path / "file").write_text("")
    with FakeSglang() as fake:
        with pytest.raises(UnsuitableError, match="cannot write"):
            capture(options(fake, tmp_path / where))
        assert fake.calls == []


def test_a_proof_of_a_folder_leaves_nothing_behind(tmp_path: Path) -> None:
    capture_place.prove(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    capture_place.prove(tmp_path)
    assert tmp_path.is_dir()


def test_two_captures_of_one_second_have_a_folder_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(capture_place, "_name", lambda: "specscope-capture-now")
    with (
        capture_place.claimed(engine(OURS)) as one,
        capture_place.claimed(engine(OURS)) as other,
        capture_place.claimed(engine(OURS, name="vllm")) as third,
    ):
        assert {p.out.name for p in (one, other, third)} == {
            "specscope-capture-now",
            "specscope-capture-now-2",
            "specscope-capture-now-3",
        }
        (one.out / "run.json").write_text("{}")
    assert [path.name for path in tmp_path.iterdir()] == ["specscope-capture-now"]


def test_an_empty_folder_of_the_user_stays(tmp_path: Path) -> None:
    with capture_place.claimed(engine(OURS), out=tmp_path):
        pass
    assert tmp_path.is_dir()


@BOTH
def test_who_gives_up_while_the_profile_starts_ends_it(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = Api.post

    def interrupted(self: Api, path: str, body: Any, **more: Any) -> Reply:
        reply = post(self, path, body, **more)
        if path == "/start_profile":
            raise KeyboardInterrupt
        return reply

    monkeypatch.setattr(Api, "post", interrupted)
    with server(kind, tmp_path) as fake:
        with pytest.raises(KeyboardInterrupt):
            capture(options(fake, tmp_path / "out"))
        paths = [path for _, path, _ in fake.calls]
    assert "/stop_profile" in paths[paths.index("/start_profile", 1) :]
