"""Small traces of one rank, written into files as servers name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

from tests.build import ATTENTION, GEMM, Timeline


def timeline(
    rank: int | None = 0, world_size: int = 1, mark: str = "step[TARGET_VERIFY bs=1]", **more: Any
) -> Timeline:
    """Two cycles: a draft kernel, then a graph with the verify kernels under a mark."""
    drawing = Timeline(rank=rank, world_size=world_size, **more)
    for cycle in drawing.cycles(2, every=100):
        cycle.launch(1, 3, GEMM, 5, 15)
        cycle.mark(mark, 20, 60)
        cycle.graph(22, 24, (ATTENTION, 30, 50), (GEMM, 51, 70))
        cycle.sync(25, 72)
    return drawing


def write_trace(folder: Path, name: str, **more: Any) -> Path:
    """Writes such a trace; a name that ends in .gz is packed. Every file has its own thread."""
    path = folder / name
    drawing = timeline(**{"thread": 1_000 + crc32(bytes(path)) % 1_000_000} | more)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(drawing.to_gzip() if name.endswith(".gz") else drawing.to_json())
    return path
