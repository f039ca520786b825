"""A server measured without a profiler: pairs of requests of two lengths, and their difference.

Everything that both lengths have in common, the prefill and the way there and back, drops out:

    tokens/s      = difference of the tokens / difference of the times
    cycle         = difference of the times / difference of the cycles that ran
    running batch = difference of the verifications / difference of the cycles

so that cycle = running batch x accept length / (tokens/s). Towards the end of a batch sequences
are done at different times, and the running batch is a little smaller than the batch.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from specscope.profiler.engine_probe import Engine
from specscope.profiler.load import SAFE_VOCABULARY, Answer, Driver, Load
from specscope.profiler.server_errors import ServerError, UnsuitableError

# Repetitions that differ by more than this say that something else was at work.
_MOST_SPREAD = 0.1
# A batch that runs with fewer sequences than this share of it is not the batch asked for.
_LEAST_RUNNING = 0.9
_SHORT_SHARE, _LEAST_SHORT = 8, 8


@dataclass(frozen=True)
class Figure:
    """A measured figure: the median of the repetitions, and each of them."""

    median: float
    values: tuple[float, ...]

    @property
    def spread(self) -> float:
        """Range of the repetitions, as a share of the median."""
        return (max(self.values) - min(self.values)) / self.median if self.median else 0.0

    def as_json(self) -> dict[str, Any]:
        """As it stands in run.json."""
        return {
            "median": _rounded(self.median),
            "low": _rounded(min(self.values)),
            "high": _rounded(max(self.values)),
            "values": [_rounded(value) for value in self.values],
        }


@dataclass(frozen=True)
class Pair:
    """The answers to a short and a long batch of requests, taken one after the other."""

    short: Answer
    long: Answer

    @property
    def seconds(self) -> float:
        """How much longer the long one took."""
        return self.long.seconds - self.short.seconds

    @property
    def tokens(self) -> int:
        """How many more tokens it made."""
        return self.long.tokens - self.short.tokens

    @property
    def verified(self) -> int | None:
        """How many more verifications; None without speculation."""
        if self.long.verified is None or self.short.verified is None:
            return None
        return self.long.verified - self.short.verified

    def steps(self, batch: int) -> float:
        """How many more rounds ran; from the tokens, at the whole batch, where nobody counts."""
        if self.long.steps is not None and self.short.steps is not None:
            counted = self.long.steps - self.short.steps
            if counted > 0:
                return counted
        return (self.verified or self.tokens) / batch


@dataclass(frozen=True)
class Measured:
    """What a load showed. `step_ms` is a cycle with speculation, a decode step without."""

    load: Load
    tokens_per_second: Figure
    step_ms: Figure
    running_batch: float
    accept_length: Figure | None
    position_rates: tuple[float, ...]
    counts: dict[str, Any]
    short_seconds: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def speculates(self) -> bool:
        """Whether the server verified drafts."""
        return self.accept_length is not None


def fitting(
    engine: Engine, *, batch: int, prompt_tokens: int, tokens: int, vocabulary: int | None
) -> Load:
    """The load, checked against what the server allows.

    Raises:
        UnsuitableError: the server cannot hold it; the line says what would fit.
    """
    short = max(_LEAST_SHORT, tokens // _SHORT_SHARE)
    if tokens < 2 * short:
        raise UnsuitableError(
            f"--tokens {tokens} is too short to measure; give {2 * short} or more"
        )
    length = prompt_tokens + tokens
    if engine.most_tokens is not None and length > engine.most_tokens:
        raise UnsuitableError(
            f"a prompt of {prompt_tokens} and {tokens} new tokens do not fit: the server holds "
            f"{engine.most_tokens} a sequence; give less --prompt-tokens or --tokens"
        )
    if engine.most_batch_tokens is not None and batch * length > engine.most_batch_tokens:
        raise UnsuitableError(
            f"{batch} sequences of {length} tokens do not fit into the server's cache of "
            f"{engine.most_batch_tokens}; give less --batch, --prompt-tokens or --tokens"
        )
    if engine.most_requests is not None and batch > engine.most_requests:
        raise UnsuitableError(
            f"the server runs at most {engine.most_requests} sequences at once; give --batch "
            f"{engine.most_requests} or less"
        )
    size = vocabulary or engine.vocabulary or SAFE_VOCABULARY
    return Load(batch, prompt_tokens, tokens, short, size)


def measure(
    driver: Driver,
    load: Load,
    repetitions: int,
    *,
    seconds: float,
    say: Callable[[str], None] = lambda text: None,
    meanwhile: Callable[[], object] | None = None,
) -> Measured:
    """Warm the server up, then measure `repetitions` pairs.

    `meanwhile` is called on another thread while a long request of the measurement runs.

    Raises:
        ServerError: the server went away, refused, or answered too fast to measure.
    """
    # Both lengths: a server may compile, or capture graphs, for what it has not met yet.
    say(f"warming up: {load.batch} x {load.tokens} tokens")
    for turn, tokens in enumerate((load.short, load.tokens)):
        warm = driver.generate(load.prompts(0, turn), tokens, seconds=seconds, stop=None)
    pairs = []
    for pair in range(1, repetitions + 1):
        say(f"measuring without a profiler: {pair} of {repetitions}")
        short = driver.generate(load.prompts(pair, 0), load.short, seconds=seconds, stop=None)
        timer = threading.Timer(warm.seconds / 2, meanwhile) if meanwhile else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        long = driver.generate(load.prompts(pair, 1), load.tokens, seconds=seconds, stop=None)
        if timer is not None:
            timer.cancel()
            timer.join()
        pairs.append(Pair(short, long))
    return evaluated(load, pairs)


def evaluated(load: Load, pairs: Sequence[Pair]) -> Measured:
    """The figures of the pairs; see the top of this module."""
    for pair in pairs:
        if pair.seconds <= 0 or pair.tokens <= 0:
            raise ServerError(
                f"{load.tokens} tokens took no longer than {load.short}: give more --tokens, or "
                "wait until the server does nothing else"
            )
    rate = _figure([pair.tokens / pair.seconds for pair in pairs])
    step = _figure([1e3 * pair.seconds / pair.steps(load.batch) for pair in pairs])
    answers = [answer for pair in pairs for answer in (pair.short, pair.long)]
    lengths = [pair.long.accept_length for pair in pairs]
    known = [length for length in lengths if length is not None]
    accept = _figure(known) if len(known) == len(pairs) else None
    running = statistics.median(
        (pair.verified if pair.verified is not None else pair.tokens) / pair.steps(load.batch)
        for pair in pairs
    )
    counts = _counts(answers) if accept else {}
    verified = counts.get("verified")
    rates = tuple(n / verified for n in counts.get("by_position", ())) if verified else ()
    notes = _notes(load, step, running, answers)
    whole = statistics.median(pair.short.seconds for pair in pairs)
    return Measured(load, rate, step, running, accept, rates, counts, whole, notes)


def _figure(values: Sequence[float]) -> Figure:
    return Figure(statistics.median(values), tuple(values))


def _counts(answers: Sequence[Answer]) -> dict[str, Any]:
    """The engine's counters over all measured requests."""
    places = max(len(answer.by_position) for answer in answers)
    drafted = [answer.drafted for answer in answers]
    return {
        "verified": sum(answer.verified or 0 for answer in answers),
        "drafted": None if None in drafted else sum(d or 0 for d in drafted),
        "accepted": sum(answer.accepted or 0 for answer in answers),
        "by_position": [
            sum(answer.by_position[i] for answer in answers if i < len(answer.by_position))
            for i in range(places)
        ],
    }


def _notes(load: Load, step: Figure, running: float, answers: Sequence[Answer]) -> tuple[str, ...]:
    notes = []
    if step.spread > _MOST_SPREAD:
        notes.append(
            f"the length of a cycle differs by {100 * step.spread:.0f} % between repetitions: "
            "something else ran, or --tokens is too short"
        )
    if running < _LEAST_RUNNING * load.batch:
        notes.append(
            f"{running:.1f} of {load.batch} sequences ran on average: they end at different "
            "times, or the server did not take them all at once"
        )
    if any(answer.others for answer in answers):
        notes.append("the server made tokens for others meanwhile: its counters hold them too")
    if any(answer.cached for answer in answers):
        notes.append("the server had parts of the prompts in its prefix cache")
    return tuple(notes)


def _rounded(value: float) -> float:
    return round(value, 4)
