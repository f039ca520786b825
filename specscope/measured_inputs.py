"""Reads what `@measured_options` named: the inputs of an analysis."""

from __future__ import annotations

from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.inputs import Inputs
from specscope.analyzers.report import Report
from specscope.analyzers.unprofiled import Reference
from specscope.measured_options import Measured
from specscope.traces.load import load


def reference_of(given: Measured) -> Reference:
    """The figures that the user gave as numbers."""
    return Reference(given.cycle_ms, given.tokens_per_second, given.accept_length, given.batch)


def read(given: Measured, *, cache: bool = True) -> Inputs:
    """The files and addresses that the user named, read.

    Raises UsageError, TraceFormatError, in one line, and OSError.
    """
    return Inputs(
        plain=_plain(given, cache=cache),
        plain_tokens_per_second=given.baseline_tokens_per_second,
    )


def _plain(given: Measured, *, cache: bool) -> Report | None:
    if given.baseline is None:
        return None
    return analyze(load([given.baseline], cache=cache), Options())
