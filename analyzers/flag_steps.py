"""What to do with the flags of a mend in this run: they are held against its own settings.

A flag to leave out is advised only where it is set, a flag to set only where it is not yet so.
Settings that are not on record are never taken for unset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from specscope.analyzers import server_flags
from specscope.analyzers.mends import Flag

DO: Final = ("leave_out", "set", "choose", "already", "unknown")  # in the order of a report
# Where a flag stands in the arguments of an engine; those not here stand in the environment.
_IN_ARGUMENTS: Final = {
    "option": "{}",
    "speculative": "speculative_config.{}",
    "pass": "compilation_config.pass_config.{}",
}
_ON: Final = ("1", "true", "yes", "on")
_OFF: Final = ("", "0", "false", "no", "off", "none")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_\-]{1,32}|-?\d+\.\d+")  # no path, no address, no JSON
_MOST_VALUES: Final = 4


@dataclass(frozen=True)
class Told:
    """The settings of a run's server; None: not on record."""

    arguments: Mapping[str, Any] | None = None
    environment: Mapping[str, str] | None = None

    def has(self, flag: Flag) -> bool:
        """Is it on record whether the flag is set?"""
        if flag.where not in _IN_ARGUMENTS:
            return self.environment is not None
        if self.arguments is None:
            return False
        return "config" not in self.arguments or self.value(flag) is not None  # a file may set it

    def value(self, flag: Flag) -> Any:
        """As set: the words of a command line, or a value; False: turned off; None: not set."""
        if flag.where not in _IN_ARGUMENTS:
            return (self.environment or {}).get(flag.name)
        told, name = self.arguments or {}, flag.name.removeprefix("--").replace("-", "_")
        if f"no_{name}" in told:
            return False
        places = (_IN_ARGUMENTS[flag.where].format(name), *flag.also)
        return next((v for one in places if (v := server_flags.at(told, one)) is not None), None)


@dataclass(frozen=True)
class Step:
    """A flag in this run: one of DO, and a clause that says so."""

    flag: Flag
    do: str
    text: str


def told(context: Mapping[str, Any]) -> Told:
    """The settings that the context of a run holds."""
    return Told(server_flags.arguments(context.get("server_args")) or None, context.get("env"))


def steps(flags: Sequence[Flag], version: str | None, settings: Told) -> tuple[Step, ...]:
    """One for each flag; what to leave out comes first."""
    found = [_step(flag, version, settings) for flag in flags]
    return tuple(sorted(found, key=lambda one: one.do != "leave_out"))


def _step(flag: Flag, version: str | None, settings: Told) -> Step:
    advice = f"{flag.flag} ({flag.does})"
    if not settings.has(flag):
        return Step(flag, "unknown", advice)
    value = settings.value(flag)
    by_default = value is None and flag.is_default(version)
    if flag.act == "leave_out":
        if _is_on(value):
            return Step(flag, "leave_out", _leave_out(flag, value))
        return Step(flag, "already", f"{flag.name} is not set")
    if flag.act == "choose":
        now = "" if value is None else f"; now {_plain(value) or 'another value'}"
        return Step(flag, "choose", f"{flag.flag} ({flag.does}{now})")
    if by_default:
        return Step(flag, "already", f"{flag.name} is so by default from {flag.default} on")
    if _is_so(value, flag.to):
        return Step(flag, "already", f"{_setting(flag, value)} is set")
    if value is not None and flag.is_default(version):
        if flag.where in _IN_ARGUMENTS:
            return Step(flag, "set", f"{flag.flag} is off in this run: turn it on")
        return Step(flag, "leave_out", _leave_out(flag, value))
    now = f"; now {_plain(value)}" if _is_on(value) and _plain(value) else ""
    return Step(flag, "set", f"{flag.flag} ({flag.does}{now})")


def _leave_out(flag: Flag, value: Any) -> str:
    if flag.where in _IN_ARGUMENTS:
        return f"leave out {flag.flag} (set in this run)"
    return f"{_setting(flag, value)} is set in this run: take it out"


def _setting(flag: Flag, value: Any) -> str:
    """A flag as set: name and value, where the value is plain."""
    if flag.where == "option":
        shown = " ".join(_words(value)) if flag.to else ""
        return f"{flag.flag} {shown}".rstrip()
    plain = _plain(value)
    return f"{flag.name}={plain}" if plain else flag.name


def _is_on(value: Any) -> bool:
    """Is it set, and not to what says no? An option without a value is."""
    if value is None:
        return False
    words = _words(value)
    return not words or words[0] not in _OFF


def _is_so(value: Any, to: str) -> bool:
    """Is it set as meant? Without `to` any value is that does not say no."""
    if not to:
        return _is_on(value)
    words = _words(value)
    return words == [to] or (to in _ON and len(words) == 1 and words[0] in _ON)


def _words(value: Any) -> list[str]:
    """The value as words; numbers and yes or no as a command line has them."""
    if value is None:
        return []
    many = value if isinstance(value, list | tuple) else [value]
    return [str(one).strip().lower() if isinstance(one, bool | str) else str(one) for one in many]


def _plain(value: Any) -> str:
    """A value that may be shown: a word or a few numbers; "" for others, as paths or JSON."""
    many = [str(one) for one in (value if isinstance(value, list | tuple) else [value])]
    if not many or not all(_PLAIN.fullmatch(one) for one in many):
        return ""
    if len(many) > _MOST_VALUES:
        return f"{many[0]} to {many[-1]}"
    return " ".join(many)
