"""Draws the screenshots of the README from the bundled recording, by Chromium without a screen.

python docs/make_screenshots.py [--folder docs/images] [--recording examples/tp2-70b-eagle3]

Needs Debian's `chromium` (`apt-get install chromium`) and Playwright (`pip install playwright`).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import specscope
from specscope.dashboards.html import html_page

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 1120
MARGIN = 16
MOST_BYTES = 300_000
# File, and the part of the page: the elements between which it lies, the second left out.
SHOTS = (
    ("page-verdict.png", ".verdict", "h2:text('What the cycle gives')"),
    ("page-cycle.png", "#cycle-title", "h2:text('Cycles over time')"),
    ("page-ranks.png", "h2:text('Who waits for whom')", "h2:text('What a message costs')"),
)


def draw(page: Any, folder: Path) -> None:
    """Write each part of the page that is open."""
    for name, first, behind in SHOTS:
        top = page.locator(first).first.bounding_box()["y"]
        end = page.locator(behind).first.bounding_box()["y"]
        clip = {"x": 0, "y": top - MARGIN, "width": WIDTH, "height": end - top}
        file = folder / name
        page.screenshot(path=str(file), clip=clip, full_page=True)
        size = file.stat().st_size
        print(f"{file}: {size:,} bytes")
        if size > MOST_BYTES:
            sys.exit(f"{file} has more than {MOST_BYTES:,} bytes")


def main() -> None:
    """Write the page of the recording, open it, draw."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--folder", type=Path, default=ROOT / "docs" / "images")
    asked.add_argument("--recording", type=Path, default=ROOT / "examples" / "tp2-70b-eagle3")
    given = asked.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        sys.exit("chromium is not installed: apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("playwright is not installed: pip install playwright")
    report = specscope.analyze(specscope.load(given.recording))
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        file = Path(scratch) / "report.html"
        file.write_text(html_page(report), "utf-8")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": WIDTH, "height": 900}, color_scheme="light", reduced_motion="reduce"
        )
        page.goto(file.as_uri())
        for figure in page.locator("script[data-target]").all():
            target = figure.get_attribute("data-target")
            page.locator(f"#{target} .main-svg").first.wait_for(state="visible")
        draw(page, given.folder)
        browser.close()


if __name__ == "__main__":
    main()
