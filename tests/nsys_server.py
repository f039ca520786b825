"""A server without a GPU: spawned workers that run speculation cycles, with specscope's ranges.

Run as a script with a folder: each worker appends a byte to `cycles-RANK` there after each cycle,
and never ends by itself.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from pathlib import Path

WORKERS = 2
STAGES = (("draft", 0.001), ("verify", 0.004), ("accept", 0.0005), ("draft_extend", 0.001))


def work(rank: int, folder: Path) -> None:
    """One rank."""
    os.environ["RANK"] = str(rank)
    from specscope import profiler

    profiler.configure(profiler.Config(torch=False))
    profiler.enable()
    print("ranges by", profiler.emitters_report()["nvtx"]["by"], flush=True)
    with (folder / f"cycles-{rank}").open("ab", buffering=0) as done:
        cycle = 0
        while True:
            with profiler.cycle_range(cycle=cycle, batch=4, k=3):
                for name, seconds in STAGES:
                    with profiler.stage(name):
                        time.sleep(seconds)
            done.write(b".")
            cycle += 1


def main() -> None:
    """Start the workers and wait for their end."""
    folder = Path(sys.argv[1])
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(rank, folder)) for rank in range(WORKERS)]
    for worker in workers:
        worker.start()
    while not all((folder / f"cycles-{rank}").exists() for rank in range(WORKERS)):
        time.sleep(0.05)
    print("serving", flush=True)
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
