"""The cycle log: nothing blocks, every loss is counted, what was written can be read."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import specscope
from specscope.profiler import cycle_log_rows, grammar, ranges
from specscope.profiler.cycle_log import CycleLog, LogConfig
from specscope.profiler.cycle_log_rows import STAGE_CODE, Row
from specscope.profiler.metrics import Exporter
from specscope.traces import cycle_log as reader
from specscope.traces import schema, sniff
from tests import waiting
from tests.profiler.scraping import free_ports, page
from tests.shared import needed

STAGES = ("draft", "verify", "accept")


def rows_of(number: int) -> list[Row]:
    """The rows of one cycle of 1 ms."""
    start = 1_000_000 * number
    values = (number, None, 8, None, 3, None, None)
    cycle = Row.of("cycle", values, start, start + 1_000_000, 1)
    return [
        *(
            Row.of(name, values, start + 250_000 * at, start + 250_000 * (at + 1), 1)
            for at, name in enumerate(STAGES)
        ),
        cycle,
    ]


def started(folder: Path, put_bytes: Callable[[int, Any], int] = os.write, **more: Any) -> CycleLog:
    log = CycleLog(LogConfig(folder, rank=0, **more), put_bytes=put_bytes, poll_seconds=0.002)
    assert log.start()
    return log


def read(folder: Path) -> Any:
    (rank,) = specscope.load(folder).ranks
    return rank


def counted(folder: Path) -> dict[str, int]:
    """Rows by kind, and lost ones by reason."""
    rank = read(folder)
    found: dict[str, int] = {}
    for row in rank.cycle_log["row"].to_pylist():
        found[row] = found.get(row, 0) + 1
    for loss in rank.losses.to_pylist():
        found[loss["reason"]] = found.get(loss["reason"], 0) + loss["count"]
    return found


def put_slowly(log: CycleLog, rows: list[Row], most_waiting: int = 5_000) -> None:
    """As a server does, which is never faster than the writer for long."""
    while len(log._rows) > most_waiting and log.is_on:
        time.sleep(0.0005)
    for row in rows:
        log.put(row)


def test_reader_and_writer_agree_on_the_schema() -> None:
    from specscope.profiler import cycle_log_writer

    assert sniff.CYCLE_LOG_MARK == cycle_log_rows.MARK
    assert reader.VERSION == cycle_log_rows.VERSION
    assert reader.ROWS == cycle_log_rows.ROWS
    assert reader.STAGES == grammar.STAGES
    written = cycle_log_writer.schema({})
    assert [(f.name, f.type, f.nullable) for f in written] == [
        (f.name, f.type, f.nullable) for f in schema.CYCLE_LOG if f.name != "rank"
    ]
    assert tuple(Row._fields) == tuple(written.names)


@pytest.mark.parametrize("field", ["cycle", "step", "batch", "tokens", "k"])
@pytest.mark.parametrize(
    "value", [2**63, -(2**63) - 1, 10**5000], ids=["2^63", "-2^63-1", "10^5000"]
)
def test_a_number_that_the_log_cannot_hold_is_left_out_and_the_log_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, field: str, value: int
) -> None:
    ranges.configure(ranges.Config(log=tmp_path / "log", nvtx="off", torch=False, rank=0))
    ranges.enable()
    try:
        for given in ({}, {field: value}, {field: 2**63 - 1}, {field: value}):
            with ranges.stage("verify", **given):
                pass
        ranges.record_accept(2**80, [2])
        log = ranges.STATE.log
        assert log is not None
    finally:
        ranges.shutdown()
    assert (log.report()["error"], log.report()["lost"]) == ("", {})
    assert log.report()["left_out"] == 3
    *stages, accept = read(tmp_path / "log").cycle_log.to_pylist()
    name = "draft_step" if field == "step" else field
    assert [row[name] for row in stages] == [None, None, 2**63 - 1, None]
    assert (accept["cycle"], accept["accept_lengths"]) == (None, [2])
    (warning,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert warning.startswith("specscope: the cycle log leaves out numbers")


def test_lengths_that_the_log_cannot_hold_are_left_out(tmp_path: Path) -> None:
    ranges.configure(ranges.Config(log=tmp_path / "log", nvtx="off", torch=False, rank=0))
    ranges.enable()
    try:
        ranges.record_drafts(0, [2, 2**31 - 1, 1], 1)
        log = ranges.STATE.log
        assert log is not None
    finally:
        ranges.shutdown()
    assert log.report()["left_out"] == 1
    (row,) = read(tmp_path / "log").cycle_log.to_pylist()
    assert row["accept_lengths"] == [3, 2]


def test_a_rank_that_cannot_be_is_none(tmp_path: Path) -> None:
    log = started(tmp_path / "log")
    log.set_rank(2**80, 10**5000)
    log.put(rows_of(0)[0])
    log.close()
    assert log.report()["error"] == ""
    assert read(tmp_path / "log").facts["world_size"] is None


def test_rows_come_back_as_they_were_put(tmp_path: Path) -> None:
    log = started(tmp_path / "log", world_size=2, engine="toy", engine_version="1.2")
    for number in range(3):
        put_slowly(log, rows_of(number))
    log.record_accept(1, [2, 3, 4])
    log.close()
    rank = read(tmp_path / "log")
    rows = rank.cycle_log.to_pylist()
    assert [row["stage"] for row in rows if row["cycle"] == 1 and row["row"] == "stage"] == [
        *STAGES
    ]
    (accept,) = [row for row in rows if row["row"] == "accept"]
    assert (accept["accept_lengths"], accept["accept_length"]) == ([2, 3, 4], 3.0)
    assert rank.facts["world_size"] == 2
    assert rank.facts["producer"] == "toy"
    assert rank.losses.num_rows == 0
    since_1970 = rank.facts["clock_base_ns"] + time.perf_counter_ns()
    assert abs(since_1970 - time.time_ns()) < 50_000_000


def test_files_are_private_and_say_rank_and_process(tmp_path: Path) -> None:
    log = started(tmp_path / "log")
    put_slowly(log, rows_of(0))
    log.close()
    (file,) = (tmp_path / "log").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o700
    assert file.name.startswith(f"specscope-cycles-rank0-pid{os.getpid()}-")


def test_a_process_without_ranges_leaves_no_file(tmp_path: Path) -> None:
    started(tmp_path / "log").close()
    assert list((tmp_path / "log").iterdir()) == []


def test_rotated_pieces_are_one_log_and_the_bound_holds(tmp_path: Path) -> None:
    log = started(tmp_path / "log", batch_rows=100, piece_bytes=40_000, total_bytes=200_000)
    for number in range(4_000):
        put_slowly(log, rows_of(number), 300)
    log.close()
    pieces = list((tmp_path / "log").iterdir())
    assert 3 <= len(pieces) <= 5
    assert sum(piece.stat().st_size for piece in pieces) < 220_000
    found = counted(tmp_path / "log")
    assert found["log_rotated_away"] == log.report()["lost"]["rotated_away"] > 0
    assert found["stage"] + found["cycle"] + found["log_rotated_away"] == 16_000
    newest = max(row for row in read(tmp_path / "log").cycle_log["cycle"].to_pylist() if row)
    assert newest == 3_999


def test_a_log_that_ends_takes_no_more_of_the_processor(tmp_path: Path) -> None:
    """The first batch of several finds the disk full: the others are gone with it."""

    def full(file: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    log = started(tmp_path / "log", full, batch_rows=10, flush_seconds=3600.0)
    for number in range(100):
        for row in rows_of(number):
            log.put(row)
    waiting.until(lambda: not log.is_on, "the log is off")
    assert log._thread is not None
    waiting.joined(log._thread)
    log.close()
    assert log.report()["lost"] == {"write_failed": 400}


def test_a_queue_that_is_full_drops_and_counts_and_never_blocks(tmp_path: Path) -> None:
    go = threading.Event()

    def stuck(file: int, data: Any) -> int:
        go.wait(waiting.MOST_SECONDS)
        return os.write(file, data)

    log = started(tmp_path / "log", stuck, queue_rows=1_000, batch_rows=100)
    start = time.monotonic()
    for number in range(5_000):
        for row in rows_of(number):
            log.put(row)
    assert time.monotonic() - start < waiting.PATIENCE
    assert len(log._rows) <= 1_000
    go.set()
    log.close()
    found = counted(tmp_path / "log")
    assert found["stage"] + found["cycle"] + found["log_queue_full"] == 20_000


def test_a_full_disk_ends_the_log_with_one_warning_and_the_rest_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = 0

    def small_disk(file: int, data: Any) -> int:
        nonlocal written
        room = 30_000 - written
        if room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = os.write(file, data[:room])
        written += done
        return done

    log = started(tmp_path / "log", small_disk, batch_rows=50, flush_seconds=0.0)
    with caplog.at_level(logging.WARNING, "specscope"):
        for number in range(400):
            put_slowly(log, rows_of(number), 100)
        log.close()
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text
    report = log.report()
    assert not report["active"]
    found = counted(tmp_path / "log")
    assert found["stage"] + found["cycle"] + report["lost"]["write_failed"] == 1_600
    assert "log_truncated" not in found


def test_a_writer_leaves_the_rows_of_a_log_that_began_anew(tmp_path: Path) -> None:
    log = started(tmp_path / "log")
    before = log._thread
    assert before is not None
    log.after_fork()
    for row in rows_of(1):
        log.put(row)
    waiting.joined(before)
    log.close()
    assert log.report()["rows"] == len(rows_of(1))


def test_a_folder_that_cannot_be_written_costs_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    ranges.configure(ranges.Config(log=tmp_path / "file" / "log", nvtx="off", torch=False))
    ranges.enable()
    with ranges.cycle_range(), ranges.stage("draft"):
        pass
    report = ranges.emitters_report()
    ranges.shutdown()
    assert len(caplog.records) == 1
    assert not report["cycle_log"]["active"]
    assert "NotADirectoryError" in report["cycle_log"]["reason"]


def test_a_rank_that_is_known_late_begins_a_piece_of_its_own(tmp_path: Path) -> None:
    log = CycleLog(LogConfig(tmp_path), poll_seconds=0.002)
    log.start()
    put_slowly(log, rows_of(0))
    log.set_rank(3, 4)
    log.close()
    assert read(tmp_path).rank == 3


SERVE = """
import os, signal, sys, time
from pathlib import Path
from specscope import profiler
profiler.configure(profiler.Config(log=Path(sys.argv[1]), nvtx="off", rank=0, size=1))
profiler.enable()
def serve(cycles):
    for _ in range(cycles):
        with profiler.cycle_range(batch=8):
            for name in ("draft", "verify", "accept"):
                with profiler.stage(name): pass
"""


def test_a_log_is_read_after_its_process_was_killed(tmp_path: Path) -> None:
    code = SERVE + "serve(3000)\ntime.sleep(1.5)\nserve(50)\nos.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    rank = read(tmp_path)
    assert rank.cycle_log["row"].to_pylist().count("stage") >= 9_000
    assert rank.losses.num_rows == 0


def test_a_process_that_ends_writes_its_last_rows(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", SERVE + "serve(25)", str(tmp_path)], check=True)
    assert read(tmp_path).cycle_log["row"].to_pylist().count("cycle") == 25


@pytest.mark.parametrize("how", ["os.fork", "multiprocessing"])
def test_a_forked_child_has_a_log_of_its_own(tmp_path: Path, how: str) -> None:
    child = (
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    profiler.set_rank(1, 2); serve(70); profiler.shutdown(); os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        if how == "os.fork"
        else "import multiprocessing\n"
        "def work():\n"
        "    profiler.set_rank(1, 2); serve(70)\n"
        "process = multiprocessing.get_context('fork').Process(target=work)\n"
        "process.start(); process.join()\n"
    )
    code = SERVE + "serve(2000); time.sleep(0.3)\n" + child + "serve(10)\n"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(tmp_path)], check=True)
    run = specscope.load(tmp_path)
    cycles = {r.rank: r.cycle_log["row"].to_pylist().count("cycle") for r in run.ranks}
    assert cycles == {0: 2010, 1: 70}
    assert all(r.losses.num_rows == 0 for r in run.ranks)


def test_the_ranges_feed_the_log_with_accept_lengths(tmp_path: Path) -> None:
    ranges.configure(ranges.Config(log=tmp_path, nvtx="off", torch=False, rank=0))
    ranges.enable()
    for _ in range(6):
        with ranges.cycle_range(batch=2, k=3):
            number = ranges.current_cycle()
            with ranges.stage("draft"):
                time.sleep(0.001)
            with ranges.stage("verify"):
                time.sleep(0.003)
        ranges.record_accept(number, [1, 4])
    ranges.shutdown()
    report = specscope.analyze(specscope.load(tmp_path))
    assert report.facts["accept_length"] == 2.5
    assert set(report.tables["cycles"]["accept_length"].to_pylist()) == {2.5}
    assert report.share("verify") is not None
    assert "cycle_log" in report.tables


def test_secrets_around_the_server_are_not_in_the_log(tmp_path: Path) -> None:
    code = SERVE + "serve(5)\n"
    environment = os.environ | {"HF_TOKEN": "hf_planted_secret_123456"}
    command = [sys.executable, "-c", code, str(tmp_path), "--api-key", "sk-planted-secret-99"]
    subprocess.run(command, check=True, env=environment)
    (file,) = tmp_path.iterdir()
    assert b"planted" not in file.read_bytes()


class Disk:
    """A disk that is slow and then full, in turns."""

    def __init__(self) -> None:
        self.slow_ns = 0
        self.full = False

    def write(self, file: int, data: Any) -> int:
        if self.slow_ns:
            time.sleep(self.slow_ns / 1e9)
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(file, data)


def used(folder: Path) -> int:
    """Bytes on the disk, while pieces come and go."""
    sizes = 0
    for piece in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            sizes += piece.stat().st_size
    return sizes


class Counting(Exporter):
    """Metrics that know how many rows they were given."""

    rows = 0

    def take(self, rows: Sequence[Row]) -> None:
        self.rows += len(rows)
        super().take(rows)


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(folder: Path, cycles: int, metrics: Counting | None = None) -> dict[str, int]:
    """So many cycles through the log with rotation; a slow disk for a while, at last a full one.

    Memory and disk stay bounded, and every row is on the disk or counted. With metrics, these
    have every row that the queue took, also when the disk is full.
    """
    disk = Disk()
    log = CycleLog(
        LogConfig(folder, rank=0, queue_rows=6_000, piece_bytes=2 << 20, total_bytes=16 << 20),
        put_bytes=disk.write,
        poll_seconds=0.001,
        metrics=metrics,
    )
    assert log.start()
    put = most = first = grown = 0
    for number in range(cycles):
        phase = number / cycles
        disk.slow_ns = 30_000_000 if 0.4 < phase < 0.45 else 0
        disk.full = phase > 0.95
        rows = rows_of(number)
        if disk.slow_ns:
            for row in rows:
                log.put(row)
        else:
            put_slowly(log, rows)
        put += len(rows)
        if number % 1_000 == 0:
            most = max(most, used(folder))
            assert len(log._rows) <= 6_000
            if phase > 0.1:
                first = first or resident()
                grown = max(grown, resident() - first)
    log.close()
    lost = log.report()["lost"]
    if metrics is not None:
        assert metrics.rows == put - lost["queue_full"]
        observed = metrics._tally.stages[STAGE_CODE["verify"]].count
        assert cycles - lost["queue_full"] <= observed <= cycles
    found = counted(folder)
    assert found["stage"] + found["cycle"] + sum(lost.values()) == put
    # What is lost once the disk is full can no longer be written down there.
    assert 0 < found["log_queue_full"] <= lost["queue_full"]
    assert found.get("log_rotated_away", 0) <= lost.get("rotated_away", 0)
    assert lost["write_failed"] > 0
    assert most <= (16 << 20) + (2 << 20)
    assert grown < 64 << 20
    return {"disk": most, "grown": grown, "rows": put, **lost}


def test_a_short_soak_loses_nothing_uncounted(tmp_path: Path) -> None:
    soak(tmp_path / "log", 60_000)


def test_a_short_soak_with_metrics_counts_every_row_that_was_not_dropped(tmp_path: Path) -> None:
    needed("prometheus_client")
    soak(tmp_path / "log", 60_000, Counting(free_ports(1)))


@pytest.mark.long
@pytest.mark.parametrize("with_metrics", [False, True], ids=["log", "log and metrics"])
def test_a_day_in_fast_motion_loses_nothing_uncounted(tmp_path: Path, with_metrics: bool) -> None:
    port = free_ports(1)
    done = threading.Event()
    sizes: list[int] = []

    def scrape() -> None:
        while not done.wait(0.5):
            with contextlib.suppress(OSError):
                sizes.append(len(page(port)))

    scraper = threading.Thread(target=scrape, daemon=True)
    if with_metrics:
        scraper.start()
    start = time.process_time()
    found = soak(tmp_path / "log", 5_000_000, Counting(port) if with_metrics else None)
    print(f"\n{found}, {time.process_time() - start:.0f} s of CPU, page {max(sizes, default=0)}")
    done.set()
    if with_metrics:
        waiting.joined(scraper)
        assert len(sizes) > 20
        assert max(sizes) < 64_000


@pytest.mark.long
def test_servers_killed_again_and_again_leave_logs_that_are_read(tmp_path: Path) -> None:
    for number in range(30):
        folder = tmp_path / str(number)
        process = subprocess.Popen([sys.executable, "-c", SERVE + "serve(10_000_000)", str(folder)])
        waiting.until(lambda: folder.is_dir() and used(folder) > 300_000, "a log of some size")  # noqa: B023
        time.sleep(0.037 * number)
        process.kill()
        process.wait()
        rank = read(folder)
        assert rank.cycle_log.num_rows > 1_000
        assert set(rank.losses["reason"].to_pylist()) <= {"log_truncated", "log_queue_full"}


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of 256 kB, where tests may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a small disk; a file that raises ENOSPC stands in above")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_real_disk_that_fills_leaves_whole_batches(tiny_disk: Path) -> None:
    log = started(tiny_disk / "log", flush_seconds=0.0, batch_rows=100)
    for number in range(3_000):
        put_slowly(log, rows_of(number), 500)
    log.close()
    report = log.report()
    assert "No space left" in report["error"]
    found = counted(tiny_disk / "log")
    assert found["stage"] + found["cycle"] + report["lost"]["write_failed"] == 12_000
    assert "log_truncated" not in found
