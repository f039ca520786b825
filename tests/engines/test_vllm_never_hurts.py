"""What may go wrong around the hooks, in vLLM itself: same tokens, one warning. Long.

Needs what tests/engines/test_vllm_cpu.py needs, and root for the full disk (a small tmpfs; it
skips without). Every case is one start of EAGLE-3 on one rank, compared with one start that
knows nothing of specscope.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specscope.profiler import launch
from tests.engines.ranges_of import tiny_models
from tests.engines.vllm_runs import (
    PYTHON,
    Case,
    Run,
    clean_environment,
    generate,
    hooked_environment,
)

pytestmark = pytest.mark.long

CASE = Case("eagle3")

# The other sitecustomize runs right after specscope has attached, before vLLM is imported.
SABOTAGE = """
import dataclasses
from specscope.profiler import attach, roles

def spoil(which, **changes):
    for entry in attach.current().entries:
        if entry.target.path.endswith("v1.worker.gpu_model_runner.GPUModelRunner." + which):
            entry.target = entry.hook.target = dataclasses.replace(entry.target, **changes)

if attach.current() is not None:
    spoil("_update_states", name="GPUModelRunner._no_longer_there")
    spoil("_preprocess", argument=("another_name",))
    spoil("_build_attention_metadata", name="GPUModelRunner.get_model.inner")

open_hook, close_hook = roles.open_hook, roles.close_hook

def open_(hook, args, kwargs):
    if hook.target.name.endswith("propose_draft_token_ids"):
        raise RuntimeError("opening fails on purpose")
    return open_hook(hook, args, kwargs)

def close(hook, opened, result, args, kwargs):
    close_hook(hook, opened, result, args, kwargs)
    if hook.target.name.endswith("._sample"):
        raise RuntimeError("closing fails on purpose")
    if hook.target.name.endswith("._bookkeeping_sync"):
        result.clear()

roles.open_hook, roles.close_hook = open_, close

def lengths(hook, result, args, kwargs):
    raise KeyError("lengths fail on purpose")

roles._LENGTHS["vllm"] = lengths
"""

# Two more tools: a profile function on every thread, and torch's execution trace.
SECOND_PROFILER = """
import os, sys, threading
import wrapt
seen = 0

def profile(frame, event, arg):
    global seen
    seen += 1

def watch(module):
    from torch.profiler import ExecutionTraceObserver
    sys.setprofile(profile)
    threading.setprofile(profile)
    module.observer = observer = ExecutionTraceObserver()
    observer.register_callback(os.path.join(os.environ["ACCEPT_DIR"], f"{os.getpid()}.et.json"))
    observer.start()

wrapt.register_post_import_hook(watch, "vllm.v1.worker.cpu_worker")
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models(PYTHON, "SPECSCOPE_VLLM_PYTHON", tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def plain(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A start without specscope."""
    return generate(models, CASE, tmp_path_factory.mktemp("plain"), clean_environment(CASE))


def same_answers(run: Run, plain: Run) -> bool:
    print(run.summary())
    print(*run.warnings(), sep="\n")
    return run.tokens == plain.tokens and run.counters == plain.counters


@pytest.fixture(scope="module")
def sabotaged(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A start with hooks that raise, and with targets that are not there."""
    folder = tmp_path_factory.mktemp("sabotaged")
    return generate(models, CASE, folder, hooked_environment(CASE, folder, SABOTAGE))


def test_hooks_that_raise_or_find_another_engine_never_reach_it(plain: Run, sabotaged: Run) -> None:
    run = sabotaged
    assert same_answers(run, plain)
    [worker] = run.workers
    hooks = {hook["target"].rpartition("GPUModelRunner.")[2]: hook for hook in worker["hooks"]}
    for name, why in (
        ("_no_longer_there", "no _no_longer_there"),
        ("_preprocess", "other signature"),
        ("get_model.inner", "no "),
    ):
        assert hooks[name]["state"] == "skipped"
        assert why in hooks[name]["reason"]
    spoilt = {"propose_draft_token_ids", "_sample", "_bookkeeping_sync"}
    for name in spoilt:
        assert (hooks[name]["faults"], hooks[name]["live"]) == (3, False)
    # One warning for each of them, and one in EngineCore for the accept lengths.
    assert len(run.warnings()) == len(spoilt) + 1
    assert all("switched off after" in line for line in run.warnings())


def test_a_log_folder_that_cannot_be_written_costs_one_warning_a_process(
    models: Path, plain: Run, sabotaged: Run, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    env = launch.environment(clean_environment(CASE), log=tmp_path / "file" / "log")
    run = generate(models, CASE, tmp_path / "run", env)
    assert same_answers(run, plain)
    # As many processes as could write a report where that was possible.
    assert len(run.warnings()) == len(sabotaged.reports) >= 3


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_costs_one_warning_a_process(
    models: Path, plain: Run, sabotaged: Run, tmp_path: Path, small_disk: Path
) -> None:
    env = launch.environment(clean_environment(CASE), log=small_disk)
    run = generate(models, CASE, tmp_path / "run", env)
    assert same_answers(run, plain)
    assert all("No space left" in line for line in run.warnings())
    assert len(run.warnings()) == len(sabotaged.reports)


def test_disabled_nothing_is_attached_and_nothing_written(
    models: Path, plain: Run, tmp_path: Path
) -> None:
    env = hooked_environment(CASE, tmp_path) | {"SPECSCOPE_DISABLE": "1"}
    run = generate(models, CASE, tmp_path, env)
    assert same_answers(run, plain)
    assert run.warnings() == []
    assert not (tmp_path / "log").exists()


def test_beside_other_profilers_the_stages_are_still_there(
    models: Path, plain: Run, tmp_path: Path
) -> None:
    """`sys.setprofile`, torch's execution trace and vLLM's own torch profiler at once."""
    env = hooked_environment(CASE, tmp_path, SECOND_PROFILER)
    run: Any = generate(models, CASE, tmp_path, env, profiled=True)
    assert same_answers(run, plain)
    assert run.warnings() == []
    assert any("specscope:verify" in p.read_text() for p in (tmp_path / "accept").glob("*.et.json"))
    [found] = run.ranges
    assert {"verify", "accept", "draft"} <= {name.stage for _, _, name in found}
    [rows] = run.ranks
    assert sum(row["stage"] == "verify" for row in rows) >= 40


def test_forked_workers_have_hooks_and_logs_of_their_own(
    models: Path, plain: Run, tmp_path: Path
) -> None:
    case = Case("eagle3", forks=True)
    run = generate(models, case, tmp_path, hooked_environment(case, tmp_path))
    assert same_answers(run, plain)
    assert run.warnings() == []
    parents = {report["pid"]: report["parent_pid"] for report in run.reports}
    [worker] = run.workers
    assert parents[parents[worker["pid"]]] in parents  # the caller, EngineCore, the worker
    [rows] = run.ranks
    assert sum(row["stage"] == "verify" for row in rows) >= 40
    lengths = [n for row in run.accepts for n in row["accept_lengths"]]
    assert len(lengths) == run.counters["vllm:spec_decode_num_drafts"]
