"""One of many runs, from its path to its findings: what an engine does for each."""

from __future__ import annotations

from dataclasses import dataclass

from specscope.analyzers.activities import Rules
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.findings import UNREADABLE, Findings, of_report, without
from specscope.traces.errors import SpecscopeError
from specscope.traces.load import load


@dataclass(frozen=True)
class How:
    """How every run is read and analysed."""

    version: str  # of the program
    rules: Rules | None = None
    cache: bool = True
    nsys: str | None = None
    export_timeout: float | None = None


def findings_of(path: str, how: How) -> Findings:
    """The findings of the run at `path`. Whatever happens to it, there is a row that says so."""
    try:
        run = load(path, cache=how.cache, nsys=how.nsys, export_timeout=how.export_timeout)
        report = analyze(run, Options(rules=how.rules))
        return of_report(report, path, how.version)
    except SpecscopeError as error:
        return without(path, UNREADABLE, str(error), how.version)
    except MemoryError:
        return without(path, UNREADABLE, "needs more memory than there is", how.version)
    except Exception as error:  # one of a thousand runs must not cost the others
        reason = f"internal error ({type(error).__name__}: {error}); please report it"
        return without(path, UNREADABLE, reason, how.version)
