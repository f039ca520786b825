"""The process behind a local port: its command, the settings in its environment, its folder.

Only for a server on this host and of this user; everything else stays unknown. Engines do not
tell these over HTTP: vLLM's arguments, simulated acceptance, where traces are written.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from pathlib import Path

# Variables that change what a server does; no others are read out of its environment.
PREFIXES = ("SGLANG_", "VLLM_", "NCCL_", "CUDA_VISIBLE_", "TORCH_", "SPECSCOPE_")
NAMES = frozenset({"CUDA_DEVICE_MAX_CONNECTIONS", "HIP_VISIBLE_DEVICES", "OMP_NUM_THREADS"})
_LISTEN = "0A"


@dataclass(frozen=True)
class LocalServer:
    """What `/proc` says of a server's process.

    `same_disk`: it sees the files that this process sees (no container of its own). `started`:
    seconds since 1970, 0 when not known.
    """

    pid: int
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    folder: Path = Path("/")
    same_user: bool = True
    same_disk: bool = True
    started: float = 0.0


def is_local(host: str) -> bool:
    """Whether `host` is an address of this machine (a tunnel or a container may hide behind)."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return any(_can_bind(family, address) for family, _, _, _, address in found)


def find(port: int, proc: Path = Path("/proc")) -> LocalServer | None:
    """The process that listens on `port` here, or None when it is not to be seen."""
    wanted = {f"socket:[{inode}]" for inode in _listening(port, proc)}
    if not wanted:
        return None
    for pid in sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()):
        try:
            if any(_target(file) in wanted for file in (proc / str(pid) / "fd").iterdir()):
                return _described(pid, proc)
        except OSError:  # gone, or another user's
            continue
    return None


def _described(pid: int, proc: Path) -> LocalServer:
    home = proc / str(pid)
    command = (home / "cmdline").read_bytes().decode("utf-8", "replace").rstrip("\0").split("\0")
    raw = (home / "environ").read_bytes().decode("utf-8", "replace")
    pairs = (entry.partition("=") for entry in raw.split("\0") if "=" in entry)
    environment = {
        name: value for name, _, value in pairs if name.startswith(PREFIXES) or name in NAMES
    }
    same_disk = _target(home / "ns" / "mnt") == _target(proc / "self" / "ns" / "mnt") != ""
    same_user = home.stat().st_uid == os.getuid()
    folder = Path(_target(home / "cwd") or "/")
    return LocalServer(
        pid, tuple(command), environment, folder, same_user, same_disk, _started(home, proc)
    )


def _target(link: Path) -> str:
    """Where a link leads; empty when it is gone, or another user's."""
    try:
        return str(link.readlink())
    except OSError:
        return ""


def _started(home: Path, proc: Path) -> float:
    """Start of the process, from its ticks since the machine came up."""
    # The name of the program, in parentheses, may hold anything.
    ticks = (home / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    for line in (proc / "stat").read_text("ascii", "replace").splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) + int(ticks) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _listening(port: int, proc: Path) -> set[str]:
    """Inodes of the sockets that listen on `port`."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text("ascii", "replace").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            columns = line.split()
            if columns[3] == _LISTEN and int(columns[1].rpartition(":")[2], 16) == port:
                inodes.add(columns[9])
    return inodes


def _can_bind(family: int, address: tuple[object, ...]) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True
