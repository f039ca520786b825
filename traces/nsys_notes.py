"""Capture health of an export of Nsight Systems: what is missing in it, with the mend.

Nothing here is guessed from settings alone: what the rows show decides.
"""

from __future__ import annotations

import re
from typing import Any, Final

from .run import Note, RankTables
from .sniff import printable

# Diagnostics that say nothing about GPU work, calls or ranges.
_BESIDE: Final = re.compile(
    r"No (OpenGL|Vulkan|DX1[12]|cuDNN|cuBLAS|OpenACC|MPI|OpenMP|NVTX|CUDA|OS ?runtime) events "
    r"|CPU kernel IP|backtrace|perf event paranoid|[Cc]ontext switch|Unified Memory"
)
_DRIVER: Final = re.compile(
    r"CUDA driver version \((?P<driver>[\d.]+)\) is not supported"
    r".*driver version (?P<known>[\d.]+)",
    re.DOTALL,
)
_SHOWN: Final = 5
# A rank whose rows end so much before those of the others has lost its end.
_EARLY_SHARE, _EARLY_NS = 0.1, 100_000_000

_SPAWN: Final = (
    "start workers with spawn (VLLM_WORKER_MULTIPROC_METHOD=spawn), record with "
    "--trace-fork-before-exec=true, and stop the recording before the server ends"
)


def notes_on(tables: RankTables) -> list[Note]:
    """What is wrong with the export that this rank came from; empty for a sound one."""
    known: dict[str, Any] = tables.facts["nsys"]
    notes = [
        *_diagnostics(known),
        *_no_cuda(tables, known),
        *_bare(tables, known),
        *_ranges(tables, known),
        *_payloads(known),
    ]
    if not known["has_strings"] and (known["has_ops"] or known["has_calls"]):
        text = "the table StringIds is missing: kernels and calls have no names, so none is linked"
        notes.append(Note("no_strings", text, "export the whole report"))
    if known["trimmed"]:
        text = "the export holds a part of the recording only (it was cut by time)"
        mend = "launches before the cut are missing: export without --times, or cut by a margin"
        notes.append(Note("trimmed", text, mend))
    early = known["last_ns"] - tables.facts["last_ns"]
    if early > max(_EARLY_NS, _EARLY_SHARE * (known["last_ns"] - known["first_ns"])):
        text = (
            f"rank {tables.rank}: its rows end {early / 1e9:.1f} s before those of the others: "
            "the process ended, or its last rows were lost"
        )
        notes.append(Note("rank_ends_early", text, _SPAWN))
    return notes


def _diagnostics(known: dict[str, Any]) -> list[Note]:
    """Warnings and errors of the profiler that concern what is read here, errors first."""
    notes = []
    shown = []
    for one in known["diagnostics"]:
        driver = _DRIVER.search(one["text"])
        if driver:
            text = (
                f"the CUDA driver ({driver['driver']}) is newer than this Nsight Systems knows "
                f"({driver['known']}): its CUDA rows are missing or not to be trusted"
            )
            notes.append(Note("driver_newer", text, "record with a newer Nsight Systems"))
        elif not _BESIDE.search(one["text"]):
            shown.append(one)
    shown.sort(key=lambda one: one["severity"] != "error")
    for one in shown[:_SHOWN]:
        times = f" ({one['count']} times)" if one["count"] > 1 else ""
        text = f"Nsight Systems: {one['severity']}: {printable(one['text'], 200)}{times}"
        notes.append(Note("nsys_diagnostic", text))
    if len(shown) > _SHOWN:
        more = len(shown) - _SHOWN
        notes.append(Note("nsys_diagnostic", f"Nsight Systems: {more} more warnings and errors"))
    return notes


def _no_cuda(tables: RankTables, known: dict[str, Any]) -> list[Note]:
    if known["has_ops"]:
        return []
    if known["has_calls"]:
        text = f"{tables.calls.num_rows:,} CUDA calls and not one row of GPU work in this export"
        mend = (
            "the driver and Nsight Systems do not fit, another profiler held CUPTI, or (WSL) the "
            "GPU cannot be traced: see the diagnostics, try a newer Nsight Systems"
        )
        return [Note("no_gpu_rows", text, mend)]
    return [
        Note(
            "no_cuda",
            "no CUDA rows in this export: neither calls nor GPU work",
            f"record with -t cuda,nvtx; {_SPAWN}",
        )
    ]


def _bare(tables: RankTables, known: dict[str, Any]) -> list[Note]:
    """Processes that are ranks by what they do, and have no row of their GPU."""
    bare = known["bare_pids"]
    if not bare or not known["has_ops"]:
        return []
    world = tables.facts["world_size"]
    named = ", ".join(map(str, bare[:8])) + (", ..." if len(bare) > 8 else "")
    plural = "es" if len(bare) > 1 else ""
    text = (
        f"{world - len(bare)} of {world} ranks have CUDA rows: process{plural} {named} wrote the "
        "ranges or launches of a rank, or is named like one, and no GPU work of theirs is on record"
    )
    return [Note("ranks_without_cuda", text, _SPAWN)]


def _payloads(known: dict[str, Any]) -> list[Note]:
    """Payloads of NCCL's ranges: message sizes and communicators."""
    if not known["has_payload_schemas"]:
        return []
    if known["payload_blobs"]:
        text = f"{known['payload_blobs']:,} binary payloads of NVTX ranges are not decoded"
        return [Note("payloads_not_read", text)]
    text = "payloads of NVTX ranges (NCCL's message sizes) were not exported"
    mend = "nsys export --type=sqlite --include-blobs=true"
    return [Note("payloads_not_exported", text, mend)]


def _ranges(tables: RankTables, known: dict[str, Any]) -> list[Note]:
    if known["has_ranges"]:
        return []
    if known["has_domains"]:
        version = tables.facts["versions"].get("nsys", "of unknown version")
        return [
            Note(
                "nvtx_lost",
                f"NVTX domains and not one range: the Python package nvtx from 0.2.12 on records "
                f"nothing under this Nsight Systems ({printable(version)})",
                "install nvtx 0.2.11, or record with a newer Nsight Systems",
            )
        ]
    missing = "NVTX_EVENTS missing" if not known["has_nvtx_table"] else "NVTX_EVENTS is empty"
    return [
        Note(
            "no_ranges",
            f"no ranges in this capture ({missing}): stages can be told by structure only",
            "record with -t cuda,nvtx and specscope's ranges: specscope record -- COMMAND",
        )
    ]
