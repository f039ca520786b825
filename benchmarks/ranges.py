"""Measures what a stage range costs: off, and by each emitter.

    python benchmarks/ranges.py            # a table
    python benchmarks/ranges.py --json     # for run.py
    python benchmarks/ranges.py --quick    # does everything run?

Each figure is CPU time, the best of some rounds in a process of its own, the loop taken off. A
range has four fields (cycle, batch, tokens, k) unless the row says otherwise. NVTX is measured
with a tool of our own (tests/profiler/nvtx_tool.c) that is called and does nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
TOOL: Final = HERE.parent / "tests" / "profiler" / "nvtx_tool.c"

# What each process runs before it measures `once`; `n` and `rounds` are given.
SETUP: Final = """
import sys, time
clock = time.thread_time_ns  # what others use of the machine does not count
from pathlib import Path
from specscope.profiler import ranges as r
stage, Config = r.stage, r.Config
def bare(n):
    for i in range(n):
        with stage("verify"): pass
def fields(n):
    for i in range(n):
        with stage("verify", cycle=i, batch=8, tokens=32, k=3): pass
def nothing(n):
    for i in range(n): pass
def on(**config):
    r.configure(Config(**config)); r.enable()
def best(work, pause=0.0):
    found = []
    for _ in range(rounds):
        start = clock(); work(n); middle = clock()
        nothing(n); end = clock()
        found.append(((middle - start) - (end - middle)) / n)
        time.sleep(pause)
    return min(found)
"""

# A cycle of the toy SGLang of the tests: seven hooks, and what is left after they came off.
HOOKS: Final = f"""
sys.path[:0] = [sys.argv[1], {str(HERE.parent)!r}]
from tests.profiler import toys
toys.write(Path(sys.argv[1]), toys.SGLANG)
from sglang.srt.speculative import eagle_worker_v2 as eagle
from sglang.srt.managers.scheduler_components import batch_result_processor as results
import specscope
worker, batch = eagle.EAGLEWorkerV2(), eagle.Batch()
processor = results.SchedulerBatchResultProcessor()
def cycles(n):
    for i in range(n):
        result = worker.forward_batch_generation(batch)
        processor._resolve_spec_v2_tokens(result, batch)
n = min(n, 3_000)
bare = best(cycles)
def hooked(log):
    attachment = specscope.attach(log)
    cycles(10)
    found = best(cycles, 0.1 if n < 3_000 else 1.2)
    attachment.detach()
    return found
"""

LOG: Final = "on(log=Path(sys.argv[1]), nvtx='off', torch=False, events_every=0); "

# key: (what, code that prints nanoseconds, what it needs)
FIGURES: Final[dict[str, tuple[str, str, str]]] = {
    "off, no field": ("disabled", "print(best(bare))", ""),
    "off": ("disabled", "print(best(fields))", ""),
    "unheard": ("enabled, no tool, no profiler, no log", "on(); print(best(fields))", ""),
    "unheard, torch": (
        "the same where torch is loaded",
        "import torch; on(); print(best(fields))",
        "torch",
    ),
    "NVTX": (
        "a domain of the nvtx package, a tool that listens",
        "on(torch=False); assert r.emitters_report()['nvtx']['active']; print(best(fields))",
        "nvtx tool",
    ),
    "NVTX, no field": (
        "the same, without fields",
        "on(torch=False); assert r.emitters_report()['nvtx']['active']; print(best(bare))",
        "nvtx tool",
    ),
    "torch profiler": (
        "record_function while a CPU profiler is on",
        "import torch; on(nvtx='off'); n //= 10\n"
        "with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):\n"
        "    print(best(fields))",
        "torch",
    ),
    "log": (
        "a row of the cycle log, written meanwhile",
        "n = min(n, 10_000); "
        + LOG
        + "print(best(fields, 0.1 if n < 5_000 else 1.2)); r.shutdown()",
        "",
    ),
    "log batch": (
        "1,000 rows made and written by the writer thread, a row",
        "from specscope.profiler.cycle_log_writer import Identity, Pieces, prepare\n"
        "from specscope.profiler.cycle_log_rows import Row\n"
        "prepare(); pieces = Pieces(Path(sys.argv[1]), Identity(0, 1, 1, 0),"
        " piece_bytes=1 << 30, total_bytes=1 << 31)\n"
        "rows = [Row.of('verify', (i, None, 8, 32, 3, None, None), i, i + 9, 1)"
        " for i in range(1000)]\n"
        "n = 20\n"
        "def write(n):\n"
        "    for i in range(n): pieces.write(rows)\n"
        "print(best(write) / 1000)",
        "",
    ),
    "metrics row": (
        "cycles of four stages and eight accept lengths counted for the metrics, a row",
        "from specscope.profiler.metrics_tally import Tally\n"
        "from specscope.profiler.cycle_log_rows import Row\n"
        "rows = []\n"
        "for i in range(200):\n"
        "    v = (i, None, 8, 32, 3, None, None); at = i * 6_000_000\n"
        "    rows += [Row.of(s, v, at + j * 10**6, at + j * 10**6 + 900_000, 1) for j, s in"
        " enumerate(('draft', 'verify', 'accept', 'draft_extend'))]\n"
        "    rows += [Row.of('cycle', v, at, at + 5_000_000, 1), Row.accept(i, [2] * 8, at, 1)]\n"
        "n = 20\n"
        "def count(n):\n"
        "    tally = Tally()\n"
        "    for i in range(n): tally.take(rows)\n"
        "print(best(count) / len(rows))",
        "",
    ),
    "log, metrics": (
        "a row of the log where metrics are on as well",
        "n = min(n, 10_000); on(log=Path(sys.argv[1]), metrics=29_477, rank=0, nvtx='off',"
        " torch=False, events_every=0)\n"
        "found = best(fields, 0.1 if n < 5_000 else 1.2)\n"
        "if n > 5_000: assert r.emitters_report()['metrics']['active']\n"
        "print(found); r.shutdown()",
        "prometheus_client",
    ),
    "hooks, unheard": (
        "the hooks of a cycle of SGLang (seven of them), no tool, no profiler, no log",
        HOOKS + "print(hooked(None) - bare)",
        "",
    ),
    "hooks, log": (
        "the same where the log listens",
        HOOKS + "print(hooked(sys.argv[1] + '/log') - bare)",
        "",
    ),
    "hooks, taken off": (
        "the same after detach: nothing is left",
        HOOKS + "hooked(None); print(best(cycles) - bare)",
        "",
    ),
    "import": (
        "import specscope.profiler",
        "raise SystemExit",
        "",
    ),
}

IMPORTS: Final = (
    "import time; start = time.perf_counter_ns(); import {module}; "
    "print(time.perf_counter_ns() - start)"
)


def measured(quick: bool) -> dict[str, float | None]:
    """Nanoseconds by the key of `FIGURES`; None where something is not installed here."""
    with tempfile.TemporaryDirectory() as folder:
        tool = _tool(Path(folder))
        found: dict[str, float | None] = {}
        for key, (_, code, needs) in FIGURES.items():
            if key == "import":
                times = [_run(IMPORTS.format(module="specscope.profiler")) for _ in range(5)]
                found[key] = min(time for time in times if time is not None)
                continue
            if "tool" in needs and tool is None:
                found[key] = None
                continue
            sizes = "n, rounds = (2_000, 2)" if quick else "n, rounds = (200_000, 7)"
            place = Path(folder) / "log" / key
            place.mkdir(parents=True)
            environment = {"NVTX_INJECTION64_PATH": str(tool)} if "tool" in needs else {}
            found[key] = _run(f"{sizes}\n{SETUP}\n{code}", str(place), **environment)
    return found


def _run(code: str, *arguments: str, **environment: str) -> float | None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        if "ModuleNotFoundError" in done.stderr or "AssertionError" in done.stderr:
            return None  # torch or nvtx is not installed
        raise SystemExit(done.stderr)
    return float(done.stdout.splitlines()[-1])


def _tool(folder: Path) -> Path | None:
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    built = folder / "tool.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(built), str(TOOL)]
    subprocess.run(command, check=True)
    return built


def main(given: list[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(description="Measure what a stage range costs.")
    parser.add_argument("--quick", action="store_true", help="small; figures mean nothing")
    parser.add_argument("--json", action="store_true", help="nanoseconds as JSON")
    options = parser.parse_args(given)
    found: dict[str, Any] = measured(options.quick)
    if options.json:
        print(json.dumps(found))
        return 0
    for key, value in found.items():
        shown = "not installed here" if value is None else f"{value:,.0f} ns"
        print(f"{key:16} {shown:>20}  {FIGURES[key][0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
