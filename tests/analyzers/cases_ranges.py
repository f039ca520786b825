"""specscope's own ranges in full, Python frames of transformers, and traces to refuse."""

from __future__ import annotations

from tests.analyzers.case import Case, case
from tests.analyzers.cases_sglang import V2_PARTS, V2_PERIOD, v2_cycle
from tests.build import ALL_REDUCE, ATTENTION, GEMM, TO_DEVICE, TO_HOST, Timeline

SPECULATION = ("speculation",) * 5


def hooked_cycle(c: Timeline, fields: str, steps: tuple[str, str]) -> None:
    """Every stage has its range; `accept` lies inside `verify`."""
    c.mark(f"specscope:cycle{fields}", 1, 118)

    c.mark(f"specscope:draft{steps[0]}", 2, 14)
    c.launch(4, 6, GEMM, 8, 12)
    c.mark(f"specscope:draft{steps[1]}", 14, 24)
    c.launch(16, 18, GEMM, 20, 26)

    c.mark(f"specscope:verify{fields}", 26, 90)
    c.launch(28, 30, ATTENTION, 32, 44)
    c.mark("tp_all_reduce", 32, 36)
    c.launch(33, 35, ALL_REDUCE, 44, 50)
    c.launch(38, 40, GEMM, 50, 60 + c.i)
    c.mark(f"specscope:accept{fields}", 62, 80)
    c.launch(68, 70, "void VerifyTreeGreedy<int, long>(int*)", 72, 74)
    c.copy(72, 74, TO_HOST, 76, 77)
    c.sync(75, 79)
    c.launch(82, 84, "fill_bonus_tokens", 86, 87)

    c.mark(f"specscope:draft_extend{fields}", 91, 100)
    c.graph(92, 96, (ATTENTION, 98, 102))

    c.mark(f"specscope:schedule{fields}", 101, 110)
    c.copy(102, 104, TO_DEVICE, 106, 107)
    # The scheduler's second thread, inside no range, though the first one is inside its own.
    c.on(4002).launch(105, 106, GEMM, 107, 108, stream=9)


# The cycle runs from 8 to 128.
#
# draft         work 4 + 6. [12, 20): host 4, call 2, 2. At the end [108, 128): host until
#               124, call 2, 2.
# verify        work 12 + (10+i) + 1, collective 6. [26, 32): host 2, call 2, 2. [77, 86):
#               the thread waits until 79, host until 82, call 2, 2.
# accept        work 2 and the copy. [60+i, 72): host until 68, call 2, 2. [74, 76): 2.
# draft_extend  [87, 98): host until 92, call 4, 2.
# schedule      the copy, the kernel of the other thread; [102, 106): the call 2, then 2.
HOOKED_PARTS = """
    draft         compute 10                 | host 20   launch_call 4  queue 4
    verify        compute 23+i  collective 6 | host 5    launch_call 4  queue 4  sync 2
    accept        compute 2     copy 1       | host 8-i  launch_call 2  queue 4
    draft_extend  compute 4                  | host 5    launch_call 4  queue 2
    schedule      compute 1     copy 1       | launch_call 2  queue 2
"""


@case
def own_ranges_with_every_field() -> Case:
    """Cycle numbers need not start at 0; fields of later versions are passed over."""
    t = Timeline()
    for c in t.cycles(6, every=120):
        number = 7 + c.i
        hooked_cycle(
            c,
            f"|c={number}|b=2|later=x",
            (f"|c={number}|s=0|b=2", f"|c={number}|s=1|b=2"),
        )
    return Case(
        t,
        HOOKED_PARTS,
        kinds=SPECULATION,
        batches=(2,) * 5,
        evidence="specscope",
        accept_apart=True,
    )


@case
def own_ranges_without_any_field() -> Case:
    """Two draft ranges that follow each other directly open one cycle."""
    t = Timeline()
    for c in t.cycles(6, every=120):
        hooked_cycle(c, "", ("", ""))
    return Case(t, HOOKED_PARTS, kinds=SPECULATION, evidence="specscope", accept_apart=True)


@case
def ranges_with_a_dot_are_a_probe_and_no_stage() -> Case:
    """`specscope.verify` is not the grammar; read by its prefix it would take the draft."""
    t = Timeline()
    for c in t.cycles(6, every=V2_PERIOD):
        c.mark("specscope.verify", 1, 34)
        c.mark("specscope.draft", 42, 70)
        v2_cycle(c)
    return Case(t, V2_PARTS, kinds=SPECULATION, evidence="structure")


# The cycle runs from 14, the first op of drafting, to 114.
#
# draft   work 4 + 6. [18, 24): host 2, call 2, 2. At the end [78+i, 114): host until 110,
#         call 2, 2.
# verify  work 11 + (15+i) + 1. [30, 49): host until 45, call 2, 2. [75+i, 77+i): 2.
TRANSFORMERS_PARTS = """
    draft   compute 10   | host 34-i  launch_call 4  queue 4
    verify  compute 27+i | host 15    launch_call 2  queue 4
"""


@case
def transformers_assisted_generation_by_its_frames() -> Case:
    """The assistant's own `generate` runs inside `get_candidates`: it is drafting."""
    t = Timeline()
    t.frame("transformers/generation/utils.py(3480): _assisted_decoding", 0, 620)
    for c in t.cycles(6, every=100):
        c.frame("transformers/generation/candidate_generator.py(190): get_candidates", 2, 40)
        c.frame("transformers/generation/utils.py(2280): generate", 4, 38)
        c.frame("transformers/models/llama/modeling_llama.py(450): forward", 8, 36)
        c.launch(10, 12, ATTENTION, 14, 18)
        c.launch(20, 22, GEMM, 24, 30)

        c.frame("transformers/models/llama/modeling_llama.py(450): forward", 42, 70)
        c.launch(45, 47, ATTENTION, 49, 60)
        c.launch(50, 52, GEMM, 60, 75 + c.i)
        c.launch(72, 74, "accepted_prefix_kernel", 77 + c.i, 78 + c.i)
    return Case(t, TRANSFORMERS_PARTS, kinds=SPECULATION, evidence="frames")


# The share of verify, exactly, and traces that do not support one.


def share_cycle(c: Timeline, verify_ends: float) -> None:
    """A cycle of 1000 of which verify, work and its idle, holds `verify_ends` - 30 + i.

    Draft: work 24-i and at the end [verify_ends, 1006). Verify: all between.
    """
    c.mark(f"specscope:draft|c={c.i}|b=1", 1, 10)
    c.launch(2, 4, GEMM, 6, 30 - c.i)
    c.mark(f"specscope:verify|c={c.i}|b=1", 11, 400)
    c.launch(20, 22, GEMM, 32 - c.i, verify_ends)


def share_trace(verify_ends: float, cycles: int = 6) -> Timeline:
    """Shares of `verify_ends` - 30 to - 26 thousandths; the median is that less 28."""
    t = Timeline()
    for c in t.cycles(cycles, every=1000):
        share_cycle(c, verify_ends)
    return t


# [980, 1006) of the draft: host until 1002, call 2, 2. The gap before verify is queue.
def share_parts(verify_ends: int) -> str:
    return f"""
        draft   compute 24-i                | host {1002 - verify_ends}  launch_call 2  queue 2
        verify  compute {verify_ends - 32}+i | queue 2
    """


@case
def verify_share_of_95_8_percent() -> Case:
    return Case(
        share_trace(986),
        share_parts(986),
        kinds=SPECULATION,
        batches=(1,) * 5,
        evidence="specscope",
    )


@case
def verify_share_of_94_9_percent() -> Case:
    return Case(
        share_trace(977),
        share_parts(977),
        kinds=SPECULATION,
        batches=(1,) * 5,
        evidence="specscope",
    )


@case
def two_cycles_give_figures_and_no_verdict() -> Case:
    return Case(
        share_trace(986, cycles=3),
        share_parts(986),
        kinds=("speculation",) * 2,
        evidence="specscope",
        refused="cycle",
    )


def with_a_hole(fill_with_unplaced: float) -> Timeline:
    """Verify of two kernels; between them the device idles, then runs an unlinked kernel."""
    t = Timeline()
    for c in t.cycles(6, every=1000):
        c.mark(f"specscope:draft|c={c.i}|b=1", 1, 10)
        c.launch(2, 4, GEMM, 6, 30)
        c.mark(f"specscope:verify|c={c.i}|b=1", 11, 400)
        c.launch(20, 22, GEMM, 32, 700)
        c.orphan(GEMM, 850 - fill_with_unplaced, 850)
        c.launch(24, 26, GEMM, 850, 986)
    return t


@case
def unlinked_work_of_15_percent_withholds_the_verdict() -> Case:
    """Placed share: the GPU time whose stage rests on evidence, here 828 of 978."""
    return Case(
        with_a_hole(150),
        """
            draft     compute 24  | host 16  launch_call 2  queue 2
            verify    compute 804 | queue 2
            unplaced  compute 150 |
        """,
        kinds=SPECULATION,
        evidence="specscope",
        refused="GPU busy time",
    )


@case
def idle_that_ends_at_unlinked_work_withholds_the_verdict() -> Case:
    """Hardly any unplaced work, but 14.9 % of the cycle is idle that nobody owns."""
    return Case(
        with_a_hole(1),
        """
            draft     compute 24  | host 16  launch_call 2  queue 2
            verify    compute 804 | queue 2
            unplaced  compute 1   | unknown 149
        """,
        kinds=SPECULATION,
        evidence="specscope",
        refused="placed",
    )


@case
def a_launch_without_its_kernel_inside_counted_cycles_withholds_the_verdict() -> Case:
    """The kernel row of a launch in cycle 2 is lost: what ran there is not known."""
    t = share_trace(986)
    t.at(2 * 1000).call("cudaLaunchKernel", 30, 32)
    return Case(
        t,
        share_parts(986),
        kinds=SPECULATION,
        evidence="specscope",
        refused="no GPU row",
    )


@case
def a_launch_without_its_kernel_behind_the_last_cycle_is_a_loss() -> Case:
    """The profiler stops while kernels are still to come: nothing counted is touched."""
    t = share_trace(986)
    t.at(5 * 1000).call("cudaLaunchKernel", 500, 502)
    return Case(t, share_parts(986), kinds=SPECULATION, batches=(1,) * 5, evidence="specscope")


@case
def graphs_without_any_kernel_withhold_the_verdict() -> Case:
    """Every graph launch is on record and nothing of what the graphs did."""
    t = Timeline()
    for c in t.cycles(6, every=1000):
        c.mark(f"specscope:draft|c={c.i}|b=1", 1, 10)
        c.launch(2, 4, GEMM, 6, 30)
        c.mark(f"specscope:verify|c={c.i}|b=1", 11, 400)
        c.graph(20, 26)
        c.launch(30, 32, GEMM, 960, 986)
    return Case(t, kinds=SPECULATION, evidence="specscope", refused="graph")


@case
def launches_without_any_op_are_refused() -> Case:
    """Not a run on the CPU: the GPU rows are missing, and host times are no substitute."""
    t = Timeline()
    for c in t.cycles(6, every=1000):
        c.mark(f"specscope:draft|c={c.i}|b=1", 1, 10)
        c.call("cudaLaunchKernel", 2, 4)
        c.mark(f"specscope:verify|c={c.i}|b=1", 11, 400)
        c.call("cudaGraphLaunch", 20, 26)
    return Case(t, kinds=None, refused="GPU")
