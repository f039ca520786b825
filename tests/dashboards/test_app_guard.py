"""Who may ask the application what: no other host, no other page, nobody without the token."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from specscope.dashboards import app_guard, app_page
from specscope.dashboards.app_guard import Access, Guard
from specscope.dashboards.app_server import Application, greeting, served
from specscope.traces.errors import UsageError
from tests.shared import needed
from tests.waiting import PATIENCE

needed("dash")


class Asked:
    """One answer."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        self.body = answer.read()


class Site:
    """A page that runs, and a client of it."""

    def __init__(self, access: Access, port: int) -> None:
        self.access = access
        self.port = port
        self.cookie = f"{access.cookie}={access.token}"

    def ask(
        self,
        path: str = "",
        *,
        method: str = "GET",
        cookie: str | None = None,
        body: bytes | None = None,
        whole: bool = False,
        **headers: str,
    ) -> Asked:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = {"Host": f"127.0.0.1:{self.port}"}
        if cookie is not None:
            sent["Cookie"] = cookie
        if body is not None:
            sent["Content-Type"] = "application/json"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.putrequest(
                method,
                path if whole else self.access.base + path,
                skip_host=True,
                skip_accept_encoding=True,
            )
            for name, value in sent.items():
                connection.putheader(name, value)
            if body is not None and "Content-Length" not in sent:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            return Asked(connection.getresponse())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    from dash import Input, Output, dcc, html

    access = Access()
    page = app_page.new_page("a page", access)
    page.layout = html.Div([dcc.Input(id="given"), html.Div(id="shown"), dcc.Graph(id="graph")])
    page.callback(Output("shown", "children"), Input("given", "value"))(lambda value: f"is {value}")
    with served(app_page.guarded(page, access)) as server:
        yield Site(access, server.port)


def callback(value: str) -> bytes:
    return json.dumps(
        {
            "output": "shown.children",
            "outputs": {"id": "shown", "property": "children"},
            "inputs": [{"id": "given", "property": "value", "value": value}],
            "changedPropIds": ["given.value"],
        }
    ).encode()


def test_the_printed_url_opens_the_page_and_its_token_leaves_the_address(site: Site) -> None:
    first = site.ask(f"?token={site.access.token}")
    assert first.status == 303
    assert first.headers["location"] == site.access.base
    cookie = first.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", f"Path={site.access.base}"} <= set(cookie.split("; "))
    page = site.ask(cookie=cookie.partition(";")[0])
    assert page.status == 200
    assert b"_dash-config" in page.body
    assert site.access.token.encode() not in page.body


def test_everything_the_page_asks_for_is_there_with_the_cookie(site: Site) -> None:
    page = site.ask(cookie=site.cookie).body.decode()
    scripts = [part.split('"')[0] for part in page.split('<script src="')[1:]]
    assert len(scripts) > 5
    for script in [
        *scripts,
        *(site.access.base + n for n in ("_dash-layout", "_dash-dependencies")),
    ]:
        assert site.ask(script, whole=True, cookie=site.cookie).status == 200, script
    answer = site.ask(
        "_dash-update-component", method="POST", body=callback("x"), cookie=site.cookie
    )
    assert answer.status == 200
    assert b"is x" in answer.body


@pytest.mark.parametrize("path", ["", "_dash-layout", "_dash-dependencies", "nothing"])
@pytest.mark.parametrize("cookie", [None, "specscope=", "specscope=wrong", "other=1", "=;;\x7f"])
def test_nothing_opens_without_the_token(site: Site, path: str, cookie: str | None) -> None:
    answer = site.ask(path, cookie=cookie)
    assert answer.status == 403
    assert b"_dash" not in answer.body


@pytest.mark.parametrize("token", ["", "wrong", "a&token=b", "%00", "é".encode().hex()])
def test_a_wrong_token_is_refused_also_beside_a_good_cookie(site: Site, token: str) -> None:
    answer = site.ask(f"?token={token}", cookie=site.cookie)
    assert answer.status == 403
    assert "set-cookie" not in answer.headers


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(given: bytes, known: bytes) -> bool:
        compared.append((given, known))
        return given == known

    monkeypatch.setattr(app_guard.hmac, "compare_digest", compare)
    assert site.ask("?token=wrong").status == 403
    assert site.ask(cookie=site.cookie).status == 200
    token = site.access.token.encode()
    assert compared == [(b"wrong", token), (token, token)]


HOSTS = [
    *("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example:8050"),
    *("127.0.0.1:x", "169.254.169.254", "0.0.0.0:8050", "", "[::2]:80", "localhost:80:80"),
]


@pytest.mark.parametrize("host", HOSTS)
def test_another_host_is_refused_whoever_asks(site: Site, host: str) -> None:
    assert site.ask(cookie=site.cookie, Host=host).status == 403
    assert site.ask(f"?token={site.access.token}", Host=host).status == 403


@pytest.mark.parametrize("host", ["localhost:9999", "127.0.0.1", "localhost", "[::1]:80"])
def test_this_machine_by_any_name_and_port_is_answered(site: Site, host: str) -> None:
    """At the near end of an ssh tunnel the port may be another one."""
    assert site.ask(cookie=site.cookie, Host=host).status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1", ""]
)
def test_requests_of_another_page_are_refused(site: Site, origin: str) -> None:
    origin = origin.format(port=site.port)
    assert site.ask(cookie=site.cookie, Origin=origin).status == 403
    answer = site.ask(
        "_dash-update-component",
        method="POST",
        body=callback("x"),
        cookie=site.cookie,
        Origin=origin,
    )
    assert answer.status == 403


@pytest.mark.parametrize("site_header", ["cross-site", "same-site"])
def test_what_a_browser_sends_for_another_page_is_refused(site: Site, site_header: str) -> None:
    assert site.ask(cookie=site.cookie, Sec_Fetch_Site=site_header).status == 403
    own = site.ask(cookie=site.cookie, Sec_Fetch_Site="same-origin")
    assert own.status == 200
    assert site.ask(cookie=site.cookie, Origin=f"http://127.0.0.1:{site.port}").status == 200


PATHS = [
    *("../../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "assets/../../etc/passwd"),
    *("assets/x.css", "_favicon.ico", "_reload-hash", "_alive_x", "_mcp", "static/x"),
    "_dash-component-suites/dash/../../../../../etc/passwd",
    "_dash-component-suites/dash/dash.py",
    "_dash-component-suites/dash/%2e%2e/%2e%2e/plotly/__init__.py",
    "_dash-component-suites/os/path.py",
    "_dash-component-suites/dash/deps/..v1m1.",
    "anything",
]


@pytest.mark.parametrize("path", PATHS)
def test_no_path_reaches_a_file_that_is_not_the_pages_own(site: Site, path: str) -> None:
    answer = site.ask(path, cookie=site.cookie)
    assert answer.status == 404
    assert b"root:" not in answer.body


@pytest.mark.parametrize("path", ["/", "/etc/passwd", "//etc/passwd", "/static/../../etc/passwd"])
def test_nothing_lies_outside_the_base(site: Site, path: str) -> None:
    assert site.ask(path, whole=True, cookie=site.cookie).status == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_other_methods_are_refused(site: Site, method: str) -> None:
    assert site.ask(method=method, cookie=site.cookie).status == 405


def test_a_form_of_another_page_or_a_large_body_is_refused(site: Site) -> None:
    def post(body: bytes, **headers: str) -> int:
        return site.ask(
            "_dash-update-component", method="POST", body=body, cookie=site.cookie, **headers
        ).status

    assert post(callback("x"), Content_Type="text/plain") == 415
    assert post(callback("x"), Content_Type="application/x-www-form-urlencoded") == 415
    assert post(b"", Content_Length=str(2 << 20)) == 413
    assert post(b"", Content_Length="9" * 30) == 413
    assert site.ask("", method="POST", body=b"{}", cookie=site.cookie).status == 404


def test_every_answer_has_the_policy_and_is_not_kept(site: Site) -> None:
    answers = [
        site.ask(cookie=site.cookie),
        site.ask(),
        site.ask("nothing", cookie=site.cookie),
        site.ask("_dash-layout", cookie=site.cookie),
        site.ask(f"?token={site.access.token}"),
    ]
    for answer in answers:
        headers = answer.headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        script = policy.split("script-src ")[1].split(";")[0]
        assert "unsafe" not in script
        assert "http" not in policy
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
        assert "Werkzeug" not in headers.get("server", "")


def test_it_listens_on_loopback_alone(site: Site) -> None:
    other = next(
        (
            found[4][0]
            for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
            if not str(found[4][0]).startswith("127.")
        ),
        None,
    )
    with socket.create_connection(("127.0.0.1", site.port), timeout=PATIENCE) as own:
        assert own.getpeername()[0] == "127.0.0.1"
    for address in ("127.0.0.2", *([str(other)] if other else [])):
        with pytest.raises(OSError), socket.create_connection((address, site.port), timeout=5):
            pass


def test_two_pages_have_other_tokens_and_paths() -> None:
    first, second = Access(), Access()
    assert first.token != second.token
    assert first.base != second.base
    assert len(first.token) >= 43
    assert first.token not in repr(first)


def test_the_greeting_names_the_url_and_the_tunnel() -> None:
    access = Access()
    lines = list(greeting(access, 8051))
    assert lines[0] == f"open http://127.0.0.1:8051{access.base}?token={access.token}"
    assert "ssh -N -L 8051:127.0.0.1:8051 " in lines[1]


def test_a_port_that_is_in_use_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        application = Application(lambda _environ, _start: [], Access())
        with pytest.raises(UsageError, match=f"--port {port}"), served(application, port):
            pass


def test_work_beside_the_page_is_told_to_stop() -> None:
    ended = threading.Event()

    def work(stop: threading.Event) -> None:
        if stop.wait(PATIENCE):
            ended.set()

    with served(Application(lambda _environ, _start: [], Access(), work)):
        assert not ended.is_set()
    assert ended.wait(PATIENCE)


def test_the_guard_lets_nothing_through_by_itself() -> None:
    """An application behind it is not called for what is refused."""
    called: list[dict[str, Any]] = []

    def inner(environ: dict[str, Any], start: Any) -> list[bytes]:
        called.append(environ)
        start("200 OK", [])
        return []

    guard = Guard(inner, Access("t", "/b/"), reads=["/b/"], posts=[], policy="")
    statuses: list[str] = []
    for environ in (
        {},
        {"HTTP_HOST": "localhost"},
        {"HTTP_HOST": "x", "HTTP_COOKIE": "specscope=t"},
    ):
        environ |= {"REQUEST_METHOD": "GET", "PATH_INFO": "/b/"}
        guard(environ, lambda status, _headers, *_rest: statuses.append(status))
    assert statuses == ["403 Forbidden"] * 3
    assert called == []


def test_without_dash_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "dash", None)
    with pytest.raises(UsageError, match=r"pip install 'specscope\[dashboard\]'"):
        app_page.new_page("a page", Access())


def test_a_page_does_not_silence_the_warnings_of_the_package(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app_page.new_page("a page", Access())
    with caplog.at_level(logging.WARNING, "specscope"):
        logging.getLogger("specscope").warning("specscope: heard")
    assert caplog.messages == ["specscope: heard"]
