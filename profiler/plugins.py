"""What the engines' plugin entry points and the start-up hook call. Nothing here raises."""

from __future__ import annotations

import logging
import os
import sys

from specscope.profiler.attach import DISABLE, LOG_FOLDER, install, is_set

_SAID = "SPECSCOPE_SAID"


def register() -> None:
    """Entry point of `vllm.general_plugins` and `sglang.srt.plugins`: attach.

    Called several times in a process, and before the engine's workers are imported; the hooks
    are put when they are.
    """
    attachment = install()
    if attachment.active or is_set(DISABLE):
        return
    # Whoever names a log folder wants the hooks, and is told once that they are not there.
    wanted = os.environ.get(LOG_FOLDER) and not os.environ.get(_SAID)
    if wanted:
        os.environ[_SAID] = "1"
    level = logging.WARNING if wanted else logging.INFO
    logging.getLogger("specscope").log(level, "specscope: not attached: %s", attachment.reason)


def start_up() -> None:
    """Called by `startup/sitecustomize.py` in every process that `specscope run` starts."""
    attachment = install()
    if attachment.active or is_set(DISABLE) or os.environ.get(_SAID):
        return
    # Said once: the processes that this one starts inherit the variable.
    os.environ[_SAID] = "1"
    sys.stderr.write(f"specscope: not attached in {sys.executable}: {attachment.reason}\n")
