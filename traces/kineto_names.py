"""Names of Kineto as data: categories of every age, API calls, element types, producers.

The tables are read top to bottom and the first match decides. A name that is in no table is
counted, never guessed.
"""

from __future__ import annotations

import re
from typing import Final

# What an event with this category becomes. Spellings of every age since torch 1.8 stand side
# by side; ROCm uses the CUDA ones. What is not listed stays out of the tables and is counted
# in `sources.dropped` (gpu_user_annotation, cuda_sync, overhead, Trace, profiler ranges,
# instants, other accelerators).
CATEGORIES: Final[dict[str, str]] = {
    "kernel": "kernel",
    "Kernel": "kernel",  # to 2021, and internal builds to 2022
    "gpu_memcpy": "copy",
    "Memcpy": "copy",
    "gpu_memset": "set",
    "Memset": "set",
    "cuda_runtime": "call",
    "cuda_driver": "call",
    "hip_runtime": "call",
    "hip_driver": "call",
    "Runtime": "call",  # to 2021, and internal builds to 2022
    "user_annotation": "annotation",
    "cpu_op": "operator",
    "Operator": "operator",  # to 2021
    "python_function": "frame",
}

# Points in time, whatever their phase says: the Python exporter writes them as ph X with a dur.
POINT_NAMES: Final = ("[memory]", "[OutOfMemory]")

OP_KINDS: Final = ("kernel", "copy", "set", "graph")
CALL_KINDS: Final = ("launch", "graph_launch", "sync", "copy", "set", "alloc", "other")
RANGE_KINDS: Final = ("annotation", "nvtx", "operator", "frame", "module")
TRACK_FIELDS: Final = ("process_name", "thread_name", "process_labels", "pid_text", "tid_text")

MODULE_PREFIX: Final = "nn.Module: "

# Version and per-thread-stream suffixes that the same call may carry.
_SUFFIX = r"(_v\d+)?(_ptsz|_ptds|_spt)?$"

# (pattern at the start of the API name, kind of the call). Launches are the calls that put a
# kernel on the GPU; the host functions of a stream and the building of graphs are not.
CALL_RULES: Final[tuple[tuple[str, str], ...]] = (
    (r"(cuda|cu|hip)GraphLaunch" + _SUFFIX, "graph_launch"),
    (r"cudaLaunch(Kernel(ExC)?|CooperativeKernel(MultiDevice)?)?" + _SUFFIX, "launch"),
    (r"cuLaunch(Kernel(Ex)?|CooperativeKernel(MultiDevice)?|Grid(Async)?)?" + _SUFFIX, "launch"),
    (
        r"hip(Ext|Hcc|Drv)?(Module)?Launch"
        r"(Kernel(ExC?)?|CooperativeKernel(MultiDevice)?|ByPtr|MultiKernelMultiDevice)" + _SUFFIX,
        "launch",
    ),
    (r"(cuda|hip)(Stream|Device|Event|Thread|Ctx)Synchronize" + _SUFFIX, "sync"),
    (r"cu(Stream|Ctx|Event)Synchronize" + _SUFFIX, "sync"),
    (r"(cuda|cu|hip)Memcpy", "copy"),
    (r"(cuda|cu|hip)Memset", "set"),
    (r"(cuda|hip)(Ext)?(Malloc|Free|Host(Malloc|Alloc|Free|Register|Unregister))", "alloc"),
    (r"(cu|hip)Mem(Alloc|Free|HostAlloc|HostRegister|Create|Release|Map|Unmap)", "alloc"),
)

# Calls that begin and end the capture of a graph; what is called between becomes its nodes.
CAPTURE_BEGIN: Final = r"(cuda|cu|hip)StreamBeginCapture(ToGraph)?" + _SUFFIX
CAPTURE_END: Final = r"(cuda|cu|hip)StreamEndCapture" + _SUFFIX

_CALL_PATTERNS = tuple((re.compile(pattern), kind) for pattern, kind in CALL_RULES)


def call_kind(name: str) -> str:
    """Kind of a runtime or driver call by its API name; `other` when no rule matches."""
    for pattern, kind in _CALL_PATTERNS:
        if pattern.match(name):
            return kind
    return "other"


# Bytes of one element by the spelling of record_param_comms (c10 scalar types).
DTYPE_BYTES: Final[dict[str, int]] = {
    "Bool": 1,
    "Byte": 1,
    "Char": 1,
    "Short": 2,
    "Int": 4,
    "Long": 8,
    "Half": 2,
    "BFloat16": 2,
    "Float": 4,
    "Double": 8,
    "ComplexHalf": 4,
    "ComplexFloat": 8,
    "ComplexDouble": 16,
    "Float8_e5m2": 1,
    "Float8_e4m3fn": 1,
    "Float8_e5m2fnuz": 1,
    "Float8_e4m3fnuz": 1,
    "Float8_e8m0fnu": 1,
    "QInt8": 1,
    "QUInt8": 1,
    "UInt16": 2,
    "UInt32": 4,
    "UInt64": 8,
}

# (part of a process name, annotation or frame; producer). A patched build may carry the marks
# of another engine, so the process name comes first.
PROCESS_MARKS: Final[tuple[tuple[str, str], ...]] = (
    ("sglang::", "sglang"),
    ("VLLM::", "vllm"),
    ("vllm::", "vllm"),
    ("trtllm", "tensorrt_llm"),
)
RANGE_MARKS: Final[tuple[tuple[str, str], ...]] = (
    ("sglang/srt/", "sglang"),
    ("step[", "sglang"),
    ("scheduler.", "sglang"),
    ("gpu_model_runner: ", "vllm"),
    ("vllm/v1/", "vllm"),
    ("execute_context_", "vllm"),
    ("execute_new_", "vllm"),
    ("tensorrt_llm/", "tensorrt_llm"),
    ("transformers/generation/", "transformers"),
)

# Header keys of which one says that the trace comes from ROCm.
ROCM_KEYS: Final = ("hip_runtime_version", "hip_driver_version", "roctracer_version")

# Frames kept by default: the files whose methods are stages, cycles or their neighbours. All
# others are counted and dropped; `all_frames` keeps every one.
FRAME_NEEDLES: Final[tuple[bytes, ...]] = (
    b"sglang/srt/speculative/",
    b"sglang/srt/managers/scheduler",
    b"sglang/srt/managers/tp_worker",
    b"sglang/srt/model_executor/",
    b"vllm/v1/worker/",
    b"vllm/v1/spec_decode/",
    b"vllm/v1/engine/core",
    b"vllm/v1/sample/",
    b"vllm/spec_decode/",
    b"vllm/worker/",
    b"tensorrt_llm/_torch/pyexecutor/",
    b"tensorrt_llm/_torch/speculative/",
    b"transformers/generation/",
    b"lmdeploy/pytorch/engine/",
    b"lmdeploy/pytorch/spec_decode/",
)
