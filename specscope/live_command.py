"""What `live` does: follow the log, and show it in the terminal or on a page."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from specscope import exits
from specscope.analyzers.live_log import LiveLog, views
from specscope.dashboards import live_terminal, terminal
from specscope.dashboards.app_page import require_dash
from specscope.dashboards.app_server import serve, stopped_by_signals
from specscope.dashboards.safe_text import clean


@dataclass(frozen=True)
class Request:
    """The options of one call, as the command line has them."""

    log: Path
    tui: bool = False
    once: bool = False
    minutes: float = 5.0
    port: int = 0


def run(request: Request) -> int:
    """Do it; the exit code."""
    log = LiveLog(request.log, request.minutes * 60)
    if request.once:
        while log.poll():
            pass
        console = terminal.console_for(sys.stdout)
        for line in live_terminal.live_lines(log.view(), console):
            console.print(line, soft_wrap=True)
        return exits.DONE
    if request.tui:
        return _in_terminal(request, log)
    require_dash()
    from specscope.dashboards.live_app import live_app

    return serve(live_app(log, clean(request.log, 200)), request.port, exits.say)


def _in_terminal(request: Request, log: LiveLog) -> int:
    console = terminal.console_for(sys.stdout)
    title = f"specscope live {clean(request.log, 120)}"
    with stopped_by_signals() as stop, live_terminal.Screen(console, title) as screen:
        for view in views(log, stop):
            screen.show(view)
    return exits.DONE
