"""Where a capture goes: the folder here, and the same folder as the server names it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specscope.profiler import run_file
from specscope.profiler.engine_probe import SGLANG, Engine
from specscope.profiler.profile_control import vllm_folder
from specscope.profiler.server_errors import UnsuitableError

# Everybody may write, only owners may remove.
_FOR_ALL = 0o1777
_MOST_NAMES = 1000


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
    name: str = "",
) -> Place:
    """Where to write, and where to look for what the server writes.

    A server that cannot make its output folder may die of it, so a folder is only named to it
    that it can write to: one of this user's when it runs as this user on this disk, else one
    under /tmp, unless the user says otherwise.

    Raises:
        UnsuitableError: the folder holds an earlier capture.
    """
    name = name or _name()
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
    is_given = out is not None or (server_out is not None and engine.name == SGLANG)
    if is_given and (place.out / run_file.NAME).exists():
        raise UnsuitableError(f"{place.out} holds a run.json already; give --out another folder")
    return place


def prove(out: Path | None) -> None:
    """Refuse a folder that cannot be written, by trying; nothing stays of it.

    Raises:
        UnsuitableError: in one line, with what the system says.
    """
    if out is None:
        return
    missing = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise _unwritable(out, error) from error
    finally:
        for folder in missing:
            with contextlib.suppress(OSError):
                folder.rmdir()


@contextlib.contextmanager
def claimed(
    engine: Engine,
    *,
    out: Path | None = None,
    server_out: str | None = None,
    profiler_dir: Path | None = None,
) -> Iterator[Place]:
    """The place of `choose`, its folder made; removed again when nothing comes into it.

    A folder that nobody named is this capture's alone: another one of the same second gets
    another name.
    """
    base, is_given = _name(), out is not None or (server_out is not None and engine.name == SGLANG)
    for number in range(1, _MOST_NAMES):
        name = base if number == 1 else f"{base}-{number}"
        place = choose(engine, out=out, server_out=server_out, profiler_dir=profiler_dir, name=name)
        try:
            made = _make(place, exclusive=not is_given)
        except FileExistsError as error:
            if is_given or number == _MOST_NAMES - 1:
                raise _unwritable(place.out, error) from error
            continue
        except OSError as error:
            raise _unwritable(place.out, error) from error
        break
    try:
        yield place
    finally:
        if made:
            with contextlib.suppress(OSError):  # only an empty one goes
                place.out.rmdir()


def _make(place: Place, *, exclusive: bool) -> bool:
    """Make the folder, if it is not there; where it is not ours alone, everybody may write."""
    if place.out.is_dir() and not exclusive:
        return False
    place.out.mkdir(parents=True)
    if place.told == str(place.out) and not place.certain:
        with contextlib.suppress(OSError):
            place.out.chmod(_FOR_ALL)
    return True


def _name() -> str:
    return f"specscope-capture-{time.strftime('%Y%m%d-%H%M%S')}"


def _unwritable(out: Path, error: OSError) -> UnsuitableError:
    return UnsuitableError(
        f"cannot write {out}: {error.strerror or type(error).__name__}; give --out another folder"
    )


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
