"""Writes docs/tables.md from the schemas: `python docs/make_tables.py > docs/tables.md`."""

from __future__ import annotations

import pyarrow as pa

from specscope.traces.schema import CYCLE_LOG, DERIVED, GRAPHS, GROUP, SCHEMA_VERSION, TABLES

HEAD = f"""# Tables

Schema version {SCHEMA_VERSION}. `analyze PATH --parquet DIR` writes each as one file, over all
ranks; `report.tables[NAME]` gives them as `pyarrow.Table`, `.to_pandas()` as a frame.

Times are integer nanoseconds of each file's own clock. To compare the times of two files, add
`sources.clock_base_ns` of each. Words are dictionary-encoded. Names of ops, calls and ranges
come from the trace and may hold anything: treat them as hostile text.

`cycle_log` is there when a [cycle log](cycle_log.md) was read; then `ops`, `calls` and `ranges`
are empty. `captured_graphs` and `graph_nodes` are there when capture traces were given
([graphs.md](graphs.md)). `rank_clocks`, `rank_stages`, `matched_collectives` and `critical_path`
are there when the collectives of several ranks matched ([ranks.md](ranks.md)); their times are on
the clock of the first rank's file, or of the first rank of the row's process group.

`rank` is added to the tables that are read from a file; `stage` and `activity` (words) to `ops`.
"""


def rows(name: str, schema: pa.Schema) -> str:
    """One table as Markdown."""
    lines = [f"\n## {name}\n", "| column | type | may be null | meaning |", "|---|---|---|---|"]
    for field in schema:
        kind = "word" if pa.types.is_dictionary(field.type) else str(field.type)
        null = "yes" if field.nullable else ""
        meaning = (field.metadata or {}).get(b"doc", b"").decode()
        lines.append(f"| `{field.name}` | {kind} | {null} | {meaning} |")
    return "\n".join(lines) + "\n"


_ALL = {**TABLES, **DERIVED, "cycle_log": CYCLE_LOG, **GRAPHS, **GROUP}


def main() -> str:
    """The whole page."""
    return HEAD + "".join(rows(name, schema) for name, schema in _ALL.items())


if __name__ == "__main__":
    print(main(), end="")
