"""The switches of `nsys` for a server that speculates: a table, and the words it gives.

Switches that an nsys does not know are left out and named. A command is put under nsys in two
calls: `nsys launch` runs it, `nsys start` begins a collection, before or after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .server_errors import UnsuitableError

GRAPHS: Final = ("node", "graph")
WINDOW: Final = "capture-range"


@dataclass(frozen=True)
class Switch:
    """One switch, the subcommand it belongs to, and what is lost without it."""

    command: str
    name: str
    value: str
    why: str
    needed: bool = False


TABLE: Final = (
    Switch("launch", "trace", "cuda,nvtx", "calls, kernels and ranges; no more", needed=True),
    Switch("launch", "cuda-graph-trace", "{graphs}", "kernels inside CUDA graphs"),
    Switch("launch", "trace-fork-before-exec", "true", "workers that fork and never exec"),
    Switch("start", "output", "{output}", "where the report goes", needed=True),
    Switch("start", "force-overwrite", "true", "a report in place of a broken one"),
    Switch("start", "sample", "none", "no sampling of the CPU: it stalls workers"),
    Switch("start", "cpuctxsw", "none", "no scheduler events: they need rights"),
    Switch("start", WINDOW, "cudaProfilerApi", "windows opened by the server", needed=True),
    Switch("start", "capture-range-end", "repeat:{windows}", "more than one window", needed=True),
)
_OF_WINDOWS: Final = (WINDOW, "capture-range-end")


@dataclass(frozen=True)
class Words:
    """The switches for each subcommand, and those that this nsys lacks, with what is lost."""

    launch: tuple[str, ...]
    start: tuple[str, ...]
    left_out: tuple[str, ...]


def words(
    known: Mapping[str, frozenset[str]], *, graphs: str, output: str, windows: int | None
) -> Words:
    """The switches that this nsys knows; `known` has the options of each subcommand.

    A switch goes to the other subcommand where only that knows it. Raises UnsuitableError when
    one that cannot be done without is missing.
    """
    values = {"graphs": graphs, "output": output, "windows": windows}
    out: dict[str, list[str]] = {"launch": [], "start": []}
    left_out = []
    for switch in TABLE:
        if windows is None and switch.name in _OF_WINDOWS:
            continue
        other = "start" if switch.command == "launch" else "launch"
        place = next((one for one in (switch.command, other) if switch.name in known[one]), None)
        text = f"--{switch.name}={switch.value.format(**values)}"
        if place is not None:
            out[place].append(text)
        elif switch.needed:
            raise UnsuitableError(
                f"this nsys has no {text} ({switch.why}); install a newer Nsight Systems"
            )
        else:
            left_out.append(f"{text} ({switch.why})")
    return Words(tuple(out["launch"]), tuple(out["start"]), tuple(left_out))
