"""Many runs into one dataset, and questions to it: does a run cost the same when there are more?

    python benchmarks/many_runs.py                  # 10, 100, 1000 runs
    python benchmarks/many_runs.py --quick          # 2 and 4

The runs are synthetic: four cycles of the bundled recording (70B, EAGLE-3, two ranks), shifted in
time, under models, versions and dates that take turns, so that no two are the same recording.
Costs are CPU seconds of the whole process, its start taken off.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import generate

COUNTS: Final = (10, 100, 1000)
QUICK: Final = (2, 4)
RUN_BYTES: Final = 6_000_000  # text of each rank: four whole cycles
AGAIN: Final = 50  # runs that are collected once more
DAY_NS: Final = 86_400 * 10**9
_BASE: Final = re.compile(rb'("baseTimeNanoseconds"\s*:\s*)(\d+)')
MODELS: Final = ("llama70b", "kimi-k2.5", "qwen3-8b")
VERSIONS: Final = ("0.5.11", "0.5.12.post1")

# Each must give the number of runs, or as many rows as there are models.
QUESTIONS: Final = {
    "runs": "SELECT count(*) FROM read_parquet('{0}/runs/**/*.parquet')",
    "share of verify by model": "SELECT model, median(cycle_share) FROM "
    "read_parquet('{0}/stages/**/*.parquet', hive_partitioning = true) "
    "WHERE stage = 'verify' AND rank IS NULL GROUP BY model",
    "runs of one model with their wait": "SELECT run, sum(wait_ns) FROM "
    "read_parquet('{0}/rank_stages/**/*.parquet', hive_partitioning = true) "
    "WHERE model = 'llama70b' AND rank IS NULL GROUP BY run",
}


@dataclass(frozen=True)
class Point:
    """What so many runs cost."""

    runs: int
    cpu_s: float
    again_cpu_s: float  # a run once more, among these: its rows are replaced
    peak_bytes: int
    dataset_bytes: int
    query_s: dict[str, float]

    @property
    def each_ms(self) -> float:
        """CPU milliseconds a run."""
        return 1000 * self.cpu_s / self.runs


def make_runs(folder: Path, count: int) -> list[Path]:
    """So many folders with a run in each."""
    folder.mkdir(parents=True)
    sources = generate.find_recording(generate.EAGLE3)
    if not sources:
        raise SystemExit("no recording found")
    texts = {}
    for source in sources:
        small = folder / source.name.removesuffix(".gz")
        generate.generate(source, small, RUN_BYTES)
        texts[source.name] = small.read_bytes()
        small.unlink()
    meta = json.loads((sources[0].parent / "meta.json").read_text())
    runs = []
    for number in range(count):
        run = folder / f"run-{number:04}"
        run.mkdir()
        for name, text in texts.items():
            (run / name).write_bytes(gzip.compress(_later(text, number), 1, mtime=0))
        own = {
            **meta,
            "model": MODELS[number % len(MODELS)],
            "engine_version": VERSIONS[number % len(VERSIONS)],
        }
        (run / "meta.json").write_text(json.dumps(own))
        runs.append(run)
    return runs


def _later(text: bytes, number: int) -> bytes:
    """The same on another day of the month, and some microseconds later, for every run."""
    by = number % 28 * DAY_NS + number * 1000
    return _BASE.sub(lambda found: found[1] + b"%d" % (int(found[2]) + by), text, count=1)


def collect(
    runs: list[Path], dataset: Path, *, ray: bool = False, code: int = 0
) -> tuple[float, int]:
    """CPU seconds and peak memory of `specscope collect`, which must end with that code."""
    before = os.times()
    command = [sys.executable, str(Path(__file__).resolve()), "--collect", str(dataset)]
    command += ["--ray"] * ray
    done = subprocess.run(
        command, input="\n".join(map(str, runs)), stdout=subprocess.PIPE, text=True, check=True
    )
    after = os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    ended, peak = map(int, done.stdout.splitlines()[-1].split())
    assert ended == code, done.stdout
    return cpu, peak


def _collect(dataset: str, *, ray: bool) -> None:
    """In a process of its own: the runs on stdin; exit code and peak memory on stdout."""
    from specscope import exits
    from specscope.cli import _group

    more = ["--engine", "ray", "--ray-address", "local"] if ray else []
    paths = sys.stdin.read().split("\n")
    code = exits.call(_group, ["collect", *paths, "-q", "--no-cache", "--dataset", dataset, *more])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(code, peak)


def ask(dataset: Path, runs: int) -> dict[str, float]:
    """Wall seconds of each question, the best of three; none where there is no DuckDB."""
    try:
        import duckdb
    except ImportError:
        return {}
    seconds = {}
    for name, question in QUESTIONS.items():
        walls = []
        for _ in range(3):
            start = time.perf_counter()
            rows = duckdb.sql(question.format(dataset)).fetchall()
            walls.append(time.perf_counter() - start)
        models = min(runs, len(MODELS))
        expected = {"runs": 1, "share of verify by model": models}.get(name, -(-runs // 3))
        assert len(rows) == expected, (name, len(rows), expected)
        if name == "runs":
            assert rows == [(runs,)], rows
        seconds[name] = min(walls)
    return seconds


def measure(folder: Path, counts: tuple[int, ...], *, ray: bool = False) -> list[Point]:
    """A point for each number of runs."""
    print(f"making {max(counts)} runs", file=sys.stderr)
    runs = make_runs(folder / "runs", max(counts))
    # What a process costs that reads nothing.
    start = median(
        collect([folder / "nothing"], folder / "empty", ray=ray, code=3)[0] for _ in range(3)
    )
    points = []
    for count in counts:
        dataset = folder / f"dataset-{count}"
        cpu, peak = collect(runs[:count], dataset, ray=ray)
        some = runs[: min(count, AGAIN)]
        again, _ = collect(some, dataset, ray=ray)
        size = sum(path.stat().st_size for path in dataset.rglob("*.parquet"))
        point = Point(
            count, cpu - start, (again - start) / len(some), peak, size, ask(dataset, count)
        )
        print(f"  {count} runs: {point.each_ms:.0f} CPU ms each", file=sys.stderr)
        points.append(point)
    return points


def table(points: list[Point]) -> str:
    """As Markdown."""
    lines = [
        "| runs | CPU ms a run | once more | peak memory | dataset, KB a run | "
        + " | ".join(QUESTIONS)
        + " |",
        "|---" * (5 + len(QUESTIONS)) + "|",
    ]
    for p in points:
        cells = [
            f"{p.runs:,}",
            f"{p.each_ms:.0f}",
            f"{1000 * p.again_cpu_s:.0f}",
            f"{p.peak_bytes / 1e6:.0f} MB",
            f"{p.dataset_bytes / p.runs / 1000:.0f}",
            *(f"{1000 * p.query_s[q]:.0f} ms" if q in p.query_s else "-" for q in QUESTIONS),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description="Many runs into one dataset, and questions to it.")
    parser.add_argument("--quick", action="store_true", help="small; runs all, judges nothing")
    parser.add_argument("--counts", help="numbers of runs, such as 10,100,1000")
    parser.add_argument("--ray", action="store_true", help="by a local Ray")
    parser.add_argument("--collect", metavar="DATASET", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.collect:
        _collect(options.collect, ray=options.ray)
        return 0
    given = tuple(map(int, options.counts.split(","))) if options.counts else COUNTS
    folder = Path(tempfile.mkdtemp(prefix="specscope-many-"))
    try:
        points = measure(folder, QUICK if options.quick else given, ray=options.ray)
    finally:
        shutil.rmtree(folder)
    print(table(points))
    if options.quick or len(points) < 2:
        return 0
    growth = points[-1].each_ms / points[0].each_ms
    print(f"a run among {points[-1].runs} costs {growth:.2f} times one among {points[0].runs}")
    return 0 if growth <= 1.25 else 1


if __name__ == "__main__":
    sys.exit(main())
