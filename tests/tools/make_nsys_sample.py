"""Makes tests/data/nsys-own-cpu from a report: three exports, without what is private.

    specscope record --delay 8 --duration 0.6 --out /tmp/made --no-analyze -- \\
        python tests/nsys_server.py /tmp/work
    python tests/tools/make_nsys_sample.py /tmp/made/report.nsys-rep NSYS

Only tables and rows that are named here are kept: the environment, the output of the program, host
and user, and other processes of the machine are in the others.
"""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq

PLACE: Final = Path(__file__).resolve().parents[1] / "data" / "nsys-own-cpu"
EVENTS: Final = "NVTX_EVENTS"
KEPT: Final = (
    *(EVENTS, "StringIds", "PROCESSES", "ThreadNames", "META_DATA_EXPORT", "META_DATA_CAPTURE"),
    *("TARGET_INFO_SESSION_START_TIME", "ANALYSIS_DETAILS", "ENUM_NSYS_EVENT_TYPE"),
    *("ENUM_NSYS_EVENT_CLASS", "ENUM_CUDA_MEMCPY_OPER"),
)
NEUTRAL: Final = re.compile(
    r"EXPORT_(PRODUCT_.*|SCHEMA_.*|PLATFORM|ARCH|TIME.*|CONFIG_.*|"
    r"PARAM_(OVERWRITE|APPEND|LAZY|TIME_.*|TABLES_.*|TIMES_.*))|"
    r"CAPTURE_EVENT_TYPE|(PROCESS_0:)?CUDA_GRAPH_TRACE_OPTIONS.*|.*TRACE_AFTER_FORK.*|"
    r"(PROCESS_0:)?COLLECT_\w+|CUDA_FLUSH_\w+|CUDA_TRACE_SCOPE|RUN_DURATION_MS|\w+_TRIGGER"
)
TEXTS: Final = {EVENTS: ("textId", "jsonTextId"), "ThreadNames": ("nameId",)}
PAGE: Final = 1024


def main(report: Path, nsys: str) -> None:
    """Make it."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        for kind in ("sqlite", "parquetdir", "arrowdir"):
            words = [nsys, "export", f"--type={kind}", "--quiet=true", f"--output={made / kind}"]
            subprocess.run([*words, str(report)], check=True, stdin=subprocess.DEVNULL)
        sample = PLACE / "sample.sqlite"
        clean_sqlite(made / "sqlite", sample)
        clean_folder(made / "parquetdir", PLACE / "sample_pqtdir", read_parquet, write_parquet)
        clean_folder(made / "arrowdir", PLACE / "sample_arwdir", read_stream, write_stream)
    expected = json.dumps(expected_of(sample), indent=1) + "\n"
    (PLACE / "expected.json").write_text(expected, "utf-8")


def clean_sqlite(source: Path, target: Path) -> None:
    """The same file with what is kept, in small pages."""
    target.unlink(missing_ok=True)
    connection = sqlite3.connect(source)
    run = connection.execute
    tables = [name for (name,) in run("select name from sqlite_master where type = 'table'")]
    for name in tables:
        if name not in KEPT:
            run(f'drop table "{name}"')
    run(
        f"delete from PROCESSES where globalPid >> 24 not in "
        f"(select globalTid >> 24 from {EVENTS} where globalTid is not null)"
    )
    run("update PROCESSES set name = 'python'")
    run(f"delete from ThreadNames where globalTid not in (select globalTid from {EVENTS})")
    for name in ("META_DATA_EXPORT", "META_DATA_CAPTURE"):
        for (key,) in run(f"select distinct name from {name}").fetchall():
            if not NEUTRAL.fullmatch(key):
                run(f"delete from {name} where name = ?", (key,))
    used = " union ".join(
        f"select {column} from {table} where {column} is not null"
        for table, columns in TEXTS.items()
        for column in columns
    )
    run(f"delete from StringIds where id not in ({used})")
    connection.commit()
    run(f"pragma page_size = {PAGE}")
    run("vacuum into ?", (str(target),))
    connection.close()


def clean_folder(source: Path, target: Path, read: Any, write: Any) -> None:
    """The same folder with what is kept; files without private rows stay as nsys wrote them."""
    target.mkdir(exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    files = {file.stem: file for file in source.iterdir()}
    tables = {name: read(file) for name, file in files.items() if name in KEPT}
    threads = set(tables[EVENTS]["globalTid"].to_pylist()) - {None}
    own = {thread >> 24 for thread in threads}
    changed = {
        "PROCESSES": [pid >> 24 in own for pid in tables["PROCESSES"]["globalPid"].to_pylist()],
        "ThreadNames": [tid in threads for tid in tables["ThreadNames"]["globalTid"].to_pylist()],
        "META_DATA_EXPORT": [
            bool(NEUTRAL.fullmatch(key)) for key in names_of(tables.get("META_DATA_EXPORT"))
        ],
        "META_DATA_CAPTURE": [
            bool(NEUTRAL.fullmatch(key)) for key in names_of(tables.get("META_DATA_CAPTURE"))
        ],
    }
    for name, keep in changed.items():
        if name in tables:
            tables[name] = tables[name].filter(pa.array(keep, pa.bool_()))
    place = tables["PROCESSES"].schema.get_field_index("name")
    bare = pc.if_else(pc.is_valid(tables["PROCESSES"]["name"]), "python", None)
    tables["PROCESSES"] = tables["PROCESSES"].set_column(
        place, tables["PROCESSES"].schema.field(place), bare.cast(pa.string())
    )
    used = {
        number
        for name, columns in TEXTS.items()
        for column in columns
        for number in tables[name][column].to_pylist()
    }
    ids = tables["StringIds"]["id"].to_pylist()
    tables["StringIds"] = tables["StringIds"].filter(pa.array([one in used for one in ids]))
    for name, table in tables.items():
        file = target / files[name].name
        if name in changed or name == "StringIds":
            write(table, file)
        else:
            file.write_bytes(files[name].read_bytes())


def names_of(table: pa.Table | None) -> list[str]:
    """The keys of a table of settings."""
    return [] if table is None else list(table["name"].to_pylist())


def read_parquet(file: Path) -> pa.Table:
    """A table of the folder of Parquet files."""
    return pq.read_table(file)


def write_parquet(table: pa.Table, file: Path) -> None:
    """As nsys writes it: nothing is compressed."""
    pq.write_table(table, file, compression="none", row_group_size=2048)


def read_stream(file: Path) -> pa.Table:
    """A table of the folder of Arrow streams."""
    with pa.ipc.open_stream(file) as reader:
        return reader.read_all()


def write_stream(table: pa.Table, file: Path) -> None:
    """As nsys writes it: a stream, with the description of each field."""
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def expected_of(sample: Path) -> dict[str, Any]:
    """What a reader must find, by plain SQL."""
    connection = sqlite3.connect(sample)
    rows = connection.execute(
        f"select n.globalTid >> 24 & 16777215, s.value, n.int64Value, n.start, n.end "
        f"from {EVENTS} n join StringIds s on s.id = n.textId "
        "where n.eventType = 59 order by n.start"
    ).fetchall()
    workers: dict[int, Any] = defaultdict(lambda: {"ranges": Counter(), "total_ns": Counter()})
    for pid, text, payload, start, end in rows:
        worker = workers[pid]
        worker["ranges"][text] += 1
        worker["total_ns"][text] += end - start if end is not None else 0
        if text.startswith("cycle"):
            worker.setdefault("first_cycle", payload)
            worker["last_cycle"] = payload
    (epoch,) = connection.execute(
        "select utcEpochNs from TARGET_INFO_SESSION_START_TIME"
    ).fetchone()
    connection.close()
    return {
        "domain": "specscope",
        "push_pop_ranges": len(rows),
        "session_start_utc_ns": epoch,
        "workers": {str(pid): worker for pid, worker in sorted(workers.items())},
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
