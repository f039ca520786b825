"""The site: every page is in its contents, and what would be fetched from elsewhere is found."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CONTENTS = re.findall(
    r"^```\{toctree\}\n(.*?)^```", (DOCS / "index.md").read_text("utf-8"), re.M | re.S
)
OFFLINE = runpy.run_path(str(ROOT / ".ci" / "offline.py"))["main"]


def test_every_page_is_in_the_contents_once() -> None:
    entries = [name for part in CONTENTS for name in re.findall(r"<([\w/]+)>$", part, re.M)]
    pages = [str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md")]
    assert sorted([*entries, "index"]) == sorted(pages)


def test_every_image_is_shown_on_a_page_and_small() -> None:
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    for image in (DOCS / "images").iterdir():
        assert f"images/{image.name})" in text, image.name
        assert image.stat().st_size < 300_000


@pytest.mark.parametrize(
    "loads",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//cdn.example/x.css">',
        '<link rel="preconnect" href="https://fonts.example">',
        '<img src="http://pictures.example/x.png">',
        '<iframe src="https://frames.example"></iframe>',
        "<style>@import url(https://fonts.example/x.css);</style>",
        "<p style=\"background: url('https://pictures.example/x.png')\">x</p>",
    ],
)
def test_what_a_page_fetches_from_elsewhere_is_found(loads: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(f"<p>text</p>{loads}", "utf-8")
    assert OFFLINE(str(tmp_path)) == 1


def test_a_font_that_a_style_sheet_fetches_is_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>text</p>", "utf-8")
    (tmp_path / "x.css").write_text("@font-face { src: url(//fonts.example/x.woff2) }", "utf-8")
    assert OFFLINE(str(tmp_path)) == 1


def test_links_to_follow_and_own_files_are_no_fetches(tmp_path: Path) -> None:
    page = '<a href="https://x.example">x</a><script src="a.js"></script><img src="data:,x">'
    (tmp_path / "index.html").write_text(page, "utf-8")
    assert OFFLINE(str(tmp_path)) == 0


def test_a_site_without_pages_is_no_site(tmp_path: Path) -> None:
    assert OFFLINE(str(tmp_path)) == 1
