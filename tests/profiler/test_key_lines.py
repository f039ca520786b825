"""Private keys in logs: every line of them masked, and no line of somebody else."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import pytest

from specscope.profiler import key_lines, server_log
from specscope.profiler.masking import MASK
from specscope.profiler.server_process import ServerProcess
from specscope.profiler.sweep_plan import Start
from tests import waiting

BODY = base64.b64encode(bytes(range(256)) * 3).decode()
LINES = [BODY[at : at + 64] for at in range(0, len(BODY), 64)] + ["Zm9v", "ab=="]
BEGIN, END = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
KEY = [BEGIN, "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-256-CBC,0A1B2C3D4E5F6071", "", *LINES, END]


def masked(lines: list[str]) -> list[str]:
    keys = key_lines.KeyLines()
    return [keys.masked(line) for line in lines]


@pytest.mark.parametrize("prefix", ["", "[2026-01-01 10:00:00 TP0] ", "(EngineCore pid=12) "])
def test_no_line_of_a_key_stays(prefix: str) -> None:
    found = masked(["before", *[prefix + line for line in KEY], "behind"])
    assert (found[0], found[-1]) == ("before", "behind")
    for line in found[2:-1]:
        assert line.removeprefix(prefix).strip() in ("", MASK), line


def test_lines_of_others_between_those_of_a_key_stay() -> None:
    other = "[TP1] ValueError: no such model"
    found = masked([BEGIN, LINES[0], other, LINES[1], END, LINES[0]])
    assert found == [BEGIN, MASK, other, MASK, MASK, LINES[0]]


def test_a_key_that_never_ends_is_over_at_last() -> None:
    found = masked([BEGIN, *["word"] * key_lines.MOST_LINES, "word"])
    assert found[1:] == [MASK] * key_lines.MOST_LINES + ["word"]


def test_a_line_that_speaks_of_a_key_stays() -> None:
    line = f"ssl.SSLError: the file does not begin with {BEGIN} as it should"
    assert masked([line, "ValueError: give another file"]) == [
        line,
        "ValueError: give another file",
    ]


def test_a_key_that_begins_within_a_line_is_masked_from_there() -> None:
    assert masked([f"key={BEGIN} {LINES[0]}", LINES[1]]) == [f"key={BEGIN} {MASK}", MASK]


def test_a_key_that_a_server_writes_is_not_in_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor the lines of one that stands in a variable with another name for it."""
    monkeypatch.setenv("CLIENT_SECRET", "first-secret-line\nsecond-secret-line")
    text = "\n".join([*KEY, "loaded second-secret-line", "ready"])
    start = Start((sys.executable, "-c", f"print({text!r})"))
    with ServerProcess(start, tmp_path / "log") as server:
        server.log.finish(waiting.PATIENCE)
        assert server.log.telling() == "ready"
    written = (tmp_path / "log").read_text()
    assert not [line for line in LINES if line in written]
    assert "loaded ***\nready\n" in written


def test_the_password_of_a_command_is_searched_for_in_its_log() -> None:
    for words in (["-u", "bob:hunter22"], ["--user=bob:hunter22"]):
        assert server_log.secrets_of(["run", *words], []) == ["hunter22"]
