"""Things every test shares."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import waiting
from tests.shared import MISSING, NOT_INSTALLED

WATCHDOG = waiting.Watchdog()

# How long an example takes says how busy the machine is.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` writes the golden files anew; the diff is to be reviewed."""
    parser.addoption("--update-golden", action="store_true", help="write golden files anew")


def pytest_configure() -> None:
    """Nothing captures standard error yet.

    A shell that runs the tests in its background has them ignore interrupts, and so what they
    start; tests of interrupts need them heard.
    """
    WATCHDOG.open(2)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A test that hangs ends the run, and says where it stood."""
    if item.get_closest_marker("long"):
        return (yield)
    with WATCHDOG.on(waiting.MOST_SECONDS):
        return (yield)


def pytest_unconfigure() -> None:
    """So does the end of the run: threads that are waited for, locks of a finished interpreter."""
    WATCHDOG.arm(waiting.END_SECONDS)


@pytest.fixture(autouse=True)
def private_cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A cache of its own for every test, so that none reads what another or the user wrote."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("SPECSCOPE_CACHE_DIR", str(folder))
    monkeypatch.delenv("SPECSCOPE_CACHE_BYTES", raising=False)
    return folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how many tests or modules did not run, for want of ../shared or of a package."""
    if NOT_INSTALLED:
        terminalreporter.section("packages missing", red=True)
        terminalreporter.line(
            f"{len(NOT_INSTALLED)} tests or modules were skipped for packages that are not "
            f"installed: {', '.join(sorted(set(NOT_INSTALLED)))}"
        )
    if not MISSING:
        return
    terminalreporter.section("shared data missing", red=True)
    terminalreporter.line(
        f"{len(MISSING)} tests or modules were skipped: ../shared is not beside the repository. "
        f"First missing: {MISSING[0]}"
    )
