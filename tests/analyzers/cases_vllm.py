"""vLLM (V1), one drawing per generation of the marks it leaves by itself.

A vLLM cycle opens with the step that holds the target's forward, which verifies the drafts of
the step before; drafting comes last and lies outside the step's mark. Two drafts a request
here, so 4 requests are 12 tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.analyzers.case import Case, case
from tests.build import ALL_REDUCE, ARGMAX, ATTENTION, GEMM, TO_DEVICE, TO_HOST, Timeline

PERIOD = 160
SPECULATION = ("speculation",) * 5


class Scopes(NamedTuple):
    """The names of the phases."""

    preprocess: str = "gpu_model_runner: preprocess"
    forward: str = "gpu_model_runner: forward"
    postprocess: str = "gpu_model_runner: postprocess"
    sample: str = "gpu_model_runner: sample"
    draft: str = "gpu_model_runner: draft"
    bookkeep: str = "gpu_model_runner: bookkeep"
    eplb: str = "gpu_model_runner: eplb"
    output: str = "gpu_model_runner: ModelRunnerOutput"


CAPITALISED = Scopes(
    "Preprocess", "Forward", "Postprocess", "Sample", "Draft", "Bookkeep", "EPLB", ""
)


def full_graph(c: Timeline) -> None:
    """The target's forward as one graph."""
    c.graph(
        *(22, 27),
        *((ATTENTION, 29, 41), (ALL_REDUCE, 41, 47), (GEMM, 48, 60)),
        *((ATTENTION, 60, 72), (GEMM, 72, 84 + c.i)),
    )


def piecewise_graphs(c: Timeline) -> None:
    """The forward of 2 layers as 3 graphs, attention eager between them."""
    c.graph(22, 25, (GEMM, 27, 31))
    c.launch(27, 28, ATTENTION, 32, 38)
    c.graph(30, 33, (ALL_REDUCE, 38, 42), (GEMM, 42, 48))
    c.launch(35, 36, ATTENTION, 48, 54)
    c.graph(38, 41, (ALL_REDUCE, 54, 58), (GEMM, 58, 84 + c.i))


def step(
    c: Timeline,
    mark: str,
    scopes: Scopes | None,
    forward: Callable[[Timeline], None] = full_graph,
) -> None:
    """One engine step: prepare, target forward, logits; then sample, draft, read back."""
    if mark:
        c.mark(mark, 2, 58)
    if scopes:
        c.mark(scopes.preprocess, 3, 18)
        c.mark(scopes.forward, 20, 46)
        c.mark(scopes.postprocess, 48, 56)
        c.mark(scopes.sample, 60, 70)
        c.mark(scopes.draft, 72, 92)
        c.mark(scopes.bookkeep, 94, 140)
        c.mark(scopes.eplb, 141, 142)
        if scopes.output:
            c.mark(scopes.output, 143, 144)

    c.copy(5, 7, TO_DEVICE, 9, 11)
    c.launch(10, 12, "_compute_slot_mappings_kernel", 14, 16)
    forward(c)
    c.launch(50, 52, GEMM, 84 + c.i, 88 + c.i)

    c.launch(61, 63, ARGMAX, 90 + c.i, 92 + c.i)
    c.launch(65, 67, "rejection_greedy_sample_kernel", 92 + c.i, 94 + c.i)

    c.launch(73, 75, "eagle_prepare_inputs_padded_kernel", 96 + c.i, 98 + c.i)
    c.graph(77, 80, (ATTENTION, 100 + c.i, 104 + c.i), (GEMM, 104 + c.i, 108 + c.i))
    c.launch(82, 84, "eagle_step_slot_mapping_metadata_kernel", 108 + c.i, 109 + c.i)
    c.graph(86, 89, (ATTENTION, 111 + c.i, 114 + c.i), (GEMM, 114 + c.i, 118 + c.i))

    c.copy(96, 98, TO_HOST, 120 + c.i, 121 + c.i)
    c.sync(100, 124 + c.i, api="cudaEventSynchronize")


# The cycle runs from 9, the first op of the step, to 169.
#
# schedule  preprocess: the copy 2 and the slot mapping 2; [11, 14): the rest of the call 1,
#           2. bookkeep: the copy 1 and 2 before it. At the end [121+i, 169), before the next
#           preprocess: the thread waits until 124+i, host until 165, call 2, 2.
# verify    forward 12+12+12+(12+i), collective 6; logits 4. [16, 29): host until 22, call 5,
#           2. [47, 48) inside the graph.
# accept    2 + 2, and 2 before the argmax, launched long ago.
# draft     2 + (4+4) + 1 + (3+4); [94+i, 96+i), [98+i, 100+i), [109+i, 111+i): 2 each.
PARTS = """
    schedule  compute 2  copy 3          | host 41-i  launch_call 3  queue 6  sync 3
    verify    compute 52+i  collective 6 | host 6     launch_call 5  queue 2  graph 1
    accept    compute 4                  | queue 2
    draft     compute 18                 | queue 6
"""

# The forward in pieces: 4+6+6+6+(26+i), collectives 4+4, logits 4. [16, 27): host 6, call 3,
# 2; [31, 32) before the eager attention 1.
PIECEWISE_PARTS = """
    schedule  compute 2  copy 3          | host 41-i  launch_call 3  queue 6  sync 3
    verify    compute 52+i  collective 8 | host 6     launch_call 3  queue 3
    accept    compute 4                  | queue 2
    draft     compute 18                 | queue 6
"""


@case
def vllm_0_10_2_capitalised_scopes_without_an_iteration_mark() -> Case:
    """No mark names the batch; the step opens with Preprocess."""
    t = Timeline()
    for c in t.cycles(6, every=PERIOD):
        step(c, "", CAPITALISED)
    return Case(t, PARTS, kinds=SPECULATION, evidence="engine", accept_apart=True)


@case
def vllm_0_11_2_counts_of_new_and_cached_requests() -> Case:
    t = Timeline()
    for c in t.cycles(6, every=PERIOD):
        step(c, "execute_new_0_cached_4", Scopes())
    return Case(t, PARTS, kinds=SPECULATION, batches=(4,) * 5, evidence="engine", accept_apart=True)


def modern(mark: str, forward: Callable[[Timeline], None], parts: str) -> Case:
    """0.16 on: the mark holds requests and tokens, so k is known: 12 / 4 - 1."""
    t = Timeline()
    for c in t.cycles(6, every=PERIOD):
        step(c, mark, Scopes(), forward)
    return Case(
        t,
        parts,
        kinds=SPECULATION,
        batches=(4,) * 5,
        tokens=(12,) * 5,
        k=2,
        evidence="engine",
        accept_apart=True,
    )


@case
def vllm_0_16_full_graph() -> Case:
    return modern("execute_context_0(0)_generation_4(12)", full_graph, PARTS)


@case
def vllm_0_16_piecewise_graphs() -> Case:
    """Layers + 1 graph launches a forward are one verify, not as many cycles."""
    return modern("execute_context_0(0)_generation_4(12)", piecewise_graphs, PIECEWISE_PARTS)


@case
def vllm_0_26_detailed_mark() -> Case:
    mark = "execute_12_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq12sk4000sqsq36sqsk12000)"
    return modern(mark, full_graph, PARTS)


@case
def vllm_mark_with_the_sum_of_squares() -> Case:
    """Seen in a trace, in no release: tokens and the sum of their squares."""
    return modern("execute_context_0(0_0)_generation_4(12_36)", full_graph, PARTS)


# What is sure without scopes is the draft: it opens with its own kernel and ends with its
# last graph; as in PARTS.
DRAFT_PARTS = """
    draft  compute 18 | queue 6
"""


@case
def vllm_0_10_0_without_any_mark() -> Case:
    """Scopes are off unless asked for, and before 0.11 nothing else names a step."""
    t = Timeline()
    for c in t.cycles(6, every=PERIOD):
        step(c, "", None)
    return Case(t, DRAFT_PARTS, kinds=SPECULATION, evidence="structure", asked=frozenset({"draft"}))


@case
def vllm_0_19_with_its_scopes_off() -> Case:
    """The default of a server: the iteration mark alone, the V1 runner's kernels."""
    t = Timeline()
    for c in t.cycles(6, every=PERIOD):
        step(c, "execute_context_0(0)_generation_4(12)", None, piecewise_graphs)
    return Case(
        t,
        DRAFT_PARTS,
        kinds=SPECULATION,
        batches=(4,) * 5,
        tokens=(12,) * 5,
        evidence="engine",
        asked=frozenset({"draft"}),
    )


@case
def vllm_with_frames_only() -> Case:
    """Methods of runner and proposer; the proposer's own frame lies inside the runner's."""
    runner, proposers = "vllm/v1/worker/gpu_model_runner.py", "vllm/v1/spec_decode"
    t = Timeline()
    for c in t.cycles(6, every=PERIOD):
        c.frame(f"{runner}(2907): execute_model", 2, 58)
        c.frame(f"{runner}(2400): _model_forward", 20, 46)
        c.frame(f"{runner}(3100): sample_tokens", 59, 140)
        c.frame(f"{runner}(2500): _sample", 60, 70)
        c.frame("vllm/v1/sample/rejection_sampler.py(60): forward", 64, 69)
        c.frame(f"{runner}(3300): propose_draft_token_ids", 72, 92)
        c.frame(f"{proposers}/eagle.py(200): propose", 72.5, 91)
        step(c, "", None)
    return Case(
        t,
        PARTS,
        kinds=SPECULATION,
        evidence="frames",
        accept_apart=True,
        asked=frozenset({"accept", "draft"}),
    )


@case
def vllm_runner_v2_leaves_the_iteration_mark_only() -> Case:
    """Model Runner V2 has no scopes: accept and draft are told by their own kernels.

    What prepares the forward, what samples and what reads back cannot be told from verify
    and schedule with the same certainty, so their parts are not asked.
    """
    t = Timeline()
    for c in t.cycles(6, every=PERIOD):
        c.mark("execute_context_0(0)_generation_4(12)", 2, 58)
        c.copy(5, 7, TO_DEVICE, 9, 11)
        c.launch(10, 12, "_compute_slot_mappings_kernel", 14, 16)
        full_graph(c)
        c.launch(61, 63, GEMM, 84 + c.i, 88 + c.i)
        c.launch(65, 67, "_rejection_kernel", 90 + c.i, 94 + c.i)

        c.launch(73, 75, "_prepare_prefill_inputs_kernel", 96 + c.i, 98 + c.i)
        c.graph(77, 80, (ATTENTION, 100 + c.i, 104 + c.i), (GEMM, 104 + c.i, 108 + c.i))
        c.launch(82, 84, "_update_draft_inputs_kernel", 108 + c.i, 109 + c.i)
        c.graph(86, 89, (ATTENTION, 111 + c.i, 114 + c.i), (GEMM, 114 + c.i, 118 + c.i))

        c.copy(96, 98, TO_HOST, 120 + c.i, 121 + c.i)
        c.sync(100, 124 + c.i, api="cudaEventSynchronize")
    return Case(
        t,
        DRAFT_PARTS,
        kinds=SPECULATION,
        batches=(4,) * 5,
        tokens=(12,) * 5,
        evidence="engine",
        asked=frozenset({"draft"}),
    )


@case
def vllm_prefill_and_mixed_steps_between_cycles() -> Case:
    """Requests are prefilled alone, then joined by one more in a mixed step.

    The empty step at the end has no op, so it opens nothing and the cycle before it stays
    open.
    """
    steps = ["execute_context_3(48)_generation_0(0)"]
    steps += ["execute_context_0(0)_generation_3(9)"] * 2
    steps += ["execute_context_1(16)_generation_3(9)"]
    steps += ["execute_context_0(0)_generation_4(12)"] * 5
    t = Timeline()
    for c, mark in zip(t.cycles(9, every=PERIOD), steps, strict=True):
        step(c, mark, Scopes())
    t.at(9 * PERIOD).mark("execute_context_0(0)_generation_0(0)", 2, 6)
    not_asked = dict.fromkeys((0, 3), "")
    return Case(
        t,
        PARTS,
        parts_of=not_asked,
        kinds=("prefill",) + ("speculation",) * 2 + ("mixed",) + ("speculation",) * 4,
        batches=(None, 3, 3, None, 4, 4, 4, 4),
        evidence="engine",
        accept_apart=True,
    )


# As verify and accept of PARTS, but the forward follows the copy here: [11, 29) is host 11,
# call 5, 2. The argmax takes 2. What prepares and reads back is not asked.
PLAIN_PARTS = """
    decode  compute 54+i  collective 6 | host 11  launch_call 5  queue 4  graph 1
"""


@case
def vllm_plain_decode() -> Case:
    """As many tokens as requests and no draft scope: steps of one token each."""
    t = Timeline()
    for c in t.cycles(6, every=PERIOD):
        names = Scopes()
        c.mark("execute_context_0(0)_generation_8(8)", 2, 58)
        c.mark(names.preprocess, 3, 18)
        c.mark(names.forward, 20, 46)
        c.mark(names.postprocess, 48, 56)
        c.mark(names.sample, 60, 70)
        c.mark(names.bookkeep, 94, 140)
        c.copy(5, 7, TO_DEVICE, 9, 11)
        full_graph(c)
        c.launch(50, 52, GEMM, 84 + c.i, 88 + c.i)
        c.launch(61, 63, ARGMAX, 90 + c.i, 92 + c.i)
        c.copy(96, 98, TO_HOST, 120, 121)
        c.sync(100, 124, api="cudaEventSynchronize")
    return Case(
        t,
        PLAIN_PARTS,
        kinds=("decode",) * 5,
        batches=(8,) * 5,
        evidence="engine",
        asked=frozenset({"decode"}),
        refused="no speculation",
    )


# On the host of the main thread, from the step's mark at 2 to the next at 152.
#
# schedule  [2, 4) and [58, 62) under no stage, preprocess 8, and all from 120+i to 152:
#           bookkeep and what surrounds it.
# verify    forward 38, of it collectives 6 + 4, and postprocess 8 (with no gap between).
# accept    8.
# draft     50+i, of it collective 5.
CPU_PARTS = """
    schedule  host 46-i                |
    verify    host 36     collective 10 |
    accept    host 8                   |
    draft     host 45+i   collective 5 |
"""


@case
def vllm_on_cpu_is_partitioned_on_host_ranges() -> Case:
    """Neither launch calls nor ops: the main thread's ranges are the run.

    The gloo range lies on a thread of its own and counts for nothing. The empty last step
    closes the cycle before it.
    """
    t = Timeline()
    for c in t.cycles(5, every=150):
        names = Scopes()
        c.mark("execute_context_0(0)_generation_4(12)", 2, 60)
        c.mark(names.preprocess, 4, 12)
        c.mark(names.forward, 12, 50)
        c.operator("_C::onednn_mm", 14, 19)
        c.operator("_C::shm_allreduce", 20, 26)
        c.operator("_C::shm_allreduce", 40, 44)
        c.mark(names.postprocess, 50, 58)
        c.mark(names.sample, 62, 70)
        c.mark(names.draft, 70, 120 + c.i)
        c.operator("_C::shm_allreduce", 80, 85)
        c.mark(names.bookkeep, 122 + c.i, 130)
        c.on(4002).mark("gloo:all_reduce", 20, 90)
    t.at(5 * 150).mark("execute_context_0(0)_generation_0(0)", 2, 6)
    return Case(
        t,
        CPU_PARTS,
        kinds=SPECULATION,
        batches=(4,) * 5,
        tokens=(12,) * 5,
        k=2,
        evidence="engine",
        accept_apart=True,
    )
