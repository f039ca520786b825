"""Golden files: what a rendering has to be, letter by letter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Hold a text against its golden file; `--update-golden` writes the file anew."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.write_text(text, "utf-8")
        assert path.is_file(), f"{name} is missing: run pytest --update-golden"
        assert text == path.read_text("utf-8"), f"{name} differs: look, then --update-golden"

    return compare
