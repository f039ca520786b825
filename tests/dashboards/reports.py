"""Reports that the tests of the dashboards draw."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import specscope
from specscope.traces.load import load
from tests.analyzers import cases_ranges, cases_sglang, cases_vllm
from tests.analyzers.case import CASES
from tests.build import Timeline

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = "examples/tp2-70b-eagle3"
CAPTURED = "tests/data/own-graph-capture"
# Importing a module of cases registers what it draws.
DRAWN = (cases_ranges, cases_sglang, cases_vllm)

HOSTILE_NAMES = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "\u2028line\u2029sep",
    '=HYPERLINK("x")',
    "{{7*7}}${7*7}",
    "../../outside/evil",
    "a\u202eb\u2066c",
    "\x1b[31mred\x1b[0m\x07\x9b2J",
    "[bold red]markup[/] :boom: @someone #12 www.example.org | `code`",
    "%{customdata} <b>bold</b> $x^2$",
)


@cache
def bundled() -> Any:
    """The report of the bundled recording, read by its path in the repository."""
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        return specscope.analyze(load(BUNDLED, cache=False))
    finally:
        os.chdir(before)


@cache
def with_captures() -> Any:
    """The report of a recording with its graph-capture trace, read by paths in the repository."""
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        captures = specscope.load_capture_traces(CAPTURED)
        return specscope.analyze(load(CAPTURED, cache=False), specscope.Options(captures=captures))
    finally:
        os.chdir(before)


@cache
def drawn(name: str) -> Any:
    """The report of a drawn case."""
    return of(CASES[name]().trace)


def of(*ranks: Timeline) -> Any:
    """The report of drawn ranks; their paths hold nothing of this machine."""
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return specscope.analyze(load(list(write(Path(), *ranks)), cache=False))
        finally:
            os.chdir(before)


def write(folder: Path, *ranks: Timeline) -> list[Path]:
    """One file per rank, named as a server names them."""
    paths = []
    for number, timeline in enumerate(ranks):
        path = folder / f"1712345678-TP-{number}.trace.json"
        path.write_bytes(timeline.to_json())
        paths.append(path)
    return paths


@cache
def hostile() -> Any:
    """The report of a trace whose names attack everything that shows them."""
    return of(hostile_trace())


def hostile_trace() -> Timeline:
    """Five cycles of speculation, every hostile name in each."""
    t = Timeline()
    for c in t.cycles(6, every=200):
        c.mark(f"specscope:draft|c={c.i}|b=1", 1, 100)
        for index, name in enumerate(HOSTILE_NAMES):
            c.launch(2 + 9 * index, 4 + 9 * index, name, 6 + 9 * index, 10 + 9 * index)
        c.mark(f"specscope:verify|c={c.i}|b=1", 101, 190)
        c.launch(110, 112, "void gemm_kernel<\u202e>(<script>)", 120, 180)
    return t
