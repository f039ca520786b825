"""Names what a built site would fetch from elsewhere: `python3 .ci/offline.py FOLDER`.

A link to follow may lead anywhere; a style, script, font, image or frame may not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

AWAY = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
CSS = re.compile(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)
LOADED = ("src", "srcset", "data", "poster", "action", "background")
# Relations of <link> that only say something about the page.
ONLY_SAID = {"canonical", "next", "prev", "search", "index", "author", "license"}


class Resources(HTMLParser):
    """The addresses that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what this tag loads."""
        given = {name: value or "" for name, value in attrs}
        if tag == "link" and not set(given.get("rel", "").lower().split()) & ONLY_SAID:
            self.found.append(given.get("href", ""))
        self.found += [given[name] for name in LOADED if name in given]
        self.found += CSS.findall(given.get("style", ""))


def fetched(folder: Path) -> Iterator[str]:
    """Each file with an address elsewhere that it loads."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".html":
            text = path.read_text("utf-8")
            page = Resources()
            page.feed(text)
            addresses = [one for one in page.found if AWAY.match(one)] + CSS.findall(text)
        elif path.suffix == ".css":
            addresses = CSS.findall(path.read_text("utf-8"))
        else:
            continue
        yield from (f"{path.relative_to(folder)}: {one}" for one in addresses)


def main(folder: str) -> int:
    """0 when there is a site and all it needs lies in it."""
    pages = list(Path(folder).rglob("*.html"))
    found = list(fetched(Path(folder)))
    print("\n".join(found) or f"{len(pages)} pages, nothing fetched from elsewhere")
    return 1 if found or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
