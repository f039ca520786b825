"""From paths to a run: files, folders, standard input, clashes, notes, and what is refused."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from specscope.traces import schema
from specscope.traces.errors import SpecscopeError, TraceFormatError, UsageError
from specscope.traces.load import load
from specscope.traces.run import Run
from tests import waiting
from tests.build import BASE_NS
from tests.shared import shared_path
from tests.traces.small import timeline, write_trace

EXPECTED: dict[str, Any] = json.loads(shared_path("cases", "expected.json").read_text("utf-8"))
PLANTED = "hf_PlantedSecretValue0123456789"


def case(name: str, **options: Any) -> Run:
    return load(shared_path("cases", name), cache=False, **options)


def codes(run: Run) -> list[str]:
    return [note.code for note in run.notes]


def text_of(run: Run, code: str) -> str:
    (text,) = (note.text for note in run.notes if note.code == code)
    return text


def refused(kind: type[SpecscopeError], *paths: Path | str, **options: Any) -> str:
    with pytest.raises(kind) as error:
        load(list(paths), **options)
    message = str(error.value)
    assert message.isprintable(), "one line, nothing that steers a terminal"
    return message


# --- the shared cases -----------------------------------------------------------------------

SOUND = [name for name in EXPECTED if name[0] in "acnr" and name.endswith(".json")]


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_case_is_read_without_loss(name: str) -> None:
    (tables,) = case(name).ranks
    assert tables.losses.num_rows == 0
    expected = EXPECTED[name].get("ops_by_stage")
    if expected:
        assert tables.ops.num_rows == sum(expected.values())


def test_the_undamaged_case_has_its_thirty_events_and_five_ops() -> None:
    (tables,) = case("b00_good.json").ranks
    assert tables.facts["events"] == EXPECTED["b00_good.json"]["events_in_file"]
    assert tables.ops.num_rows == 5


REPAIRED = ["b01_unescaped_quote.json", "b02_bad_escape.json", "b03_control_and_utf8.json"]


@pytest.mark.parametrize("name", [*REPAIRED, "b04_inf_nan.json", "b13_array_unclosed.json"])
def test_a_damaged_file_gives_the_tables_of_the_good_one(name: str) -> None:
    (good,) = case("b00_good.json").ranks
    run = case(name)
    (tables,) = run.ranks
    for table in ("ops", "calls", "ranges"):
        assert getattr(tables, table).to_pylist() == getattr(good, table).to_pylist()
    damaged = EXPECTED[name]["damaged_events"]
    repaired = sum(tables.losses["count"].to_pylist())
    assert repaired <= damaged
    assert tables.facts["events"] + damaged - repaired >= EXPECTED[name]["usable_events"]


def test_an_unescaped_quote_is_named_with_its_byte() -> None:
    run = case("b01_unescaped_quote.json")
    (row,) = run.ranks[0].losses.to_pylist()
    text = shared_path("cases", "b01_unescaped_quote.json").read_bytes()
    assert text[row["offset"] :].startswith(b'{"ph": "X", "cat": "python_function"')
    assert f"byte {row['offset']}" in text_of(run, "loss_repaired")


def test_a_truncated_file_gives_its_whole_events_and_says_so() -> None:
    run = case("b05_truncated.json")
    (tables,) = run.ranks
    expected = EXPECTED["b05_truncated.json"]
    assert tables.facts["events"] == expected["complete_events"]
    assert tables.ops.num_rows == expected["gpu_ops_found"]
    assert tables.facts["truncated"]
    assert tables.losses["reason"].to_pylist() == ["truncated"]
    assert "ends early" in text_of(run, "truncated")


def test_a_cut_gzip_stream_names_file_and_recovered_size() -> None:
    run = case("b06_truncated.json.gz")
    text = text_of(run, "truncated")
    size = EXPECTED["b06_truncated.json.gz"]["bytes_recoverable"]
    assert "b06_truncated.json.gz: the gzip stream ends early" in text
    assert f"{size} bytes of text" in text
    assert run.ranks[0].sources["text_bytes"].to_pylist() == [size]


def test_two_documents_in_one_file_are_read_as_two_ranks() -> None:
    run = case("b07_two_documents.json.gz")
    assert [tables.rank for tables in run.ranks] == EXPECTED["b07_two_documents.json.gz"]["ranks"]
    assert "2 traces in one file (rank 0, rank 1)" in text_of(run, "many_documents")


def test_bad_gpu_times_are_named_with_count_and_rule() -> None:
    text = text_of(case("b08_bad_gpu_times.json"), "loss_gpu_time_invalid")
    assert "3 x gpu_time_invalid" in text
    assert "before its own launch call" in text


def test_a_trace_without_gpu_events_keeps_its_launch_calls() -> None:
    (tables,) = case("b10_no_gpu_events.json").ranks
    assert tables.ops.num_rows == EXPECTED["b10_no_gpu_events.json"]["gpu_ops"]
    kinds = tables.calls["kind"].to_pylist()
    assert len(kinds) - kinds.count("sync") == EXPECTED["b10_no_gpu_events.json"]["launches"]


def test_a_merged_file_is_split_and_said_to_be_merged() -> None:
    run = case("b11_merged_same_correlation.json")
    labels = [tables.facts["label"] for tables in run.ranks]
    assert labels == EXPECTED["b11_merged_same_correlation.json"]["ranks"]
    assert "merged_file" in codes(run)


def test_a_bare_array_is_read_with_a_note_on_its_missing_header() -> None:
    assert {"no_header", "rank_unknown"} <= set(codes(case("b13_array_unclosed.json")))


def test_a_late_end_is_named_with_raw_and_repaired_sums() -> None:
    text = text_of(case("b14_duration_overflow.json"), "loss_duration_overflow")
    assert "3400000000 ns raw, 30900 ns repaired" in text


def test_a_name_with_dots_and_no_rank_is_rank_0_with_a_note() -> None:
    run = case("host.example.local_8123.1712345678901234567.pt.trace.json")
    assert [tables.rank for tables in run.ranks] == [0]
    assert run.ranks[0].facts["rank"] is None
    assert "taken as rank 0" in text_of(run, "rank_unknown")


def test_hostile_names_are_kept_as_text_and_notes_stay_printable() -> None:
    run = case("x01_hostile_names.json")
    assert run.ranks[0].ops.num_rows == 11
    assert all(note.text.isprintable() for note in run.notes)


def test_a_bomb_stops_at_the_limit_and_names_it() -> None:
    path = shared_path("cases", "x02_bomb.json.gz")
    message = refused(TraceFormatError, path, max_text_bytes=8 << 20, cache=False)
    assert "8,388,608" in message
    assert "--max-text" in message
    assert path.name in message


def test_the_bomb_is_read_when_the_limit_allows() -> None:
    assert case("x02_bomb.json.gz").ranks[0].ops.num_rows == 5


def test_deep_nesting_is_a_clean_refusal() -> None:
    message = refused(TraceFormatError, shared_path("cases", "x03_deep_nesting.json"))
    assert "recursion" not in message.lower()


def test_an_empty_profile_is_no_work_and_no_error() -> None:
    run = load(shared_path("traces", "public", "torch2.13.0-cpu-empty-profile.json"))
    assert "no work recorded" in text_of(run, "no_work")


# --- what cannot be read --------------------------------------------------------------------


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    assert "does not exist" in refused(UsageError, tmp_path / "gone.json")


def test_a_path_that_is_no_path_is_named() -> None:
    assert "cannot be read" in refused(UsageError, "x\0y.json")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    path = write_trace(tmp_path, "rank0.json")
    path.chmod(0)
    assert "permission denied" in refused(UsageError, path)


def test_no_path_at_all_is_a_usage_error() -> None:
    assert "no trace given" in refused(UsageError)


def test_json_without_trace_events_is_named_by_its_keys(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"hidden\x1b": 1, "layers": {"traceEvents": [1]}}))
    message = refused(TraceFormatError, path)
    assert "layers" in message
    assert "without traceEvents" in message


@pytest.mark.parametrize("content", [b'{"traceEvents": []}', b"[]"])
def test_a_trace_without_an_event_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    assert "without one event" in refused(TraceFormatError, path)


def test_a_trace_without_a_readable_event_names_the_first_fault(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'{"traceEvents": [1, 2]}')
    message = refused(TraceFormatError, path)
    assert "without one readable event: at byte 17" in message


def test_a_gzip_file_without_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [')[:14])
    assert "gzip file that ends early or is damaged" in refused(TraceFormatError, path)


@pytest.mark.parametrize("name", ["x.pickle", "x.trace.json"])
def test_a_pickle_is_never_opened(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x80\x04cos\nsystem\n(S'false'\ntR.")
    assert "pickle" in refused(TraceFormatError, path)


# --- ranks and files ------------------------------------------------------------------------


def test_several_files_with_distinct_ranks_are_one_run_in_rank_order(tmp_path: Path) -> None:
    paths = [write_trace(tmp_path, f"{r}.json", rank=r, world_size=2) for r in (1, 0)]
    run = load(paths)
    assert [tables.rank for tables in run.ranks] == [0, 1]
    assert run.notes == ()


def test_two_files_with_one_rank_clash_by_name(tmp_path: Path) -> None:
    paths = [write_trace(tmp_path, name, rank=3) for name in ("a.json", "b.json")]
    message = refused(UsageError, *paths)
    assert "a.json" in message
    assert "b.json" in message
    assert "rank 3" in message


def test_files_of_one_name_in_two_folders_are_told_apart(tmp_path: Path) -> None:
    paths = [write_trace(tmp_path / str(r), "trace.json", rank=r, world_size=2) for r in range(2)]
    assert [tables.rank for tables in load(paths).ranks] == [0, 1]
    paths = [write_trace(tmp_path / folder, "trace.json", rank=1) for folder in "ab"]
    message = refused(UsageError, *paths)
    assert str(paths[0]) in message
    assert str(paths[1]) in message


def test_the_same_file_twice_is_a_usage_error(tmp_path: Path) -> None:
    path = write_trace(tmp_path, "a.json")
    assert "twice" in refused(UsageError, path, path)


def test_content_goes_before_the_name(tmp_path: Path) -> None:
    path = write_trace(tmp_path, "17.5-TP-5.trace.json.gz", rank=2, world_size=8)
    assert [tables.rank for tables in load(path).ranks] == [2]


def test_the_name_gives_the_rank_when_the_content_does_not(tmp_path: Path) -> None:
    path = write_trace(tmp_path, "17.5-TP-5.trace.json.gz", rank=None)
    run = load(path)
    assert [tables.rank for tables in run.ranks] == [5]
    assert run.notes == ()


def test_two_documents_without_ranks_are_numbered_and_named(tmp_path: Path) -> None:
    path = tmp_path / "rank5.json"
    path.write_bytes(timeline(rank=None).to_json() + timeline(rank=None).to_json())
    run = load(path)
    assert [tables.rank for tables in run.ranks] == [0, 1]
    assert codes(run) == ["many_documents", "rank_unknown", "rank_unknown"]


def test_two_documents_of_one_rank_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(timeline(rank=2).to_json() * 2)
    assert "x.json holds rank 2 twice" in refused(UsageError, path)


def test_missing_ranks_are_named(tmp_path: Path) -> None:
    path = write_trace(tmp_path, "a.json", rank=1, world_size=4)
    assert "missing: 0, 2, 3" in text_of(load(path), "ranks_missing")


def test_one_rank_can_be_chosen_and_an_absent_one_is_named(tmp_path: Path) -> None:
    for rank in range(2):
        write_trace(tmp_path, f"rank{rank}.json", rank=rank, world_size=2)
    assert [tables.rank for tables in load(tmp_path, rank=1).ranks] == [1]
    assert "there is: 0, 1" in refused(UsageError, tmp_path, rank=7)


def test_world_sizes_that_differ_are_named(tmp_path: Path) -> None:
    paths = [write_trace(tmp_path, f"{r}.json", rank=r, world_size=r + 2) for r in range(2)]
    assert "world sizes (2, 3)" in text_of(load(paths), "world_size_differs")


def test_of_by_stage_files_the_one_with_verify_steps_is_read_whatever_its_name(
    tmp_path: Path,
) -> None:
    for rank in range(2):
        for stage, mark in (
            ("EXTEND", "step[TARGET_VERIFY bs=1]"),
            ("DECODE", "step[DECODE bs=1]"),
        ):
            name = f"17.5-TP-{rank}-{stage}.trace.json.gz"
            write_trace(tmp_path, name, rank=rank, world_size=2, mark=mark)
    run = load(tmp_path)
    assert [Path(t.facts["path"]).name for t in run.ranks] == [
        f"17.5-TP-{rank}-EXTEND.trace.json.gz" for rank in range(2)
    ]
    assert codes(run) == ["stage_file_chosen", "stage_file_chosen"]
    assert "17.5-TP-1-DECODE.trace.json.gz: holds another stage" in run.listed


def test_of_prefill_and_decode_files_decode_is_read(tmp_path: Path) -> None:
    for stage, mark in (("EXTEND", "step[EXTEND bs=1 toks=5]"), ("DECODE", "step[DECODE bs=1]")):
        write_trace(tmp_path, f"17.5-TP-0-{stage}.trace.json.gz", mark=mark)
    (tables,) = load(tmp_path).ranks
    assert tables.facts["path"].endswith("DECODE.trace.json.gz")


def test_a_rank_recorded_at_another_time_is_left_out_of_a_folder(tmp_path: Path) -> None:
    write_trace(tmp_path, "rank0.json", rank=0, world_size=2)
    write_trace(tmp_path, "rank1.json", rank=1, world_size=2, origin=5_000_000)
    run = load(tmp_path)
    assert [tables.rank for tables in run.ranks] == [1], "the newest window stands"
    assert "rank 0" in text_of(run, "file_foreign")
    assert "rank0.json: recorded at another time" in run.listed
    assert "missing: 0" in text_of(run, "ranks_missing")


def test_given_files_of_different_times_are_kept_with_a_note(tmp_path: Path) -> None:
    paths = [
        write_trace(tmp_path, "a.json", rank=0, world_size=2),
        write_trace(tmp_path, "b.json", rank=1, world_size=2, origin=5_000_000),
    ]
    run = load(paths)
    assert len(run.ranks) == 2
    assert codes(run) == ["times_apart"]


def test_a_duplicate_rank_in_a_folder_is_named_and_the_newer_read(tmp_path: Path) -> None:
    for stamp in (1712345678000000001, 1712345678000000002):
        write_trace(tmp_path, f"host_{stamp % 10}.{stamp}.pt.trace.json", rank=0)
    run = load(tmp_path)
    assert "host_2" in text_of(run, "rank_duplicate")
    assert run.ranks[0].facts["path"].endswith("host_2.1712345678000000002.pt.trace.json")


def test_of_data_parallel_replicas_in_one_folder_the_first_is_read(tmp_path: Path) -> None:
    for replica in range(2):
        for rank in range(2):
            name = f"17.5-TP-{rank}-DP-{replica}.trace.json.gz"
            write_trace(tmp_path, name, rank=rank, world_size=2)
    run = load(tmp_path)
    names = [Path(tables.facts["path"]).name for tables in run.ranks]
    assert names == [f"17.5-TP-{rank}-DP-0.trace.json.gz" for rank in range(2)]
    assert codes(run) == ["rank_duplicate", "rank_duplicate"]


@pytest.mark.parametrize("name", ["plain.json.gz", "packed.json", "any.name"])
def test_packed_or_not_is_told_by_the_content_and_not_by_the_name(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(timeline().to_gzip() if name == "packed.json" else timeline().to_json())
    (tables,) = load(path).ranks
    assert tables.ops.num_rows == 6
    packed = tables.sources["format"].to_pylist() == ["kineto-json.gz"]
    assert packed is (name == "packed.json")


def test_bases_that_differ_are_kept_with_each_rank() -> None:
    paths = [shared_path("cases", f"r02_base_time_rank{rank}.json") for rank in range(2)]
    run = load(paths)
    bases = [tables.facts["clock_base_ns"] for tables in run.ranks]
    assert bases[1] - bases[0] == 2_500_000
    assert run.notes == ()


def test_a_recording_of_four_ranks_loads_whole_with_its_context() -> None:
    run = load(shared_path("traces", "own", "tp4-70b-eagle3-k3-shm-bs1"))
    assert [tables.rank for tables in run.ranks] == [0, 1, 2, 3]
    assert [tables.facts["world_size"] for tables in run.ranks] == [4] * 4
    assert run.context["tokens_per_second"] == 108.56
    assert (run.notes, run.listed) == ((), ())


def test_nothing_of_a_planted_token_reaches_tables_notes_context_or_cache(
    tmp_path: Path, private_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specscope.traces.cache.MIN_FILE_BYTES", 0)
    raw = json.loads(timeline().to_json())
    secrets = {"HF_TOKEN": PLANTED, "env": {"API_KEY": PLANTED}, "note": PLANTED}
    (tmp_path / "rank0.json").write_text(json.dumps(secrets | raw | {"PASSWORD": PLANTED}))
    (tmp_path / "run.json").write_text(json.dumps({"server_args": {"api_key": PLANTED}}))
    run = load(tmp_path)
    tables = [getattr(run.ranks[0], name).to_pylist() for name in schema.TABLES]
    assert "Planted" not in repr((run.context, run.notes, run.listed, run.ranks[0].facts, tables))
    files = [path for path in private_cache.rglob("*") if path.is_file()]
    assert files
    assert all(b"Planted" not in path.read_bytes() for path in files)


# --- standard input, progress, options ------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_read_also_when_it_is_packed(
    packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing = timeline()
    text = drawing.to_gzip() if packed else drawing.to_json()

    class Stdin:
        buffer = io.BytesIO(text)

    monkeypatch.setattr(sys, "stdin", Stdin())
    (tables,) = load("-").ranks
    assert tables.ops.num_rows == 6
    assert tables.sources["path"].to_pylist() == ["-"]


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "rank1.json"
    os.mkfifo(pipe)
    # A daemon: where nobody opens the pipe, it would wait for ever, and the end of pytest for it.
    writer = threading.Thread(
        target=pipe.write_bytes, args=(timeline(rank=1).to_json(),), daemon=True
    )
    writer.start()
    (tables,) = load(pipe).ranks
    waiting.joined(writer)
    assert (tables.rank, tables.ops.num_rows) == (1, 6)


def test_standard_input_without_a_trace_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"hello")

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert "standard input is not JSON" in refused(TraceFormatError, "-")


def test_progress_names_each_file_and_ends_at_the_whole(tmp_path: Path) -> None:
    for rank in range(3):
        write_trace(tmp_path, f"rank{rank}.json", rank=rank, world_size=3)
    seen: list[tuple[str, float]] = []
    load(tmp_path, on_progress=lambda name, share: seen.append((name, share)))
    assert {name for name, _ in seen} == {f"rank{rank}.json" for rank in range(3)}
    assert max(share for _, share in seen) == 1.0


def test_all_frames_keeps_every_frame() -> None:
    path = shared_path("traces", "public", "2026-05-sglang-qwen3-8b-mi300x-extend.json.gz")
    kinds = load(path, all_frames=True, cache=False).ranks[0].ranges["kind"].to_pylist()
    assert kinds.count("frame") + kinds.count("module") == 53_321


def test_two_loads_give_equal_runs() -> None:
    folder = shared_path("traces", "cpu", "gloo_rank0.json.gz")
    first, second = (load(folder, cache=False) for _ in range(2))
    for name in schema.TABLES:
        assert getattr(first.ranks[0], name).equals(getattr(second.ranks[0], name))
    assert first.ranks[0].facts == second.ranks[0].facts


def test_the_base_of_a_drawn_trace_is_in_sources(tmp_path: Path) -> None:
    (tables,) = load(write_trace(tmp_path, "a.json")).ranks
    assert tables.sources["clock_base_ns"].to_pylist() == [BASE_NS]
    assert tables.sources["format"].to_pylist() == ["kineto-json"]
    assert len(tables.sources["fingerprint"].to_pylist()[0]) == 64
