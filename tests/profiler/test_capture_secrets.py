"""No key is in anything that a capture writes or says."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from specscope.profiler import (
    local_server,
    masking,
    recording,
    run_file,
)
from specscope.profiler.capture import capture
from specscope.profiler.local_server import LocalServer
from tests.profiler.captures import SCHEMA, document, options, server
from tests.profiler.fake_servers import (
    SECRET,
    FakeSglang,
    Faults,
)


@pytest.fixture(autouse=True)
def a_quick_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of these servers are seen as soon as they are written."""
    monkeypatch.setattr(recording, "_GRACE_SECONDS", 1.0)
    monkeypatch.setattr(recording, "_PAUSE_SECONDS", 0.05)


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


def test_a_text_of_run_json_is_ascii_and_ends_in_a_line() -> None:
    text = run_file.text_of({"model": "modèle\u202e", "server_args": {}})
    assert text.isascii()
    assert text.endswith("}\n")
