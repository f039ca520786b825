"""`specscope capture`: measure a server under a load of its own, then record a few cycles of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from specscope.profiler import (
    capture_place,
    capture_warnings,
    engine_probe,
    gpu_state,
    graph_traces,
    profile_control,
    recording,
    run_file,
)
from specscope.profiler.capture_place import Place
from specscope.profiler.engine_probe import SGLANG, Engine
from specscope.profiler.http_api import Api
from specscope.profiler.load import Load, driver
from specscope.profiler.measure import Measured, fitting, measure
from specscope.profiler.profile_control import MORE_STEPS
from specscope.profiler.recording import Recording
from specscope.profiler.server_errors import UnsuitableError


def _nothing(text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Options:
    """What to do. `say` gets lines worth keeping, `tick` what is true at this moment."""

    url: str
    cycles: int = 20
    batch: int = 1
    prompt_tokens: int = 256
    tokens: int = 256
    repetitions: int = 3
    stacks: bool = False
    graphs: bool = False
    profile: bool = True
    api_key: str | None = field(default=None, repr=False)
    admin_api_key: str | None = field(default=None, repr=False)
    baseline_url: str | None = None
    baseline_run: Path | None = None
    out: Path | None = None
    server_out: str | None = None
    profiler_dir: Path | None = None
    timeout: float = 600.0
    vocabulary: int | None = None
    producer: str = "specscope"
    say: Callable[[str], None] = _nothing
    tick: Callable[[str], None] = _nothing


@dataclass(frozen=True)
class Captured:
    """What there is now: run.json, the traces seen from here, else the line that says where.

    `graphs` are graph-capture traces, when they were asked for and found.
    """

    run: Path
    traces: tuple[Path, ...] = ()
    elsewhere: str = ""
    graphs: tuple[Path, ...] = ()


def capture(options: Options) -> Captured:
    """Do it. run.json is written before the profiler starts, and again at the end.

    Raises:
        UnsuitableError: the server or the options do not allow it; nothing was profiled.
        ServerError: the server went away, or its traces did not come whole in time.
    """
    capture_place.prove(options.out)
    api = Api(options.url, options.api_key, options.admin_api_key)
    engine = engine_probe.probe(api)
    load = _fitting(options, engine)
    _refuse_what_cannot_be_profiled(options, api, engine)
    plain = _baseline_probe(options)
    with capture_place.claimed(
        engine,
        out=options.out,
        server_out=options.server_out,
        profiler_dir=options.profiler_dir,
    ) as place:
        return _captured(options, api, engine, load, place, plain)


def _captured(
    options: Options,
    api: Api,
    engine: Engine,
    load: Load,
    place: Place,
    plain: tuple[Api, Engine] | None,
) -> Captured:
    notes = _notes(options, engine)
    for note in notes:
        options.say(note)

    options.say(_greeting(engine, api))
    sglang_profile = options.profile and engine.name == SGLANG
    if sglang_profile and profile_control.end_running(api, options.timeout):
        options.say("if a profile was running there, it has been ended and has its own traces")
    gpus: list[Any] = []
    measured = _measure(options, api, engine, load, lambda: gpus.append(gpu_state.sample()))
    options.say(_spoken(measured))
    baseline, more = _baseline(options, plain, engine, load)
    notes += [*measured.notes, *more]
    for note in (*measured.notes, *more):
        options.say(note)
    run = {**run_file.server(engine, api.title), **run_file.figures(measured)}

    def write(profile: dict[str, Any] | None) -> Path:
        document = run_file.document(
            run,
            producer=options.producer,
            baseline=baseline,
            gpus=next((sample for sample in reversed(gpus) if sample), None),
            profile=profile,
            notes=notes,
        )
        return run_file.write(place.out, document, [options.api_key, options.admin_api_key])

    path = write(None)
    if not options.profile:
        return Captured(path)
    standing = recording.record(
        Recording(
            api,
            engine,
            load,
            measured,
            place,
            cycles=options.cycles,
            stacks=options.stacks,
            timeout=options.timeout,
            say=options.say,
            tick=options.tick,
        )
    )
    traces = capture_place.bring(tuple(file.path for file in standing.whole), place.out)
    elsewhere = "" if traces else _elsewhere(place, engine, api)
    missing = recording.missing_nodes(engine, standing)
    graphs = graph_traces.Found()
    if options.graphs:
        given = options.profiler_dir or (place.watched if engine.name != SGLANG else None)
        graphs = graph_traces.collect(engine, place.out, given)
    for note in filter(None, (missing, graphs.missing)):
        notes.append(note)
        options.say(note)
    path = write(_profile_facts(options, engine, place, traces, graphs))
    return Captured(path, traces, elsewhere, graphs.files)


def _fitting(options: Options, engine: Engine) -> Load:
    return fitting(
        engine,
        batch=options.batch,
        prompt_tokens=options.prompt_tokens,
        tokens=options.tokens,
        vocabulary=options.vocabulary,
    )


def _refuse_what_cannot_be_profiled(options: Options, api: Api, engine: Engine) -> None:
    if not options.profile or engine.name == SGLANG:
        return
    if not profile_control.vllm_has_profiler(api):
        raise profile_control.no_profiler(api)


def _notes(options: Options, engine: Engine) -> list[str]:
    notes = [capture_warnings.SIMULATED] if engine.simulated else []
    if options.profile:
        notes += capture_warnings.before_profiling(engine, stacks=options.stacks)
    return notes


def _measure(
    options: Options,
    api: Api,
    engine: Engine,
    load: Load,
    sample: Callable[[], object] | None,
) -> Measured:
    return measure(
        driver(api, engine),
        load,
        options.repetitions,
        seconds=options.timeout,
        say=options.tick,
        meanwhile=sample if engine.at_home else None,
    )


# The server without speculation.


def _baseline_probe(options: Options) -> tuple[Api, Engine] | None:
    """The plain server, asked before anything is measured: it must not speculate."""
    if options.baseline_run is not None:
        run_file.read_plain(options.baseline_run)
    if options.baseline_url is None:
        return None
    api = Api(options.baseline_url, options.api_key)
    engine = engine_probe.probe(api)
    if engine.speculation is not None:
        raise UnsuitableError(
            f"{api.title} speculates ({engine.speculation}): a baseline is the same server "
            "started without speculation"
        )
    return api, engine


def _baseline(
    options: Options, plain: tuple[Api, Engine] | None, engine: Engine, load: Load
) -> tuple[dict[str, Any] | None, list[str]]:
    """The baseline measured the same way, or as an earlier run.json has it; and notes."""
    notes: list[str] = []
    if options.baseline_run is not None:
        found = run_file.read_plain(options.baseline_run)
    elif plain is not None:
        api, its_engine = plain
        options.say(f"baseline: {_greeting(its_engine, api)}")
        its_load = replace(_fitting(options, its_engine), vocabulary=load.vocabulary)
        measured = _measure(options, api, its_engine, its_load, None)
        options.say(f"baseline: {_spoken(measured)}")
        found = {**run_file.server(its_engine, api.title), **run_file.figures(measured)}
        notes += [f"baseline: {note}" for note in measured.notes]
    else:
        return None, []
    notes += [
        f"the baseline has {name} {found.get(name)}, this server {mine}: they do not compare"
        for name, mine in (
            ("model", engine.model),
            ("tp", engine.tp),
            ("batch", load.batch),
            ("prompt_tokens", load.prompt_tokens),
        )
        if found.get(name) is not None and mine is not None and found.get(name) != mine
    ]
    return found, notes


def _elsewhere(place: Place, engine: Engine, api: Api) -> str:
    folder = place.told or "the folder named by its --profiler-config (torch_profiler_dir)"
    return (
        f"the traces lie on the disk of the server ({api.host}), in {folder}, and are not seen "
        f"from here; copy them into {place.out}, beside run.json, then: analyze {place.out}"
    )


def _profile_facts(
    options: Options,
    engine: Engine,
    place: Place,
    traces: tuple[Path, ...],
    graphs: graph_traces.Found,
) -> dict[str, Any]:
    return {
        "cycles": options.cycles,
        "steps": options.cycles + MORE_STEPS,
        "stacks": options.stacks if engine.name == SGLANG else None,
        "ranks": engine.ranks,
        "files": sorted(path.name for path in traces),
        "server_folder": place.told,
        "graph_captures": sorted(path.name for path in graphs.files),
    }


# In words.


def _greeting(engine: Engine, api: Api) -> str:
    facts = [
        f"{engine.name} {engine.version or ''}".strip(),
        f"model {engine.model}" if engine.model else "",
        f"{engine.speculation}, k {engine.k}" if engine.speculation else "no speculation",
        f"TP {engine.tp}" if engine.tp else "",
    ]
    return f"{api.title}: {', '.join(filter(None, facts))}"


def _spoken(measured: Measured) -> str:
    rate, step = measured.tokens_per_second, measured.step_ms
    text = (
        f"without a profiler, batch {measured.load.batch}: {rate.value:.1f} tokens/s "
        f"({min(rate.values):.1f} to {max(rate.values):.1f}), "
        f"{'cycle' if measured.speculates else 'step'} {step.value:.2f} ms "
        f"({min(step.values):.2f} to {max(step.values):.2f})"
    )
    if measured.accept_length is None:
        return text
    rates = ", ".join(f"{rate:.2f}" for rate in measured.position_rates)
    accept = f"accept length {measured.accept_length.value:.2f}"
    return f"{text}, {accept}" + (f", accepted by position {rates}" if rates else "")
