"""The figures that reading must reach, and how each is worked out from what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import median
from typing import Any, Final, Protocol

HOLDS: Final = "holds"
MISSES: Final = "misses"

Results = list[dict[str, Any]]


class Bench(Protocol):
    """What a benchmark may ask for; `run.py` is the one that answers."""

    quick: bool
    sizes: list[int]
    points: list[dict[str, Any]]  # what `linear` measured, for the plot

    def trace(self, size: int | None = None, *, frames: bool = False, gz: int | None = None) -> str:
        """A trace of that size (None: the standard one of 500 MB); "" where there is none."""

    def export(self) -> str:
        """An export of Nsight Systems: 1 million kernels, as many ranges, 2 million calls."""

    def ranks(self, count: int) -> str:
        """A folder with so many ranks of one run, each a trace of the standard size."""

    def forget_pages(self, path: str) -> None:
        """Put the file into the page cache afresh: there, and never yet mapped."""

    def drop(self, path: str) -> None:
        """Delete a trace that was large, or a folder of ranks, that is no longer needed."""

    def text_bytes(self, path: str) -> int:
        """Size of the text that it was made with."""

    def measure(self, worker: str, path: str, *, repeat: int = 0, **more: Any) -> Results:
        """Run a worker that many times (0: as often as asked for), each in a new process."""

    def hta(self, path: str) -> Results | str:
        """The same for HolisticTraceAnalysis, or why it cannot be measured."""

    def command(self, *arguments: str, repeat: int = 0, **environment: str) -> Results:
        """Run `analyze` with these arguments: cpu_s and wall_s of whole processes."""

    def modules_after_help(self) -> set[str]:
        """Modules that `analyze --help` has imported by its end."""

    def ranges(self) -> dict[str, float | None]:
        """What `ranges.py` measures: nanoseconds, None where something is not installed."""

    def free_cores(self) -> float:
        """How many cores nobody else used just now."""


@dataclass(frozen=True)
class Figure:
    """One figure beside its limit; `verdict` is HOLDS, MISSES or why it is not judged."""

    key: str
    what: str
    limit: str
    measured: str
    value: float | None
    verdict: str


Benchmark = Callable[[Bench], Iterator[Figure]]
BENCHMARKS: Final[dict[str, Benchmark]] = {}


def benchmark(function: Benchmark) -> Benchmark:
    """Registers a benchmark under its own name."""
    BENCHMARKS[function.__name__] = function
    return function


def middle(results: Results, name: str) -> float:
    """Median of a figure over the repeats; dots reach into dictionaries."""
    values = []
    for result in results:
        value: Any = result
        for part in name.split("."):
            value = value[part]
        values.append(float(value))
    return median(values)


def best(results: Results, name: str) -> float:
    """The least of the repeats: for wall times, which others lengthen and nobody shortens."""
    return min(float(result[name]) for result in results)


def _at_least(key: str, what: str, value: float, limit: float, unit: str) -> Figure:
    verdict = HOLDS if value >= limit else MISSES
    return Figure(key, what, f">= {limit:g} {unit}", f"{value:.3g} {unit}", value, verdict)


def _at_most(key: str, what: str, value: float, limit: float, unit: str) -> Figure:
    verdict = HOLDS if value <= limit else MISSES
    return Figure(key, what, f"<= {limit:g} {unit}", f"{value:.3g} {unit}", value, verdict)


def _if_free(figure: Figure, free: float, needed: float) -> Figure:
    """A wall time that misses while others used the machine says nothing."""
    if figure.verdict == HOLDS or free >= needed - 0.2:
        return figure
    return replace(figure, verdict=f"not judged: {free:.1f} of {needed:g} cores were free")


def _unjudged(key: str, what: str, limit: str, why: str) -> Figure:
    return Figure(key, what, limit, "-", None, f"not judged: {why}")


@benchmark
def read(bench: Bench) -> Iterator[Figure]:
    """Text to tables on one core, memory, and to a verdict; without and with Python frames."""
    for frames, title in ((False, "eagle3"), (True, "with frames")):
        path = bench.trace(frames=frames)
        if not path:
            yield _unjudged(f"read ({title})", "text to tables", "", "no such recording here")
            continue
        text = bench.text_bytes(path)
        results = bench.measure("read", path, verdict=True)
        cpu = middle(results, "cpu_s")
        figure = _at_least(
            f"read ({title})", "text to tables, one core", text / cpu / 1e9, 1.0, "GB per CPU s"
        )
        said = f"{figure.measured} (best {text / best(results, 'cpu_s') / 1e9:.2f})"
        yield replace(figure, measured=said)
        yield _at_most(
            f"memory ({title})",
            "peak above start-up while reading",
            middle(results, "peak_bytes") / text,
            0.6,
            "of the text",
        )
        yield _at_most(
            f"verdict ({title})",
            "to the verdict, reading included",
            (cpu + middle(results, "verdict.cpu_s")) / cpu,
            2.0,
            "times the read",
        )


@benchmark
def first_read(bench: Bench) -> Iterator[Figure]:
    """The first read of a file that is in the page cache: its pages were never mapped."""
    path = bench.trace()
    results: Results = []
    for _ in range(1 if bench.quick else 5):
        bench.forget_pages(path)
        results += bench.measure("read", path, repeat=1)
    speed = bench.text_bytes(path) / middle(results, "cpu_s") / 1e9
    yield _at_least("first read", "the same, pages never mapped before", speed, 1.0, "GB per CPU s")


@benchmark
def two_cores(bench: Bench) -> Iterator[Figure]:
    """Wall gain of the second core: runs on one and on two take turns, the best of each."""
    path = bench.trace()
    free = bench.free_cores()
    one: Results = []
    two: Results = []
    for _ in range(1 if bench.quick else 5):
        one += bench.measure("read", path, repeat=1, cores=1)
        two += bench.measure("read", path, repeat=1, cores=2)
    scans = [best(bench.measure("scan", path, cores=cores), "wall_s") for cores in (1, 2)]
    gain = best(one, "wall_s") / best(two, "wall_s")
    figure = _at_least("two cores", "wall gain of the second core", gain, 1.6, "times")
    said = f"{figure.measured} (scan alone {scans[0] / scans[1]:.2f})"
    free = min(free, bench.free_cores())
    yield _if_free(replace(figure, measured=said), free, 2)


@benchmark
def ranks(bench: Bench) -> Iterator[Figure]:
    """Eight ranks of one run on two cores, against one of them: memory, CPU, both cores busy."""
    count = 2 if bench.quick else 8
    folder = bench.ranks(count)
    alone = bench.trace()
    free = bench.free_cores()
    repeat = 1 if bench.quick else 3
    one: Results = []
    every: Results = []
    for _ in range(repeat):  # taking turns, since others slow both
        one += bench.measure("read", alone, repeat=1, cores=2, verdict=True)
        every += bench.measure("read", folder, repeat=1, cores=2, verdict=True)
    free = min(free, bench.free_cores())
    bench.drop(folder)
    peak = max(
        max(found["peak_bytes"], found["held_bytes"] + found["verdict"]["peak_bytes"])
        for found in every
    )
    title = f"{count} ranks"
    yield _at_most(
        f"memory ({title})", "peak above start-up, the verdict included", peak / 1e9, 3, "GB"
    )
    limit = count + 0.5
    reading = middle(every, "cpu_s"), middle(one, "cpu_s")
    yield _at_most(
        f"read ({title})", "CPU s against one rank", reading[0] / reading[1], limit, "times"
    )
    whole = [
        read + middle(found, "verdict.cpu_s")
        for read, found in zip(reading, (every, one), strict=True)
    ]
    yield _at_most(
        f"verdict ({title})",
        "CPU s against one rank, all ranks together included",
        whole[0] / whole[1],
        limit,
        "times",
    )
    busy = max(found["cpu_s"] / (2 * found["wall_s"]) for found in every)
    figure = _at_least(f"cores ({title})", "of two cores busy while reading", 100 * busy, 85, "%")
    yield _if_free(figure, free, 2)


@benchmark
def json_pandas(bench: Bench) -> Iterator[Figure]:
    """Against `json.load` and pandas, CPU seconds on the same file in the same run."""
    path = bench.trace()
    ours = middle(bench.measure("read", path), "cpu_s")
    theirs = bench.measure("json_pandas", path, repeat=1)
    yield _at_least(
        "json + pandas",
        "CPU seconds of json.load and pandas",
        middle(theirs, "cpu_s") / ours,
        20,
        "times ours",
    )


@benchmark
def nsys(bench: Bench) -> Iterator[Figure]:
    """An export of Nsight Systems: 1 million kernels, as many ranges, 2 million calls."""
    path = bench.export()
    free = bench.free_cores()
    ours = bench.measure("nsys", path)
    free = min(free, bench.free_cores())
    what = "export to tables, ops to launches"
    wall = _at_most("nsys", what, best(ours, "wall_s"), 12, "s")
    said = f"{wall.measured} ({middle(ours, 'cpu_s'):.3g} CPU s)"
    yield _if_free(replace(wall, measured=said), free, 2)
    peak = middle(ours, "peak_bytes") / 1e9
    yield _at_most("nsys memory", "peak above start-up while reading", peak, 2, "GB")
    theirs = bench.measure("nsys_pandas", path, repeat=1)
    cpu = middle(ours, "cpu_s")
    frames, joined = middle(theirs, "cpu_s"), middle(theirs, "join.cpu_s")
    yield Figure(
        "nsys, pandas",
        "CPU seconds of sqlite3 to pandas, and of the join in SQL",
        "",
        f"{frames / cpu:.2g} and {joined / cpu:.2g} times ours",
        (frames + joined) / cpu,
        "beside",
    )


@benchmark
def hta(bench: Bench) -> Iterator[Figure]:
    """Against HolisticTraceAnalysis 0.5 with its default reader."""
    path = bench.trace()
    theirs = bench.hta(path)
    what = "CPU seconds of HolisticTraceAnalysis 0.5"
    if isinstance(theirs, str):
        yield _unjudged("HTA 0.5", what, ">= 40 times ours", theirs)
        return
    ours = middle(bench.measure("read", path), "cpu_s")
    yield _at_least("HTA 0.5", what, middle(theirs, "cpu_s") / ours, 40, "times ours")


@benchmark
def gz(bench: Bench) -> Iterator[Figure]:
    """Gzip: inflating and scanning overlap on two cores and add up on one."""
    plain, packed = bench.trace(), bench.trace(gz=6)
    inflating = bench.measure("inflate", packed)
    scanning = bench.measure("scan", plain, cores=1)
    both = bench.measure("scan", packed, cores=1)
    total = middle(inflating, "cpu_s") + middle(scanning, "cpu_s")
    yield _at_most(
        "gz, one core",
        "scanning .gz against decompressing alone + scanning text alone",
        middle(both, "cpu_s") / total,
        1.1,
        "times their sum",
    )
    free = bench.free_cores()
    pair = bench.measure("scan", packed, cores=2)
    slower = max(best(inflating, "wall_s"), best(scanning, "wall_s"))
    figure = _at_most(
        "gz, two cores",
        "wall of scanning .gz against the slower of the two alone",
        best(pair, "wall_s") / slower,
        1.25,
        "times",
    )
    free = min(free, bench.free_cores())
    yield _if_free(figure, free, 2)
    reading = bench.measure("read", packed, cores=2)
    peak = middle(reading, "peak_bytes") / bench.text_bytes(packed)
    yield _at_most("memory (gz)", "peak above start-up while reading .gz", peak, 0.6, "of the text")


@benchmark
def cache(bench: Bench) -> Iterator[Figure]:
    """The whole process `analyze` when the tables are in the cache."""
    path = bench.trace()
    arguments = (path, "--json", "--quiet")
    bench.command(*arguments, repeat=1)
    free = bench.free_cores()
    results = bench.command(*arguments)
    figure = _at_most(
        "cached verdict",
        "analyze, second run, the whole process",
        best(results, "wall_s"),
        1.0,
        "s",
    )
    said = f"{figure.measured} ({best(results, 'cpu_s'):.2f} CPU s)"
    yield _if_free(replace(figure, measured=said), min(free, bench.free_cores()), 1)


@benchmark
def start_up(bench: Bench) -> Iterator[Figure]:
    """`analyze --help`: quick, and without the heavy libraries."""
    results = bench.command("--help", repeat=3 if bench.quick else 9)
    figure = _at_most("analyze --help", "the whole process", best(results, "wall_s"), 0.3, "s")
    yield _if_free(figure, bench.free_cores(), 1)
    heavy = sorted(bench.modules_after_help() & {"torch", "pandas", "plotly", "pyarrow"})
    yield Figure(
        "imports of --help",
        "torch, pandas, plotly, pyarrow",
        "none",
        ", ".join(heavy) or "none",
        float(len(heavy)),
        MISSES if heavy else HOLDS,
    )


@benchmark
def pure(bench: Bench) -> Iterator[Figure]:
    """The reader without a compiler."""
    path = bench.trace(12_000_000 if bench.quick else 50_000_000)
    results = bench.measure("read", path, SPECSCOPE_PURE_PYTHON="1")
    assert all(result["reader"] == "pure" for result in results)
    speed = bench.text_bytes(path) / middle(results, "cpu_s") / 1e6
    yield _at_least("pure Python", "text to tables, one core", speed, 40, "MB per CPU s")


@benchmark
def linear(bench: Bench) -> Iterator[Figure]:
    """CPU an event from the smallest to the largest size, and memory at the largest."""
    points: list[dict[str, Any]] = []
    for size in bench.sizes:
        path = bench.trace(size)
        bench.measure("read", path, repeat=1)  # not counted: `first_read` measures that
        results = bench.measure("read", path, verdict=True)
        points.append(
            {
                "text_bytes": bench.text_bytes(path),
                "events": results[0]["events"],
                "read_cpu_s": middle(results, "cpu_s"),
                "verdict_cpu_s": middle(results, "verdict.cpu_s"),
                "peak_bytes": middle(results, "peak_bytes"),
            }
        )
        bench.drop(path)
    bench.points.extend(points)
    costs = [(p["read_cpu_s"] + p["verdict_cpu_s"]) / p["events"] for p in points]
    cheapest = list(accumulate(costs, min))
    yield _at_most(
        "linear",
        "an event's cost against its cost in any smaller trace, "
        f"{_size(bench.sizes[0])} to {_size(bench.sizes[-1])}",
        max(cost / least for cost, least in zip(costs, cheapest, strict=True)),
        1.25,
        "times",
    )
    largest = points[-1]
    yield _at_most(
        f"memory ({_size(bench.sizes[-1])})",
        "peak above start-up while reading",
        largest["peak_bytes"] / largest["text_bytes"],
        0.6,
        "of the text",
    )


@benchmark
def ranges(bench: Bench) -> Iterator[Figure]:
    """What a stage range costs a server: off, unheard, and by each emitter (ranges.py)."""
    limits = {
        "off, no field": ("a disabled range", 350.0),
        "off": ("a disabled range with four fields", 350.0),
        "unheard, torch": ("an enabled range to which nothing listens", 350.0),
        "NVTX": ("an NVTX range with four fields, a tool listens", 1500.0),
        "import": ("import specscope.profiler", 30e6),
    }
    found = bench.ranges()
    for key, (what, limit) in limits.items():
        value = found[key]
        if value is None:
            yield _unjudged(f"range ({key})", what, f"<= {limit:g} ns", "not installed here")
        else:
            yield _at_most(f"range ({key})", what, value, limit, "ns")


def _size(size: int) -> str:
    return f"{size / 1e9:g} GB" if size >= 10**9 else f"{size / 1e6:g} MB"
