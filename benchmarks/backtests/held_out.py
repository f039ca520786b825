"""The cycle without the profiler, against CUDA events of servers that the method never saw.

held_out.py RECORDINGS EVENTS: folders of recordings (NAME/) and of event times
(events-SERVER/events-bsB-gpuN.json, one object a cycle). Prints a Markdown table: the corrected
time of each stage, and two simple rules, beside the events. The cycle of the events is the
reference; the method was chosen on other recordings, with 3 draft steps.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from specscope.analyzers import replay_graph
from specscope.analyzers.analyze import analyze
from specscope.analyzers.perturbation import correct
from specscope.analyzers.report import Report
from specscope.traces.load import load

STAGES: Final = ("draft", "verify", "draft_extend")
_SERVER: Final = re.compile(r"events-(tp\d+-\w+)-k(\d+)-(\w+)\Z")
_WARM: Final = 5  # cycles of a server that warms up


def truth_of(folder: Path, batch: int) -> dict[str, float]:
    """Medians over cycles, means over ranks, in milliseconds."""
    keys = ("cycle_ms", *(f"{stage}_ms" for stage in STAGES))
    ranks = []
    for path in sorted(folder.glob(f"events-bs{batch}-gpu*.json")):
        rows = json.loads(path.read_text("utf-8"))[_WARM:]
        ranks.append([np.median([row[key] for row in rows]) for key in keys])
    return dict(zip(("cycle", *STAGES), np.mean(ranks, axis=0).tolist(), strict=True))


def guesses(report: Report, cycle_ms: float) -> dict[str, dict[str, float] | str]:
    """The three ways, in milliseconds; a text where a way says that it cannot."""
    built = replay_graph.build(report)
    if isinstance(built, str):
        return {"replay": built}
    one = correct(built, (cycle_ms * 1e6, "events"))
    rows = [row for row in report.shares if row.rank is None and row.part_of is None]
    by_name = {row.stage: row for row in rows}
    cycle = one.profiled_ns / 1e6
    work = sum(row.work_share for row in rows) * cycle
    kept = (cycle_ms - work) / (sum(row.idle_share for row in rows) * cycle)
    return {
        "replay": {stage: (one.stage_ns(stage) or 0) / 1e6 for stage in STAGES}
        if one.state != "other_server"
        else one.state,
        "shares": {stage: by_name[stage].cycle_share.value * cycle_ms for stage in STAGES},
        "even idle": {
            stage: (by_name[stage].work_share + kept * by_name[stage].idle_share) * cycle
            for stage in STAGES
        },
    }


def compared(recordings: Path, events: Path) -> Iterator[tuple[str, dict[str, float], dict]]:
    """Name, the events' times and the guesses of each recording that has events."""
    for folder in sorted(events.iterdir()):
        match = _SERVER.fullmatch(folder.name)
        if match is None:
            continue
        for batch in (1, 8):
            name = f"{match[1]}-eagle3-k{match[2]}-{match[3]}-bs{batch}"
            if not (recordings / name).is_dir():
                continue
            truth = truth_of(folder, batch)
            yield name, truth, guesses(analyze(load([str(recordings / name)])), truth["cycle"])


def main() -> None:
    """Print the table and the mean errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", type=Path)
    parser.add_argument("events", type=Path)
    options = parser.parse_args()
    print("| recording | cycle ms | stage | events | replay | shares | even idle |")
    print("|---|---|---|---|---|---|---|")
    errors: dict[tuple[str, str], list[float]] = {}
    for name, truth, found in compared(options.recordings, options.events):
        for stage in STAGES:
            cells = []
            for way in ("replay", "shares", "even idle"):
                guess = found.get(way, "-")
                if isinstance(guess, str):
                    cells.append(guess)
                    continue
                cells.append(f"{guess[stage]:.2f}")
                errors.setdefault((way, stage), []).append(guess[stage] - truth[stage])
            print(
                f"| {name} | {truth['cycle']:.2f} | {stage} | {truth[stage]:.2f} | "
                f"{' | '.join(cells)} |"
            )
    print()
    print("| stage | " + " | ".join(way for way in ("replay", "shares", "even idle")) + " |")
    print("|---|---|---|---|")
    for stage in STAGES:
        means = [np.mean(np.abs(errors[way, stage])) for way in ("replay", "shares", "even idle")]
        print(f"| {stage}, mean error ms | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")


if __name__ == "__main__":
    main()
