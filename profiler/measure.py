"""A server measured without a profiler: pairs of requests of two lengths, and their difference.

Everything that both lengths have in common, the prefill and the way there and back, drops out:

    cycle         = difference of the times / difference of the cycles that ran
    running batch = difference of the cycles of all sequences / difference of the cycles
    tokens/s      = difference of the tokens / difference of the times
                  = running batch x accept length / cycle

Towards the end of a batch sequences are done at different times, so the running batch is a
little smaller than the batch. The cycle is the median of the repetitions, which a hiccup does
not move; accept length and running batch are those of all repetitions together, for prompts
differ; tokens/s is what these three give, and its range what the cycles of the repetitions give.
Each repetition's own figures are kept beside them.
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
# A pair that a hiccup spoiled is taken again.
_TRIES = 3
_SHORT_SHARE, _LEAST_SHORT = 8, 8


@dataclass(frozen=True)
class Figure:
    """A measured figure, and that of each repetition."""

    value: float
    values: tuple[float, ...]

    @property
    def spread(self) -> float:
        """Range of the repetitions, as a share of the figure."""
        return (max(self.values) - min(self.values)) / self.value if self.value else 0.0

    def as_json(self) -> dict[str, Any]:
        """As it stands in run.json."""
        return {
            "value": _rounded(self.value),
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
    def tells(self) -> bool:
        """Whether the difference says anything: a hiccup can be longer than it."""
        return self.seconds > 0 and self.tokens > 0

    @property
    def cycles(self) -> int:
        """How many more cycles, summed over the sequences; 0 without speculation."""
        return self.long.cycles - self.short.cycles

    def steps(self, batch: int) -> float:
        """How many more rounds ran; from the tokens, at the whole batch, where nobody counts."""
        if self.long.steps is not None and self.short.steps is not None:
            counted = self.long.steps - self.short.steps
            if counted > 0:
                return counted
        return (self.cycles if self.cycles > 0 else self.tokens) / batch


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
    for number in range(1, repetitions + 1):
        say(f"measuring without a profiler: {number} of {repetitions}")
        for _ in range(_TRIES):
            pair = _pair(driver, load, number, seconds, warm.seconds / 2, meanwhile)
            if pair.tells:
                break
        pairs.append(pair)
    return evaluated(load, pairs)


def _pair(
    driver: Driver,
    load: Load,
    number: int,
    seconds: float,
    delay: float,
    meanwhile: Callable[[], object] | None,
) -> Pair:
    short = driver.generate(load.prompts(number, 0), load.short, seconds=seconds, stop=None)
    timer = threading.Timer(delay, meanwhile) if meanwhile else None
    if timer is not None:
        timer.daemon = True
        timer.start()
    long = driver.generate(load.prompts(number, 1), load.tokens, seconds=seconds, stop=None)
    if timer is not None:
        timer.cancel()
        timer.join()
    return Pair(short, long)


def evaluated(load: Load, pairs: Sequence[Pair]) -> Measured:
    """The figures of the pairs; see the top of this module."""
    for pair in pairs:
        if not pair.tells:
            raise ServerError(
                f"{load.tokens} tokens took no longer than {load.short}: give more --tokens, or "
                "wait until the server does nothing else"
            )
    steps = [pair.steps(load.batch) for pair in pairs]
    times = [1e3 * pair.seconds / count for pair, count in zip(pairs, steps, strict=True)]
    cycle = Figure(statistics.median(times), tuple(times))
    answers = [answer for pair in pairs for answer in (pair.short, pair.long)]
    # A short request may have no draft at all.
    speculates = all(a.verified is not None and a.accepted is not None for a in answers) and any(
        a.verified for a in answers
    )
    counts = _counts(answers) if speculates else {}
    sequences = sum(pair.cycles if speculates else pair.tokens for pair in pairs)
    running = sequences / sum(steps)
    accept = None
    rates: tuple[float, ...] = ()
    if speculates:
        whole = 1 + counts["accepted"] / (counts["verified"] + counts["undrafted"])
        if sequences <= 0 or not whole <= load.tokens + 1:
            raise ServerError(
                f"the server's counters cannot be meant: {counts['accepted']} drafts accepted in "
                f"{counts['verified']} verifications; measure another version, or report this"
            )
        accept = Figure(whole, tuple(_accept_length(pair) for pair in pairs))
        rates = tuple(count / counts["verified"] for count in counts["by_position"])
    # One formula for the figure and for its range: no figure lies outside of it.
    made = 1e3 * running * (accept.value if accept else 1.0)
    rate = Figure(made / cycle.value, tuple(made / time for time in times))
    notes = (*_notes(load, cycle, running, answers), *_without_drafts(counts))
    short = statistics.median(pair.short.seconds for pair in pairs)
    return Measured(load, rate, cycle, running, accept, rates, counts, short, notes)


def _accept_length(pair: Pair) -> float:
    """That of both answers of a pair, as the figure is that of all answers."""
    both = (pair.short, pair.long)
    return 1 + sum(a.accepted or 0 for a in both) / max(1, sum(a.cycles for a in both))


def _counts(answers: Sequence[Answer]) -> dict[str, Any]:
    """The engine's counters over all measured requests."""
    places = max(len(answer.by_position) for answer in answers)
    drafted = [answer.drafted for answer in answers]
    return {
        "verified": sum(answer.verified or 0 for answer in answers),
        "undrafted": sum(answer.undrafted for answer in answers),
        "drafted": None if None in drafted else sum(d or 0 for d in drafted),
        "accepted": sum(answer.accepted or 0 for answer in answers),
        "by_position": [
            sum(answer.by_position[i] for answer in answers if i < len(answer.by_position))
            for i in range(places)
        ],
    }


def _notes(load: Load, cycle: Figure, running: float, answers: Sequence[Answer]) -> tuple[str, ...]:
    notes = []
    if cycle.spread > _MOST_SPREAD:
        notes.append(
            f"the length of a cycle differs by {100 * cycle.spread:.0f} % between repetitions: "
            "something else ran, or too few --tokens"
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


def _without_drafts(counts: dict[str, Any]) -> tuple[str, ...]:
    """What the accept length is of, where some cycles had no draft."""
    undrafted = counts.get("undrafted", 0)
    if not undrafted:
        return ()
    verified = counts["verified"]
    return (
        f"{100 * undrafted / (verified + undrafted):.0f} % of the cycles had no draft: the accept "
        f"length is over all of them, over those with a draft it is "
        f"{1 + counts['accepted'] / verified:.2f}",
    )


def _rounded(value: float) -> float:
    return round(value, 4)
