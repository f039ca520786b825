"""Reads specscope's ranges out of a trace, and runs what the engine suites share."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from specscope.profiler import grammar
from tests.shared import MISSING, shared_path

Found = list[tuple[float, float, grammar.RangeName]]

# The sitecustomize of somebody else: it must still run, and shows the accept lengths.
OTHER_SITE = """
import json, os
from specscope.profiler import ranges
keep, keep_drafts = ranges.record_accept, ranges.record_drafts
def note(cycle, lengths):
    with open(os.path.join(os.environ["ACCEPT_DIR"], f"{os.getpid()}.jsonl"), "a") as file:
        file.write(json.dumps([cycle, lengths]) + chr(10))
def record_accept(cycle, lengths):
    note(cycle, list(lengths))
    keep(cycle, lengths)
def record_drafts(cycle, drafts, bonus):
    note(cycle, [draft + bonus for draft in drafts])
    keep_drafts(cycle, drafts, bonus)
ranges.record_accept, ranges.record_drafts = record_accept, record_drafts
"""


def tiny_models(python: str, variable: str, out: Path) -> Path:
    """The tiny models, made; skips, loudly, without an interpreter that has the engine."""
    if not python:
        MISSING.append(variable)
        pytest.skip(f"{variable} names no interpreter with the engine")
    maker = shared_path("engines-cpu", "make_tiny_models.py")
    subprocess.run([python, maker, "--out", out], check=True, capture_output=True)
    return out


def ranges_of(path: Path) -> Found:
    """specscope's ranges in a gzipped trace: (start, end, name), outer ones first."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    out = []
    for event in events:
        name = grammar.read(str(event.get("name", "")))
        if name is not None and event.get("ph") == "X":
            out.append((event["ts"], event["ts"] + event["dur"], name))
    return sorted(out, key=lambda item: (item[0], -item[1]))


def by_cycle(found: Found) -> dict[int | None, list[grammar.RangeName]]:
    """The ranges of each cycle number, in order."""
    out: dict[int | None, list[grammar.RangeName]] = defaultdict(list)
    for _, _, name in found:
        out[name.cycle].append(name)
    return out


def nested(found: Found) -> bool:
    """Whether every range lies wholly inside or outside of every other one."""
    open_until: list[float] = []
    for start, end, _ in found:
        while open_until and open_until[-1] <= start:
            open_until.pop()
        if open_until and end > open_until[-1]:
            return False
        open_until.append(end)
    return True


def accept_lengths(folder: Path) -> list[tuple[int | None, list[int]]]:
    """What `OTHER_SITE` wrote, over all processes."""
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return [(cycle, lengths) for cycle, lengths in map(json.loads, lines)]
