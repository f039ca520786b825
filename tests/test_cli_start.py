"""Starting: `--help` is quick and light, versions and completion work."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("numpy", "pyarrow", "pandas", "plotly", "torch", "rich", "duckdb")
BUDGET_CPU_SECONDS = 0.3
BIN = Path(sys.executable).parent

_ASK = """
import json, sys
from specscope import cli
sys.argv = ["analyze", *sys.argv[1:]]
code = getattr(cli, "analyze")()
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""


def ran(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("option", ["--help", "--version", "--no-such-option"])
def test_nothing_heavy_is_imported_to_answer(option: str) -> None:
    code, modules = json.loads(ran(sys.executable, "-c", _ASK, option).stderr.splitlines()[-1])
    assert code == (2 if option == "--no-such-option" else 0)
    assert not set(HEAVY) & set(modules)


@pytest.mark.parametrize("name", ["convert", "export", "query", "scrub"])
def test_nothing_heavy_is_imported_for_the_help_of_a_command(name: str) -> None:
    ask = (
        _ASK.replace('"analyze"', '"main"', 1)
        .replace('"analyze"', '"main"')
        .replace('sys.argv = ["main"', 'sys.argv = ["specscope"')
    )
    code, modules = json.loads(ran(sys.executable, "-c", ask, name, "-h").stderr.splitlines()[-1])
    assert code == 0
    assert not set(HEAVY) & set(modules)


def test_help_takes_little_cpu() -> None:
    def children() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    spent = []
    for _ in range(3):
        before = children()
        assert ran(str(BIN / "analyze"), "--help").returncode == 0
        spent.append(children() - before)
    assert min(spent) < BUDGET_CPU_SECONDS


@pytest.mark.parametrize(
    "command",
    [
        (str(BIN / "analyze"),),
        (str(BIN / "specscope"), "analyze"),
        (sys.executable, "-m", "specscope", "analyze"),
    ],
)
def test_all_three_ways_to_call_it_give_the_same_help(command: tuple[str, ...]) -> None:
    done = ran(*command, "--help")
    assert done.returncode == 0
    assert "Examples:" in done.stdout
    assert "Exit codes:" in done.stdout
    assert done.stderr == ""


def test_the_program_alone_shows_its_commands() -> None:
    done = ran(str(BIN / "specscope"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "analyze" in done.stderr


def test_a_wrong_command_is_one_line() -> None:
    done = ran(str(BIN / "specscope"), "completion")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "\\n" not in done.stderr


def test_the_version_is_that_of_the_package() -> None:
    import specscope

    assert ran(str(BIN / "analyze"), "--version").stdout == f"specscope {specscope.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_for_both_programs(shell: str) -> None:
    done = ran(str(BIN / "specscope"), "completion", shell)
    assert done.returncode == 0
    assert "_ANALYZE_COMPLETE" in done.stdout
    assert "_SPECSCOPE_COMPLETE" in done.stdout


def test_the_shell_completes_options() -> None:
    done = subprocess.run(
        [str(BIN / "analyze")],
        env={
            "_ANALYZE_COMPLETE": "bash_complete",
            "COMP_WORDS": "analyze --mark",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "--markdown" in done.stdout
