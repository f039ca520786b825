"""Work on the workers of a Ray cluster. The only module that imports Ray.

Every task is one item on one core. Ray runs a task again, on another worker, when its worker
dies; a result is handed over once, so nothing is lost or doubled. Few tasks are under way at a
time, so that results do not pile up.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from specscope import __version__
from specscope.dashboards.safe_text import clean
from specscope.traces.engines import Failed, outcome
from specscope.traces.errors import TraceFormatError, UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")

LOCAL: Final = "local"
# How often a task is given to another worker when its worker dies.
RETRIES: Final = 3
# Tasks under way for each core: one runs, one is ready.
_AHEAD: Final = 2
_HOST_AND_PORT: Final = re.compile(r"(?:ray://)?([^/\s]+):(\d{1,5})")
# How long the host of a cluster may take to answer.
_PATIENCE_SECONDS: Final = 10.0
# Results of a local cluster wait here; few are under way at a time.
_STORE_BYTES: Final = 1 << 30
# Before Ray is imported. Nothing is sent to its makers, and a local cluster binds to loopback:
# the third name is that of the switch, whatever the system.
_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_USAGE_STATS_PROMPT_ENABLED": "0",
}
_LOOPBACK: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


@contextlib.contextmanager
def connected(address: str, *, cores: int | None = None) -> Iterator[RayEngine]:
    """The engine of the cluster at `address`; `local` starts one here, and ends it.

    `cores` bounds the workers of a local one. Raises UsageError, in one line, where there is no
    Ray or no cluster.
    """
    local = address == LOCAL
    ray = _imported(local=local)
    if ray.is_initialized():  # the caller's, who ends it
        yield RayEngine(ray)
        return
    with contextlib.ExitStack() as stack:
        settings: dict[str, Any] = {"address": address}
        if local:
            # Short: the names of sockets below it are bounded.
            place = tempfile.mkdtemp(prefix="specscope-ray-")
            stack.callback(shutil.rmtree, place, ignore_errors=True)
            settings |= {
                "num_cpus": cores,
                "include_dashboard": False,
                "object_store_memory": _STORE_BYTES,
                "_temp_dir": place,
            }
        try:
            _knock(address)
            ray.init(**settings, logging_level="ERROR", log_to_driver=False)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise UsageError(_no_cluster(address, error)) from error
        stack.callback(ray.shutdown)
        yield RayEngine(ray)


def _imported(*, local: bool) -> Any:
    """Ray, told first what it must not do."""
    for name, value in {**_ENVIRONMENT, **(_LOOPBACK if local else {})}.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise UsageError("--engine ray needs Ray: pip install 'specscope[cluster]'") from error
    return ray


def _knock(address: str) -> None:
    """Raises OSError where nobody answers at HOST:PORT: Ray itself tries for minutes."""
    found = _HOST_AND_PORT.fullmatch(address)
    if found:
        host, port = found[1].strip("[]"), min(int(found[2]), 65_535)
        socket.create_connection((host, port), _PATIENCE_SECONDS).close()


def _no_cluster(address: str, error: Exception) -> str:
    told = getattr(error, "strerror", None) or str(error).strip()
    reason = clean(next(iter(told.splitlines()), type(error).__name__), 200).rstrip(".")
    if address == LOCAL:
        return f"Ray cannot start a cluster here: {reason}"
    return (
        f"no Ray cluster at {clean(address, 100)} ({reason}); check the address, or give "
        f"--ray-address {LOCAL}"
    )


class RayEngine:
    """See traces.engines.Engine."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        # A plain pickle of the function: the workers import it, and with it this package.
        self._task = ray.remote(_run).options(num_cpus=1, max_retries=RETRIES)
        self._most = max(1, int(ray.cluster_resources().get("CPU", 1))) * _AHEAD

    def each(
        self, work: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result | Failed]]:
        """See Engine."""
        where = (str(Path.cwd()), __version__, code())
        waiting: dict[Any, int] = {}
        following = iter(range(len(items)))
        try:
            while True:
                while len(waiting) < self._most and (place := next(following, None)) is not None:
                    waiting[self._task.remote(work, items[place], *where)] = place
                if not waiting:
                    return
                (done, *_), _ = self._ray.wait(list(waiting), num_returns=1)
                place = waiting.pop(done)
                yield place, self._result(done, items[place])
        finally:  # what nobody waits for any longer
            for task in waiting:
                self._ray.cancel(task)

    def _result(self, task: Any, item: object) -> Any:
        """What the task gave, or `Failed` when no worker lived long enough."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(task)
        except errors.RayTaskError as error:
            raise _cause(error) from error
        except errors.RayError as error:
            title = clean(item, 200)
            reason = type(error).__name__
            return Failed(
                TraceFormatError(
                    f"{title}: {RETRIES + 1} workers died of it, or it was lost ({reason}); read "
                    "it without --engine ray, or give the workers more memory"
                )
            )


def _cause(error: Any) -> Exception:
    """The error that `work` had, or one line for a worker that has no specscope."""
    cause: Exception = error.cause if isinstance(error.cause, Exception) else error
    if "failed to import" in str(cause) or isinstance(cause, ModuleNotFoundError):
        reason = clean(str(cause).strip().splitlines()[-1], 200)
        return UsageError(
            f"the workers of the cluster cannot import specscope ({reason}); install the same "
            "version on all of them"
        )
    return cause


def _run(work: Callable[[Any], Any], item: object, folder: str, version: str, known: str) -> Any:
    """On a worker: the work on one item, with paths meaning what they mean to the caller."""
    host = clean(socket.gethostname(), 100)
    if (version, known) != (__version__, code()):
        return Failed(
            UsageError(
                f"worker {host} has another specscope ({__version__}) than this one ({version}); "
                "install the same on all of them"
            )
        )
    try:
        os.chdir(folder)
    except OSError:
        return Failed(
            UsageError(
                f"worker {host} has no folder {clean(folder, 200)}: files are read where the "
                "workers are, so they and this folder must lie on a file system that all share"
            )
        )
    return outcome(work, item)


@cache
def code() -> str:
    """A hash of this package's code and rules: equal code gives equal results."""
    root = Path(__file__).resolve().parent
    rooms = [root, *(root / name for name in ("traces", "analyzers", "dashboards", "profiler"))]
    digest = hashlib.sha256()
    for room in rooms:
        for file in sorted([*room.glob("*.py"), *room.glob("*/*.toml")]):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
