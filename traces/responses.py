"""Acceptance from responses that a server gave: JSON documents, JSON lines, streams.

SGLang: `meta_info` with `spec_verify_ct`; counts had other names until 0.5.12, which are aliases
since. vLLM (0.27.2 on, `--per-request-spec-decode-metrics`): `metrics.speculative_decoding`.
Requests are weighted by their cycles. Of a stream the last message of each request counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .errors import TraceFormatError
from .served import MOST_POSITIONS, SGLANG, VLLM, Served, regular, whole
from .sniff import printable

MOST_DOCUMENT: Final = 256 << 20
_MOST_DEPTH: Final = 12
_INFO_LENGTH: Final = "avg_spec_accept_length"
_MOST_COUNT: Final = 1 << 48


@dataclass(frozen=True)
class Keys:
    """Where an engine's figures stand: the key that marks its record, and names, newest first."""

    engine: str
    cycles: str
    accepted: tuple[str, ...]
    drafted: tuple[str, ...]
    histogram: tuple[str, ...]
    length: str
    tokens: str  # tokens emitted, that of the prefill among them; empty: not there


KEYS: Final = (
    Keys(
        SGLANG,
        "spec_verify_ct",
        ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num"),
        ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num"),
        ("spec_correct_drafts_histogram", "spec_accept_histogram"),
        "spec_accept_length",
        "completion_tokens",
    ),
    Keys(
        VLLM,
        "num_spec_steps",
        ("num_accepted_draft_tokens",),
        ("num_draft_tokens",),
        ("acceptance_histogram",),
        "mean_acceptance_length",
        "",
    ),
)


@dataclass(frozen=True)
class _Request:
    cycles: int
    accepted: float
    drafted: float | None
    histogram: tuple[int, ...]
    counted: bool  # by counts of the server; else by the tokens it emitted


def read_responses(path: Path) -> Served:
    """Acceptance over all requests of a file.

    Raises UsageError for what cannot be read, TraceFormatError where no response speaks of
    speculation; both in one line.
    """
    regular(path)
    name = printable(path.name, 120)
    text = whole(path, MOST_DOCUMENT)
    documents, damaged = _documents(text)
    requests: dict[object, _Request] = {}
    engine, empty = "", 0
    for number, (record, keys, identity) in enumerate(_records(documents)):
        if keys is None or (engine and keys.engine != engine):
            empty += 1
            continue
        request = _request(record, keys)
        if request is None:
            damaged += 1
            continue
        if request.cycles == 0:
            empty += 1
            continue
        engine = keys.engine
        key: object = number if identity is None else identity
        if key not in requests or requests[key].cycles <= request.cycles:
            requests[key] = request
    if not requests and _cut(text):
        raise TraceFormatError(
            f"{name} is cut: its JSON ends early; give the responses as the server sent them"
        )
    if not requests and (info := _server_info(documents, f"server info {name}")):
        return info
    if not requests:
        raise TraceFormatError(
            f"{name} holds no response with figures of speculation (SGLang: meta_info."
            "spec_verify_ct; vLLM: metrics.speculative_decoding); give responses of a server that "
            "speculates"
        )
    return _served(list(requests.values()), engine, f"responses {name}", damaged, empty)


def _served(requests: list[_Request], engine: str, source: str, damaged: int, empty: int) -> Served:
    cycles = sum(one.cycles for one in requests)
    accepted = sum(one.accepted for one in requests)
    drafted = [one.drafted for one in requests]
    longest = max(len(one.histogram) for one in requests)
    whole_histograms = all(one.histogram for one in requests)
    by_position = tuple(
        sum(sum(one.histogram[i:]) for one in requests) / cycles for i in range(1, longest)
    )
    counted = all(one.counted for one in requests)
    return Served(
        source,
        engine,
        accept_length=1 + accepted / cycles,
        cycles=cycles,
        by_position=by_position if whole_histograms else (),
        accepted=accepted,
        drafted=sum(d for d in drafted if d is not None) if None not in drafted else None,
        convention=(
            "1 + accepted / verify passes: bonus token included"
            if counted
            else "tokens behind the first, over verify passes: bonus token included"
        ),
        used=len(requests),
        damaged=damaged,
        empty=empty,
    )


def _server_info(documents: list[Any], source: str) -> Served | None:
    """SGLang's /server_info: the mean since the server started, of each data-parallel group."""
    lengths: list[float] = []
    for value in documents:
        states = value.get("internal_states") if isinstance(value, dict) else None
        for state in states if isinstance(states, list) else ():
            length = state.get(_INFO_LENGTH) if isinstance(state, dict) else None
            if isinstance(length, bool) or not isinstance(length, int | float):
                continue
            if 1 <= length <= MOST_POSITIONS:
                lengths.append(float(length))
    if not lengths:
        return None
    return Served(
        source,
        SGLANG,
        accept_length=sum(lengths) / len(lengths),
        convention="mean of the server since it started; bonus token included",
        used=len(lengths),
    )


def _cut(text: str) -> bool:
    """Does a JSON document end before it is whole?"""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        ends = len(text.rstrip())
        return ends > 0 and (error.pos >= ends or error.msg.startswith("Unterminated"))
    except (ValueError, RecursionError):
        pass
    return False


def _documents(text: str) -> tuple[list[Any], int]:
    """The JSON values of a text: one, or one a line; and the lines that are none."""
    try:
        return [json.loads(text)], 0
    except (ValueError, RecursionError):
        pass
    found, damaged = [], 0
    for raw in text.splitlines():
        line = raw.strip().removeprefix("data:").strip()
        if not line or line == "[DONE]" or line.startswith((":", "event:", "id:")):
            continue
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError):
            damaged += 1
    return found, damaged


def _records(documents: list[Any]) -> Iterator[tuple[dict[str, Any], Keys | None, object]]:
    """Every record of speculation in the values, and of requests without one; with their id."""
    stack: list[tuple[Any, int, object]] = [(value, 0, None) for value in reversed(documents)]
    while stack:
        value, depth, identity = stack.pop()
        if isinstance(value, list):
            inside = list(value)
        elif isinstance(value, dict):
            own = value.get("id", value.get("rid"))
            identity = own if isinstance(own, str) else identity
            if identity is not None and isinstance(value.get("index"), int):
                identity = (identity, value["index"])  # one of several answers to a request
            keys = next((one for one in KEYS if one.cycles in value), None)
            if keys is not None:
                yield value, keys, identity
                continue
            if isinstance(value.get("meta_info"), dict) and not any(
                one.cycles in value["meta_info"] for one in KEYS
            ):
                yield value, None, identity
                continue
            inside = list(value.values())
        else:
            continue
        if depth < _MOST_DEPTH:
            stack += [(one, depth + 1, identity) for one in reversed(inside)]


def _request(record: dict[str, Any], keys: Keys) -> _Request | None:
    """The counts of one request; None where they cannot be meant."""
    cycles = _count(record.get(keys.cycles))
    if cycles is None:
        return None
    if cycles == 0:
        return _Request(0, 0, None, (), True)
    accepted: float | None = _first(record, keys.accepted)
    counted = accepted is not None
    if accepted is None:
        accepted = _emitted(record, keys, cycles)
    if accepted is None or accepted > cycles * MOST_POSITIONS:
        return None
    histogram = next((h for name in keys.histogram if (h := _histogram(record.get(name)))), ())
    if histogram and sum(histogram) != cycles:
        histogram = ()  # of another count of passes: not of this one
    drafted = _first(record, keys.drafted)
    if counted and _contradict(accepted, drafted, histogram):
        return None
    return _Request(cycles, accepted, drafted, histogram, counted)


def _contradict(accepted: float, drafted: float | None, histogram: tuple[int, ...]) -> bool:
    """Do the counts of a request exclude one another?

    The last cycle of a request may be cut at its end, so by its tokens the two may differ.
    """
    if drafted is not None and accepted > drafted:
        return True
    by_histogram = sum(i * count for i, count in enumerate(histogram))
    return bool(histogram) and abs(by_histogram - accepted) > len(histogram)


def _emitted(record: dict[str, Any], keys: Keys, cycles: int) -> float | None:
    """Accepted tokens by those that came back, one of them made by the prefill; or by the mean."""
    tokens = _count(record.get(keys.tokens)) if keys.tokens else None
    if tokens is not None:
        return max(tokens - 1 - cycles, 0)
    length = record.get(keys.length)
    if isinstance(length, bool) or not isinstance(length, int | float):
        return None
    return (length - 1) * cycles if 1 <= length <= MOST_POSITIONS else None


def _first(record: dict[str, Any], names: tuple[str, ...]) -> int | None:
    return next((n for name in names if (n := _count(record.get(name))) is not None), None)


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < _MOST_COUNT else None  # a NaN compares false


def _histogram(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= MOST_POSITIONS:
        return ()
    counts = [_count(one) for one in value]
    return () if None in counts else tuple(count for count in counts if count is not None)
