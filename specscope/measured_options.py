"""Options that say what was measured without a profiler; `analyze`, `whatif`, `compare` share them.

`@measured_options` gives a command one argument `measured`, what the user said, unread: files
are opened by specscope/measured_inputs.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from specscope.option_types import Expanded, Positive

_FILE: Final = Expanded(path_type=Path)
_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Measured:
    """What the user gave; None or empty where nothing was given. The names are the options'."""

    cycle_ms: float | None = None
    tokens_per_second: float | None = None
    accept_length: float | None = None
    batch: int | None = None
    server_log: tuple[Path, ...] = ()
    metrics: tuple[str, ...] = ()  # files or addresses; of two the first is the earlier scrape
    responses: tuple[Path, ...] = ()
    baseline: str | None = None  # a trace or folder of plain decoding
    baseline_tokens_per_second: float | None = None
    also: tuple[str, ...] = ()  # recordings of the same server at another width or batch


_OPTIONS: Final = (
    click.option(
        "--cycle-ms",
        metavar="MS",
        type=Positive(),
        help="Length of a cycle measured without a profiler.",
    ),
    click.option(
        "--tokens-per-second",
        metavar="RATE",
        type=Positive(),
        help="Rate of the running batch without a profiler; gives the cycle with the next two.",
    ),
    click.option(
        "--accept-length",
        metavar="L",
        type=Positive(),
        help="Tokens a sequence and cycle, the bonus token included.",
    ),
    click.option(
        "--batch", metavar="N", type=click.IntRange(min=1), help="Sequences in the batch."
    ),
    click.option(
        "--server-log",
        metavar="FILE",
        type=_FILE,
        multiple=True,
        help="Log of the server: gives the accept length (docs/throughput.md). Repeatable.",
    ),
    click.option(
        "--metrics",
        metavar="FILE|URL",
        multiple=True,
        help="The server's Prometheus text, or its address. Twice: what lies between the two.",
    ),
    click.option(
        "--responses",
        metavar="FILE",
        type=_FILE,
        multiple=True,
        help="Responses of the server, a JSON document or one a line. Repeatable.",
    ),
    click.option(
        "--baseline",
        metavar="PATH",
        type=click.Path(),
        help="Trace, or folder, of the same server without speculation: gives its plain step.",
    ),
    click.option(
        "--baseline-tokens-per-second",
        metavar="RATE",
        type=Positive(),
        help="Rate of the running batch without speculation and without a profiler.",
    ),
    click.option(
        "--also",
        metavar="PATH",
        type=click.Path(),
        multiple=True,
        help="Recording of the same server with other draft tokens or another batch: gives what a "
        "verify costs by tokens. Repeatable.",
    ),
)


def measured_options(command: _Command) -> _Command:
    """Adds the options; the command gets them as one argument `measured`."""

    @functools.wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        given = {field.name: options.pop(field.name) for field in fields(Measured)}
        return command(*args, measured=Measured(**given), **options)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]
