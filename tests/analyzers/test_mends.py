"""The table of flags: right in itself, and right of the engines that are installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from specscope.analyzers import cause_rules, mends
from tests.shared import NOT_INSTALLED
from tests.tools import engine_flags

FLAGS = [flag for mend in mends.mends().values() for flag in mend.flags]
INTERPRETERS = {"sglang": "SPECSCOPE_SGLANG_PYTHON", "vllm": "SPECSCOPE_VLLM_PYTHON"}
_WHERE = (
    "import importlib.metadata as m, importlib.util as u\n"
    "print(u.find_spec(NAME).submodule_search_locations[0])\n"
    "print(m.version(m.packages_distributions()[NAME][0]))"
)


def test_every_cause_has_a_mend_and_every_mend_a_cause() -> None:
    assert {cause.mend for cause in cause_rules.causes()} == set(mends.mends())


@pytest.mark.parametrize("flag", FLAGS, ids=lambda one: f"{one.engine} {one.name} {one.first}")
def test_versions_of_a_flag_are_those_that_were_read(flag: mends.Flag) -> None:
    read = mends.read_versions(flag.engine)
    assert flag.first in read
    if flag.last:
        assert read.index(flag.first) <= read.index(flag.last) < len(read) - 1
    assert flag.where in mends.FORMS
    assert flag.fits(flag.engine, flag.first)
    assert flag.fits(flag.engine, read[-1]) == (not flag.last)
    older = read.index(flag.first) - 1
    assert older < 0 or not flag.fits(flag.engine, read[older])


def test_no_flag_stands_twice_under_a_mend() -> None:
    for mend in mends.mends().values():
        named = [(flag.engine, flag.name) for flag in mend.flags]
        assert len(named) == len(set(named)), mend.key


@pytest.mark.parametrize("engine", mends.ENGINES)
def test_versions_are_read_in_order(engine: str) -> None:
    numbers = [mends.release(version) or () for version in mends.read_versions(engine)]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("engine", mends.ENGINES)
def test_the_installed_engine_has_the_flags_of_the_table(engine: str) -> None:
    python = os.environ.get(INTERPRETERS[engine], "")
    if not python:
        NOT_INSTALLED.append(engine)
        pytest.skip(f"set {INTERPRETERS[engine]} to an interpreter that has {engine}")
    code = _WHERE.replace("NAME", repr(engine))
    found = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    folder, version = found.stdout.split()[-2:]
    sources = engine_flags.of_folder(engine, Path(folder))
    assert engine_flags.wrong(engine, version, sources) == []


def test_a_source_without_a_flag_is_told() -> None:
    """The reader of sources itself: literal options, fields of records, fields without option."""
    flag = next(flag for flag in FLAGS if flag.name == "--enable-symm-mem")
    for text, there in (
        ('parser.add_argument("--enable-symm-mem")', True),
        ("    enable_symm_mem: A[bool, 'help'] = False", True),
        ("    enable_symm_mem: A[bool, Arg(no_cli=True)] = False", False),
        ('parser.add_argument("--enable-symm-memory")', False),
    ):
        assert engine_flags.has("sglang", {"srt/server_args.py": text}, flag) is there
    assert engine_flags.wrong("sglang", "0.5.23", {"srt/server_args.py": ""})
