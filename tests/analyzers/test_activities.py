"""Activities of kernels: every rule against real names, the user's file, hostile names."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from specscope.analyzers import activities, name_rules
from specscope.analyzers.activities import (
    ACTIVITIES,
    CLASS_OF_ACTIVITY,
    CODE_OF_ACTIVITY,
    Rule,
    Rules,
    activity_codes,
    activity_column,
    classify,
    family_column,
    load_rules,
)
from specscope.traces.errors import UsageError
from specscope.traces.schema import OPS

HERE = Path(__file__).resolve()
SHARED = HERE.parents[3] / "shared"
RULES = load_rules()


def words(names: list[str], kinds: list[str] | None = None) -> list[str]:
    return [ACTIVITIES[code] for code in classify(names, kinds)]


def known_names() -> list[tuple[str, str]]:
    """(activity, name) rows of the data file; what stands after them says why."""
    rows = []
    text = (HERE.parents[1] / "data" / "kernel_names.txt").read_text("utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            activity, name = line.split(" | ", 2)[:2]
            rows.append((activity, name))
    return rows


KNOWN = known_names()


# ------------------------------------------------------------------------------ the table


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: rule.id)
def test_examples_hit_their_rule_and_none_before(rule: Rule) -> None:
    assert rule.examples
    hits = [RULES.rules[row].id if row >= 0 else None for row in RULES.match(rule.examples)]
    assert hits == [rule.id] * len(rule.examples)


def test_ids_are_unique_and_activities_are_of_the_vocabulary() -> None:
    assert max(Counter(rule.id for rule in RULES.rules).values()) == 1
    assert {rule.activity for rule in RULES.rules} <= set(ACTIVITIES) - {"copy", "set", "graph"}


def test_patterns_mean_the_same_to_python() -> None:
    compiled = [re.compile(rule.pattern) for rule in RULES.rules]
    names = [name for _, name in KNOWN] + [text for rule in RULES.rules for text in rule.examples]
    python = [
        next((row for row, pattern in enumerate(compiled) if pattern.search(name)), -1)
        for name in names
    ]
    assert RULES.match(names).tolist() == python


@pytest.mark.parametrize(("activity", "name"), KNOWN)
def test_known_names(activity: str, name: str) -> None:
    assert words([name]) == [activity]


@pytest.mark.parametrize(
    "name",
    [
        "void my_allreduce_metrics_logger(float*)",
        "void reduce_scatter_index_kernel(long*)",
        "all_reduce_statistics_kernel_host",
        "myncclDevKernel_AllReduce",
        "void cutlass::device_kernel<Unknown>(Params)",
        "ck_tile::kentry<1, ck_tile::Unknown>",
        "Kernel",
        "",
    ],
)
def test_look_alikes_are_other(name: str) -> None:
    assert words([name]) == ["other"]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "nccl.allgather"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(Params)", "nccl.reducescatter"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL(Params)", "nccl.reduce"),
        ("ncclDevKernel_Generic_1(Params)", "nccl.other"),
        ("cross_device_reduce_scatter", "custom.reducescatter"),
        ("cross_device_reduce_1stage", "custom.allreduce"),
        ("_fwd_kernel_stage2", "attention.reduce"),
        ("_fwd_grouped_kernel_stage1", "attention.decode"),
        ("create_flashinfer_kv_indices_triton", "kv.index"),
        ("store_kvcache_kernel", "kv.write"),
        ("VerifyTreeGreedy", "spec.accept"),
        ("_synthetic_rejection_sample_kernel", "spec.accept.simulated"),
        ("_new_models_attention_kernel", "attention.by_word"),
        ("nobody_knows", "other"),
    ],
)
def test_families(name: str, family: str) -> None:
    assert RULES.families([name]) == [family]


def test_a_collective_is_never_guessed_by_word() -> None:
    guesses = [rule for rule in RULES.rules if rule.family.endswith(".by_word")]
    assert guesses
    assert not {rule.activity for rule in guesses} & {"collective", "fused_collective"}


def test_classes_in_the_order_of_ownership() -> None:
    expected = {"collective": 1, "fused_collective": 1, "copy": 2, "set": 3}
    assert {name: expected.get(name, 0) for name in ACTIVITIES} == CLASS_OF_ACTIVITY
    assert activities.CLASS_OF_CODE.tolist() == [CLASS_OF_ACTIVITY[name] for name in ACTIVITIES]


@pytest.mark.skipif(not SHARED.exists(), reason="the shared cases are not here")
def test_constructed_case() -> None:
    expected = json.loads((SHARED / "cases" / "expected.json").read_text("utf-8"))

    def find(value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        if "n01_kernel_names.json" in value:
            return value["n01_kernel_names.json"]
        return next((hit for hit in map(find, value.values()) if hit is not None), None)

    rows = find(expected)["classes"]
    assert len(rows) == 36
    for row in rows:
        assert words([row["name"]])[0] in row["activity"].split(" or "), row["name"]


RECORDINGS = [
    "own/tp2-8b-eagle3-k3-nvlink-bs1-hooked",
    "own/tp2-8b-eagle3-k3-legacycar-bs1-hooked",
    "own/tp4-70b-eagle3-k3-shm-bs1-hooked",
    "public/2026-01-vllm-prefill-tp8-b200-rank0.json.gz",
    "public/2026-03-vllm-mi300-decode-full-hipgraph.json.gz",
    "public/2026-05-sglang-qwen3-8b-mi300x-decode-hipgraph.json.gz",
    "public/2026-05-sglang-qwen3-8b-mi300x-extend.json.gz",
]


@pytest.mark.skipif(not SHARED.exists(), reason="the shared recordings are not here")
@pytest.mark.parametrize("recording", RECORDINGS)
def test_hardly_any_time_of_a_recording_is_other(recording: str) -> None:
    path = SHARED / "traces" / recording
    file = path if path.is_file() else sorted(path.glob("*.json.gz"))[0]
    with gzip.open(file) as stream:
        events = json.load(stream)["traceEvents"]
    time_of: Counter[str] = Counter()
    for event in events:
        if event.get("cat") == "kernel":
            time_of[event["name"]] += event["dur"]
    codes = classify(list(time_of))
    other = sum(
        spent
        for spent, code in zip(time_of.values(), codes, strict=True)
        if code == CODE_OF_ACTIVITY["other"]
    )
    assert other / sum(time_of.values()) < 0.001


# ------------------------------------------------------------------------------ ops tables


def ops(rows: list[tuple[str, str]]) -> pa.Table:
    """An ops table of (kind, name) rows."""
    n = len(rows)
    columns: dict[str, Any] = {field.name: [0] * n for field in OPS}
    columns["kind"] = [kind for kind, _ in rows]
    columns["name"] = [name for _, name in rows]
    return pa.table(columns).cast(OPS)


def test_kind_goes_before_name() -> None:
    table = ops(
        [
            ("kernel", "nvjet_tst_64x8"),
            ("copy", "nvjet_tst_64x8"),
            ("set", "Memset (Device)"),
            ("graph", "fused_moe_kernel"),
            ("kernel", "fused_moe_kernel"),
        ]
    )
    column = activity_column(table)
    assert column.to_pylist() == ["gemm", "copy", "set", "graph", "moe"]
    assert column.dictionary.to_pylist() == list(ACTIVITIES)
    assert activity_codes(table).tolist() == [CODE_OF_ACTIVITY[word] for word in column.to_pylist()]
    assert family_column(table).to_pylist() == ["gemm.cublas", "copy", "set", "graph", "moe.gemm"]


def test_chunks_with_dictionaries_of_their_own() -> None:
    one = ops([("kernel", "_fwd_kernel"), ("copy", "Memcpy DtoD")])
    two = ops([("set", "Memset"), ("kernel", "nvjet_x"), ("kernel", "_fwd_kernel")])
    table = pa.concat_tables([one, two])
    assert activity_column(table).to_pylist() == ["attention", "copy", "set", "gemm", "attention"]


def test_empty_table() -> None:
    assert len(activity_column(OPS.empty_table())) == 0
    assert len(family_column(OPS.empty_table())) == 0


def test_classify_with_and_without_kinds() -> None:
    names = ["Memcpy DtoH (Device -> Pageable)", "Memset (Device)", "CopyDeviceToHost"]
    assert words(names) == ["copy", "set", "copy"]
    assert words(names, ["kernel", "kernel", "copy"]) == ["other", "other", "copy"]
    assert classify([]).tolist() == []
    assert classify(pa.array([None, "nvjet_x"])).tolist() == [
        CODE_OF_ACTIVITY["other"],
        CODE_OF_ACTIVITY["gemm"],
    ]


# ------------------------------------------------------------------------------ hostile names


def test_a_name_of_a_megabyte_is_read_at_both_ends() -> None:
    start = time.process_time()
    filler = "at::native::(anonymous namespace)::" * 30_000
    names = [
        "void at::native::vectorized_elementwise_kernel<" + filler,
        filler + "ncclDevKernel_AllReduce",
        "x" * 3_000_000 + " fused_rope_kernel",
        "x" * 1_000_000,
    ]
    assert words(names) == ["elementwise", "other", "rope", "other"]
    assert time.process_time() - start < 2.0


def test_odd_names_end_in_an_activity() -> None:
    names = ["\x1b[31m", "\n\r\t", "\ufffd" * 100, "é" * 10_000, "(" * 5_000, "\\" * 5_000, " "]
    assert words(names) == ["other"] * len(names)


def test_thousands_of_names_are_quick() -> None:
    names = [f"{name[:60]}_{copy}" for copy in range(4) for _, name in KNOWN]
    array = pa.array(names[:3000])
    best = min(_seconds(array) for _ in range(3))
    # 45 ms on the machine of development; room for slower ones and for neighbours.
    assert best < 0.3


def _seconds(array: pa.Array) -> float:
    start = time.process_time()
    RULES.match(array)
    return time.process_time() - start


def test_more_rules_than_one_block_keep_their_order() -> None:
    table = Rules(
        tuple(Rule(f"r{n}", ACTIVITIES[n % 9], f"k{n % 100}(?:_|$)", f"f{n}") for n in range(300))
    )
    names = [f"k{n}" for n in range(100)] + ["none"]
    assert table.match(names).tolist() == [*range(100), -1]


def test_patterns_that_fit_only_one_by_one() -> None:
    table = Rules(tuple(Rule(f"r{n}", "gemm", rf"^k{n}(?P<x>\pL)", "f") for n in range(30)))
    assert table.match(["k29a", "k3b", "k3"]).tolist() == [29, 3, -1]


# ------------------------------------------------------------------------------ a user's file


def write(folder: Path, text: str) -> Path:
    path = folder / "rules.toml"
    path.write_text(text, "utf-8")
    return path


def test_users_rules_go_first(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        [[rule]]
        id = "ours"
        activity = "moe"
        pattern = '^nvjet_'
        examples = ["nvjet_tst_64x8"]

        [[rule]]
        id = "copies"
        activity = "copy"
        pattern = '(?i)OUR_COPY'
        family = "ours.copy"
        """,
    )
    rules = load_rules(path)
    names = ["nvjet_tst_64x8", "our_copy_kernel", "_fwd_kernel"]
    codes = classify(names, rules=rules)
    assert [ACTIVITIES[code] for code in codes] == ["moe", "copy", "attention"]
    assert rules.families(names) == ["ours", "ours.copy", "attention.prefill"]
    assert activity_column(ops([("kernel", "nvjet_x")]), rules).to_pylist() == ["moe"]
    assert words(names) == ["gemm", "other", "attention"]


RULE = "[[rule]]\nid = 'mine'\nactivity = 'gemm'\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no rules in it"),
        ("rule = 3", "no rules in it"),
        ("rules = []", "'rules' is not known"),
        ("[[rule", "not TOML"),
        ("x = " + "[" * 50_000, "not TOML"),
        ("[[rule]]\nactivity = 'gemm'", "has no id"),
        ("[[rule]]\nid = 'mine'\npattern = 'x'", "activity is None"),
        ("[[rule]]\nid = 'mine'\nactivity = 'gem'\npattern = 'x'", "use one of attention, gemm"),
        ("[[rule]]\nid = 'mine'\nactivity = 'graph'\npattern = 'x'", "activity is 'graph'"),
        (RULE, "has no pattern"),
        (RULE + "pattern = 'x'\nregex = 'x'", "'regex' is not known"),
        (RULE + "pattern = 'x'\nfamily = 1", "family is no text"),
        (RULE + "pattern = 'x'\nexamples = 'x'", "examples is no list"),
        (RULE + "pattern = 'xy'\nexamples = ['xyz', 'zx']", "example 'zx' does not match"),
        (RULE + "pattern = '(x'", "not usable"),
        (RULE + "pattern = '(?=x)'", "in place of look-around"),
        (RULE + r"pattern = '(x)\1'", "not usable"),
        (RULE + "pattern = '.*'", "matches every name"),
        (RULE + "pattern = '" + "x" * 501 + "'", "501 characters"),
        (RULE + r"pattern = '\w{900}x'", "repeats 900 times"),
        (RULE + r"pattern = '(?:\w{30}y){30,}x'", "repeats 900 times"),
        (RULE + "pattern = 'x'\n" + RULE + "pattern = 'y'", "a second rule of that id"),
        ((RULE + "pattern = 'x'\n") * 201, "201 rules"),
        ("# " + "x" * 300_000, "larger than 256 KiB"),
        ("[[rule]]\nid = \"\\u001b[31m\"\nactivity = 'gemm'\n", "has no pattern"),
    ],
)
def test_errors_of_a_users_file(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load_rules(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert says in message
    assert message.isprintable()
    assert len(message) < len(str(path)) + 400


def test_a_users_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_rules(tmp_path / "missing.toml")
    with pytest.raises(UsageError, match="cannot be read"):
        load_rules(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        load_rules(binary)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+b", "(?:a?){9}a{9}", ".*.*.*.*=.*"])
def test_patterns_that_stall_others_are_linear_here(tmp_path: Path, pattern: str) -> None:
    rules = load_rules(write(tmp_path, RULE + f"pattern = '{pattern}x'\n"))
    start = time.process_time()
    rules.match(["a" * 5_000 + "!"] * 20)
    assert time.process_time() - start < 2.0


def test_codes_are_small_integers() -> None:
    assert classify(["nvjet_x"]).dtype == np.int8


def test_what_was_asked_before_is_answered_alike_and_little_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(name_rules, "MOST_KNOWN", 3)
    matcher = name_rules.Matcher(["^a", "^b", "c$"])
    long = "b" * (name_rules.LONGEST_KNOWN + 1)
    for names in (["a1", "x"], ["x", "b1", "a1", long], ["b1", "c", "a2", "a1", "dc"], [long]):
        fresh = name_rules.Matcher(["^a", "^b", "c$"]).first(pa.array(names))
        assert matcher.first(pa.array(names)).tolist() == fresh.tolist()
        assert matcher.first(pa.array(names)).dtype == fresh.dtype
        assert len(matcher._known) <= 3
        assert long not in matcher._known
