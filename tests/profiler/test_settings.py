"""Options of `specscope run` as every process of the server reads them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import click
import pytest

from specscope.cli import run_command
from specscope.profiler import launch, settings
from specscope.profiler.ranges import Config


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        (settings.METRICS, "9400", "metrics", 9400),
        (settings.EVENTS_EVERY, "0", "events_every", 0),
        (settings.EVENTS_EVERY, "25", "events_every", 25),
        (settings.NVTX, "Package", "nvtx", "package"),
        (settings.TORCH, "0", "torch", False),
        (settings.TORCH, "on", "torch", True),
        (settings.LOG_LIMIT, "8388608", "log_limit", 8 << 20),
    ],
)
def test_a_variable_chooses_its_field(variable: str, text: str, field: str, value: Any) -> None:
    assert settings.chosen({variable: text, "OTHER": "1"}) == {field: value}


def test_what_is_not_set_or_empty_leaves_the_default() -> None:
    assert settings.chosen({settings.METRICS: "", settings.NVTX: " "}) == {}
    assert settings.applied(Config(rank=3), {}) == Config(rank=3)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        (settings.METRICS, "0"),
        (settings.METRICS, "70000"),
        (settings.METRICS, "sk-a-secret-by-mistake"),
        (settings.EVENTS_EVERY, "-1"),
        (settings.EVENTS_EVERY, "1.5"),
        (settings.NVTX, "both"),
        (settings.TORCH, "maybe"),
        (settings.LOG_LIMIT, "12"),
    ],
)
def test_a_value_that_cannot_be_meant_is_one_warning_that_does_not_repeat_it(
    variable: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "specscope"):
        assert settings.chosen({variable: text, settings.NVTX: "off"} | {variable: text}) in (
            {"nvtx": "off"},
            {},
        )
    (line,) = caplog.messages
    assert f"{variable} is ignored: it is not" in line
    assert "secret" not in line


def test_the_limit_of_the_log_leaves_room_for_pieces_to_go() -> None:
    config = settings.applied(Config(log=Path("log")), {"log_limit": 8 << 20, "nvtx": "off"})
    assert config.log_settings is not None
    assert config.log_settings.total_bytes == 8 << 20
    assert config.log_settings.piece_bytes == 2 << 20
    assert (config.nvtx, config.log) == ("off", Path("log"))
    large = settings.applied(Config(), {"log_limit": 4 << 30}).log_settings
    assert large is not None
    assert large.piece_bytes == 64 << 20


def test_options_that_are_not_given_leave_the_environment_as_it_is() -> None:
    chosen: dict[str, object] = {settings.METRICS: None, settings.TORCH: 0, settings.NVTX: None}
    out = launch.environment({settings.METRICS: "9000"}, chosen=chosen)
    assert (out[settings.METRICS], out[settings.TORCH]) == ("9000", "0")
    assert settings.NVTX not in out


def test_the_command_and_the_server_take_the_same_bounds_of_a_log() -> None:
    for size in (settings.SMALLEST_LOG, settings.LARGEST_LOG):
        (option,) = [one for one in run_command.params if one.name == "log_limit"]
        assert option.type.convert(f"{size}", None, None) == size
        assert settings.chosen({settings.LOG_LIMIT: str(size)}) == {"log_limit": size}
    with pytest.raises(click.BadParameter):
        option.type.convert(f"{2 * settings.LARGEST_LOG}", None, None)
