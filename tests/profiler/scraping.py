"""Metrics pages as Prometheus reads them, for tests."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from tests.shared import needed
from tests.waiting import PATIENCE

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def free_ports(count: int) -> int:
    """The first of so many ports in a row that are free on the loopback address."""
    for first in range(21_000 + time.time_ns() % 20_000, 60_000, count):
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.create_server(("127.0.0.1", port)))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise OSError("no free ports")


def page(port: int) -> str:
    """What is served there now."""
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return str(answer.read().decode("utf-8"))


def parsed(text: str) -> Samples:
    """Every sample of a page, by name and labels; skips where prometheus-client is missing."""
    parser = needed("prometheus_client.parser")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def scraped(port: int, until: Callable[[Samples], bool], seconds: float = PATIENCE) -> Samples:
    """The page once `until` holds of it; fails after so long."""
    end = time.monotonic() + seconds
    found: Samples = {}
    while time.monotonic() < end:
        try:
            found = parsed(page(port))
        except (urllib.error.URLError, ConnectionError):
            found = {}
        if found and until(found):
            return found
        time.sleep(0.05)
    raise AssertionError(f"not on the page of port {port} after {seconds} s; there is: {found}")


def value(found: Samples, name: str, **labels: str) -> float | None:
    """One sample."""
    return found.get((name, tuple(sorted(labels.items()))))
