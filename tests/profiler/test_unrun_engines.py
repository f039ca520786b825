"""Hooks on toys of lmdeploy and TensorRT-LLM, which no test can run: their ranges in order."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from specscope.profiler.attach import install
from tests.profiler.conftest import Engine, Record

AGENT = "lmdeploy.pytorch.engine.model_agent.agent"
EXECUTOR = "tensorrt_llm._torch.pyexecutor.py_executor"


def test_a_step_of_lmdeploy_verifies_then_drafts_one_range_a_plain_function(
    engine: Engine, record: Record
) -> None:
    install()
    module = engine(AGENT)
    asyncio.run(module.BaseModelAgent()._async_step(module.Inputs()))
    assert record.stages == ["verify", "verify", "accept", *["draft"] * 4]
    assert record.of("verify") == {"cycle": 0, "batch": 2, "k": 2}
    assert {fields["cycle"] for _, fields in record.opened} == {0}
    assert record.depth == 0


@pytest.mark.parametrize(
    ("speculates", "inputs", "expected"),
    [
        (False, {}, ["decode", "decode"]),
        (False, {"is_decoding": False}, ["prefill", "prefill"]),
        (True, {"is_decoding": False}, ["prefill"] * 7),
        (True, {"is_dummy": True}, []),
    ],
)
def test_steps_of_lmdeploy_that_verify_nothing(
    engine: Engine, record: Record, speculates: bool, inputs: dict[str, Any], expected: list[str]
) -> None:
    install()
    module = engine(AGENT)
    agent = module.BaseModelAgent(speculates)
    asyncio.run(agent._async_step(module.Inputs(**inputs)))
    assert record.stages == expected


def test_the_warm_up_of_lmdeploy_is_quiet(engine: Engine, record: Record) -> None:
    install()
    engine(AGENT).BaseModelAgent().warmup()
    assert record.stages == []


def test_accept_lengths_of_lmdeploy_are_those_of_sequences_that_run(
    engine: Engine, record: Record
) -> None:
    """Rejected places hold -1; a sequence that had stopped before is not counted."""
    install()
    loop = engine("lmdeploy.pytorch.engine.engine_loop").EngineLoop()
    tokens = np.array([[5, 6, -1], [7, -1, -1], [8, 9, 10]])
    output = SimpleNamespace(next_token_ids=tokens)
    states = ("RUNNING", "STOPPED", "RUNNING")
    running = [SimpleNamespace(status=SimpleNamespace(name=state)) for state in states]
    loop._make_infer_outputs(output, running=running, model_inputs=None, delta=None)
    assert record.accepted == [(None, [2, 3])]
    loop._make_infer_outputs(output, running=[], model_inputs=object(), delta=None)
    assert len(record.accepted) == 1


def test_two_models_of_tensorrt_llm_draft_for_the_forward_that_follows(
    engine: Engine, record: Record
) -> None:
    """The forward opens the cycle: the draft before it still belongs to the cycle before."""
    install()
    drafter = engine("tensorrt_llm._torch.speculative.model_drafter").ModelDrafter()
    module = engine(EXECUTOR)
    executor = module.PyExecutor(drafter)
    for _ in range(2):
        executor.loop_once(module.Requests())
    # Before the first forward there is no cycle that a draft could belong to.
    assert [(stage, fields["cycle"]) for stage, fields in record.opened] == [
        ("verify", 0),
        ("accept", 0),
        ("draft", 0),
        ("verify", 1),
        ("accept", 1),
    ]
    assert record.of("verify") == {"cycle": 0, "batch": 2, "k": 3}


def test_drafting_under_the_overlap_scheduler_is_draft(engine: Engine, record: Record) -> None:
    install()
    drafter = engine("tensorrt_llm._torch.speculative.model_drafter").ModelDrafter()
    module = engine(EXECUTOR)
    module.PyExecutor(drafter)._forward_step(module.Requests())
    drafter.generate_draft_tokens_with_overlap(None, None)
    assert record.stages == ["verify", "draft"]


def test_one_model_of_tensorrt_llm_is_a_cycle_without_named_stages(
    engine: Engine, record: Record
) -> None:
    """Target, acceptance and draft are one forward there; to call it verify would be wrong."""
    install()
    module = engine(EXECUTOR)
    module.PyExecutor(spec_config=object())._forward_step(module.Requests())
    assert record.stages == ["cycle"]


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ({"contexts": 1}, ["prefill", "prefill"]),
        ({"generations": 0}, []),
        ({}, ["decode", "accept"]),
    ],
)
def test_steps_of_tensorrt_llm_without_speculation(
    engine: Engine, record: Record, requests: dict[str, int], expected: list[str]
) -> None:
    install()
    module = engine(EXECUTOR)
    module.PyExecutor().loop_once(module.Requests(**requests))
    assert record.stages == expected


def test_the_warm_up_of_tensorrt_llm_is_no_step(engine: Engine, record: Record) -> None:
    install()
    module = engine(EXECUTOR)
    executor = module.PyExecutor()
    executor.is_warmup = True
    executor.loop_once(module.Requests())
    assert record.stages == []
