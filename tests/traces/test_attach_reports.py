"""Attach reports beside a cycle log: read whole or named in a line, and what they say was lost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import specscope
from specscope.profiler import attach_report
from specscope.profiler.attach import Attachment
from specscope.profiler.cycle_log_rows import REASONS
from specscope.traces import attach_reports
from specscope.traces.errors import TraceFormatError
from tests.traces.test_cycle_log_reader import write

SOUND: dict[str, Any] = {
    "schema_version": 1,
    "host": "a",
    "pid": 100,
    "process": "p",
    "active": True,
    "engines": {"vllm": "1"},
    "hooks": [],
}
HOOK = {"engine": "vllm", "target": "a.b", "role": "stage", "stage": "", "state": "patched"}


def put(folder: Path, name: str = "attach-a-100.json", **more: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(SOUND | more), "utf-8")
    return path


def log_of(**more: Any) -> dict[str, Any]:
    return {"cycle_log": {"active": False, "error": "", "lost": {}} | more}


def lost(folder: Path, rank: int | None = None) -> dict[str, int]:
    run = specscope.load(folder, rank=rank)
    return {row["reason"]: row["count"] for found in run.ranks for row in found.losses.to_pylist()}


def test_reader_and_writer_agree(tmp_path: Path) -> None:
    attachment = Attachment(tmp_path, [])
    attach_report.write(tmp_path, attachment.report())
    assert attach_report.SCHEMA_VERSION == attach_reports.VERSION
    assert set(attach_reports.LOST) == set(REASONS)
    ([report], broken) = attach_reports.read(tmp_path)
    assert broken == []
    assert report["pid"] == os.getpid()


@pytest.mark.parametrize(
    "wrong",
    [
        {"schema_version": True},
        {"schema_version": 2},
        {"hooks": [1]},
        {"hooks": {}},
        {"hooks": [HOOK]},
        {"hooks": [HOOK | {"fired": "1"}]},
        {"hooks": [HOOK | {"fired": 10**400}]},
        {"hooks": [HOOK | {"fired": 1, "fault": 3}]},
        {"engines": [1]},
        {"engines": {"vllm": 1}},
        {"pid": -1},
        {"left_over": [1]},
        {"emitters": []},
        {"emitters": {"metrics": 3}},
        {"emitters": {"metrics": {"port": "x"}}},
        {"emitters": {"cycle_log": {"lost": [1]}}},
        {"emitters": {"cycle_log": {"lost": {"write_failed": "many"}}}},
    ],
    ids=str,
)
def test_a_report_of_another_shape_is_one_line_and_the_others_are_read(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    put(tmp_path, "attach-a-1.json", **wrong)
    put(tmp_path, "attach-a-2.json")
    reports, (line,) = attach_reports.read(tmp_path)
    assert len(reports) == 1
    assert line.startswith("attach-a-1.json: no attach report")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]", "3", '{"schema_version": 1}'])
def test_a_file_that_is_no_report_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "attach-a-1.json").write_text(text, "utf-8")
    put(tmp_path, "attach-a-2.json")
    reports, broken = attach_reports.read(tmp_path)
    assert (len(reports), len(broken)) == (1, 1)


def test_a_pipe_in_place_of_a_report_does_not_hold_the_reader_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "attach-a-1.json")
    assert attach_reports.read(tmp_path) == ([], ["attach-a-1.json: no regular file"])


def test_what_a_dead_log_lost_is_a_loss_of_its_rank(tmp_path: Path) -> None:
    write(tmp_path, rank=0, pid=100)
    write(tmp_path, rank=1, pid=101)
    full = log_of(lost={"write_failed": 1403}, error="OSError: \x1b[31mno space")
    put(tmp_path, pid=101, emitters=full)
    first, second = specscope.load(tmp_path).ranks
    assert first.losses.num_rows == 0
    failed, off = second.losses.to_pylist()
    assert (failed["reason"], failed["count"]) == ("log_write_failed", 1403)
    assert off["reason"] == "log_off"
    assert "no space" in off["action"]
    assert "\x1b" not in off["action"]
    notes = {note.code for note in specscope.load(tmp_path).notes}
    assert {"loss_log_off", "loss_log_write_failed"} <= notes


def test_what_the_log_says_itself_is_not_counted_twice(tmp_path: Path) -> None:
    from specscope.profiler.cycle_log_rows import Row
    from specscope.profiler.cycle_log_writer import Identity, Pieces

    pieces = Pieces(
        tmp_path, Identity(0, 1, 10**18, 0, pid=100), piece_bytes=9**9, total_bytes=9**9
    )
    pieces.write([Row.cycle_of(0, 0, 1, 1), Row.lost(7, "queue_full", 1)])
    pieces.close()
    put(tmp_path, emitters=log_of(active=True, lost={"queue_full": 7}))
    assert lost(tmp_path) == {"log_queue_full": 7}


def test_a_process_of_the_run_that_left_no_log_counts_with_the_first_rank(tmp_path: Path) -> None:
    write(tmp_path)
    put(tmp_path, pid=999, emitters={"cycle_log": {"active": False, "reason": "OSError: full"}})
    assert lost(tmp_path) == {"log_off": 1}
    assert lost(tmp_path, rank=0) == {}


def test_reports_of_an_earlier_run_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path)
    path = put(tmp_path, emitters=log_of(lost={"write_failed": 3}, error="OSError: full"))
    os.utime(path, ns=(10**18 - 1, 10**18 - 1))
    assert lost(tmp_path) == {}


@pytest.mark.parametrize("reason", ["no folder given", "closed"])
def test_a_process_that_was_to_have_no_log_lost_nothing(tmp_path: Path, reason: str) -> None:
    write(tmp_path)
    put(tmp_path, pid=999, emitters={"cycle_log": {"active": False, "reason": reason}})
    assert lost(tmp_path) == {}


def test_a_log_folder_without_a_row_says_that_the_server_wrote_none(tmp_path: Path) -> None:
    put(tmp_path)
    with pytest.raises(TraceFormatError, match="hooks wrote none; `specscope doctor`"):
        specscope.load(tmp_path)
