"""SGLang, one drawing per generation of the marks it leaves by itself.

Most of them are one timeline of the worker (v2, CUDA graphs, 3 steps) under different marks:
what a version writes into the trace must not change where the time went.
"""

from __future__ import annotations

import re

from tests.analyzers.case import Case, case
from tests.build import ALL_REDUCE, ARGMAX, ATTENTION, GEMM, TO_DEVICE, TO_HOST, Timeline

# Where the sources lie: installed from a wheel, and in the images of SGLang.
INSTALLED = "sglang/srt"
IMAGE = "/sgl-workspace/sglang/python/sglang/srt"

BUILD_TREE = "build_tree_efficient(long*, long*, long*, bool*, long*, long*, long*, int, int)"
VERIFY_TREE = "void VerifyTreeGreedy<int, long>(int*, int*, int*, long*, long*, long*, long*)"

V2_PERIOD = 180


def v2_cycle(c: Timeline, draft: tuple[str, ...] = (ATTENTION, GEMM, ATTENTION, GEMM)) -> None:
    """One cycle of EAGLEWorkerV2: draft graph, verify graph, draft-extend graph."""
    spans = ((16, 20), (20, 26), (27, 31), (31, 36))
    c.launch(2, 4, "assign_draft_cache_locs", 6, 9)
    c.graph(10, 14, *((name, *span) for name, span in zip(draft, spans, strict=True)))
    c.launch(30, 32, BUILD_TREE, 38, 41)

    c.launch(44, 46, "assign_extend_cache_locs", 48, 50)
    c.graph(
        *(52, 58),
        *((ATTENTION, 60, 68), (ALL_REDUCE, 68, 74), (GEMM, 75, 85)),
        *((ATTENTION, 85, 93), (ALL_REDUCE, 93, 99), (GEMM, 99, 109)),
        *((ATTENTION, 109, 117), (GEMM, 117, 127 + c.i)),
    )
    c.launch(62, 64, VERIFY_TREE, 129 + c.i, 132 + c.i)
    c.launch(66, 68, "fill_bonus_tokens", 132 + c.i, 134 + c.i)

    c.launch(140, 142, "compute_position_kernel", 144, 146)
    c.graph(148, 152, (ATTENTION, 154, 158), (GEMM, 158, 164))

    c.copy(156, 158, TO_HOST, 166, 168)
    c.sync(160, 170, api="cudaEventSynchronize")


# The cycle runs from its first op at 6 to that of the next at 186.
#
# draft         work 3 + (4+6+4+5) + 3. Before the graph, [9, 16): host until its call at 10,
#               the call 4, then 2. [26, 27) lies inside the graph. [36, 38): the tree's call
#               was over at 32. At the end, [168, 186): the thread waits until 170, has not
#               come to the launch until 182, the call 2, then 2.
# verify        work 2 + (8+10+8+10+8+10+i) + 3 + 2, collectives 6 + 6. [41, 48): host 3,
#               call 2, 2. [50, 60): host 2, call 6, 2. [74, 75) in the graph. Before
#               VerifyTreeGreedy 2, launched long ago.
# draft_extend  work 2 + (4+6). [134+i, 144): host until 140, call 2, 2. [146, 154): host 2,
#               call 4, 2.
# schedule      the copy, and the 2 before it, launched at 156.
V2_PARTS = """
    draft         compute 25                  | host 13   launch_call 6  queue 6  graph 1  sync 2
    verify        compute 61+i  collective 12 | host 5    launch_call 8  queue 6  graph 1
    draft_extend  compute 12                  | host 8-i  launch_call 6  queue 4
    schedule      copy 2                      | queue 2
"""


@case
def sglang_0_5_10_v2_without_any_mark() -> Case:
    """Before 0.5.11 nothing but the order of launches and the bookkeeping kernels is left."""
    t = Timeline()
    for c in t.cycles(6, every=V2_PERIOD):
        v2_cycle(c)
    return Case(t, V2_PARTS, kinds=("speculation",) * 5, evidence="structure")


@case
def sglang_standalone_draft_with_more_layers_than_the_target() -> Case:
    """The draft graph holds every draft forward: 2 of 2 layers outnumber a target of 3.

    Its place between the opener of draft and the tree tells what it is, not its size.
    """
    t = Timeline()
    for c in t.cycles(6, every=V2_PERIOD):
        v2_cycle(c, (ATTENTION,) * 4)
    return Case(t, V2_PARTS, kinds=("speculation",) * 5, evidence="structure")


V1_PERIOD = 160


def v1_cycle(c: Timeline) -> None:
    """One cycle of EAGLEWorker: the host reads the accept lengths before draft extend."""
    c.launch(2, 4, "assign_draft_cache_locs", 6, 9)
    c.graph(10, 14, (ATTENTION, 16, 20), (GEMM, 20, 26))
    c.launch(18, 20, BUILD_TREE, 28, 30)

    c.launch(32, 34, "assign_req_to_token_pool", 36, 38)
    c.graph(
        *(40, 46),
        *((ATTENTION, 48, 60), (GEMM, 60, 70), (ATTENTION, 70, 82), (GEMM, 82, 92 + c.i)),
    )
    c.launch(48, 50, VERIFY_TREE, 94 + c.i, 96 + c.i)
    c.copy(52, 54, TO_HOST, 97 + c.i, 98 + c.i)
    c.sync(54, 104 + c.i)

    c.launch(110, 112, "create_extend_after_decode_spec_info", 114, 116)
    c.graph(120, 124, (ATTENTION, 126, 130), (GEMM, 130, 134))


# The cycle runs from 6 to 166.
#
# draft         work 3 + 10 + 2. [9, 16): host 1, call 4, 2. [26, 28): 2. At the end
#               [134, 166): host until 162, call 2, 2.
# verify        work 2 + (12+10+12+10+i) + 2 and the copy. [30, 36): host 2, call 2, 2.
#               [38, 48): host 2, call 6, 2. Before VerifyTreeGreedy 2, before the copy 1.
# draft_extend  work 2 + 4 + 4. [98+i, 114): the thread waits until 104+i, host until 110,
#               call 2, 2. [116, 126): host 4, call 4, 2. Its first op is
#               create_extend_after_decode_spec_info, as in the recordings with hooks.
V1_PARTS = """
    draft         compute 15           | host 29    launch_call 6  queue 6
    verify        compute 48+i  copy 1 | host 4     launch_call 8  queue 7
    draft_extend  compute 10           | host 10-i  launch_call 6  queue 4  sync 6
"""


@case
def sglang_0_5_10_v1_without_any_mark() -> Case:
    t = Timeline()
    for c in t.cycles(6, every=V1_PERIOD):
        v1_cycle(c)
    return Case(t, V1_PARTS, kinds=("speculation",) * 5, evidence="structure")


def v2_frames(c: Timeline, sources: str) -> None:
    """The methods of the v2 worker as with_stack records them."""
    worker = f"{sources}/speculative/eagle_worker_v2.py"
    graphs = f"{sources}/speculative/eagle_draft_cuda_graph_runner.py"
    c.frame(f"{sources}/managers/scheduler.py(2996): run_batch", 0, 159)
    c.frame(f"{worker}(744): forward_batch_generation", 1, 155)
    c.frame(f"{worker}(339): draft", 1.5, 34)
    c.frame(f"{graphs}(394): replay", 9, 15)
    c.frame(f"{worker}(971): verify", 42, 70)
    c.frame(f"{worker}(567): _draft_extend_for_decode", 138, 154)


@case
def sglang_v2_with_frames_only() -> Case:
    """Frames of a wheel; `forward_batch_generation` holds the cycle and is no stage."""
    t = Timeline()
    for c in t.cycles(6, every=V2_PERIOD):
        v2_frames(c, INSTALLED)
        v2_cycle(c)
    return Case(t, V2_PARTS, kinds=("speculation",) * 5, evidence="frames")


@case
def sglang_v2_with_frames_of_the_official_image() -> Case:
    """An editable install shows absolute paths."""
    t = Timeline()
    for c in t.cycles(6, every=V2_PERIOD):
        v2_frames(c, IMAGE)
        v2_cycle(c)
    return Case(t, V2_PARTS, kinds=("speculation",) * 5, evidence="frames")


@case
def sglang_v1_with_frames_only() -> Case:
    """`verify` of eagle_info.py is the accept inside the worker's verify, no stage of draft."""
    t = Timeline()
    folder = f"{IMAGE}/speculative"
    for c in t.cycles(6, every=V1_PERIOD):
        c.frame(f"{folder}/eagle_worker.py(280): forward_batch_generation", 1, 125)
        c.frame(f"{folder}/eagle_worker.py(420): draft", 1.5, 22)
        c.frame(f"{folder}/eagle_worker.py(610): verify", 31, 105 + c.i)
        c.frame(f"{folder}/eagle_info.py(230): verify", 47, 104.5 + c.i)
        c.frame(f"{folder}/eagle_worker.py(830): forward_draft_extend_after_decode", 106, 124.5)
        v1_cycle(c)
    return Case(t, V1_PARTS, kinds=("speculation",) * 5, evidence="frames")


@case
def sglang_0_5_12_step_mark_around_the_target_only() -> Case:
    """0.5.11 to 0.5.18: the mark names the target and the batch, and is no border of verify."""
    t = Timeline()
    for c in t.cycles(6, every=V2_PERIOD):
        c.mark("step[TARGET_VERIFY bs=2]", 51, 60)
        v2_cycle(c)
    return Case(t, V2_PARTS, kinds=("speculation",) * 5, batches=(2,) * 5, evidence="engine")


@case
def sglang_0_5_12_v1_step_mark_around_the_target_only() -> Case:
    """The older worker is still used with topk > 1 or without the overlap scheduler."""
    t = Timeline()
    for c in t.cycles(6, every=V1_PERIOD):
        c.mark("step[TARGET_VERIFY bs=3]", 39, 47)
        v1_cycle(c)
    return Case(t, V1_PARTS, kinds=("speculation",) * 5, batches=(3,) * 5, evidence="engine")


def stage_spans(c: Timeline) -> None:
    """0.5.14 on: spans of draft and draft extend, and the scheduler's own around all."""
    c.mark("scheduler.get_next_batch_to_run", -8, -1)
    c.mark("scheduler.run_batch", 0.5, 159)
    c.mark("draft", 1, 34)
    c.mark("draft_extend", 138, 154)
    c.mark("copy_result_to_cpu", 155, 158.5)
    c.mark("scheduler.process_batch_result", 159, 171)


@case
def sglang_0_5_14_spans_of_draft_and_draft_extend() -> Case:
    t = Timeline()
    for c in t.cycles(6, every=V2_PERIOD, first=10):
        stage_spans(c)
        c.mark("step[TARGET_VERIFY bs=1]", 51, 60)
        v2_cycle(c)
    return Case(t, V2_PARTS, kinds=("speculation",) * 5, batches=(1,) * 5, evidence="engine")


@case
def sglang_0_5_20_verify_by_its_new_name() -> Case:
    """0.5.20 renamed the mark; the sums behind the batch are not the batch."""
    t = Timeline()
    for c in t.cycles(6, every=V2_PERIOD, first=10):
        stage_spans(c)
        c.mark(f"step[VERIFY bs=2 g_sq=8 g_sqsq=32 g_sqsk=4096 g_sk=1024 forward_id={c.i}]", 51, 60)
        v2_cycle(c)
    return Case(t, V2_PARTS, kinds=("speculation",) * 5, batches=(2,) * 5, evidence="engine")


EAGER_PERIOD = 120


def eager_cycle(c: Timeline) -> None:
    """The same worker without CUDA graphs: two draft forwards of one kernel each."""
    c.launch(2, 4, "assign_draft_cache_locs", 6, 8)
    c.launch(10, 12, ATTENTION, 14, 17)
    c.launch(18, 20, ATTENTION, 22, 25)
    c.launch(24, 26, BUILD_TREE, 28, 30)

    c.launch(32, 34, "assign_extend_cache_locs", 36, 37)
    c.launch(38, 40, ATTENTION, 42, 48)
    c.launch(42, 44, ALL_REDUCE, 48, 52)
    c.launch(46, 48, GEMM, 52, 60 + c.i)
    c.launch(50, 52, ATTENTION, 60 + c.i, 66 + c.i)
    c.launch(54, 56, GEMM, 66 + c.i, 74 + c.i)
    c.launch(60, 62, VERIFY_TREE, 74 + c.i, 76 + c.i)
    c.launch(64, 66, "fill_bonus_tokens", 77 + c.i, 78 + c.i)

    c.launch(86, 88, "compute_position_kernel", 90, 91)
    c.launch(92, 94, ATTENTION, 96, 98)
    c.launch(96, 98, GEMM, 100, 103)

    c.copy(104, 106, TO_HOST, 108, 110)


# The cycle runs from 6 to 126.
#
# draft         work 2+3+3+2. [8, 14): host 2, call 2, 2. [17, 22): host 1, call 2, 2.
#               [25, 28): the rest of the call 1, 2. At the end [110, 126): host 12, call 2, 2.
# verify        work 1+6+(8+i)+6+8+2+1, collective 4. [30, 36): host 2, call 2, 2. [37, 42):
#               host 1, call 2, 2. Before fill_bonus_tokens 1, launched long ago.
# draft_extend  work 1+2+3. [78+i, 90): host until 86, call 2, 2. [91, 96): host 1, call 2, 2.
#               [98, 100): the call was over at 98.
# schedule      [103, 108): host 1, call 2, 2.
EAGER_PARTS = """
    draft         compute 10                 | host 15   launch_call 7  queue 8
    verify        compute 32+i  collective 4 | host 3    launch_call 4  queue 5
    draft_extend  compute 6                  | host 9-i  launch_call 4  queue 6
    schedule      copy 2                     | host 1    launch_call 2  queue 2
"""


@case
def sglang_0_5_12_eager() -> Case:
    """Draft forwards are marked DECODE here: they are draft steps, not plain decode steps."""
    t = Timeline()
    for c in t.cycles(6, every=EAGER_PERIOD):
        c.mark("step[DECODE bs=1]", 9, 13)
        c.mark("step[DECODE bs=1]", 17, 21)
        c.mark("step[TARGET_VERIFY bs=1]", 37, 57)
        c.mark("step[DRAFT_EXTEND_V2 bs=1]", 91, 99)
        eager_cycle(c)
    return Case(t, EAGER_PARTS, kinds=("speculation",) * 5, batches=(1,) * 5, evidence="engine")


@case
def sglang_0_5_20_eager_draft_forwards_inside_the_spans() -> Case:
    """`step[DRAFT ...]` marks any forward of a draft runner, also the one of draft extend."""
    t = Timeline()
    for c in t.cycles(6, every=EAGER_PERIOD, first=10):
        c.mark("scheduler.run_batch", 0.5, 107)
        c.mark("draft", 1, 27)
        c.mark(f"step[DRAFT bs=1 g_sq=1 g_sqsq=1 g_sqsk=64 g_sk=64 forward_id={c.i}]", 9, 13)
        c.mark(f"step[DRAFT bs=1 g_sq=1 g_sqsq=1 g_sqsk=65 g_sk=65 forward_id={c.i}]", 17, 21)
        c.mark(f"step[VERIFY bs=1 g_sq=4 g_sqsq=16 g_sqsk=256 g_sk=64 forward_id={c.i}]", 37, 57)
        c.mark("draft_extend", 84, 100)
        c.mark("step[DRAFT bs=1 toks=4]", 91, 99)
        eager_cycle(c)
    return Case(t, EAGER_PARTS, kinds=("speculation",) * 5, batches=(1,) * 5, evidence="engine")


# Speculation of other shapes.


# The cycle runs from 6 to 166.
#
# draft         the tree alone, 3: the tokens were computed by the draft extend before.
#               [134, 166): host until 162, call 2, 2.
# verify        work 2 + (12+10+12+10+i) + 2 + 2. [9, 16): host 3, call 2, 2. [18, 26):
#               host 2, call 4, 2. [70+i, 72+i): 2.
# draft_extend  work 2 + 4 + 2 + 4. [76+i, 96): host until 92, call 2, 2. [98, 106): host 2,
#               call 4, 2. [110, 116): host 2, call 2, 2. [118, 126): host 2, call 4, 2.
# schedule      [130, 132): launched at 126 to 128, then 2. The copy.
MULTI_LAYER_PARTS = """
    draft         compute 3    | host 28    launch_call 2   queue 2
    verify        compute 50+i | host 5     launch_call 6   queue 6
    draft_extend  compute 12   | host 22-i  launch_call 12  queue 8
    schedule      copy 2       | queue 2
"""


@case
def sglang_multi_layer_mtp_drafts_inside_draft_extend() -> Case:
    """One draft-extend graph per MTP layer; the draft stage only arranges what they gave."""
    t = Timeline()
    for c in t.cycles(6, every=160):
        c.launch(2, 4, BUILD_TREE, 6, 9)

        c.launch(12, 14, "assign_extend_cache_locs", 16, 18)
        c.mark("step[TARGET_VERIFY bs=1]", 19, 25)
        c.graph(
            *(20, 24),
            *((ATTENTION, 26, 38), (GEMM, 38, 48), (ATTENTION, 48, 60), (GEMM, 60, 70 + c.i)),
        )
        c.launch(28, 30, VERIFY_TREE, 72 + c.i, 74 + c.i)
        c.launch(32, 34, "fill_bonus_tokens", 74 + c.i, 76 + c.i)

        c.launch(92, 94, "assign_new_state_kernel", 96, 98)
        c.graph(100, 104, (ATTENTION, 106, 110))
        c.launch(112, 114, "rotate_input_ids_kernel", 116, 118)
        c.graph(120, 124, (ATTENTION, 126, 130))

        c.copy(126, 128, TO_HOST, 132, 134)
    return Case(
        t, MULTI_LAYER_PARTS, kinds=("speculation",) * 5, batches=(1,) * 5, evidence="engine"
    )


# The cycle runs from 6 to 106.
#
# draft   the kernel that unpacks the tree of the n-grams, 2; [72+i, 106): the thread waits
#         until 74+i, host until 102, call 2, 2.
# verify  work 1 + (12+10+12+10+i) + 2. [8, 14): host 2, call 2, 2. [15, 24): host 3, call 4,
#         2. [68+i, 70+i): 2.
NGRAM_PARTS = """
    draft   compute 2    | host 28-i  launch_call 2  queue 2  sync 2
    verify  compute 47+i | host 5     launch_call 6  queue 6
"""


@case
def sglang_ngram_has_no_draft_forward() -> Case:
    """The host looks the drafts up: one graph a cycle, no draft extend."""
    t = Timeline()
    for c in t.cycles(6, every=100):
        c.launch(2, 4, "reconstructIndicesFromTreeMask", 6, 8)
        c.launch(10, 12, "assign_req_to_token_pool", 14, 15)
        c.mark("step[TARGET_VERIFY bs=1]", 17, 23)
        c.graph(
            *(18, 22),
            *((ATTENTION, 24, 36), (GEMM, 36, 46), (ATTENTION, 46, 58), (GEMM, 58, 68 + c.i)),
        )
        c.launch(26, 28, VERIFY_TREE, 70 + c.i, 72 + c.i)
        c.sync(30, 74 + c.i)
    return Case(t, NGRAM_PARTS, kinds=("speculation",) * 5, batches=(1,) * 5, evidence="engine")


# The cycle runs from 6 to 126.
#
# draft   work 2 + 6 + 4. [8, 16): host 2, call 4, 2. At the end [90+i, 126): host until 122,
#         call 2, 2.
# verify  work 2 + (12+10+12+10+i) + 2. [26, 34): host 4, call 2, 2. [36, 44): host 2, call 4,
#         2. Before the accept kernel none: it starts as the GEMM ends.
DFLASH_PARTS = """
    draft   compute 12   | host 34-i  launch_call 6  queue 4
    verify  compute 48+i | host 6     launch_call 6  queue 4
"""


@case
def sglang_dflash_drafts_a_block_in_one_forward() -> Case:
    """One draft graph for all tokens; the accept kernel is its own; no draft extend."""
    t = Timeline()
    for c in t.cycles(6, every=120):
        c.launch(2, 4, "_prepare_dflash_draft_block_contig_kernel", 6, 8)
        c.graph(10, 14, (ATTENTION, 16, 22), (GEMM, 22, 26))

        c.launch(30, 32, "assign_extend_cache_locs_uniform", 34, 36)
        c.mark("step[TARGET_VERIFY bs=1]", 37, 43)
        c.graph(
            *(38, 42),
            *((ATTENTION, 44, 56), (GEMM, 56, 66), (ATTENTION, 66, 78), (GEMM, 78, 88 + c.i)),
        )
        c.launch(46, 48, "_dflash_accept_bonus_contig_kernel", 88 + c.i, 90 + c.i)
    return Case(t, DFLASH_PARTS, kinds=("speculation",) * 5, batches=(1,) * 5, evidence="engine")


# Steps without speculation, and both in one trace.

PLAIN_PERIOD = 60


def plain_step(c: Timeline, mark: str) -> None:
    """Staging copy and graph inside the mark, sampling and read-back behind it."""
    c.mark(mark, 4, 14)
    c.copy(5, 6, TO_DEVICE, 8, 9)
    c.graph(8, 12, (ATTENTION, 14, 24), (GEMM, 24, 40 + c.i))
    c.launch(16, 18, ARGMAX, 40 + c.i, 42 + c.i)
    c.copy(20, 22, TO_HOST, 43 + c.i, 44 + c.i)
    c.sync(24, 46 + c.i)


# The step runs from 8, its first op, to 68.
#
# decode    the staging copy 1, the graph 10 + 16+i, and the argmax 2: the mark is around the
#           forward, and sampling belongs to the step. [9, 14): the call until 12, then 2. At
#           the end [44+i, 68): the thread waits until 46+i, host until 65, call 1, 2.
# schedule  the copy 1 that brings the token to the host, and 1 before it.
PLAIN_PARTS = """
    decode    compute 28+i  copy 1 | host 19-i  launch_call 4  queue 4  sync 2
    schedule  copy 1               | queue 1
"""


@case
def sglang_plain_decode() -> Case:
    t = Timeline()
    for c in t.cycles(7, every=PLAIN_PERIOD):
        plain_step(c, "step[DECODE bs=4]")
    return Case(
        t,
        PLAIN_PARTS,
        kinds=("decode",) * 6,
        batches=(4,) * 6,
        evidence="engine",
        refused="no speculation",
    )


@case
def sglang_plain_decode_with_the_mark_of_another_engine() -> Case:
    """A patched build of 2026 has vLLM's mark around its own: one step, not two."""
    t = Timeline()
    for c in t.cycles(7, every=PLAIN_PERIOD):
        c.mark(
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
            *(3, 15),
        )
        plain_step(c, "step[DECODE bs=32]")
    return Case(
        t,
        PLAIN_PARTS,
        kinds=("decode",) * 6,
        batches=(32,) * 6,
        evidence="engine",
        refused="no speculation",
    )


@case
def sglang_prefill_between_decode_steps() -> Case:
    """A prefill step and a mixed one stand apart from the decode steps around them."""
    marks = ["step[DECODE bs=4]"] * 3 + ["step[EXTEND bs=2 toks=512]"]
    marks += ["step[DECODE bs=6]"] * 2 + ["step[MIXED bs=7]"] + ["step[DECODE bs=7]"] * 3
    t = Timeline()
    for c, mark in zip(t.cycles(10, every=PLAIN_PERIOD), marks, strict=True):
        plain_step(c, mark)
    kinds = ("decode",) * 3 + ("prefill",) + ("decode",) * 2 + ("mixed",) + ("decode",) * 2
    # What ends the gap before a step belongs to that step: the end of cycle 2 goes to the
    # prefill, the end of cycle 3 to the decode step that follows it.
    before_prefill = """
        decode    compute 28+i  copy 1 | launch_call 3  queue 2
        prefill   | host 19-i  launch_call 1  queue 2  sync 2
        schedule  copy 1               | queue 1
    """
    prefill = """
        prefill   compute 28+i  copy 1 | launch_call 3  queue 2
        decode    | host 19-i  launch_call 1  queue 2  sync 2
        schedule  copy 1               | queue 1
    """
    not_asked = dict.fromkeys((5, 6), "")
    return Case(
        t,
        PLAIN_PARTS,
        parts_of={2: before_prefill, 3: prefill, **not_asked},
        kinds=kinds,
        batches=(4, 4, 4, 2, 6, 6, 7, 7, 7),
        evidence="engine",
        refused="no speculation",
    )


# As V2_PARTS with i = 3, but the gap after the copy ends at the prefill: [168, 186) sync 2,
# host 12, call 2, queue 2; [226, 228) queue 2; work 40 + 10. Then [238, 256) belongs to the
# next draft: host until 252, call 2, queue 2.
MIXED_PARTS = """
    draft         compute 25                | host 15  launch_call 6  queue 6  graph 1
    verify        compute 64  collective 12 | host 5   launch_call 8  queue 6  graph 1
    draft_extend  compute 12                | host 5   launch_call 6  queue 4
    schedule      copy 2                    | queue 2
    prefill       compute 50                | host 12  launch_call 2  queue 4  sync 2
"""


@case
def sglang_prefill_inside_a_speculation_cycle() -> Case:
    """The new request is prefilled in cycle 3 (kind mixed); from there on the batch is 2."""
    t = Timeline()
    for c in t.cycles(4, every=V2_PERIOD):
        c.mark("step[TARGET_VERIFY bs=1]", 51, 60)
        v2_cycle(c)
    p = t.at(3 * V2_PERIOD)
    p.mark("step[EXTEND bs=1 toks=256]", 180, 190)
    p.launch(182, 184, GEMM, 186, 226)
    p.mark("step[EXTEND bs=1 toks=256]", 192, 200)
    p.launch(194, 196, ATTENTION, 228, 238)
    for c in t.cycles(6, every=V2_PERIOD, first=3 * V2_PERIOD + 250):
        c.mark("step[TARGET_VERIFY bs=2]", 51, 60)
        v2_cycle(c)
    after = {4 + i: _frozen(V2_PARTS, i) for i in range(5)}
    return Case(
        t,
        V2_PARTS,
        parts_of={3: MIXED_PARTS, **after},
        kinds=("speculation",) * 3 + ("mixed",) + ("speculation",) * 5,
        batches=(1, 1, 1, None, 2, 2, 2, 2, 2),
        evidence="engine",
    )


def _frozen(table: str, i: int) -> str:
    """A table with `i` put in, for a drawing that begins to count anew."""
    return re.sub(r"(\d+)([+-])i", lambda m: str(int(m[1]) + (i if m[2] == "+" else -i)), table)


@case
def sglang_warm_up_and_outlier_are_marked() -> Case:
    """A first cycle that waits for another rank, and one that waits for the host."""
    t = Timeline()
    starts = [0, 480, 660, 840, 1020, 1320, 1500, 1680]
    for start in starts:
        c = t.at(start)
        c.mark("step[TARGET_VERIFY bs=1]", 51, 60)
        v2_cycle(c)

    def longer(host: int) -> str:
        return _frozen(V2_PARTS, 0).replace("host 13 ", f"host {13 + host} ")

    return Case(
        t,
        _frozen(V2_PARTS, 0),
        # Cycle 0 lasts 480 and cycle 4 lasts 300; the rest of both is host, before draft.
        parts_of={0: longer(300), 4: longer(120)},
        kinds=("speculation",) * 7,
        batches=(1,) * 7,
        marks=("warmup", "", "", "", "outlier", "", ""),
        evidence="engine",
    )
