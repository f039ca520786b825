"""A sweep that goes on in a folder: what is kept, what is taken again, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from specscope.profiler import sweep_file
from specscope.profiler.server_errors import UnsuitableError
from specscope.profiler.sweep import sweep
from tests.profiler.fake_servers import FakeSglang
from tests.profiler.sweeps import COMMAND, LOAD, PROGRAM, by_setting, options


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers of the fakes ignore SIGTERM, all of them."""
    monkeypatch.setattr("specscope.profiler.server_process.TERM_SECONDS", 0.5)


def test_rows_with_figures_are_kept_and_failed_ones_tried_again(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    script = tmp_path / "serve.sh"
    script.write_text(
        f'#!/bin/sh\nif [ -e {flag} ] && [ "$2" = 2 ]; then echo "ValueError: no"; exit 1; fi\n'
        f'exec {PROGRAM} --port "$1" --steps "$2"\n'
    )
    command = f"sh {script} {{port}} {{steps}}"
    first = by_setting(sweep(options(tmp_path, command, profile=False)))
    flag.unlink()
    second = by_setting(sweep(options(tmp_path, command, steps=(1, 2, 3), profile=False)))
    assert second[1, 1] == first[1, 1]
    assert first[2, 1]["tokens_per_second"] is None
    assert second[2, 1]["tokens_per_second"] is not None
    assert second[3, 1]["tokens_per_second"] is not None


def test_a_changed_command_is_refused_in_words(tmp_path: Path) -> None:
    sweep(options(tmp_path, steps=(1,), profile=False))
    with pytest.raises(UnsuitableError, match="of another --command"):
        sweep(options(tmp_path, f"{COMMAND} --cycle 0.001", profile=False))
    with pytest.raises(UnsuitableError, match="of another --tokens"):
        sweep(options(tmp_path, profile=False, load={**LOAD, "tokens": 64}))


def test_another_key_is_the_same_command(tmp_path: Path) -> None:
    for key in ("first-key-123", "second-key-456"):
        load = {**LOAD, "api_key": key}
        done = sweep(options(tmp_path, f"{COMMAND} --api-key {key}", steps=(1,), load=load))
        assert done["rows"][0]["reason"] is None
    everything = "".join(
        path.read_bytes().decode("latin-1") for path in (tmp_path / "out").rglob("*.json")
    )
    assert "first-key-123" not in everything
    assert "second-key-456" not in everything


@pytest.mark.parametrize("text", ["{", "[]", '{"schema_version": 2}', '{"rows": [1]}'])
def test_a_folder_with_a_broken_sweep_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sweep.json").write_text(text)
    with pytest.raises(UnsuitableError, match=r"sweep.json .*--out"):
        sweep(options(tmp_path))


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    keep = tmp_path / "out" / "steps-1" / "batch-1" / "thesis.txt"
    keep.parent.mkdir(parents=True)
    keep.write_text("years of work")
    with pytest.raises(UnsuitableError, match="holds other files"):
        sweep(options(tmp_path))
    assert keep.read_text() == "years of work"


def test_two_sweeps_do_not_share_a_folder(tmp_path: Path) -> None:
    book = sweep_file.Book(tmp_path, {"baseline_command": None}, "specscope")
    with book, pytest.raises(UnsuitableError, match="another sweep works in"):
        sweep_file.Book(tmp_path, {"baseline_command": None}, "specscope").__enter__()


def test_a_baseline_that_is_measured_need_not_run_any_more(tmp_path: Path) -> None:
    with FakeSglang(speculates=False) as fake:
        sweep(options(tmp_path, steps=(1,), baseline_url=fake.url, profile=False))
    rows = by_setting(sweep(options(tmp_path, steps=(1, 2), baseline_url=fake.url, profile=False)))
    assert rows[2, 1]["speedup"]["value"] > 0


def test_figures_are_not_given_up_for_a_later_failure(tmp_path: Path) -> None:
    figure = {"value": 1.0, "low": 1.0, "high": 1.0, "values": [1.0]}
    book = sweep_file.Book(tmp_path / "out", {"baseline_command": None}, "specscope")
    with book:
        book.add(sweep_file.empty(1, 1, None, tokens_per_second=figure, cut=True))
        book.add(sweep_file.empty(1, 1, "the server did not start"))
        (row,) = book.document["rows"]
    assert row["tokens_per_second"] == figure
    assert row["not_recorded"] == "the server did not start"
    assert row["reason"] is None
