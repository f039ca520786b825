"""The tables of targets are well formed, and true of the engines' sources."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specscope.profiler import roles
from specscope.profiler.grammar import STAGES
from specscope.profiler.hook_table import Target, reader, targets, was_seen
from tests.shared import shared_path

DATA = Path(__file__).resolve().parents[1] / "data" / "engine_signatures.json"
SIGNATURES: dict[str, dict[str, dict[str, Any]]] = json.loads(DATA.read_text("utf-8"))
ALL = targets()
VERSIONS = [(engine, version) for engine, facts in SIGNATURES.items() for version in facts]


@pytest.mark.parametrize("target", ALL, ids=lambda target: target.path)
def test_every_row_is_well_formed(target: Target) -> None:
    assert target.role in roles.ROLES
    assert (target.stage in STAGES) if target.role in ("stage", "opening") else not target.stage
    assert not target.lengths or target.lengths in roles.LENGTHS
    assert target.role.startswith("lengths") <= bool(target.lengths)
    assert " - " in target.seen
    for paths in (target.batch, target.tokens, target.k):
        reader(paths)
    if any("arg" in path for path in (*target.batch, *target.tokens, *target.k)):
        assert target.argument


def test_no_target_is_named_twice() -> None:
    assert len({target.path for target in ALL}) == len(ALL)


@pytest.mark.parametrize(("engine", "version"), VERSIONS)
def test_every_target_is_in_the_sources_that_should_have_it(engine: str, version: str) -> None:
    facts = SIGNATURES[engine][version]
    for target in ALL:
        if target.engine != engine or not was_seen(target.seen, version):
            continue
        fact = facts[target.path]
        assert "kind" not in fact, target.path
        assert not target.argument or set(target.argument) & set(fact["parameters"]), target.path


@pytest.mark.parametrize(("engine", "version"), VERSIONS)
def test_every_version_has_what_a_cycle_needs(engine: str, version: str) -> None:
    there = [t for t in ALL if t.path in SIGNATURES[engine][version] and t.engine == engine]
    if engine == "torch":
        return
    assert {t.role for t in there} & roles.NUMBERING
    stages = {t.stage for t in there} | ({"verify"} if engine != "sglang" else set())
    assert {"draft", "verify", "accept"} <= stages
    assert any(t.lengths for t in there)


def test_the_tables_agree_with_the_signatures_of_every_release_that_was_read() -> None:
    """`engine_targets.csv`: 23 releases of SGLang, 15 of vLLM, 2 of transformers."""
    known: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    with shared_path("facts", "engine_targets.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            path = f"{row['module']}.{row['qualname']}"
            known[path].append((row["first_seen"], row["last_seen"], row["signature"]))
    checked = 0
    for target in ALL:
        rows = known.get(target.path, [])
        for first, last, signature in rows:
            seen = was_seen(target.seen, first) and was_seen(target.seen, last)
            assert seen, f"{target.path} is in {first} - {last}, the table says {target.seen}"
            names = {part.split("=")[0].strip(" *()") for part in signature.split(",")}
            assert not target.argument or set(target.argument) & names, (target.path, signature)
        checked += bool(rows)
    assert checked > 70


@pytest.mark.parametrize(
    ("version", "seen"),
    [
        ("0.4.6.post5", True),
        ("0.4.6", False),
        ("0.5.3.post1", False),
        ("0.5.2", True),
        ("0.5.2.post1+cpu", True),
        ("0.5.1rc2", True),
        ("", True),
        ("unknown", True),
    ],
)
def test_versions_lie_in_ranges(version: str, seen: bool) -> None:
    assert was_seen("0.4.6.post5 - 0.5.2", version) is seen


def test_numbers_are_read_without_a_call_and_only_integers_count() -> None:
    tensor = SimpleNamespace(reqs=[1, 2], flag=True, size=lambda: 3, n=5, item=1.5)
    assert reader(("len arg.reqs",))(tensor, None) == 2
    assert reader(("self.n - 1",))(None, tensor) == 4
    assert reader(("arg.missing", "arg.n"))(tensor, None) == 5
    for path in ("arg.flag", "arg.size", "arg.item", "arg.missing", "len arg.n"):
        assert reader((path,))(tensor, None) is None


@pytest.mark.parametrize("path", ["arg.x()", "other.x", "len", "arg..x", "__import__('os')"])
def test_a_place_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="no place"):
        reader((path,))
