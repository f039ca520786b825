"""Runs vLLM on the tiny models, without hooks and with them, and keeps what a run left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.ipc
import pytest

from specscope.profiler import launch
from tests.engines.ranges_of import OTHER_SITE, Found, accept_lengths, ranges_of

HERE = Path(__file__).parent
PYTHON = os.environ.get("SPECSCOPE_VLLM_PYTHON", "")
SECONDS = 600

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """An engine: how it speculates, on how many ranks, compiled or not."""

    method: str
    tp: int = 1
    compiled: str = ""
    collectives: bool = False
    forks: bool = False

    def __str__(self) -> str:
        return "-".join(filter(None, [self.method, f"tp{self.tp}", self.compiled]))


@dataclass
class Run:
    """One process that loaded vLLM, generated and ended: its answers and what the hooks wrote."""

    case: Case
    folder: Path
    tokens: list[list[list[int]]] = field(default_factory=list)
    counters: dict[str, Any] = field(default_factory=dict)
    compiled: Any = None
    output: str = ""
    seconds: float = 0.0

    @cached_property
    def ranges(self) -> list[Found]:
        """specscope's ranges in the trace of each rank."""
        return [ranges_of(path) for path in sorted((self.folder / "traces").glob("rank*.gz"))]

    @cached_property
    def logs(self) -> dict[str, list[Row]]:
        """The rows of the cycle logs, by `rank0` ... and, of EngineCore, by its `pid`."""
        return cycle_logs(self.folder / "log")

    @property
    def ranks(self) -> list[list[Row]]:
        """The rows of each worker."""
        return [rows for name, rows in sorted(self.logs.items()) if name.startswith("rank")]

    @property
    def accepts(self) -> list[Row]:
        """The rows with accept lengths, which EngineCore writes."""
        return [row for rows in self.logs.values() for row in rows if row["row"] == "accept"]

    @property
    def seen_elsewhere(self) -> list[tuple[int | None, list[int]]]:
        """The accept lengths that the other `sitecustomize` was told."""
        return accept_lengths(self.folder / "accept")

    @property
    def reports(self) -> list[Any]:
        """The attach reports."""
        paths = sorted((self.folder / "log").glob("attach-*.json"))
        return [json.loads(path.read_text("utf-8")) for path in paths]

    @property
    def workers(self) -> list[Any]:
        """The attach reports of the workers."""
        return [report for report in self.reports if report["process"].startswith("VllmWorker")]

    def summary(self) -> str:
        """One line: what it took, what it wrote."""
        cycles = [sum(row["stage"] == "verify" for row in rows) for rows in self.ranks]
        return (
            f"{self.case} {self.folder.name}: {self.seconds} s, verify rows a rank {cycles}, "
            f"accept rows {len(self.accepts)}, ranges in traces {[len(r) for r in self.ranges]}"
        )

    def warnings(self) -> list[str]:
        """Lines of the output that speak of specscope."""
        return [line for line in self.output.splitlines() if "specscope: " in line]


def cycle_logs(folder: Path) -> dict[str, list[Row]]:
    """The rows of every cycle log in a folder, by the part of its name that tells who wrote it."""
    out: dict[str, list[Row]] = {}
    for path in sorted(folder.glob("*.arrows")):
        who = path.name.removeprefix("specscope-cycles-").partition("-")[0]
        out.setdefault(who, []).extend(pyarrow.ipc.open_stream(path).read_all().to_pylist())
    return out


def clean_environment(case: Case, caches: Path | None = None) -> dict[str, str]:
    """The environment of an engine without specscope in it."""
    out = {name: v for name, v in os.environ.items() if not name.startswith("SPECSCOPE_")}
    out |= {
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        # For `collective_rpc` with a function of the script.
        "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
    }
    if case.tp > 1:
        out["VLLM_CPU_OMP_THREADS_BIND"] = "|".join(str(core) for core in range(case.tp))
    if case.compiled and caches is not None:
        # Cold, for what comes from a cache is not compiled.
        out |= {
            "VLLM_CACHE_ROOT": str(caches / "vllm"),
            "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        }
    return out


def hooked_environment(case: Case, folder: Path, site: str = OTHER_SITE) -> dict[str, str]:
    """The same with hooks, a log in `folder`, and the `sitecustomize` of somebody else."""
    other = folder / "site"
    other.mkdir(parents=True)
    (other / "sitecustomize.py").write_text(site, "utf-8")
    (folder / "accept").mkdir()
    base = clean_environment(case, folder)
    base |= {"PYTHONPATH": str(other), "ACCEPT_DIR": str(folder / "accept")}
    return launch.environment(base, log=folder / "log", collectives=case.collectives)


def generate(
    models: Path, case: Case, folder: Path, env: Mapping[str, str], *, profiled: bool = False
) -> Run:
    """Run `generate_vllm.py` to its end; its failure is the test's."""
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "out.json"
    wanted: dict[str, Any] = {"models": str(models), "method": case.method, "tp": case.tp}
    wanted |= {"compiled": case.compiled, "forks": case.forks}
    if profiled:
        wanted["traces"] = str(folder / "traces")
    started = time.monotonic()
    process = subprocess.Popen(
        [PYTHON, str(HERE / "generate_vllm.py"), json.dumps(wanted), str(out)],
        env=dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        pytest.fail(f"vLLM took more than {SECONDS} s: {output[-3000:]}")
    seconds = time.monotonic() - started
    (folder / "output.txt").write_text(output, "utf-8")
    assert process.returncode == 0, output[-6000:]
    answer = json.loads(out.read_text("utf-8"))
    run = Run(case, folder, answer["tokens"], answer["counters"], answer["compiled"], output)
    run.seconds = round(seconds, 1)
    return run
