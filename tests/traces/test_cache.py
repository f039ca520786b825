"""The cache gives what was read, survives damage and neighbours, and stays within its bound."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from specscope.traces import cache, schema
from specscope.traces import load as load_module
from specscope.traces.events import ScanOptions
from specscope.traces.load import load
from specscope.traces.run import RankTables
from tests.traces.small import write_trace

OPTIONS = ScanOptions()


@pytest.fixture(autouse=True)
def small_files_too(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(cache, "MIN_FILE_BYTES", 0)
    yield


@pytest.fixture
def ranks(tmp_path: Path) -> list[RankTables]:
    return list(load(write_trace(tmp_path, "rank0.json"), cache=False).ranks)


def entries() -> list[Path]:
    return sorted(cache.folder().iterdir())


def same(a: RankTables, b: RankTables) -> bool:
    tables = all(getattr(a, name).equals(getattr(b, name)) for name in schema.TABLES)
    return tables and a.facts == b.facts and a.rank == b.rank


def test_what_was_put_comes_back_equal_with_its_schema(ranks: list[RankTables]) -> None:
    assert cache.put("k", ranks)
    found = cache.get("k")
    assert found is not None
    assert len(found) == 1
    assert same(ranks[0], found[0])
    for name, wanted in schema.TABLES.items():
        assert getattr(found[0], name).schema.equals(wanted, check_metadata=True)


def test_tables_of_many_row_groups_come_back_equal(ranks: list[RankTables]) -> None:
    big = pa.concat_tables([ranks[0].ops] * 300_000).combine_chunks()
    assert big.num_rows > 1 << 20
    assert cache.put("k", [replace(ranks[0], ops=big)])
    found = cache.get("k")
    assert found is not None
    assert found[0].ops.equals(big)
    assert found[0].ops["name"].num_chunks == 1


def test_an_unknown_key_gives_nothing() -> None:
    assert cache.get("unknown") is None


def test_load_reads_the_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_trace(tmp_path, "rank0.json")
    first = load(path)
    monkeypatch.setattr(load_module, "read_file", None)
    second = load(path)
    assert same(first.ranks[0], second.ranks[0])
    assert first.notes == second.notes


def test_without_cache_nothing_is_written(tmp_path: Path) -> None:
    load(write_trace(tmp_path, "rank0.json"), cache=False)
    assert entries() == []


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = write_trace(tmp_path, "rank0.json")
    before = load(path)
    write_trace(tmp_path, "rank0.json", mark="step[DECODE bs=1]")
    after = load(path)
    assert before.ranks[0].ranges["name"].to_pylist() != after.ranks[0].ranges["name"].to_pylist()


def test_every_option_that_changes_the_tables_has_its_own_entry(tmp_path: Path) -> None:
    path = write_trace(tmp_path, "rank0.json")
    content = cache.fingerprint(path)
    options = [
        OPTIONS,
        replace(OPTIONS, all_frames=True),
        replace(OPTIONS, frame_needles=(b"x",)),
        replace(OPTIONS, max_text_bytes=1),
    ]
    keys = {cache.key(path, content, option, "native") for option in options}
    keys.add(cache.key(path, content, OPTIONS, "pure"))
    assert len(keys) == 5
    threads = replace(OPTIONS, threads=1)
    assert cache.key(path, content, threads, "pure") == cache.key(path, content, OPTIONS, "pure")


def test_the_fingerprint_sees_head_tail_and_size(tmp_path: Path) -> None:
    path = tmp_path / "x"
    seen = set()
    for head, size, tail in ((b"a", 300_000, b"a"), (b"b", 300_000, b"a"), (b"a", 300_000, b"b")):
        path.write_bytes(head + bytes(size) + tail)
        seen.add(cache.fingerprint(path))
    path.write_bytes(b"a" + bytes(300_001) + b"a")
    seen.add(cache.fingerprint(path))
    assert len(seen) == 4


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut table": lambda entry: os.truncate(entry / "0-ops.parquet", 200),
    "flipped byte": lambda entry: flip(entry / "0-ops.parquet"),
    "lost table": lambda entry: (entry / "0-calls.parquet").unlink(),
    "lost description": lambda entry: (entry / "entry.json").unlink(),
    "broken description": lambda entry: (entry / "entry.json").write_text("{"),
    "foreign description": lambda entry: (entry / "entry.json").write_text("[1]"),
    "empty description": lambda entry: (entry / "entry.json").write_text(""),
    "foreign table": lambda entry: swap(entry / "0-ops.parquet", entry / "0-calls.parquet"),
}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF
    path.write_bytes(data)


def swap(a: Path, b: Path) -> None:
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_entry_is_thrown_away_and_built_again(
    kind: str, tmp_path: Path, ranks: list[RankTables]
) -> None:
    path = write_trace(tmp_path, "rank0.json")
    load(path)
    (entry,) = entries()
    DAMAGE[kind](entry)
    assert same(load(path).ranks[0], ranks[0])
    (rebuilt,) = entries()
    assert cache.get(rebuilt.name) is not None


def test_entries_are_for_the_user_alone(ranks: list[RankTables]) -> None:
    cache.put("k", ranks)
    (entry,) = entries()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in entry.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(entry.stat().st_mode) == 0o700


def test_a_new_cache_folder_is_for_the_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: list[RankTables]
) -> None:
    monkeypatch.setenv("SPECSCOPE_CACHE_DIR", str(tmp_path / "new" / "cache"))
    cache.put("k", ranks)
    assert stat.S_IMODE(cache.folder().stat().st_mode) == 0o700


def test_the_entry_used_longest_ago_goes_first(
    monkeypatch: pytest.MonkeyPatch, ranks: list[RankTables]
) -> None:
    cache.put("a", ranks)
    size = sum(file.stat().st_size for file in (cache.folder() / "a").iterdir())
    cache.put("b", ranks)
    for name, used in (("a", 1000), ("b", 2000)):
        os.utime(cache.folder() / name, (used, used))
    assert cache.get("a") is not None, "reading makes it the newest"
    monkeypatch.setenv("SPECSCOPE_CACHE_BYTES", str(int(size * 2.5)))
    cache.put("c", ranks)
    assert [entry.name for entry in entries()] == ["a", "c"]


def test_an_entry_larger_than_the_bound_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, ranks: list[RankTables]
) -> None:
    monkeypatch.setenv("SPECSCOPE_CACHE_BYTES", "100")
    cache.put("k", ranks)
    assert entries() == []


def test_leftovers_of_killed_writers_are_removed_when_they_are_old(
    ranks: list[RankTables],
) -> None:
    cache.folder().mkdir(exist_ok=True)
    stale, fresh = cache.folder() / "writing-old", cache.folder() / "writing-new"
    for place in (stale, fresh):
        place.mkdir()
    old = time.time() - 2 * cache.STALE_SECONDS
    os.utime(stale, (old, old))
    cache.put("k", ranks)
    assert [entry.name for entry in entries()] == ["k", "writing-new"]


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: list[RankTables]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("SPECSCOPE_CACHE_DIR", str(blocked / "cache"))
    assert cache.put("k", ranks) is False
    assert same(load(write_trace(tmp_path, "rank0.json")).ranks[0], ranks[0])


def test_a_bound_that_is_no_number_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECSCOPE_CACHE_BYTES", "much")
    assert cache.max_bytes() == cache.DEFAULT_MAX_BYTES


def test_readers_and_writers_at_once_see_all_or_nothing(ranks: list[RankTables]) -> None:
    wrong: list[str] = []
    stop = time.monotonic() + 1.5

    def work(number: int) -> None:
        while time.monotonic() < stop:
            if number % 2:
                cache.put("k", ranks)
                if number == 3:
                    cache.clear()
            else:
                found = cache.get("k")
                if found is not None and not same(found[0], ranks[0]):
                    wrong.append("different")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    cache.put("k", ranks)
    assert cache.get("k") is not None


def test_clear_removes_every_entry(ranks: list[RankTables]) -> None:
    cache.put("a", ranks)
    cache.put("b", ranks)
    cache.clear()
    assert entries() == []
