"""Acceptance and the engine's own GPU seconds, from Prometheus texts of SGLang and vLLM.

Counters of two scrapes give what lies between them, of one all since the server started. Gauges
(SGLang) hold the last log interval only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from .errors import TraceFormatError
from .metrics_text import Page, page_of
from .served import MOST_POSITIONS, SGLANG, VLLM, Served

PREFIXES: Final = ("sglang:", "vllm:", "sglang_", "vllm_")
_DRAFTS: Final = "vllm:spec_decode_num_drafts"
_DRAFTED: Final = "vllm:spec_decode_num_draft_tokens"
_ACCEPTED: Final = "vllm:spec_decode_num_accepted_tokens"
_BY_POSITION: Final = "vllm:spec_decode_num_accepted_tokens_per_pos"
_LENGTH: Final = "sglang:spec_accept_length"
_RATE: Final = "sglang:spec_accept_rate"
_RUNNING: Final = "sglang:num_running_reqs"
_VERIFIED: Final = "sglang:spec_verify_calls"
# By CUDA events in the server; the name of 0.5.7 to 0.5.9 is the second.
_DEVICE: Final = ("sglang:forward_execution_seconds", "sglang:gpu_execution_seconds")
_Labels = tuple[tuple[str, str], ...]
_PLACE: Final = re.compile(r"[0-9]{1,4}")
_COUNTERS: Final = (_DRAFTS, _DRAFTED, _ACCEPTED, _VERIFIED, *_DEVICE)


@dataclass(frozen=True)
class DeviceSeconds:
    """GPU seconds by category of forward, as the engine timed itself, without a profiler."""

    source: str
    by_category: tuple[tuple[str, float], ...]
    between: bool  # two scrapes, else since the server started


@dataclass(frozen=True)
class ServerMetrics:
    """What the texts hold; None where they do not have it. `restarted`: the first is of before."""

    served: Served | None
    device: DeviceSeconds | None
    damaged: int
    restarted: bool = False
    impossible: str = ""  # counters that contradict one another: none of them is used
    between: bool = False  # two scrapes


def read_metrics(texts: list[str], names: list[str]) -> ServerMetrics:
    """One scrape, or an earlier and a later one; `names` are shown.

    Raises TraceFormatError, in one line, where they are no metrics of an engine.
    """
    pages = [page_of(text, PREFIXES) for text in texts]
    for page, name in zip(pages, names, strict=True):
        if not page.series:
            raise TraceFormatError(
                f"{name} has no metric of SGLang or vLLM; give the text of the server's /metrics "
                "(SGLang has one with --enable-metrics)"
            )
    damaged = sum(page.damaged for page in pages)
    later = pages[-1]
    earlier = pages[0] if len(pages) > 1 else Page()
    restarted = any(
        (old := earlier.total(name)) is not None and old > (later.total(name) or 0)
        for name in _COUNTERS
    )
    between = len(pages) > 1 and not restarted
    if restarted:
        earlier = Page()
    source = f"metrics {names[-1]}"
    if between:
        source += f" since {names[0]}"
    impossible = _contradiction(earlier, later)
    served = None if impossible else _vllm(earlier, later, source) or _sglang(later, source)
    if served is not None:
        served = replace(served, damaged=damaged)
    device = _device(earlier, later, source, between)
    return ServerMetrics(served, device, damaged, restarted, impossible, between)


def _grown(earlier: Page, later: Page, name: str) -> float | None:
    new = later.total(name)
    return None if new is None else new - (earlier.total(name) or 0.0)


def _contradiction(earlier: Page, later: Page) -> str:
    """How vLLM's counters contradict one another; empty where they do not."""
    accepted = _grown(earlier, later, _ACCEPTED)
    drafted = _grown(earlier, later, _DRAFTED)
    if accepted is None or drafted is None or accepted <= drafted:
        return ""
    return f"{accepted:,.0f} draft tokens are accepted of {drafted:,.0f} drafted"


def _vllm(earlier: Page, later: Page, source: str) -> Served | None:
    drafts = _grown(earlier, later, _DRAFTS)
    accepted = _grown(earlier, later, _ACCEPTED)
    if not drafts or accepted is None:
        return None
    old, new = (_by_position(page) for page in (earlier, later))
    places = sorted(new)[:MOST_POSITIONS]
    rates = tuple((new[at] - old.get(at, 0.0)) / drafts for at in places)
    sound = places == list(range(len(places))) and all(0 <= rate <= 1 for rate in rates)
    return Served(
        source,
        VLLM,
        accept_length=1 + accepted / drafts,
        cycles=drafts,
        by_position=rates if sound else (),
        accepted=accepted,
        drafted=_grown(earlier, later, _DRAFTED),
        convention="1 + accepted / drafts: bonus token included",
        used=1,
    )


def _by_position(page: Page) -> dict[int, float]:
    found = page.by_label(_BY_POSITION, "position")
    return {int(place): value for place, value in found.items() if _PLACE.fullmatch(place)}


def _sglang(later: Page, source: str) -> Served | None:
    """Gauges of each data-parallel group, weighted by the requests that run in it."""
    lengths = {labels: v for labels, v in later.gauges(_LENGTH).items() if v >= 1}
    if not lengths:
        return None
    running = later.gauges(_RUNNING)
    weights = {labels: running.get(labels, 0.0) for labels in lengths}
    if not any(weights.values()):
        weights = dict.fromkeys(lengths, 1.0)
    rates = {labels: v for labels, v in later.gauges(_RATE).items() if weights.get(labels)}
    return Served(
        source,
        SGLANG,
        accept_length=_weighted(lengths, weights.__getitem__),
        rate=_weighted(rates, weights.__getitem__) if rates else None,
        convention="gauge of the server's last log interval; bonus token included",
        used=1,
    )


def _weighted(values: dict[_Labels, float], weight: Callable[[_Labels], float]) -> float:
    whole = sum(weight(key) for key in values)
    return sum(value * weight(key) for key, value in values.items()) / whole


def _device(earlier: Page, later: Page, source: str, between: bool) -> DeviceSeconds | None:
    for name in _DEVICE:
        new = later.by_label(name, "category")
        old = earlier.by_label(name, "category")
        grown = {category: value - old.get(category, 0.0) for category, value in new.items()}
        kept = tuple(sorted((c, v) for c, v in grown.items() if v > 0))
        if kept:
            return DeviceSeconds(source, kept, between)
    return None
