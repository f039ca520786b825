"""The rooms and the arrows between them, as the design draws them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("traces", "analyzers", "dashboards", "profiler")
FILES = sorted(
    path
    for folder in ("specscope", *ROOMS, "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if "specscope/" not in str(path.relative_to(ROOT).parent) + "/"
    or path.parent.name == "specscope"
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_imports_a_room_by_its_bare_name(path: Path) -> None:
    bare = re.compile(rf"^\s*(?:from|import)\s+(?:{'|'.join(ROOMS)})\b", re.MULTILINE)
    assert not bare.search(path.read_text("utf-8"))


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_is_linked_into_the_package(room: str) -> None:
    link = ROOT / "specscope" / room
    assert link.is_symlink()
    assert link.resolve() == ROOT / room


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, specscope; "
        "print(sorted({'numpy', 'pyarrow', 'pandas', 'plotly', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_analysis_never_imports_torch_or_plotly() -> None:
    """pandas is left out here: pyarrow imports it by itself where it is installed."""
    code = (
        "import sys, specscope.analyzers.analyze, specscope.traces.load; "
        "print(sorted({'plotly', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
