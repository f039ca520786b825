"""The first interrupt asks for an end, the second is one."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Final

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Counts SIGINT and SIGTERM while the context is open; the second raises KeyboardInterrupt.

    `toggle` (SIGUSR1) counts apart, where it is asked for. Off the main thread nothing is caught.
    """

    def __init__(self, *, toggle: bool = False) -> None:
        self.count = 0
        self.toggles = 0
        self._toggle = toggle
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in _NUMBERS:
                self._before[number] = signal.signal(number, self._interrupted)
            if self._toggle:
                self._before[signal.SIGUSR1] = signal.signal(signal.SIGUSR1, self._toggled)
        return self

    def __exit__(self, *raised: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before or signal.SIG_DFL)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt

    def _toggled(self, number: int, frame: FrameType | None) -> None:
        self.toggles += 1
