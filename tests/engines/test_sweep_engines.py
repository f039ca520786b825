"""`specscope sweep` over SGLang itself, on the CPU with stand-in kernels. Long.

Interpreter and models as for the other suites here (docs/attach.md): SPECSCOPE_SGLANG_PYTHON.
`-s` shows the table.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import jsonschema
import pytest

from specscope.dashboards.sweep_table import plain_sweep
from specscope.profiler.sweep import sweep
from specscope.profiler.sweep_options import Options
from specscope.sweep_command import shares
from specscope.traces.context import read_context
from tests.engines.ranges_of import tiny_models
from tests.shared import shared_path

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
SGLANG = os.environ.get("SPECSCOPE_SGLANG_PYTHON", "")
LOAD = {
    "prompt_tokens": 32, "tokens": 256, "repetitions": 5, "vocabulary": None, "cycles": 20,
    "timeout": 200.0, "api_key": None,
}  # fmt: skip


def test_steps_of_a_real_server_are_measured_recorded_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = tiny_models(SGLANG, "SPECSCOPE_SGLANG_PYTHON", tmp_path / "models")
    for name in [name for name in os.environ if name.startswith("SPECSCOPE_")]:
        monkeypatch.delenv(name)
    plain = (
        f"PYTHONPATH={shlex.quote(str(shared_path('engines-cpu', 'sglang_cpu_stubs')))} "
        "SPECSCOPE_DISABLE=1 SGLANG_USE_CPU_ENGINE=1 HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 "
        f"{SGLANG} -m sglang.launch_server --model-path {models}/target --device cpu "
        "--dtype float32 --host 127.0.0.1 --port {port} --tp 1 --attention-backend torch_native "
        "--prefill-attention-backend intel_amx --decode-attention-backend intel_amx "
        "--max-total-tokens 4096 --context-length 1024 --disable-radix-cache "
        "--max-running-requests 8 --skip-server-warmup"
    )
    command = (
        f"{plain} --speculative-algorithm EAGLE3 --speculative-draft-model-path {models}/eagle3 "
        "--speculative-num-steps {steps} --speculative-num-draft-tokens {draft_tokens} "
        "--speculative-eagle-topk 1 --speculative-draft-attention-backend intel_amx"
    )
    asked = Options(
        command,
        (1, 2, 3),
        tmp_path / "out",
        baseline_command=plain,
        ready_timeout=300,
        load=LOAD,
        shares=shares,
        say=print,
    )
    done = sweep(asked)
    print(plain_sweep(done))
    jsonschema.validate(done, json.loads((ROOT / "traces" / "sweep.schema.json").read_text()))
    assert [row["steps"] for row in done["rows"]] == [0, 1, 2, 3]
    base = done["rows"][0]["step_ms"]["value"]
    for row in done["rows"]:
        assert row["reason"] is row["not_recorded"] is None
        context, notes = read_context(tmp_path / "out" / row["folder"])
        assert notes == []
        if not row["steps"]:
            continue
        assert context["k"] == row["steps"]
        # With the greedy tiny models more steps accept more, whatever the machine does.
        assert len(row["accept_by_position"]) == row["steps"]
        assert row["break_even_accept_length"] == pytest.approx(
            row["cycle_ms"]["value"] / base, rel=0.001
        )
        assert 0.2 < row["shares"]["verify"] < 0.9
        assert row["shares"]["draft_extend"] > 0
    lengths = [row["accept_length"]["value"] for row in done["rows"][1:]]
    assert lengths == sorted(lengths)
    drafts = [row["shares"]["draft"] for row in done["rows"][1:]]
    assert drafts == sorted(drafts)
    assert not _left_over(tmp_path)
    logs = [path.read_text("utf-8") for path in (tmp_path / "out").glob("steps-*/server.log")]
    assert len(logs) == 4
    assert all(re.search("fired up", log) for log in logs)


def _left_over(folder: Path) -> list[str]:
    """Processes that still serve the models of this test."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if f"{folder}/models/target" in command and "launch_server" in command:
            found.append(entry.name)
    return found
