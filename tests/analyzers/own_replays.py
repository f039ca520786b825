"""Own recordings, analysed and replayed once for all tests of what would help."""

from __future__ import annotations

from functools import cache

import specscope
from specscope.analyzers import replay_graph
from specscope.analyzers.analyze import Options, analyze
from specscope.analyzers.replay_graph import Replay
from specscope.analyzers.report import Report
from specscope.analyzers.whatif import Asked, WhatIf, whatif
from tests.shared import shared_path

OWN = shared_path("traces", "own")
NAMES = tuple(sorted(path.name for path in OWN.iterdir() if path.name.startswith("tp")))


@cache
def report_of(name: str) -> Report:
    return analyze(specscope.load(OWN / name, cache=False), Options())


@cache
def replay_of(name: str) -> Replay:
    built = replay_graph.build(report_of(name))
    assert isinstance(built, Replay), built
    return built


@cache
def asked_of(name: str, *levers: tuple[str, float]) -> WhatIf:
    return whatif(report_of(name), Asked(levers))
