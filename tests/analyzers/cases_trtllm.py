"""TensorRT-LLM's PyTorch backend with a draft model of its own: the ranges of its executor.

The drafts are made at the end of an iteration, for the next one (overlap scheduler). The
target's and the draft model's forward are of one class and leave the same `_forward_step`
inside their own range, which must not be taken for the target's.
"""

from __future__ import annotations

from tests.analyzers.case import Case, case
from tests.build import ARGMAX, ATTENTION, GEMM, Timeline


def iteration(c: Timeline, mark: str) -> None:
    """Target forward, sampling, then the draft model twice."""
    c.mark(mark, 2, 30)
    c.mark("_forward_step", 4, 28)
    c.graph(10, 15, (ATTENTION, 17, 37), (GEMM, 37, 57 + c.i))

    c.mark("_sample_async", 32, 40)
    c.launch(34, 36, ARGMAX, 57 + c.i, 60 + c.i)

    c.mark("generate_draft_tokens_with_overlap", 42, 90)
    for at, start in ((44, 60 + c.i), (60, 74 + c.i)):
        c.mark("forward_draft_model", at, at + 12)
        c.mark("_forward_step", at + 1, at + 11)
        c.graph(at + 2, at + 5, (ATTENTION, start, start + 6), (GEMM, start + 6, start + 12))


# The cycle runs from 17, the first op of the forward, to 137.
#
# verify  20 + (20 + i). [86+i, 137) before the next forward: host until 130, call 5, 2.
# draft   12 + 12; [72+i, 74+i), launched long ago: 2.
PARTS = """
    verify    compute 40+i  | host 44-i  launch_call 5  queue 2
    accept    compute 3
    draft     compute 24    | queue 2
"""


def executor(mark: str) -> Case:
    t = Timeline()
    for c in t.cycles(6, every=120):
        iteration(c, mark)
    return Case(
        t,
        PARTS,
        kinds=("speculation",) * 5,
        batches=(8,) * 5,
        evidence="engine",
        accept_apart=True,
    )


@case
def trtllm_with_a_draft_model_and_iteration_numbers() -> Case:
    return executor("[Executor] _forward_step 417: 0 ctx reqs, 8 gen reqs")


@case
def trtllm_with_a_draft_model_and_context_tokens() -> Case:
    return executor("[Executor] _forward_step 417: 0 ctx reqs, 0 ctx tokens, 8 gen reqs")
