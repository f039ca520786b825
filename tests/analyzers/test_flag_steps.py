"""Flags held against the run's own settings, of both engines, and against own recordings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specscope.analyzers import flag_steps, mends
from specscope.analyzers.causes import Causes, judge, with_mends
from specscope.dashboards.cause_sections import flag_line
from specscope.traces.context import read_context
from tests.shared import shared_path

SGLANG, VLLM = ("sglang", "0.5.12.post1"), ("vllm", "0.32.0")
LAUNCH = ["python3", "-m", "sglang.launch_server", "--tp-size", "2"]


def steps_of(folder: Path) -> dict[str, dict[str, tuple[str, str]]]:
    """By mend and flag: what to do, and its text."""
    context, notes = read_context(folder)
    assert notes == []
    told = flag_steps.told(context)
    engine, version = context["engine"], context["engine_version"]
    return {
        key: {
            one.flag.name: (one.do, one.text)
            for one in flag_steps.steps(mend.of(engine, version), version, told)
        }
        for key, mend in mends.mends().items()
    }


def run_json(folder: Path, engine: tuple[str, str], **known: Any) -> Path:
    content = {"engine": engine[0], "engine_version": engine[1], **known}
    (folder / "run.json").write_text(json.dumps(content))
    return folder


OFF_CUSTOM = "leave out --disable-custom-all-reduce (set in this run)"
NO_P2P = "NCCL_P2P_DISABLE=1 is set in this run: take it out"
LEGACY = "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2=0 is set in this run: take it out"
V1 = "SGLANG_ENABLE_SPEC_V2=0 is set in this run: take it out"


@pytest.mark.parametrize(
    ("recording", "mend", "first", "flag", "do"),
    [
        ("tp2-70b-eagle3-k3-shm-bs8", "all_reduce", OFF_CUSTOM, "NCCL_P2P_DISABLE", "leave_out"),
        ("tp4-70b-eagle3-k3-shm-bs1", "all_reduce", OFF_CUSTOM, "NCCL_P2P_DISABLE", "leave_out"),
        ("tp2-8b-eagle3-k3-nvlink-bs1", "all_reduce", None, "NCCL_P2P_DISABLE", "already"),
        (
            "tp2-8b-eagle3-k3-legacycar-bs1-hooked",
            "all_reduce",
            LEGACY,
            "--disable-custom-all-reduce",
            "already",
        ),
        ("tp2-8b-eagle3-k3-nvlink-bs1", "overlap", None, "SGLANG_ENABLE_SPEC_V2", "already"),
        (
            "tp2-8b-eagle3-k3-nvlink-mixed-prefill",
            "overlap",
            None,
            "SGLANG_ENABLE_SPEC_V2",
            "already",
        ),
        ("tp2-8b-eagle3-k3-nvlink-bs1-v1", "overlap", V1, "--disable-overlap-schedule", "already"),
        (
            "tp2-8b-eagle3-k3-eager-bs1-hooked",
            "verify_graph",
            "leave out --disable-cuda-graph (set in this run)",
            "--cuda-graph-bs",
            "choose",
        ),
        ("tp2-8b-eagle3-k3-nvlink-bs1", "verify_graph", None, "--disable-cuda-graph", "already"),
        (
            "tp2-8b-eagle3-k3-nvlink-bs1",
            "verify_width",
            None,
            "--speculative-eagle-topk",
            "already",
        ),
        ("tp2-8b-eagle3-k3-nvlink-bs1", "sampling", None, "--sampling-backend", "set"),
    ],
)
def test_an_own_recording_is_told_what_it_has_set(
    recording: str, mend: str, first: str | None, flag: str, do: str
) -> None:
    found = steps_of(shared_path("traces", "own", recording))[mend]
    assert found[flag][0] == do
    out = [text for kind, text in found.values() if kind == "leave_out"]
    assert out[:1] == ([] if first is None else [first])
    assert list(found.values())[: len(out)] == [("leave_out", text) for text in out]


def test_nothing_to_do_reads_already_so() -> None:
    folder = shared_path("traces", "own", "tp2-8b-eagle3-k3-nvlink-bs1")
    context, _ = read_context(folder)
    found = mended({"between.host.share": 0.2, "cycle.ms": 10.0}, SGLANG, context)["C13"]
    assert flag_line(found) == (
        "already so in this run: --disable-overlap-schedule is not set; "
        "SGLANG_ENABLE_SPEC_V2 is so by default from 0.5.11 on"
    )


def mended(figures: dict[str, float], engine: tuple[str, str], context: dict[str, Any]) -> Causes:
    return with_mends(judge(figures), *engine, flag_steps.told(context))


@pytest.mark.parametrize(
    ("engine", "args", "env", "mend", "flag", "do", "text"),
    [
        # A switch to leave out: a mapping, a command line, turned off, absent, not on record.
        (SGLANG, {"disable_overlap_schedule": True}, {}, "overlap", "--disable-overlap-schedule",
         "leave_out", "leave out --disable-overlap-schedule (set in this run)"),
        (SGLANG, {"disable_overlap_schedule": False}, {}, "overlap", "--disable-overlap-schedule",
         "already", "--disable-overlap-schedule is not set"),
        (SGLANG, [*LAUNCH, "--disable-overlap-schedule"], {}, "overlap",
         "--disable-overlap-schedule", "leave_out", "leave out --disable-overlap-schedule"),
        (SGLANG, None, {}, "overlap", "--disable-overlap-schedule", "unknown",
         "--disable-overlap-schedule (leave it out)"),
        (SGLANG, [*LAUNCH, "--config", "a.yaml"], {}, "overlap", "--disable-overlap-schedule",
         "unknown", "--disable-overlap-schedule (leave it out)"),
        (VLLM, {"enforce_eager": True}, {}, "verify_graph", "--enforce-eager", "leave_out",
         "leave out --enforce-eager (set in this run)"),
        (VLLM, ["vllm", "serve", "m", "--enforce-eager", "-tp", "2"], {}, "verify_graph",
         "--enforce-eager", "leave_out", "leave out --enforce-eager (set in this run)"),
        (VLLM, ["vllm", "serve", "m", "-tp", "2"], {}, "verify_graph", "--enforce-eager",
         "already", "--enforce-eager is not set"),
        (VLLM, {"disable_custom_all_reduce": True}, {}, "all_reduce",
         "--disable-custom-all-reduce", "leave_out", OFF_CUSTOM),
        # A variable: set, said to be off, absent, environment not on record.
        (VLLM, {}, {"NCCL_P2P_DISABLE": "1"}, "all_reduce", "NCCL_P2P_DISABLE", "leave_out",
         NO_P2P),
        (VLLM, {}, {"NCCL_P2P_DISABLE": "0"}, "all_reduce", "NCCL_P2P_DISABLE", "already", ""),
        (SGLANG, {}, {}, "all_reduce", "NCCL_P2P_DISABLE", "already", ""),
        (SGLANG, {}, None, "all_reduce", "NCCL_P2P_DISABLE", "unknown", "NCCL_P2P_DISABLE (leave"),
        # To be set: as meant, otherwise, by default in this version, not yet in an older one.
        (("sglang", "0.5.10"), {}, {}, "overlap", "SGLANG_ENABLE_SPEC_V2", "set",
         "SGLANG_ENABLE_SPEC_V2 (1: "),
        (("sglang", "0.5.10"), {}, {"SGLANG_ENABLE_SPEC_V2": "true"}, "overlap",
         "SGLANG_ENABLE_SPEC_V2", "already", "SGLANG_ENABLE_SPEC_V2=true is set"),
        (SGLANG, {}, {"SGLANG_ENABLE_SPEC_V2": "0"}, "overlap", "SGLANG_ENABLE_SPEC_V2",
         "leave_out", V1),
        (SGLANG, {"sampling_backend": "flashinfer"}, {}, "sampling", "--sampling-backend",
         "already", "--sampling-backend flashinfer is set"),
        (SGLANG, {"sampling_backend": "pytorch"}, {}, "sampling", "--sampling-backend", "set",
         "--sampling-backend (flashinfer: fused kernels; now pytorch)"),
        (SGLANG, {"speculative_eagle_topk": 4}, {}, "verify_width", "--speculative-eagle-topk",
         "set", "--speculative-eagle-topk (1: a chain, no tree; now 4)"),
        (VLLM, {"tensor_parallel_size": 2}, {}, "overlap", "--async-scheduling", "already",
         "--async-scheduling is so by default from 0.16.0 on"),
        (VLLM, {"async_scheduling": False}, {}, "overlap", "--async-scheduling", "set",
         "--async-scheduling is off in this run: turn it on"),
        (VLLM, ["vllm", "serve", "m", "--no-async-scheduling"], {}, "overlap",
         "--async-scheduling", "set", "--async-scheduling is off in this run: turn it on"),
        (("vllm", "0.13.0"), {"tensor_parallel_size": 2}, {}, "overlap", "--async-scheduling",
         "set", "--async-scheduling (with EAGLE and MTP drafts)"),
        (VLLM, {}, {}, "sampling", "VLLM_USE_FLASHINFER_SAMPLER", "already", ""),
        (("vllm", "0.19.1"), {}, {}, "sampling", "VLLM_USE_FLASHINFER_SAMPLER", "set", ""),
        (VLLM, {"compilation_config": {"pass_config": {"fuse_allreduce_rms": True}}}, {},
         "all_reduce", "fuse_allreduce_rms", "already", "fuse_allreduce_rms=True is set"),
        (VLLM, ["vllm", "serve", "-cc", '{"pass_config": {"fuse_allreduce_rms": true}}'], {},
         "all_reduce", "fuse_allreduce_rms", "already", "fuse_allreduce_rms=True is set"),
        (VLLM, {"speculative_config": {"draft_tensor_parallel_size": 1}}, {}, "draft_tp",
         "draft_tensor_parallel_size", "already", "draft_tensor_parallel_size=1 is set"),
        # To be chosen: the run's own value stands beside where it is plain.
        (SGLANG, [*LAUNCH, "--cuda-graph-bs", "1", "2", "4", "8", "16"], {}, "verify_graph",
         "--cuda-graph-bs", "choose", "--cuda-graph-bs (batches that get a graph; now 1 to 16)"),
        (SGLANG, [*LAUNCH, "--chat-template", "/home/ada/t.jinja"], {}, "accept_length",
         "--chat-template", "choose", "; now another value)"),
    ],
)  # fmt: skip
def test_a_run_json_is_held_against_the_flags(
    tmp_path: Path,
    engine: tuple[str, str],
    args: Any,
    env: dict[str, str] | None,
    mend: str,
    flag: str,
    do: str,
    text: str,
) -> None:
    arguments = {"model_path": "m"} if args == {} else args
    known = {"server_environment": env} | ({} if args is None else {"server_args": arguments})
    found = steps_of(run_json(tmp_path, engine, **known))[mend][flag]
    assert found[0] == do
    assert text in found[1]


def test_settings_not_on_record_are_said_to_be_unknown() -> None:
    figures = {"verify.graph_launches": 0.0, "verify.launches": 400.0}
    line = flag_line(mended(figures, VLLM, {})["C10"])
    assert line.startswith("flag, not known whether set: --enforce-eager (leave it out); ")
    half = flag_line(mended(figures, VLLM, {"server_args": {"enforce_eager": True}})["C10"])
    assert half.startswith("flag: leave out --enforce-eager (set in this run); ")
    assert "not known" not in half


def test_of_an_environment_only_settings_are_kept(tmp_path: Path) -> None:
    env = {"HOME": "/home/ada", "HF_TOKEN": "hf_abcdefgh12345678", "NCCL_P2P_DISABLE": "1"}
    context, _ = read_context(run_json(tmp_path, SGLANG, server_environment=env))
    assert context["env"] == {"NCCL_P2P_DISABLE": "1"}
    secret = {"SGLANG_API_KEY": "abcdefgh12345678", "VLLM_ALLREDUCE_USE_SYMM_MEM": "/home/ada"}
    context, _ = read_context(run_json(tmp_path, VLLM, server_environment=secret))
    assert "abcdefgh" not in str(context["env"])
    told = flag_steps.told(context)
    texts = [
        step.text
        for mend in mends.mends().values()
        for step in flag_steps.steps(mend.of(*VLLM), VLLM[1], told)
    ]
    assert "VLLM_ALLREDUCE_USE_SYMM_MEM is set in this run: take it out" in texts
    assert not any("ada" in text for text in texts)


@pytest.mark.parametrize("env", [["NCCL_P2P_DISABLE"], "NCCL_P2P_DISABLE=1", 1])
def test_an_environment_that_is_no_mapping_is_not_known(tmp_path: Path, env: Any) -> None:
    context, notes = read_context(run_json(tmp_path, SGLANG, server_environment=env))
    assert "env" not in context
    assert [note.code for note in notes] == ["context_value"]


def test_every_flag_says_how_it_acts() -> None:
    flags = [flag for mend in mends.mends().values() for flag in mend.flags]
    for flag in flags:
        assert flag.act in mends.ACTS
        assert flag.act == "set" or not (flag.to or flag.default), flag.name
        assert not flag.default or flag.is_default(flag.default)
        assert not replace(flag, default="").is_default(flag.first)
