"""What of an Nsight Systems export stays, table by table; the same for every form of it.

Rows, ids and times stay. Of the strings only those stay that a row refers to: the environment
and the output of the program that was profiled stand in the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from . import masking
from . import scrub_rules as rules
from .scrub_words import Level, Scrubber

STRINGS: Final = "StringIds"
# Tables of which one says that it is such an export.
MARKS: Final = frozenset(
    {STRINGS, "META_DATA_EXPORT", "EXPORT_META_DATA", "TARGET_INFO_SESSION_START_TIME"}
)
# Output of programs and configuration of nsys: no row of them stays.
EMPTIED: Final = frozenset({"ProcessStreams", "ANALYSIS_FILE"})
# Rows that may stay, by the column `name`, where a table describes the machine.
KEPT_NAMES: Final[dict[str, frozenset[str]]] = {
    "TARGET_INFO_SYSTEM_ENV": frozenset(
        {"CpuCores", "CpuArchitecture", "NvDriverVersion", "CudaDriverVersion"}
    ),
}
# Columns whose numbers are ids of strings, in any table.
REFERENCES: Final = frozenset(
    {
        *("demangledName", "shortName", "mangledName", "kernelName", "funcName", "varName"),
        *("nameId", "textId", "jsonTextId", "endNameId", "objectNameId", "providerNameId"),
        *("taskNameId", "providerName", "taskName", "filenameId", "contentId", "apiCallId"),
        *("symbol", "module", "srcFile", "CpuInstruction"),
    }
)
_REFERENCE: Final = re.compile(r'^\s*"?(\w+)"?\s+INTEGER.*REFERENCES StringIds', re.MULTILINE)
_OPTION_ARGUMENT: Final = re.compile(r"(.*\bARGUMENT)_(\d+)")
_ENVIRONMENT: Final = re.compile(r".*ENVIRONMENT.*", re.DOTALL)
# Rank of what a text is: where a string is used as two things, the higher one decides.
ORDER: Final[tuple[Level, ...]] = ("code", "range", "text")

# (table, column, what its texts are), first match wins.
_TEXTS: Final[tuple[tuple[str, str, Level], ...]] = (
    (r".*", r"demangledName|shortName|mangledName|kernelName|funcName|varName|symbol", "code"),
    (r"NVTX_EVENTS|MPI_.*|UCP_.*", r"text|textId", "range"),
    (r"NVTX_PAYLOAD.*|DYNAMIC_.*|TARGET_INFO_NVTX.*", r".*", "range"),
    (r"ENUM_.*|UnwindMethodType", r".*", "code"),
    (r"CUPTI_.*|CU[BD].*|CUDA_.*|.*_API|PROFILER_OVERHEAD|.*_WORKLOAD", r"nameId", "code"),
    (r".*", r".*", "text"),
)
_TEXT_PATTERNS: Final = tuple(
    (re.compile(table), re.compile(column), level) for table, column, level in _TEXTS
)
_PRINTABLE: Final = re.compile(rb"[\x20-\x7e]{6}")


def level_of(table: str, column: str) -> Level:
    """What the texts in that column are."""
    return next(
        level
        for tables, columns, level in _TEXT_PATTERNS
        if tables.fullmatch(table) and columns.fullmatch(column)
    )


def references(table: str, columns: Iterable[str], sql: str = "") -> list[str]:
    """The columns that hold ids of strings; `sql` may say so in its comments."""
    said = set(_REFERENCE.findall(sql))
    return [column for column in columns if column in said or column in REFERENCES]


def is_settings(columns: Iterable[str]) -> bool:
    """Is it a table of names and values, which are looked at row by row?"""
    return {"name", "value"} <= set(columns)


def value(scrubber: Scrubber, table: str, column: str, found: Any) -> Any:
    """One value that is a text or bytes."""
    if isinstance(found, str):
        if rules.ID_KEYS.fullmatch(column):
            return scrubber.identity(found)
        if column == "devStateName":
            scrubber.learn_host(found)
            return scrubber.variable("host", found)
        if column == "binaryData" and found:
            return payload(scrubber, found)
        return at_level(scrubber, level_of(table, column), found)
    if isinstance(found, bytes):
        return payload(scrubber, found)
    return found


def at_level(scrubber: Scrubber, level: Level, found: str) -> str:
    """A text masked as what it is."""
    masks = {"code": scrubber.code, "range": scrubber.range_name}
    return masks.get(level, scrubber.text)(found)


def payload(scrubber: Scrubber, found: Any) -> Any:
    """Bytes, or their text form, unless something can be read in them."""
    raw = found if isinstance(found, bytes) else _unpacked(found)
    if raw is not None and not _PRINTABLE.search(raw):
        return found
    scrubber.counts["payloads emptied"] += 1
    return type(found)()


def _unpacked(text: str) -> bytes | None:
    """The bytes that a text of hexadecimal digits stands for."""
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        return None


def learn_settings(scrubber: Scrubber, rows: Sequence[tuple[str, Any]]) -> None:
    """What a table of names and values tells."""
    for name, found in rows:
        if isinstance(found, str):
            scrubber.learn_variable(_key(name), found)
            scrubber.learn(found)


def settings(scrubber: Scrubber, table: str, rows: Sequence[tuple[str, Any]]) -> list[str | None]:
    """The name and value of each row masked: None for a row that goes, else the value.

    Arguments of a command stand in rows of their own, so a secret may stand behind its option.
    """
    kept = KEPT_NAMES.get(table)
    arguments = _arguments(rows)
    out: list[Any] = []
    for place, (name, found) in enumerate(rows):
        if kept is not None and name not in kept:
            scrubber.counts["rows left out"] += 1
            out.append(None)
        elif _ENVIRONMENT.fullmatch(name):
            scrubber.counts["environment"] += 1
            out.append(None)
        elif place in arguments:
            masked = arguments[place]
            if masked != found:
                scrubber.counts["secrets"] += 1
            out.append(scrubber.text(masked))
        elif isinstance(found, str):
            out.append(scrubber.variable(_key(name), found))
        else:
            out.append("" if found is None else found)
    return out


def _arguments(rows: Sequence[tuple[str, Any]]) -> dict[int, str]:
    """The arguments of every command by their row, with what stands behind a secret option
    masked."""
    commands: dict[str, list[tuple[int, int]]] = {}
    for place, (name, found) in enumerate(rows):
        match = _OPTION_ARGUMENT.fullmatch(name)
        if match and isinstance(found, str):
            commands.setdefault(match[1], []).append((int(match[2]), place))
    out: dict[int, str] = {}
    for numbered in commands.values():
        places = [place for _, place in sorted(numbered)]
        masked = masking.command([rows[place][1] for place in places])
        out.update(zip(places, masked, strict=True))
    return out


def _key(name: str) -> str:
    """`PROCESS_0:WORKING_DIR` without what it belongs to."""
    return name.rpartition(":")[2].removeprefix("EXPORT_PARAM_").removeprefix("EXPORT_")
