"""What a sweep starts: a command with placeholders, for each number of draft steps.

The command is split as a shell splits it, but no shell runs it. Everything is checked before
anything is started; what is wrong is an UnsuitableError in one line.
"""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from specscope.profiler import masking
from specscope.profiler.http_api import Api
from specscope.profiler.server_errors import UnsuitableError

DEFAULT_URL: Final = "http://127.0.0.1:{port}"
STEPS, DRAFT_TOKENS, PORT = "steps", "draft_tokens", "port"
PLACEHOLDERS: Final = (STEPS, DRAFT_TOKENS, PORT)
# A name in braces; the braces of JSON are followed by a quote.
_PLACE: Final = re.compile(r"\{([A-Za-z_]\w*)\}")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
# Quoted, or behind a backslash; else the longest operator of a shell, with the number before it.
_OF_A_SHELL: Final = re.compile(
    r"""'[^']*'|"(?:\\.|[^"\\])*"|\\."""
    r"""|(?P<operator>(?:(?<!\S)\d)?(?:&>>?|>>?(?:&\d?)?|<<?<?|\|[|&]?|&&?|;;?)|\$\(|`)""",
    re.DOTALL,
)
_RANGE: Final = re.compile(r"(\d{1,6})(?:\.\.(\d{1,6}))?")
_MOST_NUMBERS: Final = 256


@dataclass(frozen=True)
class Start:
    """One start of a server: its words, and variables beside those of this process."""

    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()

    def shown(self) -> str:
        """The command as it may be shown: secrets masked, quoted for a shell."""
        variables = [f"{name}={value}" for name, value in self.variables]
        return masked(variables, self.words)


@dataclass(frozen=True)
class Template:
    """A command with placeholders."""

    variables: tuple[tuple[str, str], ...]
    words: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """The placeholders in it."""
        texts = [*self.words, *(value for _, value in self.variables)]
        return frozenset(name for text in texts for name in _PLACE.findall(text))

    def start(self, steps: int, port: int) -> Start:
        """The command for that many draft steps."""
        values = {STEPS: steps, DRAFT_TOKENS: steps + 1, PORT: port}
        return Start(
            tuple(filled(word, values) for word in self.words),
            tuple((name, filled(value, values)) for name, value in self.variables),
        )

    def shown(self) -> str:
        """The template as it may be written: secrets masked."""
        return masked([f"{name}={value}" for name, value in self.variables], self.words)


def masked(variables: list[str], words: tuple[str, ...]) -> str:
    """A command in one piece, secrets masked by the name and the shape of each word."""
    return shlex.join([*masking.command(variables), *masking.command(words)])


def filled(text: str, values: Mapping[str, object]) -> str:
    """`text` with its placeholders replaced; unknown ones stay."""
    return _PLACE.sub(lambda match: str(values.get(match[1], match[0])), text)


def template(option: str, command: str, url: str | None, *, varies: bool) -> Template:
    """The command of an option, checked. `varies`: it must name the number of steps.

    Raises:
        UnsuitableError: it cannot be split, or lacks or has a placeholder that it should not.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UnsuitableError(f"{option} cannot be split into words: {error}") from error
    variables = []
    while words and (match := _ASSIGNMENT.fullmatch(words[0])):
        variables.append((match[1], match[2]))
        words = words[1:]
    if not words:
        raise UnsuitableError(f"{option} holds no command")
    if "\0" in command:
        raise UnsuitableError(f"{option} holds a NUL character")
    if operator := next(filter(None, (m["operator"] for m in _OF_A_SHELL.finditer(command))), ""):
        raise UnsuitableError(
            f"{option} has {operator!r} outside of quotes, which only a shell knows, and no shell "
            "runs it: quote it, or write sh -c '...'"
        )
    found = Template(tuple(variables), tuple(words))
    for name in sorted(found.names - set(PLACEHOLDERS)):
        raise UnsuitableError(
            f"{option} has an unknown placeholder {{{name}}}; known are {{steps}}, "
            "{draft_tokens} (steps + 1) and {port}; no shell runs the command, so variables are "
            "not replaced either"
        )
    if varies and not found.names & {STEPS, DRAFT_TOKENS}:
        raise UnsuitableError(
            f"{option} has neither {{steps}} nor {{draft_tokens}}: every start would be the same"
        )
    if not varies and found.names & {STEPS, DRAFT_TOKENS}:
        raise UnsuitableError(
            f"{option} has {{steps}} or {{draft_tokens}}: it is the server without speculation"
        )
    if url is None and PORT not in found.names:
        raise UnsuitableError(
            f"{option} has no {{port}}: put it where the server is told its port, or give --url"
        )
    return found


def numbers(option: str, text: str, *, least: int) -> tuple[int, ...]:
    """The whole numbers of a list such as `1..4,8`, each once, ascending.

    Raises UnsuitableError for anything else.
    """
    out: set[int] = set()
    for piece in text.split(","):
        match = _RANGE.fullmatch(piece.strip())
        if not match:
            raise UnsuitableError(f"{option} {text[:80]!r} is no list; examples: 1..8, 1,2,4")
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low or high - low >= _MOST_NUMBERS:
            raise UnsuitableError(
                f"{option} {piece.strip()}: a range goes up, over at most {_MOST_NUMBERS} numbers"
            )
        out |= set(range(low, high + 1))
    if min(out) < least:
        raise UnsuitableError(f"{option} {min(out)}: the least is {least}")
    if len(out) > _MOST_NUMBERS:
        raise UnsuitableError(f"{option}: at most {_MOST_NUMBERS} numbers")
    return tuple(sorted(out))


def choose_port(given: int | None, url: str | None) -> int:
    """The port of {port}: as given, else that of the URL, else a free one."""
    if given is not None:
        return given
    if url is not None and f"{{{PORT}}}" not in url:
        return Api(url).port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def address(url: str | None, port: int) -> str:
    """The URL of the server, checked. Raises UnsuitableError."""
    text = url or DEFAULT_URL
    for name in _PLACE.findall(text):
        if name != PORT:
            raise UnsuitableError(f"--url has an unknown placeholder {{{name}}}; known is {{port}}")
    return Api(filled(text, {PORT: port})).title
