"""Servers that answer as SGLang and vLLM do, in this process: their pages, counters, profilers.

Written from the behaviour of SGLang 0.5.23 and vLLM 0.32.0. A cycle takes `cycle_seconds`; the
sequences of a batch accept as `PATTERN` says, all the same.
"""

from __future__ import annotations

import gzip
import json
import math
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

K = 3
# Accepted drafts of one cycle after the other: 2 on average, so the accept length is 3.
PATTERN = (3, 2, 1, 3, 1)
SECRET = "planted-secret-0123456789"


def trace_bytes(rank: int, world: int) -> bytes:
    """A trace that is whole, and says nothing but its rank."""
    head = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": world}}
    return gzip.compress(json.dumps({**head, "traceEvents": []}).encode(), mtime=0)


@dataclass
class Faults:
    """What goes wrong; nothing by default.

    `writing`: `whole`, `slow` (in two pieces), `cut` (never finished), `missing` (the last rank
    writes nothing), `nowhere` (on another disk). `dies`: the server goes away when the profiler
    starts. `no_profiler`, `refuses`: the profiler's pages.
    """

    writing: str = "whole"
    dies: bool = False
    no_profiler: bool = False
    refuses: int = 0
    no_metrics: bool = False


@dataclass
class Fake:
    """One server; use it as a context."""

    tp: int = 2
    speculates: bool = True
    cycle_seconds: float = 0.003
    prefill_seconds: float = 0.01
    api_key: str | None = None
    admin_key: str | None = None
    faults: Faults = field(default_factory=Faults)
    traces: tuple[bytes, ...] | None = None
    at_port: int = 0
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    prompts: list[Any] = field(default_factory=list)
    took: list[tuple[int, float]] = field(default_factory=list)

    def __enter__(self) -> Any:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._answer("GET")

            def do_POST(self) -> None:
                self._answer("POST")

            def _answer(self, method: str) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                path = self.path.partition("?")[0]
                fake.calls.append((method, path, body))
                fake.headers.append(dict(self.headers))
                if fake.dead:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                given = self.headers.get("Authorization")
                is_admins = path in ("/start_profile", "/stop_profile")
                wanted = (fake.admin_key if is_admins else None) or fake.api_key
                if wanted and given != f"Bearer {wanted}":
                    status, answer = 401, {"error": "Unauthorized"}
                elif path == "/health":
                    status, answer = 200, ""
                else:
                    status, answer = fake.answer(method, path, body)
                if fake.dead:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                text = answer if isinstance(answer, str) else json.dumps(answer)
                raw = text.encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # a client that went away

        self.dead = False
        self._server = Quiet(("127.0.0.1", self.at_port), Handler)
        self._server.daemon_threads = True
        self._lock = threading.Lock()
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.dead = True
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def asked(self, path: str) -> list[Any]:
        """The bodies of the calls of a page."""
        return [body for _, called, body in self.calls if called == path]

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        raise NotImplementedError

    def step(self, batch: int) -> None:
        """What an engine does at every cycle, beside its work."""

    def run(self, batch: int, tokens: int) -> tuple[int, list[int]]:
        """Let a batch run; its cycles, and how many of them accepted 0, 1, ... drafts."""
        histogram = [0] * (K + 1)
        made, cycles = 1, 0  # the prefill makes the first token
        time.sleep(self.prefill_seconds)
        start = time.perf_counter()
        while made < tokens and not self.dead:
            accepted = PATTERN[cycles % len(PATTERN)] if self.speculates else 0
            histogram[accepted] += 1
            made += 1 + accepted
            cycles += 1
            time.sleep(self.cycle_seconds)
            self.step(batch)
        self.took.append((cycles, time.perf_counter() - start))
        return cycles, histogram

    def real_cycle_ms(self) -> float:
        """How long a cycle really took: a busy machine sleeps longer."""
        measured = self.took[2:]  # behind the warm-up
        return 1e3 * sum(seconds for _, seconds in measured) / sum(n for n, _ in measured)

    def export(self, folder: Path, name: str) -> None:
        """Write the traces of all ranks, as far as the faults let it."""
        if self.faults.writing == "nowhere":
            return
        folder.mkdir(parents=True, exist_ok=True)
        for rank in range(self.tp):
            if self.faults.writing == "missing" and rank == self.tp - 1:
                continue
            raw = self.traces[rank] if self.traces else trace_bytes(rank, self.tp)
            path = folder / name.format(rank=rank)
            if self.faults.writing == "cut":
                path.write_bytes(raw[: len(raw) // 2])
            elif self.faults.writing == "slow":
                threading.Thread(target=_write_slowly, args=(path, raw), daemon=True).start()
            else:
                path.write_bytes(raw)


def _write_slowly(path: Path, raw: bytes) -> None:
    with path.open("wb") as file:
        for piece in (raw[:20], raw[20:40], raw[40:]):
            file.write(piece)
            file.flush()
            time.sleep(0.7)


@dataclass
class FakeSglang(Fake):
    """SGLang: `/server_info`, `/generate`, a profiler that counts its own steps."""

    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._profile: dict[str, Any] | None = None
        self._left = 0

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path == "/server_info":
            return 200, self._info()
        if path == "/generate":
            return 200, self._generate(body)
        if path == "/start_profile":
            return self._start(body)
        if path == "/stop_profile":
            with self._lock:
                running, self._left = self._profile is not None, 0
            self.step(0)
            return (200, "Stop profiling.\n") if running else (500, "Internal Server Error")
        return 404, {"detail": "Not Found"}

    def step(self, batch: int) -> None:
        with self._lock:
            if self._profile is None:
                return
            self._left -= 1
            if self._left >= 0:
                return
            profile, self._profile = self._profile, None
        self.export(Path(profile["output_dir"]), "1700000000.5-TP-{rank}.trace.json.gz")

    def _info(self) -> dict[str, Any]:
        speculation = {
            "speculative_algorithm": "EAGLE3" if self.speculates else None,
            "speculative_draft_model_path": "draft" if self.speculates else None,
            "speculative_num_steps": K if self.speculates else None,
            "speculative_eagle_topk": 1 if self.speculates else None,
            "speculative_num_draft_tokens": K + 1 if self.speculates else None,
        }
        return {
            "version": "0.5.23",
            "model_path": "target",
            "served_model_name": "target",
            "tp_size": self.tp,
            "pp_size": 1,
            "dp_size": 1,
            "nnodes": 1,
            "context_length": 4096,
            "max_total_num_tokens": 100_000,
            "max_running_requests": 8,
            "api_key": self.api_key,
            "launch_command": f"--model-path target --api-key {SECRET} --tp 2",
            "internal_states": [{"world_size": self.tp}],
            **speculation,
            **self.info,
        }

    def _generate(self, body: Any) -> Any:
        self.prompts.append(body["input_ids"])
        tokens = body["sampling_params"]["max_new_tokens"]
        batch = len(body["input_ids"])
        cycles, histogram = self.run(batch, tokens)
        meta: dict[str, Any] = {"completion_tokens": tokens, "cached_tokens": 0}
        if self.speculates:
            accepted = sum(i * count for i, count in enumerate(histogram))
            while histogram and not histogram[-1]:
                histogram.pop()
            meta |= {
                "spec_verify_ct": cycles,
                "spec_accept_length": tokens / cycles,
                "spec_num_correct_drafts": accepted,
                "spec_num_proposed_drafts": cycles * K,
                "spec_correct_drafts_histogram": histogram,
            }
        return [{"output_ids": [1] * tokens, "meta_info": meta} for _ in range(batch)]

    def _start(self, body: Any) -> tuple[int, Any]:
        if self.faults.refuses:
            return self.faults.refuses, "Internal Server Error"
        self.dead = self.faults.dies
        with self._lock:
            # A second start is answered as the first one, and keeps the first one's folder.
            self._profile = self._profile or body
            self._left = self._profile["num_steps"]
        return 200, "Start profiling.\n"


@dataclass
class FakeVllm(Fake):
    """vLLM: `/version`, `/v1/completions`, `/metrics`, a profiler that writes when stopped."""

    folder: Path = Path()
    most_tokens: int = 4096

    def __post_init__(self) -> None:
        self._steps = self._tokens = self._drafts = 0
        self._accepted = [0] * K
        self._profiles = 0

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path == "/version":
            return 200, {"version": "0.32.0"}
        if path == "/v1/models":
            model = {"id": "tiny", "root": "target", "max_model_len": self.most_tokens}
            return 200, {"data": [model | {"owned_by": "vllm"}]}
        if path == "/metrics" and not self.faults.no_metrics:
            return 200, self._metrics()
        if path == "/v1/completions":
            return 200, self._complete(body)
        if path in ("/start_profile", "/stop_profile") and not self.faults.no_profiler:
            if method == "GET":
                return 405, {"detail": "Method Not Allowed"}
            return self._profile(path)
        return 404, {"detail": "Not Found"}

    def step(self, batch: int) -> None:
        with self._lock:
            self._steps += 1

    def _complete(self, body: Any) -> Any:
        self.prompts.append(body["prompt"])
        batch, tokens = len(body["prompt"]), body["max_tokens"]
        with self._lock:
            self._steps += 1
        cycles, histogram = self.run(batch, tokens)
        with self._lock:
            self._tokens += batch * tokens
            if self.speculates:
                self._drafts += batch * cycles
                for position in range(K):
                    self._accepted[position] += batch * sum(histogram[position + 1 :])
        return {"choices": [], "usage": {"completion_tokens": batch * tokens}}

    def _profile(self, path: str) -> tuple[int, Any]:
        if path == "/start_profile":
            if self.faults.refuses:
                return self.faults.refuses, {"error": {"message": "already active"}}
            self.dead = self.faults.dies
            return 200, ""
        self._profiles += 1
        self.export(
            self.folder, f"rank{{rank}}.{1700000000000000000 + self._profiles}.pt.trace.json.gz"
        )
        (self.folder / f"host_1.async_llm.{self._profiles}.pt.trace.json.gz").write_bytes(
            b"\x1f\x8b"
        )
        return 200, ""

    def _metrics(self) -> str:
        label = 'engine="0",model_name="tiny"'
        lines = [
            "# HELP vllm:num_requests_running Number of requests",
            f"vllm:num_requests_running{{{label}}} 0.0",
            f"vllm:generation_tokens_total{{{label}}} {float(self._tokens)}",
            f"vllm:generation_tokens_created{{{label}}} 1.79e+09",
            f"vllm:iteration_tokens_total_count{{{label}}} {float(self._steps)}",
        ]
        if self.speculates:
            accepted = sum(self._accepted)
            lines += [
                f"vllm:spec_decode_num_drafts_total{{{label}}} {float(self._drafts)}",
                f"vllm:spec_decode_num_draft_tokens_total{{{label}}} {float(self._drafts * K)}",
                f"vllm:spec_decode_num_accepted_tokens_total{{{label}}} {float(accepted)}",
            ]
            lines += [
                f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{label},position="{i}"}} '
                f"{float(count)}"
                for i, count in enumerate(self._accepted)
            ]
        return "\n".join(lines) + "\n"


def expected_cycles(tokens: int) -> int:
    """Cycles that a sequence of that many tokens takes on a server that speculates."""
    made, cycles = 1, 0
    while made < tokens:
        made += 1 + PATTERN[cycles % len(PATTERN)]
        cycles += 1
    return cycles


def expected_rates() -> list[float]:
    """Acceptance by position, over whole patterns."""
    return [sum(a > i for a in PATTERN) / len(PATTERN) for i in range(K)]


def whole_patterns(tokens: int) -> int:
    """The number of tokens nearest above at which a pattern is just over."""
    each = sum(1 + accepted for accepted in PATTERN)
    return 1 + each * math.ceil((tokens - 1) / each)
