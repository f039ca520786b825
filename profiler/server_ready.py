"""Waits until a server that was just started answers as an engine does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from specscope.profiler import engine_probe, local_server, masking
from specscope.profiler.engine_probe import Engine
from specscope.profiler.http_api import Api
from specscope.profiler.server_errors import ServerError, UnsuitableError
from specscope.profiler.server_process import ServerProcess

_ASK_SECONDS: Final = 10.0
_PAUSE: Final = 0.5
# Healthy, but its pages are not there yet.
_SETTLE_SECONDS: Final = 10.0
_MISSING: Final = 404
# Listen for a server in a container.
_FOR_OTHERS: Final = frozenset({"docker-proxy", "rootlessport", "conmon", "pasta", "slirp4netns"})


def await_ready(
    api: Api, server: ServerProcess, seconds: float, tick: Callable[[str], None]
) -> Engine:
    """The engine, once it is healthy and says what it is.

    Raises:
        ServerError: the server ended, or was not ready in time; with the telling line of its log.
        UnsuitableError: it is no engine that is known, or wants a key.
    """
    begun = time.monotonic()
    healthy_since: float | None = None
    while True:
        if server.ended:
            raise ServerError(f"the server did not start: it {server.last_words()}")
        waited = time.monotonic() - begun
        if waited > seconds:
            said = server.log.telling() or "nothing"
            raise ServerError(
                f"the server was not ready after {seconds:.0f} s; give a longer --ready-timeout, "
                f"or see its log, which last says: {said}"
            )
        tick(f"waiting for the server: {waited:.0f} s")
        if _healthy(api):
            healthy_since = healthy_since or time.monotonic()
            stranger = _stranger(api, server)
            if stranger:
                raise ServerError(stranger)
            try:
                return engine_probe.probe(api)
            except UnsuitableError:
                if time.monotonic() - healthy_since > _SETTLE_SECONDS:
                    raise
            except ServerError:
                pass  # gone again; the top of the loop says so
        time.sleep(_PAUSE)


def _stranger(api: Api, server: ServerProcess) -> str:
    """The line about a server that answers and is not the one that was started."""
    holder = local_server.find(api.port) if local_server.is_local(api.host) else None
    if holder is None or holder.pid in server.members():
        return ""
    words = masking.command(holder.command)
    if words and words[0].rpartition("/")[2] in _FOR_OTHERS:
        return ""
    return (
        f"port {api.port} is answered by process {holder.pid} ({' '.join(words)[:120]}), which the "
        "command did not start: end it, or give another --port"
    )


def _healthy(api: Api) -> bool:
    try:
        reply = api.get("/health", seconds=_ASK_SECONDS)
        if reply.status == _MISSING:
            reply = api.get("/v1/models", seconds=_ASK_SECONDS)
    except UnsuitableError:
        raise
    except ServerError:
        return False
    return reply.ok
