"""Why the cycle is slow: which causes have their signs in the figures, and what each can gain.

A cause is
* `seen`: all of its signs are in the figures;
* `suspected`: they are, and so is evidence that refutes it, which is shown beside;
* `open`: a sign rests on a figure that is not known, and no other sign is missing;
* `absent`: a sign is not there.

The gain is a bound (Amdahl): what the tokens a second grow by when the time in question is gone
and nothing else changes. It is made on the cycle without a profiler where that is known; that
cycle holds no more idle and waiting than its work leaves room for, whatever the trace shows.
Bounds of several causes do not add up: the same time may stand in more than one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from specscope.analyzers import cause_rules, figures
from specscope.analyzers.cause_rules import Cause, Condition, Sign
from specscope.analyzers.flag_steps import Step, Told, steps
from specscope.analyzers.mends import ENGINES, Flag, Mend, mends
from specscope.analyzers.words import percent

STATES: Final = ("seen", "suspected", "open", "absent")


@dataclass(frozen=True)
class Finding:
    """One cause, judged; texts are whole clauses with their figures."""

    cause: Cause
    state: str
    gain: float | None  # at most this times the tokens a second; None: no bound
    after: float | None  # of the plain rate, with that gain
    signs: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # figures that are not known
    ask: str = ""  # what to give or to record for the first of them
    figures: Mapping[str, float] = field(default_factory=dict)  # what texts and gain rest on
    mend: Mend | None = None
    flags: tuple[Flag, ...] = ()  # of the run's own engine and version
    no_flag: str = ""  # why there is none
    steps: tuple[Step, ...] = ()  # what to do with each flag in this run, those to leave out first

    @property
    def id(self) -> str:
        """C1, C2, ..."""
        return self.cause.id

    @property
    def sentence(self) -> str:
        """The cause and its signs in one line."""
        return f"{self.cause.title}: {'; '.join((*self.signs, *self.beside))}"


@dataclass(frozen=True)
class Causes:
    """All causes of one run: those seen first, by what they can gain at most."""

    findings: tuple[Finding, ...]
    simulated: bool = False  # the server drew the accept length

    def of(self, state: str) -> tuple[Finding, ...]:
        """Those in that state, in order."""
        return tuple(one for one in self.findings if one.state == state)

    def __getitem__(self, cause_id: str) -> Finding:
        return next(one for one in self.findings if one.id == cause_id)


def judge(given: Mapping[str, float]) -> Causes:
    """Every cause by a table of figures; see `figures.complete` for what is worked out.

    Raises:
        UsageError: a name is no figure.
    """
    table = figures.complete(given)
    found = [_finding(cause, table) for cause in cause_rules.causes()]
    simulated = table.get("accept_length.simulated") == 1
    return Causes(tuple(sorted(found, key=_rank)), simulated)


def with_mends(
    found: Causes, engine: str | None, version: str | None, told: Told | None = None
) -> Causes:
    """The causes with their mends, and of these the flags that this engine and version have.

    `told`: the run's own settings, against which the flags are held.
    """
    mended = tuple(_mended(one, engine, version, told or Told()) for one in found.findings)
    return replace(found, findings=mended)


def _mended(one: Finding, engine: str | None, version: str | None, told: Told) -> Finding:
    mend = mends()[one.cause.mend]
    flags = mend.of(engine, version)
    name = next((word for word in ENGINES if word in (engine or "").lower()), None)
    if name is None:
        why = "which engine this is, no one says"
    elif not version and any(flag.engine == name for flag in mend.flags):
        why = f"which version of {name} this is, no one says"
    else:
        why = f"{name} {version or ''}".rstrip()
    held = steps(flags, version, told)
    return replace(one, mend=mend, flags=flags, no_flag="" if flags else why, steps=held)


def _rank(one: Finding) -> tuple[int, float]:
    return STATES.index(one.state), -(one.gain or 0.0)


def _finding(cause: Cause, table: figures.Figures) -> Finding:
    gain, used = _gain(cause, table)
    speed_up = table.get("speed_up")
    after = None if gain is None or speed_up is None else speed_up * gain
    local = dict(table)
    if gain is not None:
        local["gain"] = gain
    if after is not None:
        local["after"] = after
    answers = [_any(sign, local) for sign in cause.signs]
    against = [one for one in cause.against if one.holds(local)]
    if False in answers:
        state = "absent"
    elif None in answers:
        state = "open"
    else:
        state = "suspected" if any(one.refutes for one in against) else "seen"
    shown = state in ("seen", "suspected")
    unknown = [
        condition
        for sign, answer in zip(cause.signs, answers, strict=True)
        if state == "open" and answer is None
        for condition in sign
        if condition.holds(local) is None
    ]
    missing = [[name for name in one.figures if name not in local] for one in unknown]
    signs = [one for sign in cause.signs for one in sign if one.holds(local)]
    beside = [one for one in cause.beside if one.holds(local)]
    told = [*signs, *beside, *against]
    names = dict.fromkeys([name for one in told for name in one.figures] + used)
    return Finding(
        cause,
        state,
        gain,
        after,
        tuple(_texts(signs, local)),
        tuple(_texts(beside, local)) if shown else (),
        tuple(_texts(against, local)) if shown else (),
        tuple(dict.fromkeys(name for names in missing for name in names)),
        _ask(missing[0]) if missing else "",
        {name: local[name] for name in names if name in local},
    )


def _ask(names: list[str]) -> str:
    return "; ".join(dict.fromkeys(figures.words()[name].ask for name in names))


def _any(sign: Sign, table: figures.Figures) -> bool | None:
    """Is one of the conditions there? None where that rests on an unknown figure."""
    answers = [one.holds(table) for one in sign]
    if True in answers:
        return True
    return None if None in answers else False


def _gain(cause: Cause, table: figures.Figures) -> tuple[float | None, list[str]]:
    """The bound, and the figures it rests on."""
    if cause.ratio is not None:
        upper, lower = cause.ratio
        if upper not in table or not table.get(lower):
            return None, []
        return max(table[upper] / table[lower], 1.0), [upper, lower]
    names = next((n for n in cause.removes if all(one in table for one in n)), None)
    length = "server.cycle.ms" if "server.cycle.ms" in table else "cycle.ms"
    if names is None or length not in table:
        return None, []
    cycle, used = table[length], [*names, length]
    gone = max(sum(table[name] for name in names), 0.0)
    if cause.removes_slack:
        room, why = _room(cycle, table)
        gone, used = min(gone, room), used + why
    return (cycle / (cycle - gone) if gone < cycle else None), used


def gain_words(cause: Cause) -> str:
    """The bound of a cause as a formula, for the docs."""
    if cause.ratio is not None:
        return f"`{cause.ratio[0]}` / `{cause.ratio[1]}`"
    if not cause.removes:
        return "no bound"
    each = (" + ".join(f"`{name}`" for name in names) for names in cause.removes)
    return f"the cycle without {', else without '.join(each)}"


def _room(cycle: float, table: figures.Figures) -> tuple[float, list[str]]:
    """What the cycle can hold besides work that is no waiting, and the figures that say so."""
    waits = next((n for n in ("cycle.wait.ms", "cycle.collective.ms") if n in table), None)
    if waits is None or "cycle.work.ms" not in table:
        return cycle, []
    work = table["cycle.work.ms"] - table[waits]
    return min(max(cycle - work, 0.0), cycle), ["cycle.work.ms", waits]


def _texts(conditions: list[Condition], table: figures.Figures) -> Iterator[str]:
    for one in conditions:
        if one.text:
            yield cause_rules.FIGURE_IN_TEXT.sub(lambda name: written(name[1], table), one.text)


def written(name: str, table: Mapping[str, float]) -> str:
    """A figure as a sentence says it.

    >>> written("draft.share", {"draft.share": 0.0311}), written("cycle.ms", {"cycle.ms": 0.13})
    ('3.1 %', '130 us')
    """
    value = table[name]
    unit = figures.words()[name].unit
    if unit == "share":
        return percent(value)
    if unit == "ms":
        return f"{value:,.2f} ms" if abs(value) >= 0.9995 else f"{1e3 * value:.0f} us"
    if unit == "us":
        return f"{value:.1f} us"
    if unit == "ratio":
        return f"{value:.2f}"
    return f"{value:,.0f}"
