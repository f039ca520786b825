"""What the name of a file says: its role beside a capture, its rank, stage and time.

Names are read from the right end, for host names hold dots. A name never decides what a file
is, only what to try first; the content has the last word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class FileName:
    """A file name taken apart; None or empty where it does not say.

    `role` is one of trace, nsys, cycle_log, merged, frontend, graph_capture, unfinished, memory,
    table, context, report, other. `group` is equal for the files of one server, `capture` for
    those of one capture where the writer gives all ranks one id, and `worker` for those of one
    process.
    """

    name: str
    role: str
    rank: int | None = None
    parallel: dict[str, int] = field(default_factory=dict)
    stage: str | None = None
    stamp_ns: int | None = None
    group: str = ""
    capture: str | None = None
    worker: str | None = None


# Endings of a trace, longest first; what stands before them is the stem.
_ENDINGS: Final = (
    ".pt.trace.json",
    ".trace.json",
    ".trace",
    ".json",
)

# (pattern on the whole name, role, why such a file is not read), first match wins.
ROLES: Final[tuple[tuple[str, str, str], ...]] = (
    (r".*\.(json|trace)(\.gz)?\.tmp", "unfinished", "unfinished export of a killed process"),
    (r"(run|meta)\.json", "context", "what is known of the run, not a trace"),
    (r"(attach|server-args)-.*\.json", "context", "what the hooks say of a process, not a trace"),
    (r"profiler_out_.*\.txt|.*profiler_out.*\.txt", "table", "a text table, not a trace"),
    (r".*-memory\.pickle|.*\.(pickle|pkl)", "memory", "a pickle, never opened"),
    (r".*\.async_llm.*", "frontend", "front-end process, no GPU work in it"),
    (
        r".*graph[_-]capture.*|(.+_)?bs_\d+(_.+)?_rank\d+\..*",
        "graph_capture",
        "recorded while graphs were built; --capture-trace reads it",
    ),
    (r"merged-.*\.json(\.gz)?", "merged", "the ranks of one capture merged into one file"),
    (r".*\.(json|trace)(\.gz)?|.*\.gz", "trace", ""),
    (r".*\.(sqlite|nsys-rep|qdrep)", "nsys", "a recording of Nsight Systems"),
    (r".*\.qdstrm", "report", "a raw recording of Nsight Systems that was never made a report"),
    (r"specscope-cycles-.*\.arrows", "cycle_log", "a cycle log, read where there is no trace"),
    (r".*\.(parquet|md|html|csv|log|txt|py|sh|arrow)", "report", "not a trace"),
    (r".*", "other", "not a trace by its name"),
)

_ROLE_PATTERNS = tuple((re.compile(p, re.DOTALL), role, why) for p, role, why in ROLES)

# SGLang, every generation: [{prefix}-]{id}-TP-{n}[-DP-{n}][-PP-{n}][-EP-{n}][-{STAGE}].
_SGLANG = re.compile(
    r"(?P<capture>.+?)-TP-(?P<tp>\d{1,6})(?:-DP-(?P<dp>\d{1,6}))?(?:-PP-(?P<pp>\d{1,6}))?"
    r"(?:-EP-(?P<ep>\d{1,6}))?(?:-(?P<stage>EXTEND|DECODE|prefill|decode))?",
    re.DOTALL,
)
# tensorboard_trace_handler: {worker}.{time}; the worker of vLLM and others holds the rank.
_STAMPED = re.compile(r"(?P<worker>.+)\.(?P<stamp>\d{10,20})", re.DOTALL)
# Ranks in worker names: rank0, rank-0, -rank-3, ..._rank7, rank1of2.
_RANK = re.compile(r"(?<![A-Za-z])rank[-_]?(\d{1,6})(?!\d)", re.IGNORECASE)
_PARALLEL = re.compile(r"(?:^|_)(dp|pp|tp|dcp|pcp|ep)(\d{1,6})(?=_|$)")
# Cycle logs: [rank,] process, start of the log, piece.
_CYCLE_LOG = re.compile(
    r"specscope-cycles(?:-rank(?P<rank>\d{1,6}))?-pid(?P<pid>\d{1,10})-(?P<stamp>\d{1,20})"
    r"\.(?P<piece>\d{1,9})\.arrows"
)
_SECONDS = re.compile(r"(?:.*-)?(\d{9,10})(?:\.(\d{1,9}))?", re.DOTALL)


def read_name(name: str) -> FileName:
    """Takes a file name (without its folder) apart."""
    role = role_of(name)
    log = _CYCLE_LOG.fullmatch(name)
    if log:
        rank = int(log["rank"]) if log["rank"] else None
        worker = f"{log['rank']}-{log['pid']}-{log['stamp']}"
        return FileName(name, role, rank, stamp_ns=int(log["stamp"]), group="log", worker=worker)
    stem = _stem(name)
    sglang = _SGLANG.fullmatch(stem)
    if sglang:
        return _read_sglang(name, role, sglang)
    stamped = _STAMPED.fullmatch(stem)
    worker = stamped["worker"] if stamped else stem
    ranks: list[str] = _RANK.findall(worker)
    parallel = {kind: int(number) for kind, number in _PARALLEL.findall(worker)}
    alike = _RANK.sub("rank", _PARALLEL.sub("", worker))
    return FileName(
        name=name,
        role=role,
        rank=int(ranks[-1]) if ranks else None,
        parallel=parallel,
        stamp_ns=_nanoseconds(stamped["stamp"]) if stamped else None,
        group=alike if ranks else _without_pid(worker),
        capture=None if stamped or not ranks else alike,
        worker=worker,
    )


def role_of(name: str) -> str:
    """Role of a file by its name."""
    return next(role for pattern, role, _ in _ROLE_PATTERNS if pattern.fullmatch(name))


def why_not_read(name: str) -> str:
    """Why a file of that name is listed and not read; empty for a trace."""
    return next(why for pattern, _, why in _ROLE_PATTERNS if pattern.fullmatch(name))


def _stem(name: str) -> str:
    stem = name.removesuffix(".tmp").removesuffix(".gz")
    for ending in _ENDINGS:
        if stem.endswith(ending) and stem != ending:
            return stem.removesuffix(ending)
    return stem


def _read_sglang(name: str, role: str, match: re.Match[str]) -> FileName:
    numbers = {key: int(match[key]) for key in ("tp", "dp", "pp", "ep") if match[key]}
    seconds = _SECONDS.fullmatch(match["capture"])
    stamp = None
    if seconds:
        stamp = int(seconds[1]) * 10**9 + int((seconds[2] or "").ljust(9, "0"))
    return FileName(
        name=name,
        role=role,
        # DP and EP ranks lie inside the TP group or in another world; with PP the content
        # has to say.
        rank=None if numbers.get("pp") else numbers["tp"],
        parallel=numbers,
        stage=match["stage"],
        stamp_ns=stamp,
        group="sglang",
        capture=match["capture"],
        worker="-".join(f"{key}{number}" for key, number in numbers.items()),
    )


def _without_pid(worker: str) -> str:
    """`host_8123` without the process id, so that the workers of one host stand together."""
    return re.sub(r"_\d{1,7}$", "", worker)


def _nanoseconds(digits: str) -> int:
    """A time since 1970 written in s, ms, us or ns, told by its number of digits."""
    unit = {10: 9, 11: 9, 12: 6, 13: 6, 14: 6, 15: 3, 16: 3, 17: 3}.get(len(digits), 0)
    return int(digits) * int(10**unit)
