"""GPU times of stages without a profiler: CUDA events at the borders of every N-th cycle.

Events are recorded where ranges open and close, on the thread and stream of the engine, never
while the stream captures. Nothing waits for them: when a later cycle opens and the last event
of a sampled one has passed, its times are read and its rows go to the log. Until then these
rows are kept back, so a row is written once, with its GPU times.

A pair of events costs 12 us. Events are pooled; a border that follows another within 5 us, in
which nothing can have been launched by Python, shares its event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from .cycle_log_rows import CYCLE_ROW, Row

# Borders so close together share an event; a launch from Python takes longer.
SHARE_NS: Final = 5_000
# Sampled cycles that wait for their events; beyond, rows go without GPU times.
MOST_PENDING: Final = 8
# Ranges of one cycle that get events.
MOST_RANGES: Final = 64


class Sample:
    """One sampled cycle: its events and the rows that wait for them."""

    def __init__(self, number: int, start_ns: int, first: Any) -> None:
        self.number = number
        self.start_ns = start_ns
        self.first = first
        self.last: Any = None
        self.events: list[Any] = [first]
        self.rows: list[tuple[Row, Any, Any]] = []
        self.cycle_row: Row | None = None
        self.done = False


class Sampler:
    """The sampled cycles of one thread. Any error of CUDA reaches the caller."""

    def __init__(
        self, every: int, new_event: Callable[[], Any], put: Callable[[Row], None], thread: int
    ) -> None:
        self._every = every
        self._new_event = new_event
        self._put = put
        self._thread = thread
        self._number: int | None = None
        self._open: Sample | None = None
        self._pending: deque[Sample] = deque()
        self._free: list[Any] = []
        self._marked_ns = 0
        self._marked: Any = None
        self.unresolved = 0  # sampled cycles whose rows have no GPU times
        self.interrupted = False  # ranges were off since the last one

    def wants(self, cycle: int) -> bool:
        """Must that cycle be entered: is it sampled, or does another wait for its end?

        What has ended can wait to be read until the next that is.
        """
        return self._open is not None or cycle % self._every == 0

    def enter(self, cycle: int | None, now_ns: int) -> tuple[Sample, Any] | None:
        """A range opens: its sample and event, or None when its cycle is not sampled."""
        if cycle is not None and cycle != self._number:
            self._turn(cycle, now_ns)
        sample = self._open
        if sample is None or len(sample.rows) >= MOST_RANGES:
            return None
        return sample, self._mark(sample, now_ns, share=True)

    def leave(self, opened: tuple[Sample, Any], row: Row, now_ns: int) -> None:
        """The range closes: its row waits for the events, or goes at once when they are read."""
        sample, first = opened
        if row[0] == CYCLE_ROW and not sample.done:
            sample.cycle_row = row
            return
        if sample is not self._open:
            self._put(row)
            return
        sample.rows.append((row, first, self._mark(sample, now_ns, share=False)))

    def give_up(self) -> None:
        """Write what waits without GPU times; nothing is asked of CUDA."""
        waiting = [*self._pending, *([self._open] if self._open else [])]
        self._pending.clear()
        self._open, self._number = None, None
        for sample in waiting:
            self._plain(sample)

    def _turn(self, cycle: int, now_ns: int) -> None:
        """Another cycle begins: close the sampled one, begin the next, read what has passed."""
        before, self._open, self._number = self._open, None, cycle
        follows = before is not None and cycle == before.number + 1 and not self.interrupted
        self.interrupted = False
        if self._pending:
            self._resolve(before)
        if before is not None and not follows:
            # What lies between is no part of the cycle, so its end on the GPU is not known.
            self._plain(before)
            before = None
        due = cycle % self._every == 0
        if before is None and not due:
            return
        event = self._record(now_ns)
        if before is not None:
            before.last = event
            before.events.append(event)
            if before.cycle_row is None:
                before.cycle_row = Row.cycle_of(
                    before.number, before.start_ns, now_ns, self._thread
                )
            self._pending.append(before)
            if len(self._pending) > MOST_PENDING:
                self._plain(self._pending.popleft())
        if due:
            self._open = Sample(cycle, now_ns, event)

    def _mark(self, sample: Sample, now_ns: int, *, share: bool) -> Any:
        if share and self._marked is not None and now_ns - self._marked_ns < SHARE_NS:
            return self._marked
        event = self._record(now_ns)
        sample.events.append(event)
        return event

    def _record(self, now_ns: int) -> Any:
        event = self._free.pop() if self._free else self._new_event()
        event.record()
        self._marked, self._marked_ns = event, now_ns
        return event

    def _resolve(self, ending: Sample | None) -> None:
        """Read what has passed; `ending` is the cycle that ends now, whose events are in use."""
        while self._pending and self._pending[0].last.query():
            sample = self._pending.popleft()
            sample.done = True
            first = sample.first
            assert sample.cycle_row is not None
            end = _ns(first, sample.last)
            self._put(sample.cycle_row.with_gpu(0, end))
            for row, opened, closed in sample.rows:
                self._put(row.with_gpu(_ns(first, opened), _ns(first, closed)))
            # The last event may be the first of the cycle behind it.
            used = {id(event) for other in self._pending for event in other.events}
            if ending is not None:
                used.update(map(id, ending.events))
            self._free += [
                event
                for event in {id(event): event for event in sample.events}.values()
                if id(event) not in used
            ]
            self._marked = None  # it may be free now, to be recorded again

    def _plain(self, sample: Sample) -> None:
        sample.done = True
        self.unresolved += 1
        if sample.cycle_row is not None:
            self._put(sample.cycle_row)
        for row, _, _ in sample.rows:
            self._put(row)


def _ns(first: Any, event: Any) -> int:
    """Time between two events, which CUDA gives as milliseconds."""
    return 0 if event is first else round(first.elapsed_time(event) * 1e6)
