"""The losses of one document: neighbours joined, bounded in number."""

from __future__ import annotations

from dataclasses import dataclass, field

from specscope.traces.events import Loss

MAX_LOSS_ROWS = 10_000  # of one document; further ones are summed up by reason


@dataclass
class Losses:
    """The losses of one document, neighbours joined, bounded in number."""

    rows: list[Loss] = field(default_factory=list)
    skipped: int = 0
    overflow: dict[str, Loss] = field(default_factory=dict)

    def skip(
        self,
        offset: int,
        end: int,
        reason: str,
        action: str,
        joined: bool = False,
        count: int = 1,
    ) -> None:
        """A stretch that is in no event. `joined`: only separators since the last loss."""
        last = self.rows[-1] if self.rows else None
        if joined and last and last.reason == reason and not self.overflow:
            self.skipped += end - (last.offset + last.length)
            last.length = end - last.offset
            last.count += count
            return
        self.skipped += end - offset
        self.note(offset, end - offset, reason, action, count)

    def note(self, offset: int, length: int, reason: str, action: str, count: int = 1) -> None:
        """A row that skips nothing."""
        if len(self.rows) < MAX_LOSS_ROWS:
            self.rows.append(Loss(offset, length, count, reason, action))
            return
        row = self.overflow.get(reason)
        if row is None:
            more = f"{action}; this row sums up further places"
            self.overflow[reason] = Loss(offset, length, count, reason, more)
        else:
            row.length += length
            row.count += count

    def all(self) -> list[Loss]:
        """All rows, sums last."""
        return self.rows + list(self.overflow.values())
