"""The partition of every shared case is the expected one, to the nanosecond."""

from __future__ import annotations

import json
from typing import Any

import pytest

import specscope
from specscope.traces.errors import TraceFormatError
from tests.analyzers.parts import parts_of, windows_of
from tests.shared import shared_path

EXPECTED: dict[str, Any] = json.loads(shared_path("cases", "expected.json").read_text())


def _partition(answer: Any) -> list[dict[str, Any]] | None:
    """The cycles of an answer; 'as NAME' refers to another case."""
    if isinstance(answer, str):
        return _cycles(answer.removeprefix("as ").split()[0])
    if isinstance(answer, dict) and "cycles" in answer:
        return list(answer["cycles"])
    return answer if isinstance(answer, list) else None


def _cycles(name: str) -> list[dict[str, Any]] | None:
    case = EXPECTED[name if name in EXPECTED else f"{name}.json"]
    return _partition(case.get("cycles", case.get("partition")))


def _answers() -> list[Any]:
    rows = []
    for name, case in EXPECTED.items():
        if not name.endswith((".json", ".json.gz", ".sqlite")):
            continue
        partition = case.get("partition", case.get("partition_each"))
        if name.startswith("b11"):
            for rank, label in enumerate(case["ranks"]):
                rows.append(
                    pytest.param(name, rank, _partition(partition[label]), id=f"{name}:{rank}")
                )
        elif name.startswith("b07"):
            rows += [
                pytest.param(name, rank, _partition(partition), id=f"{name}:{rank}")
                for rank in case["ranks"]
            ]
        elif (cycles := _cycles(name)) is not None:
            rank = 1 if name.endswith("rank1.json") else 0
            rows.append(pytest.param(name, rank, cycles, id=name))
    return rows


def _report(name: str) -> Any:
    return specscope.analyze(specscope.load(shared_path("cases", name), cache=False))


@pytest.mark.parametrize(("name", "rank", "cycles"), _answers())
def test_partition_equals_the_expected_one(
    name: str, rank: int, cycles: list[dict[str, Any]]
) -> None:
    report = _report(name)
    assert windows_of(report, rank) == [(c["start_ns"], c["end_ns"]) for c in cycles]
    for number, cycle in enumerate(cycles):
        assert parts_of(report, rank, number) == cycle["parts"]


@pytest.mark.parametrize("name", [n for n in EXPECTED if n.startswith("a")])
def test_ops_by_stage_are_the_expected_ones(name: str) -> None:
    case = EXPECTED[name]
    if "ops_by_stage" not in case.get("total", {}) and "ops_by_stage" not in case:
        pytest.skip("the case gives none")
    report = _report(name)
    ops = report.tables["ops"].to_pylist()
    spans = {"unplaced": 0}
    from specscope.analyzers import activities, stages
    from specscope.analyzers import rank as ranks
    from specscope.analyzers.words import STAGES

    prepared = ranks.prepare(report.run.ranks[0], activities.load_rules())
    placed = stages.place(prepared)
    assert placed is not None
    assert len(ops) == len(placed.stage_of_op)
    counts: dict[str, int] = {}
    for code in placed.stage_of_op.tolist():
        counts[STAGES[code]] = counts.get(STAGES[code], 0) + 1
    wanted = case.get("ops_by_stage", case.get("total", {}).get("ops_by_stage"))
    assert counts == {k: v for k, v in wanted.items() if v or k in spans}


@pytest.mark.parametrize("name", ["c01_base.json", "c01_slower.json", "c01_noise.json"])
def test_medians_of_the_comparison_cases(name: str) -> None:
    report = _report(name)
    verify = report.share("verify")
    assert verify is not None
    assert verify.work_ns == EXPECTED[name]["median_verify_ns"]
    lead = next(row for row in report.cycles if row.leads)
    assert lead.median_ns == EXPECTED[name]["median_cycle_ns"]


@pytest.mark.parametrize(
    ("name", "exposed", "hidden"),
    [("a09_nested_allreduce.json", [16500], [5000]), ("a16_host_runs_ahead.json", None, None)],
)
def test_hidden_collectives_are_told_beside_the_exposed_ones(
    name: str, exposed: list[int] | None, hidden: list[int] | None
) -> None:
    report = _report(name)
    verify = report.share("verify")
    assert verify is not None
    if exposed is not None and hidden is not None:
        assert (verify.collective_ns, verify.hidden_collective_ns) == (exposed[0], hidden[0])
        return
    # Two cycles: durations 30,000 and 12,000, of which 11,600 and 9,750 are exposed.
    durations = 30_000 + 12_000
    together = 2 * (verify.collective_ns + verify.hidden_collective_ns)
    assert together == durations


def test_verify_dominates_names_the_share_of_the_design() -> None:
    report = _report("a12_verify_dominates.json")
    verify = report.share("verify")
    assert verify is not None
    assert round(100 * verify.cycle_share.value, 3) == 96.826
    assert report.verdict.stage == "verify"
    assert "96.8 % of the cycle" in report.verdict.sentence


def test_lost_launches_refuse_the_verdict_with_their_share() -> None:
    report = _report("a13_launch_missing.json")
    assert report.verdict.share is None
    assert any("70.5" in reason for reason in report.verdict.refused)


def test_a_cut_file_names_the_launches_without_op_and_gives_no_cycle() -> None:
    report = _report("b05_truncated.json")
    assert report.tables["cycles"].num_rows == 0
    assert report.verdict.refused
    texts = [note.text for note in report.warnings]
    assert any("2 of 5 launch calls have no GPU op" in text for text in texts)
    assert report.tables["losses"].num_rows >= 1


def test_no_gpu_events_is_said_and_never_called_idle() -> None:
    report = _report("b10_no_gpu_events.json")
    sentence = "no GPU events in this trace although 5 launch calls are there"
    assert any(sentence in note.text for note in report.warnings)
    assert sentence in report.verdict.sentence
    assert report.idle_share is None
    assert not any(row["state"] == "idle" for row in report.tables["parts"].to_pylist())


def test_every_kernel_name_of_n01_gets_an_allowed_activity() -> None:
    from specscope.analyzers.activities import ACTIVITIES, activity_codes

    run = specscope.load(shared_path("cases", "n01_kernel_names.json"), cache=False)
    ops = run.ranks[0].ops
    found = dict(
        zip(
            ops["name"].to_pylist(),
            (ACTIVITIES[code] for code in activity_codes(ops).tolist()),
            strict=True,
        )
    )
    for row in EXPECTED["n01_kernel_names.json"]["classes"]:
        assert found[row["name"]] in row["activity"].split(" or "), row["name"]


def test_deep_nesting_ends_in_one_clear_line() -> None:
    with pytest.raises(TraceFormatError) as error:
        specscope.load(shared_path("cases", "x03_deep_nesting.json"), cache=False)
    assert "\n" not in str(error.value)
    assert "Recursion" not in str(error.value)


def test_a_bomb_is_stopped_by_the_limit_and_the_mend_is_named() -> None:
    with pytest.raises(TraceFormatError, match="--max-text"):
        specscope.load(
            shared_path("cases", "x02_bomb.json.gz"), cache=False, max_text_bytes=8 << 20
        )
