"""A fixed load on a server: requests at once, random prompts, greedy, so many tokens each.

The same for SGLang (`/generate`) and vLLM (`/v1/completions`), with token ids in place of text,
so that servers without a tokenizer work as well. What the engine counted is put into one
convention: see `Answer`.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from specscope.profiler import engine_probe, prometheus
from specscope.profiler.engine_probe import Engine
from specscope.profiler.http_api import Api, Stop
from specscope.profiler.server_errors import ServerError, UnsuitableError

# Ids below the vocabulary of every real model, for servers whose vocabulary is not known.
SAFE_VOCABULARY = 1000
# The first ids of a vocabulary are often marks (begin, end, padding).
_FIRST_ID = 10
# No engine counts further for one request.
_MOST_COUNT = 1 << 48
# vLLM counts a step after it has sent its tokens.
_SETTLE_SECONDS = 2.0
_VLLM = "vllm:"
_PLACE = re.compile(r"[0-9]{1,4}")


@dataclass(frozen=True)
class Load:
    """`batch` requests at once, each with a prompt of `prompt_tokens` and `tokens` new ones.

    `short` is the length of the shorter request of a pair: what both have in common (prefill,
    the way there and back) drops out of the difference. `vocabulary` bounds the ids.
    """

    batch: int
    prompt_tokens: int
    tokens: int
    short: int
    vocabulary: int
    seed: int = 7

    def prompts(self, pair: int, turn: int = 0) -> list[list[int]]:
        """The prompts of a pair of requests: fixed but for their first token.

        The first token is another for each `turn` and process, so that no prefix cache knows
        the prompt.
        """
        draw = random.Random(f"{self.seed}/{pair}")
        first = random.Random(f"{_PROCESS}/{pair}/{turn}")
        rows = []
        for _ in range(self.batch):
            rest = [draw.randrange(_FIRST_ID, self.vocabulary) for _ in range(self.prompt_tokens)]
            rows.append([first.randrange(_FIRST_ID, self.vocabulary), *rest[1:]])
        return rows


_PROCESS = time.time_ns()


@dataclass(frozen=True)
class Answer:
    """What came back from one batch of requests, and what the engine counted for it.

    `tokens`: new tokens of all sequences. `steps`: rounds the engine ran, None when it does not
    say. `verified`: verifications, summed over the sequences; `drafted` and `accepted`: draft
    tokens, without the bonus token. `by_position[i]`: verifications in which draft token i was
    accepted, and so all before it. None or empty without speculation. `undrafted`: cycles of a
    sequence in which nothing was drafted, as n-gram speculation has them where it finds no match;
    each emits one token.
    """

    seconds: float
    tokens: int
    steps: int | None = None
    verified: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    by_position: tuple[int, ...] = ()
    undrafted: int = 0
    cached: int = 0
    others: bool = False

    @property
    def accept_length(self) -> float | None:
        """Tokens emitted for each sequence and cycle, the bonus token included.

        Over all cycles, also those without a draft.
        """
        if not self.verified or self.accepted is None:
            return None
        return 1 + self.accepted / self.cycles

    @property
    def cycles(self) -> int:
        """Cycles, summed over the sequences; 0 without speculation."""
        return (self.verified or 0) + self.undrafted

    @property
    def position_rates(self) -> tuple[float, ...]:
        """Share of the verifications in which draft token i was accepted: never rises with i."""
        return tuple(count / self.verified for count in self.by_position) if self.verified else ()


class Driver(Protocol):
    """Sends a batch of prompts to one engine."""

    def generate(
        self, prompts: Sequence[Sequence[int]], tokens: int, *, seconds: float, stop: Stop | None
    ) -> Answer:
        """Have `tokens` new tokens made for each prompt, at temperature 0, not ending early."""
        ...


def driver(api: Api, engine: Engine) -> Driver:
    """The driver for the engine at hand."""
    if engine.name == engine_probe.SGLANG:
        return SglangDriver(api)
    return VllmDriver(api, engine.served)


@dataclass(frozen=True)
class SglangDriver:
    """SGLang: one `/generate` with all prompts; its `meta_info` counts for each sequence."""

    api: Api

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        tokens: int,
        *,
        seconds: float,
        stop: Stop | None = None,
    ) -> Answer:
        """See `Driver`."""
        body = {
            "input_ids": prompts,
            "sampling_params": {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True},
        }
        start = time.perf_counter()
        reply = self.api.call("POST", "/generate", body, seconds=seconds, stop=stop)
        took = time.perf_counter() - start
        answers = reply.json()
        if not reply.ok or not isinstance(answers, list):
            raise _refused(self.api, reply)
        infos = [
            answer.get("meta_info") if isinstance(answer, dict) else None for answer in answers
        ]
        known = [info for info in infos if isinstance(info, dict)]
        if len(known) < len(infos) or len(infos) != len(prompts):
            raise ServerError(
                f"{self.api.title} answers /generate in a form that is not known: no meta_info for "
                f"each of {len(prompts)} prompts; is it SGLang itself?"
            )
        return sglang_answer(known, took)


def sglang_answer(infos: Sequence[dict[str, Any]], seconds: float) -> Answer:
    """The counts in the `meta_info` of the sequences of one batch.

    The histogram has, at i, the verifications with exactly i accepted draft tokens.
    """
    made = [_int(info, "completion_tokens") or 0 for info in infos]
    plain = Answer(
        seconds,
        sum(made),
        # The first token of each sequence is made by the prefill.
        steps=max((count - 1 for count in made), default=0),
        cached=sum(_int(info, "cached_tokens") or 0 for info in infos),
    )
    verified = [_int(info, "spec_verify_ct") for info in infos]
    counts = [count for count in verified if count]
    if not counts or len(counts) < len(infos):
        return plain
    histograms = [
        _histogram(info, "spec_correct_drafts_histogram", "spec_accept_histogram") for info in infos
    ]
    longest = max(len(histogram) for histogram in histograms)
    by_position = tuple(
        sum(sum(histogram[i + 1 :]) for histogram in histograms) for i in range(longest - 1)
    )
    accepted = [
        _int(info, "spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
        for info in infos
    ]
    known = [count for count in accepted if count is not None]
    if len(known) < len(infos):
        # An older server: what was emitted beyond one token a verification.
        known = [max(count - 1 - v, 0) for count, v in zip(made, counts, strict=True)]
    drafted = [
        _int(info, "spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
        for info in infos
    ]
    return replace(
        plain,
        steps=max(counts),
        verified=sum(counts),
        drafted=sum(d for d in drafted if d is not None) if None not in drafted else None,
        accepted=sum(known),
        by_position=by_position,
    )


@dataclass(frozen=True)
class VllmDriver:
    """vLLM: one `/v1/completions` with all prompts; the counters of `/metrics` around it."""

    api: Api
    model: str

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        tokens: int,
        *,
        seconds: float,
        stop: Stop | None = None,
    ) -> Answer:
        """See `Driver`."""
        body = {
            "model": self.model,
            "prompt": prompts,
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
        }
        before = self._metrics()
        start = time.perf_counter()
        reply = self.api.call("POST", "/v1/completions", body, seconds=seconds, stop=stop)
        took = time.perf_counter() - start
        answer = reply.json()
        usage = answer.get("usage") if isinstance(answer, dict) else None
        if not reply.ok or not isinstance(usage, dict):
            raise _refused(self.api, reply)
        made = _int(usage, "completion_tokens") or 0
        return vllm_answer(before, self._settled(before, made), took, made, len(prompts))

    def _settled(self, before: str, made: int) -> str:
        """The counters once they hold the tokens that came back."""
        until = time.monotonic() + _SETTLE_SECONDS
        while True:
            page = self._metrics()
            counted = _grown(before, page, "generation_tokens")
            if counted is None or counted >= made or time.monotonic() > until:
                return page
            time.sleep(0.02)

    def _metrics(self) -> str:
        reply = self.api.get("/metrics")
        return reply.text if reply.ok else ""


def vllm_answer(
    before: str, after: str, seconds: float, made: int, sequences: int | None = None
) -> Answer:
    """The counts of one batch by the difference of two `/metrics` pages.

    `num_drafts` counts the verifications only: a step in which a sequence has no draft is in none
    of the counters of speculation. Each emits one token, as does the prefill of a sequence, so
    these steps are the tokens that are left over. At least: what a last cycle emits beyond the
    tokens asked for is counted as accepted and not as made. Without `sequences` they are not known.

    Steps hold those of the prefill. With several data-parallel engines they are not known:
    each has steps of its own.
    """
    engines = prometheus.by_label(after, f"{_VLLM}num_requests_running", "engine")
    steps = _grown(before, after, "iteration_tokens_total_count") if len(engines) == 1 else None
    counted = _grown(before, after, "generation_tokens")
    plain = Answer(seconds, made, steps=steps, others=counted is not None and counted > made)
    verified = _grown(before, after, "spec_decode_num_drafts")
    accepted = _grown(before, after, "spec_decode_num_accepted_tokens")
    if verified is None or accepted is None:
        return plain
    undrafted = 0 if sequences is None else max(0, made - sequences - accepted - verified)
    name = f"{_VLLM}spec_decode_num_accepted_tokens_per_pos"
    old, new = (prometheus.by_label(page, name, "position") for page in (before, after))
    places = sorted((position for position in new if _PLACE.fullmatch(position)), key=int)
    return replace(
        plain,
        verified=verified,
        drafted=_grown(before, after, "spec_decode_num_draft_tokens"),
        accepted=accepted,
        undrafted=undrafted,
        by_position=tuple(int(new[place] - old.get(place, 0)) for place in places),
    )


def _grown(before: str, after: str, name: str) -> int | None:
    new = prometheus.total(after, _VLLM + name)
    return None if new is None else int(new - (prometheus.total(before, _VLLM + name) or 0))


def _refused(api: Api, reply: Any) -> ServerError:
    kind = UnsuitableError if 400 <= reply.status < 500 else ServerError
    return kind(f"{api.title} refuses the load ({api.words(reply)})")


def _int(info: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = info.get(name)
        if value is not None and _is_count(value):
            return int(value)
    return None


def _histogram(info: dict[str, Any], *names: str) -> list[int]:
    """The first histogram there is; one of another form says nothing."""
    for name in names:
        value = info.get(name)
        if isinstance(value, list) and value and all(map(_is_count, value)):
            return [int(count) for count in value]
    return []


def _is_count(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < _MOST_COUNT  # a NaN compares false
