"""The sentence: which stage takes the cycle, by which share, on what evidence (design 5.9)."""

from __future__ import annotations

from collections.abc import Sequence

from specscope.analyzers import recapture
from specscope.analyzers.attribution import Attribution
from specscope.analyzers.report import Unprofiled, Verdict
from specscope.analyzers.shares import StageShare

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
) -> Verdict:
    """The verdict on a run that speculates."""
    sources = tuple(dict.fromkeys(s for a in attributed for s in a.placed.placement.sources))
    confidence, why = _confidence(sources, uncertain, disagreement)
    if refused:
        return Verdict(
            "No verdict: " + "; ".join(refused) + ".",
            None,
            None,
            "cycle",
            None,
            sources,
            "none",
            refused[0],
            tuple(refused),
            recapture.call(engine),
        )
    rows = [s for s in shares if s.rank is None and s.part_of is None]
    top = max(rows, key=lambda s: s.cycle_share.value)
    interval = (top.cycle_share.low, top.cycle_share.high)
    return Verdict(
        _sentence(top, rows, len(attributed), unprofiled),
        top.stage,
        top.cycle_share.value,
        "cycle",
        interval,
        sources,
        confidence,
        why,
    )


def _sentence(
    top: StageShare, rows: Sequence[StageShare], ranks: int, unprofiled: Unprofiled | None
) -> str:
    name = WORDS[top.stage]
    share = top.cycle_share
    over = f"median of {share.n} whole cycles" + (f" on {ranks} ranks" if ranks > 1 else "")
    on_host = top.busy_share is None
    what = "its time on the host" if on_host else "its work and the idle that its ops end"
    parts = [
        f"{name.capitalize()} takes {_percent(share.value)} of the cycle "
        f"({what}; {over}; 95 % interval {_percent(share.low)} to {_percent(share.high)})"
    ]
    if top.busy_share is not None:
        parts.append(f"{_percent(top.busy_share.value)} of GPU busy time")
    if unprofiled is None:
        if not on_host:
            parts.append("of the cycle without a profiler: not known, give --cycle-ms")
    elif top.unprofiled is None:
        parts.append(
            "of the cycle without a profiler: cannot be said, all work as recorded exceeds "
            f"{unprofiled.cycle_ns / 1e6:.2f} ms"
        )
    else:
        low, high = top.unprofiled
        parts.append(
            f"of the cycle without a profiler ({unprofiled.cycle_ns / 1e6:.2f} ms, "
            f"{unprofiled.source}) about {_percent(share.value)}, "
            f"between {_percent(low)} and {_percent(high)}"
        )
    sentence = "; ".join(parts) + "."
    return f"{sentence} {_claim(rows)}"


def _claim(rows: Sequence[StageShare]) -> str:
    """Is verify 95 % or more of the cycle? And what a draft for nothing would bring at most."""
    by_stage = {row.stage: row for row in rows}
    verify, draft = by_stage.get("verify"), by_stage.get("draft")
    if verify is None:
        return "No verify pass was found in the counted cycles."
    low, high = verify.cycle_share.low, verify.cycle_share.high
    if low >= CLAIM:
        answer = "Verify is 95 % or more of the cycle: yes."
    elif high < CLAIM:
        answer = "Verify is 95 % or more of the cycle: no."
    else:
        answer = (
            "Verify is 95 % or more of the cycle: cannot tell, the interval holds both answers."
        )
    if draft is None:
        return answer
    saved = _percent(draft.cycle_share.value)
    return f"{answer} A draft stage that cost nothing would take {saved} off."


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _confidence(sources: tuple[str, ...], uncertain: float, disagreement: float) -> tuple[str, str]:
    """A word and its reason."""
    if "specscope" in sources:
        word, why = "high", "specscope's own ranges name every stage"
    elif sources == ("engine",):
        word, why = "high", "the engine's own scopes name every stage"
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
        why += f"; borders of {_percent(uncertain)} of the cycle are uncertain"
    if disagreement > UNCERTAIN_SHARE:
        word = "low"
        why += f"; kinds of evidence disagree about {_percent(disagreement)} of the work"
    return word, why


def without_speculation(
    steps: int, step_ns: float | None, kind: str | None, open_steps: int, engine: str | None
) -> Verdict:
    """The verdict on a run without speculation: steps are given, shares are not the question.

    `open_steps` were begun and have no end on record: a step ends where the next begins.
    """
    reason = "no speculation in this trace"
    if steps and step_ns is not None:
        text = f"{steps} {kind} step{'s' if steps > 1 else ''}, median {step_ns / 1e6:.2f} ms"
    else:
        text = (
            f"{open_steps} step{'s' if open_steps != 1 else ''} begun, none with its end on record"
        )
    return Verdict(
        f"No speculation in this trace: {text}.",
        None,
        None,
        "cycle",
        None,
        (),
        "none",
        reason,
        (reason,),
        recapture.call(engine),
    )
