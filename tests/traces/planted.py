"""What must not be in a copy, and where to look for it."""

from __future__ import annotations

import gzip
import re
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# Known by its shape; the next by its name only; the others name somebody.
TOKEN = "hf_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY"
SECRET = "zebra-horse-battery"
USER = "alicetest"
HOST = "gpu-node-77"
HOME = f"/home/{USER}"
ADDRESS = "10.20.30.40"
EMAIL = f"{USER}@example.com"
ALL = (TOKEN, SECRET, USER, HOST, ADDRESS, "example.com")

ENVIRONMENT = {
    "PATH": f"{HOME}/bin:/usr/bin",
    "HOME": HOME,
    "USER": USER,
    "HOSTNAME": f"{HOST}.corp.example.com",
    "WANDB_API_KEY": SECRET,
    "MASTER_ADDR": ADDRESS,
    "NCCL_DEBUG": "INFO",
}
# A text with all of them in it, as command lines and logs have them.
TEXT = f"{USER}@{HOST} --token {TOKEN} --key-file {HOME}/key {ADDRESS} {EMAIL} {SECRET}"


def found_in(path: Path) -> set[str]:
    """Which of them are in a file or folder: in its bytes, unpacked, and in what it says."""
    if path.is_dir():
        inside: set[str] = set()
        for child in path.rglob("*"):
            inside |= {word for word in ALL if word in child.name}
            inside |= found_in(child) if child.is_file() else set()
        return inside
    raw = path.read_bytes()
    texts = [raw]
    if raw.startswith(b"\x1f\x8b"):
        texts.append(gzip.decompress(raw))
    if raw.startswith(b"SQLite"):
        texts.append(repr(_rows(path)).encode())
    if raw.startswith(b"PAR1"):
        table = pq.read_table(path)
        texts.append(repr((table.to_pylist(), table.schema.to_string())).encode())
    if raw.startswith(b"\xff\xff\xff\xff"):
        table = pa.ipc.open_stream(raw).read_all()
        texts.append(repr((table.to_pylist(), table.schema.to_string())).encode())
    texts += [_unescaped(text) for text in texts]
    return {word for word in ALL if any(word.encode() in text for text in texts)}


def _unescaped(text: bytes) -> bytes:
    """With the escapes of JSON opened."""
    return re.sub(rb"\\u00([0-9a-fA-F]{2})", lambda match: bytes([int(match[1], 16)]), text)


def _rows(path: Path) -> list[Any]:
    with sqlite3.connect(path) as database:
        database.text_factory = bytes
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        found = [database.execute("SELECT * FROM sqlite_master").fetchall()]
        found += [
            database.execute(f'SELECT * FROM "{name.decode()}"').fetchall() for (name,) in names
        ]
    database.close()
    return found
