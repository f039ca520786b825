"""The live view: the figures of `analyze`, from rows that come in any order."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import specscope
from specscope.analyzers import live_cycles
from specscope.analyzers.live_cycles import own_times
from specscope.analyzers.live_log import LiveLog
from specscope.analyzers.live_view import LiveView
from specscope.analyzers.words import ACCEPT, DRAFT, SCHEDULE, VERIFY
from specscope.profiler.cycle_log_rows import Row
from specscope.profiler.cycle_log_writer import Identity, Pieces

START = 10**18
US = 1000


def cycle_rows(number: int, rng: random.Random, *, gpu: bool, batch: int = 8) -> list[Row]:
    """A cycle of about 20 ms; verify holds accept, as SGLang has it."""
    at = number * 20_000 * US
    values = (number, None, batch, None, 3, None, None)
    draft = rng.randint(1000, 2000) * US
    verify = rng.randint(12_000, 15_000) * US
    spans = [
        ("draft", at, at + draft),
        ("accept", at + draft + verify // 2, at + draft + verify // 2 + 400 * US),
        ("verify", at + draft, at + draft + verify),
        ("draft_extend", at + draft + verify + 50 * US, at + draft + verify + 900 * US),
    ]
    found = [Row.of(name, values, start, end, 7) for name, start, end in spans]
    whole = Row.of("cycle", values, at, at + 19_000 * US, 7)
    if gpu:
        # On the GPU everything takes 1.1 times as long.
        found = [
            row.with_gpu((row.start_ns - at) * 11 // 10, (row.end_ns - at) * 11 // 10)
            for row in found
        ]
        whole = whole.with_gpu(0, 20_000 * US)
    return [*found, whole]


def log_of(
    folder: Path, *, ranks: int, cycles: int, gpu: bool = False, mixed: bool = False
) -> None:
    folder.mkdir(exist_ok=True)
    for rank in range(ranks):
        rng = random.Random(rank)
        rows = [cycle_rows(number, rng, gpu=gpu and number % 5 == 0) for number in range(cycles)]
        if mixed:  # sampled cycles come late
            for number in range(0, cycles - 6, 10):
                rows[number], rows[number + 4] = rows[number + 4], rows[number]
        identity = Identity(rank, ranks, START + rank, START, pid=100 + rank)
        pieces = Pieces(folder, identity, piece_bytes=1 << 20, total_bytes=1 << 30)
        for at in range(0, cycles, 10):
            pieces.write([row for cycle in rows[at : at + 10] for row in cycle])
        pieces.close()


def followed(folder: Path, minutes: float = 60) -> LiveView:
    log = LiveLog(folder, minutes * 60)
    while log.poll():
        pass
    return log.view()


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_shares_and_cycles_are_those_of_analyze(tmp_path: Path, gpu: bool, mixed: bool) -> None:
    log_of(tmp_path / "log", ranks=2, cycles=60, gpu=gpu, mixed=mixed)
    view = followed(tmp_path / "log")
    report = specscope.analyze(specscope.load(tmp_path / "log"))
    assert view.clock == report.clock == ("cuda_events" if gpu else "host")
    rows = {(share.stage, share.rank) for share in view.shares}
    assert rows == {(share.stage, share.rank) for share in report.shares}
    assert {"draft", "verify", "verify_only", "accept", "draft_extend", "schedule"} <= {
        stage for stage, _ in rows
    }
    for theirs in report.shares:
        ours = view.share(theirs.stage, theirs.rank)
        assert ours is not None
        assert ours.share == pytest.approx(theirs.cycle_share.value, abs=1e-12)
        assert ours.ns == pytest.approx(theirs.total_ns, abs=1e-6)
    for row in report.cycles:
        (rank,) = [rank for rank in view.ranks if rank.rank == row.rank]
        assert rank.cycles == row.count
        assert rank.cycle_ns == row.median_ns


def test_stages_of_a_point_add_up_to_its_mean_cycle(tmp_path: Path) -> None:
    log_of(tmp_path / "log", ranks=1, cycles=400)
    view = followed(tmp_path / "log", minutes=1)
    assert len(view.points) > 3
    for point in view.points:
        if point.cycle_ns:
            assert sum(point.stage_ns.values()) == pytest.approx(point.cycle_ns[0])


def test_of_every_instant_the_innermost_range_is_the_owner() -> None:
    times = own_times([(0, 100, VERIFY), (20, 30, ACCEPT), (25, 28, DRAFT), (90, 120, DRAFT)], 0)
    assert times[VERIFY] == 80
    assert times[ACCEPT] == 7
    assert times[DRAFT] == 3 + 30
    assert times[SCHEDULE] == 0


def test_accept_length_counts_every_sequence_once_and_one_process_alone(tmp_path: Path) -> None:
    for rank in (0, 1):
        identity = Identity(rank, 2, START + rank, START, pid=100 + rank)
        pieces = Pieces(tmp_path, identity, piece_bytes=1 << 20, total_bytes=1 << 30)
        rows = cycle_rows(0, random.Random(1), gpu=False) + cycle_rows(
            1, random.Random(1), gpu=False
        )
        rows += [Row.accept(0, [1, 1, 4], 10**9, 7), Row.accept(1, [3], 2 * 10**9, 7)]
        pieces.write(rows)
    view = followed(tmp_path)
    assert view.accept_length == pytest.approx((1 + 1 + 4 + 3) / 4)
    assert view.accept_cycles == 2
    assert view.tokens_per_second == pytest.approx(3.0)  # those of the first began before


def test_only_the_last_minutes_are_kept(tmp_path: Path) -> None:
    log_of(tmp_path / "log", ranks=1, cycles=600)  # 12 s
    log = LiveLog(tmp_path / "log", 6)
    while log.poll():
        pass
    view = log.view()
    assert 290 <= view.ranks[0].cycles <= 300
    assert view.covered_s == pytest.approx(6, abs=0.1)
    (fold,) = log._folds.values()
    assert len(fold.cycles) <= 301
    assert len(fold._open) <= live_cycles.OPEN_CYCLES


def test_more_cycles_than_are_kept_are_let_go_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_cycles, "MOST_CYCLES", 100)
    log_of(tmp_path / "log", ranks=1, cycles=150)
    view = followed(tmp_path / "log")
    assert view.ranks[0].cycles == 99
    assert any("more cycles than are kept" in note for note in view.ranks[0].notes)


def test_what_the_writer_lost_and_ranks_without_a_log_are_told(tmp_path: Path) -> None:
    identity = Identity(0, 4, START, START, pid=100)
    pieces = Pieces(tmp_path, identity, piece_bytes=1 << 20, total_bytes=1 << 30)
    pieces.write(cycle_rows(0, random.Random(1), gpu=False))
    pieces.note([Row.lost(5, "queue_full", 0)])
    pieces.note([Row.lost(17, "queue_full", 0)])
    view = followed(tmp_path)
    assert view.missing_ranks == (1, 2, 3)
    assert any("17 rows lost (queue_full)" in note for note in view.ranks[0].notes)


def test_what_the_hooks_cost_comes_from_their_report(tmp_path: Path) -> None:
    log_of(tmp_path, ranks=1, cycles=60)
    hooks = [
        {
            "engine": "sglang",
            "target": "a:b",
            "role": role,
            "stage": "",
            "state": "patched",
            "fired": 60,
            "own_ns": own,
        }
        for role, own in (("cycle", 1_200_000), ("stage", 600_000), ("collective", 9_000_000))
    ]
    report = {
        "schema_version": 1,
        "host": "h",
        "pid": 100,
        "process": "p",
        "active": True,
        "engines": {},
        "hooks": hooks,
    }
    (tmp_path / "attach-h-100.json").write_text(json.dumps(report))
    (rank,) = followed(tmp_path).ranks
    assert rank.hook_ns == pytest.approx(30_000)
    assert rank.hook_share == pytest.approx(30_000 / 20e6, rel=0.1)


def test_a_rank_that_says_nothing_while_another_goes_on_is_named(tmp_path: Path) -> None:
    now = [0.0]
    logs = []
    for rank in (0, 1):
        identity = Identity(rank, 2, START + rank, START, pid=100 + rank)
        logs.append(Pieces(tmp_path, identity, piece_bytes=1 << 20, total_bytes=1 << 30))
    log = LiveLog(tmp_path, 300, clock=lambda: now[0])
    for pieces in logs:
        pieces.write(cycle_rows(0, random.Random(1), gpu=False))
    log.poll()
    now[0] = 30.0
    logs[0].write(cycle_rows(1, random.Random(1), gpu=False))
    log.poll()
    notes = {rank.rank: rank.notes for rank in log.view().ranks}
    assert notes[0] == ()
    assert any("no rows for 3" in note for note in notes[1])


def test_a_folder_without_a_log_is_waited_for(tmp_path: Path) -> None:
    log = LiveLog(tmp_path, 300)
    log.poll()
    view = log.view()
    assert view.shares == ()
    assert view.notes == ("no cycle log in the folder yet: waiting for one",)
    log_of(tmp_path, ranks=1, cycles=20)
    log.poll()
    assert log.view().share("verify") is not None
