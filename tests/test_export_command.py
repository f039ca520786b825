"""`specscope export` from the outside: what is written, what is said, exit codes."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from specscope import exits
from specscope.cli import _group
from specscope.dashboards.perfetto_wire import first_packet
from tests.dashboards import perfetto_reader, reports
from tests.test_cli import Done

RECORDING = reports.ROOT / reports.BUNDLED
SMALL = "the small trace"
Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*args: str | Path) -> Done:
        capsys.readouterr()
        code = exits.call(_group, ["export", "--no-cache", *map(str, args)])
        found = capsys.readouterr()
        return Done(code, found.out, found.err)

    return call


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reports.write(tmp_path_factory.mktemp("trace"), reports.hostile_trace())[0]


def test_a_file_is_written_and_what_is_in_it_and_what_not_is_said(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "run.pftrace"
    done = run(RECORDING, "--perfetto", target, "--cycles", "4")
    assert (done.code, done.out) == (0, "")
    trace = perfetto_reader.read(target.read_bytes())
    assert {"rank 0", "rank 1"} <= set(trace.names.values())
    ops = sum(1 for one in trace.slices if trace.names[one.track].startswith("GPU"))
    assert f"{ops:,} of ops" in done.err
    assert "29,806 ac2g" in done.err


def test_a_name_in_gz_is_packed(run: Run, small: Path, tmp_path: Path) -> None:
    plain, packed = tmp_path / "run.pftrace", tmp_path / "run.pftrace.gz"
    for target in (plain, packed):
        assert run(small, "--perfetto", target, "--cycles", "1").code == 0
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()


@pytest.mark.parametrize("name", ["run.pftrace", "run.pftrace.gz"])
def test_only_an_older_export_is_overwritten(
    run: Run, small: Path, tmp_path: Path, name: str
) -> None:
    target = tmp_path / name
    for _ in range(2):
        done = run(small, "--perfetto", target, "--quiet")
        assert (done.code, done.err) == (0, "")
    for other in (b"mine", gzip.compress(b"mine"), b"\x1f\x8b broken", first_packet()[:5]):
        target.write_bytes(other)
        done = run(small, "--perfetto", target)
        assert done.code == exits.WRONG_USAGE
        assert "no export of specscope" in done.err
        assert target.read_bytes() == other


def test_one_rank_says_what_takes_all_of_them(run: Run, small: Path, tmp_path: Path) -> None:
    done = run(small, "--perfetto", tmp_path / "run.pftrace")
    assert done.code == 0
    assert "they take all ranks of a run" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((SMALL,), "--perfetto"),
        ((SMALL, "--perfetto", "/nowhere/at/all/x"), "cannot write"),
        ((SMALL, "--perfetto", "x.pftrace", "--cycles", "9-8"), "is no cycle"),
        ((SMALL, "--perfetto", "x.pftrace", "--cycles", "9..8"), "ends before it begins"),
        ((SMALL, "--perfetto", "x.pftrace", "--cycles", "90"), "no cycle 90"),
        (("/nowhere/at/all", "--perfetto", "x.pftrace"), "does not exist"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    run: Run,
    tmp_path: Path,
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str | Path, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*(small if one == SMALL else one for one in arguments))
    assert (done.code, done.out) == (exits.WRONG_USAGE, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
