"""Which processes of an export are ranks, and which exports are one run."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import specscope
from specscope.traces.errors import UsageError
from tests.traces.nsys_files import LAUNCH, Row, call, kernel, nvtx, pid, read, strings, tid, write

pytestmark = pytest.mark.usefixtures("reader")


# Ranks.


def two_ranks(numbers: tuple[int, int] = (0, 1), **tables: list[Row]) -> dict[str, list[Row]]:
    """Two processes with one kernel each, on the devices of these numbers."""
    pids = (3000, 4000)
    return {
        "StringIds": strings("cudaLaunchKernel", "gemm"),
        "CUPTI_ACTIVITY_KIND_RUNTIME": [call(1, 2, 1, 1, globalTid=tid(p, p)) for p in pids],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            kernel(3, 4, 1, 2, globalPid=pid(p), deviceId=device)
            for p, device in zip(pids, numbers, strict=True)
        ],
        **tables,
    }


@pytest.mark.parametrize(
    ("by", "tables"),
    [
        ("devices", two_ranks((1, 0))),
        (
            "ranges",
            two_ranks(
                NVTX_EVENTS=[
                    nvtx(1, 2, "specscope:verify|c=1|r=1|n=2"),
                    nvtx(1, 2, "specscope:verify|c=1|r=0|n=2", globalTid=tid(4000, 4000)),
                ]
            ),
        ),
        (
            "mpi",
            two_ranks(
                MPI_RANKS=[
                    {"globalTid": tid(), "rank": 1},
                    {"globalTid": tid(4000, 4000), "rank": 0},
                ]
            ),
        ),
        (
            "process names",
            two_ranks(
                PROCESSES=[
                    {"globalPid": pid(), "pid": 3000, "name": "sglang::scheduler_TP1"},
                    {"globalPid": pid(4000), "pid": 4000, "name": "sglang::scheduler_TP0"},
                ]
            ),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_ranks_are_numbered_by_what_tells_them(
    tmp_path: Path, by: str, tables: dict[str, list[Row]]
) -> None:
    found = read(write(tmp_path / "x.sqlite", tables))
    assert [(one.rank, one.facts["pid"]) for one in found] == [(0, 4000), (1, 3000)]
    assert found[0].facts["nsys"]["ranks_by"] == by
    assert found[0].facts["world_size"] == 2


def test_ranks_that_nothing_tells_apart_are_numbered_in_order_and_said_to_be(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "x.sqlite", two_ranks((0, 0)))
    run = specscope.load(path, cache=False)
    assert [one.facts["pid"] for one in run.ranks] == [3000, 4000]
    (note,) = [note for note in run.notes if note.code == "rank_unknown"]
    assert "by order, process 3000 is rank 0, 4000 is rank 1" in note.text


def test_a_process_that_launches_and_has_no_gpu_row_is_a_missing_rank(tmp_path: Path) -> None:
    tables = two_ranks()
    tables["CUPTI_ACTIVITY_KIND_KERNEL"].pop()
    run = specscope.load(write(tmp_path / "x.sqlite", tables), cache=False)
    assert [one.facts["pid"] for one in run.ranks] == [3000]
    assert {"ranks_without_cuda", "ranks_missing"} <= {note.code for note in run.notes}


def test_other_processes_are_counted_and_no_ranks(tmp_path: Path) -> None:
    quiet = nvtx(1, 2, "tokenize", globalTid=tid(5000, 5000))
    (one,) = read(write(tmp_path / "x.sqlite", {**LAUNCH, "NVTX_EVENTS": [quiet]}))
    assert '"ranges of other processes": 1' in one.sources["dropped"][0].as_py()


# Several exports.


def session(start: int, stop: int, base: int = 10**18) -> dict[str, list[Row]]:
    return {
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": base}],
        "ANALYSIS_DETAILS": [{"startTime": start, "stopTime": stop}],
    }


def one_rank_each(folder: Path) -> list[Path]:
    return [
        write(
            folder / f"run_{rank}.sqlite",
            {
                **session(0, 1000),
                "StringIds": strings("cudaLaunchKernel", "gemm"),
                "CUPTI_ACTIVITY_KIND_RUNTIME": [call(1, 2, 1, 1, globalTid=tid(p, p))],
                "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(3, 400, 1, 2, globalPid=pid(p))],
            },
        )
        for rank, p in enumerate((3000, 4000))
    ]


def test_exports_of_one_time_are_the_ranks_of_one_run(tmp_path: Path) -> None:
    one_rank_each(tmp_path)
    run = specscope.load(tmp_path, cache=False)
    assert [one.facts["pid"] for one in run.ranks] == [3000, 4000]


def windows(folder: Path) -> list[Path]:
    return [
        write(
            folder / f"report{number}.sqlite",
            {
                **session(1000 * number, 1000 * number + 900),
                "StringIds": strings("cudaLaunchKernel", "gemm"),
                "CUPTI_ACTIVITY_KIND_RUNTIME": [call(1000 * number + 1, 1000 * number + 2, 1, 1)],
                "CUPTI_ACTIVITY_KIND_KERNEL": [
                    kernel(1000 * number + 3, 1000 * number + 400, 1, 2)
                ],
            },
        )
        for number in (1, 2, 3)
    ]


def test_windows_of_one_process_are_no_ranks_the_newest_is_read(tmp_path: Path) -> None:
    windows(tmp_path)
    run = specscope.load(tmp_path, cache=False)
    (one,) = run.ranks
    assert one.facts["path"].endswith("report3.sqlite")
    assert len([line for line in run.listed if "another window" in line]) == 2


def test_windows_named_together_are_refused(tmp_path: Path) -> None:
    first, second, _ = windows(tmp_path)
    with pytest.raises(UsageError, match="two windows of process 3000, not two ranks"):
        specscope.load([first, second], cache=False)


def test_a_report_that_lies_there_twice_is_read_once(tmp_path: Path) -> None:
    (path, _) = one_rank_each(tmp_path)
    (tmp_path / "run_1.sqlite").unlink()
    (tmp_path / "run_0.nsys-rep").write_bytes(b"report")
    run = specscope.load(tmp_path, cache=False)
    assert [one.facts["path"] for one in run.ranks] == [str(path)]
    assert "run_0.nsys-rep: the same report as run_0.sqlite" in run.listed


def test_a_worker_of_the_engine_without_any_row_is_a_missing_rank(tmp_path: Path) -> None:
    named = [
        {"globalPid": pid(p), "pid": p, "name": title}
        for p, title in ((3000, "sglang::schedul"), (4000, "sglang::schedul"), (5000, "python3"))
    ]
    path = write(tmp_path / "x.sqlite", {**LAUNCH, "PROCESSES": named})
    run = specscope.load(path, cache=False)
    (note,) = [note for note in run.notes if note.code == "ranks_without_cuda"]
    assert note.text.startswith("1 of 2 ranks have CUDA rows: process 4000")


def test_exports_that_do_not_say_when_they_were_made_overlap_by_their_events(
    tmp_path: Path,
) -> None:
    for rank, path in enumerate(one_rank_each(tmp_path)):
        with sqlite3.connect(path) as connection:
            connection.execute("DELETE FROM ANALYSIS_DETAILS")
        connection.close()
        assert path.name == f"run_{rank}.sqlite"
    assert len(specscope.load(tmp_path, cache=False).ranks) == 2


def test_one_recording_in_two_forms_is_refused_as_two_ranks(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", LAUNCH)
    copy = tmp_path / "y.sqlite"
    copy.write_bytes(path.read_bytes())
    with pytest.raises(UsageError, match="are the same recording; give one of them"):
        specscope.load([path, copy], cache=False)
