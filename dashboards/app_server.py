"""Serves an application on loopback until it is stopped, and says how to reach it."""

from __future__ import annotations

import getpass
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from specscope.dashboards.app_guard import Access, Wsgi
from specscope.dashboards.safe_text import clean
from specscope.traces.errors import UsageError

LOOPBACK: Final = "127.0.0.1"
_END_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Application:
    """What is served: the guarded application, and what opens it.

    `work` runs on a thread of its own beside it, until the event that it is given is set.
    """

    wsgi: Wsgi
    access: Access
    work: Callable[[threading.Event], None] | None = None


def serve(application: Application, port: int, say: Callable[[str], None]) -> int:
    """Serve on 127.0.0.1 until SIGINT or SIGTERM; 0. Port 0 is a free one.

    Raises UsageError where the port cannot be had, and whatever `work` raises.
    """
    with stopped_by_signals() as stop, served(application, port) as server:
        for line in greeting(application.access, server.port):
            say(line)
        while not stop.is_set() and not server.failed:
            stop.wait(0.2)
    if server.failed:
        raise server.failed[0]
    return 0


@dataclass
class Served:
    """A server that runs; `failed` holds what ended its work."""

    port: int
    failed: list[BaseException]


@contextmanager
def served(application: Application, port: int = 0) -> Iterator[Served]:
    """The application on 127.0.0.1 while the body runs."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):  # type: ignore[misc]
        """Says nothing: the query of a request holds the token."""

        server_version = "specscope"
        sys_version = ""
        timeout = 60.0

        def log(self, *_: Any) -> None:
            """Nothing."""

    listening = _listening(port)
    try:
        server = make_server(
            LOOPBACK,
            listening.getsockname()[1],
            application.wsgi,
            threaded=True,
            request_handler=Handler,
            fd=listening.fileno(),
        )
    finally:
        listening.close()  # the server has a copy
    server.daemon_threads = True
    found = Served(server.port, [])
    stop = threading.Event()

    def work() -> None:
        try:
            assert application.work is not None
            application.work(stop)
        except BaseException as error:
            found.failed.append(error)

    threads = [threading.Thread(target=server.serve_forever, args=(0.1,), name="specscope-page")]
    if application.work is not None:
        threads.append(threading.Thread(target=work, name="specscope-work"))
    for thread in threads:
        thread.daemon = True
        thread.start()
    try:
        yield found
    finally:
        stop.set()
        server.shutdown()
        for thread in threads:
            thread.join(_END_SECONDS)
        server.server_close()


def _listening(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen(64)
    except OSError as error:
        listening.close()
        why = error.strerror or str(error)
        raise UsageError(f"--port {port}: {why}; without it a free one is taken") from error
    return listening


def greeting(access: Access, port: int) -> Iterator[str]:
    """Where it is, and how to come there from another machine."""
    yield f"open {access.url(port)}"
    yield (
        f"from another machine first: ssh -N -L {port}:{LOOPBACK}:{port} "
        f"{_user()}{clean(socket.gethostname(), 80)}"
    )
    yield "Ctrl-C ends it"


def _user() -> str:
    try:
        return f"{clean(getpass.getuser(), 80)}@"
    except (OSError, KeyError, ImportError):
        return ""


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGINT or SIGTERM sets, in place of ending the process."""
    stop = threading.Event()

    def ask(*_: Any) -> None:
        stop.set()

    before = {one: signal.signal(one, ask) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
