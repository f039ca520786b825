"""The page about sweeps names every key of sweep.json, and the schema is one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from specscope.profiler import sweep_file, sweep_plan

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "traces" / "sweep.schema.json").read_text("utf-8"))
PAGE = (ROOT / "docs" / "sweep.md").read_text("utf-8")
ROW = SCHEMA["properties"]["rows"]["items"]["properties"]
KEYS = {*SCHEMA["properties"], *ROW, *SCHEMA["properties"]["best"]["items"]["properties"]}


@pytest.mark.parametrize("key", sorted(KEYS))
def test_every_key_of_sweep_json_has_its_line(key: str) -> None:
    assert f"`{key}`" in PAGE.split("## sweep.json")[1]


@pytest.mark.parametrize("word", [*ROW["kind"]["enum"], *ROW["source"]["enum"]])
def test_every_word_has_its_line(word: str) -> None:
    assert f"`{word}`" in PAGE


def test_writer_and_schema_are_of_one_version() -> None:
    assert SCHEMA["properties"]["schema_version"]["const"] == sweep_file.SCHEMA_VERSION


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_refuses_what_is_not_sweep_json() -> None:
    for wrong in ({}, {"schema_version": 1}, [], {"schema_version": 2}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


@pytest.mark.parametrize(
    ("option", "command"), re.findall(r"(--(?:baseline-)?command) '([^']*)'", PAGE)
)
def test_the_commands_on_the_page_are_taken(option: str, command: str) -> None:
    varies = option == "--command"
    made = sweep_plan.template(option, command, None, varies=varies).start(3, 30000).words
    assert "30000" in made
    for word in made:
        if word.startswith("{"):
            json.loads(word)


def test_the_page_has_a_command_of_each_engine() -> None:
    assert {"sglang.launch_server", "vllm"} <= set(PAGE.replace("'", " ").split())
