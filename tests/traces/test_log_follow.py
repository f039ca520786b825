"""Following a log that grows: every row once, whatever the files do meanwhile."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from specscope.profiler.cycle_log_rows import Row
from specscope.profiler.cycle_log_writer import Identity, Pieces
from specscope.traces.errors import UsageError
from specscope.traces.log_follow import Follower
from specscope.traces.log_tail import Tail

START = 10**18


def pieces(
    folder: Path,
    rank: int | None = 0,
    *,
    pid: int = 100,
    start_ns: int = START,
    piece_bytes: int = 1 << 20,
    total_bytes: int = 1 << 30,
) -> Pieces:
    folder.mkdir(exist_ok=True)
    identity = Identity(rank, 2, start_ns, START, pid=pid)
    return Pieces(folder, identity, piece_bytes=piece_bytes, total_bytes=total_bytes)


def rows(*numbers: int) -> list[Row]:
    return [
        Row.of(
            "draft", (number, None, 8, None, 3, None, None), number * 1000, number * 1000 + 300, 1
        )
        for number in numbers
    ]


def taken(follower: Follower) -> dict[int | None, list[int]]:
    """The cycles that came, by rank."""
    found: dict[int | None, list[int]] = {}
    for process, table in follower.poll():
        found.setdefault(process.rank, []).extend(table["cycle"].to_pylist())
    return found


def test_every_row_comes_once_while_the_log_grows_and_rotates(tmp_path: Path) -> None:
    follower = Follower(tmp_path, 300)
    assert taken(follower) == {}
    log = pieces(tmp_path, piece_bytes=9000)
    seen: list[int] = []
    for number in range(0, 200, 5):
        log.write(rows(*range(number, number + 5)))
        if number % 3 == 0:
            seen += taken(follower).get(0, [])
    log.close()
    seen += taken(follower).get(0, [])
    assert seen == list(range(200))
    assert len(list(tmp_path.iterdir())) > 3
    (process,) = follower.processes.values()
    assert (process.rank, process.world_size, process.ended, process.rows) == (0, 2, True, 200)
    assert (process.unread_bytes, process.missed_pieces, process.troubles) == (0, 0, [])


def test_a_batch_is_taken_when_its_last_byte_is_there(tmp_path: Path) -> None:
    log = pieces(tmp_path / "whole")
    log.write(rows(0, 1))
    first = log.size
    log.write(rows(2))
    log.close()
    assert log.path is not None
    data = log.path.read_bytes()
    target = tmp_path / "grows" / log.path.name
    target.parent.mkdir()
    follower = Follower(target.parent, 300)
    seen: list[int] = []
    at = []
    for length in [*range(0, len(data), 61), len(data)]:
        target.write_bytes(data[:length])
        came = taken(follower).get(0, [])
        seen += came
        at += [length] if came else []
        process = next(iter(follower.processes.values()))
        assert process.waiting_bytes >= 0
        assert not process.troubles
    assert seen == [0, 1, 2]
    assert first <= at[0] < first + 61
    assert process.waiting_bytes == 0


def test_what_was_read_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = pieces(tmp_path)
    for number in range(50):
        log.write(rows(number))
    assert log.path is not None
    tail = Tail(log.path)
    assert tail.read() is not None
    read_to = tail.read_bytes
    # Spoil everything that was read: whoever looked at it again would stumble.
    with log.path.open("r+b") as file:
        file.write(b"\0" * read_to)
    log.write(rows(50))
    table = tail.read()
    assert table is not None
    assert table["cycle"].to_pylist() == [50]


def test_a_rank_that_appears_later_joins_and_a_dead_one_stays_named(tmp_path: Path) -> None:
    now = [0.0]
    follower = Follower(tmp_path, 300, clock=lambda: now[0])
    first, second = pieces(tmp_path), pieces(tmp_path, 1, pid=101, start_ns=START + 5)
    first.write(rows(0))
    assert taken(follower) == {0: [0]}
    second.write(rows(0, 1))
    assert taken(follower) == {1: [0, 1]}
    now[0] = 100.0
    first.write(rows(1))
    assert taken(follower) == {0: [1]}
    quiet = {one.rank: now[0] - one.quiet_since for one in follower.processes.values()}
    assert quiet[0] == 0
    assert quiet[1] > 50
    assert [one.ended for one in follower.processes.values()] == [False, False]


def test_a_server_that_is_started_anew_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    follower = Follower(tmp_path, 300)
    pieces(tmp_path).write(rows(0))
    pieces(tmp_path, 1, pid=101).write(rows(0))
    assert taken(follower) == {0: [0], 1: [0]}
    later = START + 10**12
    pieces(tmp_path, 0, pid=200, start_ns=later).write(rows(7))
    assert taken(follower) == {0: [7]}
    assert [one.pid for one in follower.processes.values()] == [200]
    pieces(tmp_path, 1, pid=201, start_ns=later + 9).write(rows(8))
    assert taken(follower) == {1: [8]}
    assert follower.servers == 2


def test_a_piece_that_goes_before_it_was_read_is_told(tmp_path: Path) -> None:
    follower = Follower(tmp_path, 300)
    log = pieces(tmp_path, piece_bytes=1, total_bytes=8000)
    log.write(rows(0))
    assert taken(follower) == {0: [0]}
    for number in range(1, 12):  # a piece each, of which the bound leaves two
        log.write(rows(number))
    came = taken(follower)[0]
    (process,) = follower.processes.values()
    assert came == list(range(12 - len(came), 12))
    assert process.missed_pieces == 11 - len(came)


def test_a_damaged_piece_ends_in_words_and_the_next_one_is_read(tmp_path: Path) -> None:
    follower = Follower(tmp_path, 300)
    log = pieces(tmp_path, piece_bytes=1)
    log.write(rows(0))
    spoilt = log.path
    log.write(rows(1))
    assert spoilt is not None
    spoilt.write_bytes(b"no message of Arrow at all" + spoilt.read_bytes()[26:])
    assert taken(follower) == {0: [1]}
    (process,) = follower.processes.values()
    (trouble,) = process.troubles
    assert "cannot be read on" in trouble


@pytest.mark.parametrize("seed", range(40))
def test_damage_of_any_kind_raises_nothing(tmp_path: Path, seed: int) -> None:
    log = pieces(tmp_path)
    for number in range(0, 60, 10):
        log.write(rows(*range(number, number + 10)))
    log.close()
    assert log.path is not None
    data = bytearray(log.path.read_bytes())
    noise = random.Random(seed)
    for _ in range(noise.randint(1, 8)):
        data[noise.randrange(len(data))] = noise.randrange(256)
    log.path.write_bytes(data)
    follower = Follower(tmp_path, 300)
    assert len(taken(follower).get(0, [])) <= 60
    assert taken(follower) == {}


def test_a_pipe_among_the_logs_is_no_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "specscope-cycles-rank0-pid1-5.0000.arrows")
    follower = Follower(tmp_path, 300)
    assert taken(follower) == {}


def test_old_pieces_of_a_long_log_are_not_read(tmp_path: Path) -> None:
    log = pieces(tmp_path, piece_bytes=1)
    for number in range(6):
        log.write(rows(number))
    for path in sorted(tmp_path.iterdir())[:4]:
        os.utime(path, (1, 1))
    assert taken(Follower(tmp_path, 300)) == {0: [4, 5]}


def test_a_folder_that_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder"):
        Follower(tmp_path / "nowhere", 300)
