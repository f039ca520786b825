"""Events written as text in every layout of the field, for tests and as seeds of the fuzzer.

An event here is a dict of JSON values whose ts and dur are integer nanoseconds; the writers
print them as microseconds with three decimals, as Kineto does.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

Event = dict[str, Any]
HEADER = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "warpSize": 32}],
    "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2, "pg_config": [[0, 1]]},
    "baseTimeNanoseconds": 1767189312000000000,
}


def microseconds(ns: int) -> str:
    """Exactly three decimals."""
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def _member(key: str, value: Any) -> str:
    if key in ("ts", "dur") and isinstance(value, int):
        return microseconds(value)
    return json.dumps(value)


def _members(event: Event, keys: Sequence[str], comma: str = ", ") -> str:
    return comma.join(f'"{key}": {_member(key, event[key])}' for key in keys if key in event)


def _rest(event: Event, used: Sequence[str]) -> list[str]:
    return [key for key in event if key not in used]


def kineto_old(event: Event) -> str:
    """Some four lines an event, several keys on a line; M events put the name first."""
    first = ("name", "ph") if event.get("ph") == "M" else ("ph", "cat", "name")
    lines = [
        _members(event, first),
        _members(event, ("pid", "tid")),
        _members(event, ("ts", "dur")),
    ]
    if "args" in event:
        inner = ",\n      ".join(
            f"{json.dumps(k)}: {json.dumps(v)}" for k, v in event["args"].items()
        )
        lines.append('"args": {\n      ' + inner + "\n    }")
    rest = _rest(event, ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args"))
    lines.append(_members(event, rest))
    return "{\n    " + ",\n    ".join(line for line in lines if line) + "\n  }"


def kineto_new(event: Event) -> str:
    """One key a line; the comma before args on a line of its own."""
    keys = [key for key in event if key != "args"]
    text = "{\n    " + _members(event, keys, ",\n    ")
    if "args" in event:
        text += "\n    ,\n" if keys else "\n"
        text += '    "args": {\n      ' + json.dumps(event["args"])[1:-1] + "\n    }\n"
    else:
        text += "\n    \n"
    return text + "  }"


def python_exporter(event: Event) -> str:
    """One event a line, no blanks outside args."""
    members = [
        f'"{key}":{json.dumps(value) if key == "args" else _member(key, value)}'
        for key, value in event.items()
    ]
    return "{" + ",".join(members) + "}"


def minified(event: Event) -> str:
    """No blanks at all."""
    members = []
    for key, value in event.items():
        is_time = key in ("ts", "dur")
        text = _member(key, value) if is_time else json.dumps(value, separators=(",", ":"))
        members.append(f'"{key}":{text}')
    return "{" + ",".join(members) + "}"


def indented(event: Event) -> str:
    """One value a line, four blanks a level, as json.dump(indent=4) does."""
    members = []
    for key, value in event.items():
        text = _member(key, value) if key in ("ts", "dur") else json.dumps(value, indent=4)
        members.append(f'            "{key}": ' + text.replace("\n", "\n            "))
    return "{\n" + ",\n".join(members) + "\n        }"


Writer = Callable[[Event], str]
LAYOUTS: dict[str, tuple[Writer, str]] = {
    "kineto_old": (kineto_old, ",\n  "),
    "kineto_new": (kineto_new, ",\n  "),
    "python_exporter": (python_exporter, ",\n"),
    "minified": (minified, ","),
    "indented": (indented, ",\n        "),
}


def document(events: Sequence[Event], layout: str, *, bare: bool = False) -> str:
    """A whole file: metadata on both sides of the events, or a bare array."""
    writer, comma = LAYOUTS[layout]
    body = comma.join(writer(event) for event in events)
    start = comma[1:]
    if bare:
        return "[" + start + body + start[:1] + "]"
    if layout == "minified":
        head = json.dumps(HEADER, separators=(",", ":"))[:-1]
        return head + ',"traceEvents":[' + body + '],"traceName":"x.json"}'
    head = "".join(f'  "{key}": {json.dumps(value)},\n' for key, value in HEADER.items())
    end = "\n" if layout == "python_exporter" else "\n  "
    return "\n{\n" + head + '  "traceEvents": [' + start + body + end + '],"traceName": "x.json" }'


NAMES = (
    "aten::linear",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>(int)",
    "torch/nn/modules/module.py(1500): _call_impl",
    "sglang/srt/managers/scheduler.py(99): run_batch",
    "step[TARGET_VERIFY bs=1]",
    'quote "q" end',
    "C:\\dir\\users",
    "naïve – 名前 😀",
    "",
    "n" * 70,
)


def random_event(rng: random.Random) -> Event:
    """One event of the kinds that a trace holds."""
    kind = rng.choice(
        ("kernel", "cpu_op", "cuda_runtime", "python_function", "flow", "meta", "instant", "comms")
    )
    ts = rng.randrange(10**15)
    name = rng.choice(NAMES)
    if kind == "meta":
        args: dict[str, Any] = {"name": f"stream {rng.randrange(9)}"}
        return {"name": "thread_name", "ph": "M", "ts": ts, "pid": 0, "tid": 7, "args": args}
    if kind == "flow":
        return {
            "ph": rng.choice("sf"),
            "id": rng.randrange(999),
            "pid": 0,
            "tid": 7,
            "ts": ts,
            "cat": rng.choice(("ac2g", "fwdbwd")),
            "name": "ac2g",
            "bp": "e",
        }
    if kind == "instant":
        return {"ph": "i", "s": "t", "name": name, "pid": "Traces", "tid": "", "ts": ts}
    event: Event = {
        "ph": "X",
        "cat": "cpu_op" if kind == "comms" else kind,
        "name": name,
        "pid": rng.choice((0, 4711, -1, "[TP00] 4711")),
        "tid": rng.choice((7, 20876, "stream 7")),
        "ts": ts,
        "dur": rng.choice((0, 1, 999, 41407, 10**9, -5)),
    }
    args = {"External id": rng.randrange(10**6)}
    if kind == "kernel":
        args |= {
            "device": 0,
            "stream": rng.choice((7, "0x7", "0x0")),
            "correlation": rng.randrange(10**6),
            "registers per thread": 32,
            "warps per SM": 0.23,
            "grid": [1, 2, 3],
            "graph node id": rng.choice((0, 1 << 40)),
            "occupancy": {"limitingFactors": ["a", {"b": 1}], "activeBlocks": 3},
        }
    elif kind == "comms":
        args |= {"Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": 4096}
        args |= {"Process Group Ranks": "[0, 1]", "Seq": 5}
    elif kind == "python_function":
        args = {"Python id": 5, "Python parent id": None, "Ev Idx": 3}
    else:
        args |= {"Input Dims": [[1, 2], []], "Concrete Inputs": ["", 'x"y', "\\"], "bytes": 512}
    event["args"] = args
    return event


def seed_texts(seed: int, count: int = 12) -> list[bytes]:
    """Small files in all layouts, bare and not, and two documents in one text."""
    rng = random.Random(seed)
    out = []
    for layout in LAYOUTS:
        for bare in (False, True):
            events = [random_event(rng) for _ in range(count)]
            out.append(document(events, layout, bare=bare).encode())
    out.append(out[0] + out[6])
    out.append(b"\xef\xbb\xbf" + out[2].replace(b"\n", b"\r\n"))
    return out
