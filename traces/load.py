"""From paths to a run: opens, scans and assembles the ranks of one capture."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import kineto
from .events import ScanOptions
from .kineto_names import FRAME_NEEDLES
from .run import Run

DEFAULT_MAX_TEXT_BYTES = 64 << 30

Progress = Callable[[str, float], None]


def load(
    paths: str | Path | Sequence[str | Path],
    *,
    rank: int | None = None,
    all_frames: bool = False,
    max_text_bytes: int = DEFAULT_MAX_TEXT_BYTES,
    cache: bool = True,
    on_progress: Progress | None = None,
) -> Run:
    """Reads the traces at `paths` (files, or one folder) into a run."""
    if isinstance(paths, str | Path):
        paths = [paths]
    options = ScanOptions(
        all_frames=all_frames, frame_needles=FRAME_NEEDLES, max_text_bytes=max_text_bytes
    )
    producer: Any = importlib.import_module("specscope_temporary_producer")
    ranks = []
    for path in paths:
        source = kineto.Source(str(path), "kineto-json", Path(path).stat().st_size, 0, "", "pure")
        ranks += kineto.rank_tables(producer.documents(str(path), options), source)
    ranks = [found for found in ranks if rank is None or found.rank == rank]
    return Run(tuple(sorted(ranks, key=lambda found: found.rank)))
