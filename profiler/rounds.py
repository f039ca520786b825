"""Keeps a server under load on another thread, one batch of requests after the other."""

from __future__ import annotations

import threading
import time

from specscope.profiler.http_api import Stop
from specscope.profiler.load import Driver, Load
from specscope.profiler.server_errors import ServerError

_JOIN_SECONDS = 30.0


class Rounds:
    """A load that repeats itself until `close()`; the server never runs dry in between.

    A profiler that counts steps does not end on an idle server.
    """

    def __init__(self, driver: Driver, load: Load, tokens: int, *, seconds: float) -> None:
        self._driver, self._load, self._tokens, self._seconds = driver, load, tokens, seconds
        self._stop = Stop()
        self.error: ServerError | None = None
        self.begun = 0
        self.done = 0
        # Begin of the latest round, on the clock of `time.monotonic`.
        self.since = 0.0
        self._thread = threading.Thread(target=self._work, name="specscope-load", daemon=True)

    def __enter__(self) -> Rounds:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """End the load; the request that runs is dropped."""
        self._stop.now()
        self._thread.join(_JOIN_SECONDS)

    def check(self) -> None:
        """Raise what ended the load."""
        if self.error is not None:
            raise self.error

    def _work(self) -> None:
        while not self._stop.asked:
            self.begun += 1
            self.since = time.monotonic()
            # Pair 0 is that of the warm-up.
            prompts = self._load.prompts(0, 1 + self.begun)
            try:
                self._driver.generate(prompts, self._tokens, seconds=self._seconds, stop=self._stop)
            except ServerError as error:
                if not self._stop.asked:
                    self.error = error
                return
            self.done += 1
