"""transformers itself: assisted generation with specscope's hooks. Long, but seconds.

Takes the interpreter of the vLLM suite (docs/attach.md), which has transformers and torch.
"""

from __future__ import annotations

import gzip
import os
import re
import subprocess
from pathlib import Path

import pytest

from specscope.profiler import launch
from tests.engines.ranges_of import by_cycle, nested, ranges_of, tiny_models
from tests.shared import shared_path

pytestmark = pytest.mark.long

PYTHON = os.environ.get("SPECSCOPE_VLLM_PYTHON", "")


@pytest.mark.parametrize("mode", ["assistant", "lookup"])
def test_every_cycle_is_one_draft_and_one_verify_and_the_text_stays_the_same(
    tmp_path: Path, mode: str
) -> None:
    models = tiny_models(PYTHON, "SPECSCOPE_VLLM_PYTHON", tmp_path / "models")
    script = shared_path("engines-cpu", "hf_assisted.py")
    trace = tmp_path / "trace.json"
    env = {k: v for k, v in os.environ.items() if not k.startswith("SPECSCOPE_")}
    done = subprocess.run(
        [PYTHON, str(script), str(models), str(trace), mode, "0", "24"],
        env=launch.environment({**env, "OMP_NUM_THREADS": "1"}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "same as plain: True" in done.stdout
    counted = re.search(r"'cycles': (\d+)", done.stdout)
    assert counted is not None
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    found = ranges_of(packed)
    assert nested(found)
    cycles = by_cycle(found)
    assert len(cycles) == int(counted[1])
    for names in cycles.values():
        assert [(name.stage, name.batch) for name in names] == [("draft", 1), ("verify", 1)]
