"""`specscope sweep`: one server after the other, each measured and recorded for each batch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

from specscope.profiler import (
    capture,
    capture_warnings,
    engine_probe,
    profile_control,
    run_file,
    server_process,
    sweep_file,
    sweep_folders,
)
from specscope.profiler.engine_probe import SGLANG, Engine
from specscope.profiler.http_api import Api
from specscope.profiler.server_errors import ServerError, UnsuitableError
from specscope.profiler.server_process import ServerProcess
from specscope.profiler.server_ready import await_ready
from specscope.profiler.sweep_baseline import COMMAND, FILE, URL, Origin, digest, is_another
from specscope.profiler.sweep_figures import Row, measured
from specscope.profiler.sweep_file import Book
from specscope.profiler.sweep_options import Options, Plan, plan

# Less room than this, and nothing more is recorded: figures go on.
_LEAST_ROOM: Final = 1 << 30
_DYING_SECONDS: Final = 5.0


def sweep(options: Options) -> dict[str, Any]:
    """Do it; the document of sweep.json, which is written after every row.

    An interrupt ends the running server and is raised on; what was measured is written.

    Raises:
        UnsuitableError: the options do not allow it; nothing was started.
        ServerError: a server cannot be ended.
    """
    checked = plan(options)
    load = options.load
    settings = {
        "command": checked.command.shown(),
        "baseline_command": checked.plain.shown() if checked.plain else None,
        **{name: load.get(name) for name in _LOAD},
    }
    if line := server_process.taken(checked.api):
        raise UnsuitableError(line)
    commands = {"command": checked.command, "baseline_command": checked.plain}
    secrets = (load.get("api_key"),)
    with Book(options.out.absolute(), settings, options.producer, secrets, commands) as book:
        _Sweep(options, checked, book).run()
        return book.document


_LOAD: Final = ("prompt_tokens", "tokens", "repetitions", "vocabulary")


class _Sweep:
    """A sweep under way."""

    def __init__(self, options: Options, checked: Plan, book: Book) -> None:
        self._options, self._plan, self._book = options, checked, book
        self._said: set[str] = set()

    def run(self) -> None:
        """All settings that have no row yet."""
        self._given_baselines()
        for steps in self._plan.steps:
            missing = [batch for batch in self._plan.batches if self._is_missing(steps, batch)]
            if missing:
                self._setting(steps, missing)

    def _is_missing(self, steps: int, batch: int) -> bool:
        row = self._book.find(steps, batch)
        if row is None or not measured(row):
            return True
        if row["cut"] and self._options.profile:
            self._options.say(f"{_name(steps, batch)}: was cut before its traces, taken again")
            return True
        self._options.say(f"{_name(steps, batch)}: is there already")
        return False

    # Servers that are started here.

    def _setting(self, steps: int, batches: list[int]) -> None:
        """Start the server of a number of steps, and measure each batch on it."""
        left = list(batches)
        while left:
            log = self._log(steps)
            try:
                server = self._started(steps, log)
            except ServerError as error:
                for batch in left:
                    self._failed(steps, batch, str(error), log)
                return
            with server:
                try:
                    engine = await_ready(
                        self._plan.api, server, self._options.ready_timeout, self._options.tick
                    )
                    self._suits(steps, engine)
                except ServerError as error:
                    for batch in left:
                        self._failed(steps, batch, str(error), log)
                    return
                left = self._batches(steps, left, engine, server)
            if line := server_process.await_free(self._plan.api):
                self._options.say(line)

    def _started(self, steps: int, log: Path) -> ServerProcess:
        if line := server_process.taken(self._plan.api):
            raise UnsuitableError(line)
        start = self._plan.start(steps)
        self._options.say(f"{_name(steps)}: {start.shown()}")
        key = self._options.load.get("api_key")
        return ServerProcess(start, log, secrets=(key,) if key else ())

    def _batches(
        self, steps: int, batches: list[int], engine: Engine, server: ServerProcess
    ) -> list[int]:
        """Measure batch after batch; those left when the server is fit for no more."""
        left = list(batches)
        while left:
            batch = left.pop(0)
            if not self._batch(steps, batch, engine, server) or server.ended:
                break
        return left

    def _batch(self, steps: int, batch: int, engine: Engine, server: ServerProcess) -> bool:
        """One row; False when the server must not be used any more."""
        folder = self._book.folder / f"steps-{steps}" / f"batch-{batch}"
        not_recorded = self._cannot_record(engine) if self._options.profile else None
        profile = self._options.profile and not_recorded is None
        log = sweep_file.relative(server.log.path, self._book.folder)
        where = {"folder": sweep_file.relative(folder, self._book.folder), "log": log}
        taken = sweep_folders.Taken()

        def row(failure: str | None, **more: Any) -> Row:
            """With the figures, once run.json is there: the failure is then one of recording."""
            run = _read_run(folder)
            if run is None:
                return sweep_file.empty(steps, batch, failure, **where)
            # What an earlier call has measured, and this one has not, still waits for its traces.
            more = {"not_recorded": failure, "cut": taken.kept and self._options.profile, **more}
            found = sweep_file.of_run(steps, batch, run, **where, **more)
            # What was said before the recording is worth a line only where it went wrong.
            before = _warned(engine) if found["recorded"] and found["shares"] else set()
            notes = [note for note in found["notes"] if note not in before]
            return {**found, "notes": [*notes, *_noted(found, engine)]}

        try:
            with sweep_folders.taken_again(folder) as taken:
                done = self._capture(
                    self._plan.api.title, batch, folder, profile, _name(steps, batch)
                )
        except UnsuitableError as error:
            self._add(row(str(error)))
            return True
        except ServerError as error:
            # Its connections go before it does.
            over = server.ends_within(_DYING_SECONDS)
            self._add(row(f"{error}{f'; the server {server.last_words()}' if over else ''}"))
            return False
        except KeyboardInterrupt:
            if _read_run(folder) is not None:
                self._add(row("interrupted" if profile else None, cut=profile))
            raise
        if done.traces:
            # First without shares: reading traces may fail as nothing else here.
            self._add(row(None, recorded=True))
            self._add(row(None, recorded=True, shares=self._shares(folder)))
        else:
            self._add(row(not_recorded or done.elsewhere or None))
        return True

    def _capture(
        self, url: str, batch: int, folder: Path, profile: bool, name: str
    ) -> capture.Captured:
        """Measure, and record where that is wanted, into the folder."""
        options = self._options

        def say(text: str) -> None:
            # What is said of every server alike is said once.
            if text not in self._said:
                self._said.add(text)
                options.say(f"{name}: {text}")

        return capture.capture(
            capture.Options(
                url,
                batch=batch,
                out=folder,
                profile=profile,
                producer=options.producer,
                say=say,
                tick=lambda text: options.tick(f"{name}: {text}"),
                **options.load,
            )
        )

    def _shares(self, folder: Path) -> dict[str, float] | None:
        """Shares of the recorded cycle; a fault of the analysis does not end the sweep."""
        try:
            return self._options.shares(folder)
        except Exception as error:
            self._options.say(
                f"{folder}: no shares ({type(error).__name__}: {error}); analyze says more"
            )
            return None

    def _cannot_record(self, engine: Engine) -> str | None:
        """Why this server cannot be recorded, and what to start it with; None when it can."""
        reason = None
        if engine.name != SGLANG and not profile_control.vllm_has_profiler(self._plan.api):
            reason = str(profile_control.no_profiler(self._plan.api))
        elif shutil.disk_usage(self._book.folder).free < _LEAST_ROOM:
            reason = f"less than {_LEAST_ROOM >> 30} GiB is free for traces"
        if reason and reason not in self._said:
            self._said.add(reason)
            self._options.say(f"measured only: {reason}")
        return reason

    @staticmethod
    def _suits(steps: int, engine: Engine) -> None:
        if steps == 0 and engine.speculation is not None:
            raise UnsuitableError(
                f"the server speculates ({engine.speculation}) where it should not: give "
                "--baseline-command, the same server without speculation"
            )
        if steps and engine.speculation is None:
            raise UnsuitableError(
                "the server does not speculate, or does not say so (its statistics are off); look "
                "at --command"
            )

    def _log(self, steps: int) -> Path:
        return self._book.folder / f"steps-{steps}" / "server.log"

    def _failed(self, steps: int, batch: int, reason: str, log: Path) -> None:
        where = sweep_file.relative(log, self._book.folder) if log.exists() else None
        self._add(sweep_file.empty(steps, batch, reason, log=where))

    def _add(self, row: Row) -> None:
        self._book.add(row)
        for text in (row["reason"], row["not_recorded"]):
            if text and text not in self._said:
                self._options.say(f"{_name(row['steps'], row['batch'])}: {text}")

    # A baseline that is there already.

    def _given_baselines(self) -> None:
        options = self._options
        given = [(path, run_file.read_plain(path)) for path in options.baseline_runs]
        self._refuse_another_baseline({str(run.get("batch", 1)): digest(run) for _, run in given})
        for path, run in given:
            origin = digest(run)
            batch = run.setdefault("batch", 1)
            try:
                run.setdefault("tokens_per_second", 1e3 * batch / run["step_ms"])
                row = sweep_file.of_run(0, batch, run, source=FILE, origin=origin, recorded=False)
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                raise UnsuitableError(f"baseline {path} has a figure that is no number") from None
            if batch not in self._plan.batches:
                options.say(f"baseline {path} is of batch {batch}, which is not asked for")
                continue
            self._add(row)
            length = run.get("prompt_tokens")
            if length not in (None, options.load.get("prompt_tokens")):
                options.say(f"baseline {path} has prompts of {length} tokens: it does not compare")
        if options.baseline_url is None:
            return
        missing = [batch for batch in self._plan.batches if self._is_missing(0, batch)]
        if not missing:
            return  # its server need not be there any more
        api = Api(options.baseline_url, options.load.get("api_key"))
        self._suits(0, engine_probe.probe(api))
        for batch in missing:
            folder = self._book.folder / "baseline" / f"batch-{batch}"
            with sweep_folders.taken_again(folder):
                self._capture(api.title, batch, folder, False, _name(0, batch))
            where = sweep_file.relative(folder, self._book.folder)
            run = run_file.read_plain(folder)
            self._add(sweep_file.of_run(0, batch, run, source=URL, origin=api.title, folder=where))

    def _refuse_another_baseline(self, files: dict[str, str]) -> None:
        """Rows are held against the baseline that they stand beside, and that stays one."""
        url = self._options.baseline_url
        for batch in self._plan.batches:
            given = Origin(COMMAND) if 0 in self._plan.steps else None
            if url is not None:
                given = Origin(URL, Api(url).title)
            elif str(batch) in files:
                given = Origin(FILE, files[str(batch)])
            if words := is_another(self._book.find(0, batch), given):
                raise UnsuitableError(
                    f"{self._book.path}: the baseline of batch {batch} was measured {words}: rows "
                    "would not compare; give --out another folder, or no baseline to keep that one"
                )


def _name(steps: int, batch: int | None = None) -> str:
    name = f"{steps} step{'' if steps == 1 else 's'}" if steps else "no speculation"
    return name if batch is None else f"{name}, batch {batch}"


def _warned(engine: Engine) -> set[str]:
    return set(capture_warnings.before_profiling(engine, stacks=False))


def _noted(row: Row, engine: Engine) -> list[str]:
    """What only a sweep can know of a row."""
    steps = row["steps"]
    notes = []
    if steps and engine.k not in (None, steps):
        notes.append(f"the server says k {engine.k}, asked were {steps} steps; look at --command")
    if steps and row["accept_length"] is None:
        notes.append("the server counts no verifications: it speculates not, or without statistics")
    return notes


def _read_run(folder: Path) -> dict[str, Any] | None:
    """The run.json that a capture has written; None before that."""
    try:
        found = json.loads((folder / run_file.NAME).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
