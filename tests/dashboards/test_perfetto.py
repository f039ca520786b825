"""A run as a Perfetto trace: nothing lost, times exact, all ranks on one clock."""

from __future__ import annotations

import dataclasses
import io
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import specscope
from specscope.dashboards import perfetto_wire as wire
from specscope.dashboards.perfetto import Written, write_perfetto
from specscope.dashboards.perfetto_lanes import in_order, lanes
from specscope.dashboards.safe_text import clean
from specscope.traces.errors import UsageError
from specscope.traces.load import load
from tests.dashboards import perfetto_reader, reports
from tests.dashboards.perfetto_reader import Slice, Trace
from tests.shared import shared_path

ANALYSIS = ("cycles", "stages", "work by activity", "idle by cause")
SHOWN = (3, 4)
PDL = "a05_pdl_overlap.json"
CASES = (
    "a02_graph_replay.json",
    "a04_two_streams.json",
    PDL,
    "a06_gap_and_op_cut.json",
    "a09_nested_allreduce.json",
    "a10_gpu_track_traps.json",
    "b05_truncated.json",
    "b08_bad_gpu_times.json",
    "b09_odd_durations.json",
    "b10_no_gpu_events.json",
    "b12_epoch_microseconds.json",
    "x01_hostile_names.json",
)


def export(report: Any, cycles: tuple[int, int] | None = None) -> tuple[Trace, Written]:
    file = io.BytesIO()
    written = write_perfetto(report, file, cycles)
    return perfetto_reader.read(file.getvalue()), written


@cache
def bundled() -> Trace:
    """Two cycles of the bundled recording; the whole of it takes the reader of the tests long."""
    return export(reports.bundled(), SHOWN)[0]


@cache
def window() -> tuple[int, int]:
    """From the first start to the last end of these cycles, on the first rank's clock."""
    rows = [row for row in reports.bundled().tables["cycles"].to_pylist() if row["cycle"] in SHOWN]
    later = offsets()
    return (
        min(row["start_ns"] - later[row["rank"]] for row in rows),
        max(row["end_ns"] - later[row["rank"]] for row in rows),
    )


def reaches_in(row: dict[str, Any]) -> bool:
    """Does that row of a table lie in the window, or reach into it?"""
    later = offsets()[row["rank"]]
    return bool(row["end_ns"] - later >= window()[0] and row["start_ns"] - later <= window()[1])


@cache
def case(name: str) -> Any:
    return specscope.analyze(load(shared_path("cases", name), cache=False, all_frames=True))


def recorded(trace: Trace, on: str, key: str) -> dict[tuple[int, int], Slice]:
    """The slices on GPU or host tracks that hold an id of a table, by rank and id; each once."""
    found: dict[tuple[int, int], Slice] = {}
    for one in trace.slices:
        if key in one.args and trace.names[one.track].startswith(on):
            place = rank_of(trace, one), one.args[key]
            assert place not in found
            found[place] = one
    return found


def rank_of(trace: Trace, one: Slice) -> int:
    return int(trace.names[trace.parents[one.track]].split()[1])


@cache
def offsets() -> dict[int, int]:
    """By how much each rank's clock is later; there is no drift in the bundled recording."""
    rows = reports.bundled().tables["rank_clocks"].to_pylist()
    assert all(row["drift_ppm"] == 0 for row in rows)
    return {row["rank"]: round(row["offset_ns"]) for row in rows}


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=25))
def test_on_its_lane_every_slice_nests_and_none_is_lost(drawn: list[tuple[int, int]]) -> None:
    start = np.array([one for one, _ in drawn], np.int64)
    end = start + np.array([length for _, length in drawn], np.int64)
    lane = lanes(start, end)
    for number in set(lane.tolist()):
        rows = np.flatnonzero(lane == number)
        order = in_order(start[rows], end[rows])
        stack: list[int] = []
        time = -1
        seen = []
        for row, begin in zip(rows[order.slice].tolist(), order.begin.tolist(), strict=True):
            now = int(start[row] if begin else end[row])
            assert now >= time
            time = now
            if begin:
                stack.append(row)
            else:
                closed = stack.pop()
                # Slices that are equal in both ends may stand for each other.
                assert (start[closed], end[closed]) == (start[row], end[row])
                seen.append(closed)
        assert not stack and sorted(seen) == rows.tolist()


def test_slices_that_follow_each_other_or_nest_take_one_lane() -> None:
    for start, end in (([0, 5, 5], [5, 5, 9]), ([0, 1, 2], [9, 8, 3]), ([], [])):
        assert not lanes(np.array(start, np.int64), np.array(end, np.int64)).any()


def test_slices_that_overlap_take_two() -> None:
    assert lanes(np.array([0, 3, 6]), np.array([4, 7, 9])).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("name", "on", "key"),
    [("ops", "GPU", "op_id"), ("calls", "host", "call_id"), ("ranges", "host", "range_id")],
)
def test_every_row_of_the_recording_is_a_slice_with_its_name_and_times(
    name: str, on: str, key: str
) -> None:
    found = recorded(bundled(), on, key)
    table = reports.bundled().tables[name].select(["rank", key, "name", "start_ns", "end_ns"])
    rows = [row for row in table.to_pylist() if reaches_in(row)]
    assert {(row["rank"], row[key]) for row in rows} == set(found)
    assert offsets()[1] != 0
    for row in rows:
        one, later = found[row["rank"], row[key]], offsets()[row["rank"]]
        expected = (clean(row["name"]), row["start_ns"] - later, row["end_ns"] - later)
        assert (one.name, one.start, one.end) == expected


@pytest.mark.parametrize("name", CASES)
def test_no_recorded_slice_is_lost_in_odd_traces(name: str) -> None:
    trace, written = export(case(name))
    for table, on, key in (
        ("ops", "GPU", "op_id"),
        ("calls", "host", "call_id"),
        ("ranges", "host", "range_id"),
    ):
        rows = case(name).tables[table].to_pylist()
        found = recorded(trace, on, key)
        assert {(row["rank"], row[key]) for row in rows} == set(found)
        for row in rows:
            one = found[row["rank"], row[key]]
            assert one.end - one.start == row["end_ns"] - row["start_ns"]
            assert one.start == row["start_ns"] + written.shift_ns
    assert sum(written.slices.values()) == len(trace.slices)
    assert all(one.end >= one.start for one in trace.slices)


def test_overlapping_ops_of_a_stream_lie_on_lanes_of_their_own() -> None:
    trace, _ = export(case(PDL))
    ops = [one for one in trace.slices if trace.names[one.track].startswith("GPU")]
    assert {one.depth for one in ops} == {0}
    assert any(trace.names[one.track].endswith("(2)") for one in ops)


def inside(title: str, parent: str | None = None) -> list[Slice]:
    """The slices of the cycles that are shown; of their neighbours only some are there."""
    found = [one for one in bundled().on(title, parent) if one.args["cycle"] in SHOWN]
    assert found
    return found


def test_the_stages_of_a_rank_sum_to_its_parts_to_the_nanosecond() -> None:
    for rank in (0, 1):
        drawn: Counter[tuple[int, str]] = Counter()
        for one in inside("stages", f"rank {rank}"):
            drawn[one.args["cycle"], one.name] += one.end - one.start
        parts: Counter[tuple[int, str]] = Counter()
        for row in reports.bundled().tables["parts"].to_pylist():
            if row["rank"] == rank and row["cycle"] in SHOWN:
                parts[row["cycle"], row["stage"]] += row["ns"]
        assert drawn == parts


@pytest.mark.parametrize(
    ("title", "state"), [("work by activity", "work"), ("idle by cause", "idle")]
)
def test_activities_and_causes_sum_to_the_parts(title: str, state: str) -> None:
    drawn: Counter[tuple[str, str]] = Counter()
    for one in inside(title):
        drawn[one.args["stage"], one.name] += one.end - one.start
    parts: Counter[tuple[str, str]] = Counter()
    for row in reports.bundled().tables["parts"].to_pylist():
        if row["state"] == state and row["cycle"] in SHOWN:
            parts[row["stage"], row["what"]] += row["ns"]
    assert drawn == parts


def test_the_idle_names_the_op_that_ends_it() -> None:
    ops = recorded(bundled(), "GPU", "op_id")
    ended = [one for one in inside("idle by cause") if "op_id" in one.args]
    assert ended
    for one in ended:
        assert ops[rank_of(bundled(), one), one.args["op_id"]].start >= one.end


def test_wait_and_transfer_lie_on_their_collective_on_the_common_clock() -> None:
    ops = recorded(bundled(), "GPU", "op_id")
    moved = inside("collectives: wait, transfer")
    transfers = [one for one in moved if one.name.startswith("transfer")]
    rows = [
        row
        for row in reports.bundled().tables["matched_collectives"].to_pylist()
        if row["cycle"] in SHOWN
    ]
    assert len(transfers) == len(rows)
    for one in transfers:
        assert one.end == ops[rank_of(bundled(), one), one.args["op_id"]].end
    waits = [one for one in moved if one.name.startswith("wait")]
    assert sum(one.end - one.start for one in waits) == sum(max(row["wait_ns"], 0) for row in rows)
    assert {one.name for one in waits} <= {"wait", "wait for rank 0", "wait for rank 1"}


def test_a_launch_is_joined_to_the_first_op_that_it_put_on_the_gpu() -> None:
    calls = recorded(bundled(), "host", "call_id")
    first: dict[tuple[int, int], dict[str, Any]] = {}
    for row in reports.bundled().tables["ops"].to_pylist():
        place = row["rank"], row["call_id"]
        if place in calls and row["start_ns"] < first.get(place, row)["start_ns"] + 1:
            first[place] = row
    joined = [one for one in bundled().slices if one.flow and "op_id" in one.args]
    assert joined
    assert len({one.flow for one in joined}) == len(joined)
    for one in joined:
        place = rank_of(bundled(), one), one.args["call_id"]
        if place in calls:
            assert calls[place].flow == one.flow
            assert first[place]["op_id"] == one.args["op_id"]


def test_no_cycle_of_that_number_is_one_line() -> None:
    with pytest.raises(UsageError, match="no cycle 90 to 91"):
        export(reports.bundled(), (90, 91))


def test_hostile_names_are_text_without_what_cannot_be_printed() -> None:
    trace, _ = export(reports.hostile())
    names = {one.name for one in trace.slices}
    assert {clean(name) for name in reports.HOSTILE_NAMES} <= names
    assert all(name.isprintable() for name in (*names, *trace.names.values()))


def earlier(table: pa.Table, ns: int) -> pa.Table:
    """The same table, all of its times that much earlier."""
    for column in ("start_ns", "end_ns", "host_start_ns", "host_end_ns", "time_ns"):
        place = table.schema.get_field_index(column)
        if place >= 0:
            table = table.set_column(place, column, pc.subtract(table.column(place), ns))
    return table


def test_times_below_zero_are_shifted_and_it_is_said() -> None:
    report = reports.of(reports.hostile_trace())
    assert export(report)[1].shift_ns == 0
    earliest = min(report.tables["ops"]["start_ns"].to_pylist())
    moved = {name: earlier(table, earliest + 10**9) for name, table in report.tables.items()}
    trace, written = export(dataclasses.replace(report, tables=moved))
    assert written.shift_ns >= 10**9
    assert min(one.start for one in trace.slices) == 0


def test_ranks_that_cannot_be_aligned_say_so() -> None:
    files = [
        shared_path("traces", "public", f"2023-04-llm-train-rank{r}of128.json.gz") for r in (0, 1)
    ]
    report = specscope.analyze(load(files, cache=False))
    trace, written = export(report)
    assert written.apart == (0, 1)
    assert {"rank 0 (own clock)", "rank 1 (own clock)"} <= set(trace.names.values())
    assert trace.on("collectives: wait, transfer") == []


def test_ranks_with_other_base_times_stand_where_they_ran() -> None:
    files = [shared_path("cases", f"r02_base_time_rank{rank}.json") for rank in (0, 1)]
    report = specscope.analyze(load(files, cache=False))
    trace, _ = export(report)
    bases = [one.facts["clock_base_ns"] for one in report.run.ranks]
    assert bases[0] != bases[1]
    found = recorded(trace, "GPU", "op_id")
    clocks = {row["rank"]: row for row in report.tables["rank_clocks"].to_pylist()}
    for row in report.tables["ops"].to_pylist():
        absolute = row["start_ns"] + bases[row["rank"]] - bases[0]
        shift = round(clocks[row["rank"]]["offset_ns"])
        assert abs(found[row["rank"], row["op_id"]].start - (absolute - shift)) <= 1


def test_one_rank_without_collectives_has_the_other_tracks() -> None:
    trace, written = export(case("a01_plain.json"))
    titles = {name.split(" (")[0] for name in trace.names.values()}
    assert set(ANALYSIS) <= titles
    assert "collectives: wait, transfer" not in titles
    assert written.apart == ()


def test_a_run_without_gpu_or_cycles_is_written() -> None:
    trace, written = export(case("b10_no_gpu_events.json"))
    assert len(trace.slices) == sum(written.slices.values()) > 0


def test_numbers_of_every_size_are_read_as_they_were_written() -> None:
    """Negative ids stand for texts in the trace; correlations reach 64 bits."""
    values = np.array([-1, -(2**63), 0, 127, 128, 2**63 - 1], np.int64)
    there = np.array([True, True, True, True, True, True])
    names = wire.Names()
    number = names.number("argument", "x")
    event = names.numbers("event", ["e"])
    count = len(values)
    marks = wire.Marks(
        np.arange(count) + 2**62,
        np.ones(count, bool),
        np.full(count, 7),
        np.repeat(event, count),
        (wire.Argument(values, there, number),),
        instant=True,
    )
    raw = wire.first_packet() + wire.track(7, "t") + names.packet() + wire.records(marks)
    found = perfetto_reader.read(raw).slices
    assert [one.args["x"] for one in found] == values.tolist()
    assert [one.start for one in found] == (np.arange(count) + 2**62).tolist()
