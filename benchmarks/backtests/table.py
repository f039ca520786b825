"""The table of docs/backtests.md: what `whatif` predicted beside what was then measured.

table.py [--measured FOLDER...]: with folders, the measured cycles are first taken from their
meta.json into measured.json. Without, only the table is printed.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any, Final

HERE = Path(__file__).resolve().parent
PREDICTIONS, MEASURED = HERE / "predictions.json", HERE / "measured.json"

# Title of a part of the table: which rows are in it.
PARTS: Final = {
    "Steps, a verify's cost known at one width, written down before the recordings": "steps-before",
    "Steps of a mixture of experts, a verify's cost known at one width": "steps-moe",
    "Steps, a verify's cost measured at a second width (`--also`)": "steps-also",
    "Batch 1 to 8, a verify's cost measured at two widths (`--also`)": "batch",
    "Link against link, and custom against legacy all-reduce": "transfers",
}


def part_of(row: dict[str, Any]) -> str:
    """The part of the table that a prediction is in; empty: none."""
    if row["lever"] == "transfers-from":
        return "transfers"
    if row["lever"] == "batch":
        return "batch"
    if row["lever"] != "steps":
        return ""
    if row.get("also"):
        return "steps-also"
    return "steps-moe" if "-moe-" in row["source"] else "steps-before"


def take(folders: list[Path]) -> None:
    """Measured cycles without a profiler of every recording in the folders."""
    known: dict[str, Any] = json.loads(MEASURED.read_text("utf-8")) if MEASURED.is_file() else {}
    for folder in folders:
        for path in sorted(folder.glob("*/meta.json")):
            meta = json.loads(path.read_text("utf-8"))
            cycles = meta["unprofiled"]["all_mean_cycle_ms"]
            day = known.setdefault(folder.name, {})
            day[path.parent.name] = {
                "cycle_ms": meta["unprofiled"]["mean_cycle_ms"],
                "least_ms": min(cycles),
                "greatest_ms": max(cycles),
            }
    MEASURED.write_text(json.dumps(known, indent=1) + "\n", "utf-8")


def measured(name: str, days: dict[str, Any], day: str) -> dict[str, float] | None:
    """The measurement of a recording; of `day` where the name was recorded on several."""
    found = days.get(day, {}).get(name)
    return found or next((one[name] for one in days.values() if name in one), None)


def compared(row: dict[str, Any], days: dict[str, Any]) -> dict[str, Any] | None:
    """Predicted and measured change of the cycle, as fractions; None: not measured.

    Changes, not lengths: starts of one server differ by 2 to 10 %. The source of a steps or batch
    row is the same server on the day of the target.
    """
    day = "own" if row["lever"] == "transfers-from" else "of-the-day"
    source = measured(row["source"].removesuffix("-shapes"), days, day)
    target = measured(row["target"], days, day)
    if source is None or target is None or "change" not in row:
        return None
    low, high = row["change"]
    change = target["cycle_ms"] / source["cycle_ms"] - 1
    return {
        "low": low,
        "high": high,
        "measured": change,
        "error": (1 + (low + high) / 2) / (1 + change) - 1,
        "spread": target["greatest_ms"] / target["least_ms"] - 1,
    }


def lines(part: str, rows: list[dict[str, Any]], days: dict[str, Any]) -> list[str]:
    """One part as Markdown, with its median error."""
    found = [(row, one) for row in rows if part_of(row) == part and (one := compared(row, days))]
    if not found:
        return ["(nothing measured)"]
    out = [
        "| from | to | predicted | measured | error of the middle | repetitions apart |",
        "|---|---|---|---|---|---|",
    ]
    for row, one in found:
        low, high = f"{100 * one['low']:+.1f}", f"{100 * one['high']:+.1f}"
        between = f"{low} %" if low == high else f"{low} to {high} %"
        out.append(
            f"| {row['source']} | {row['target']} | {between} | {100 * one['measured']:+.1f} % | "
            f"{100 * one['error']:+.1f} % | {100 * one['spread']:.1f} % |"
        )
    errors = sorted(abs(one["error"]) for _, one in found)
    inside = sum(one["low"] - 0.005 <= one["measured"] <= one["high"] + 0.005 for _, one in found)
    out += [
        "",
        f"Median error {100 * statistics.median(errors):.1f} %, largest {100 * errors[-1]:.1f} %; "
        f"{inside} of {len(found)} measured changes lie inside the range (half a percent allowed).",
    ]
    return out


def table() -> str:
    """All parts."""
    rows = json.loads(PREDICTIONS.read_text("utf-8"))
    days = json.loads(MEASURED.read_text("utf-8"))
    return "\n".join(
        line
        for title, part in PARTS.items()
        for line in ("", f"## {title}", "", *lines(part, rows, days))
    )


def main() -> None:
    """Take measurements, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measured", nargs="*", type=Path, default=[])
    options = parser.parse_args()
    if options.measured:
        take(options.measured)
    print(table())


if __name__ == "__main__":
    main()
