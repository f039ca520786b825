"""`specscope record` with a real nsys: nothing of a collection is lost when the workers end."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest

from specscope.traces.nsys_export import export
from tests import nsys_server
from tests.nsys_programs import all_real, python_with_older_nvtx

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[1]
FAR = 180.0
CYCLES = 60
EACH_NSYS = pytest.mark.parametrize(
    "nsys", all_real(), ids=lambda path: "/".join(Path(path).parts[-3:])
)
RANGES = """
select n.globalTid >> 24, s.value, n.int64Value, n.end
from NVTX_EVENTS n join StringIds s on s.id = n.textId
where n.eventType = 59 order by n.start
"""


class Recording:
    """`specscope record` on the server without a GPU, driven from its lines."""

    def __init__(self, nsys: str, folder: Path, *options: str) -> None:
        self.out, self.work = folder / "out", folder / "work"
        self.work.mkdir()
        self.lines: list[str] = []
        program = [python_with_older_nvtx(), str(ROOT / "tests" / "nsys_server.py"), str(self.work)]
        words = ["--nsys", nsys, "--out", str(self.out), "--no-analyze", *options, "--", *program]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "specscope", "record", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *raised: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(FAR)
        self.process.kill()
        self._reader.join(FAR)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(iter(self.process.stderr.readline, ""))

    def await_line(self, word: str, count: int = 1) -> None:
        self._await(lambda: sum(word in line for line in list(self.lines)) >= count)

    def await_cycles(self, more: int) -> list[int]:
        """Wait for so many more cycles of each worker; how many it has done then."""
        wanted = [done + more for done in self.cycles()]
        self._await(lambda: all(d >= w for d, w in zip(self.cycles(), wanted, strict=True)))
        return self.cycles()

    def cycles(self) -> list[int]:
        files = [self.work / f"cycles-{rank}" for rank in range(nsys_server.WORKERS)]
        return [file.stat().st_size for file in files]

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        return self.process.wait(FAR)

    def _await(self, fact: object) -> None:
        until = time.monotonic() + FAR
        while not fact():  # type: ignore[operator]
            assert self.process.poll() is None, self.lines
            assert time.monotonic() < until, self.lines
            time.sleep(0.02)


def ranges(report: Path, nsys: str) -> list[tuple[int, str, int, int | None]]:
    connection = sqlite3.connect(export(report, nsys=nsys, timeout=FAR))
    try:
        return list(connection.execute(RANGES))
    finally:
        connection.close()


@EACH_NSYS
def test_a_window_holds_every_range_of_every_worker(nsys: str, tmp_path: Path) -> None:
    """Each worker counts its cycles in a file of its own; the report is held against that."""
    with Recording(nsys, tmp_path, "--by-signal") as recording:
        recording.await_line("serving")
        recording.tell(signal.SIGUSR1)
        recording.await_line("collecting")
        first = recording.cycles()
        last = recording.await_cycles(CYCLES)
        recording.tell(signal.SIGUSR1)
        recording.await_line("ending the collection")
        recording.await_cycles(1)  # the server lives while the report is written
        recording.tell(signal.SIGINT)
        assert recording.end() == 0
    (report,) = recording.out.glob("*.nsys-rep")

    found = ranges(report, nsys)
    cycles: dict[int, list[int]] = defaultdict(list)
    for process, text, payload, _ in found:
        if text == "cycle|b=4|k=3":
            cycles[process].append(payload)
    assert len(cycles) == nsys_server.WORKERS
    for numbers in cycles.values():
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    # Which worker is which is not in the report: the window of each must hold one's own counts.
    held = sorted((numbers[0], numbers[-1] + 1) for numbers in cycles.values())
    wanted = sorted(zip(first, last, strict=True))
    for (begin, end), (least, most) in zip(held, wanted, strict=True):
        assert begin <= least + 1
        assert end >= most
    names = {text for _, text, _, _ in found}
    assert names == {"cycle|b=4|k=3", *(name for name, _ in nsys_server.STAGES)}


@EACH_NSYS
def test_an_interrupt_of_a_whole_command_keeps_what_there_was(nsys: str, tmp_path: Path) -> None:
    with Recording(nsys, tmp_path) as recording:
        recording.await_line("serving")
        last = recording.await_cycles(CYCLES)
        recording.tell(signal.SIGINT)
        assert recording.end() == 0
    (report,) = recording.out.glob("*.nsys-rep")
    ends: dict[int, int] = defaultdict(int)
    for process, text, payload, _ in ranges(report, nsys):
        if text.startswith("cycle"):
            ends[process] = max(ends[process], payload + 1)
    assert all(e >= w for e, w in zip(sorted(ends.values()), sorted(last), strict=True))


@EACH_NSYS
def test_nothing_of_it_runs_on(nsys: str, tmp_path: Path) -> None:
    with Recording(nsys, tmp_path, "--delay", "0.1", "--duration", "0.5") as recording:
        assert recording.end() == 0
    assert not any(str(tmp_path) in words for words in command_lines())


def command_lines() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        found.append(words.decode("utf-8", "replace"))
    return found
