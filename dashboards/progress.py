"""A moving line on stderr while long files are read; nothing where nobody looks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import IO, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from specscope.dashboards.safe_text import clean

# Short reads are over before anybody asks.
_PATIENCE_SECONDS: Final = 0.5


@contextlib.contextmanager
def reading(file: IO[str], *, enabled: bool) -> Iterator[Callable[[str, float], None] | None]:
    """Show how far reading is, on a terminal only; yields what `load` has to tell."""
    if not enabled or not file.isatty():
        yield None
        return
    console = Console(file=file, markup=False, highlight=False, emoji=False)
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = progress.add_task("reading", total=1.0)
    timer = threading.Timer(_PATIENCE_SECONDS, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda name, share: progress.update(
            task, completed=share, description=f"read {clean(name, 50)}"
        )
    finally:
        timer.cancel()
        timer.join()
        progress.stop()
