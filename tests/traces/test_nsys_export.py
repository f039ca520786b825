"""A report of Nsight Systems becomes SQLite in the cache folder, or one line that says why not."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from specscope.traces import cache, nsys_export, nsys_program
from specscope.traces.errors import SpecscopeError, TraceFormatError, UsageError
from specscope.traces.load import load
from specscope.traces.nsys_export import export, exported
from specscope.traces.nsys_program import NsysError, Ran
from specscope.traces.nsys_troubles import TROUBLES, Trouble, failure
from tests.nsys_programs import SAMPLE, Program, real

HEAD = b"NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0.\n\x0bLocal (CLI)"
FAR = 60.0


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path / "installed" / "bin")


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "win.nsys-rep"
    path.parent.mkdir()
    path.write_bytes(HEAD)
    return path


def refused(report: Path, program: Program, timeout: float | None = FAR) -> tuple[int, str]:
    with pytest.raises(SpecscopeError) as caught:
        export(report, nsys=str(program.path), timeout=timeout)
    text = str(caught.value)
    assert "\n" not in text
    return caught.value.exit_code, text


def test_an_export_lies_in_the_cache_and_nothing_beside_the_report(
    program: Program, report: Path
) -> None:
    found = export(report, nsys=str(program.path), timeout=FAR)
    assert cache.folder() in found.parents
    assert list(report.parent.iterdir()) == [report]
    assert report.read_bytes() == HEAD


def test_only_the_user_may_read_an_export_and_the_environment_is_not_in_it(
    program: Program, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "planted")
    found = export(report, nsys=str(program.path), timeout=FAR)
    assert b"planted" not in found.read_bytes()
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (found, found.parent)]
    assert modes == [0o600, 0o700]


def test_the_second_time_nothing_is_exported(program: Program, report: Path) -> None:
    first = export(report, nsys=str(program.path), timeout=FAR)
    again = export(report, nsys=str(program.path), timeout=FAR)
    assert first == again
    assert len(program.calls("export")) == 1


def test_other_content_or_another_version_of_nsys_is_exported_anew(
    program: Program, report: Path
) -> None:
    first = export(report, nsys=str(program.path), timeout=FAR)
    report.write_bytes(HEAD + b"more")
    second = export(report, nsys=str(program.path), timeout=FAR)
    program.tell(version_line="NVIDIA Nsight Systems version 2025.5.2.266-255236693005v0")
    program.path.write_text(program.path.read_text("utf-8") + "# another program\n", "utf-8")
    third = export(report, nsys=str(program.path), timeout=FAR)
    assert len({first, second, third}) == 3


def test_switches_are_those_that_the_help_of_this_nsys_lists(
    program: Program, report: Path
) -> None:
    program.options("export", "include-blobs", without=("lazy",))
    export(report, nsys=str(program.path), timeout=FAR)
    (words,) = program.calls("export")
    assert "--include-blobs=true" in words
    assert not [word for word in words if word.startswith("--lazy")]


def test_without_that_switch_in_the_help_it_is_not_given(program: Program, report: Path) -> None:
    export(report, nsys=str(program.path), timeout=FAR)
    (words,) = program.calls("export")
    assert "--lazy=true" in words
    assert not [word for word in words if "blobs" in word]


def test_the_program_is_found_by_path_by_folder_and_on_path(
    program: Program, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nsys_program.find(str(program.path)) == str(program.path)
    assert nsys_program.find(str(program.path.parents[1])) == str(program.path)
    monkeypatch.setenv("PATH", f"{program.path.parent}{os.pathsep}{os.environ['PATH']}")
    assert nsys_program.find() == str(program.path)
    assert export(report).is_file()


def test_without_nsys_the_command_to_run_elsewhere_is_said(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(TraceFormatError) as caught:
        export(report)
    assert "no nsys on PATH" in str(caught.value)
    assert "nsys export --type=sqlite --output=win.sqlite win.nsys-rep" in str(caught.value)


@pytest.mark.parametrize("given", ["/nonexistent/nsys", "/", "no-such-program"])
def test_an_nsys_that_is_not_there_is_wrong_usage(report: Path, given: str) -> None:
    with pytest.raises(UsageError, match=r"^--nsys: "):
        export(report, nsys=given)


def test_a_program_that_is_no_nsys_is_said_to_be_none(report: Path) -> None:
    with pytest.raises(UsageError, match="does not say the version of Nsight Systems"):
        export(report, nsys="/bin/true")


@pytest.mark.parametrize(
    ("says", "line"),
    [
        (
            "Report was created in Nsight Systems version (2026.1.2.63-261237042871v0), newer than "
            "your current version (2023.4.4.54-234433681190v0).",
            "win.nsys-rep was recorded by nsys 2026.1.2.63, and {} is the older 2023.4.4.54, ",
        ),
        (
            "Exportation error: Version number is invalid: 2024@6@2@225-246235244400v0",
            "win.nsys-rep was recorded by nsys 2024.6.2.225, and {} is the older 2023.4.4.54, ",
        ),
    ],
)
def test_a_report_newer_than_nsys_names_the_version_to_install(
    program: Program, report: Path, says: str, line: str
) -> None:
    program.tell(export=says)
    code, text = refused(report, program)
    assert code == 3
    assert text.startswith(line.format(program.path))
    assert "or newer by --nsys" in text


def test_a_full_disk_is_seen_although_nsys_ends_with_0(program: Program, report: Path) -> None:
    program.tell(export="full")
    code, text = refused(report, program)
    assert code == 3
    assert f"the disk of {cache.folder()} is full" in text


def test_a_damaged_report_is_said_to_be_damaged(program: Program, report: Path) -> None:
    program.tell(export="Exportation error: Section Table Reference magic number mismatch.")
    assert "is cut short or damaged" in refused(report, program)[1]


def test_an_nsys_that_was_killed_is_named(program: Program, report: Path) -> None:
    program.tell(export="killed")
    assert "was ended by SIGKILL (out of memory?)" in refused(report, program)[1]


def test_what_nsys_says_that_nobody_knows_is_passed_on_without_secrets(
    program: Program, report: Path
) -> None:
    program.tell(export="first line\nodd \x1b[31m trouble with api_key=sk-planted1234567890abcd")
    text = refused(report, program)[1]
    assert "ended with exit code 1 (odd \ufffd[31m trouble with api_key=***)" in text


def test_a_failed_export_leaves_nothing_in_the_cache(program: Program, report: Path) -> None:
    program.tell(export="killed")
    refused(report, program)
    assert list(cache.folder().iterdir()) == []


def test_an_export_that_takes_too_long_ends_with_all_it_started(
    program: Program, report: Path
) -> None:
    program.tell(export="hang")
    nsys_program.options(str(program.path), "export")  # asked before, so that the limit is its own
    code, text = refused(report, program, timeout=3)
    assert code == 3
    assert "was not exported within 3 s; allow more by --export-timeout" in text
    assert_gone(program)


def test_an_interrupt_ends_the_export_and_all_it_started(program: Program, report: Path) -> None:
    program.tell(export="hang")
    code = (
        "import sys\n"
        "from specscope.traces.load import load\n"
        "load([sys.argv[2], sys.argv[3]], nsys=sys.argv[1])\n"
    )
    second = report.with_name("second.nsys-rep")
    second.write_bytes(HEAD)
    words = [sys.executable, "-c", code, str(program.path), str(report), str(second)]
    child = subprocess.Popen(words, stderr=subprocess.PIPE)
    await_true(lambda: hanging(program) is not None)
    child.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in child.communicate(timeout=FAR)[1]
    assert_gone(program)


def test_exports_of_the_same_report_at_once_give_one_whole_file(
    program: Program, report: Path
) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: export(report, nsys=str(program.path)), range(4)))
    assert len(set(found)) == 1
    assert tables_of(found[0]) == {"META_DATA_CAPTURE"}
    assert [path.name for path in cache.folder().iterdir()] == [found[0].parent.name]


def test_an_export_stays_until_the_next_however_large(
    program: Program, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECSCOPE_CACHE_BYTES", "1")
    first = export(report, nsys=str(program.path))
    assert first.is_file()
    report.write_bytes(HEAD + b"more")
    second = export(report, nsys=str(program.path))
    assert second.is_file()
    assert not first.exists()


@pytest.mark.parametrize("way", ["no cache asked for", "no folder to write", "no bytes allowed"])
def test_without_a_cache_the_export_is_gone_afterwards(
    program: Program, report: Path, monkeypatch: pytest.MonkeyPatch, way: str, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    if way == "no folder to write":
        monkeypatch.setenv("SPECSCOPE_CACHE_DIR", "/dev/null/nowhere")
    if way == "no bytes allowed":
        monkeypatch.setenv("SPECSCOPE_CACHE_BYTES", "0")
    use_cache = way != "no cache asked for"
    with exported(report, nsys=str(program.path), use_cache=use_cache) as found:
        assert tables_of(found) == {"META_DATA_CAPTURE"}
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (found, found.parent)]
    assert modes == [0o600, 0o700]
    assert not found.parent.exists()


@pytest.mark.parametrize("use_cache", [True, False])
def test_a_report_reads_as_its_export_does_in_its_own_name(
    program: Program, report: Path, use_cache: bool
) -> None:
    program.tell(copy=str(SAMPLE))
    for given in (report, report.parent):  # the file, or a folder with it
        found = load(given, nsys=str(program.path), cache=use_cache)
        wanted = load(SAMPLE)
        for ours, theirs in zip(found.ranks, wanted.ranks, strict=True):
            assert ours.ranges.equals(theirs.ranges)
            (row,) = ours.sources.to_pylist()
            assert row["path"].startswith(f"{report} [process ")
            assert row["bytes"] == len(HEAD)
            assert ours.facts["path"] == str(report)
    assert sorted(report.parent.iterdir()) == [report]


def test_an_export_that_cannot_be_read_is_refused_in_the_name_of_the_report(
    program: Program, report: Path
) -> None:
    with pytest.raises(TraceFormatError, match=r"^win\.nsys-rep is ") as caught:
        load(report, nsys=str(program.path))
    assert "export.sqlite" not in str(caught.value)


def test_a_raw_recording_is_never_read_and_the_rule_is_named(
    program: Program, tmp_path: Path
) -> None:
    raw = tmp_path / "nsys-report-1b29.qdstrm"
    raw.write_bytes(HEAD)
    code, text = refused(raw, program)
    assert code == 3
    assert "only the nsys of exactly the version that recorded it can import it" in text
    assert "QdstrmImporter" in text
    assert program.calls("export") == []
    with pytest.raises(TraceFormatError, match="QdstrmImporter"):
        load(raw, nsys=str(program.path))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (bytes(512), "is filled with zero bytes"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "a Git LFS pointer"),
        (b"\x1f\x8b\x08\x00", "was not exported"),
        (b"<!DOCTYPE html><html>", "a web page"),
    ],
)
def test_what_only_bears_the_name_of_a_report_is_said_to_be_what_it_is(
    program: Program, report: Path, content: bytes, what: str
) -> None:
    program.tell(export="nothing of that kind")
    report.write_bytes(content)
    code, text = refused(report, program)
    assert code == 3
    assert what in text


def test_a_report_that_cannot_be_read_is_wrong_usage(program: Program, tmp_path: Path) -> None:
    assert refused(tmp_path / "gone.nsys-rep", program)[0] == 2


def test_a_report_whose_name_looks_like_a_switch_is_exported(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("--output=x.nsys-rep").write_bytes(HEAD)
    assert export(Path("--output=x.nsys-rep"), nsys=str(program.path)).is_file()


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.pattern[:30])
def test_every_rule_matches_its_own_example_and_no_other(
    trouble: Trouble, report: Path, tmp_path: Path
) -> None:
    hits = [rule for rule in TROUBLES if re.search(rule.pattern, trouble.example)]
    assert hits == [trouble]
    ran = Ran(1, trouble.example)
    assert "{" not in str(failure(report, "/bin/nsys", "2023.4.4.54", ran, tmp_path))


def test_both_rooms_have_the_same_text() -> None:
    rooms = Path(nsys_export.__file__).resolve().parents[1]
    texts = {
        (rooms / room / "nsys_program.py").read_text("utf-8") for room in ("traces", "profiler")
    }
    assert len(texts) == 1


def test_exports_that_were_ended_begin_no_other(program: Program, report: Path) -> None:
    """Else a thread that was about to start one would be waited for."""
    exports = nsys_export.Exports(str(program.path))
    with exports.readable(report) as found:
        assert found.is_file()
    report.write_bytes(HEAD + b"more")
    program.tell(export="hang")
    exports.end()
    with pytest.raises(UsageError, match="was ended"), exports.readable(report):
        pass


def test_an_interrupt_while_a_program_is_started_ends_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = []
    popen = subprocess.Popen

    def interrupted(*words: Any, **options: Any) -> Any:
        started.append(popen(*words, **options))
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)  # here it would be raised
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        nsys_program.run([sys.executable, "-c", "import time; time.sleep(600)"], timeout=FAR)
    assert started[0].returncode == -signal.SIGKILL
    assert signal.getsignal(signal.SIGINT) is before


def test_a_program_that_cannot_be_started_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(NsysError, match="cannot be started"):
        nsys_program.run([str(tmp_path)], timeout=FAR)


def test_a_real_report_of_a_real_nsys(tmp_path: Path) -> None:
    """Recorded, exported, damaged, and too new: the messages are those the stand-in has."""
    nsys = real()
    out = tmp_path / "real"
    words = [nsys, "profile", "--trace=nvtx", "--sample=none", "--cpuctxsw=none", f"--output={out}"]
    ran = nsys_program.run([*words, "/bin/true"], timeout=300)
    report = out.with_suffix(".nsys-rep")
    assert report.is_file(), ran.text
    found = export(report, nsys=nsys, timeout=300)
    assert "StringIds" in tables_of(found)
    assert list(tmp_path.glob("real.*")) == [report]
    whole = report.read_bytes()
    report.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceFormatError, match="is cut short or damaged"):
        export(report, nsys=nsys, timeout=300)
    head = b"NVIDIA Tegra Profiler Report 2099@1@1@1-991100000000v0."
    report.write_bytes(head + whole[whole.index(b".", 30) + 1 :])
    with pytest.raises(TraceFormatError, match=r"was recorded by nsys 2099\.1\.1\.1, and"):
        export(report, nsys=nsys, timeout=300)


def tables_of(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute("select name from sqlite_master where type = 'table'")
        return {name for (name,) in rows}
    finally:
        connection.close()


def hanging(program: Program) -> list[int] | None:
    try:
        return [int(pid) for pid in (program.folder / "hanging").read_text("utf-8").split()]
    except (FileNotFoundError, ValueError):
        return None


def assert_gone(program: Program) -> None:
    pids = hanging(program)
    assert pids
    await_true(lambda: not any(runs(pid) for pid in pids))


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state != b"Z"


def await_true(fact: Callable[[], bool]) -> None:
    until = time.monotonic() + FAR
    while not fact():
        assert time.monotonic() < until
        time.sleep(0.02)
