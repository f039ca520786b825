"""Finds the data that is kept beside the repository, and says loudly when it is missing."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

# What is not installed here and tests would use; printed at the end of the run as well.
NOT_INSTALLED: list[str] = []

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


def needed(module: str) -> Any:
    """A module that CI does not install; skips the test, or the module at import, without it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        NOT_INSTALLED.append(module)
        pytest.skip(f"{module} is not installed", allow_module_level=True)
