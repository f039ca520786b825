"""Captures of servers that answer as the engines do: what several test modules share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specscope.profiler.capture import Captured, Options
from specscope.profiler.engine_probe import Engine
from specscope.profiler.local_server import LocalServer
from tests.profiler.fake_servers import (
    Fake,
    FakeSglang,
    FakeVllm,
)

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "traces" / "run.schema.json").read_text("utf-8"))


def options(fake: Fake, out: Path, **more: Any) -> Options:
    chosen: dict[str, Any] = {
        "cycles": 5,
        "batch": 2,
        "prompt_tokens": 8,
        "tokens": 91,
        "repetitions": 2,
        "out": out,
        "timeout": 120.0,
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


def engine(local: LocalServer | None, *, at_home: bool = True, name: str = "sglang") -> Engine:
    return Engine(name, local=local, at_home=at_home)


OURS = LocalServer(1, ())
