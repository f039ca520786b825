"""Draw a Kineto trace as a timeline: host calls and what they put on the GPU.

A drawing is written in microseconds, relative to the start of its cycle:

    for c in Timeline().cycles(5, every=100):
        c.mark("step[DECODE bs=1]", 4, 14)
        c.launch(5, 7, GEMM, 9, 20)     # call [5, 7), its kernel [9, 20)
        c.graph(8, 12, (ATTENTION, 22, 30), (GEMM, 30, 50))
        c.sync(14, 52)

Correlations, threads and headers are filled in as the profiler of torch does.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

# Names as real traces have them.
GEMM = "nvjet_tst_128x64_64x8_1x2_h_bz_TNT"
ATTENTION = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64>>(Params)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ARGMAX = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
    "at::native::ArgMaxOps<float>>>(R)"
)
TO_HOST = "Memcpy DtoH (Device -> Pinned)"
TO_DEVICE = "Memcpy HtoD (Pinned -> Device)"

PROCESS = 3000
MAIN_THREAD = 4001
STREAM = 7

# The file's clock does not start at 0, and its base is a moment of 2023.
ORIGIN_US = 1000
BASE_NS = 1_700_000_000_000_000_000

Microseconds = float
Span = tuple[Microseconds, Microseconds]
Kernel = tuple[str, Microseconds, Microseconds]
Layout = Literal["torch", "lines", "compact", "array"]


@dataclass(frozen=True)
class Timeline:
    """One rank's trace while it is drawn; `at` and `on` give the same trace, shifted."""

    rank: int | None = 0
    world_size: int = 1
    origin: Microseconds = ORIGIN_US
    thread: int = MAIN_THREAD
    i: int = 0
    events: list[dict[str, Any]] = field(default_factory=list, repr=False)
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(100), repr=False)

    # Where to draw.

    def at(self, us: Microseconds, i: int = 0) -> Timeline:
        """Start the drawing at `us`, as number `i` of its kind."""
        return replace(self, origin=self.origin + us, i=i)

    def on(self, thread: int) -> Timeline:
        """Draw on another host thread."""
        return replace(self, thread=thread)

    def cycles(
        self, count: int, every: Microseconds, first: Microseconds = 0
    ) -> Iterator[Timeline]:
        """One drawing per cycle; `c.i` is its number, to let durations shift."""
        return (self.at(first + i * every, i) for i in range(count))

    # The host.

    def mark(self, name: str, start: Microseconds, end: Microseconds) -> None:
        """Annotate a host interval: `record_function` of an engine, a hook, a profiler."""
        self._host("user_annotation", name, (start, end), {})

    def frame(self, name: str, start: Microseconds, end: Microseconds) -> None:
        """Record a Python frame, named `path(line): function`."""
        number = next(self.ids)
        self._host("python_function", name, (start, end), {"Python id": number})

    def operator(self, name: str, start: Microseconds, end: Microseconds) -> None:
        """Record a framework operator."""
        self._host("cpu_op", name, (start, end), {"External id": next(self.ids)})

    def call(self, api: str, start: Microseconds, end: Microseconds, **more: Any) -> int:
        """Record a runtime or driver call; its correlation comes back."""
        correlation = next(self.ids)
        category = "cuda_driver" if api.startswith("cu") and api[2].isupper() else "cuda_runtime"
        self._host(category, api, (start, end), {"cbid": 1, "correlation": correlation, **more})
        return correlation

    def module(self, name: str, start: Microseconds, end: Microseconds) -> None:
        """Record the frame of a module, named `class_instance`."""
        self.frame(f"nn.Module: {name}", start, end)

    def sync(
        self, start: Microseconds, end: Microseconds, api: str = "cudaStreamSynchronize"
    ) -> None:
        """Wait for the GPU."""
        self.call(api, start, end)

    # The host and what it puts on the GPU.

    def launch(
        self,
        start: Microseconds,
        end: Microseconds,
        kernel: str,
        gpu_start: Microseconds,
        gpu_end: Microseconds,
        *,
        stream: int = STREAM,
        api: str = "cudaLaunchKernel",
    ) -> None:
        """Call [start, end) puts one kernel on the GPU."""
        self._gpu("kernel", kernel, (gpu_start, gpu_end), stream, self.call(api, start, end))

    def copy(
        self,
        start: Microseconds,
        end: Microseconds,
        name: str,
        gpu_start: Microseconds,
        gpu_end: Microseconds,
        *,
        stream: int = STREAM,
    ) -> None:
        """Call [start, end) puts one copy on the GPU."""
        correlation = self.call("cudaMemcpyAsync", start, end)
        self._gpu("gpu_memcpy", name, (gpu_start, gpu_end), stream, correlation, bytes=64)

    def graph(
        self,
        start: Microseconds,
        end: Microseconds,
        *kernels: Kernel,
        stream: int = STREAM,
        streams: Sequence[int] = (),
    ) -> None:
        """Call [start, end) replays a graph; all its ops carry the call's correlation.

        What is named as copies and sets are named is one. `streams` has one for each op.
        """
        correlation = self.call("cudaGraphLaunch", start, end)
        for node, (name, gpu_start, gpu_end) in enumerate(kernels):
            inside = {"graph id": 1, "graph node id": (1 << 32) + node}
            category = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}.get(name[:6], "kernel")
            on = streams[node] if streams else stream
            self._gpu(category, name, (gpu_start, gpu_end), on, correlation, **inside)

    def orphan(
        self,
        kernel: str,
        gpu_start: Microseconds,
        gpu_end: Microseconds,
        *,
        stream: int = STREAM,
    ) -> None:
        """A kernel whose launch call is not on record."""
        self._gpu("kernel", kernel, (gpu_start, gpu_end), stream, next(self.ids))

    # The file.

    def to_json(self, layout: Layout = "torch", *, metadata_last: bool = False) -> bytes:
        """The text of the trace in one of the layouts in which traces reach us."""
        header: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [_DEVICE]}
        if self.rank is not None:
            header["distributedInfo"] = {
                "backend": "nccl",
                "rank": self.rank,
                "world_size": self.world_size,
                "pg_count": 1,
            }
        header |= {"displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_NS}
        names = list(_process_names())
        events = [*self.events, *names] if metadata_last else [*names, *self.events]
        between = ", " if layout == "compact" else ",\n"
        body = between.join(_event_text(event, indented=layout == "torch") for event in events)
        if layout == "array":
            return f"[\n{body}\n]\n".encode()
        head = json.dumps(header, indent=2 if layout == "torch" else None)[:-1].rstrip()
        return f'{head}, "traceEvents": [\n{body}\n]}}\n'.encode()

    def to_gzip(self, layout: Layout = "torch") -> bytes:
        """The packed text, as servers write it."""
        return gzip.compress(self.to_json(layout), mtime=0)

    def _host(self, category: str, name: str, span: Span, args: dict[str, Any]) -> None:
        self._add(category, name, (PROCESS, self.thread), span, args)

    def _gpu(
        self, category: str, name: str, span: Span, stream: int, correlation: int, **more: int
    ) -> None:
        args = {"device": 0, "context": 1, "stream": stream, "correlation": correlation, **more}
        self._add(category, name, (0, stream), span, args)

    def _add(
        self, category: str, name: str, track: tuple[int, int], span: Span, args: dict[str, Any]
    ) -> None:
        start, end = (round((self.origin + us) * 1000) for us in span)
        assert end >= start, f"{name} ends before it starts"
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": track[0],
                "tid": track[1],
                "ts": start,
                "dur": end - start,
                "args": args,
            }
        )


_DEVICE = {"id": 0, "name": "Drawn GPU", "computeMajor": 9, "computeMinor": 0, "numSms": 132}


def _process_names() -> Iterable[dict[str, Any]]:
    for pid, label in ((PROCESS, "CPU"), (0, "GPU 0")):
        for kind, args in (("name", {"name": "python"}), ("labels", {"labels": label})):
            yield {"ph": "M", "name": f"process_{kind}", "pid": pid, "tid": 0, "args": args}


def _event_text(event: dict[str, Any], *, indented: bool) -> str:
    """One event; times are written as digits, never through a float."""
    fields = [
        f'"{key}": {value // 1000}.{value % 1000:03d}'
        if key in ("ts", "dur")
        else f'"{key}": {json.dumps(value)}'
        for key, value in event.items()
    ]
    if not indented:
        return "{" + ", ".join(fields) + "}"
    return "  {\n    " + ",\n    ".join(fields) + "\n  }"
