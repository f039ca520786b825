"""Secrets are masked before anything keeps them: in texts, command lines, and nested values.

The rooms import nothing from each other, so `profiler/masking.py` and `traces/masking.py` are one
text twice; a test compares them. A name is read word by word (`clientSecret`, `OPENAI_API_KEY_2`);
`secret_names.py` beside it says which words tell of a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from .secret_names import is_count_of, is_header, is_secret_name
from .secret_shapes import login, without_shapes

__all__ = ["MASK", "command", "hides", "hides_word", "is_secret_name", "text", "values"]

MASK: Final = "***"

# A name and what follows it: `name=`, `"name":`, `\"name\":`, `environ["NAME"] =`, `"name", `.
_NAME: Final = re.compile(
    r"""(?<![\w.\-])(?P<open>\\{0,15}["'])?(?P<name>-{0,2}\w[\w.\-]*)(?P<close>\\{0,15}["'])?\]?"""
    r"""[ \t]*(?P<sign>[=:]{1,2}>?(?!//)|,)\s*"""
)
_QUOTE: Final = re.compile(r"""\\{0,15}["']""")
# A comma inside a bare value ends it only where something else begins.
_NEXT: Final = re.compile(r"""[,;](?=\s|\\{0,15}["']|$|[\w.\-]+[=:])""")
# A record of a name and its value, as environments of containers have them.
_VALUE: Final = re.compile(r"""\\{0,15}["']value\\{0,15}["']\s*:\s*""", re.IGNORECASE)
_KEY: Final = re.compile(r"""\\{0,15}["'][\w.\-]*\\{0,15}["']\s*:""")
_NAMES: Final = ("name", "key", "header", "option")
# In the text of a list: a further value of an option.
_ALSO: Final = re.compile(r"""\s*,\s*\\{0,15}["'](?!-)""")
_ASSIGNED: Final = re.compile(r"\s*=(?!=)\s*")
_PREFIX: Final = re.compile(r"[bBrRfFuU$]{1,2}")
_LINE: Final = re.compile(r"""[^"'\\\n]*""")
_EMPTY: Final = re.compile(r"null|none|true|false", re.IGNORECASE)
_NUMBERS: Final = re.compile(r"[\s\d.,+\-eE%\[\](){}:]*")
_CLOSES: Final = {"[": "]", "{": "}", "(": ")"}
# An option and the values after it; several may follow, as vLLM's --api-key takes them.
_WORD: Final = r"""(?:"[^"]*"|'[^']*'|[^\s"'-]\S*)"""
_OPTION: Final = re.compile(rf"(?<![\w\-])(--?[\w.\-]+)((?:\s+{_WORD})+)")


def text(value: str) -> str:
    """`value` with the secrets inside it masked."""
    return _OPTION.sub(_masked_option, _assigned(without_shapes(value, MASK)))


def hides(name: str, value: Any) -> bool:
    """Whether a value of that name has to be masked whole; numbers of a count stay readable."""
    if value is None or isinstance(value, bool) or not is_secret_name(name):
        return False
    if isinstance(value, (str, list, tuple, Mapping)) and not value:
        return False
    return not is_count_of(name) or _holds_more_than_numbers(value)


def hides_word(name: str, word: str) -> bool:
    """The same for a word of a command line, where numbers are words too."""
    return is_secret_name(name) and not (is_count_of(name) and _is_number(word))


def command(arguments: Iterable[Any]) -> list[Any]:
    """A command line, or any list, with values behind secret names, and secrets inside, masked."""
    items = list(arguments)
    if len(items) == 2 and isinstance(items[0], str) and _is_one_name(items[0]):
        name, item = items
        if not name.startswith("-") and hides(name, item):
            return [name, MASK]  # a header, or an item of a mapping
    out: list[Any] = []
    hiding = before = ""
    for item in items:
        option, before = before, item if isinstance(item, str) else ""
        if isinstance(item, str) and (password := login(option, item)):
            out.append(f"{item[: -len(password)]}{MASK}")
            continue
        is_option = isinstance(item, str) and item.startswith("-") and not _is_number(item)
        if hiding and not is_option:
            keep = is_count_of(hiding) and _is_number(item)
            out.append(item if keep else MASK)
            continue
        name, equals, rest = item.partition("=") if isinstance(item, str) else ("", "", "")
        hiding = ""
        if equals and rest and _is_one_name(name) and is_secret_name(name):
            out.append(f"{name}={MASK}" if hides_word(name, rest) else item)
            continue
        bare = name.rstrip(":")
        opens = (is_option and not equals) or bare != name or (equals and not rest)
        if opens and _is_one_name(bare) and is_secret_name(bare):
            hiding = bare
        out.append(values(item))
    return out


def values(data: Any) -> Any:
    """Nested lists and mappings with every secret in them masked."""
    if isinstance(data, str):
        return text(data)
    if isinstance(data, Mapping):
        named = next((one for key in _NAMES if isinstance(one := data.get(key), str)), "")
        if "value" in data and _is_one_name(named) and hides(named, data["value"]):
            return {**{str(key): values(one) for key, one in data.items()}, "value": MASK} | {
                key: named for key in _NAMES if data.get(key) == named
            }
        return {
            text(str(key)): MASK if hides(str(key), value) else values(value)
            for key, value in data.items()
        }
    if isinstance(data, (list, tuple)):
        return command(data)
    return data


def _masked_option(match: re.Match[str]) -> str:
    name, value = match.groups()
    if not is_secret_name(name) or (is_count_of(name) and _NUMBERS.fullmatch(value)):
        return match[0]
    return f"{name}{value[0]}{MASK}"


def _assigned(value: str) -> str:
    """Values that a secret name is set to, with quotes, brackets and escapes as they come."""
    out: list[str] = []
    done = at = 0
    while match := _NAME.search(value, at):
        at = match.end("name")
        name, quoted = match["name"], match["open"] and match["close"]
        if not is_secret_name(name) or (match["sign"] == "," and not quoted):
            continue
        start = match.end()
        if match["sign"] == "," and (beside := _VALUE.match(value, start)):
            start = beside.end()
        elif match["sign"] == "," and _KEY.match(value, start):
            continue
        if is_header(name) and ":" in match["sign"] and not match["close"]:
            end = _line_end(value, start)
        else:
            end = _value_end(value, start)
            is_option = name.startswith("-") and match["sign"] == ","
            while is_option and (more := _ALSO.match(value, end)):
                end = _quote_end(value, more)
            if ":" in match["sign"] and (more := _ASSIGNED.match(value, end)):
                end = _value_end(value, more.end())
        found = value[start:end]
        if not found or _EMPTY.fullmatch(found) or (is_count_of(name) and _counts(match, found)):
            continue
        out += [value[done:start], _in_quotes(found)]
        done = at = end
    return "".join([*out, value[done:]])


def _counts(match: re.Match[str], found: str) -> bool:
    """Whether it is numbers, or a sentence with a colon: `its keys: a and b`."""
    sentence = not match["close"] and match[0].endswith(": ") and found[0] not in "\"'[{("
    return _NUMBERS.fullmatch(found) is not None or (sentence and match["name"][-1] == "s")


def _in_quotes(found: str) -> str:
    """The mask, in the quotes of what it stands for."""
    quote = _QUOTE.match(found)
    whole = quote and found.endswith(quote[0]) and len(found) >= 2 * len(quote[0])
    return f"{quote[0]}{MASK}{quote[0]}" if quote and whole else MASK


def _line_end(value: str, start: int) -> int:
    match = _QUOTE.match(value, start)
    if match:
        return _quote_end(value, match)
    line = _LINE.match(value, start)
    return line.end() if line else start


def _value_end(value: str, start: int) -> int:
    """Where the value that begins at `start` ends; the end of the text when it is not closed."""
    at = start
    while at < len(value) and not value[at].isspace():
        quote = _QUOTE.match(value, at)
        if quote:
            end = _quote_end(value, quote)
            opens = at == start or _PREFIX.fullmatch(value, start, at)
            if not opens and (end == len(value) or re.search(r"\s", value[at:end])):
                return at  # the end of a quotation around it all
            at = end
        elif value[at] in _CLOSES:
            at = _bracket_end(value, at)
        elif value[at] in "&)]}" or _NEXT.match(value, at):
            return at
        else:
            at += 1
    return at


def _quote_end(value: str, quote: re.Match[str]) -> int:
    mark = quote[0].lstrip(", \t\r\n")
    end = re.compile(r"(?<!\\)" + re.escape(mark)).search(value, quote.end())
    return end.end() if end else len(value)


def _bracket_end(value: str, start: int) -> int:
    open_ones: list[str] = []
    at = start
    while at < len(value):
        quote = _QUOTE.match(value, at)
        if quote:
            at = _quote_end(value, quote)
            continue
        if value[at] in _CLOSES:
            open_ones.append(_CLOSES[value[at]])
        elif open_ones and value[at] == open_ones[-1]:
            open_ones.pop()
            if not open_ones:
                return at + 1
        at += 1
    return at


def _is_one_name(name: str) -> bool:
    return re.fullmatch(r"[\w.\-]+", name) is not None


def _is_number(item: Any) -> bool:
    if isinstance(item, str):
        return any(map(str.isdigit, item)) and _NUMBERS.fullmatch(item) is not None
    return isinstance(item, int | float)


def _holds_more_than_numbers(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_more_than_numbers(one) for one in value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(_holds_more_than_numbers(one) for one in value)
    return not (value is None or isinstance(value, int | float))
