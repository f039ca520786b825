"""Predictions of `whatif`, written down before the recordings that test them.

predict.py FOLDER... [--out predictions.json]: FOLDERs hold recordings by name; what is predicted
of which stands in plan.toml. A prediction whose source is not there yet is left out, one that is
written down already is not made anew.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.report import Report
from specscope.analyzers.whatif import Asked, WhatIf, whatif
from specscope.measured_inputs import read
from specscope.measured_options import Measured
from specscope.traces.load import load

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
PREDICTIONS = HERE / "predictions.json"


def recording(name: str, folders: list[Path]) -> Path | None:
    """The folder of that recording, where it is at hand."""
    return next(
        (folder / name for folder in folders if (folder / name / "meta.json").is_file()), None
    )


def report_of(path: Path, baseline: Path | None = None, also: Sequence[Path] = ()) -> Report:
    """The report of a recording as `whatif` reads it."""
    given = Measured(baseline=str(baseline) if baseline else None, also=tuple(map(str, also)))
    return analyze(load([str(path)]), Options(inputs=read(given)))


def planned() -> Iterator[dict[str, Any]]:
    """One row a value of every prediction."""
    plan = tomllib.loads((HERE / "plan.toml").read_text("utf-8"))
    for row in plan["prediction"]:
        for value in row["values"]:
            yield {**row, "value": value, "target": row["target"].format(value=value)}


def predicted(row: dict[str, Any], folders: list[Path]) -> dict[str, Any] | None:
    """The prediction of one row; None where a recording that it needs is not at hand."""
    # `today`: the name is in several folders, and that of the last one is meant.
    places = folders[::-1] if row.get("today") else folders
    transfers_from = [row["value"]] if row["lever"] == "transfers-from" else []
    needed = [row["source"], *([row["baseline"]] if "baseline" in row else [])]
    found = [recording(name, places) for name in (*needed, *row.get("also", ()), *transfers_from)]
    there = [path for path in found if path is not None]
    if len(there) < len(found):
        return None
    transfers = report_of(there[-1]) if transfers_from else None
    baseline = there[1] if "baseline" in row else None
    also = there[len(needed) : len(there) - len(transfers_from)]
    value = 1.0 if transfers_from else float(row["value"])
    asked = Asked(((row["lever"], value),), transfers, str(row["value"]))
    return _written(row, whatif(report_of(there[0], baseline, also), asked))


def _written(row: dict[str, Any], found: WhatIf) -> dict[str, Any]:
    shown = ("source", "baseline", "also", "today", "lever", "value", "target")
    keys = {key: row[key] for key in shown if key in row}
    if found.refused or not found.asked or found.asked[0].cycle_ns is None:
        why = [*found.refused, *(one.refused for one in found.asked if one.refused)]
        return {**keys, "refused": why}
    assert found.corrected is not None
    low, high = found.asked[0].cycle_ns
    now = found.corrected.cycle_ns
    return {
        **keys,
        "now_ms": round(now / 1e6, 3),
        "cycle_ms": [round(low / 1e6, 3), round(high / 1e6, 3)],
        "change": [round(low / now - 1, 4), round(high / now - 1, 4)],
    }


def _name(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["source"], row["lever"], row["target"], tuple(row.get("also", ()))


def main() -> None:
    """Add what can be predicted now to the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=PREDICTIONS)
    options = parser.parse_args()
    known = json.loads(options.out.read_text("utf-8")) if options.out.is_file() else []
    made = {_name(one) for one in known}
    for row in planned():
        if _name(row) in made:
            continue
        found = predicted(row, options.folders)
        if found is not None:
            known.append(found)
            print(json.dumps(found))
    options.out.write_text(json.dumps(known, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
