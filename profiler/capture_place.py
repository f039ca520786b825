"""Where a capture goes: the folder here, and the same folder as the server names it."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from specscope.profiler import run_file
from specscope.profiler.engine_probe import SGLANG, Engine
from specscope.profiler.profile_control import vllm_folder
from specscope.profiler.server_errors import UnsuitableError

# Everybody may write, only owners may remove.
_FOR_ALL = 0o1777


@dataclass(frozen=True)
class Place:
    """`out` holds run.json and, in the end, the traces. `watched` is where the server's files
    appear, as seen from here; None when that is not known. `told` is what the server is told.
    `certain`: server and specscope see the same disk, so files must appear.
    """

    out: Path
    watched: Path | None
    told: str | None
    certain: bool


def choose(
    engine: Engine,
    *,
    out: Path | None = None,
    server_out: str | None = None,
    profiler_dir: Path | None = None,
) -> Place:
    """Where to write, and where to look for what the server writes.

    A server that cannot make its output folder may die of it, so a folder is only named to it
    that it can write to: one of this user's when it runs as this user on this disk, else one
    under /tmp, unless the user says otherwise.

    Raises:
        UnsuitableError: the folder holds an earlier capture.
    """
    name = f"specscope-capture-{time.strftime('%Y%m%d-%H%M%S')}"
    local = engine.local
    same_disk = local is not None and local.same_disk
    ours = local is not None and local.same_disk and local.same_user
    if engine.name != SGLANG:
        place = _of_vllm(engine, out or Path.cwd() / name, profiler_dir, same_disk)
    elif server_out is not None:
        place = Place(out or Path(server_out), out or Path(server_out), server_out, False)
    elif ours or out is not None:
        folder = (out or Path(name)).absolute()
        place = Place(folder, folder, str(folder), ours)
    else:
        folder = Path("/tmp") / name
        place = Place(folder, folder, str(folder), same_disk)
    if (place.out / run_file.NAME).exists():
        raise UnsuitableError(f"{place.out} holds a run.json already; give --out another folder")
    return place


def make(place: Place) -> None:
    """Make the folder; where it is not ours alone, everybody may write into it."""
    if place.out.is_dir():
        return
    place.out.mkdir(parents=True)
    if place.told == str(place.out) and not place.certain:
        with contextlib.suppress(OSError):
            place.out.chmod(_FOR_ALL)


def bring(files: tuple[Path, ...], out: Path) -> tuple[Path, ...]:
    """The files under `out`: linked where that works, else copied; the originals stay."""
    brought = []
    for path in files:
        target = out / path.name
        if path.parent.resolve() != out.resolve():
            try:
                os.link(path, target)
            except OSError:
                shutil.copy2(path, target)
        brought.append(target)
    return tuple(brought)


def _of_vllm(engine: Engine, out: Path, given: Path | None, same_disk: bool) -> Place:
    """vLLM's folder is set at its start; what is new in it is brought to `out`."""
    named = vllm_folder(engine)
    watched = given or (named if same_disk else None)
    told = str(named) if named is not None else None
    return Place(out, watched, told, same_disk and given is None and watched is not None)
