"""An export of Nsight Systems of any size: kernels, their launches, and ranges around them.

    python benchmarks/generate_nsys.py OUT.sqlite --kernels 1000000

Tables and columns are those of schema 3.25.0. To each kernel belong a launch, another call, and an
NVTX range: half of the ranges have registered names, half are operators of torch with a number of
their own, as `emit_nvtx` writes them.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

PROCESS: Final = (1 << 48) | (3000 << 24)
THREAD: Final = PROCESS | 3000
START_NS: Final = 60_000_000_000
NAMES: Final = 2_000

_INTEGERS: Final = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "start end deviceId contextId greenContextId streamId "
    "correlationId globalPid demangledName shortName mangledName launchType cacheConfig "
    "registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory "
    "dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted "
    "graphNodeId sharedMemoryLimitConfig graphId clusterX clusterY clusterZ",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId "
    "returnValue callchainId",
    "NVTX_EVENTS": "start end eventType rangeId category color text globalTid endGlobalTid textId "
    "domainId uint64Value int64Value doubleValue uint32Value int32Value floatValue jsonTextId "
    "jsonText binaryData",
}
_TEXTS: Final = {"text", "jsonText", "binaryData"}


def generate(path: Path, kernels: int) -> None:
    """Writes an export of that many kernels; twice as many calls, as many ranges."""
    starts = START_NS + np.cumsum(np.random.default_rng(0).integers(500, 20_000, kernels))
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = off")
    connection.execute("PRAGMA synchronous = off")
    connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    names = ["cudaLaunchKernel_v7000", "cudaGetDevice_v3020"]
    names += [f"void kernel_{number}<float>(Params)" for number in range(NAMES - len(names))]
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(names))
    rows = {
        "CUPTI_ACTIVITY_KIND_KERNEL": _kernels(starts),
        "CUPTI_ACTIVITY_KIND_RUNTIME": _calls(starts),
        "NVTX_EVENTS": _ranges(starts),
    }
    for table, columns in _INTEGERS.items():
        named = columns.split()
        kinds = ", ".join(f'"{n}" {"TEXT" if n in _TEXTS else "INTEGER"}' for n in named)
        connection.execute(f"CREATE TABLE {table} ({kinds})")
        marks = ", ".join("?" * len(named))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows[table])
    connection.commit()
    connection.close()


def _kernels(starts: Any) -> Iterator[tuple[Any, ...]]:
    rest = (1, 0, 32, 128, 1, 1, 256, 1, 1, 0, 16384, 0, 0)
    for number, start in enumerate(starts.tolist()):
        name = 2 + number % (NAMES - 2)
        # fmt: off
        yield (start, start + 400, 0, 1, None, 7, number, PROCESS, name, name, name, *rest,
               number, 32768, None, 0, None, 1, 1, 1)
        # fmt: on


def _calls(starts: Any) -> Iterator[tuple[Any, ...]]:
    for number, start in enumerate(starts.tolist()):
        yield (start - 9_000, start - 8_950, 0, THREAD, number, 0, 0, None)
        yield (start - 8_940, start - 8_930, 0, THREAD, len(starts) + number, 1, 0, None)


def _ranges(starts: Any) -> Iterator[tuple[Any, ...]]:
    none = (None,) * 9
    for number, start in enumerate(starts.tolist()):
        operator = f"aten::op{number % 50}, op_id = {number}" if number % 2 else None
        named = None if number % 2 else 2 + number % 100
        # fmt: off
        yield (start - 9_500, start - 8_000, 59, None, None, None, operator, THREAD, None, named,
               0, *none)
        # fmt: on


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description="Write an export of Nsight Systems.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--kernels", type=int, default=1_000_000)
    options = parser.parse_args()
    generate(options.out, options.kernels)


if __name__ == "__main__":
    main()
