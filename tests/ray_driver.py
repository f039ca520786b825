"""What a real local Ray with two workers does, as JSON on stdout: `python -m tests.ray_driver DIR`.

A process of its own, so that Ray's threads, handlers and warnings stay out of the tests. One of the
workers is killed in the middle of a file; the tests read what came of it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import specscope
from specscope import exits
from specscope.analyzers.many_runs import How, findings_of
from specscope.cli import _group
from specscope.ray_engine import connected
from specscope.traces.engines import Failed
from specscope.traces.errors import SpecscopeError

RECORDING = Path(__file__).resolve().parents[1] / "examples" / "tp2-70b-eagle3"
_LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")


def dies(work: Callable[[Any], Any], victim: str, times: int, folder: str, item: object) -> Any:
    """`work`, on a worker that is killed when it has worked on the victim, before it can say so."""
    with Path(folder, "attempts").open("a") as file:
        file.write(f"{Path(str(item)).name} {os.getpid()}\n")
    result = work(item)
    attempts = Path(folder, "attempts").read_text().split("\n")
    tried = sum(line.split(" ")[0] == victim for line in attempts)
    if Path(str(item)).name == victim and tried <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return result


class Deadly:
    """An engine whose workers die of one item, so many times."""

    def __init__(self, engine: Any, victim: str, times: int, folder: Path) -> None:
        self._engine, self._how = engine, (victim, times, str(folder))
        folder.mkdir()

    def each(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        return self._engine.each(partial(dies, work, *self._how), items)  # type: ignore[no-any-return]


def printed(*arguments: str | Path) -> list[Any]:
    """Exit code and both streams of one command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = exits.call(_group, [*map(str, arguments)])
    return [code, out.getvalue(), err.getvalue()]


def listening_elsewhere() -> list[str]:
    """Addresses other than loopback on which this process, or one that it started, listens."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[stat.parent.name] = stat.read_text().rsplit(")", 1)[1].split()[1]
    ours, more = set(), {str(os.getpid())}
    while more:
        ours |= more
        more = {pid for pid, parent in parents.items() if parent in ours} - ours
    sockets = set()
    for pid in ours:
        with contextlib.suppress(OSError):
            sockets |= {str(fd.readlink()) for fd in Path("/proc", pid, "fd").iterdir()}
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.append(fields[1].split(":")[0])
    assert found, "nothing of Ray listens: this looks at the wrong processes"
    return [address for address in found if address not in _LOOPBACK]


def equal(one: specscope.Run, other: specscope.Run) -> bool:
    """Do two runs hold the same rows, words, metadata and facts?"""
    if len(one.ranks) != len(other.ranks):
        return False
    for mine, theirs in zip(one.ranks, other.ranks, strict=True):
        for name, value in vars(mine).items():
            counterpart = getattr(theirs, name)
            if isinstance(value, pa.Table):
                if not value.equals(counterpart, check_metadata=True):
                    return False
            elif value != counterpart:
                return False
    return (one.notes, one.context, one.listed) == (other.notes, other.context, other.listed)


def main(folder: Path) -> dict[str, Any]:
    ray = ("--engine", "ray", "--ray-address", "local")
    runs = sorted(map(str, (folder / "runs").iterdir()))
    found: dict[str, Any] = {"here": commands(folder, "here", runs, ())}
    with connected("local", cores=2) as engine:
        found["ray"] = commands(folder, "ray", runs, ray)
        found["listening_elsewhere"] = listening_elsewhere()
        files = sorted(RECORDING.glob("*.json.gz"))
        alive = specscope.load(RECORDING, cache=False)
        once = Deadly(engine, files[1].name, 1, folder / "once")
        found["killed_once"] = equal(specscope.load(RECORDING, cache=False, engine=once), alive)
        always = Deadly(engine, files[1].name, 99, folder / "always")
        try:
            specscope.load(RECORDING, cache=False, engine=always)
            found["killed_always"] = None
        except SpecscopeError as error:
            found["killed_always"] = str(error)
        many = Deadly(engine, Path(runs[0]).name, 1, folder / "many")
        work = partial(findings_of, how=How("0", cache=False))
        found["many"] = sorted(
            (place, str(result.error) if isinstance(result, Failed) else "analysed")
            for place, result in many.each(work, runs)
        )
        import ray as imported

        found["usage"] = usage_lib().usage_stats_enabled()
        place = Path(imported._private.worker._global_node.get_session_dir_path()).parent
    found["left"] = place.exists()
    return found


def usage_lib() -> Any:
    """The part of Ray that would tell its makers; it has moved once."""
    from importlib import import_module

    try:
        return import_module("ray._common.usage.usage_lib")
    except ImportError:
        return import_module("ray._private.usage.usage_lib")


def commands(folder: Path, name: str, runs: list[str], options: tuple[str, ...]) -> dict[str, Any]:
    """The commands, in this process or by Ray; what they write lies in `folder / name`."""
    (folder / name).mkdir()
    broken = next(run for run in runs if run.endswith("broken"))
    more = (*options, "--no-cache")
    return {
        "analyze": printed("analyze", RECORDING, "--json", *more),
        "tables": printed("analyze", RECORDING, "-q", "--parquet", folder / name / "tables", *more),
        "ranks": printed("ranks", RECORDING, "--json", *more),
        "broken": printed("analyze", broken, *more),
        "collect": printed("collect", *runs, "-q", "--dataset", folder / name / "dataset", *more),
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
