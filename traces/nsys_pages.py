"""The native reader of SQLite pages, where it was built; else everything is read by SQL."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .scan import PURE_SWITCH

Reader = Callable[..., tuple[int, list[Any]]]


class LeftToSqlError(Exception):
    """Stands for the native reader's own error where there is no native reader."""


OddError: type[Exception] = LeftToSqlError
read_pages: Reader | None = None
if os.environ.get(PURE_SWITCH, "") in ("", "0"):
    try:
        from . import _pages
    except ImportError:
        pass
    else:
        OddError, read_pages = _pages.OddError, _pages.read
