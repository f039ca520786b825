"""Writes docs/causes.md from the tables of rules: `python docs/make_causes.py > docs/causes.md`."""

from __future__ import annotations

from collections.abc import Iterator

from specscope.analyzers.cause_rules import Cause, Condition, causes
from specscope.analyzers.causes import gain_words
from specscope.analyzers.figures import words
from specscope.analyzers.mends import ENGINES, Flag, mends, read_versions
from specscope.analyzers.name_rules import bundled

HEAD = """# Causes

*Why, and what to do*: every report of a run that speculates judges the causes below by their
signs. `report.causes` in Python, the key `causes` in the [JSON report](report.md).

- `seen`: all signs are in the run.
- `suspected`: all signs are in the run, and so is evidence that refutes the cause, shown beside.
- `open`: a sign rests on a figure that is not known, and no other sign is missing; what to give or
  to record is said.
- `absent`: a sign is not there.

What is not known is never taken for zero or for no. Evidence to the contrary is shown after *yet*
also where it does not refute.

Before a change is advised, the most it can gain stands beside it: cycle / (cycle - time in
question), as if that time were gone and nothing else changed. It is a bound, and bounds of several
causes do not add up: the same time may stand in more than one. It is made on the cycle without a
profiler where its length is known; that cycle has room for idle and waiting only besides its other
work, whatever the trace shows, and no more idle than a replay leaves without the profiler's cost
([throughput.md](throughput.md#the-cycle-without-the-profiler)). With accept length and plain step
known, the rate after the gain is said in times the plain rate: below 1 the cause alone does not
make speculation pay.

Flags are held against the run's own settings: arguments or command line, and the variables
`SGLANG_*`, `VLLM_*` and `NCCL_*` of its environment, from `run.json` or `meta.json`. A flag to
leave out is shown where it is set, a flag to set where it is not yet so; where everything is, the
page says *already so in this run*. Without settings on record it says *not known whether set*. Of
a setting only the flag and a plain value are shown.

A table of figures is judged without a trace:

```python
from specscope.analyzers.causes import judge

found = judge({"cycle.ms": 26.2, "verify.ms": 23.7, "draft.ms": 2.6, "draft.work.ms": 1.5})
print(found["C7"].state, round(found["C7"].gain, 2))
```

It says `absent 1.11`: a draft that works 1.5 ms of 26.2 cannot owe 5 % of the cycle to the
target's TP, and a draft for nothing would gain 11 %.

Causes are rows of `analyzers/rules/causes.toml`, mends and flags of `mends.toml`, figures of
`figures.toml`. `tests/data/published_measurements.toml` holds what people measured and published,
and what must come out. This page is made from the tables by `docs/make_causes.py`.
"""


def cause_section(cause: Cause) -> Iterator[str]:
    """One cause: signs, evidence, bound, mend and flags."""
    yield f"\n### {cause.id} {cause.title}\n"
    yield "| | figure | threshold | reason |"
    yield "|---|---|---|---|"
    for number, sign in enumerate(cause.signs, 1):
        for place, condition in enumerate(sign):
            yield row(f"sign {number}" if not place else "or", condition)
    for condition in cause.beside:
        yield row("beside", condition)
    for condition in cause.against:
        yield row("refutes" if condition.refutes else "yet", condition)
    mend = mends()[cause.mend]
    yield f"\nMost it can gain: {gain_words(cause)}. Mend: {mend.advice}."
    for engine in ENGINES:
        flags = [flag for flag in mend.flags if flag.engine == engine]
        named = "; ".join(flag_words(flag) for flag in flags) or "no flag known"
        yield f"\n- {engine}: {named}"


def row(name: str, condition: Condition) -> str:
    """One condition as a row."""
    value = f"`{condition.value}`" if isinstance(condition.value, str) else f"{condition.value:g}"
    return f"| {name} | `{condition.figure}` | {condition.op} {value} | {condition.because} |"


def flag_words(flag: Flag) -> str:
    """A flag with its versions."""
    until = f"to {flag.last}" if flag.last else "on"
    note = f"; {flag.narrowed}" if flag.narrowed else ""
    default = f"; so by default from {flag.default} on" if flag.default else ""
    has = f" from {flag.first} {until}" if flag.where != "library" else ""
    return f"`{flag.flag}`{has} ({flag.does}{default}{note})"


def figure_tables() -> Iterator[str]:
    """The names of all figures."""
    rules = bundled("figures.toml")
    yield "\n## Figures\n"
    yield "`STAGE.MEASURE` or `STAGE.PART.MEASURE`, as `draft.host.share`:\n"
    for title, key in (("stage", "stages"), ("part", "parts"), ("measure", "measures")):
        yield f"| {title} | meaning |"
        yield "|---|---|"
        yield from (f"| `{name}` | {meaning} |" for name, meaning in rules[key].items())
        yield ""
    yield "| figure | unit | meaning | where not known |"
    yield "|---|---|---|---|"
    for one in rules["figure"]:
        word = words()[one["name"]]
        yield f"| `{word.name}` | {word.unit} | {word.meaning} | {word.ask} |"


def main() -> str:
    """The whole page."""
    lines = [HEAD, "## The causes"]
    for cause in causes():
        lines += cause_section(cause)
    lines.append("\nFlags were read in the sources of these versions; others are not shown:\n")
    lines += [f"- {engine} {', '.join(read_versions(engine))}" for engine in ENGINES]
    lines += figure_tables()
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(main(), end="")
