"""The page without its environment: no path, host, user name or argument of the server.

A page is mailed to people who have no business with them. What stands in a text of the page is
masked as `specscope scrub` masks it, whichever view wrote it; files become `file 1`, `file 2`.
"""

from __future__ import annotations

import contextlib
import getpass
import html
import json
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Final

from specscope.analyzers.report import Report
from specscope.dashboards.html_blocks import json_safe
from specscope.dashboards.safe_text import clean_lines
from specscope.traces.scrub_log import learn_name
from specscope.traces.scrub_words import Scrubber

# Arguments whose values say how the server computes and not whose it is.
_PLAIN: Final = re.compile(
    r"-{0,2}(?:speculative[-_](?:algorithm|num[-_].*|eagle[-_]topk)|dtype|kv[-_]cache[-_]dtype"
    r"|quantization|load[-_]format|(?:attention|sampling|grammar|moe|distributed[-_]executor)"
    r"[-_].*|tp([-_]size)?|.*parallel[-_]size|(?:max|cuda)[-_].*|context[-_]length)"
)
_MASK: Final = "***"
# Shorter values are words of any text.
_LEAST: Final = 5
_PLAIN_VALUE: Final = re.compile(r"-.*|[\d.,:]*|(?i:true|false|none|null|auto|default|python3?)")
_DATA: Final = re.compile(
    r'(<script type="application/json"[^>]*>)(.*?)(</script>)', re.DOTALL
)  # fmt: skip
_TAG: Final = re.compile(r"(<[^>]*>)")
_BREAK: Final = "<br>"
_TIMES: Final = re.compile(
    r"[\d.,]+ [mu]s(?:, (?:[\d.,]+ [mu]s after its launch began|launch not on record))?"
)


class Mask:
    """Masks texts of one report."""

    def __init__(self, report: Report) -> None:
        self._scrubber = Scrubber()
        self._learn(report)
        literals = {**_hidden(report), **_files(report), **_models(report)}
        words = sorted(filter(None, literals), key=len, reverse=True)
        self._literals = literals
        self._plain: dict[str, bool] = {}
        # A call that we propose, with places to fill in; nothing of the run is in it.
        self._own = {html.escape("\n".join(clean_lines(report.verdict.recapture)), quote=True)}
        self._pattern = (
            re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, words))})(?![A-Za-z0-9])")
            if words
            else None
        )

    def _learn(self, report: Report) -> None:
        scrubber = self._scrubber
        scrubber.learn(report.run.context)
        for one in report.run.ranks:
            scrubber.learn(one.facts)
        for path in _paths(report):
            scrubber.learn_path(str(path))
            learn_name(Path(path), scrubber)
        scrubber.learn_host(platform.node())
        scrubber.learn_path(str(Path.home()))
        with contextlib.suppress(OSError, KeyError, ImportError):
            scrubber.learn_user(getpass.getuser())

    def text(self, value: str) -> str:
        """A sentence of the page."""
        return self._scrubber.text(self._replaced(value))

    def label(self, value: str) -> str:
        """A text of a figure, which may be cut into lines in the middle of a word."""
        # Times differ from bar to bar; names are few.
        names = _BREAK.join(line for line in value.split(_BREAK) if not _TIMES.fullmatch(line))
        if names not in self._plain:
            self._plain[names] = self._label(names) == names
        return value if self._plain[names] else self._label(value)

    def _label(self, value: str) -> str:
        masked = self._scrubber.range_name(self._replaced(value))
        if _BREAK in value:
            whole = value.replace(_BREAK, "")
            shown = self._scrubber.range_name(self._replaced(whole))
            if shown != whole and masked == value:
                return shown
        return masked

    def page(self, body: str) -> str:
        """All texts of a page and of the data in it; markup stays as it is."""
        return "".join(self._pieces(body))

    def _pieces(self, body: str) -> Iterator[str]:
        parts = _DATA.split(body)
        for at in range(0, len(parts), 4):
            for piece in _TAG.split(parts[at]):
                yield piece if piece.startswith("<") else self._html(piece)
            if at + 3 < len(parts):
                opens, data, closes = parts[at + 1 : at + 4]
                before = json.loads(data)
                after = self._values(before)
                yield opens
                yield data if after == before else json_safe(_compact(after))
                yield closes

    def _html(self, piece: str) -> str:
        if not piece.strip() or piece in self._own:
            return piece
        text = html.unescape(piece)
        masked = self.text(text)
        return piece if masked == text else html.escape(masked, quote=True)

    def _values(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.label(value)
        if isinstance(value, list):
            return [self._values(one) for one in value]
        if isinstance(value, dict):
            # Numbers of Plotly, packed as base 64, are no text.
            return {key: one if key == "bdata" else self._values(one) for key, one in value.items()}
        return value

    def _replaced(self, value: str) -> str:
        if self._pattern is None:
            return value
        return self._pattern.sub(lambda match: self._literals[match[0]], value)


def _compact(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _paths(report: Report) -> list[PurePath]:
    table = report.tables.get("sources")
    if table is None or "path" not in table.column_names:
        return []
    return [PurePath(path) for path in dict.fromkeys(table["path"].to_pylist()) if path]


def _files(report: Report) -> dict[str, str]:
    """Each file by its place in the list, their folder without a name."""
    found: dict[str, str] = {}
    for number, path in enumerate(_paths(report), 1):
        found.setdefault(str(path), f"file {number}")
        found.setdefault(path.name, f"file {number}")
        if path.parent != PurePath() and len(path.parent.parts) > 1:
            found.setdefault(str(path.parent), "one folder")
    number = len(_paths(report))
    for name in dict.fromkeys(report.tables["losses"]["source"].to_pylist()):
        if name and name not in found:
            number += 1
            found[name] = f"file {number}"
    return found


def _models(report: Report) -> dict[str, str]:
    """A model by the last part of its path; `organisation/name` is its public name."""
    found = {}
    for key in ("model", "draft_model"):
        name = report.facts.get(key)
        if isinstance(name, str) and (name[:1] in "/~." or name.count("/") > 1 or "\\" in name):
            found[name] = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    return found


def _hidden(report: Report) -> dict[str, str]:
    """Values of the server's arguments that are not on the list of harmless ones."""
    known = " ".join(str(report.facts.get(key) or "") for key in ("engine", "model", "draft_model"))
    return {
        value: _MASK
        for name, value in _arguments(report.run.context.get("server_args"))
        if len(value) >= _LEAST
        and not _PLAIN.fullmatch(name)
        and not _PLAIN_VALUE.fullmatch(value)
        and value not in known
    }


def _arguments(given: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """(option, value) of a mapping or of the words of a command line."""
    if isinstance(given, str):
        yield name, given
    elif isinstance(given, Mapping):
        for key, value in given.items():
            yield from _arguments(value, str(key))
    elif isinstance(given, Sequence):
        option = name
        for word in map(str, given):
            if word.startswith("-"):
                option, equals, value = word.partition("=")
                if equals:
                    yield option, value
            else:
                yield option, word
