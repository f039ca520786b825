"""What apt is configured with is read in both forms, and nothing but a component is added."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools import fetch_nsys
from tests.tools.fetch_nsys import FetchError, Source

DEB822 = """\
Types: deb
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/key.gpg

Types: deb
URIs: http://mirror.example/security
Suites: bookworm-security
Components: main

Types: deb-src
URIs: http://mirror.example/sources
Suites: bookworm
Components: main

Types: deb
Enabled: no
URIs: http://mirror.example/off
Suites: bookworm
Components: main
"""
ONE_LINE = """\
# deb http://mirror.example/old bookworm main
deb http://other.example/tools tools main
deb [ signed-by=/k.gpg arch=amd64 ] http://mirror.example/debian bookworm main contrib # it
"""


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    (tmp_path / "sources.list.d").mkdir()
    return tmp_path


def test_deb822_files_are_read(etc: Path) -> None:
    (etc / "sources.list.d" / "debian.sources").write_text(DEB822, "utf-8")
    found = fetch_nsys.archive(fetch_nsys.sources(etc), "bookworm")
    assert found.line("bookworm") == (
        "deb [signed-by=/usr/share/keyrings/key.gpg] http://mirror.example/debian bookworm "
        "main non-free\n"
    )
    assert [source.uri for source in fetch_nsys.sources(etc)] == [
        "http://mirror.example/debian",
        "http://mirror.example/security",
    ]


def test_one_line_files_are_read(etc: Path) -> None:
    (etc / "sources.list").write_text(ONE_LINE, "utf-8")
    found = fetch_nsys.archive(fetch_nsys.sources(etc), "bookworm")
    assert found.line("trixie") == (
        "deb [signed-by=/k.gpg arch=amd64] http://mirror.example/debian trixie main non-free\n"
    )


def test_without_the_main_part_of_the_release_it_says_so(etc: Path) -> None:
    (etc / "sources.list").write_text("deb http://other.example/tools tools main\n", "utf-8")
    with pytest.raises(FetchError, match="no source here for the main part of bookworm"):
        fetch_nsys.archive(fetch_nsys.sources(etc), "bookworm")


def test_another_distribution_is_refused(tmp_path: Path) -> None:
    release = tmp_path / "os-release"
    release.write_text("ID=ubuntu\nVERSION_CODENAME=noble\n", "utf-8")
    with pytest.raises(FetchError, match="not Debian"):
        fetch_nsys.codename(release)
    release.write_text("ID=debian\nVERSION_CODENAME=trixie\n", "utf-8")
    assert fetch_nsys.codename(release) == "trixie"


def test_the_newest_of_what_was_unpacked_comes_last(tmp_path: Path) -> None:
    for version in ("2023.4.4.54", "2022.4.2.1", "2023.12.1.1"):
        place = tmp_path / version / fetch_nsys.TARGET
        place.mkdir(parents=True)
        (place / "nsys").touch()
    names = [path.parts[-3] for path in fetch_nsys.unpacked(tmp_path)]
    assert names == ["2022.4.2.1", "2023.4.4.54", "2023.12.1.1"]


def test_a_source_without_options_has_no_brackets() -> None:
    source = Source("http://mirror.example/debian", ("sid",), ("main",))
    assert source.line("sid") == "deb http://mirror.example/debian sid main non-free\n"
