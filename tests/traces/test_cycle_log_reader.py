"""Reading cycle logs: whole ones, cut ones, foreign ones, and folders of them."""

from __future__ import annotations

import os
import random
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import specscope
from specscope.profiler.cycle_log_rows import MARK, Row
from specscope.profiler.cycle_log_writer import Identity, Pieces, schema
from specscope.traces.errors import SpecscopeError, TraceFormatError, UsageError
from specscope.traces.file_names import read_name

DAY_NS = 86_400 * 10**9


def write(
    folder: Path,
    *,
    rank: int | None = 0,
    pid: int = 100,
    start_ns: int = 10**18,
    batches: int = 4,
    piece_bytes: int = 1 << 20,
    size: int = 1,
) -> list[Path]:
    """A log of 10 cycles a batch."""
    folder.mkdir(exist_ok=True)
    before = set(folder.iterdir())
    identity = Identity(rank, size, start_ns, start_ns, pid=pid)
    pieces = Pieces(folder, identity, piece_bytes=piece_bytes, total_bytes=1 << 30)
    for batch in range(batches):
        rows = []
        for number in range(10 * batch, 10 * batch + 10):
            values = (number, None, 8, None, 3, None, None)
            at = number * 1_000_000
            rows.append(Row.of("cycle", values, at, at + 950_000, 1))
            rows.append(Row.of("draft", values, at, at + 300_000, 1))
            rows.append(Row.of("verify", values, at + 300_000, at + 900_000, 1))
        pieces.write(rows)
    pieces.close()
    return sorted(set(folder.iterdir()) - before)


def test_a_log_cut_at_any_byte_is_read_up_to_its_last_whole_batch(tmp_path: Path) -> None:
    (path,) = write(tmp_path / "log")
    whole = path.read_bytes()
    cut = tmp_path / path.name
    seen = set()
    for length in [*range(0, len(whole), 97), *range(len(whole) - 40, len(whole))]:
        cut.write_bytes(whole[:length])
        try:
            (rank,) = specscope.load(cut).ranks
        except TraceFormatError as error:
            assert "\n" not in str(error)
            continue
        rows = rank.cycle_log.num_rows if rank.cycle_log is not None else -1
        assert rows % 30 == 0
        seen.add(rows)
        for loss in rank.losses.to_pylist():
            assert loss["reason"] == "log_truncated"
            assert loss["offset"] + loss["length"] == length
        assert rank.facts["event_bytes"] + rank.facts["skipped_bytes"] == length
    assert seen == {0, 30, 60, 90, 120}


def test_a_cut_log_says_so_in_a_note(tmp_path: Path) -> None:
    (path,) = write(tmp_path / "log")
    path.write_bytes(path.read_bytes()[:-500])
    run = specscope.load(tmp_path / "log")
    (note,) = [note for note in run.notes if note.code == "loss_log_truncated"]
    assert "ends inside a batch" in note.text


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_log_is_read_or_refused_in_one_line(tmp_path: Path, seed: int) -> None:
    (path,) = write(tmp_path / "log")
    data = bytearray(path.read_bytes())
    noise = random.Random(seed)
    for _ in range(noise.randint(1, 8)):
        data[noise.randrange(len(data))] = noise.randrange(256)
    path.write_bytes(data)
    try:
        specscope.analyze(specscope.load(path))
    except SpecscopeError as error:
        assert "\n" not in str(error)


def test_pieces_are_joined_and_a_missing_one_is_a_loss(tmp_path: Path) -> None:
    paths = write(tmp_path / "log", piece_bytes=1, batches=5)
    assert len(paths) == 5
    (rank,) = specscope.load(tmp_path / "log").ranks
    assert rank.cycle_log is not None
    assert rank.cycle_log.num_rows == 150
    assert rank.cycle_log["start_ns"].to_pylist() == sorted(rank.cycle_log["start_ns"].to_pylist())
    assert rank.sources.num_rows == 5
    paths[2].unlink()
    (rank,) = specscope.load(tmp_path / "log").ranks
    assert rank.losses["reason"].to_pylist() == ["log_piece_missing"]


def test_ranks_of_a_folder_are_one_run_and_a_share_has_both(tmp_path: Path) -> None:
    for rank in (1, 0):
        write(tmp_path / "log", rank=rank, pid=100 + rank, start_ns=10**18 + rank, size=2)
    run = specscope.load(tmp_path / "log")
    assert [rank.rank for rank in run.ranks] == [0, 1]
    report = specscope.analyze(run)
    share = report.share("verify")
    assert share is not None
    assert share.cycle_share.value == pytest.approx(0.6)
    assert report.clock == "host"
    assert report.verdict.confidence == "medium"
    assert "on 2 ranks" in report.verdict.sentence


def test_the_newest_server_of_a_folder_is_read(tmp_path: Path) -> None:
    old = write(tmp_path / "log", rank=0, pid=7, start_ns=10**18 - DAY_NS)
    old += write(tmp_path / "log", rank=1, pid=8, start_ns=10**18 - DAY_NS)
    write(tmp_path / "log", rank=0, pid=9)
    run = specscope.load(tmp_path / "log")
    assert [rank.facts["path"].count("pid9") for rank in run.ranks] == [1]
    assert len(run.listed) == len(old)
    assert [note.code for note in run.notes] == ["captures_listed"]


def test_a_folder_with_a_trace_lists_its_logs(tmp_path: Path) -> None:
    from tests.build import Timeline

    write(tmp_path / "log")
    timeline = Timeline()
    timeline.launch(0, 5, "kernel", 10, 20)
    (tmp_path / "log" / "a-TP-0.trace.json").write_bytes(timeline.to_json())
    run = specscope.load(tmp_path / "log")
    assert run.ranks[0].cycle_log is None
    assert any("a cycle log" in line for line in run.listed)
    files = sorted((tmp_path / "log").iterdir())
    with pytest.raises(UsageError, match="not one run"):
        specscope.load(files)


def test_an_arrow_stream_of_others_is_named(tmp_path: Path) -> None:
    path = tmp_path / "other.arrows"
    table = pa.table({"a": [1]})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    with pytest.raises(TraceFormatError, match="no cycle log of specscope"):
        specscope.load(path)


def test_a_log_of_a_later_version_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "later.arrows"
    later = schema({MARK: "9"})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, later):
        pass
    with pytest.raises(TraceFormatError, match="of version 9, 1 is known"):
        specscope.load(path)


def test_columns_of_a_later_writer_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "wider.arrows"
    wider = schema({MARK: "1", "rank": "0"}).append(pa.field("later", pa.string()))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, wider):
        pass
    (rank,) = specscope.load(path).ranks
    assert rank.cycle_log is not None
    assert "later" not in rank.cycle_log.column_names


def test_the_name_of_a_piece_says_rank_process_and_start() -> None:
    name = read_name("specscope-cycles-rank3-pid77-1700000000000000000.0002.arrows")
    assert (name.role, name.rank, name.stamp_ns) == ("cycle_log", 3, 1_700_000_000_000_000_000)
    assert read_name("specscope-cycles-pid77-17.0000.arrows").rank is None


def test_a_copied_log_reads_like_the_log(tmp_path: Path) -> None:
    write(tmp_path / "log")
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    first, second = (specscope.load(tmp_path / name).ranks[0] for name in ("log", "copy"))
    assert first.cycle_log is not None
    assert first.cycle_log.equals(second.cycle_log)


def write_lengths(folder: Path, *, pid: int, later_ns: int = 0, lengths: int = 30) -> None:
    """The log of a process like vLLM's EngineCore: accept lengths of the cycles, no rank."""
    identity = Identity(None, None, 10**18, 10**18 - later_ns, pid=pid)
    pieces = Pieces(folder, identity, piece_bytes=1 << 20, total_bytes=1 << 30)
    at = [number * 1_000_000 + 990_000 + later_ns for number in range(lengths)]
    pieces.write([Row.accept(number, [1, 4], at[number], 1) for number in range(lengths)])
    pieces.note([Row.lost(7, "queue_full", later_ns)])
    pieces.close()


def test_lengths_of_a_process_without_a_rank_go_into_the_logs_of_the_ranks(tmp_path: Path) -> None:
    """By the clock of the ranks; what that process lost is told once."""
    folder = tmp_path / "log"
    for rank in (0, 1):
        write(folder, rank=rank, pid=100 + rank, size=2)
    write_lengths(folder, pid=99, later_ns=5_000_000)
    run = specscope.load(folder)
    assert [rank.rank for rank in run.ranks] == [0, 1]
    for rank in run.ranks:
        assert rank.cycle_log is not None
        rows = rank.cycle_log.to_pylist()
        found = [row for row in rows if row["row"] == "accept"]
        assert [row["cycle"] for row in found] == list(range(30))
        assert {row["rank"] for row in rows} == {rank.rank}
        assert [row["start_ns"] for row in found] == [n * 1_000_000 + 990_000 for n in range(30)]
        assert sorted(row["start_ns"] for row in rows) == [row["start_ns"] for row in rows]
    assert [row["count"] for rank in run.ranks for row in rank.losses.to_pylist()] == [7]
    report = specscope.analyze(run)
    assert not report.verdict.refused
    assert "rank_unknown" not in {note.code for note in run.notes}


def test_lengths_of_two_processes_are_left_where_they_are(tmp_path: Path) -> None:
    """Which ranks they belong to cannot be told."""
    folder = tmp_path / "log"
    write(folder, rank=0)
    write_lengths(folder, pid=98)
    write_lengths(folder, pid=99)
    run = specscope.load(sorted(folder.iterdir()))
    rows = {
        row for rank in run.ranks for row in rank.cycle_log["row"].to_pylist() if rank.rank == 0
    }
    assert "accept" not in rows


def test_lengths_alone_are_no_run_of_ranks(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    write_lengths(folder, pid=99)
    assert [rank.rank for rank in specscope.load(folder).ranks] == [0]


def test_a_log_without_stages_gives_no_verdict_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    pieces = Pieces(
        tmp_path / "log", Identity(0, 1, 10**18, 0), piece_bytes=1 << 20, total_bytes=1 << 30
    )
    pieces.write([Row.accept(0, [1], 5, 1)])
    pieces.close()
    report = specscope.analyze(specscope.load(tmp_path / "log"))
    assert "no draft, verify or decode stage in the cycle log" in report.verdict.sentence


def test_more_cycles_than_are_analysed_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specscope.analyzers import evidence_log, warnings

    for module in (evidence_log, warnings):
        monkeypatch.setattr(module, "MOST_CYCLES", 15)
    write(tmp_path / "log")
    report = specscope.analyze(specscope.load(tmp_path / "log"))
    assert report.cycles[0].count == 14
    assert report.tables["cycles"]["number"].to_pylist() == list(range(25, 39))
    (note,) = [note for note in report.warnings if note.code == "log_shortened"]
    assert "40 cycles; the newest 15" in note.text


def test_parquet_json_and_html_of_a_log_can_be_written(tmp_path: Path) -> None:
    from specscope.analyze_command import Request, run

    write(tmp_path / "log")
    done = run(
        Request(
            (str(tmp_path / "log"),),
            json=str(tmp_path / "report.json"),
            html=tmp_path / "report.html",
            parquet=tmp_path / "tables",
            checks=("verify.share>=0.5",),
            quiet=True,
        )
    )
    assert done == 0
    assert (tmp_path / "tables" / "cycle_log.parquet").is_file()
    assert ">collective<" not in (tmp_path / "report.html").read_text()
    assert '"clock": "host"' in (tmp_path / "report.json").read_text()


def test_a_host_row_longer_than_a_day_is_invalid_and_counted(tmp_path: Path) -> None:
    """One such row of 1.4 years would be most of the run, and turn its verdict."""
    identity = Identity(0, 1, 10**18, 10**18, pid=100)
    pieces = Pieces(tmp_path, identity, piece_bytes=1 << 20, total_bytes=1 << 30)
    values = (1, None, None, None, None, None, None)
    ends = (5, DAY_NS, DAY_NS + 1, 511 * DAY_NS)
    pieces.write([Row.of("draft", values, 0, end, 1) for end in ends])
    pieces.close()
    (rank,) = specscope.load(tmp_path).ranks
    assert rank.cycle_log is not None
    assert rank.cycle_log["end_ns"].to_pylist() == [5, DAY_NS]
    (loss,) = rank.losses.to_pylist()
    assert (loss["reason"], loss["count"]) == ("log_row_invalid", 2)


@pytest.mark.skipif(sys.platform != "linux", reason="names that are not UTF-8 are Linux's")
def test_a_log_in_a_folder_whose_name_is_not_utf_8_is_read(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/l\xf6g"))
    write(folder)
    (rank,) = specscope.load(folder).ranks
    assert rank.cycle_log is not None
    assert rank.cycle_log.num_rows == 120


def test_a_rank_that_cannot_be_is_read_as_none(tmp_path: Path) -> None:
    write(tmp_path / "log", rank=2**40)
    (rank,) = specscope.load(tmp_path / "log").ranks
    assert rank.facts["rank"] is None
