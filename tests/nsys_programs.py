"""The programs `nsys` that tests call: a stand-in, and the real one where there is one."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.shared import NOT_INSTALLED
from tests.tools import fetch_nsys

OLDER_NVTX = "0.2.11"
FAKE = Path(__file__).with_name("fake_nsys.py")
# An export of two ranks without a GPU.
SAMPLE = Path(__file__).with_name("data") / "nsys-own-cpu" / "sample.sqlite"
VERSION_LINE = "NVIDIA Nsight Systems version 2023.4.4.54-234433681190v0"
OPTIONS = {
    "export": ["force-overwrite", "quiet", "lazy", "output", "type"],
    "start": [
        *("session", "session-new", "output", "force-overwrite", "sample", "cpuctxsw"),
        *("capture-range", "capture-range-end", "stop-on-exit"),
    ],
    "launch": [
        *("session", "session-new", "trace", "cuda-graph-trace", "trace-fork-before-exec"),
        *("cuda-flush-interval", "wait"),
    ],
    "stop": ["session"],
    "shutdown": ["session", "kill"],
}


class Program:
    """A stand-in in a folder of its own; what it does can be changed at any time."""

    def __init__(self, folder: Path, **told: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.path = folder / "nsys"
        self._config = folder / "config.json"
        self._told: dict[str, Any] = {
            "version_line": VERSION_LINE,
            "options": {name: list(options) for name, options in OPTIONS.items()},
            "export": "well",
        }
        self.tell(**told)
        line = f"exec {shlex.join([sys.executable, '-S', str(FAKE)])}"
        config = f"FAKE_NSYS={shlex.quote(str(self._config))}"
        self.path.write_text(f'#!/bin/sh\n{config} {line} "$@"\n', "utf-8")
        self.path.chmod(0o700)

    def tell(self, **told: Any) -> None:
        """Change what it does."""
        self._told |= told
        self._config.write_text(json.dumps(self._told), "utf-8")

    def options(self, command: str, *more: str, without: tuple[str, ...] = ()) -> None:
        """Change the switches of a subcommand."""
        kept = [name for name in OPTIONS[command] if name not in without]
        self._told["options"][command] = [*kept, *more]
        self.tell()

    def calls(self, command: str) -> list[list[str]]:
        """The words behind that subcommand, of each call that was not for help."""
        return [words[1:] for words in self._called() if words[0] == command]

    def order(self) -> list[str]:
        """The subcommands that were called, in order."""
        return [words[0] for words in self._called()]

    def _called(self) -> list[list[str]]:
        try:
            lines = (self.folder / "calls").read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []
        calls: list[list[str]] = [json.loads(line) for line in lines]
        asked = ("--help", "--version", "list")
        return [words for words in calls if words[-1] not in asked]


def real() -> str:
    """The path of a real nsys, the newest; skips the test, or the module at import, without one."""
    return all_real()[-1]


def all_real() -> list[str]:
    """The real programs: that of SPECSCOPE_NSYS, else what tests/tools/fetch_nsys.py unpacked."""
    given = os.environ.get("SPECSCOPE_NSYS")
    found = [given] if given else [str(path) for path in fetch_nsys.unpacked()]
    if not found:
        NOT_INSTALLED.append("nsys")
        pytest.skip(
            "there is no nsys (SPECSCOPE_NSYS, or tests/tools/fetch_nsys.py)",
            allow_module_level=True,
        )
    return found


def python_with_older_nvtx() -> str:
    """A Python with the last package nvtx that older nsys records; made once, in a cache folder."""
    release = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = fetch_nsys.FOLDER.parent / f"nvtx-{OLDER_NVTX}-python{release}"
    python = folder / "bin" / "python"
    if (folder / "made").exists():
        return str(python)
    made = [
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "install", "-q", f"nvtx=={OLDER_NVTX}", "wrapt"],
    ]
    for words in made:
        if subprocess.run(words, check=False, capture_output=True, timeout=600).returncode:
            NOT_INSTALLED.append(f"nvtx {OLDER_NVTX}")
            pytest.skip(f"nvtx {OLDER_NVTX} cannot be installed", allow_module_level=True)
    (folder / "made").touch()
    return str(python)
