"""What the README and the tutorial show is what their commands print."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
# `$ COMMAND` with its output in one block, or a command in a block and its output in the next.
TOGETHER = re.compile(r"^```console\n\$ ([^\n]+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
APART = re.compile(r"^```sh\n([^\n]+)\n```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def samples() -> list[tuple[str, str, str]]:
    """Page, command and the lines that the page shows of its output."""
    found = []
    for page in ("README.md", "docs/tutorial.md"):
        text = (ROOT / page).read_text("utf-8")
        found += [(page, *one) for pattern in (TOGETHER, APART) for one in pattern.findall(text)]
    return found


def is_shown(sample: str, printed: str) -> str | None:
    """The first piece of the sample that is not in the output, in order; None when all are."""
    at = 0
    for piece in re.split(r"^\.\.\.\n", sample, flags=re.MULTILINE):
        place = f"\n{printed}".find(f"\n{piece}", at)
        if place < 0:
            return piece
        at = place + len(piece)
    return None


Run = Callable[[str], str]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What a command prints; each is run once."""
    cache = str(tmp_path_factory.mktemp("cache"))

    @lru_cache
    def run(command: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "specscope", *shlex.split(command.removeprefix("specscope "))],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "XDG_CACHE_HOME": cache},
            capture_output=True,
            text=True,
            timeout=PATIENCE * 5,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize(("page", "command", "sample"), samples())
def test_a_sample_is_what_its_command_prints(
    page: str, command: str, sample: str, printed: Run
) -> None:
    text = printed(command)
    missing = is_shown(sample, text)
    assert missing is None, f"{page}: {command} does not print:\n{missing}\nbut:\n{text}"


def test_both_pages_have_samples() -> None:
    pages = [page for page, _, _ in samples()]
    assert pages.count("README.md") >= 1
    assert pages.count("docs/tutorial.md") >= 5


def test_a_line_that_is_not_printed_is_found() -> None:
    assert is_shown("a\n...\nc\n", "a\nb\nc\n") is None
    assert is_shown("a\n...\nd\n", "a\nb\nc\n") == "d\n"
    assert is_shown("c\n...\na\n", "a\nb\nc\n") == "a\n"
