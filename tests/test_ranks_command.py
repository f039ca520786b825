"""`specscope ranks` from the outside: what goes where, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from specscope import exits
from specscope.cli import _group
from tests.dashboards import reports
from tests.shared import shared_path
from tests.test_cli import Done

RECORDING = reports.ROOT / reports.BUNDLED
Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*args: str | Path) -> Done:
        capsys.readouterr()
        code = exits.call(_group, ["ranks", "--no-cache", *map(str, args)])
        found = capsys.readouterr()
        return Done(code, found.out, found.err)

    return call


def test_it_answers_whether_the_wire_is_slow_or_a_rank_is_late(run: Run) -> None:
    done = run(RECORDING)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("The wire, not a late rank: ")
    assert "rank 1" in done.out


def test_quiet_is_the_sentence_alone(run: Run) -> None:
    done = run(RECORDING, "--quiet")
    assert done.code == 0
    assert len(done.out.splitlines()) == 1
    assert done.out.startswith("The wire, not a late rank: ")


def test_json_is_the_key_group_of_the_report(run: Run) -> None:
    done = run(RECORDING, "--json")
    assert done.code == 0
    assert json.loads(done.out)["ranks"] == [0, 1]


def test_tables_are_written_and_named_on_stderr(run: Run, tmp_path: Path) -> None:
    done = run(RECORDING, "--parquet", tmp_path / "tables")
    assert done.code == 0
    assert (tmp_path / "tables" / "matched_collectives.parquet").is_file()
    assert "tables to" in done.err


def test_one_rank_is_refused_for_its_collectives_include_waiting(run: Run) -> None:
    done = run(RECORDING / "rank0.trace.json.gz")
    assert (done.code, done.out) == (exits.UNSUPPORTED, "")
    assert "include waiting" in done.err
    assert len(done.err.splitlines()) == 1


def test_ranks_that_do_not_correspond_are_refused_with_the_reason(run: Run) -> None:
    public = shared_path("traces", "public")
    files = [public / f"2023-04-llm-train-rank{rank}of128.json.gz" for rank in (0, 1)]
    done = run(*files)
    assert (done.code, done.out) == (exits.UNSUPPORTED, "")
    assert "traces of two different runs, or sampled or filtered" in done.err
    assert len(done.err.splitlines()) == 1


def test_what_is_no_trace_is_one_line(run: Run, tmp_path: Path) -> None:
    done = run(tmp_path / "nothing")
    assert (done.code, done.out) == (exits.WRONG_USAGE, "")
    assert len(done.err.splitlines()) == 1


SIZES = "Message sizes and bandwidth"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text('{"hidden_size": 8192, "torch_dtype": "bfloat16"}')
    return path


def test_sizes_and_bandwidth_are_shown_where_they_are_known(run: Run, config: Path) -> None:
    assert SIZES not in run(RECORDING).out
    done = run(RECORDING, "--model-config", config)
    assert (done.code, done.err) == (0, "")
    assert SIZES in done.out
    line = next(line for line in done.out.splitlines() if "524,288" in line)
    assert line.startswith("nccl allreduce") and line.endswith("config")
    words = " ".join(done.out.split())
    assert "latency floor, the least transfer of the smallest size: nccl allreduce" in words
    assert "target 8,192 x 2 bytes a token" in words


def test_json_has_the_bandwidth_by_size_and_null_without_sizes(run: Run, config: Path) -> None:
    assert json.loads(run(RECORDING, "--json").out)["bandwidth"] is None
    found = json.loads(run(RECORDING, "--json", "--model-config", config).out)["bandwidth"]
    assert [row["low_bytes"] for row in found["sizes"]] == [131_072, 524_288]
    for row in found["sizes"]:
        assert row["bytes_source"] == ["model_config"]
        assert row["algbw"] == pytest.approx(row["low_bytes"] / row["transfer_ns"], rel=0.01)
        assert row["busbw"] == row["algbw"]
    assert found["floors"][0]["low_bytes"] == 131_072
    assert found["without_size"] > 0


def test_a_config_without_hidden_size_is_one_line(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"torch_dtype": "bfloat16"}')
    for option in ("--model-config", "--draft-model-config"):
        done = run(RECORDING, option, config)
        assert (done.code, done.out) == (exits.WRONG_USAGE, "")
        assert "does not say hidden_size" in done.err
        assert len(done.err.splitlines()) == 1


def test_a_config_that_gives_no_size_is_said(run: Run, config: Path) -> None:
    cases = shared_path("cases")
    done = run(*(cases / f"r01_straggler_rank{r}.json" for r in (0, 1)), "--model-config", config)
    assert done.code == 0
    assert "gave no message size" in done.err
    assert SIZES in done.out  # those that the trace records


def test_sizes_that_the_user_says_go_before_a_config(run: Run, config: Path) -> None:
    done = run(
        RECORDING, "--json", "--model-config", config, "--message-bytes", "verify=600,000",
        "--message-bytes", "draft-extend=7",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    sizes = {row["low_bytes"]: row for row in json.loads(done.out)["bandwidth"]["sizes"]}
    assert {size: row["bytes_source"] for size, row in sizes.items()} == {
        7: ["user"],
        131_072: ["model_config"],
        600_000: ["user"],
    }
    assert sizes[600_000]["algbw"] == pytest.approx(600_000 / sizes[600_000]["transfer_ns"], 0.01)


@pytest.mark.parametrize(
    "text",
    [
        "verify",
        "verify=",
        "verify=-1",
        "verify=0",
        "schedule=10",
        "verify=1e3",
        f"verify={'9' * 5000}",
    ],
)
def test_a_size_that_is_none_is_one_line(run: Run, text: str) -> None:
    done = run(RECORDING, "--message-bytes", text)
    assert (done.code, done.out) == (exits.WRONG_USAGE, "")
    assert "write STAGE=BYTES" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_stage_with_two_sizes_is_one_line(run: Run) -> None:
    done = run(RECORDING, "--message-bytes", "draft=1", "--message-bytes", "draft=2")
    assert (done.code, done.out) == (exits.WRONG_USAGE, "")
    assert "says draft twice" in done.err


def test_a_cluster_without_its_engine_is_wrong_usage(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address in the environment is for those commands that ask for a cluster."""
    done = run(RECORDING, "--ray-address", "local")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert "--engine ray" in done.err
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert run(RECORDING, "--quiet").code == 0
