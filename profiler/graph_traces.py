"""What engines write while they capture their CUDA graphs: at the start of the server, or never.

These traces name the module and operator behind every kernel of a graph. This finds them, or
says how the server has to be started for them.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from specscope.profiler.engine_probe import SGLANG, Engine
from specscope.profiler.profile_control import vllm_folder

FOLDER = "graph_captures"
_SGLANG_FOLDER, _VLLM_FOLDER = "graph_capture_profile", "capture_traces"
_NAME = re.compile(r".+\.json(\.gz)?", re.DOTALL)
_SGLANG_START = (
    "{setting}=1 SGLANG_TORCH_PROFILER_DIR=/tmp/traces python -m sglang.launch_server ... "
    "--enable-profile-cuda-graph"
)
# One file for all graphs of a runner, and, later, one for each graph; the first wins when set.
_ONE_FILE, _FILE_A_GRAPH = "SGLANG_ENABLE_CUDA_GRAPH_CAPTURE_TRACE", "SGLANG_GRAPH_BATCH_CAPTURE"
_SINCE_ONE_FILE, _SINCE_FILE_A_GRAPH = (0, 5, 14), (0, 5, 18)
_VLLM_START = (
    'vllm serve MODEL ... --profiler-config \'{"profiler": "torch", "torch_profiler_dir": '
    '"/tmp/traces", "torch_profiler_with_stack": false, "capture_torch_profiler": true}\' '
    "(0.26 or later, with VLLM_USE_V2_MODEL_RUNNER=0; rank 0 only)"
)


@dataclass(frozen=True)
class Found:
    """The files, copied beside the traces; else the line that says why there are none."""

    files: tuple[Path, ...] = ()
    missing: str = ""


def collect(engine: Engine, out: Path, given: Path | None = None) -> Found:
    """Copy the graph-capture traces of this server into `out`/graph_captures.

    `given` is the folder of the server's profiler as seen from here, where it is known.
    """
    places = _places(engine, given)
    inner = _SGLANG_FOLDER if engine.name == SGLANG else _VLLM_FOLDER
    for place in places:
        found = _traces(place / inner, engine.local.started if engine.local else 0.0)
        if found:
            target = out / FOLDER
            target.mkdir(parents=True, exist_ok=True)
            return Found(tuple(Path(shutil.copy2(path, target / path.name)) for path in found))
    looked = ", ".join(str(place / inner) for place in places) or "nowhere: its folder is not known"
    asked = _was_asked_for(engine)
    why = {
        True: "the server was started for them, but none is to be seen from here",
        False: "they are written at the start of the server, and it was not started for them",
        None: "they are written at the start of the server",
    }[asked]
    return Found(missing=f"no graph-capture traces ({why}; looked in {looked}). {_start(engine)}")


def _places(engine: Engine, given: Path | None) -> list[Path]:
    """Where the server's profiler writes by default, best first."""
    named = [given, vllm_folder(engine)]
    if engine.name == SGLANG and engine.at_home:
        folder = engine.setting("SGLANG_TORCH_PROFILER_DIR")
        base = engine.local.folder if engine.local else Path("/")
        named += [base / folder if folder else None, Path("/tmp")]
    return list(dict.fromkeys(place for place in named if place is not None))


def _start(engine: Engine) -> str:
    """How a server like this one is started so that it writes them."""
    if engine.name != SGLANG:
        return f"Start it so: {_VLLM_START}"
    version = _numbers(engine.version)
    if version and version < _SINCE_ONE_FILE:
        return f"SGLang {engine.version} writes none; 0.5.14 and later do"
    old = version and version < _SINCE_FILE_A_GRAPH
    return f"Start it so: {_SGLANG_START.format(setting=_ONE_FILE if old else _FILE_A_GRAPH)}"


def _numbers(version: str | None) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version or "")[:3])


def _traces(folder: Path, since: float) -> list[Path]:
    """The files there, but those of an earlier server."""
    try:
        return sorted(
            path
            for path in folder.iterdir()
            if path.is_file() and _NAME.fullmatch(path.name) and path.stat().st_mtime >= since - 1
        )
    except OSError:
        return []


def _was_asked_for(engine: Engine) -> bool | None:
    if engine.name == SGLANG:
        flag = engine.arguments.get("enable_profile_cuda_graph")
        if flag is False:
            return False
        settings = (engine.setting(name) for name in (_ONE_FILE, _FILE_A_GRAPH))
        return any(map(_is_on, settings)) if engine.local else None
    config = engine.arguments.get("profiler_config")
    return bool(config.get("capture_torch_profiler")) if isinstance(config, dict) else None


def _is_on(setting: str | None) -> bool:
    return (setting or "").strip().lower() in {"1", "true", "yes", "on", "y", "t"}
