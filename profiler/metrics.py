"""Prometheus metrics of a serving process, on a loopback port of its own: PORT + rank.

Fed by the writer's thread of the cycle log, never by a hook, and read by the thread that serves
the page. `prometheus_client` is imported when the port is opened, which is when the rank is
known: by then the engine has chosen how its own metrics work, and is not disturbed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from . import ranks
from .cycle_log_rows import Row
from .grammar import STAGES
from .metrics_tally import Histogram, Tally

LARGEST_PORT: Final = 65_535
ADDRESS: Final = "127.0.0.1"
# Without rows for so long, the cycles that are open count as they are.
SETTLE_SECONDS: Final = 5.0

_NS: Final = 1e-9
T = TypeVar("T")
_logger = logging.getLogger("specscope")


@dataclass
class Sources:
    """Who knows what is not in the rows; None: nobody, and the metric is left out."""

    hooks: Callable[[], tuple[int, int]] | None = None  # active ones, faults
    hook_ns: Callable[[], int] | None = None  # the hooks' own time so far
    ranks: Callable[[], int | None] | None = None  # of the engine, by its arguments


SOURCES: Final = Sources()


def is_installed() -> bool:
    """Is `prometheus_client` there? It is not imported."""
    return importlib.util.find_spec("prometheus_client") is not None


class Exporter:
    """The page of this process. Its calls are for the writer's thread."""

    def __init__(self, port: int, *, sources: Sources = SOURCES) -> None:
        self._first_port = port
        self._sources = sources
        self._lock = threading.Lock()
        self._tally = Tally()
        self._lost: Mapping[str, int] = {}
        self._server: Any = None
        self._port: int | None = None
        self._rank = ""
        self._closed = False
        self._error = ""
        self._last = 0.0  # when rows came, until they are settled

    @property
    def is_on(self) -> bool:
        """Is there a page, or may there be one yet?"""
        return not self._closed

    # ------------------------------------------------------------ the writer's thread

    def take(self, rows: Sequence[Row]) -> None:
        """Count rows; what goes wrong ends the metrics with one warning."""
        if self._closed:
            return
        try:
            with self._lock:
                self._tally.take(rows)
            self._last = time.monotonic()
        except Exception as error:
            self._end(f"{type(error).__name__}: {error}")

    def poll(self, rank: int | None, lost: Mapping[str, int]) -> None:
        """Open the port once the rank is known; called again and again.

        A process that has rows and no rank has none: it serves behind the engine's ranks.
        """
        if self._closed:
            return
        self._lost = lost
        if self._server is None:
            world = ranks.distributed() if rank is None else None
            known = world[0] if world is not None else rank
            if known is not None or self._last:
                self._open(known)
        elif self._last and time.monotonic() - self._last > SETTLE_SECONDS:
            self._last = 0.0
            with self._lock:
                self._tally.settle()

    def _open(self, rank: int | None) -> None:
        try:
            number = rank if rank is not None else self._behind_the_ranks()
            port = self._first_port + number
            if port > LARGEST_PORT:
                self._end(f"{self._first_port} + {number} is no port; give a lower one")
                return
            from prometheus_client import CollectorRegistry, start_http_server

            registry = CollectorRegistry()
            self._rank = "" if rank is None else str(rank)
            self._port = port
            registry.register(self)
            self._server, _ = start_http_server(port, addr=ADDRESS, registry=registry)
        except ImportError:
            self._end("prometheus-client is missing: pip install 'specscope[server]'")
        except Exception as error:
            self._end(f"port {self._port} on {ADDRESS}: {error}")

    def _behind_the_ranks(self) -> int:
        return _asked(self._sources.ranks) or 0

    def _end(self, reason: str) -> None:
        self._error = reason[:300]
        _logger.warning("specscope: no metrics: %s", self._error)
        self.close()

    # ------------------------------------------------------------ its end

    def close(self) -> None:
        """Let the port go."""
        self._closed = True
        server, self._server = self._server, None
        if server is None:
            return
        import socket

        stop = threading.Thread(target=server.shutdown, daemon=True)
        try:
            stop.start()
        except RuntimeError:
            return  # the interpreter ends, and the server with it
        with contextlib.suppress(OSError):
            # Wakes the server's loop, which looks for its end twice a second by itself.
            socket.create_connection((ADDRESS, server.server_port), 1.0).close()
        stop.join(2.0)
        server.server_close()

    def after_fork(self) -> None:
        """In a forked child: the port is the parent's, the counts begin anew."""
        server, self._server = self._server, None
        if server is not None:
            server.socket.close()  # the child's copy; else the port stays taken for its life
        self._lock = threading.Lock()
        self._tally = Tally()
        self._lost = {}
        self._port, self._rank, self._last = None, "", 0.0

    def report(self) -> dict[str, Any]:
        """Where the page is, or why there is none."""
        return {
            "active": self._server is not None,
            "port": self._port if self._server is not None else None,
            "reason": self._error or ("" if self._server else "waits for the rank"),
        }

    # ------------------------------------------------------------ the page

    def collect(self) -> Iterator[Any]:
        """What `prometheus_client` asks for at every scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        rank = [self._rank]
        with self._lock:
            yield from list(self._histograms())
        lost = CounterMetricFamily(
            "specscope_lost_rows",
            "Rows of the cycle log that were lost, by reason.",
            labels=["rank", "reason"],
        )
        for reason, count in self._lost.items():
            lost.add_metric([*rank, reason], count)
        yield lost
        hooks = _asked(self._sources.hooks)
        if hooks is not None:
            active, faults = hooks
            gauge = GaugeMetricFamily(
                "specscope_hooks_active",
                "Hooks that were called and are on.",
                labels=["rank"],
            )
            gauge.add_metric(rank, active)
            yield gauge
            counter = CounterMetricFamily(
                "specscope_hook_faults", "Faults inside hooks.", labels=["rank"]
            )
            counter.add_metric(rank, faults)
            yield counter
        hook_ns = _asked(self._sources.hook_ns)
        if hook_ns is not None:
            counter = CounterMetricFamily(
                "specscope_hook_seconds",
                "Host time that the hooks took for themselves.",
                labels=["rank"],
            )
            counter.add_metric(rank, hook_ns * _NS)
            yield counter

    def _histograms(self) -> Iterator[Any]:
        tally = self._tally
        by_stage = (
            ("specscope_stage_seconds", "Host time of a stage in a cycle.", tally.stages),
            (
                "specscope_stage_gpu_seconds",
                "GPU time of a stage in a cycle, by CUDA events, of sampled cycles.",
                tally.gpu_stages,
            ),
        )
        for name, text, histograms in by_stage:
            labelled = [((STAGES[code],), found) for code, found in sorted(histograms.items())]
            yield self._family(name, text, labelled, _NS, ("stage",))
        for name, text, found, unit in (
            (
                "specscope_cycle_seconds",
                "Time from the start of a cycle to the start of the next, on the host.",
                tally.cycle,
                _NS,
            ),
            (
                "specscope_cycle_gpu_seconds",
                "The same on the GPU, by CUDA events, of sampled cycles.",
                tally.gpu_cycle,
                _NS,
            ),
            (
                "specscope_accept_length",
                "Tokens a sequence and cycle, the bonus token included.",
                tally.accept,
                1,
            ),
            ("specscope_batch_size", "Sequences in a cycle.", tally.batch, 1),
        ):
            yield self._family(name, text, [((), found)] if found.count else [], unit)

    def _family(
        self,
        name: str,
        text: str,
        histograms: Iterable[tuple[tuple[str, ...], Histogram]],
        unit: float,
        labels: tuple[str, ...] = (),
    ) -> Any:
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily(name, text, labels=["rank", *labels])
        for values, found in histograms:
            bounds = [f"{bound * unit:.9g}" for bound in found.bounds]
            total = 0
            buckets = []
            for bound, count in zip([*bounds, "+Inf"], found.counts, strict=True):
                total += count
                buckets.append((bound, float(total)))
            family.add_metric([self._rank, *values], buckets, found.sum * unit)
        return family


def _asked(source: Callable[[], T] | None) -> T | None:
    """What the source says; None where there is none, or none that answers."""
    try:
        return source() if source is not None else None
    except Exception:
        return None
