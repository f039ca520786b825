"""Reads what `@measured_options` named: the inputs of an analysis."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from specscope import fetch
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.inputs import Inputs
from specscope.analyzers.report import Report
from specscope.analyzers.unprofiled import Reference
from specscope.measured_options import Measured
from specscope.traces import served
from specscope.traces.errors import UsageError
from specscope.traces.load import load
from specscope.traces.metrics_text import MOST_TEXT
from specscope.traces.responses import read_responses
from specscope.traces.run import Note
from specscope.traces.server_log import read_server_log
from specscope.traces.server_metrics import ServerMetrics, read_metrics
from specscope.traces.sniff import printable

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}://")
_HOST: Final = re.compile(r"[\w.-]+:[0-9]+(/|\Z)")


def reference_of(given: Measured) -> Reference:
    """The figures that the user gave as numbers."""
    return Reference(given.cycle_ms, given.tokens_per_second, given.accept_length, given.batch)


def read(given: Measured, *, cache: bool = True) -> Inputs:
    """The files and addresses that the user named, read.

    Raises UsageError, TraceFormatError, in one line.
    """
    metrics = _metrics(given.metrics)
    found = [
        *map(read_responses, given.responses),
        *map(read_server_log, given.server_log),
        *([metrics.served] if metrics and metrics.served else []),
    ]
    notes = [note for one in found for note in served.notes(one)]
    if metrics is not None:
        notes += _notes(metrics)
    return Inputs(
        served=tuple(found),
        device=metrics.device if metrics else None,
        plain=_plain(given, cache=cache),
        others=tuple(analyze(load([path], cache=cache), Options()) for path in given.also),
        plain_tokens_per_second=given.baseline_tokens_per_second,
        notes=tuple(notes),
    )


def _plain(given: Measured, *, cache: bool) -> Report | None:
    if given.baseline is None:
        return None
    return analyze(load([given.baseline], cache=cache), Options())


def _metrics(words: tuple[str, ...]) -> ServerMetrics | None:
    if not words:
        return None
    if len(words) > 2:
        raise UsageError(
            "--metrics is given more than twice; give one text, or two: the earlier first"
        )
    texts, names = [], []
    for word in words:
        if fetch.is_address(word):
            texts.append(fetch.fetch(word))
            names.append(printable(fetch.title(word), 120))
        else:
            path = Path(word).expanduser()
            if _SCHEME.match(word) and not path.exists():
                raise UsageError(
                    f"--metrics {printable(fetch.title(word), 120)}: an address is http or https "
                    "only"
                )
            if _HOST.match(word) and not path.exists():
                raise UsageError(
                    f"--metrics {printable(word, 120)} is no file; for an address write http:// "
                    "before it"
                )
            texts.append(served.whole(path, MOST_TEXT))
            names.append(printable(path.name, 120))
    return read_metrics(texts, names)


def _notes(metrics: ServerMetrics) -> list[Note]:
    notes = []
    if metrics.restarted:
        notes.append(
            Note(
                "metrics_restarted",
                "counters of the second --metrics are below those of the first: the server was "
                "started anew, or the order is turned round; all since its start is taken",
                "give two texts of one server, the earlier first",
            )
        )
    if metrics.impossible:
        notes.append(
            Note(
                "acceptance_impossible",
                f"--metrics: {metrics.impossible}, which cannot be: its acceptance is not used",
                "give the text as the server wrote it, of one server",
            )
        )
    elif metrics.served is None and metrics.device is None:
        notes.append(
            Note(
                "metrics_without_speculation",
                "--metrics holds nothing of speculation"
                + (" between the two texts" if metrics.between else ""),
                "take them of the server that speculates, while it has requests",
            )
        )
    return notes
