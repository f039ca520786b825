"""Hooks on toy engines: which ranges they open, and that they never get in the way."""

from __future__ import annotations

import json
import logging
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import specscope
from specscope.profiler import attach, emit_torch, hooks, patching, ranges, roles
from specscope.profiler.attach import Attachment, install
from tests.profiler.conftest import Engine, Record


def row(attachment: Attachment, target: str) -> dict[str, Any]:
    return next(hook for hook in attachment.report()["hooks"] if hook["target"].endswith(target))


# ---------------------------------------------------------------- what is opened


def test_a_cycle_holds_its_stages_with_number_batch_and_k(engine: Engine, record: Record) -> None:
    install()
    worker = engine.eagle.EAGLEWorkerV2()
    for _ in range(2):
        worker.forward_batch_generation(engine.eagle.Batch(size=2))
    one = ["cycle", "draft", "verify", "accept", "draft_extend"]
    assert record.stages == one * 2
    for index, (_, fields) in enumerate(record.opened):
        assert (fields["cycle"], fields["batch"], fields["k"]) == (index // len(one), 2, 3)
    assert record.depth == 0


def test_hooks_on_modules_that_are_imported_already_work_as_well(
    engine: Engine, record: Record
) -> None:
    module = engine.eagle
    install()
    module.EAGLEWorkerV2().forward_batch_generation(module.Batch())
    assert record.stages == ["cycle", "draft", "verify", "accept", "draft_extend"]


def test_a_prefill_batch_is_one_prefill_range_and_an_idle_one_nothing(
    engine: Engine, record: Record
) -> None:
    install()
    worker = engine.eagle.EAGLEWorkerV2()
    worker.forward_batch_generation(engine.eagle.Batch("EXTEND"))
    assert record.stages == ["prefill"]
    worker.forward_batch_generation(engine.eagle.Batch("IDLE"))
    assert record.stages == ["prefill"]


def test_a_worker_without_verify_takes_the_targets_forward_for_it(
    engine: Engine, record: Record
) -> None:
    install()
    worker = engine("sglang.srt.speculative.ngram_worker").NGRAMWorker()
    worker.forward_batch_generation(engine.eagle.Batch())
    assert record.stages == ["cycle", "draft", "verify"]
    assert record.of("cycle")["k"] == 4


def test_a_verify_of_an_unknown_worker_is_a_cycle_of_its_own(
    engine: Engine, record: Record
) -> None:
    install()
    worker = engine("sglang.srt.managers.tp_worker").TpModelWorker()
    for _ in range(2):
        worker.forward_batch_generation(None, is_verify=True)
    assert [(name, fields["cycle"]) for name, fields in record.opened] == [
        ("verify", 0),
        ("verify", 1),
    ]


def test_steps_without_speculation_are_decode_and_prefill(engine: Engine, record: Record) -> None:
    install()
    worker = engine("sglang.srt.managers.tp_worker").TpModelWorker()
    worker.forward_batch_generation(engine.eagle.Batch("DECODE"))
    worker.forward_batch_generation(engine.eagle.Batch("EXTEND"))
    assert record.stages == ["decode", "prefill"]


def test_accept_lengths_come_late_and_belong_to_their_own_cycle(
    engine: Engine, record: Record
) -> None:
    install()
    module = engine.eagle
    processor = engine(
        "sglang.srt.managers.scheduler_components.batch_result_processor"
    ).SchedulerBatchResultProcessor()
    worker, batch = module.EAGLEWorkerV2(), module.Batch(size=2)
    results = [worker.forward_batch_generation(batch) for _ in range(2)]
    for result in results:
        processor._resolve_spec_v2_tokens(result, batch)
    assert record.accepted == [(0, [3, 3]), (1, [3, 3])]


def test_a_step_of_vllm_verifies_first_and_drafts_in_the_second_call(
    engine: Engine, record: Record
) -> None:
    install()
    module = engine("vllm.v1.worker.gpu_model_runner")
    runner = module.GPUModelRunner()
    runner.execute_model(module.Scheduled({"r0": 4, "r1": 4}, {"r0": [-1] * 3, "r1": [-1] * 3}))
    runner.sample_tokens(None)
    assert record.stages == ["verify", "schedule", "accept", "draft"]
    assert record.of("verify") == {"cycle": 0, "batch": 2, "tokens": 8, "k": 3}
    assert {fields["cycle"] for _, fields in record.opened} == {0}


def test_every_range_of_a_step_with_prompt_tokens_is_prefill(
    engine: Engine, record: Record
) -> None:
    install()
    module = engine("vllm.v1.worker.gpu_model_runner")
    runner = module.GPUModelRunner()
    runner.execute_model(module.Scheduled({"r0": 17, "r1": 4}, {"r1": [-1] * 3}))
    runner.sample_tokens(None)
    assert set(record.stages) == {"prefill"}
    runner.execute_model(module.Scheduled({}, {}))
    assert set(record.stages) == {"prefill"}


def test_lengths_of_vllm_are_read_where_the_scheduler_has_them(
    engine: Engine, record: Record
) -> None:
    install()
    module = engine("vllm.v1.core.sched.scheduler")
    scheduled = engine("vllm.v1.worker.gpu_model_runner").Scheduled
    scheduler = module.Scheduler()
    drafts = {"r0": [1, 2, 3], "r1": [1, 2, 3]}
    scheduler.update_from_output(scheduled({"r0": 9}, {}), module.Output([[7]]))
    scheduler.update_from_output(
        scheduled({"r0": 4, "r1": 4}, drafts), module.Output([[7, 8], [7]])
    )
    assert record.accepted == [(1, [2, 1])]


# ---------------------------------------------------------------- when nothing happens


def test_nothing_happens_in_warm_up_and_dummy_runs(engine: Engine, record: Record) -> None:
    install()
    runner = engine("vllm.v1.worker.gpu_model_runner").GPUModelRunner()
    runner._dummy_run(16)
    assert record.stages == []


def test_nothing_happens_outside_a_numbered_cycle(engine: Engine, record: Record) -> None:
    install()
    engine.eagle.EagleDraftWorker().draft(None)
    assert record.stages == []


def test_nothing_happens_while_a_graph_is_captured(
    engine: Engine, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda: Any = types.SimpleNamespace(is_current_stream_capturing=lambda: True)
    monkeypatch.setattr(emit_torch.CUDA, "module", cuda)
    attachment = install()
    engine.eagle.EAGLEWorkerV2().forward_batch_generation(engine.eagle.Batch())
    assert record.stages == []
    assert row(attachment, "EAGLEWorkerV2.verify")["fired"] == 0


def test_stages_that_nobody_hears_are_counted_all_the_same(
    engine: Engine, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    attachment = install()
    worker = engine.eagle.EAGLEWorkerV2()
    worker.forward_batch_generation(engine.eagle.Batch())
    monkeypatch.setattr(ranges.STATE, "heard", False)
    record.opened.clear()
    worker.forward_batch_generation(engine.eagle.Batch())
    assert record.stages == []
    assert row(attachment, "EAGLEWorkerV2.verify")["fired"] == 2
    monkeypatch.setattr(ranges.STATE, "heard", True)
    worker.forward_batch_generation(engine.eagle.Batch())
    assert record.of("cycle")["cycle"] == 2  # the number went on


def test_a_compiled_function_sees_only_the_original(
    engine: Engine, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    install()
    forward = engine("sglang.srt.managers.tp_worker").TpModelWorker().forward_batch_generation
    forward(engine.eagle.Batch())
    assert record.stages == ["decode"]
    monkeypatch.setattr(hooks, "is_compiling", lambda: True)
    forward(engine.eagle.Batch())
    assert record.stages == ["decode"]


# ---------------------------------------------------------------- never in the way


def test_arguments_and_results_pass_through_untouched(engine: Engine, record: Record) -> None:
    install()
    batch = object()
    roles.JOB.here.cycle = 1
    drafted = engine.eagle.EagleDraftWorker().draft(batch, with_topology=batch)
    assert drafted[1] is batch
    assert drafted[2] is batch
    assert record.stages == ["draft"]


def test_an_error_of_the_engine_passes_and_leaves_no_range_open(
    engine: Engine, record: Record
) -> None:
    install()
    worker = engine.eagle.EAGLEWorkerV2()
    with pytest.raises(RuntimeError, match="the engine's own error"):
        worker.forward_batch_generation(engine.eagle.Batch("BROKEN"))
    assert record.depth == 0
    worker.forward_batch_generation(engine.eagle.Batch())
    assert record.stages[-5:] == ["cycle", "draft", "verify", "accept", "draft_extend"]


def test_a_hook_that_raises_never_reaches_the_engine_and_switches_itself_off(
    engine: Engine, record: Record, caplog: pytest.LogCaptureFixture
) -> None:
    attachment = install()
    record.raises = True
    worker = engine.eagle.EAGLEWorkerV2()
    with caplog.at_level(logging.WARNING, "specscope"):
        for _ in range(10):
            assert worker.forward_batch_generation(engine.eagle.Batch()) is not None
    cycle = row(attachment, "EAGLEWorkerV2.forward_batch_generation")
    assert (cycle["live"], cycle["faults"]) == (False, hooks.MOST_FAULTS)
    assert "on purpose" in cycle["fault"]
    about_it = [r for r in caplog.records if "EAGLEWorkerV2.forward_batch" in r.getMessage()]
    assert len(about_it) == 1


def test_an_argument_that_cannot_be_read_costs_the_range_and_nothing_else(
    engine: Engine, record: Record
) -> None:
    install()
    with pytest.raises(AttributeError, match="forward_mode"):
        # The toy itself fails on None; the hook must not fail before it.
        engine.eagle.EAGLEWorkerV2().forward_batch_generation(None)
    assert record.depth == 0


def test_an_error_while_hooking_never_breaks_the_import(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("on purpose")

    install()
    monkeypatch.setattr(attach.patching, "find", broken)
    assert engine.eagle.EAGLEWorkerV2 is not None
    assert "eagle_worker_v2" in "".join(sys.modules)


def test_a_log_folder_that_cannot_be_written_is_one_warning(
    engine: Engine, record: Record, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("", "utf-8")
    with caplog.at_level(logging.WARNING, "specscope"):
        attachment = install(in_the_way)
        worker = engine.eagle.EAGLEWorkerV2()
        for _ in range(40):
            worker.forward_batch_generation(engine.eagle.Batch())
        assert attachment.writer is not None
        for _ in range(3):
            attachment.writer.now()
    # Of the report or of the cycle log, whichever came to it first.
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1


# ---------------------------------------------------------------- what is hooked


def test_an_override_in_a_subclass_is_hooked_and_calls_of_its_base_open_nothing_more(
    engine: Engine, record: Record
) -> None:
    module = engine.eagle

    class Early(module.EAGLEWorkerV2):  # type: ignore[misc, name-defined]
        def verify(self, batch: Any, **more: Any) -> Any:
            return super().verify(batch)

    attachment = install()

    class Late(module.EAGLEWorkerV2):  # type: ignore[misc, name-defined]
        def verify(self, batch: Any, **more: Any) -> Any:
            return module.Result()

    for worker in (Early, Late, Late):
        worker().forward_batch_generation(module.Batch())
    places = row(attachment, "EAGLEWorkerV2.verify")["places"]
    assert [place.rpartition(".")[0].rpartition(".")[2] for place in places] == [
        "EAGLEWorkerV2",
        "Early",
        "Late",
    ]
    assert record.stages.count("verify") == 3


def test_names_imported_elsewhere_are_bound_anew_and_bound_back(engine: Engine) -> None:
    utils, module = engine("sglang.srt.speculative.eagle_utils"), engine.eagle
    original = utils.eagle_sample
    attachment = install()
    assert module.eagle_sample is utils.eagle_sample is not original
    late = types.ModuleType("late")
    late.eagle_sample = utils.eagle_sample  # type: ignore[attr-defined]
    sys.modules["late"] = late
    try:
        attachment.detach()
        assert module.eagle_sample is utils.eagle_sample is late.eagle_sample is original
    finally:
        del sys.modules["late"]


@pytest.mark.parametrize(
    ("module", "target", "reason"),
    [
        ("eagle_utils", "eagle_utils.EagleVerifyInput.verify", "verify is a property"),
        ("dflash_worker_v2", "DFlashWorkerV2.forward_batch_generation", "other signature"),
        ("dflash_worker_v2", "DFlashWorkerV2._accept_block", "a coroutine function"),
        ("dflash_worker_v2", "._append_target_hidden_to_draft_kv_by_loc", "no _append_target"),
    ],
)
def test_what_cannot_be_hooked_is_skipped_with_its_reason(
    engine: Engine, module: str, target: str, reason: str
) -> None:
    attachment = install()
    engine(f"sglang.srt.speculative.{module}")
    found = row(attachment, target)
    assert found["state"] == "skipped"
    assert reason in found["reason"]
    assert found["places"] == []


def test_a_target_of_another_version_is_skipped_with_the_versions_that_had_it(
    engine: Engine,
) -> None:
    attachment = install()
    engine("sglang.srt.speculative.eagle_utils")
    assert (
        "seen in 0.4.6.post5 - 0.5.2; this is 0.5.23"
        in row(attachment, "eagle_utils.EagleVerifyInput.verify")["reason"]
    )


def test_classmethods_and_staticmethods_stay_what_they_are() -> None:
    class Owner:
        @classmethod
        def of_class(cls, x: int) -> tuple[type, int]:
            return cls, x

        @staticmethod
        def static(x: int) -> int:
            return x

    for name in ("of_class", "static"):
        raw = vars(Owner)[name]
        place = patching.place_of(Owner, name)
        patch = patching.put(place, lambda *args, f=place.function: (f(*args), "hooked"))
        assert type(vars(Owner)[name]) is type(raw)
        assert getattr(Owner, name)(1)[1] == "hooked"
        assert patching.take_off(patch)
        assert vars(Owner)[name] is raw


def test_a_method_inherited_from_a_target_is_left_to_the_hook_there(
    engine: Engine, record: Record
) -> None:
    """EAGLEWorker of SGLang 0.4 inherits what is the cycle of later versions."""
    (engine.folder / "sglang/srt/speculative/eagle_worker.py").write_text(
        "from sglang.srt.managers.tp_worker import TpModelWorker\n"
        "class EAGLEWorker(TpModelWorker):\n"
        "    def draft(self, batch):\n"
        "        return None\n",
        "utf-8",
    )
    attachment = install()
    worker = engine("sglang.srt.speculative.eagle_worker").EAGLEWorker()
    found = row(attachment, "eagle_worker.EAGLEWorker.forward_batch_generation")
    assert "has its own hook" in found["reason"]
    worker.forward_batch_generation(engine.eagle.Batch("DECODE"))
    assert record.stages == ["decode"]


# ---------------------------------------------------------------- on and off


def test_attaching_twice_is_attaching_once(engine: Engine, record: Record) -> None:
    assert specscope.attach() is install() is attach.current()
    engine.eagle.EAGLEWorkerV2().forward_batch_generation(engine.eagle.Batch())
    assert record.stages.count("verify") == 1


def test_detach_leaves_nothing(engine: Engine, record: Record) -> None:
    module = engine.eagle
    tables = [module.EAGLEWorkerV2, module.EagleDraftWorker]
    before = [dict(vars(table)) for table in tables]
    finders, waiting = list(sys.meta_path), _waiting()
    attachment = install()
    assert dict(vars(module.EAGLEWorkerV2)) != before[0]
    assert attachment.detach() == []
    assert [dict(vars(table)) for table in tables] == before
    assert sys.meta_path == finders
    assert _waiting() == waiting
    assert attach.current() is None
    assert engine("vllm.v1.worker.gpu_model_runner")
    assert not any(hook["places"] for hook in attachment.report()["hooks"])
    assert install() is not attachment


def _waiting() -> list[str]:
    import wrapt.importer

    return sorted(wrapt.importer._post_import_hooks)


def test_a_patch_over_ours_is_left_alone_and_named(engine: Engine, record: Record) -> None:
    module = engine.eagle
    attachment = install()
    ours = module.EAGLEWorkerV2.verify

    def theirs(*args: Any, **more: Any) -> Any:
        return ours(*args, **more)

    module.EAGLEWorkerV2.verify = theirs
    assert attachment.detach() == ["sglang.srt.speculative.eagle_worker_v2.EAGLEWorkerV2.verify"]
    module.EAGLEWorkerV2().forward_batch_generation(module.Batch())
    assert record.stages == []


def test_the_variable_switches_everything_off(
    engine: Engine, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(attach.DISABLE, "1")
    attachment = install()
    assert not attachment.active
    before = dict(vars(engine.eagle.EAGLEWorkerV2))
    engine.eagle.EAGLEWorkerV2().forward_batch_generation(engine.eagle.Batch())
    assert record.stages == []
    assert dict(vars(engine.eagle.EAGLEWorkerV2)) == before


def test_without_wrapt_it_says_what_to_install(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wrapt", None)
    attachment = install()
    assert not attachment.active
    assert "specscope[server]" in attachment.reason


# ---------------------------------------------------------------- emitters


def configured(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the emitters are configured with from now on, instead of being configured."""
    configs: list[Any] = []

    def configure(config: Any = None) -> None:
        configs.extend([config] if config is not None else [])

    monkeypatch.setattr(ranges, "configure", configure)
    return configs


def test_the_log_is_opened_only_where_a_server_serves(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = configured(monkeypatch)
    attachment = install(tmp_path / "log")
    assert (configs, ranges.is_enabled()) == ([], False)
    assert engine("sglang.srt.managers.tp_worker")
    assert [config.log for config in configs] == [None]
    assert engine.eagle
    assert [config.log for config in configs] == [None, tmp_path / "log"]
    assert (configs[1].engine, configs[1].engine_version) == ("sglang", "0.5.23")
    assert ranges.is_enabled()
    attachment.detach()
    assert not ranges.is_enabled()


def test_emitters_that_the_process_configured_itself_stay_as_they_are(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges.configure(ranges.Config(engine="mine"))
    ranges.enable()
    configs = configured(monkeypatch)
    try:
        attachment = install(tmp_path / "log")
        assert engine.eagle
        attachment.detach()
        assert (configs, ranges.is_enabled()) == ([], True)
    finally:
        ranges.shutdown()


def test_emitters_that_cannot_be_configured_are_one_warning(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken_configure(config: object) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(ranges, "configure", broken_configure)
    install()
    module = engine.eagle
    with caplog.at_level(logging.WARNING, "specscope"):
        assert module.EAGLEWorkerV2().forward_batch_generation(module.Batch()) is not None
    assert not ranges.is_enabled()


# ---------------------------------------------------------------- the report


def test_the_report_counts_what_fired_and_hides_secrets(
    engine: Engine, record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "planted-secret-4711"
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "x", "--api-key", secret])
    attachment = install(tmp_path / "log")
    engine.eagle.EAGLEWorkerV2().forward_batch_generation(engine.eagle.Batch())
    next(iter(attachment.entries)).hook.fault = f"RuntimeError: token={secret}"
    assert attachment.writer is not None
    attachment.writer.now()
    (path,) = (tmp_path / "log").glob("attach-*.json")
    text = path.read_text("utf-8")
    assert secret not in text
    report = json.loads(text)
    fired = {hook["target"].rpartition(".")[2]: hook["fired"] for hook in report["hooks"]}
    assert fired["eagle_sample"] == 1
    assert report["engines"]["sglang"] == "0.5.23"
    assert report["command"][-1] == "***"


@pytest.mark.parametrize("log", [123, b"\xff", "~nobody-of-that-name/x"])
def test_a_log_that_is_no_path_is_a_reason(log: Any) -> None:
    attachment = specscope.attach(log=log)
    assert not attachment.active
    assert attachment.reason.startswith("no log folder: ")
    assert attachment.report()["reason"] == attachment.reason
