"""Names of Nsight Systems as data: tables, columns, numbers that stand for words.

Every column may be missing; which ones are there is looked up, never told from the version.
"""

from __future__ import annotations

import re
from typing import Final

from .nsys_store import Cut

# Both names of the table about the export: the second to 3.1.
META_EXPORT: Final = ("META_DATA_EXPORT", "EXPORT_META_DATA")
# Records every kernel of a graph replay; the default records a replay as one span, or not at all.
NODE_SWITCH: Final = "--cuda-graph-trace=node"
META_CAPTURE: Final = "META_DATA_CAPTURE"

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH_SPANS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
RANGES: Final = "NVTX_EVENTS"

# Columns of the tables of GPU work that are alike, and those of one kind.
WORK: Final = (
    "start",
    "end",
    "deviceId",
    "contextId",
    "streamId",
    "correlationId",
    "globalPid",
    "graphNodeId",
)
OF_KERNELS: Final = ("demangledName", "shortName", "mangledName")
OF_COPIES: Final = ("bytes", "copyKind", "srcKind", "dstKind")
OF_SETS: Final = ("bytes", "memKind")
OF_GRAPH_SPANS: Final = ("graphId", "graphExecId")
OF_CALLS: Final = ("start", "end", "globalTid", "correlationId", "nameId")
OF_RANGES: Final = (
    "start",
    "end",
    "eventType",
    "category",
    "globalTid",
    "endGlobalTid",
    "textId",
    "domainId",
    "uint64Value",
    "int64Value",
    "uint32Value",
    "int32Value",
    "jsonTextId",
)
INTEGER_PAYLOADS: Final = ("int64Value", "uint64Value", "int32Value", "uint32Value")
FLOAT_PAYLOADS: Final = ("doubleValue", "floatValue")

# Tables whose rows are read into ours, or are about the recording; the rows of all others are
# counted in `sources.dropped`.
READ: Final = frozenset(
    {
        KERNELS,
        COPIES,
        SETS,
        GRAPH_SPANS,
        CALLS,
        RANGES,
        "StringIds",
        "PROCESSES",
        "ThreadNames",
        "MPI_RANKS",
        "DIAGNOSTIC_EVENT",
        "ANALYSIS_DETAILS",
        "TARGET_INFO_SESSION_START_TIME",
        META_CAPTURE,
        *META_EXPORT,
    }
)
# Of the others only these are counted: the rest describes machine and export.
EVENT_TABLE: Final = re.compile(
    r"CUPTI_ACTIVITY_KIND_.*|CUDA_.*EVENTS|.*_EVENTS|OSRT_API|PROFILER_OVERHEAD|GPU_METRICS.*|"
    r"SCHED_.*|COMPOSITE_.*|SAMPLING_.*|DYNAMIC_NVTX.*"
)

# NVTX_EVENTS.eventType.
MARK, THREAD_NAME, PUSH_POP, START_END, DOMAIN = 34, 39, 59, 60, 75
# The same kinds of range, imported from text files.
IMPORTED: Final = {70: PUSH_POP, 71: START_END}

COPY_KINDS: Final = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
    11: "HtoD unified",
    12: "DtoH unified",
    13: "DtoD unified",
}
# As the torch profiler spells them, so that one rule reads both.
MEMORY_KINDS: Final = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
    5: "Device Static",
    6: "Managed Static",
}
SEVERITIES: Final = {1: "info", 2: "warning", 3: "error"}

# What API names carry behind: `cudaLaunchKernel_v7000`.
API_VERSION: Final = re.compile(r"_v\d+$")
# What torch's ranges carry behind an operator's name, other numbers at every call; and what is
# left of it until the range is known for an operator's.
OPERATOR: Final = ", op_id"
OPERATORS: Final = Cut((", seq = ", ", op_id = "), OPERATOR)
# Ranges of NCCL's domain, for files that lost the rows that name domains.
NCCL_RANGE: Final = re.compile(r"nccl[A-Z]\w*")
NCCL: Final = "NCCL"

# Ranks in names of processes: `sglang::scheduler_TP0`, `VLLM::Worker_TP1`, `Worker_PP0_TP1`.
RANK_IN_PROCESS: Final = re.compile(r"(?:^|[_ :])TP(\d{1,4})(?!\d)")


_WRITTEN: Final = {name.lower(): name for name in (*READ, "TARGET_INFO_GPU")}


def canonical(table: str) -> str:
    """The name of a table as it is written here: SQLite does not tell upper from lower case."""
    return _WRITTEN.get(table.lower(), table)


def copy_name(kind: int, source: int, target: int) -> str:
    """`Memcpy HtoD (Pinned -> Device)`."""
    ends = " -> ".join(MEMORY_KINDS.get(memory, "Unknown") for memory in (source, target))
    return f"Memcpy {COPY_KINDS.get(kind, 'unknown')} ({ends})"


def set_name(memory: int) -> str:
    """`Memset (Device)`."""
    return f"Memset ({MEMORY_KINDS.get(memory, 'Unknown')})"
