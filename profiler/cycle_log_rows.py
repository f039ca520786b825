"""The rows of the cycle log as they wait for the writer, and the words of its columns."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from .grammar import STAGES

# Key of the schema's metadata by which a file is known to be a cycle log, and its version.
MARK: Final = "specscope_cycle_log"
VERSION: Final = 1

ROWS: Final = ("stage", "cycle", "accept", "lost")
STAGE_ROW, CYCLE_ROW, ACCEPT_ROW, LOST_ROW = range(len(ROWS))

REASONS: Final = ("queue_full", "rotated_away", "write_failed")

# Fields that a caller gives, or that are worked out; the log has 64 bits for each.
_NUMBERS: Final = ("cycle", "draft_step", "gpu_start_ns", "gpu_end_ns", "batch", "tokens", "k")

_new: Final = tuple.__new__

STAGE_CODE: Final = {name: code for code, name in enumerate(STAGES)}


# A range as a hook hands it over, to be made a row by the writer: `Row.of`'s arguments.
Seen = tuple[str, tuple[int | None, ...], int, int, int]
# The same of accept lengths: cycle, drafts accepted, bonus tokens, time, thread.
SeenAccept = tuple[int | None, list[int], int, int, int]


class Row(NamedTuple):
    """One row: codes into `ROWS` and `STAGES`; None where nothing is known.

    `start_ns` and `end_ns` are of `time.perf_counter_ns`; GPU times count from the sampled
    cycle's first event.
    """

    row: int
    stage: int | None
    cycle: int | None
    draft_step: int | None
    start_ns: int
    end_ns: int
    gpu_start_ns: int | None
    gpu_end_ns: int | None
    batch: int | None
    tokens: int | None
    k: int | None
    thread: int
    accept_lengths: list[int] | None = None
    accept_length: float | None = None
    lost_rows: int | None = None
    reason: int | None = None

    def with_gpu(self, start_ns: int, end_ns: int) -> Row:
        """The row with its GPU times."""
        return self._replace(gpu_start_ns=start_ns, gpu_end_ns=end_ns)

    @staticmethod
    def of(
        stage: str,
        values: tuple[int | None, ...],
        start_ns: int,
        end_ns: int,
        thread: int,
    ) -> Row:
        """The row of one range; `values` in the order of `grammar.FIELDS`."""
        cycle, step, batch, tokens, k, _, _ = values
        code = STAGE_CODE.get(stage)
        kind = CYCLE_ROW if code is None else STAGE_ROW
        # Past `Row(...)`, which costs three times as much.
        fields = (
            kind,
            code,
            cycle,
            step,
            start_ns,
            end_ns,
            None,
            None,
            batch,
            tokens,
            k,
            thread,
            None,
            None,
            None,
            None,
        )
        return _new(Row, fields)

    @staticmethod
    def cycle_of(number: int, start_ns: int, end_ns: int, thread: int) -> Row:
        """A whole cycle that no range names."""
        return Row(
            CYCLE_ROW, None, number, None, start_ns, end_ns, None, None, None, None, None, thread
        )

    @staticmethod
    def accept(cycle: int | None, lengths: list[int], now_ns: int, thread: int) -> Row:
        """Accept lengths of one cycle, the bonus token included, one a sequence."""
        mean = sum(lengths) / len(lengths) if lengths else None
        return Row(
            ACCEPT_ROW,
            None,
            cycle,
            None,
            now_ns,
            now_ns,
            None,
            None,
            len(lengths),
            None,
            None,
            thread,
            lengths,
            mean,
        )

    @staticmethod
    def lost(count: int, reason: str, now_ns: int) -> Row:
        """So many rows were lost so far, for that reason."""
        return Row(
            LOST_ROW,
            None,
            None,
            None,
            now_ns,
            now_ns,
            None,
            None,
            None,
            None,
            None,
            0,
            lost_rows=count,
            reason=REASONS.index(reason),
        )


def fitting(rows: Sequence[Row]) -> tuple[Sequence[Row], int]:
    """The rows with the numbers that 64 bits hold, and how many were left out.

    They are the given ones when all fit.
    """
    columns = list(zip(*rows, strict=True))
    if not columns or all(_fit(columns[_AT[name]]) for name in _NUMBERS):
        return rows, 0
    mended: list[Row] = []
    left_out = 0
    for row in rows:
        bad: dict[str, Any] = {name: None for name in _NUMBERS if not _fit((row[_AT[name]],))}
        mended.append(row._replace(**bad) if bad else row)
        left_out += len(bad)
    return mended, left_out


_AT: Final = {name: at for at, name in enumerate(Row._fields)}


def _fit(values: tuple[Any, ...]) -> bool:
    try:
        array("q", [value for value in values if value is not None])
    except (OverflowError, TypeError):
        return False
    return True
