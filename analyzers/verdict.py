"""The sentence: which stage takes the cycle, by which share, on what evidence (design 5.9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specscope.analyzers import recapture
from specscope.analyzers.attribution import Attribution
from specscope.analyzers.report import Unprofiled, Verdict
from specscope.analyzers.shares import StageShare
from specscope.analyzers.words import percent

# The claim that the tool exists to show or to refute.
CLAIM = 0.95
WORDS = {
    "draft": "draft",
    "verify": "verify (accept included)",
    "draft_extend": "draft-extend",
    "schedule": "scheduling",
    "unplaced": "unplaced work",
    "decode": "decode",
    "prefill": "prefill",
}
LOG_CONFIDENCE = {
    "cuda_events": ("high", "specscope's own ranges name every stage, CUDA events time them"),
    "host": (
        "medium",
        "specscope's own ranges by the host's times: with a GPU these say where the host was",
    ),
}
# More uncertain time than this lowers the confidence.
UNCERTAIN_SHARE = 0.02


def decide(
    shares: Sequence[StageShare],
    attributed: Sequence[Attribution],
    refused: Sequence[str],
    unprofiled: Unprofiled | None,
    engine: str | None,
    uncertain: float,
    disagreement: float,
    log_clock: str | None = None,
) -> Verdict:
    """The verdict on a run that speculates; `log_clock` when it is a cycle log."""
    sources = tuple(dict.fromkeys(s for a in attributed for s in a.placed.placement.sources))
    complete = all(a.placed.placement.complete for a in attributed)
    if log_clock is None:
        confidence, why = _confidence(sources, complete, uncertain, disagreement)
    else:
        confidence, why = LOG_CONFIDENCE[log_clock]
    if refused:
        return Verdict(
            "No verdict: " + "; ".join(refused),
            evidence=sources,
            confidence_reason=refused[0],
            refused=tuple(refused),
            withheld=True,
            recapture=recapture.LOG if log_clock else recapture.call(engine),
        )
    rows = [s for s in shares if s.rank is None and s.part_of is None]
    top = max(rows, key=lambda s: s.cycle_share.value)
    share = top.cycle_share
    return Verdict(
        headline=f"{WORDS[top.stage].capitalize()} takes {percent(share.value)} of the cycle"
        + (", by the cycle log" if log_clock else ""),
        basis=_basis(top, len(attributed), log_clock),
        clauses=tuple(_other_shares(top, unprofiled)),
        claims=tuple(_claims(rows)),
        stage=top.stage,
        share=share.value,
        interval=(share.low, share.high),
        evidence=sources,
        confidence=confidence,
        confidence_reason=why,
    )


def _basis(top: StageShare, ranks: int, log_clock: str | None) -> str:
    share = top.cycle_share
    what = (
        "its time on the GPU by CUDA events, idle included"
        if log_clock == "cuda_events"
        else "its time on the host"
        if top.busy_share is None
        else "its work and the idle that its ops end"
    )
    over = f"median of {share.n} whole cycles" + (f" on {ranks} ranks" if ranks > 1 else "")
    return f"{what}; {over}; 95 % interval {percent(share.low)} to {percent(share.high)}"


def _other_shares(top: StageShare, unprofiled: Unprofiled | None) -> Iterator[str]:
    if top.busy_share is None:  # a run on the CPU
        return
    yield f"{percent(top.busy_share.value)} of GPU busy time"
    lead = "of the cycle without a profiler"
    if unprofiled is None:
        yield f"{lead}: not known, give --cycle-ms"
    elif top.unprofiled is None:
        length = f"{unprofiled.cycle_ns / 1e6:.2f} ms"
        yield (
            f"{lead}: cannot be said, the work alone takes longer in the trace than the "
            f"{length} of that cycle; was it measured on this server?"
        )
    else:
        low, high = top.unprofiled
        yield (
            f"{lead} ({unprofiled.cycle_ns / 1e6:.2f} ms, {unprofiled.source}) between "
            f"{percent(low)} and {percent(high)}, {percent(top.cycle_share.value)} if work and "
            "idle keep their proportion"
        )


def _claims(rows: Sequence[StageShare]) -> Iterator[str]:
    """Is verify 95 % or more of the cycle? And what a draft for nothing would bring at most."""
    by_stage = {row.stage: row for row in rows}
    verify, draft = by_stage.get("verify"), by_stage.get("draft")
    if verify is None:
        yield "No verify pass was found in the counted cycles."
        return
    low, high = verify.cycle_share.low, verify.cycle_share.high
    if low >= CLAIM:
        answer = "yes"
    elif high < CLAIM:
        answer = "no"
    else:
        answer = "cannot tell, the interval holds both answers"
    yield f"Verify is {percent(CLAIM, 0)} or more of the cycle: {answer}."
    if draft is not None:
        saved = percent(draft.cycle_share.value)
        yield f"A draft stage that cost nothing would take {saved} off."


def _confidence(
    sources: tuple[str, ...], complete: bool, uncertain: float, disagreement: float
) -> tuple[str, str]:
    """A word and its reason."""
    if "specscope" in sources:
        word, why = "high", "specscope's own ranges name every stage"
    elif sources == ("engine",) and complete:
        word, why = "high", "the engine's own scopes name every stage"
    elif sources == ("engine",):
        word, why = "medium", "ranges named as engines name them, and what lies between them"
    elif "frames" in sources:
        word, why = "medium", "stages from Python frames"
    elif "engine" in sources:
        word, why = (
            "medium",
            "the engine names the target's forward, the rest follows the order of launches",
        )
    else:
        word, why = "low", "stages from the order of launches alone"
    if uncertain > UNCERTAIN_SHARE:
        word = {"high": "medium"}.get(word, "low")
        why += f"; borders of {percent(uncertain)} of the cycle are uncertain"
    if disagreement > UNCERTAIN_SHARE:
        word = "low"
        why += f"; kinds of evidence disagree about {percent(disagreement)} of the work"
    return word, why


def without_speculation(
    steps: int,
    step_ns: float | None,
    kind: str | None,
    open_steps: int,
    engine: str | None,
    batches_apart: str = "",
) -> Verdict:
    """The verdict on a run without speculation: steps are given, shares are not the question.

    `open_steps` were begun and have no end on record: a step ends where the next begins.
    `batches_apart` says which ranks ran at which batch, where one has no cycle
    at the leading batch.
    """
    reason = "no speculation in this trace"
    if steps and step_ns is not None:
        text = f"{steps} {kind} step{'s' if steps > 1 else ''}, median {step_ns / 1e6:.2f} ms"
    else:
        text = (
            f"{open_steps} step{'s' if open_steps != 1 else ''} begun, none with its end on record"
        )
    apart = (f"{batches_apart}: the ranks ran different batches",) if batches_apart else ()
    return Verdict(
        f"No speculation in this trace: {'; '.join((text, *apart))}",
        confidence_reason=reason,
        refused=(reason, *apart),
        recapture=recapture.call(engine),
    )
