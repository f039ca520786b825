"""NVTX ranges as a tool sees them, and what is said where none listens."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from specscope.profiler import emit_nvtx
from tests.shared import NOT_INSTALLED, needed

TOOL = Path(__file__).with_name("nvtx_tool.c")

SERVE = """
from specscope import profiler
profiler.configure(profiler.Config(torch=False))
profiler.enable()
for number in (5, 6):
    with profiler.cycle_range(cycle=number, batch=8, k=3):
        with profiler.stage("draft", step=0):
            pass
with profiler.stage("schedule"):
    pass
print(profiler.emitters_report()["nvtx"])
"""


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """A tool as NVTX loads it, built from C."""
    needed("nvtx")
    compiler = shutil.which("cc")
    if compiler is None:
        NOT_INSTALLED.append("cc")
        pytest.skip("no C compiler")
    built = tmp_path / "tool.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(built), str(TOOL)]
    subprocess.run(command, check=True)
    return built


def serve(code: str, **environment: str) -> str:
    clean = {key: value for key, value in os.environ.items() if "INJECTION" not in key}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=clean | environment,
    )
    return done.stdout


def test_a_tool_sees_bare_stages_in_our_domain_and_cycles_as_payloads(
    tool: Path, tmp_path: Path
) -> None:
    out = tmp_path / "heard.txt"
    said = serve(SERVE, NVTX_INJECTION64_PATH=str(tool), NVTX_TOOL_OUT=str(out))
    assert "'active': True" in said
    assert out.read_text().splitlines() == [
        "create specscope",
        "push cycle|b=8|k=3 5",
        "push draft|s=0 5",
        "pop",
        "pop",
        "push cycle|b=8|k=3 6",
        "push draft|s=0 6",
        "pop",
        "pop",
        "push schedule -1",
        "pop",
    ]


def test_texts_are_registered_up_to_a_bound(tool: Path, tmp_path: Path) -> None:
    out = tmp_path / "heard.txt"
    code = SERVE + (
        "for tokens in range(2000):\n    with profiler.stage('prefill', tokens=tokens): pass\n"
    )
    serve(code, NVTX_INJECTION64_PATH=str(tool), NVTX_TOOL_OUT=str(out))
    texts = {line.split()[1] for line in out.read_text().splitlines() if line.startswith("push")}
    assert len(texts) <= emit_nvtx.MOST_TEXTS + 2
    assert "prefill" in texts


def test_without_a_tool_the_dummy_domain_is_named_and_nothing_listens() -> None:
    needed("nvtx")
    said = serve(SERVE)
    assert "'active': False" in said
    assert "dummy domain" in said


def test_a_tool_that_the_package_does_not_know_is_said() -> None:
    needed("nvtx")
    said = serve(SERVE, CUDA_INJECTION64_PATH="/opt/nsys/libToolsInjection64.so")
    assert "a tool is injected (CUDA_INJECTION64_PATH)" in said
    assert "torch is not loaded" in said


def test_without_the_package_ranges_work_and_the_report_says_so() -> None:
    said = serve("import sys; sys.modules['nvtx'] = None\n" + SERVE)
    assert "the package nvtx is not installed" in said


def test_off_is_off() -> None:
    assert emit_nvtx.find("off") == (None, "switched off")


class _Calls:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def range_push(self, text: str) -> int:
        self.texts.append(text)
        return len(self.texts)

    def range_pop(self) -> int:
        return 0


def test_ranges_of_torch_carry_the_whole_text() -> None:
    calls = _Calls()
    ranges = emit_nvtx.TorchRanges(calls)
    ranges.push("verify", (3, None, 8, None, None, None, None))
    ranges.pop()
    assert calls.texts == ["specscope:verify|c=3|b=8"]
