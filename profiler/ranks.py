"""Which rank this process is, as the engine has it."""

from __future__ import annotations

import sys
from typing import Any


def distributed() -> tuple[int, int] | None:
    """Rank and size of torch.distributed, once the engine has begun it; nothing is imported."""
    module: Any = sys.modules.get("torch.distributed")
    try:
        if module is not None and module.is_available() and module.is_initialized():
            return int(module.get_rank()), int(module.get_world_size())
    except Exception:
        return None  # it is being set up or taken down
    return None
