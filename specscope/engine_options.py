"""Options of commands that can have their work done by a Ray cluster, and what they mean."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from specscope.traces.errors import UsageError

if TYPE_CHECKING:
    from specscope.traces.engines import Engine

Command = TypeVar("Command", bound=Callable[..., Any])

IN_PROCESS: Final = "in-process"
RAY: Final = "ray"


def engine_options(command: Command) -> Command:
    """`--engine` and `--ray-address`."""
    command = click.option(
        "--ray-address",
        metavar="ADDRESS",
        envvar="RAY_ADDRESS",
        help="The cluster of --engine ray: HOST:PORT, `auto`, or `local` to start one here for "
        "this command.  [env: RAY_ADDRESS]",
    )(command)
    return click.option(
        "--engine",
        type=click.Choice([IN_PROCESS, RAY]),
        default=IN_PROCESS,
        show_default=True,
        help="Where files are read: in this process, or on the workers of a Ray cluster "
        "(docs/cluster.md).",
    )(command)


@contextlib.contextmanager
def chosen(engine: str, ray_address: str | None) -> Iterator[Engine | None]:
    """The engine that was asked for, None for this process. Raises UsageError."""
    if engine == IN_PROCESS:
        if ray_address and _was_typed("ray_address"):
            raise UsageError("--ray-address is the cluster of --engine ray: give both, or neither")
        yield None
        return
    if not ray_address:
        raise UsageError(
            "--engine ray needs the address of a cluster: --ray-address HOST:PORT, or "
            "--ray-address local to start one here"
        )
    # Takes a second, and few have it.
    from specscope.ray_engine import connected

    with connected(ray_address) as found:
        yield found


def _was_typed(option: str) -> bool:
    """Does the command line say it? An address in the environment asks for nothing."""
    context = click.get_current_context(silent=True)
    return (
        context is not None and context.get_parameter_source(option) is ParameterSource.COMMANDLINE
    )
