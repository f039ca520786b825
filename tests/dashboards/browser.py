"""A real browser for tests: Debian's Chromium, driven by Playwright; skips loudly without."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.shared import MISSING, needed
from tests.waiting import PATIENCE


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser; its pages come from `watched`."""
    api = needed("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        MISSING.append("chromium (a browser, for tests of pages)")
        pytest.skip("chromium is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page of the browser, and what it complained of and asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("response", self._response)
        page.on("dialog", self._dialog)

    def _console(self, message: Any) -> None:
        # What the browser holds against our own policy, or a script against itself.
        if message.type in ("error", "warning", "trace"):
            self.complaints.append(message.text)

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status} {response.url}")

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def until(self, script: str) -> None:
        """Wait until the script is true in the page.

        Asked from outside: Playwright's own wait evaluates in the page, which the policy forbids.
        """
        end = time.monotonic() + PATIENCE
        while not self.page.evaluate(script):
            if time.monotonic() > end:
                pytest.fail(f"after {PATIENCE:.0f} s not: {script}; {self.complaints}")
            self.page.wait_for_timeout(50)

    def drawn(self, figure: str) -> None:
        """Wait until that figure holds something."""
        self.until(
            f"(() => {{ const one = document.querySelector('#{figure} .js-plotly-plot');"
            " return one && one.data && one.data.length > 0; })()"
        )


@contextmanager
def watched(browser: Any, **options: Any) -> Iterator[Watched]:
    """A new page of its own, with nothing kept of others."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    try:
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        yield Watched(page)
    finally:
        context.close()


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)`, by WCAG."""
    parts = [float(part) / 255 for part in colour.split("(")[1].rstrip(")").split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
