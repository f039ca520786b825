"""Measures specscope against its limits and its peers.

    python benchmarks/run.py                        # everything, 500 MB and 10 MB to 4 GB
    python benchmarks/run.py --quick                # does everything run? small, nothing judged
    python benchmarks/run.py --only read --only gz
    python benchmarks/run.py --hta-python ~/hta/bin/python

Every measurement has a process of its own, with the file in the page cache. Figures in CPU
seconds are medians and can be taken on a busy machine; walls are the best of the repeats, and a
figure that needs a second core is judged only when one was free.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import generate
import generate_nsys
from figures import BENCHMARKS, HOLDS, MISSES, Figure, Results

HERE: Final = Path(__file__).resolve().parent
STANDARD: Final = 500_000_000
SIZES: Final = "10M,30M,100M,300M,1G,2G,4G"
QUICK: Final = 12_000_000
KERNELS: Final = 1_000_000
QUICK_KERNELS: Final = 20_000
SMALL: Final = 1_000_000
LARGE: Final = 1_000_000_000  # traces from here on are deleted as soon as they were measured


class Runner:
    """Makes the traces and runs the workers; see figures.Bench."""

    def __init__(self, options: argparse.Namespace, folder: Path):
        self.quick: bool = options.quick
        self.sizes: list[int] = [QUICK // 2, QUICK] if self.quick else options.sizes
        self.points: list[dict[str, Any]] = []
        self.measurements: list[dict[str, Any]] = []
        self._standard = QUICK if self.quick else options.size
        self._repeat = 1 if self.quick else options.repeat
        self._folder = folder
        self._options = options
        self._text: dict[str, int] = {}
        self._small = self.trace(SMALL)

    def trace(self, size: int | None = None, *, frames: bool = False, gz: int | None = None) -> str:
        """See figures.Bench."""
        size = size or self._standard
        places = generate.FRAMES if frames else generate.EAGLE3
        sources = [self._options.source] if self._options.source else []
        sources = generate.find_recording(places) if frames or not sources else sources
        if not sources:
            if frames:
                return ""
            raise SystemExit("no recording found; give one with --source")
        name = f"{'frames' if frames else 'eagle3'}-{size}.json" + (".gz" if gz else "")
        path = self._folder / name
        if not path.exists():
            say(f"making {name}")
            generate.generate(sources[0], path, size, gz=gz)
        self._text[str(path)] = size
        _warm(path)
        return str(path)

    def export(self) -> str:
        """See figures.Bench."""
        path = self._folder / "export.sqlite"
        if not path.exists():
            say(f"making {path.name}")
            generate_nsys.generate(path, QUICK_KERNELS if self.quick else KERNELS)
        _warm(path)
        return str(path)

    def ranks(self, count: int) -> str:
        """See figures.Bench."""
        folder = self._folder / f"ranks-{count}"
        folder.mkdir(exist_ok=True)
        source = self._options.source or generate.find_recording(generate.EAGLE3)[0]
        for rank in range(count):
            path = folder / f"1700000000-TP-{rank}.trace.json"
            if not path.exists():
                say(f"making {folder.name}/{path.name}")
                # All of one rank's recording, so that their collectives are the same.
                generate.generate(source, path, self._standard, rank=rank, ranks=count)
            _warm(path)
        return str(folder)

    def forget_pages(self, path: str) -> None:
        """See figures.Bench."""
        if hasattr(os, "posix_fadvise"):
            with Path(path).open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        _warm(Path(path))

    def drop(self, path: str) -> None:
        """See figures.Bench."""
        if Path(path).is_dir():
            shutil.rmtree(path)
        elif self._text[path] >= LARGE:
            Path(path).unlink()

    def text_bytes(self, path: str) -> int:
        """See figures.Bench."""
        return self._text[path] if path.endswith(".gz") else Path(path).stat().st_size

    def measure(self, worker: str, path: str, *, repeat: int = 0, **more: Any) -> Results:
        """See figures.Bench. Arguments in capitals are environment variables."""
        return self._measure(sys.executable, worker, path, repeat, more)

    def _measure(
        self, python: str, worker: str, path: str, repeat: int, more: dict[str, Any]
    ) -> Results:
        environment = {name: value for name, value in more.items() if name.isupper()}
        arguments = {name: value for name, value in more.items() if not name.isupper()}
        arguments |= {"path": path, "small": self._small}
        command = [python, str(HERE / "workers.py"), worker, json.dumps(arguments)]
        results: Results = []
        for _ in range(repeat or self._repeat):
            done = subprocess.run(
                command, env=os.environ | environment, stdout=subprocess.PIPE, check=True
            )
            results.append(json.loads(done.stdout.splitlines()[-1]))
        noted = {key: value for key, value in arguments.items() if key not in ("path", "small")}
        self._note(worker, Path(path).name, noted, results)
        return results

    def _note(self, what: str, file: str, arguments: dict[str, Any], results: Results) -> None:
        row = {"worker": what, "file": file, "arguments": arguments, "results": results}
        self.measurements.append(row)
        said = ", ".join(f"{r['cpu_s']:.3f}" for r in results)
        say(f"  {what} {file} {arguments or ''}: {said} CPU s")

    def hta(self, path: str) -> Results | str:
        """See figures.Bench."""
        python = self._options.hta_python
        if python is None:
            return "no --hta-python with HolisticTraceAnalysis==0.5.0 was given"
        try:
            return self._measure(str(python), "hta", path, 1, {})
        except subprocess.CalledProcessError as error:
            return f"it failed with exit code {error.returncode}"

    def command(self, *arguments: str, repeat: int = 0, **environment: str) -> Results:
        """See figures.Bench."""
        program = Path(sys.executable).with_name("analyze")
        command = (
            [str(program)] if program.exists() else [sys.executable, "-m", "specscope", "analyze"]
        )
        command += list(arguments)
        environment |= {
            "XDG_CACHE_HOME": str(self._folder / "cache"),
            "PYTHONDONTWRITEBYTECODE": "",  # compiled once, as an installed package is
            "PYTHONPYCACHEPREFIX": str(self._folder / "compiled"),
        }
        results: Results = []
        for _ in range(repeat or max(self._repeat, 2)):
            before, started = os.times(), time.perf_counter()
            subprocess.run(
                command, env=os.environ | environment, stdout=subprocess.DEVNULL, check=True
            )
            wall, after = time.perf_counter() - started, os.times()
            cpu = after.children_user + after.children_system
            cpu -= before.children_user + before.children_system
            results.append({"cpu_s": cpu, "wall_s": wall})
        self._note("analyze", " ".join(Path(a).name for a in arguments), {}, results)
        return results

    def modules_after_help(self) -> set[str]:
        """See figures.Bench."""
        code = (
            "import sys, atexit\n"
            "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
            "from specscope.cli import analyze\n"
            "sys.argv = ['analyze', '--help']\n"
            "sys.exit(analyze())\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return set(done.stderr.split())

    def ranges(self) -> dict[str, float | None]:
        """See figures.Bench."""
        command = [sys.executable, str(HERE / "ranges.py"), "--json"]
        command += ["--quick"] * self.quick
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        found: dict[str, float | None] = json.loads(done.stdout)
        return found

    def free_cores(self) -> float:
        """See figures.Bench."""
        first = _idle_ticks()
        time.sleep(0.1 if self.quick else 1.0)
        second = _idle_ticks()
        spent = [b - a for a, b in zip(first, second, strict=True)]
        return (os.cpu_count() or 1) * spent[0] / spent[1] if spent[1] else 0.0


def _idle_ticks() -> tuple[int, int]:
    """Idle and all ticks of the machine; zeros where it does not say."""
    try:
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    except OSError:
        return 0, 0
    return ticks[3] + ticks[4], sum(ticks)


def _warm(path: Path) -> None:
    """Read the file once, so that it is in the page cache."""
    with path.open("rb") as file:
        while file.read(8 << 20):
            pass


def say(text: str) -> None:
    """Progress goes to standard error."""
    print(text, file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    """What it was measured on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    model = next((line.split(":")[1].strip() for line in lines if "model name" in line), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model or platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in ("numpy", "pyarrow", "isal", "pandas")},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def table(found: list[Figure]) -> str:
    """The figures as a Markdown table."""
    rows = [("figure", "what", "limit", "measured", "verdict"), ("---",) * 5]
    rows += [(f.key, f.what, f.limit, f.measured, f.verdict) for f in found]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    )


def arguments_of(given: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure specscope against its limits.")
    parser.add_argument("--quick", action="store_true", help="small; runs all, judges nothing")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, help="repeatable")
    parser.add_argument("--size", type=generate.size_of, default=STANDARD, help="default: 500M")
    parser.add_argument(
        "--sizes",
        type=lambda text: [generate.size_of(part) for part in text.split(",")],
        default=SIZES,
        help=f"of the benchmark `linear`; default: {SIZES}",
    )
    parser.add_argument("--repeat", type=int, default=5, help="of each measurement; default: 5")
    parser.add_argument("--source", type=Path, help="the recording to scale")
    parser.add_argument(
        "--hta-python",
        type=Path,
        help="interpreter that has HolisticTraceAnalysis==0.5.0 and pandas<3",
    )
    parser.add_argument("--work", type=Path, help="folder for the traces; kept")
    parser.add_argument("--json", type=Path, help="write everything measured here")
    parser.add_argument("--plot", type=Path, help="write the plot of `linear` here, as SVG")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """The program."""
    options = arguments_of(given)
    folder = options.work or Path(tempfile.mkdtemp(prefix="specscope-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Figure] = []
    try:
        runner = Runner(options, folder)
        for name in options.only or BENCHMARKS:
            say(f"{name}: {BENCHMARKS[name].__doc__}")
            found += BENCHMARKS[name](runner)
    finally:
        if options.work is None:
            shutil.rmtree(folder)
    if options.quick:
        found = [
            Figure(f.key, f.what, f.limit, f.measured, f.value, "not judged: quick") for f in found
        ]
    print(table(found))
    if options.json:
        content = {
            "machine": machine(),
            "figures": [asdict(figure) for figure in found],
            "linear": runner.points,
            "measurements": runner.measurements,
        }
        options.json.write_text(json.dumps(content, indent=1) + "\n")
    if options.plot:
        import plot

        options.plot.write_text(plot.cost_linear(runner.points))
    missed = [figure.key for figure in found if figure.verdict == MISSES]
    held = sum(figure.verdict == HOLDS for figure in found)
    if options.quick:
        say(f"{len(found)} figures ran, none judged")
        return 0
    say(f"{held} of {len(found)} figures hold" + (f"; missed: {', '.join(missed)}" * bool(missed)))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
