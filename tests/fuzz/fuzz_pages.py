"""Damaged SQLite files through the native reader of pages and through SQL, which must agree.

    python -m tests.fuzz.fuzz_pages --runs 2000 --seed 1

The native reader may leave a table to SQL (OddError); what it reads itself must be what SQL reads,
where SQL reads anything. A file that breaks the rule is written to --out.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import sys
import tempfile
from pathlib import Path

import numpy as np

from specscope.traces import _pages

KINDS = bytes([1, 1, 2, 1, 0, 2])
ABSENT = -(1 << 63)
MARKS, SUFFIX = (", seq = ", ", op_id = "), ", op_id"
Rows = list[tuple[object, ...]]


def sound(path: Path, chance: random.Random) -> None:
    """A database with a table of every kind of value, and its tree of several levels."""
    page = chance.choice((512, 1024, 4096))
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA page_size = {page}")
    connection.execute("CREATE TABLE other (x)")
    connection.execute("CREATE TABLE t (a INTEGER, b INTEGER, c TEXT, d, e, f TEXT)")
    texts = ["", "a", "aten::mm, op_id = 7", "x, seq = 1, op_id = 2", "é" * 30, "long " * 400, None]
    for number in range(chance.randint(0, 900)):
        value = chance.choice(
            (0, 1, -1, 127, 128, 1 << 31, -(1 << 40), (1 << 63) - 1, None, number)
        )
        row = (number, value, chance.choice(texts), number % 3, b"blob" * 3, chance.choice(texts))
        connection.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", row)
        if number % 7 == 0:
            connection.execute("INSERT INTO other VALUES (?)", (number,))
    if chance.random() < 0.3:
        connection.execute("DELETE FROM t WHERE a % 5 = 0")
    connection.commit()
    connection.close()


def damaged(raw: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, runs of them copied, or the end cut off."""
    data = bytearray(raw)
    for _ in range(chance.randint(0, 12)):
        at = chance.randrange(len(data))
        how = chance.random()
        if how < 0.6:
            data[at] = chance.choice((0, 1, 5, 13, 127, 128, 255, chance.randrange(256)))
        elif how < 0.9:
            length = chance.randint(1, 64)
            source = chance.randrange(len(data))
            data[at : at + length] = data[source : source + length][: len(data) - at]
        else:
            at = chance.randrange(min(len(data), 100))
            data[at] = chance.randrange(256)
    if chance.random() < 0.1:
        del data[chance.randrange(len(data)) :]
    return bytes(data)


def by_pages(path: Path, root: int) -> Rows | None:
    """The rows as the native reader has them; None where it leaves them to SQL."""
    file = os.open(path, os.O_RDONLY)
    try:
        marks = tuple(mark.encode() for mark in MARKS)
        count, columns = _pages.read(file, root, KINDS, marks, SUFFIX.encode())
    except _pages.OddError:
        return None
    finally:
        os.close(file)
    values: list[list[object]] = []
    for column in columns:
        if isinstance(column, tuple):
            codes, words = column
            texts = np.frombuffer(codes, np.int32).tolist()
            values.append([None if code < 0 else words[code] for code in texts])
        else:
            numbers = np.frombuffer(column, np.int64).tolist()
            values.append([None if number == ABSENT else number for number in numbers])
    assert all(len(column) == count for column in values)
    return list(zip(*values, strict=True))


def cut(text: object) -> object:
    """What stays of a text."""
    if isinstance(text, str):
        for mark in MARKS:
            kept, found, _ = text.partition(mark)
            if found:
                return kept + SUFFIX
    return text


def by_sql(path: Path) -> Rows | None:
    """The rows as SQL has them; None where it fails."""
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        try:
            rows = connection.execute("SELECT a, b, c, d, f FROM t ORDER BY rowid").fetchall()
        finally:
            connection.close()
    except (sqlite3.Error, UnicodeDecodeError):
        return None
    return [(a, b, cut(c), d, cut(f)) for a, b, c, d, f in rows]


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description="Fuzz the native reader of SQLite pages.")
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fuzz-fault.sqlite"))
    options = parser.parse_args()
    chance = random.Random(options.seed)
    alike = odd = other = 0
    with tempfile.TemporaryDirectory() as folder:
        source, path = Path(folder) / "sound.sqlite", Path(folder) / "damaged.sqlite"
        for number in range(options.runs):
            if number % 20 == 0:
                source.unlink(missing_ok=True)
                sound(source, chance)
                raw = source.read_bytes()
                root = (
                    sqlite3.connect(source)
                    .execute("SELECT rootpage FROM sqlite_master WHERE name = 't'")
                    .fetchone()[0]
                )
            path.write_bytes(damaged(raw, chance))
            options.out.write_bytes(path.read_bytes())  # what is there when the process dies
            native = by_pages(path, root)
            if native is None:
                odd += 1
                continue
            told = by_sql(path)
            if told is None:
                other += 1
            elif told != native:
                print(
                    f"run {number}: {len(native)} rows by pages, {len(told)} by SQL",
                    file=sys.stderr,
                )
                return 1
            else:
                alike += 1
        options.out.unlink()
    print(f"{options.runs} files: {alike} alike, {odd} left to SQL, {other} that SQL cannot read")
    return 0 if alike else 1


if __name__ == "__main__":
    sys.exit(main())
