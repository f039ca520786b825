"""A sweep against a server without speculation, wherever its figures come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specscope.profiler.server_errors import ServerError
from specscope.profiler.sweep import sweep
from tests.profiler.fake_servers import FakeSglang
from tests.profiler.sweeps import PLAIN, by_setting, options


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers of the fakes ignore SIGTERM, all of them."""
    monkeypatch.setattr("specscope.profiler.server_process.TERM_SECONDS", 0.5)


def test_a_baseline_that_speculates_is_named(tmp_path: Path) -> None:
    given = options(tmp_path, steps=(1,), baseline_command=f"{PLAIN} --steps 2", profile=False)
    rows = by_setting(sweep(given))
    assert "speculates (EAGLE3) where it should not" in rows[0, 1]["reason"]
    assert rows[1, 1]["speedup"] is None


def test_a_baseline_that_runs_already_is_measured_where_it_is(tmp_path: Path) -> None:
    with FakeSglang(speculates=False) as fake:
        rows = by_setting(
            sweep(options(tmp_path, steps=(1,), baseline_url=fake.url, profile=False))
        )
    assert rows[0, 1]["source"] == "url"
    assert rows[1, 1]["speedup"]["value"] > 0


@pytest.mark.parametrize("run", [{"step_ms": 1, "batch": "a"}, {"step_ms": [1]}])
def test_a_baseline_with_other_things_than_figures_is_refused_in_a_line(
    tmp_path: Path, run: dict[str, Any]
) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run))
    with pytest.raises(ServerError, match=r"run\.json"):
        sweep(options(tmp_path, steps=(1,), baseline_runs=(path,), profile=False))


def test_a_run_of_a_plain_server_is_a_baseline(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"step_ms": 2.0, "tokens_per_second": 500.0, "batch": 1}))
    rows = by_setting(sweep(options(tmp_path, steps=(1,), baseline_runs=(path,), profile=False)))
    cycle = rows[1, 1]["cycle_ms"]["value"]
    assert rows[0, 1]["source"] == "file"
    assert rows[1, 1]["break_even_accept_length"] == pytest.approx(cycle / 2.0, abs=0.001)
    assert rows[1, 1]["pays"] == "unclear"  # nobody knows its spread
