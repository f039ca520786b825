"""Names and clocks of this machine's GPUs, as nvidia-smi tells them."""

from __future__ import annotations

import subprocess
from typing import Any

# Column of nvidia-smi, key in run.json, whether it is a number.
_COLUMNS = (
    ("index", "index", True),
    ("name", "name", False),
    ("driver_version", "driver", False),
    ("clocks.sm", "sm_clock_mhz", True),
    ("clocks.max.sm", "sm_clock_max_mhz", True),
    ("clocks.mem", "memory_clock_mhz", True),
    ("power.draw", "power_w", True),
    ("memory.used", "memory_used_mib", True),
)
_SECONDS = 10.0


def sample(program: str = "nvidia-smi") -> list[dict[str, Any]] | None:
    """One row a GPU, as it is at this moment; None where there is no nvidia-smi."""
    query = ",".join(column for column, _, _ in _COLUMNS)
    try:
        done = subprocess.run(
            [program, f"--query-gpu={query}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return read(done.stdout) if done.returncode == 0 else None


def read(text: str) -> list[dict[str, Any]]:
    """The rows of nvidia-smi's answer; a value it does not have is None."""
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(_COLUMNS):
            continue
        rows.append(
            {
                key: _number(cell) if is_number else cell
                for (_, key, is_number), cell in zip(_COLUMNS, cells, strict=True)
            }
        )
    return rows


def _number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:  # [N/A]
        return None
    return int(number) if number.is_integer() else number
