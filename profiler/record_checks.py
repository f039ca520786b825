"""What is known to go wrong when a server runs under `nsys`, said before it is started.

Each check is a function of the facts and gives one line, or nothing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .nsys_program import numbers

SPAWN: Final = "VLLM_WORKER_MULTIPROC_METHOD"
REGISTER_ONLY: Final = "NSYS_NVTX_PROFILER_REGISTER_ONLY"
# Set for the command where it is not set; neither does harm to an engine that does not know it.
VARIABLES: Final = {SPAWN: "spawn", REGISTER_ONLY: "0"}

# From this version on the package asks the tool whether it listens; nsys up to this one is silent.
_NVTX_ASKS: Final = (0, 2, 12)
_NSYS_SILENT: Final = (2023, 4)
# Branch of the driver that came with a version of nsys, and its CUDA.
_DRIVERS: Final = (
    ((2022, 4), 520, "11.8"),
    ((2023, 4), 550, "12.4"),
    ((2024, 6), 570, "12.8"),
    ((2025, 3), 580, "13.0"),
)
_LEAST_FREE: Final = 2 << 30
_ASK_SECONDS: Final = 30.0
_DRIVER_FILE: Final = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Facts:
    """What the checks look at; None is not known."""

    command: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    nsys: str = ""
    nvtx: str | None = None
    driver: int | None = None
    graphs: str = "node"
    free_bytes: int | None = None
    scratch: str = ""


def warnings(facts: Facts) -> list[str]:
    """The lines of all checks, in the order of what is lost."""
    return [line for check in CHECKS if (line := check(facts))]


def _starts_by_fork(facts: Facts) -> str:
    if facts.environ.get(SPAWN) != "fork":
        return ""
    return (
        f"{SPAWN}=fork: forked workers lose most or all of their rows under nsys; unset it, "
        "so that they are spawned"
    )


def _has_a_torch_profiler(facts: Facts) -> str:
    text = " ".join(facts.command)
    named = re.search(r"--profiler-config[\s=.].{0,80}?\btorch\b|torch_profiler_dir", text)
    variable = "VLLM_TORCH_PROFILER_DIR"
    if named is None and variable not in facts.environ:
        return ""
    what = "--profiler-config" if named else variable
    return (
        f"{what}: a torch profiler and nsys cannot both see the GPU; while it is on, the one that "
        "came second records no kernels. Do not start it during the recording"
    )


def _loses_ranges(facts: Facts) -> str:
    if facts.nvtx is None or numbers(facts.nvtx) < _NVTX_ASKS:
        return ""
    if numbers(facts.nsys)[:2] > _NSYS_SILENT:
        return ""
    return (
        f"nsys {facts.nsys} records no range of the package nvtx {facts.nvtx} (0.2.12 and later); "
        "install 'nvtx<0.2.12' for the server, or a newer nsys. Where torch is loaded, hooks take "
        "torch.cuda.nvtx in its place"
    )


def _has_no_nvtx(facts: Facts) -> str:
    if facts.nvtx != "":
        return ""
    return (
        "the server's Python has no package nvtx: hooks write ranges by torch.cuda.nvtx, "
        "which costs more; install nvtx there"
    )


def _driver_is_newer(facts: Facts) -> str:
    version = numbers(facts.nsys)[:2]
    rows = [row for row in _DRIVERS if row[0] <= version]
    if facts.driver is None or not rows or version > _DRIVERS[-1][0]:
        return ""
    _, branch, cuda = rows[-1]
    if facts.driver < branch + 10:
        return ""
    return (
        f"the driver ({facts.driver}) is of a later time than nsys {facts.nsys} (drivers of about "
        f"{branch}, CUDA {cuda}): it may record no kernel and no CUDA call; install a newer nsys"
    )


def _sees_graphs_only_whole(facts: Facts) -> str:
    if facts.graphs != "graph":
        return ""
    return (
        "--graphs graph: a graph launch is one block in the report; its kernels, and so the "
        "collectives inside, are not to be seen"
    )


def _has_little_room(facts: Facts) -> str:
    if facts.free_bytes is None or facts.free_bytes >= _LEAST_FREE:
        return ""
    return (
        f"{facts.free_bytes / 1e9:.1f} GB free in {facts.scratch}, where nsys records before it "
        "writes the report; make room, or set TMPDIR to a larger disk"
    )


CHECKS: Final[tuple[Callable[[Facts], str], ...]] = (
    _starts_by_fork,
    _has_a_torch_profiler,
    _driver_is_newer,
    _loses_ranges,
    _has_no_nvtx,
    _sees_graphs_only_whole,
    _has_little_room,
)


def facts_of(
    command: Sequence[str], environ: Mapping[str, str], *, nsys: str, graphs: str
) -> Facts:
    """The facts for a command on this machine."""
    scratch = environ.get("TMPDIR") or tempfile.gettempdir()
    try:
        free = shutil.disk_usage(scratch).free
    except OSError:
        free = None
    python = python_of(command, environ)
    return Facts(
        command=tuple(command),
        environ=environ,
        nsys=nsys,
        nvtx=None if python is None else nvtx_of(python, environ),
        driver=driver_of(_DRIVER_FILE),
        graphs=graphs,
        free_bytes=free,
        scratch=scratch,
    )


def python_of(command: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """The Python that runs the command, as far as its words or its first line say."""
    path = environ.get("PATH")
    for word in command:
        if re.fullmatch(r"(?:.*/)?python[\d.]*", word):
            return shutil.which(word, path=path)
        if word == "-c":  # what follows is a text, not words
            break
    program = shutil.which(command[0], path=path)
    if program is None:
        return None
    try:
        with Path(program).open("rb") as file:
            line = file.readline(256)
    except OSError:
        return None
    match = re.match(rb"#!\s*(\S*/python[\d.]*)\s*$", line)
    return match[1].decode("utf-8", "surrogateescape") if match else None


def nvtx_of(python: str, environ: Mapping[str, str]) -> str | None:
    """Version of the package nvtx of that Python, empty when it has none, None when not known."""
    code = (
        "import importlib.metadata as m\n"
        "try: print('nvtx', m.version('nvtx'))\n"
        "except m.PackageNotFoundError: print('nvtx')"
    )
    try:
        done = subprocess.run(
            [python, "-c", code],
            env={**environ, "SPECSCOPE_DISABLE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    words = done.stdout.decode("utf-8", "replace").split()
    if words[:1] != ["nvtx"]:
        return None
    return words[1] if len(words) > 1 else ""


def driver_of(path: Path) -> int | None:
    """The branch of the NVIDIA driver of this machine: 570 of 570.133.20."""
    try:
        text = path.read_text("ascii", "replace")
    except OSError:
        return None
    match = re.search(r"\s(\d{3})\.\d+(?:\.\d+)?\s", text)
    return int(match[1]) if match else None


def with_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` with what a server needs under nsys, where it is not set."""
    return {**VARIABLES, **environ}
