"""How many tokens a cycle gives: accept length and acceptance by position.

One convention everywhere: the accept length is tokens a sequence and cycle, the bonus token
included; the acceptance of position i is the share of cycles in which draft token i and all
before it were accepted (i from 1). What other conventions mean is settled where they are read.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Acceptance:
    """Acceptance of one run, and where it comes from."""

    accept_length: float
    source: str  # as shown: `--accept-length`, `run.json`, `server log serve.log`, `cycle log`
    simulated: bool = False  # drawn by the server, not earned by a draft
    by_position: tuple[float, ...] = ()  # P(position i accepted), i = 1..k; empty: unknown
    cycles: int | None = None  # verify passes it was counted over

    @property
    def conditional(self) -> tuple[float | None, ...]:
        """P(position i accepted, given i - 1); None after a position that was never accepted."""
        before = (1.0, *self.by_position[:-1])
        pairs = zip(self.by_position, before, strict=True)
        return tuple(own / last if last > 0 else None for own, last in pairs)
