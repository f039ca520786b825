"""Records a few cycles of a server under load, and waits until every rank's file is whole."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from specscope.profiler import trace_files
from specscope.profiler.capture_place import Place
from specscope.profiler.engine_probe import SGLANG, Engine
from specscope.profiler.http_api import Api
from specscope.profiler.load import Load, driver
from specscope.profiler.measure import Measured
from specscope.profiler.profile_control import MORE_STEPS, SglangProfiler, VllmProfiler
from specscope.profiler.rounds import Rounds
from specscope.profiler.server_errors import ServerError
from specscope.profiler.trace_files import Standing, Watch

# A network file system shows files this much later than they are written.
_GRACE_SECONDS = 5.0
_PAUSE_SECONDS = 0.25
# A round of the load is so many times as long as the cycles to record.
_ROOM = 3


@dataclass(frozen=True)
class Recording:
    """What to record. `say` gets lines worth keeping, `tick` what is true at this moment."""

    api: Api
    engine: Engine
    load: Load
    measured: Measured
    place: Place
    cycles: int
    stacks: bool
    timeout: float
    say: Callable[[str], None]
    tick: Callable[[str], None]


def record(options: Recording) -> Standing:
    """Record, under load; the files that were seen here, all whole. None where none is seen.

    Raises:
        ServerError: the server went away, refused, or its files did not come whole in time.
    """
    api, engine, measured, place = options.api, options.engine, options.measured, options.place
    tokens, cycles_a_round = _round(options)
    if cycles_a_round < options.cycles + MORE_STEPS:
        options.say(
            f"a request of this server holds {cycles_a_round} cycles: prefills will lie between "
            f"the {options.cycles} to record"
        )
    watch = Watch(place.watched, trace_files.names(place.watched)) if place.watched else None
    profiler: SglangProfiler | VllmProfiler
    if engine.name == SGLANG:
        profiler = SglangProfiler(api, str(place.told), options.cycles, options.stacks)
    else:
        profiler = VllmProfiler(api, options.cycles, measured.step_ms.value / 1e3)
    with Rounds(driver(api, engine), options.load, tokens, seconds=options.timeout) as rounds:
        try:
            _let_it_decode(rounds, measured)
            options.say(f"recording {options.cycles} cycles")
            before = api.get("/metrics").text if engine.name != SGLANG else ""
            profiler.start()
            if isinstance(profiler, VllmProfiler):
                profiler.await_steps(before, options.timeout, rounds.check)
                options.say("waiting for the server to write the traces")
                profiler.stop(options.timeout)
                over = _Over(rounds, 0)
            else:
                over = _Over(rounds, math.ceil(1 + 1.5 * profiler.steps / cycles_a_round))
            standing = _await_files(options, watch, over)
            profiler.running = False
        except BaseException:
            with contextlib.suppress(ServerError):
                profiler.stop(options.timeout)
            raise
    return standing


def _round(options: Recording) -> tuple[int, int]:
    """Tokens of one round of the load, and the cycles that it holds at least.

    Long enough to begin the profile in its middle and end it before the round ends, where the
    server's context allows that.
    """
    engine, load, measured = options.engine, options.load, options.measured
    accept = max(1.0, measured.accept_length.value if measured.accept_length else 1.0)
    wanted = load.short + math.ceil(_ROOM * (options.cycles + MORE_STEPS) * accept)
    most = wanted
    if engine.most_tokens is not None:
        most = min(most, engine.most_tokens - load.prompt_tokens)
    if engine.most_batch_tokens is not None:
        most = min(most, engine.most_batch_tokens // load.batch - load.prompt_tokens)
    tokens = max(most, load.tokens)
    return tokens, max(1, int((tokens - load.short) / accept))


class _Over:
    """Whether the profile must be over: so many rounds of load ran after its start."""

    def __init__(self, rounds: Rounds, needed: int) -> None:
        self._rounds, self._until = rounds, rounds.done + needed
        self._since: float | None = None

    def for_seconds(self) -> float:
        """Seconds since it must be over; 0 before. Raises what ended the load."""
        self._rounds.check()
        if self._rounds.done < self._until:
            return 0.0
        if self._since is None:
            self._since = time.monotonic()
        return time.monotonic() - self._since


def _let_it_decode(rounds: Rounds, measured: Measured) -> None:
    """Wait until the first round is past its prefill: as long as a short request takes."""
    pause = min(measured.short_seconds, 30.0)
    until = time.monotonic() + pause
    while time.monotonic() < until:
        rounds.check()
        time.sleep(min(0.05, pause))


def _await_files(options: Recording, watch: Watch | None, over: _Over) -> Standing:
    """Wait for a whole file of every rank; an empty answer when they are not seen from here."""
    engine, place = options.engine, options.place
    begun = time.monotonic()
    until = begun + options.timeout
    if watch is None:
        return Standing()
    while True:
        standing = watch.look()
        there = len(standing.whole)
        # A header knows better than a command line, which may name a configuration file.
        seen = there + len(standing.unfinished)
        expected = max(engine.ranks or 1, standing.world_size or 1, seen)
        idle = over.for_seconds()
        if there >= expected and not standing.unfinished:
            return standing
        nodes = engine.nodes or 1
        quiet = idle > _GRACE_SECONDS and not standing.unfinished
        if quiet and nodes > 1 and there >= expected // nodes:
            return standing
        if quiet and there == 0:
            if place.certain:
                raise ServerError(_nothing_came(place, engine))
            return Standing()
        if time.monotonic() > until:
            raise ServerError(_not_in_time(options, standing, expected, watch))
        options.tick(
            f"waiting for traces: {there} of {expected} whole, {watch.bytes() / 1e6:.0f} MB, "
            f"{time.monotonic() - begun:.0f} s"
        )
        time.sleep(_PAUSE_SECONDS)


def _nothing_came(place: Place, engine: Engine) -> str:
    if engine.name == SGLANG:
        return (
            f"no trace appeared in {place.told}: a profile that was running already takes a new "
            "start for its own, with its own folder; POST /stop_profile, then capture again"
        )
    return f"no trace appeared in {place.watched}: the server's log says why"


def _not_in_time(options: Recording, standing: Standing, expected: int, watch: Watch) -> str:
    ranks = standing.ranks()
    missing = sorted(set(range(expected)) - set(ranks))
    cut = f"; unfinished: {', '.join(standing.unfinished[:8])}" if standing.unfinished else ""
    named = ", ".join(map(str, missing[:16]))
    return (
        f"{len(standing.whole)} of {expected} traces are whole after {options.timeout:.0f} s in "
        f"{watch.folder}; missing: rank {named or 'unknown'}{cut}; give a longer --timeout, or "
        "fewer --cycles, and look at the server's log"
    )


def missing_nodes(engine: Engine, standing: Standing) -> str:
    """The line about ranks that wrote on other nodes; empty when all are here."""
    there = len(standing.whole)
    if not there or not engine.ranks or there >= engine.ranks:
        return ""
    return (
        f"{there} of {engine.ranks} ranks are here: the others wrote on the disks of their own "
        "nodes, under the same path; copy them beside these"
    )
