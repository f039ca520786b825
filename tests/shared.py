"""Finds the data that is kept beside the repository, and says loudly when it is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"

# What was asked for and not there; printed at the end of the run (tests/conftest.py).
MISSING: list[str] = []


def shared_path(*parts: str) -> Path:
    """A path in ../shared; skips the test, or the module at import, when it is not there."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        MISSING.append("/".join(parts))
        pytest.skip(f"../shared/{'/'.join(parts)} is missing", allow_module_level=True)
    return path
