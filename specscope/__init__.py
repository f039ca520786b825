"""specscope: where does the speculation cycle of an LLM server go?

>>> import specscope
>>> run = specscope.load("traces/")          # doctest: +SKIP
>>> report = specscope.analyze(run)          # doctest: +SKIP
>>> print(report.verdict.sentence)           # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "Options",
    "Reference",
    "Report",
    "Run",
    "SpecscopeError",
    "analyze",
    "attach",
    "compare",
    "figures",
    "load",
    "load_capture_traces",
    "whatif",
]

if TYPE_CHECKING:
    from specscope.analyzers.analyze import Options
    from specscope.analyzers.compare import compare
    from specscope.analyzers.report import Report
    from specscope.analyzers.unprofiled import Reference
    from specscope.analyzers.whatif import whatif
    from specscope.notebook import analyze, figures
    from specscope.profiler.attach import attach
    from specscope.traces.errors import SpecscopeError
    from specscope.traces.graph_capture import load_capture_traces
    from specscope.traces.load import load
    from specscope.traces.run import Run

# Imported on first use, so that `analyze --help` starts without numpy and pyarrow.
_HOME = {
    "Options": "specscope.analyzers.analyze",
    "Reference": "specscope.analyzers.unprofiled",
    "Report": "specscope.analyzers.report",
    "Run": "specscope.traces.run",
    "SpecscopeError": "specscope.traces.errors",
    "analyze": "specscope.notebook",
    "attach": "specscope.profiler.attach",
    "compare": "specscope.analyzers.compare",
    "figures": "specscope.notebook",
    "load": "specscope.traces.load",
    "load_capture_traces": "specscope.traces.graph_capture",
    "whatif": "specscope.analyzers.whatif",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'specscope' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
