"""The client of a server: which keys it sends, which URLs it takes, how long it waits."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from specscope.profiler.http_api import Api
from specscope.profiler.server_errors import ServerError, UnsuitableError
from tests import waiting
from tests.profiler.fake_servers import FakeSglang

KEY = "PLANTED8"


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\r\nX: y", f"{KEY} x", f"{KEY}\0", f"{KEY}é"])
@pytest.mark.parametrize("which", ["api_key", "admin_key"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: str, which: str) -> None:
    with pytest.raises(UnsuitableError, match="cannot be sent") as raised:
        Api("http://127.0.0.1:9", **{which: key})
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        f"http://u:{KEY}@h:86010",
        f"ftp://u:{KEY}@h",
        f"u:{KEY}@h",
        f"http://u:a@{KEY}/b@h",
        f"http://[{KEY}@h",
        f"http://h:port/?api_key={KEY}",
        f"http://u:{KEY} @h",
    ],
)
def test_a_url_that_is_refused_does_not_show_its_password(url: str) -> None:
    with pytest.raises(UnsuitableError) as raised:
        Api(url)
    assert KEY not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["http://exa mple:80/", "http://h\n", "http://h:0", "http://", "ftp://h"]
)
def test_a_url_that_is_none_is_one_line(url: str) -> None:
    with pytest.raises(UnsuitableError, match="is no URL of a server"):
        Api(url)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 0, -1, 1e9])
def test_a_time_limit_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(UnsuitableError, match="time limit"):
        Api("http://127.0.0.1:9").get("/x", seconds=seconds)


def test_the_admin_key_goes_to_the_profilers_pages_only() -> None:
    with FakeSglang() as fake:
        api = Api(fake.url, "user-key", "admin-key")
        for path in ("/server_info", "/stop_profile"):
            api.get(path)
        sent = [headers["Authorization"] for headers in fake.headers]
    assert sent == ["Bearer user-key", "Bearer admin-key"]


def test_where_the_admin_key_is_missing_it_is_named() -> None:
    with FakeSglang(api_key="another") as fake:
        with pytest.raises(UnsuitableError, match="SPECSCOPE_ADMIN_API_KEY"):
            Api(fake.url, "user-key").post("/start_profile", {})
        with pytest.raises(UnsuitableError) as raised:
            Api(fake.url, "user-key").get("/server_info")
    assert "ADMIN" not in str(raised.value)


@pytest.fixture(params=[b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"])
def dripping(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that sends a byte every tenth of a second, in its headers or behind them."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(request.param)
            while True:
                try:
                    connection.sendall(b"a")
                except OSError:
                    return
                time.sleep(0.1)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    waiting.joined(thread)
    listener.close()


def test_the_whole_answer_comes_within_the_time_limit(dripping: str) -> None:
    """The server would go on for ever, each byte well within the limit of a socket."""
    with pytest.raises(ServerError, match="did not answer GET /x within 1 s"):
        Api(dripping).get("/x", seconds=1)
