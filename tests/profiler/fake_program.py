"""A program that serves as SGLang or vLLM does, for what starts servers: run it as a script.

Each process of it adds its id to the file of `--pids`: with `--workers` also two workers, the
second in a session of its own.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.profiler.fake_servers import SECRET, FakeSglang, FakeVllm, Faults

WORKERS = {
    "plain": "import time; time.sleep(600)",
    "stubborn": "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)",
}
# As an engine ends: the cause first, then what follows from it.
LAST_LINES = f"""\
[2026-01-01 10:00:00] loading with --hf-token {SECRET}
[2026-01-01 10:00:01 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "scheduler.py", line 1, in run
ValueError: speculative_num_steps is too large for this draft
[2026-01-01 10:00:02] Received sigquit from a child process. It usually means the child failed.
"""


def note(pids: Path | None, pid: int) -> None:
    if pids is not None:
        with pids.open("a") as file:
            file.write(f"{pid}\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=["sglang", "vllm"], default="sglang")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--api-key")
    parser.add_argument("--pids", type=Path)
    parser.add_argument("--workers", choices=["plain", "stubborn"])
    parser.add_argument("--fault", default="")
    parser.add_argument("--when-steps", type=int, help="the fault is there for that number only")
    parser.add_argument("--traces", type=Path, help="folder of recordings that it hands out")
    parser.add_argument("--cycle", type=float, default=0.004)
    given = parser.parse_args()
    fault = given.fault if given.when_steps in (None, given.steps) else ""
    note(given.pids, os.getpid())
    if given.workers:
        for own_session in (False, True):
            worker = subprocess.Popen(
                [sys.executable, "-c", WORKERS[given.workers]], start_new_session=own_session
            )
            note(given.pids, worker.pid)
    print(f"starting, HF_TOKEN={os.environ.get('HF_TOKEN')}", flush=True)
    if fault == "dies":
        sys.stderr.write(LAST_LINES)
        sys.exit(3)
    if fault == "hangs":
        print("loading shards: 0 of 64", flush=True)
        time.sleep(600)
    ranks = sorted(given.traces.glob("*.gz")) if given.traces else []
    kind = FakeSglang if given.engine == "sglang" else FakeVllm
    fake = kind(
        speculates=given.steps > 0,
        cycle_seconds=given.cycle,
        api_key=given.api_key,
        at_port=given.port,
        traces=tuple(path.read_bytes() for path in ranks) or None,
        faults=Faults(
            no_profiler=fault == "no_profiler",
            dies=fault == "dies_recording",
            no_metrics=fault == "no_metrics",
        ),
    )
    if isinstance(fake, FakeSglang) and given.steps:
        fake.info = {
            "speculative_num_steps": given.steps,
            "speculative_num_draft_tokens": given.steps + 1,
        }
    with fake:
        print("The server is fired up and ready to roll!", flush=True)
        while not (fake.dead and fault == "dies_recording"):
            time.sleep(0.05)
        print("RuntimeError: the profiler took the server with it", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
