"""What a report shows, as grids and lines of clean text, before any medium draws it.

Every figure is in the report; the texts of traces go through `clean` here, once for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any, Final

from specscope.analyzers.report import ActivityRow, CycleRow, Report
from specscope.analyzers.shares import StageShare
from specscope.analyzers.words import STAGES
from specscope.dashboards.grid import Fact, Grid, Row
from specscope.dashboards.safe_text import NAME_LIMIT, clean
from specscope.dashboards.units import (
    UNKNOWN,
    count_text,
    range_text,
    share_text,
    size_text,
    spread,
    time_text,
)
from specscope.traces.run import Note

STAGE_NAMES: Final = {
    "verify": "verify+accept",
    "verify_only": "verify only",
    "draft_extend": "draft-extend",
}
CAUSE_MEANINGS: Final = {
    "host": "the host had not come to the launch yet",
    "sync": "the host was inside a synchronising call",
    "launch_call": "inside the launch call",
    "queue": "launched, not started: latency or another stream",
    "graph": "between the ops of one graph launch",
    "unknown": "ended by an op without a launch call",
}
# Smaller shares are not worth a line on a page; they are in the JSON report.
_SMALL_SHARE: Final = 0.0005
# Hidden collectives under this share of their stage are not worth a line.
_HIDDEN_SHARE: Final = 0.005
_MANY_LOSSES: Final = 5


def stage_name(stage: str) -> str:
    """The stage as it is called in print."""
    return STAGE_NAMES.get(stage, stage.replace("_", "-"))


def stage_names(report: Report) -> dict[str, str]:
    """What each stage of an op is called: `verify` alone only where accept is told apart."""
    apart = report.share("accept") is not None
    return {s: "verify" if apart and s == "verify" else stage_name(s) for s in STAGES}


def lap(report: Report) -> str:
    """What goes round: a cycle of speculation, or a step without it."""
    return "cycle" if report.speculates else "step"


def headline_rows(report: Report) -> tuple[StageShare, ...]:
    """The shares of the run in the order of the cycle, parts behind their stage."""
    return tuple(share for share in report.shares if share.rank is None)


def leading_cycles(report: Report) -> tuple[CycleRow, ...]:
    """Per rank the cycles that the headline speaks of."""
    return tuple(row for row in report.cycles if row.leads)


def rank_numbers(report: Report) -> tuple[int, ...]:
    """The ranks that have figures."""
    return tuple(row.rank for row in leading_cycles(report))


_CLOCKS = {"gpu": "", "host": " on the host", "cuda_events": " on the GPU, by CUDA events"}


def stage_grid(report: Report) -> Grid | None:
    """Work, collectives, idle and shares of each stage; None where there is nothing to share."""
    shares = headline_rows(report)
    if not shares:
        return None
    # A cycle log has no collectives: none on record is not none.
    is_log = "cycle_log" in report.tables
    if report.on_host:
        where = "on GPU" if report.clock == "cuda_events" else "on host"
        columns: tuple[str, ...] = ("stage", where, "collective", f"of {lap(report)}", "95 %")
        if is_log:
            columns = tuple(column for column in columns if column != "collective")
    else:
        columns = (
            "stage",
            "work",
            "collective",
            "idle",
            "total",
            f"of {lap(report)}",
            "95 %",
            "of busy",
        )
    rows = tuple(_stage_row(share, report.on_host, is_log) for share in shares)
    where = _CLOCKS[report.clock]
    return Grid(f"Where the {lap(report)} goes{where}: {_lengths(report)}", columns, rows)


def _stage_row(share: StageShare, on_host: bool, is_log: bool) -> Row:
    of_cycle = share.cycle_share
    interval = range_text(of_cycle.low, of_cycle.high)
    name = stage_name(share.stage)
    depth = 0 if share.part_of is None else 1
    if on_host:
        cells: tuple[str, ...] = (
            name,
            time_text(share.total_ns),
            *(() if is_log else (_collective(share),)),
            share_text(of_cycle.value),
            interval,
        )
    else:
        cells = (
            name,
            time_text(share.work_ns),
            _collective(share),
            time_text(share.idle_ns),
            time_text(share.total_ns),
            share_text(of_cycle.value),
            interval,
            share_text(share.busy_share.value if share.busy_share else None),
        )
    return Row(cells, share.stage, depth)


def _collective(share: StageShare) -> str:
    return time_text(share.collective_ns) if share.collectives_known else "not known"


def _lengths(report: Report) -> str:
    rows = leading_cycles(report)
    lengths = spread((row.median_ns for row in rows), time_text)
    cycles = spread(row.count for row in rows)
    ranks = f" on {len(rows)} ranks" if len(rows) > 1 else ""
    return f"{lengths}, medians of {cycles} {lap(report)}s{ranks}"


def unprofiled_lines(report: Report) -> list[str]:
    """What each stage takes of the cycle as it is without the profiler."""
    known = report.unprofiled
    if known is None:
        return []
    ranges = [
        f"{stage_name(share.stage)} {_of_corrected(report, share)}"
        for share in headline_rows(report)
        if share.unprofiled is not None and share.part_of is None
    ]
    found = report.corrected
    most = found.most if found is not None else None
    by = f", most of it by {most[0]} ({most[1] / 1e6:.2f} ms)" if most else ""
    lines = [
        f"Without the profiler a cycle takes {time_text(known.cycle_ns)} ({clean(known.source)}); "
        f"in the trace it takes {known.stretch:.2f} times that{by}."
    ]
    if not ranges:
        lines.append("The work as recorded exceeds it, so no share of it can be given.")
    elif most:
        lines.append(
            "Percent of that cycle, replayed without the profiler's cost (can be at all): "
            f"{', '.join(ranges)}."
        )
    else:
        lines.append(f"Percent of that cycle: {', '.join(ranges)}.")
        if found is not None and found.method == "simple" and found.stages:
            lines.append(
                "Predictions are of work as recorded and of idle in proportion to that recorded: "
                f"{clean(found.why)}."
            )
    return lines


def _of_corrected(report: Report, share: StageShare) -> str:
    """What the stage can be of the cycle without the profiler, behind what the replay says."""
    assert share.unprofiled is not None
    found = report.corrected
    part = found.part(share.stage) if found is not None and found.replayed is not None else None
    if found is None or part is None:
        return range_text(*share.unprofiled)
    return f"{100 * part.ns / found.cycle_ns:.1f} ({range_text(*share.unprofiled)})"


def below_the_stages(report: Report) -> list[str]:
    """What belongs to the table of the stages and has no column of its own."""
    return [*hidden_lines(report), *unprofiled_lines(report)]


def hidden_lines(report: Report) -> list[str]:
    """Collectives that ran behind compute, where they are more than a trace."""
    hidden = [
        f"{stage_name(share.stage)} {time_text(share.hidden_collective_ns)}"
        for share in headline_rows(report)
        if share.part_of is None
        and share.hidden_collective_ns >= _HIDDEN_SHARE * share.total_ns > 0
    ]
    if not hidden:
        return []
    return [f"Hidden behind compute, beside the collectives above: {', '.join(hidden)}."]


def rank_grids(report: Report, ranks_in_a_row: int) -> list[Grid]:
    """The ranks side by side, so many in one grid; none for one rank."""
    ranks = rank_numbers(report)
    if len(ranks) < 2:
        return []
    grids = []
    for first in range(0, len(ranks), ranks_in_a_row):
        some = ranks[first : first + ranks_in_a_row]
        title = f"Ranks side by side, share of the {lap(report)}" if not first else ""
        columns = ("", *(f"rank {rank}" for rank in some))
        grids.append(Grid(title, columns, tuple(_rank_rows(report, some))))
    return grids


def _rank_rows(report: Report, ranks: Sequence[int]) -> Iterable[Row]:
    lengths = {row.rank: row for row in leading_cycles(report)}
    yield Row((lap(report), *(time_text(lengths[rank].median_ns) for rank in ranks)))
    for headline in headline_rows(report):
        shares = [report.share(headline.stage, rank) for rank in ranks]
        depth = 0 if headline.part_of is None else 1
        cells = [share_text(s.cycle_share.value if s else None) for s in shares]
        yield Row((stage_name(headline.stage), *cells), headline.stage, depth)
        if depth == 0 and headline.collective_share >= _SMALL_SHARE:
            cells = [share_text(s.collective_share if s else None) for s in shares]
            yield Row(("of it collective", *cells), headline.stage, 1)
    yield Row((f"{lap(report)}s", *(count_text(lengths[rank].count) for rank in ranks)))


def activity_grid(report: Report, most: int) -> Grid | None:
    """The largest activities inside each stage, the rest counted."""
    rows = []
    for stage in dict.fromkeys(row.stage for row in report.activities):
        found = activities_of(report, stage)
        shown = [row for row in found[:most] if row.cycle_share >= _SMALL_SHARE] or found[:1]
        cells = [f"{row.activity.replace('_', ' ')} {share_text(row.cycle_share)}" for row in shown]
        cells += [""] * (most - len(cells))
        rest = len(found) - len(shown)
        told_apart = stage == "verify" and report.share("accept") is not None
        name = stage_name("verify_only" if told_apart else stage)
        rows.append(Row((name, *cells, f"+ {rest} more" if rest else ""), stage))
    if not rows:
        return None
    title = f"What the GPU does in each stage, share of the {lap(report)}"
    return Grid(title, ("", *[""] * most, ""), tuple(rows), left=most + 2)


def activities_of(report: Report, stage: str) -> list[ActivityRow]:
    """The activities of one stage, the largest first."""
    rows = [row for row in report.activities if row.stage == stage]
    return sorted(rows, key=lambda row: -row.ns)


def idle_grid(report: Report) -> Grid | None:
    """Idle by cause, the largest first; None where nothing idles or nothing is known."""
    rows = sorted(
        (row for row in report.idle if row.rank is None and row.cycle_share >= _SMALL_SHARE),
        key=lambda row: -row.ns,
    )
    if not rows or report.idle_share is None:
        return None
    every = report.idle_share
    title = f"Idle: {share_text(every.value)} of the {lap(report)}"
    interval = range_text(every.low, every.high)
    return Grid(
        title,
        ("cause", f"a {lap(report)}", "share", "meaning"),
        tuple(
            Row(
                (
                    row.cause.replace("_", " "),
                    time_text(row.ns),
                    share_text(row.cycle_share),
                    CAUSE_MEANINGS.get(row.cause, ""),
                )
            )
            for row in rows
        ),
        note=f"95 % {interval}" if interval != UNKNOWN else "",
        words_last=True,
    )


def other_cycles_grid(report: Report) -> Grid | None:
    """Cycles of other kinds and batch sizes, which the headline leaves out."""
    kept_out: dict[tuple[str, int | None], list[CycleRow]] = {}
    for row in report.cycles:
        if not row.leads:
            kept_out.setdefault((row.kind, row.batch), []).append(row)
    if not kept_out:
        return None
    rows = tuple(
        Row(
            (
                kind,
                UNKNOWN if batch is None else str(batch),
                spread(row.count for row in found),
                spread((row.median_ns for row in found), time_text),
            )
        )
        for (kind, batch), found in kept_out.items()
    )
    return Grid(
        "Other cycles, not in the figures above", ("kind", "batch", "count", "median"), rows
    )


def facts(report: Report) -> list[Fact]:
    """What is known of the server, and what is not."""
    known = report.facts
    beside = "say it in run.json beside the traces"
    engine = " ".join(clean(known[key], 60) for key in ("engine", "engine_version") if known[key])
    model = known.get("model")
    draft = known.get("draft_model")
    found = [
        Fact("engine", engine or None, beside),
        Fact("model", _known(model), beside),
        *([Fact("draft", _known(draft), beside)] if report.speculates else []),
        Fact("TP", _known(known.get("tp")), beside),
        Fact("batch", _known(known.get("batch")), beside),
        *([Fact("k", _known(known.get("k")), beside)] if report.speculates else []),
        Fact("GPUs", _known(known.get("gpus")), beside),
        Fact("links", _known(known.get("link")), beside),
    ]
    accept = known.get("accept_length")
    if report.speculates:
        how = " (simulated)" if known.get("simulated_acceptance") else ""
        text = f"{accept:.2f}{how}" if isinstance(accept, int | float) else None
        found.append(Fact("accept length", text, beside))
    rate = known.get("tokens_per_second")
    if isinstance(rate, int | float):
        found.append(Fact("without profiler", f"{rate:,.0f} tokens/s"))
    return found


def _known(value: Any) -> str | None:
    return None if value is None or value == "" else clean(value, 60)


def notes(report: Report) -> list[Note]:
    """The warnings, without what a table of its own says already."""
    has_table = other_cycles_grid(report) is not None
    return [note for note in report.warnings if not (has_table and note.code == "other_cycles")]


def coverage_lines(report: Report) -> list[str]:
    """Ops, what of their time is linked and placed, whole cycles, losses, evidence."""
    rows = report.coverage
    lines = []
    each = " a rank" if len(rows) > 1 else ""
    if rows and not report.on_host:
        text = f"{spread(row.ops for row in rows)} ops{each}"
        if any(row.linked_share is not None for row in rows):
            linked = spread((row.linked_share for row in rows), share_text)
            placed = spread((row.placed_share for row in rows), share_text)
            text += (
                f"; of GPU busy time {linked} is linked to a launch, "
                f"{placed} placed in a stage on evidence"
            )
        lines.append(text)
    if "cycle_log" in report.tables:
        lines.append(
            "a cycle log, no profiler: "
            + (
                "GPU times of sampled cycles by CUDA events"
                if report.clock == "cuda_events"
                else "times of each rank's thread on the host"
            )
        )
    elif report.on_host and not any(row.launches for row in rows):
        lines.append("a run on the CPU: time of each rank's main thread, nothing on a GPU")
    evidence = ", ".join(clean(word) for word in report.verdict.evidence)
    by = f", stages told by: {evidence}" if evidence else ""
    if rows:
        batch = report.facts.get("batch")
        # A rank without such a cycle ran at another batch.
        of = f" of batch {batch}" if batch and not min(row.cycles for row in rows) else ""
        lines.append(f"{spread(row.cycles for row in rows)} whole {lap(report)}s{of}{each}{by}")
    losses = sum(report.tables["losses"]["count"].to_pylist())
    lines.append(
        f"{count_text(losses)} losses in the input:" if losses else "no losses in the input"
    )
    return lines


def loss_lines(report: Report) -> list[str]:
    """What could not be read of the input, and what was done."""
    table = report.tables["losses"]
    if not table.num_rows:
        return []
    rows = table.slice(0, _MANY_LOSSES).to_pylist()
    lines = [
        f"{clean(row['source'], 60)}: {count_text(row['count'])} {clean(row['reason'], 60)}"
        + (f" at byte {count_text(row['offset'])}" if row["offset"] is not None else "")
        + f": {clean(row['action'], NAME_LIMIT)}"
        for row in rows
    ]
    rest = table.num_rows - len(rows)
    return [*lines, *([f"and {count_text(rest)} more (--json has all)"] if rest else [])]


def file_grid(report: Report) -> Grid | None:
    """The files that were read, under their common folder."""
    table = report.tables["sources"]
    if "path" not in table.column_names or not table.num_rows:
        return None
    sources = table.to_pylist()
    paths = [PurePath(row["path"]) for row in sources]
    together = len({path.parent for path in paths}) == 1
    names = [path.name if together else str(path) for path in paths]
    folder = str(paths[0].parent)
    rows = tuple(
        Row(
            (
                clean(name, NAME_LIMIT),
                UNKNOWN if row["rank"] is None else f"rank {row['rank']}",
                size_text(row["bytes"]),
                f"{count_text(row['events'])} events",
            )
        )
        for name, row in zip(names, sources, strict=True)
    )
    where = f" from {clean(folder, NAME_LIMIT)}" if together and folder != "." else ""
    return Grid(f"Files read{where}", ("", "", "", ""), rows)


def listed_lines(report: Report) -> list[str]:
    """The files that were found and left out."""
    return [clean(line, 200) for line in report.run.listed]


def is_withheld(report: Report) -> bool:
    """Is there no answer at all? Without speculation the sentence is the answer."""
    return report.verdict.withheld


def verdict_details(report: Report) -> list[str]:
    """What follows the headline, a line each."""
    verdict = report.verdict
    lines = [verdict.basis, *verdict.clauses, *verdict.claims]
    return [clean(line) for line in lines if line]


def recapture_lead(report: Report) -> str:
    """What the call of a recapture is for."""
    if is_withheld(report):
        return "A capture that would answer:"
    return "If this server was to speculate, capture it while it does:"


def confidence_line(report: Report) -> str:
    """How sure the verdict is, and why."""
    verdict = report.verdict
    return f"{clean(verdict.confidence)}: {clean(verdict.confidence_reason)}"
