"""Several process groups: each is matched and measured by itself, with the waits put in."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specscope.analyzers import group_tables, group_view, signs
from specscope.analyzers.collective_times import LATE_CAUSES
from specscope.analyzers.group_rows import Group
from specscope.dashboards.json_group import group_json
from specscope.dashboards.terminal import console_for, print_group
from specscope.traces import schema
from tests.analyzers.drawn_groups import DrawnGroups, Kind, Ranks, draw_groups
from tests.analyzers.drawn_ranks import RULES, Distortion, collectives_of
from tests.analyzers.test_ranks_drawn import source
from tests.dashboards import reports
from tests.dashboards.test_rank_sections import SCHEMA

NCCL = "ncclDevKernel_{}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ALL = (0, 1, 2, 3)
PAIRS = ((0, 1), (2, 3))
TP = Kind(PAIRS, group_name="attn_tp")
WORLD = Kind((ALL,), NCCL.format("AllGather"), ("_allgather_base",), "world")
EXPERTS = Kind((ALL,), "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
               ("all_to_allv",), "moe_ep")  # fmt: skip
DEEP_EP = Kind((ALL,), "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)", ("",), "moe_ep")
PIPE = Kind(((0, 2), (1, 3)), "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
            ("send", "recv"), "pp")  # fmt: skip
CLOCKS = [Distortion(), Distortion(120_000), Distortion(-250_000), Distortion(40_000)]


def every(count: int) -> Callable[[int], int]:
    """Every so manyth collective is of the second kind."""
    return lambda index: int(index % count == count - 1)


def lateness(ns: int, of: Ranks, step: int = 4) -> Callable[[int, int], int]:
    """The ranks are late at every `step`th collective."""
    return lambda index, rank: ns if rank in of and index % step == 1 else 0


@cache
def collective_kinds() -> list[str]:
    one = source()
    ops = one.rank.ops
    return RULES.families([ops.names[ops.name[row]] for row in collectives_of(one)])


def part(group: Group, ranks: Ranks) -> Group:
    [found] = [
        one
        for one in group.parts
        if one.measured is not None and one.measured.matched.ranks == ranks
    ]
    return found


def check(drawn: DrawnGroups, *groups: Ranks) -> Group:
    """Wait within 2 us a collective, transfer within 5 %, for every member of each group."""
    found = drawn.group()
    assert not found.refused
    assert {one.ranks for one in found.parts} == set(groups)
    for ranks in groups:
        measured = part(found, ranks).measured
        assert measured is not None
        rows = collectives_of(drawn.attributed[0])[drawn.of(ranks)]
        assert (measured.matched.op == rows).all()
        assert np.abs(measured.times.wait - drawn.wait(ranks)).max() <= 2_000
        true = drawn.transfer(ranks).sum(axis=1)
        assert measured.times.transfer.sum(axis=1) == pytest.approx(true, rel=0.05)
    return found


def test_two_tensor_parallel_groups_of_a_world_are_never_matched_with_each_other() -> None:
    """Replicas: nobody of one group waits for the other."""
    drawn = draw_groups(source(), [TP], lambda _: 0, CLOCKS, lateness(90_000, (3,)))
    found = check(drawn, *PAIRS)
    assert part(found, (0, 1)).measured is not None
    slow, quick = found.row("verify", 2, "attn_tp (ranks 2-3)"), found.row(
        "verify", 0, "attn_tp (ranks 0-1)"
    )  # fmt: skip
    assert slow is not None and quick is not None
    assert slow.wait_ns > 1_000_000 > quick.wait_ns
    late = found.row("verify", 3, "attn_tp (ranks 2-3)")
    assert late is not None and (late.cause, late.late_share) == (
        "compute",
        pytest.approx(0.25, abs=0.05),
    )
    assert "of attn_tp (ranks 2-3) rank 3 is late" in found.sentence


# On one host the clocks are as one; elsewhere they follow from what most collectives agree on.
ONE_HOST = [Distortion()] * 4


@pytest.mark.parametrize(
    ("recorded", "clocks", "least"),
    [(True, CLOCKS, 60_000), (False, CLOCKS, 30_000), (False, ONE_HOST, 60_000)],
)
def test_data_parallel_attention_has_rows_for_attention_groups_and_the_world(
    recorded: bool, clocks: list[Distortion], least: int
) -> None:
    """Where kernels record no group the layout follows from who leaves together."""
    kinds = collective_kinds()
    late = np.random.default_rng(7).integers(least, 60_001, len(kinds))

    def kind_of(index: int) -> int:
        return int(index % 4 == 3 or kinds[index] == "nccl.allgather")

    def of_rank(index: int, rank: int) -> int:
        # Where clocks are as one, all collectives of a kind may be late by one and the same.
        return int(late[index]) if rank in (2, 3) and index % 4 == int(clocks is CLOCKS) else 0

    drawn = draw_groups(source(), [TP, WORLD], kind_of, clocks, of_rank, recorded=recorded)
    found = check(drawn, *PAIRS, ALL)
    waits = {
        rank: sum(r.wait_ns for r in found.rows if r.rank == rank and "world" in (r.group or ""))
        for rank in ALL
    }
    assert min(waits[0], waits[1]) > 10 * max(waits[2], waits[3])


@pytest.mark.parametrize(("kind", "family"), [(EXPERTS, "nccl.alltoall"), (DEEP_EP, "ep.dispatch")])
def test_all_to_alls_of_experts_are_a_kind_of_their_own(kind: Kind, family: str) -> None:
    drawn = draw_groups(source(), [TP, kind], every(3), CLOCKS, lateness(60_000, (1,)))
    found = check(drawn, *PAIRS, ALL)
    measured = part(found, ALL).measured
    assert measured is not None and set(measured.matched.kind) == {family}


def test_a_pipeline_has_pairs_that_send_and_receive() -> None:
    """The receiving ranks wait for the senders, which are late."""
    drawn = draw_groups(source(), [TP, PIPE], every(18), CLOCKS, lateness(60_000, (0, 1), 9))
    found = check(drawn, *PAIRS, (0, 2), (1, 3))
    measured = part(found, (0, 2)).measured
    assert measured is not None
    assert set(measured.matched.kind) == {"nccl.sendrecv"}
    assert measured.matched.names == (
        ("send",) * len(measured.matched),
        ("recv",) * len(measured.matched),
    )
    waited = measured.times.wait.sum(axis=1)
    assert waited[1] > 100_000 > waited[0]


@settings(max_examples=8, deadline=None)
@given(
    st.integers(0, 1 << 16),
    st.sampled_from(["replicas", "attention", "experts", "pipeline"]),
    st.integers(20_000, 200_000),
)
def test_waits_of_every_group_come_out_as_they_were_put_in(seed: int, way: str, ns: int) -> None:
    """Random lateness, clocks off by up to 500 us; the joint path sums to the nanosecond."""
    kinds, step = {
        "replicas": ([TP], 1),
        "attention": ([TP, WORLD], 4),
        "experts": ([TP, EXPERTS], 3),
        "pipeline": ([TP, PIPE], 18),
    }[way]
    random = np.random.default_rng(seed)
    clocks = [Distortion(), *(Distortion(int(n)) for n in random.integers(-500_000, 500_000, 3))]
    late = random.integers(0, ns, (len(collective_kinds()), 4))
    late[random.random(late.shape) < 0.8] = 0
    kind_of = every(step) if len(kinds) > 1 else lambda _: 0
    drawn = draw_groups(source(), kinds, kind_of, clocks, lambda i, rank: int(late[i, rank]))
    found = check(drawn, *(group for kind in kinds for group in kind.groups))
    if len(kinds) == 1:
        assert found.paths is None  # nothing brings replicas onto one clock
        return
    assert found.paths is not None
    sums = np.bincount(found.paths.cycle, weights=found.paths.ns).astype(np.int64)
    assert (sums == np.diff(found.paths.borders)).all()
    # The path never waits: all that was put in on it is work or idle of the rank, or transfer.
    assert (found.paths.ns > 0).all()


def test_lateness_in_one_group_holds_the_cycle_of_all_back() -> None:
    """On the joint path it appears on the late rank with its amount, also for other groups."""
    paths = []
    for ns in (0, 100_000):
        drawn = draw_groups(
            source(), [TP, WORLD], every(4), [Distortion()] * 4, lateness(ns, (3,), 8)
        )
        found = drawn.group().paths
        assert found is not None
        paths.append(found)
    before, after = paths
    grown = np.diff(after.borders) - np.diff(before.borders)
    added = [
        int(np.sum(np.arange(len(collective_kinds()))[inside] % 8 == 1)) * 100_000
        for inside in (cycle_of_collectives() == number for number in range(len(before.cycles)))
    ]
    assert grown.tolist() == added
    for number, ns in enumerate(added):
        own = after.ns[(after.rank == 3) & (after.cycle == number)].sum()
        assert own >= ns


def test_in_a_longer_pipeline_a_rank_sends_to_the_next_and_receives_from_the_one_before() -> None:
    """The group that is recorded holds all four stages; only neighbours wait for each other."""
    there = replace(PIPE, groups=PAIRS, recorded_as=ALL)
    back = replace(PIPE, groups=((1, 2), (3, 0)), recorded_as=ALL)
    drawn = draw_groups(
        source(), [there, back], lambda index: index % 2, CLOCKS, lateness(60_000, (1,), 8)
    )
    found = drawn.group()
    ranks = {one.ranks: one.title for one in found.parts}
    assert ranks == {(a, b): f"pp (ranks {a}{'-' if b == a + 1 else ', '}{b})"
                     for a, b in ((0, 1), (1, 2), (2, 3), (0, 3))}  # fmt: skip
    for pair in ((0, 1), (1, 2), (2, 3)):
        measured = part(found, pair).measured
        assert measured is not None
        assert np.abs(measured.times.wait - drawn.wait(pair)).max() <= 2_000


@pytest.mark.parametrize(("kinds", "step"), [([TP, PIPE], 18), ([TP, WORLD], 4)])
def test_the_joint_path_does_not_depend_on_the_clocks(kinds: list[Kind], step: int) -> None:
    """Rank 3 shares no group with rank 0 in the pipeline: its clock is told through another."""
    found = [
        draw_groups(source(), kinds, every(step), clocks, lateness(70_000, (3,), 8)).group().paths
        for clocks in (ONE_HOST, CLOCKS)
    ]
    assert found[0] is not None and found[1] is not None
    of_ranks = [
        np.bincount(4 * paths.cycle + paths.rank, weights=paths.ns, minlength=4 * 9)
        for paths in found
    ]
    assert of_ranks[1] == pytest.approx(of_ranks[0], abs=20)


def cycle_of_collectives() -> np.ndarray:
    one = source()
    at = one.rank.ops.start[collectives_of(one)]
    return np.searchsorted(one.cycles.borders, at, "right") - 1


def test_a_rank_that_another_group_held_back_is_late_by_that_group() -> None:
    """Rank 3 is late for its pair; so its partner comes late to the world, for the pair held it."""
    drawn = draw_groups(
        source(), [TP, WORLD], every(2), CLOCKS, lambda i, rank: 90_000 * (rank == 3 and i % 8 == 0)
    )
    world = part(drawn.group(), ALL).measured
    assert world is not None
    held = world.times.cause[world.times.late == 2]
    assert (held == LATE_CAUSES.index("collective")).any()


def test_a_group_of_which_ranks_are_not_read_blames_nobody() -> None:
    drawn = draw_groups(source(), [TP, WORLD], every(4), CLOCKS, lateness(60_000, (1,)))
    some = replace(drawn, attributed=drawn.attributed[:2])
    found = some.group()
    assert [one.missing for one in found.parts] == [(2, 3), ()]
    assert "world (ranks 0-3): Rank 2, 3 of 4 is not read" in found.sentence
    assert "% in attn_tp (ranks 0-1)" in found.sentence
    assert "% in world" not in found.sentence
    assert found.paths is None


def test_ranks_that_share_no_group_are_refused() -> None:
    drawn = draw_groups(source(), [TP], lambda _: 0, CLOCKS)
    some = replace(drawn, attributed=[drawn.attributed[0], drawn.attributed[2]])
    assert "different process groups" in some.group().refused


def test_one_group_that_is_recorded_is_no_assumption() -> None:
    drawn = draw_groups(source(), [Kind((ALL,))], lambda _: 0, CLOCKS)
    found = drawn.group()
    assert not found.several
    assert "are one process group (as recorded on the collectives)" in found.assumption


def test_without_group_data_the_servers_tp_splits_the_ranks_and_this_is_said() -> None:
    random = np.random.default_rng(11)
    late = random.integers(0, 80_000, len(collective_kinds()))
    drawn = draw_groups(
        source(), [TP], lambda _: 0, CLOCKS, lambda i, rank: int(late[i]) if rank == 3 else 0,
        recorded=False, listed=False, context={"tp": 2},
    )  # fmt: skip
    found = check(drawn, *PAIRS)
    assert "ranks 2-3 (by the server's tp)" in found.assumption


def test_tables_and_json_say_the_group_of_every_row() -> None:
    drawn = draw_groups(source(), [TP, PIPE], every(18), CLOCKS, lateness(60_000, (0, 1), 9))
    found = drawn.group()
    tables = {name: make() for name, make in group_tables.of(found, drawn.attributed).items()}
    titles = {one.title for one in found.parts}
    for name in ("rank_clocks", "rank_stages", "matched_collectives"):
        assert set(tables[name]["group"].to_pylist()) == titles
        assert tables[name].schema.equals(schema.GROUP[name])
    rows = tables["matched_collectives"].to_pylist()
    numbers = Counter(row["collective"] for row in rows)
    assert set(numbers.values()) == {2}  # every group here has two ranks
    assert {row["name"] for row in rows if row["kind"] == "nccl.sendrecv"} == {"send", "recv"}
    tree = group_json(replace(reports.bundled(), group=found))
    assert tree is not None
    valid = json.loads(SCHEMA.read_text("utf-8"))["properties"]["group"]
    jsonschema.Draft202012Validator(valid).validate(tree)
    assert {one["name"]: one["kinds"] for one in tree["groups"]}["pp (ranks 0, 2)"].keys() == {
        "nccl.sendrecv"
    }
    assert {row["group"] for row in tree["stages"]} == titles


def with_another_library(drawn: DrawnGroups, ranks: Ranks) -> DrawnGroups:
    """Those ranks run all-reduces of another library, as a replica set up otherwise does."""
    attributed = list(drawn.attributed)
    for rank in ranks:
        one = attributed[rank]
        kinds = RULES.families(one.rank.ops.names)
        names = [
            "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 2>(RankData*)"
            if kind == "nccl.allreduce"
            else name
            for name, kind in zip(one.rank.ops.names, kinds, strict=True)
        ]
        attributed[rank] = replace(
            one, rank=replace(one.rank, ops=replace(one.rank.ops, names=names))
        )
    return replace(drawn, attributed=attributed)


def test_a_layout_of_which_only_some_ranks_run_a_kind_is_not_that_kinds() -> None:
    """Replicas with other kernel libraries, where the world of all ranks is listed as well."""
    unused = replace(WORLD, kernel="")
    drawn = draw_groups(
        source(), [TP, unused], lambda _: 0, ONE_HOST, lateness(60_000, (1,)), recorded=False
    )
    found = check(with_another_library(drawn, (2, 3)), *PAIRS)
    matched = [part(found, ranks).measured for ranks in PAIRS]
    kinds = [set(one.matched.kind) for one in matched if one is not None]
    assert kinds[0] - kinds[1] == {"nccl.allreduce"}
    assert kinds[1] - kinds[0] == {"custom.allreduce"}
    assert not found.left_out and found.sentence


def test_where_most_collectives_match_nobody_is_judged_by_the_rest() -> None:
    """Nineteen of twenty are the world's, whose ranks do not correspond."""
    world = Kind((ALL,), group_name="world")
    drawn = draw_groups(source(), [world, TP], every(20), ONE_HOST, lateness(60_000, (1,)))
    found = with_another_library(drawn, (2, 3)).group()
    assert found.rows and found.sentence == found.left_out
    assert "collectives of rank 0 are left out of matching" in found.sentence
    assert "world (ranks 0-3): the collectives of the ranks do not correspond" in found.sentence
    assert "neither the wire nor a late rank can be named" in found.sentence
    report = replace(reports.bundled(), group=found)
    assert not [name for name in signs.of(report) if "transfer" in name or "wait" in name]
    on_record = f"{len(collective_kinds()):,}"
    assert re.search(rf"[ \n]\d\d\sof\s{on_record}\scollectives", printed(found))


def at_batches(drawn: DrawnGroups, batches: dict[int, int]) -> DrawnGroups:
    attributed = [
        replace(one, cycles=replace(one.cycles, batch=[batches[rank]] * len(one.cycles)))
        for rank, one in enumerate(drawn.attributed)
    ]
    return replace(drawn, attributed=attributed)


def test_a_replica_at_another_batch_has_its_rows_at_its_own() -> None:
    drawn = draw_groups(source(), [TP], lambda _: 0, ONE_HOST, lateness(60_000, (1,)))
    found = at_batches(drawn, {0: 1, 1: 1, 2: 8, 3: 8}).group()
    assert [one.own_batch for one in found.parts] == ["", "batch 8"]
    assert {row.rank for row in found.rows} == {None, *ALL}
    assert "its cycles are those of batch 8, the headline's of batch 1" in found.assumption
    assert re.search(r"cycles\sof\sbatch\s8;", printed(found))
    # What is said of the cycle's causes is of the headline's cycles.
    report = replace(reports.bundled(), group=found)
    own = {row.rank: row for row in found.rows if row.stage == "verify"}
    assert own[0].wait_ns > 0
    alone = replace(found, rows=tuple(r for r in found.rows if "0-1" in (r.group or "")))
    assert signs.of(report) == signs.of(replace(report, group=alone))


def test_a_group_whose_ranks_share_no_batch_is_named() -> None:
    drawn = draw_groups(source(), [TP], lambda _: 0, ONE_HOST, lateness(60_000, (1,)))
    found = at_batches(drawn, {0: 1, 1: 1, 2: 8, 3: 4}).group()
    assert {row.rank for row in found.rows} == {None, 0, 1}
    texts = [note.text for note in group_view.notes(found)]
    assert any("attn_tp (ranks 2-3): all, for its ranks have no cycle" in text for text in texts)


def printed(group: Group) -> str:
    file = io.StringIO()
    print_group(replace(reports.bundled(), group=group), console_for(file, 80))
    return file.getvalue()


def test_a_group_too_small_for_a_row_has_no_header() -> None:
    drawn = draw_groups(source(), [TP, WORLD], every(4), CLOCKS, lateness(60_000, (2,)))
    found = drawn.group()
    tiny = tuple(
        replace(row, wait_share=0.0, transfer_share=0.0) if "0-1" in (row.group or "") else row
        for row in found.rows
    )
    text = printed(replace(found, rows=tiny))
    assert "Collectives of attn_tp (ranks 0-1) a cycle" not in text
    assert "Collectives of attn_tp (ranks 2-3) a cycle" in text


def test_every_group_has_its_rows_on_the_terminal() -> None:
    drawn = draw_groups(source(), [TP, WORLD], every(4), CLOCKS, lateness(60_000, (2,)))
    lines = printed(drawn.group()).splitlines()
    assert max(map(len, lines)) <= 80
    for title in ("world (ranks 0-3)", "attn_tp (ranks 0-1)", "attn_tp (ranks 2-3)"):
        assert any(line.startswith(f"Collectives of {title} a cycle") for line in lines)
