"""Where a capture goes, and whether it can: the folder here and as the server sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specscope.profiler import (
    capture_place,
    vllm_command,
)
from specscope.profiler.capture import capture
from specscope.profiler.engine_probe import Engine
from specscope.profiler.local_server import LocalServer
from specscope.profiler.server_errors import UnsuitableError
from tests.profiler.captures import OURS, engine, options
from tests.profiler.fake_servers import (
    FakeSglang,
)


@pytest.mark.parametrize(
    ("local", "given", "told"),
    [
        (OURS, {}, "{cwd}/specscope-capture-"),
        (OURS, {"out": Path("x")}, "{cwd}/x"),
        (LocalServer(1, (), same_user=False), {}, "/tmp/specscope-capture-"),
        (LocalServer(1, (), same_disk=False), {}, "/tmp/specscope-capture-"),
        (None, {}, "/tmp/specscope-capture-"),
        (None, {"out": Path("x"), "server_out": "/shared/x"}, "/shared/x"),
    ],
)
def test_a_server_is_only_told_of_a_folder_that_it_can_make(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    local: LocalServer | None,
    given: dict[str, Any],
    told: str,
) -> None:
    """SGLang dies when it cannot make its output folder."""
    monkeypatch.chdir(tmp_path)
    place = capture_place.choose(engine(local), **given)
    assert str(place.told).startswith(told.format(cwd=tmp_path))


def test_a_folder_with_an_earlier_capture_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UnsuitableError, match="already; give --out another"):
        capture_place.choose(engine(OURS), out=tmp_path)


def test_vllms_folder_is_found_by_its_command_or_environment() -> None:
    command = ("vllm", "serve", "m", "--profiler-config", '{"torch_profiler_dir": "t"}')

    local = LocalServer(1, command, folder=Path("/srv"))
    by_command = Engine("vllm", local=local, arguments=vllm_command.arguments(command))
    assert capture_place.choose(by_command, out=Path("o")).watched == Path("/srv/t")
    local = LocalServer(1, (), {"VLLM_TORCH_PROFILER_DIR": "/abs"})
    assert capture_place.choose(Engine("vllm", local=local), out=Path("o")).watched == Path("/abs")
    assert capture_place.choose(Engine("vllm"), out=Path("o")).watched is None


@pytest.mark.parametrize("where", ["file", "file/below", "/proc/x"])
def test_a_place_that_cannot_be_written_is_said_before_the_server_is_asked(
    tmp_path: Path, where: str
) -> None:
    (tmp_path / "file").write_text("")
    with FakeSglang() as fake:
        with pytest.raises(UnsuitableError, match="cannot write"):
            capture(options(fake, tmp_path / where))
        assert fake.calls == []


def test_a_proof_of_a_folder_leaves_nothing_behind(tmp_path: Path) -> None:
    capture_place.prove(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    capture_place.prove(tmp_path)
    assert tmp_path.is_dir()


def test_two_captures_of_one_second_have_a_folder_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(capture_place, "_name", lambda: "specscope-capture-now")
    with (
        capture_place.claimed(engine(OURS)) as one,
        capture_place.claimed(engine(OURS)) as other,
        capture_place.claimed(engine(OURS, name="vllm")) as third,
    ):
        assert {p.out.name for p in (one, other, third)} == {
            "specscope-capture-now",
            "specscope-capture-now-2",
            "specscope-capture-now-3",
        }
        (one.out / "run.json").write_text("{}")
    assert [path.name for path in tmp_path.iterdir()] == ["specscope-capture-now"]


def test_an_empty_folder_of_the_user_stays(tmp_path: Path) -> None:
    with capture_place.claimed(engine(OURS), out=tmp_path):
        pass
    assert tmp_path.is_dir()
