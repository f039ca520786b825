"""What `dashboard` does: read and analyse every run, then serve the page."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from specscope import exits
from specscope.analyzers import activities
from specscope.analyzers.analyze import Options, analyze
from specscope.dashboards.app_page import require_dash
from specscope.dashboards.app_runs import Shown, names_of
from specscope.dashboards.app_server import serve
from specscope.dashboards.dashboard_app import dashboard_app
from specscope.dashboards.progress import reading
from specscope.traces.load import load


@dataclass(frozen=True)
class Request:
    """The options of one call, as the command line has them."""

    paths: tuple[str, ...]
    port: int = 0
    activity_rules: Path | None = None
    no_cache: bool = False


def run(request: Request) -> int:
    """Do it; the exit code."""
    require_dash()  # before minutes of reading
    options = Options(rules=activities.load_rules(request.activity_rules))
    groups = runs_of(request.paths)
    names = names_of([group[0] for group in groups])
    runs = []
    for name, group in zip(names, groups, strict=True):
        with reading(sys.stderr, enabled=True) as on_progress:
            found = load(list(group), cache=not request.no_cache, on_progress=on_progress)
        shown = Shown(name, analyze(found, options))
        shown.prepare()
        runs.append(shown)
    return serve(dashboard_app(runs), request.port, exits.say)


def runs_of(paths: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Which paths are a run: each folder one, all files together one."""
    files = tuple(path for path in paths if not Path(path).is_dir())
    folders: list[tuple[str, ...]] = [(path,) for path in paths if Path(path).is_dir()]
    if not files:
        return folders
    first = paths.index(files[0])
    before = sum(Path(path).is_dir() for path in paths[:first])
    return [*folders[:before], files, *folders[before:]]
