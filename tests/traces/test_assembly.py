"""Files of one run told from copies, from other runs and from what is no rank."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from specscope import exits
from specscope.cli import _group
from specscope.traces.errors import UsageError
from specscope.traces.load import load
from tests.shared import shared_path
from tests.test_cli import Done
from tests.traces.small import write_trace

SOURCE = shared_path("traces", "own", "tp2-8b-eagle3-k3-nvlink-bs1")
OTHER = shared_path("traces", "own", "tp2-8b-eagle3-k3-nvlink-bs1-v1")
RANK0, RANK1 = (f"rank{rank}.trace.json.gz" for rank in range(2))
Run = Callable[..., Done]


def linked(folder: Path, **files: Path) -> Path:
    """The folder with these recordings in it, by name of the file."""
    for name, source in files.items():
        (folder / f"{name}.trace.json.gz").symlink_to(source)
    return folder


def renumbered(folder: Path, source: Path, was: int, rank: int) -> Path:
    """The recording with another rank's number in its header."""
    text = gzip.decompress(source.read_bytes())
    here = b'"rank": %d,' % was
    assert text.count(here) == 1
    path = folder / f"rank{rank}.trace.json.gz"
    path.write_bytes(gzip.compress(text.replace(here, b'"rank": %d,' % rank), 1))
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*args: str | Path) -> Done:
        capsys.readouterr()
        code = exits.call(_group, ["ranks", "--no-cache", *map(str, args)])
        found = capsys.readouterr()
        return Done(code, found.out, found.err)

    return call


def test_a_copy_under_another_ranks_name_is_left_out_and_named(tmp_path: Path) -> None:
    """The file is read whose name says the rank that it holds."""
    folder = linked(tmp_path, rank0=SOURCE / RANK0, rank1=SOURCE / RANK1, rank2=SOURCE / RANK0)
    found = load(folder, cache=False)
    assert [Path(one.facts["path"]).name for one in found.ranks] == [RANK0, RANK1]
    assert found.listed == (f"rank2.trace.json.gz: the same recording as {RANK0}",)
    assert any(note.code == "rank_duplicate" for note in found.notes)


def test_a_copy_with_another_ranks_number_is_no_rank(tmp_path: Path, run: Run) -> None:
    """No two GPUs work to the same nanosecond: nothing would ever be late between them."""
    (tmp_path / RANK0).symlink_to(SOURCE / RANK0)
    renumbered(tmp_path, SOURCE / RANK0, 0, 1)
    done = run(tmp_path)
    assert (done.code, done.out) == (exits.UNSUPPORTED, "")
    assert f"left out: {RANK1}: the same recording as {RANK0}" in done.err
    assert len(done.err.splitlines()) == 1


def test_copies_that_the_user_names_are_an_error_with_both_names(tmp_path: Path) -> None:
    copy = renumbered(tmp_path, SOURCE / RANK0, 0, 1)
    with pytest.raises(
        UsageError, match=r"rank0.*rank1.* are the same recording \(ranks 0 and 1\)"
    ):
        load([SOURCE / RANK0, copy], cache=False)


def test_copies_of_one_rank_under_its_own_number_name_that_rank_once(tmp_path: Path) -> None:
    copy = tmp_path / "copy.trace.json.gz"
    copy.write_bytes((SOURCE / RANK0).read_bytes())
    with pytest.raises(UsageError, match=r"are the same recording of rank 0; give one of them"):
        load([SOURCE / RANK0, copy], cache=False)


def test_a_rank_beyond_its_world_is_named_and_not_compared(tmp_path: Path, run: Run) -> None:
    (tmp_path / RANK0).symlink_to(SOURCE / RANK0)
    renumbered(tmp_path, SOURCE / RANK1, 1, 5)
    notes = {note.code: note.text for note in load(tmp_path, cache=False).notes}
    assert "is taken as rank 5 and says a world of 2" in notes["rank_beyond_world"]
    assert notes["ranks_missing"] == "1 of 2 ranks read; missing: 1"
    done = run(tmp_path)
    assert (done.code, done.out) == (exits.UNSUPPORTED, "")
    assert "rank 5" in done.err and "a world of 2" in done.err


def test_a_rank_of_another_run_is_left_out_and_ranks_says_so(tmp_path: Path, run: Run) -> None:
    done = run(linked(tmp_path, rank0=SOURCE / RANK0, rank1=OTHER / RANK1))
    assert done.code == exits.UNSUPPORTED
    assert f"left out: {RANK0}: recorded at another time" in done.err


def test_of_two_runs_in_a_folder_one_is_read_and_the_other_listed(tmp_path: Path, run: Run) -> None:
    files = {"a-rank0": SOURCE / RANK0, "a-rank1": SOURCE / RANK1}
    files |= {"b-rank0": OTHER / RANK0, "b-rank1": OTHER / RANK1}
    done = run(linked(tmp_path, **files))
    assert done.code == 0
    assert "2 captures in the folder; the newest is read" in done.out
    assert done.out.count("left out: ") == 2
    assert done.out.count(": an older capture") == 2


def test_ranks_without_gpu_rows_are_named(tmp_path: Path, run: Run) -> None:
    (tmp_path / RANK0).symlink_to(SOURCE / RANK0)
    text = gzip.decompress((SOURCE / RANK1).read_bytes())
    for kind in (b'"kernel"', b'"gpu_memcpy"', b'"gpu_memset"'):
        text = text.replace(b'"cat": ' + kind, b'"cat": "nothing"')
    (tmp_path / RANK1).write_bytes(gzip.compress(text, 1))
    done = run(tmp_path)
    assert done.code == exits.UNSUPPORTED
    assert "rank 1: no GPU events in this trace" in done.err


def test_graphs_recorded_as_one_span_name_the_switch(run: Run) -> None:
    done = run(shared_path("traces", "own", "nsys-tp2-8b-eagle3-k3-nvlink-bs1", "graph.sqlite"))
    assert done.code == exits.UNSUPPORTED
    assert "--cuda-graph-trace=node" in done.err


def test_files_that_differ_in_their_threads_alone_are_two_recordings(tmp_path: Path) -> None:
    paths = [write_trace(tmp_path, f"{rank}.json", rank=rank, world_size=2) for rank in range(2)]
    assert [one.rank for one in load(paths, cache=False).ranks] == [0, 1]
