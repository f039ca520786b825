"""Writes the tables in docs/dataset.md from their schemas: `python docs/make_dataset.py`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from specscope.traces.schema_findings import FINDINGS

PAGE = Path(__file__).with_name("dataset.md")
TITLE = "### "


def rows(name: str, schema: pa.Schema) -> str:
    """One table as Markdown."""
    lines = [f"{TITLE}{name}\n", "| column | type | may be null | meaning |", "|---|---|---|---|"]
    for field in schema:
        meaning = (field.metadata or {}).get(b"doc", b"").decode()
        null = "yes" if field.nullable else ""
        lines.append(f"| `{field.name}` | {field.type} | {null} | {meaning} |")
    return "\n".join(lines) + "\n"


def main() -> str:
    """The whole page, with the tables as the schemas have them now."""
    text = PAGE.read_text("utf-8").split(f"\n{TITLE}")[0].rstrip("\n")
    return text + "\n\n" + "\n".join(rows(name, schema) for name, schema in FINDINGS.items())


if __name__ == "__main__":
    PAGE.write_text(main(), "utf-8")
