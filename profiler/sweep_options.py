"""What a sweep is asked to do, and the plan of it: checked before anything is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specscope.profiler import run_file, sweep_plan
from specscope.profiler.http_api import Api
from specscope.profiler.server_errors import UnsuitableError
from specscope.profiler.sweep_plan import Start, Template


def _nothing(text: str) -> None:
    """Say nothing."""


def _no_shares(folder: Path) -> dict[str, float] | None:
    """Nobody here reads traces."""
    return None


@dataclass(frozen=True)
class Options:
    """What to do. `shares` reads a recorded folder: shares of the cycle by stage, or None.

    `load` has the options of a capture that every row shares: prompt_tokens, tokens, repetitions,
    vocabulary, cycles, timeout, api_key.
    """

    command: str
    steps: tuple[int, ...]
    out: Path
    batches: tuple[int, ...] = (1,)
    baseline_command: str | None = None
    baseline_url: str | None = None
    baseline_runs: tuple[Path, ...] = ()
    port: int | None = None
    url: str | None = None
    ready_timeout: float = 1800.0
    profile: bool = True
    load: dict[str, Any] = field(default_factory=dict)
    producer: str = "specscope"
    shares: Callable[[Path], dict[str, float] | None] = _no_shares
    say: Callable[[str], None] = _nothing
    tick: Callable[[str], None] = _nothing


@dataclass(frozen=True)
class Plan:
    """The options, checked: what is started, and where it answers."""

    command: Template
    plain: Template | None
    steps: tuple[int, ...]
    batches: tuple[int, ...]
    port: int
    api: Api

    def start(self, steps: int) -> Start:
        """The command for that many steps; 0 is the server without speculation."""
        chosen = self.plain if steps == 0 and self.plain is not None else self.command
        return chosen.start(steps, self.port)


def plan(options: Options) -> Plan:
    """Check everything that can be checked without a server.

    Raises:
        UnsuitableError: in one line, what to change.
    """
    given = [
        name
        for name, value in (
            ("--baseline-command", options.baseline_command),
            ("--baseline-url", options.baseline_url),
            ("--baseline", options.baseline_runs),
        )
        if value
    ]
    if len(given) > 1:
        raise UnsuitableError(f"{given[0]} and {given[1]} both name a baseline; give one of them")
    if 0 in options.steps and given and given[0] != "--baseline-command":
        raise UnsuitableError(f"--steps 0 and {given[0]} both name a baseline; give one of them")
    command = sweep_plan.template("--command", options.command, options.url, varies=True)
    plain = None
    if options.baseline_command is not None:
        plain = sweep_plan.template(
            "--baseline-command", options.baseline_command, options.url, varies=False
        )
    for path in options.baseline_runs:
        run_file.read_plain(path)
    steps = tuple(sorted({*options.steps, *((0,) if plain else ())}))
    port = sweep_plan.choose_port(options.port, options.url)
    api = Api(sweep_plan.address(options.url, port), options.load.get("api_key"))
    return Plan(command, plain, steps, options.batches, port, api)
