"""Acceptance from the log of a server: every format that SGLang and vLLM have written.

SGLang, a line for each 40 decode batches by default, rank 0 of each data-parallel group:
`Decode batch[ [n]]<. or ,> #running-req: R, ... accept len: A[, accept rate: P], ...`.
`accept len` is (accepted drafts + sequences) / sequences of the interval: bonus token included.

vLLM, a line each 10 s: `SpecDecoding metrics: Mean acceptance length: L, ... Accepted: n tokens,
Drafted: m tokens, Per-position acceptance rate: p, ..., Avg Draft acceptance rate: r%`. Before
0.9 `SpecDecoding metrics: Draft acceptance rate: r%, Accepted: n tokens, Drafted: m tokens`.

Lines are weighted by their cycles: SGLang's by the running requests (its intervals are equal),
vLLM's by drafts.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .errors import TraceFormatError
from .log_rates import Rates
from .served import LONGEST_LINE, MOST_POSITIONS, SGLANG, VLLM, Served, lines
from .sniff import printable

_NUMBER: Final = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
_COUNT: Final = r"([0-9]{1,15})"
SGLANG_MARK: Final = "Decode batch"
VLLM_MARK: Final = "SpecDecoding metrics:"
_MARKS: Final = (SGLANG_MARK, VLLM_MARK)
# A comma behind the number: that of a line that was cut may lack digits.
_RUNNING: Final = re.compile(rf"#running-req: {_COUNT},")
_LENGTH: Final = re.compile(rf"(?<!block )accept len: {_NUMBER},")
_RATE: Final = re.compile(rf"accept rate: {_NUMBER},")
_SGLANG_END: Final = "#queue-req:"
_INTERVAL: Final = re.compile(rf"decode_log_interval={_COUNT}\b")
DEFAULT_INTERVAL: Final = 40

_MEAN: Final = re.compile(rf"Mean acceptance length: (?:{_NUMBER}|nan),")
_ACCEPTED: Final = re.compile(rf"Accepted: {_COUNT} tokens,")
_DRAFTED: Final = re.compile(rf"Drafted: {_COUNT} tokens\b")
_POSITIONS: Final = re.compile(r"Per-position acceptance rate: ([0-9., ]{1,40000}), Avg")
_OLD: Final = re.compile(r"\s*Draft acceptance rate: ")
# As printed, with two decimals.
_ROUNDING: Final = 0.0051

# What says in a log that acceptance is drawn and not earned.
_SIMULATES: Final = (
    re.compile(r"SGLANG_SIMULATE_ACC_LEN['\"]?\s*[=:]\s*['\"]?(?!0(?:\.0*)?\b)[0-9]"),
    re.compile(r"synthetic_acceptance\w{0,20}['\"]?\s*[=:]\s*(?!None|null)\S"),
    re.compile(r"rejection_sample_method['\"]?\s*[=:]\s*['\"]synthetic"),
)


def read_server_log(path: Path) -> Served:
    """Acceptance over all of a server's log.

    Raises UsageError for what cannot be read, TraceFormatError where no line speaks of
    acceptance; both in one line.
    """
    found = _Sums()
    for raw, whole in lines(path):
        text = raw.decode("utf-8", "replace")
        if not whole and not any(mark in text for mark in _MARKS):
            continue
        found.add(text)
    name = printable(path.name, 120)
    if not found.used:
        raise TraceFormatError(_nothing(name, found))
    return found.served(f"server log {name}")


@dataclass
class _Sums:
    """Weighted sums over the lines; nothing grows with the log."""

    engine: str = ""
    used: int = 0
    damaged: int = 0
    empty: int = 0
    mixed: int = 0
    weight: float = 0.0
    length: float = 0.0
    rate_weight: float = 0.0
    rate: float = 0.0
    accepted: float = 0.0
    drafted: float = 0.0
    positions: list[float] = field(default_factory=list)
    interval: int = DEFAULT_INTERVAL
    without_bonus: int = 0
    by_counts_only: int = 0
    simulated: bool = False
    rates: Rates = field(default_factory=Rates)

    def add(self, text: str) -> None:
        """One line; writes of several processes may stand on it."""
        if "SIMULATE_ACC" in text or "synthetic" in text:
            self.simulated = self.simulated or any(one.search(text) for one in _SIMULATES)
        self.rates.add(text)
        if match := _INTERVAL.search(text):
            self.interval = max(int(match[1]), 1)
        for mark, engine, take in (
            (SGLANG_MARK, SGLANG, self._sglang),
            (VLLM_MARK, VLLM, self._vllm),
        ):
            for piece in text.split(mark)[1:]:
                if self.engine not in ("", engine):
                    self.mixed += 1
                elif take(piece[:LONGEST_LINE]):
                    self.engine = engine

    def _sglang(self, piece: str) -> bool:
        length, running = _LENGTH.search(piece), _RUNNING.search(piece)
        if length is None or running is None:
            # A whole line without a length is of plain decoding.
            if running is not None and _SGLANG_END in piece and "accept len" not in piece:
                self.empty += 1
            else:
                self.damaged += 1
            return False
        value, weight = float(length[1]), int(running[1])
        if value == 0 or weight == 0:
            self.empty += 1
            return False
        if not 1 <= value <= MOST_POSITIONS:
            self.damaged += 1
            return False
        self.used += 1
        self.weight += weight
        self.length += weight * value
        if rate := _RATE.search(piece):
            self.rate_weight += weight
            self.rate += weight * float(rate[1])
        return True

    def _vllm(self, piece: str) -> bool:
        accepted, drafted = _ACCEPTED.search(piece), _DRAFTED.search(piece)
        if accepted is None or drafted is None:
            self.damaged += 1
            return False
        took, made = int(accepted[1]), int(drafted[1])
        if made == 0:
            self.empty += 1
            return False
        if took > made:
            self.damaged += 1
            return False
        mean, positions = _MEAN.search(piece), _POSITIONS.search(piece)
        if _OLD.match(piece):
            self.by_counts_only += 1
        elif mean is None or mean[1] is None or positions is None:
            self.damaged += 1
            return False
        else:
            rates = _rates(positions[1])
            drafts = _drafts(float(mean[1]), took, made, rates)
            if drafts is None:
                self.damaged += 1
                return False
            if abs(float(mean[1]) - took / drafts) <= _ROUNDING:
                self.without_bonus += 1
            self.weight += drafts
            self.length += drafts + took
            self.positions += [0.0] * (len(rates) - len(self.positions))
            for index, rate in enumerate(rates):
                self.positions[index] += drafts * rate
        self.used += 1
        self.accepted += took
        self.drafted += made
        return True

    def served(self, source: str) -> Served:
        """The averages. vLLM's old lines have counts only: all of them then count as such."""
        counts = self.by_counts_only > 0
        known = self.weight > 0 and not counts
        sglang = self.engine == SGLANG
        if sglang:
            convention = "accept len of the log has the bonus token"
        elif self.without_bonus:
            convention = "mean acceptance length of the log lacks the bonus token: added"
        else:
            convention = "1 + accepted / drafts: bonus token included"
        return Served(
            source,
            self.engine,
            accept_length=self.length / self.weight if known else None,
            cycles=self.weight * (self.interval if sglang else 1) if known else None,
            by_position=tuple(p / self.weight for p in self.positions) if known else (),
            accepted=None if sglang else self.accepted,
            drafted=None if sglang else self.drafted,
            rate=self.rate / self.rate_weight if self.rate_weight else None,
            simulated=self.simulated,
            convention=convention,
            used=self.used,
            damaged=self.damaged + self.mixed,
            empty=self.empty,
            rates=self.rates.found(),
        )


def _rates(text: str) -> list[float]:
    """The rates by position; nothing where one is no share, or they rise."""
    try:
        found = [float(one) for one in text.split(",")]
    except ValueError:
        return []
    falling = all(a >= b for a, b in itertools.pairwise(found))
    sound = falling and all(0 <= one <= 1 for one in found) and len(found) <= MOST_POSITIONS
    return found if sound else []


def _drafts(mean: float, accepted: int, drafted: int, rates: list[float]) -> float | None:
    """Verify passes of a line; None where its figures do not fit together.

    As many as drafts of full length where that gives the mean that is printed, with the bonus
    token or, in old versions, without; else, drafts of several lengths, by the mean itself.
    """
    if not rates:
        return None
    full = drafted / len(rates)
    for bonus in (1, 0):
        if abs(bonus + accepted / full - mean) <= _ROUNDING:
            return full
    if mean <= 1 or accepted == 0:
        return None
    drafts = accepted / (mean - 1)
    return drafts if drafts >= full * (1 - 0.01) else None


def _nothing(name: str, found: _Sums) -> str:
    if found.damaged:
        return (
            f"{name}: none of its {found.damaged} lines on decoding can be read; was it cut, or is "
            "it of an engine that is not known?"
        )
    if found.empty:
        return (
            f"{name}: its {found.empty} lines on decoding say nothing of acceptance; is it the log "
            "of the server that speculates?"
        )
    return (
        f"{name} has no line on decoding of SGLang ('{SGLANG_MARK}') or vLLM ('{VLLM_MARK}'); give "
        "the log of the server"
    )
