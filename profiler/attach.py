"""Attaches specscope's hooks to the engines in this process, and takes them off again.

`install` does it once, however often it is called. Modules that are imported already are
hooked at once, the others right after their import (`wrapt`); nothing is imported for the
sake of a hook.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from multiprocessing import util
from pathlib import Path
from types import ModuleType
from typing import Any

from specscope.profiler import (
    attach_report,
    hook_table,
    hooks,
    masking,
    metrics,
    patching,
    ranges,
    roles,
    server_args,
    settings,
)
from specscope.profiler.attach_report import PATCHED, SKIPPED, WAITING
from specscope.profiler.hook_table import Target
from specscope.profiler.hooks import Hook
from specscope.profiler.patching import Patch, UnhookableError
from specscope.profiler.range_state import Config

DISABLE = "SPECSCOPE_DISABLE"
LOG_FOLDER = "SPECSCOPE_LOG"
COLLECTIVES = "SPECSCOPE_COLLECTIVES"

LOG = logging.getLogger("specscope")
_OFF = frozenset({"", "0", "false", "no", "off"})


def is_set(variable: str) -> bool:
    """Whether that environment variable is set to anything that does not say no."""
    return os.environ.get(variable, "").strip().lower() not in _OFF


@dataclass
class Entry:
    """A target and what became of it."""

    target: Target
    hook: Hook
    state: str = WAITING
    reason: str = ""


class Attachment:
    """The hooks of this process."""

    def __init__(self, log: Path | None, targets: list[Target], reason: str = "") -> None:
        self.reason = reason  # why nothing is attached
        self.active = not reason
        self.writer = (
            attach_report.Writer(log, self.report, _write_server_args)
            if log is not None and self.active
            else None
        )
        self.entries = [Entry(target, Hook(target, self._changed)) for target in targets]
        self._own = frozenset(target.path for target in targets)
        self._lock = threading.RLock()
        self._left_over: list[str] = []
        self._callbacks: dict[str, Any] = {}
        self._found_finder = False
        self._log = log
        self._listening = ""  # nothing, "ranges", or "log"
        self._chosen: dict[str, Any] | None = None  # by the environment
        self._own_ns = 0

    # ------------------------------------------------------------ on

    def start(self) -> None:
        """Hook what is imported, wait for the rest."""
        import wrapt

        metrics.SOURCES.hooks = self._hooks_at_work
        metrics.SOURCES.hook_ns = self.own_ns
        metrics.SOURCES.ranks = server_args.ranks_before
        by_module: dict[str, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            by_module[entry.target.module].append(entry)
        self._found_finder = any(_is_wrapts(finder) for finder in sys.meta_path)
        for name, entries in by_module.items():
            if _half(sys.modules.get(name)):
                continue  # half imported: looked at again when a hook fires for the first time
            callback = partial(self._guarded_module, entries)
            self._callbacks[name] = callback
            wrapt.register_post_import_hook(callback, name)
        self._callbacks["torch"] = torch_is_here = partial(_torch_is_here)
        wrapt.register_post_import_hook(torch_is_here, "torch")

    def _guarded_module(self, entries: list[Entry], module: ModuleType) -> None:
        """An error that left this function would take the module away from the engine."""
        if not self.active:
            return
        try:
            with self._lock:
                for entry in entries:
                    if entry.state == WAITING:
                        self._hook(entry, module)
            if self.writer is not None:
                self.writer.request()
        except Exception as error:
            LOG.warning("specscope: hooks on %s not put: %s", module.__name__, error)

    def _hook(self, entry: Entry, module: ModuleType) -> None:
        target = entry.target
        try:
            place = patching.find(module, target.name)
            if place.where != target.path and place.where in self._own:
                raise UnhookableError("inherited from a class that has its own hook")
            entry.hook.probe(place)
            self._put(entry, place)
        except UnhookableError as why:
            entry.state, entry.reason = SKIPPED, self._explained(target, str(why))
            return
        except Exception as error:
            entry.state = SKIPPED
            entry.reason = f"{type(error).__name__}: {error}"
            return
        entry.state, entry.reason = PATCHED, ""
        if target.role in roles.NUMBERING:
            roles.JOB.numbered.add(target.engine)
        self._hook_overrides(entry)
        # transformers is imported by servers that never generate with it: its log waits.
        serves = target.role in roles.SERVING and target.engine != "transformers"
        self._listen(target.engine, log=serves)

    def _listen(self, engine: str, *, log: bool) -> None:
        """Switch the emitters on when the first hook is put, the log when this process serves.

        Emitters that are on already were configured by the process itself and stay so.
        """
        if self._chosen is None:
            self._chosen = settings.chosen(os.environ)
        folder = self._log if log else None
        port = self._chosen.get("metrics") if log else None
        wanted = "log" if folder is not None or port is not None else "ranges"
        if self._listening in ("log", wanted) or (not self._listening and ranges.is_enabled()):
            return
        self._listening = wanted
        version = engine_version(engine)
        try:
            config = Config(log=folder, engine=engine, engine_version=version)
            ranges.configure(settings.applied(config, {**self._chosen, "metrics": port}))
            ranges.enable()
        except Exception as error:
            LOG.warning("specscope: no ranges: %s", error)

    def _put(self, entry: Entry, place: patching.Place) -> None:
        entry.hook.patches.append(patching.put(place, entry.hook.wrapper(place)))

    def _hook_overrides(self, entry: Entry) -> None:
        """Hook the subclasses that define the method anew and have no target of their own."""
        first = entry.hook.patches[0].place
        for cls in patching.overrides(first.owner, first.name):
            path = f"{cls.__module__}.{cls.__qualname__}.{first.name}"
            if path in self._own:
                continue
            try:
                place = patching.place_of(cls, first.name)
                entry.hook.probe(place)
                self._put(entry, place)
            except UnhookableError as why:
                if "already hooked" not in str(why):
                    entry.reason = f"{cls.__qualname__}: {why}"

    def _explained(self, target: Target, reason: str) -> str:
        version = engine_version(target.engine)
        if version and not hook_table.was_seen(target.seen, version):
            return f"{reason} (seen in {target.seen}; this is {version})"
        return reason

    # ------------------------------------------------------------ while it runs

    def _hooks_at_work(self) -> tuple[int, int]:
        """How many hooks were called and are on, and the faults of all; for the metrics."""
        found = [entry.hook for entry in self.entries]
        return sum(h.live and h.fired > 0 for h in found), sum(h.faults for h in found)

    def _changed(self, hook: Hook) -> None:
        """A hook fired for the first time or often enough to say so, or failed."""
        try:
            if hook.fired == 1:
                self._listen(hook.target.engine, log=True)
                self._look_again()
            if self.writer is not None:
                self.writer.request()
        except Exception as error:
            LOG.warning("specscope: attach report: %s", error)

    def _look_again(self) -> None:
        """Subclasses that came after the patch, modules that were half imported."""
        with self._lock:
            for entry in self.entries:
                module = sys.modules.get(entry.target.module)
                if entry.state == PATCHED:
                    self._hook_overrides(entry)
                elif entry.state == WAITING and module is not None and not _half(module):
                    self._hook(entry, module)

    def own_ns(self) -> int:
        """What the hooks themselves have taken so far, estimated; it never falls."""
        estimate = sum(entry.hook.own_ns for entry in self.entries)
        self._own_ns = max(self._own_ns, estimate)
        return self._own_ns

    def report(self) -> dict[str, Any]:
        """What is attached, as written to the log folder. Secrets are masked."""
        engines = sorted({entry.target.engine for entry in self.entries})
        report = {
            "schema_version": attach_report.SCHEMA_VERSION,
            **attach_report.identity(),
            "active": self.active,
            "reason": self.reason,
            "engines": {name: version for name in engines if (version := engine_version(name))},
            "hooks": [_row(entry) for entry in self.entries],
            "left_over": self._left_over,
            "emitters": ranges.emitters_report(),
        }
        masked = masking.values({key: report[key] for key in report if key != "command"})
        return {**masked, "command": report["command"]}

    # ------------------------------------------------------------ off

    def detach(self) -> list[str]:
        """Take every hook off; the places where another patch lies over ours.

        There the wrapper stays and only passes calls through.
        """
        with self._lock:
            self.active, self.reason = False, self.reason or "detached"
            for entry in self.entries:
                entry.hook.live = False
                for patch in reversed(entry.hook.patches):
                    self._take_off(patch)
                entry.hook.patches.clear()
            self._forget_imports()
            if self._listening:
                ranges.shutdown()
                self._listening = ""
        metrics.SOURCES.hooks = metrics.SOURCES.hook_ns = metrics.SOURCES.ranks = None
        server_args.forget()
        _forget(self)
        return self._left_over

    def _take_off(self, patch: Patch) -> None:
        try:
            if not patching.take_off(patch):
                self._left_over.append(patch.place.where)
        except Exception as error:
            self._left_over.append(f"{patch.place.where}: {error}")

    def _forget_imports(self) -> None:
        """Leave neither callbacks nor, where we brought it, the finder of `wrapt`."""
        importer: Any = sys.modules.get("wrapt.importer")
        waiting = getattr(importer, "_post_import_hooks", None)
        if not isinstance(waiting, dict):
            return
        for name, callback in self._callbacks.items():
            callbacks = [item for item in waiting.get(name, ()) if item is not callback]
            if callbacks:
                waiting[name] = callbacks
            else:
                waiting.pop(name, None)
        self._callbacks.clear()
        if waiting or self._found_finder:
            return
        with contextlib.suppress(AttributeError):
            importer._post_import_hooks_init = False
            sys.meta_path[:] = [finder for finder in sys.meta_path if not _is_wrapts(finder)]


def _half(module: ModuleType | None) -> bool:
    """Whether the body of the module is still running."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _is_wrapts(finder: object) -> bool:
    return type(finder).__module__ == "wrapt.importer"


def _torch_is_here(torch: Any) -> None:
    compiler = getattr(torch, "compiler", None)
    hooks.is_compiling = getattr(compiler, "is_compiling", hooks.is_compiling)


def _row(entry: Entry) -> dict[str, Any]:
    hook = entry.hook
    return {
        "engine": entry.target.engine,
        "target": entry.target.path,
        "role": entry.target.role,
        "stage": entry.target.stage,
        "state": entry.state,
        "reason": entry.reason,
        "places": [patch.place.where for patch in hook.patches],
        "rebound": [name for patch in hook.patches for name in patch.rebound],
        "live": hook.live,
        "fired": hook.fired,
        "own_ns": hook.own_ns,
        "faults": hook.faults,
        "fault": hook.fault,
    }


def engine_version(engine: str) -> str:
    """The version of an engine that is imported, else nothing."""
    version = getattr(sys.modules.get(engine), "__version__", None)
    return str(version) if version is not None else ""


def _write_server_args(folder: Path) -> None:
    server_args.write(folder, engine_version)


# ---------------------------------------------------------------- one a process

_current: Attachment | None = None
_guard = threading.Lock()
_registered = False


def install(log: str | os.PathLike[str] | None = None) -> Attachment:
    """Attach, unless it is done already; never raises, says in `reason` what stood against it.

    `log` is the folder for the attach report (default: `SPECSCOPE_LOG`, else none is written).
    """
    global _current, _registered  # noqa: PLW0603
    with _guard:
        if _current is not None:
            return _current
        folder = log if log is not None else os.environ.get(LOG_FOLDER) or None
        try:
            path = Path(folder).expanduser().absolute() if folder is not None else None
        except Exception as error:  # no path at all, or the working directory is gone
            return Attachment(None, [], f"no log folder: {type(error).__name__}: {error}")
        if is_set(DISABLE):
            return Attachment(path, [], f"{DISABLE} is set")
        try:
            attachment = Attachment(path, _wanted())
            attachment.start()
        except ImportError as error:
            return Attachment(path, [], f"{error}; pip install 'specscope[server]'")
        except Exception as error:
            return Attachment(path, [], f"{type(error).__name__}: {error}")
        _current = attachment
        if not _registered:
            _registered = True
            os.register_at_fork(after_in_child=_after_fork)
            atexit.register(_at_exit)
            # Children of multiprocessing leave by os._exit, past atexit.
            util.register_after_fork(attachment, _finish_child)
        return attachment


def attach(log: str | os.PathLike[str] | None = None) -> Attachment:
    """Attach specscope's hooks to this process: before or after the engine is imported.

    Every later step of SGLang, vLLM or transformers leaves its stage ranges. The attachment
    says what was found (`report()`) and takes the hooks off again (`detach()`).
    """
    return install(log)


def current() -> Attachment | None:
    """The attachment of this process."""
    return _current


def _wanted() -> list[Target]:
    targets = hook_table.targets()
    if is_set(COLLECTIVES):
        return targets
    return [target for target in targets if target.role != "collective"]


def _forget(attachment: Attachment) -> None:
    global _current  # noqa: PLW0603
    if _current is attachment:
        _current = None
        roles.JOB.numbered.clear()
        roles.forget()
        hooks.is_compiling = hooks._never


def _after_fork() -> None:
    """The patches came along; the counts, the threads and their locks are the parent's."""
    global _guard  # noqa: PLW0603
    _guard = threading.Lock()
    attachment = _current
    if attachment is None:
        return
    roles.forget()
    attachment._own_ns = 0
    attachment._lock = threading.RLock()
    for entry in attachment.entries:
        entry.hook.fired = entry.hook.faults = 0
        entry.hook.timed_calls = entry.hook.timed_ns = 0
        entry.hook.fault = ""
    if attachment.writer is not None:
        attachment.writer = attach_report.Writer(
            attachment.writer.folder, attachment.report, _write_server_args
        )


def _finish_child(attachment: Attachment) -> None:
    util.Finalize(None, _at_exit, exitpriority=0)


def _at_exit() -> None:
    attachment = _current
    if attachment is None or attachment.writer is None:
        return
    if any(entry.state != WAITING for entry in attachment.entries):
        attachment.writer.now()
