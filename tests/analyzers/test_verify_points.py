"""Verify measured at several batches of one run: the points, the line, what is printed of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import specscope
from specscope.analyzers.throughput import Baseline, Throughput
from specscope.analyzers.verify_points import points_of
from specscope.dashboards import throughput_sections
from specscope.profiler.cycle_log_rows import Row
from specscope.profiler.cycle_log_writer import Identity, Pieces

MS = 1_000_000


def run_of(
    folder: Path, verify_ms: dict[int, float], *, leading: int, most: int = 12
) -> Throughput:
    """A log with cycles of every batch: draft 1 ms, verify as given, 0.5 ms between."""
    folder.mkdir()
    identity = Identity(0, 1, 10**18, 10**18, pid=1)
    pieces = Pieces(folder, identity, piece_bytes=1 << 20, total_bytes=1 << 30)
    rows, at, number = [], 0, 0
    for batch, ms in verify_ms.items():
        for _ in range(most if batch == leading else most // 2):
            values = (number, None, batch, None, 3, None, None)
            end = at + MS + round(ms * MS)
            rows.append(Row.of("cycle", values, at, end + MS // 2, 1))
            rows.append(Row.of("draft", values, at, at + MS, 1))
            rows.append(Row.of("verify", values, at + MS, end, 1))
            rows.append(Row.accept(number, [2] * batch, end, 1))
            at, number = end + MS // 2, number + 1
    pieces.write(rows)
    pieces.close()
    report = specscope.analyze(specscope.load(folder))
    assert report.throughput is not None
    grids = [grid.title for grid in throughput_sections.throughput_grids(report)]
    assert any("As the batch grows" in title for title in grids) == (len(verify_ms) > 1)
    return report.throughput


def test_the_batches_of_a_run_give_a_line_with_its_error(tmp_path: Path) -> None:
    """5 ms and 0.25 ms a token of 4 tokens a sequence; batch 4 lies 1 ms above."""
    found = run_of(tmp_path / "log", {1: 6.0, 2: 7.0, 4: 10.0, 8: 13.0}, leading=8)
    line = found.verify_line
    assert line is not None
    assert not line.with_plain
    assert [point.tokens for point in line.points] == [4, 8, 16, 32]
    assert [point.ns / MS for point in line.points] == pytest.approx([6, 7, 10, 13], rel=1e-6)
    assert line.error_ns is not None
    assert line.per_token_ns == pytest.approx(0.25 * MS, abs=0.02 * MS)
    assert [row.batch for row in found.growth] == [1, 2, 4, 8]
    assert found.growth[-1].tokens_per_second == pytest.approx(8 * 2 / 14.5e-3, rel=0.05)


def test_one_batch_gives_no_line(tmp_path: Path) -> None:
    found = run_of(tmp_path / "log", {8: 13.0}, leading=8)
    assert found.verify_line is None
    assert found.growth == ()
    assert found.step is not None
    assert found.step.verify_ns == (0.0, 0.0)


def test_other_batches_are_stretched_as_the_leading_one() -> None:
    """Verify of the leading batch is 8 ms without a profiler and 10 ms in the trace."""
    points = points_of({1: 5e6, 8: 10e6}, 8, 4, 8e6, Baseline(3e6, "x"))
    assert [(p.tokens, p.ns, p.plain) for p in points] == [
        (32, 8e6, False),
        (4, 4e6, False),
        (8, 3e6, True),
    ]


@pytest.mark.parametrize(
    ("batch", "width", "verify_ns"), [(None, 4, 8e6), (8, None, 8e6), (8, 4, 0.0)]
)
def test_without_tokens_or_a_verify_there_is_no_point(
    batch: int | None, width: int | None, verify_ns: float
) -> None:
    assert points_of({8: 1e7}, batch, width, verify_ns, None) == []
