"""A toy engine on the path, and a record of the ranges that the hooks open."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specscope.profiler import attach, grammar, ranges
from tests import waiting
from tests.profiler import toys, toys_unrun

WRITERS = ("specscope-cycle-log", "server log", "specscope-load")
TOYS = ("sglang", "vllm", "lmdeploy", "tensorrt_llm")


class Record:
    """Stands in for the emitters: what was opened, in which order, and whether it was closed."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, dict[str, Any]]] = []
        self.accepted: list[tuple[int | None, list[int]]] = []
        self.depth = 0
        self.raises = False

    def stage(self, name: str, **fields: Any) -> Any:
        return _Range(self, name, {k: v for k, v in fields.items() if v is not None})

    def open_stage(self, name: str, values: tuple[int | None, ...]) -> Any:
        opened = self.stage(name, **dict(zip(grammar.FIELDS.values(), values, strict=True)))
        opened.__enter__()
        return opened

    @property
    def stages(self) -> list[str]:
        return [name for name, _ in self.opened]

    def of(self, stage: str) -> dict[str, Any]:
        return next(fields for name, fields in self.opened if name == stage)


class _Range:
    def __init__(self, record: Record, name: str, fields: dict[str, Any]) -> None:
        self.record, self.name, self.fields = record, name, fields

    def __enter__(self) -> None:
        if self.record.raises:
            raise RuntimeError("on purpose")
        self.record.opened.append((self.name, self.fields))
        self.record.depth += 1

    def __exit__(self, *raised: object) -> None:
        self.record.depth -= 1


@pytest.fixture(autouse=True)
def no_writer_is_left() -> Iterator[None]:
    """A thread that goes on behind its test takes its share of the time of all later ones."""
    before = set(threading.enumerate())
    yield
    ranges.shutdown()
    for thread in set(threading.enumerate()) - before:
        if thread.name in WRITERS:
            waiting.joined(thread)


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Record:
    out = Record()
    monkeypatch.setattr(ranges, "open_stage", out.open_stage)
    monkeypatch.setattr(ranges.STATE, "heard", True)
    monkeypatch.setattr(type(ranges.STATE), "settle", lambda state: None)
    monkeypatch.setattr(
        ranges,
        "record_accept",
        lambda cycle, lengths: out.accepted.append((cycle, list(lengths))),
    )
    monkeypatch.setattr(
        ranges,
        "record_drafts",
        lambda cycle, drafts, bonus: out.accepted.append((cycle, [n + bonus for n in drafts])),
    )
    return out


class Engine:
    """The toy packages: imports their modules."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str) -> Any:
        return importlib.import_module(name)

    @property
    def eagle(self) -> Any:
        return self("sglang.srt.speculative.eagle_worker_v2")


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    packages = (toys.SGLANG, toys.VLLM, toys_unrun.LMDEPLOY, toys_unrun.TENSORRT_LLM)
    folder = toys.write(tmp_path / "site", *packages)
    for variable in (attach.DISABLE, attach.LOG_FOLDER, attach.COLLECTIVES):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.syspath_prepend(str(folder))
    yield Engine(folder)
    attachment = attach.current()
    if attachment is not None:
        attachment.detach()
    for name in [name for name in sys.modules if name.partition(".")[0] in TOYS]:
        del sys.modules[name]
