"""A capture that fails: one line that says why, what was measured stays, no profile runs on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from specscope.profiler import (
    local_server,
    recording,
)
from specscope.profiler.capture import capture
from specscope.profiler.http_api import Api, Reply
from specscope.profiler.server_errors import ServerError, UnsuitableError
from tests.profiler.captures import BOTH, SCHEMA, document, options, server
from tests.profiler.fake_servers import (
    FakeSglang,
    Faults,
)


@pytest.fixture(autouse=True)
def a_quick_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of these servers are seen as soon as they are written."""
    monkeypatch.setattr(recording, "_GRACE_SECONDS", 1.0)
    monkeypatch.setattr(recording, "_PAUSE_SECONDS", 0.05)


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


def test_a_profile_is_ended_when_the_user_gives_up(tmp_path: Path) -> None:
    def give_up(text: str) -> None:
        if text.startswith("waiting for traces"):
            raise KeyboardInterrupt

    with FakeSglang(faults=Faults(writing="cut")) as fake:
        with pytest.raises(KeyboardInterrupt):
            capture(options(fake, tmp_path / "out", tick=give_up))
        paths = [path for _, path, _ in fake.calls]
    assert "/stop_profile" in paths[paths.index("/start_profile") :]


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
