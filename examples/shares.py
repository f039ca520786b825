"""Shares of the cycle, and the collectives of each stage, from Python.

python examples/shares.py examples/tp2-70b-eagle3
"""

from __future__ import annotations

import sys
from collections import defaultdict

import pyarrow.compute as pc

import specscope


def main(paths: list[str]) -> None:
    """Print what each stage takes, and how long its longest collective is."""
    report = specscope.analyze(specscope.load(paths))
    print(report.verdict.sentence)
    for share in report.shares:
        if share.rank is None:  # over the ranks
            print(f"{share.stage:12} {share.cycle_share.value:6.1%} of the cycle")

    ops = report.tables["ops"]
    lengths_ns = defaultdict(list)
    for op in ops.filter(pc.equal(ops["activity"].cast("string"), "collective")).to_pylist():
        lengths_ns[op["stage"]].append(op["end_ns"] - op["start_ns"])
    for stage, lengths in lengths_ns.items():
        print(f"{stage:12} {len(lengths):5} collectives, the longest {max(lengths) / 1e3:,.0f} us")


if __name__ == "__main__":
    main(sys.argv[1:])
