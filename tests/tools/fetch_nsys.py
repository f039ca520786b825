"""Unpacks `nsys` of Debian's packages into a cache folder: nothing is installed, no root needed.

    python tests/tools/fetch_nsys.py                   # the release of this machine
    python tests/tools/fetch_nsys.py --suite trixie    # a newer nsys

The packages are in Debian's component non-free, which most machines do not have switched on, so
apt gets lists and folders of its own, with the sources of this machine as they are and that
component added. Tests find what was unpacked by themselves; SPECSCOPE_NSYS names another one.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

FOLDER: Final = Path(platformdirs.user_cache_dir("specscope-tests")) / "nsys"
PACKAGES: Final = ("nsight-systems", "nsight-systems-target")
COMPONENTS: Final = "main non-free"
# Libraries that the importer needs beside its own, and their packages.
LIBRARIES: Final = {
    "libssh.so.4": "libssh-4",
    "libpfm.so.4": "libpfm4",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
    "libkrb5.so.3": "libkrb5-3",
    "libk5crypto.so.3": "libk5crypto3",
    "libkrb5support.so.0": "libkrb5support0",
}
TARGET, HOST = "target-linux-x64", "host-linux-x64"
_SECONDS: Final = 1800


class FetchError(Exception):
    """It cannot be fetched here; one line."""


@dataclass(frozen=True)
class Source:
    """One archive that apt knows: its address, its suites and components, its key or options."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    options: str = ""

    def line(self, suite: str) -> str:
        """The one-line form, for that suite, with the component that nsys is in."""
        options = f"[{self.options}] " if self.options else ""
        return f"deb {options}{self.uri} {suite} {COMPONENTS}\n"


def unpacked(folder: Path = FOLDER) -> list[Path]:
    """The programs that were unpacked, the newest version last."""
    found = folder.glob(f"*/{TARGET}/nsys")
    return sorted(found, key=lambda path: [int(n) for n in re.findall(r"\d+", path.parts[-3])])


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--suite", help="Debian release to take nsys from [this machine's]")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"where to [{FOLDER}]")
    chosen = parser.parse_args()
    try:
        print(fetch(chosen.folder, chosen.suite))
    except FetchError as error:
        print(f"fetch_nsys: {error}", file=sys.stderr)
        return 1
    return 0


def fetch(folder: Path, suite: str | None) -> Path:
    """Unpack the nsys of a suite below `folder`; the path of the program."""
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise FetchError(f"{tool} is not here; this works on Debian only")
    own = codename(Path("/etc/os-release"))
    source = archive(sources(Path("/etc/apt")), own)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder) as work:
        place = Path(work)
        suites = dict.fromkeys([own, suite or own])
        apt = Apt(place / "apt", "".join(source.line(one) for one in suites))
        apt.run("update")
        libraries = [f"{name}/{own}" for name in missing_packages()]
        apt.run("download", *(f"{name}/{suite or own}" for name in PACKAGES), *libraries)
        for package in apt.downloads():
            run(["dpkg-deb", "-x", str(package), str(place / "all")])
            package.unlink()
        made = arrange(place / "all", place / "nsys")
        version = re.search(r"\d{4}(\.\d+)+", run([str(made), "--version"]))
        if version is None:
            raise FetchError(f"{made} does not say its version")
        final = folder / version[0]
        shutil.rmtree(final, ignore_errors=True)
        (place / "nsys").rename(final)
    return final / TARGET / "nsys"


def arrange(everything: Path, place: Path) -> Path:
    """Put the two halves side by side, where the program looks for its importer."""
    inner = everything / "usr/lib/x86_64-linux-gnu/nsight-systems"
    place.mkdir()
    (inner / TARGET).rename(place / TARGET)
    (everything / "usr/lib/nsight-systems" / HOST).rename(place / HOST)
    for name in LIBRARIES:
        for found in everything.glob(f"usr/lib/x86_64-linux-gnu/{name}"):
            (place / HOST / name).unlink(missing_ok=True)
            shutil.copy(found.resolve(), place / HOST / name)
    alias = place / HOST / "libssh.so"  # by this name it is asked for
    alias.unlink(missing_ok=True)
    alias.symlink_to("libssh.so.4" if (place / HOST / "libssh.so.4").exists() else known_library())
    return place / TARGET / "nsys"


def missing_packages() -> list[str]:
    """Packages of libraries that this machine lacks."""
    known = run(["/sbin/ldconfig", "-p"])
    return [package for name, package in LIBRARIES.items() if name not in known]


def known_library(name: str = "libssh.so.4") -> str:
    """Where this machine has that library."""
    found = re.search(rf"{re.escape(name)} \(.*=> (\S+)", run(["/sbin/ldconfig", "-p"]))
    if found is None:
        raise FetchError(f"{name} is neither here nor in the packages")
    return found[1]


def codename(release: Path) -> str:
    """The Debian release of this machine."""
    text = release.read_text("utf-8")
    found = re.search(r'^VERSION_CODENAME="?(\w+)', text, re.MULTILINE)
    if found is None or not re.search(r'^ID="?debian"?$', text, re.MULTILINE):
        raise FetchError("this machine is not Debian")
    return found[1]


def archive(known: Iterator[Source], suite: str) -> Source:
    """The source that has the main part of the release itself."""
    for source in known:
        if suite in source.suites and "main" in source.components:
            return source
    raise FetchError(f"apt has no source here for the main part of {suite}")


def sources(etc: Path) -> Iterator[Source]:
    """What apt is configured to take packages from, in both forms of its files."""
    lists = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*.list"))]
    for path in lists:
        if path.is_file():
            for line in path.read_text("utf-8").splitlines():
                yield from one_line(line)
    for path in sorted((etc / "sources.list.d").glob("*.sources")):
        for paragraph in re.split(r"\n\s*\n", path.read_text("utf-8")):
            yield from deb822(paragraph)


def one_line(line: str) -> Iterator[Source]:
    """`deb [options] address suite component ...`"""
    found = re.match(r"deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+(.+)", line.partition("#")[0])
    if found is not None:
        options, uri, suite, components = found.groups()
        yield Source(uri, (suite,), tuple(components.split()), (options or "").strip())


def deb822(paragraph: str) -> Iterator[Source]:
    """`Types: deb`, `URIs: ...` and so on, a field a line."""
    lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
    pairs = (line.partition(":") for line in lines if ":" in line)
    fields = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if "deb" not in fields.get("types", "").split() or fields.get("enabled", "") == "no":
        return
    key = fields.get("signed-by", "")
    options = f"signed-by={key}" if key else ""
    for uri in fields.get("uris", "").split():
        suites, components = fields.get("suites", ""), fields.get("components", "")
        yield Source(uri, tuple(suites.split()), tuple(components.split()), options)


class Apt:
    """apt-get with sources, lists and downloads of its own."""

    def __init__(self, folder: Path, text: str) -> None:
        self._downloads = folder / "downloads"
        for name in ("lists/partial", "cache/archives/partial", "downloads"):
            (folder / name).mkdir(parents=True)
        source = folder / "sources.list"
        source.write_text(text, "utf-8")
        options = {
            "Dir::State": folder,
            "Dir::State::lists": folder / "lists",
            "Dir::Cache": folder / "cache",
            "Dir::Etc::sourcelist": source,
            "Dir::Etc::sourceparts": "/dev/null",
            "Debug::NoLocking": "true",
            "APT::Sandbox::User": "root",  # which this user may well be: no other owner is tried
        }
        self._words = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]

    def run(self, *words: str) -> None:
        """Call apt-get in the folder of the downloads."""
        run([*self._words, *words], self._downloads)

    def downloads(self) -> list[Path]:
        """The packages that were downloaded."""
        return sorted(self._downloads.glob("*.deb"))


def run(words: list[str], folder: Path | None = None) -> str:
    """What a program says; FetchError when it fails."""
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FetchError(f"{words[0]}: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
        raise FetchError(f"{words[0]} {words[-1]}: {said[0]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
