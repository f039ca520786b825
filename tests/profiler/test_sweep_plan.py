"""What a sweep refuses before it starts anything, and the commands it makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from specscope.profiler import sweep_plan
from specscope.profiler.server_errors import UnsuitableError
from specscope.profiler.server_log import telling
from specscope.profiler.sweep_options import Options, plan

COMMAND = "serve --steps {steps} --tokens {draft_tokens} --port {port}"


def made(command: str, steps: int = 3) -> tuple[str, ...]:
    found = sweep_plan.template("--command", command, None, varies=True)
    return found.start(steps, 30000).words


def test_placeholders_are_filled_in_any_word() -> None:
    assert made(COMMAND) == (
        "serve", "--steps", "3", "--tokens", "4", "--port", "30000",
    )  # fmt: skip


def test_the_braces_of_json_are_left_alone() -> None:
    command = """serve --port {port} --speculative-config '{"num_speculative_tokens": {steps}}'"""
    assert made(command)[-1] == '{"num_speculative_tokens": 3}'


def test_variables_before_the_command_are_its_environment() -> None:
    found = sweep_plan.template("--command", f"A=1 K={{steps}} {COMMAND}", None, varies=True)
    start = found.start(2, 1)
    assert start.variables == (("A", "1"), ("K", "2"))
    assert start.words[0] == "serve"


def test_secrets_are_not_shown() -> None:
    found = sweep_plan.template(
        "--command", f"HF_TOKEN=abcdef123 {COMMAND} --api-key planted", None, varies=True
    )
    shown = found.start(2, 1).shown()
    assert "planted" not in shown
    assert "abcdef123" not in shown
    assert "planted" in found.start(2, 1).words


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("serve --port {port}", "neither {steps} nor {draft_tokens}"),
        ("serve --steps {steps}", "no {port}"),
        ("serve {steps} {port} {tp}", "unknown placeholder {tp}"),
        ("serve {steps} {port} ${HOME}", "unknown placeholder {HOME}"),
        ("serve {steps} {port} 'open", "cannot be split"),
        ("serve {steps} {port} | tee log", "only a shell knows"),
        ("python x.py {steps} {port};rm a", "has ';' outside of quotes"),
        ("serve {steps} {port}|tee", "has '|' outside of quotes"),
        ("serve {steps} {port}&&rm a", "has '&&' outside of quotes"),
        ("serve {steps} {port} >out", "has '>' outside of quotes"),
        ("serve {steps} {port} 2>&1", "has '2>&1' outside of quotes"),
        ("serve {steps} {port} 2>err", "has '2>' outside of quotes"),
        ("serve {steps} {port}&", "has '&' outside of quotes"),
        ("serve {steps} {port} --url http://h/?a=1&b=2", "has '&' outside of quotes"),
        ("serve {steps} {port} $(nproc)", "has '$(' outside of quotes"),
        ("serve {steps} {port} `nproc`", "has '`' outside of quotes"),
        ("serve {steps} {port} 'a'<b", "has '<' outside of quotes"),
        ("A=1", "holds no command"),
        ("", "holds no command"),
    ],
)
def test_a_wrong_command_is_one_line(command: str, said: str) -> None:
    with pytest.raises(UnsuitableError) as error:
        made(command)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_the_line_about_an_operator_says_how_to_have_a_shell() -> None:
    with pytest.raises(UnsuitableError, match=r"quote it, or write sh -c '\.\.\.'"):
        made("serve {steps} {port};rm a")


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("serve {steps} {port} 'a;b'", "a;b"),
        ('serve {steps} {port} "a|b"', "a|b"),
        ("serve {steps} {port} a\\&b", "a&b"),
        ("serve {steps} {port} --x='>out'", "--x=>out"),
        ('serve {steps} {port} "a \\" > b"', 'a " > b'),
        ("sh -c 'serve {steps} {port} > log 2>&1'", "serve 3 30000 > log 2>&1"),
        ('serve {steps} {port} it"\'"s', "it's"),
    ],
)
def test_what_stands_in_quotes_is_a_word(command: str, word: str) -> None:
    assert made(command)[-1] == word


def test_a_baseline_that_speculates_is_refused() -> None:
    with pytest.raises(UnsuitableError, match="without speculation"):
        sweep_plan.template("--baseline-command", COMMAND, None, varies=False)


def test_a_url_takes_the_place_of_the_port() -> None:
    found = sweep_plan.template("--command", "serve {steps}", "http://h:9", varies=True)
    assert found.start(1, 9).words == ("serve", "1")
    assert sweep_plan.choose_port(None, "http://h:9") == 9
    assert sweep_plan.address("http://h:{port}/x", 7) == "http://h:7/x"
    with pytest.raises(UnsuitableError, match="unknown placeholder"):
        sweep_plan.address("http://h:{steps}", 7)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("1..3", (1, 2, 3)), ("8,1", (1, 8)), ("0,2..3,3", (0, 2, 3)), (" 4 ", (4,))],
)
def test_lists_of_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert sweep_plan.numbers("--steps", text, least=0) == numbers


@pytest.mark.parametrize("text", ["", "x", "1..", "3..1", "1,,2", "-1", "0", "1..99999", "1.5"])
def test_a_wrong_list_is_one_line(text: str) -> None:
    with pytest.raises(UnsuitableError, match="--batch"):
        sweep_plan.numbers("--batch", text, least=1)


def test_two_baselines_are_refused() -> None:
    two = Options(
        COMMAND, (1,), Path("out"), baseline_command="serve {port}", baseline_url="http://h:1"
    )
    with pytest.raises(UnsuitableError, match="both name a baseline"):
        plan(two)
    with pytest.raises(UnsuitableError, match="both name a baseline"):
        plan(Options(COMMAND, (0, 1), Path("out"), baseline_url="http://h:1"))


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["loading", "", "still loading"], "still loading"),
        (
            ["INFO ok", "ValueError: no such draft", "  File x", "EOFError: ran out of input"],
            "ValueError: no such draft",
        ),
        (["usage: serve", "serve: error: unrecognized arguments: --stpes 3"],
         "serve: error: unrecognized arguments: --stpes 3"),
        (
            [
                "(EngineCore pid=12) ERROR 01-01 10:00:00 [core.py:12] torch.OutOfMemoryError: "
                "CUDA out of memory. Tried to allocate 2 GiB",
                "RuntimeError: Engine core initialization failed. See root cause above.",
            ],
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        ),
        (["\x1b[31mRuntimeError: x\x1b[0m"], "RuntimeError: x"),
        ([], ""),
    ],
)  # fmt: skip
def test_the_telling_line_of_a_log_names_the_cause(lines: list[str], line: str) -> None:
    assert telling(lines) == line
