"""A sweep that goes on in a folder: what is kept, what is taken again, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specscope.profiler import (
    capture,
    sweep_file,
    sweep_folders,
    sweep_identity,
    sweep_plan,
)
from specscope.profiler.server_errors import ServerError, UnsuitableError
from specscope.profiler.sweep import sweep
from tests import waiting
from tests.profiler.fake_servers import FakeSglang
from tests.profiler.sweeps import COMMAND, LOAD, PLAIN, PROGRAM, by_setting, options


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


# Another baseline.


def plain_run(tmp_path: Path, name: str, step_ms: float, batch: int = 1) -> Path:
    path = tmp_path / name
    path.write_text(json.dumps({"step_ms": step_ms, "tokens_per_second": 500.0, "batch": batch}))
    return path


def test_another_baseline_url_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with FakeSglang(speculates=False) as fake:
        sweep(options(tmp_path, steps=(1,), baseline_url=fake.url, profile=False))
        with pytest.raises(UnsuitableError) as error:
            sweep(options(tmp_path, steps=(1, 2), baseline_url="http://h:1", profile=False))
    assert f"baseline of batch 1 was measured at {fake.url}, not at http://h:1" in str(error.value)
    rows = sweep_file.read(tmp_path / "out" / "sweep.json")["rows"]
    assert [(row["steps"], row["origin"]) for row in rows] == [(0, fake.url), (1, None)]


def test_another_baseline_file_is_refused_and_the_same_one_elsewhere_is_not(
    tmp_path: Path,
) -> None:
    one, same = (plain_run(tmp_path, name, 2.0) for name in ("one", "same"))
    sweep(options(tmp_path, steps=(1,), baseline_runs=(one,), profile=False))
    sweep(options(tmp_path, steps=(1,), baseline_runs=(same,), profile=False))
    other = plain_run(tmp_path, "other", 3.0)
    with pytest.raises(UnsuitableError, match="as in another --baseline, not as in the --baseline"):
        sweep(options(tmp_path, steps=(1,), baseline_runs=(other,), profile=False))


def test_a_baseline_of_another_kind_is_refused(tmp_path: Path) -> None:
    sweep(
        options(tmp_path, steps=(1,), baseline_runs=(plain_run(tmp_path, "a", 2.0),), profile=False)
    )
    with pytest.raises(UnsuitableError, match="not at http://h:1"):
        sweep(options(tmp_path, steps=(1,), baseline_url="http://h:1", profile=False))
    with pytest.raises(UnsuitableError, match="not by a server that the sweep starts"):
        sweep(options(tmp_path, steps=(1,), baseline_command=PLAIN, profile=False))


def test_a_baseline_of_another_batch_may_come_later(tmp_path: Path) -> None:
    one, more = plain_run(tmp_path, "one", 2.0), plain_run(tmp_path, "more", 3.0, batch=2)
    sweep(options(tmp_path, steps=(1,), baseline_runs=(one,), profile=False))
    rows = by_setting(
        sweep(options(tmp_path, batches=(1, 2), steps=(1,), baseline_runs=(more,), profile=False))
    )
    assert (rows[0, 1]["step_ms"]["value"], rows[0, 2]["step_ms"]["value"]) == (2.0, 3.0)


def test_a_sweep_from_before_origins_were_kept_is_gone_on_with(tmp_path: Path) -> None:
    one = plain_run(tmp_path, "one", 2.0)
    sweep(options(tmp_path, steps=(1,), baseline_runs=(one,), profile=False))
    path = tmp_path / "out" / "sweep.json"
    found = json.loads(path.read_text())
    for row in found["rows"]:
        del row["origin"]
    del found["command_digest"]
    path.write_text(json.dumps(found))
    sweep(options(tmp_path, steps=(1,), baseline_runs=(one,), profile=False))


# Commands that look alike where they are masked.


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("--sort-key input", "--sort-key output"),
        ("--model org:one@v1", "--model org:two@v1"),
        ("--gemm-pass fast", "--gemm-pass exact"),
    ],
)
def test_commands_that_differ_where_they_are_masked_are_two(
    tmp_path: Path, one: str, other: str
) -> None:
    commands = [f"no-such-server {{port}} {{steps}} {words}" for words in (one, other)]
    (row,) = sweep(options(tmp_path, commands[0], steps=(1,)))["rows"]
    assert "cannot be started" in row["reason"]
    text = (tmp_path / "out" / "sweep.json").read_text()
    assert one.split()[1] not in text
    sweep(options(tmp_path, commands[0], steps=(1,)))
    with pytest.raises(UnsuitableError, match="another --command, in a word that is masked"):
        sweep(options(tmp_path, commands[1], steps=(1,)))


def test_the_digest_of_a_command_has_a_salt_and_no_key(tmp_path: Path) -> None:
    def found(folder: str, words: str) -> Any:
        command = f"HF_TOKEN=a{folder} no-such-server {{port}} {{steps}} {words}"
        return sweep(options(tmp_path / folder, command, steps=(1,)))["command_digest"]

    assert found("plain", "--api-key abc --tp 2") is None
    one, other = found("one", "--sort-key input"), found("other", "--sort-key input")
    assert one.partition(":")[0] != other.partition(":")[0]
    key = sweep_plan.template("--command", "K_API_KEY=b s {port} {steps} --sort-key i", None,
                              varies=True)  # fmt: skip
    same = sweep_plan.template("--command", "K_API_KEY=c s {port} {steps} --sort-key i", None,
                               varies=True)  # fmt: skip
    assert sweep_identity.is_same(same, sweep_identity.digest(key))


# A row that is taken again.


def cut_row(tmp_path: Path) -> dict[str, Any]:
    """A sweep whose only row was cut between its figures and its traces."""
    said: list[str] = []
    given = options(tmp_path, steps=(1,), say=said.append)
    with waiting.interrupted_when(
        lambda: any("recording 3 cycles" in text for text in said), "it records"
    ):
        sweep(given)
    (row,) = sweep_file.read(tmp_path / "out" / "sweep.json")["rows"]
    return dict(row)


def test_a_cut_row_keeps_its_run_when_the_server_dies_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = cut_row(tmp_path)
    run = tmp_path / "out" / before["folder"] / "run.json"
    text = run.read_text()

    def dies(given: Any) -> Any:
        given.out.mkdir(parents=True)
        raise ServerError("the server went away")

    with monkeypatch.context() as patched:
        patched.setattr(capture, "capture", dies)
        (row,) = sweep(options(tmp_path, steps=(1,)))["rows"]
    assert run.read_text() == text
    assert row["tokens_per_second"] == before["tokens_per_second"]
    assert row["not_recorded"].startswith("the server went away")
    assert row["cut"]
    (row,) = sweep(options(tmp_path, steps=(1,)))["rows"]
    assert row["recorded"]
    assert run.read_text() != text
    assert [path.name for path in run.parent.parent.iterdir() if path.is_dir()] == ["batch-1"]


def test_what_lies_aside_after_a_kill_comes_back(tmp_path: Path) -> None:
    folder, aside = tmp_path / "batch-1", tmp_path / "batch-1.before"
    for one in (folder, aside):
        one.mkdir()
    (aside / "run.json").write_text("old")
    with sweep_folders.taken_again(folder) as taken:
        assert not folder.exists()
    assert taken.kept
    assert (folder / "run.json").read_text() == "old"
    with sweep_folders.taken_again(folder) as taken:
        folder.mkdir()
        (folder / "run.json").write_text("new")
    assert not taken.kept
    assert (folder / "run.json").read_text() == "new"
    assert not aside.exists()
