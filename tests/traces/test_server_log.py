"""Acceptance from logs: every format that SGLang and vLLM have written, and damage."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specscope.traces.errors import SpecscopeError, TraceFormatError, UsageError
from specscope.traces.served import LONGEST_LINE, Served
from specscope.traces.server_log import read_server_log

USAGE = "#token: 900, token usage: 0.03, "
TAIL = "cuda graph: True, gen throughput (token/s): 71.00, #queue-req: 0, "
# One line of each version, accept length 2.10.
SGLANG = {
    "0.4.6": "[2025-05-01 10:00:00 TP0] Decode batch. #running-req: 4, #token: 900, "
    "token usage: 0.03, accept len: 2.10, cuda graph: True, gen throughput (token/s): 71.00, "
    "#queue-req: 0",
    "0.5.3": f"[2025-10-01 10:00:00 TP0] Decode batch. #running-req: 4, {USAGE}"
    f"swa token usage: 0.01, accept len: 2.10, {TAIL}",
    "0.5.4": f"[2025-11-01 10:00:00] Decode batch, #running-req: 4, {USAGE}accept len: 2.10, "
    f"accept rate: 0.53, {TAIL}",
    "0.5.9": f"[2026-01-01 10:00:00 DP1 TP0] Decode batch [812], #running-req: 4, {USAGE}"
    f"accept len: 2.10, accept rate: 0.53, pre-allocated usage: 0.00, #prealloc-req: 0, {TAIL}",
    "0.5.16": f"[2026-08-01 10:00:00] Decode batch, #running-req: 4, {USAGE}accept len: 2.10, "
    f"accept rate: 0.37, cap len: 3.00, block accept len: 1.90, {TAIL}"
    "est. decode TFLOPS/s (per GPU): 12.3, est. read BW (GB/s per GPU): 800.00, "
    "est. write BW (GB/s per GPU): 3.00, fwd occupancy: 93.2%",
    "0.5.16, block first": f"Decode batch, #running-req: 4, {USAGE}block accept len: 1.90, "
    f"accept len: 2.10, accept rate: 0.37, {TAIL}",
}
VLLM = (
    "(APIServer pid=1) INFO 09-04 11:01:16 [metrics.py:100] SpecDecoding metrics: "
    "Mean acceptance length: {mean}, {depth}Accepted throughput: 6.46 tokens/s, "
    "Drafted throughput: 7.77 tokens/s, Accepted: {accepted} tokens, Drafted: {drafted} tokens, "
    "Per-position acceptance rate: {rates}, Avg Draft acceptance rate: 83.1%"
)


def vllm(mean: str, accepted: int, drafted: int, rates: str, depth: str = "") -> str:
    return VLLM.format(mean=mean, accepted=accepted, drafted=drafted, rates=rates, depth=depth)


def read(folder: Path, *lines: str) -> Served:
    path = folder / "serve.log"
    path.write_text("\n".join(["INFO starting", *lines]) + "\n")
    return read_server_log(path)


@pytest.mark.parametrize("version", SGLANG)
def test_a_decode_line_of_sglang(tmp_path: Path, version: str) -> None:
    found = read(tmp_path, SGLANG[version])
    assert (found.engine, found.accept_length, found.cycles) == ("sglang", 2.10, 160.0)
    assert (found.used, found.damaged, found.empty) == (1, 0, 0)
    has_rate = version not in ("0.4.6", "0.5.3")
    assert (found.rate is not None) is has_rate
    assert found.source == "server log serve.log"


@pytest.mark.parametrize(
    ("line", "length", "cycles", "positions"),
    [
        (vllm("2.50", 150, 300, "0.800, 0.500, 0.200"), 2.5, 100, (0.8, 0.5, 0.2)),
        # 0.27 on says how deep it drafts.
        (
            vllm("6.82", 256, 308, "1.000, 1.000, 1.000, 1.000, 0.795, 0.614, 0.409",
                 "Current speculative depth: 7, "),
            1 + 256 / 44, 44, (1, 1, 1, 1, 0.795, 0.614, 0.409),
        ),
        # Before the bonus token was added to the mean.
        (vllm("1.50", 150, 300, "0.800, 0.500, 0.200"), 2.5, 100, (0.8, 0.5, 0.2)),
        # Drafts of several lengths: fewer tokens than passes times the longest.
        (vllm("2.00", 100, 150, "0.700, 0.300"), 2.0, 100, (0.7, 0.3)),
        (vllm("1.00", 0, 300, "0.000, 0.000, 0.000"), 1.0, 100, (0, 0, 0)),
    ],
)  # fmt: skip
def test_a_line_of_vllm(
    tmp_path: Path, line: str, length: float, cycles: float, positions: tuple[float, ...]
) -> None:
    found = read(tmp_path, line)
    assert found.engine == "vllm"
    assert found.accept_length == pytest.approx(length)
    assert found.cycles == pytest.approx(cycles)
    assert found.by_position == pytest.approx(positions)


def test_a_mean_without_the_bonus_token_is_named(tmp_path: Path) -> None:
    assert "lacks the bonus" in read(tmp_path, vllm("1.50", 150, 300, "0.8, 0.5, 0.2")).convention
    assert "included" in read(tmp_path, vllm("2.50", 150, 300, "0.8, 0.5, 0.2")).convention


def test_an_old_line_of_vllm_has_counts_and_no_cycles(tmp_path: Path) -> None:
    line = "Draft acceptance rate: 64.5%, Accepted: 167 tokens, Drafted: 259 tokens"
    found = read(tmp_path, f"SpecDecoding metrics: {line}")
    assert (found.accept_length, found.accepted, found.drafted) == (None, 167, 259)


def test_lines_of_sglang_are_weighted_by_their_running_requests(tmp_path: Path) -> None:
    one, eight = (
        f"Decode batch, #running-req: {n}, {USAGE}accept len: {length}, accept rate: 0.50, {TAIL}"
        for n, length in ((1, "3.00"), (8, "2.00"))
    )
    found = read(tmp_path, one, eight)
    assert found.accept_length == pytest.approx((1 * 3 + 8 * 2) / 9)


def test_lines_of_vllm_are_weighted_by_their_drafts(tmp_path: Path) -> None:
    many = vllm("1.50", 150, 300, "0.5")
    few = vllm("1.90", 9, 10, "0.9")
    assert read(tmp_path, many, few).accept_length == pytest.approx(1 + 159 / 310)
    assert read(tmp_path, many, few).by_position == pytest.approx((159 / 310,))


def test_rates_are_medians_by_running_requests(tmp_path: Path) -> None:
    lines = [
        f"Decode batch, #running-req: {n}, {USAGE}accept len: 2.00, cuda graph: True, "
        f"gen throughput (token/s): {rate}, #queue-req: 0"
        for n, rate in [(8, 450.0), (8, 452.0), (8, 9.0), (8, 460.0), (8, 451.0), (1, 99.0)]
    ]
    (rate,) = read(tmp_path, *lines).rates
    assert (rate.batch, rate.lines, rate.tokens_per_second) == (8, 5, 451.0)


def test_rates_of_vllm_are_of_their_own_lines(tmp_path: Path) -> None:
    line = (
        "Engine 000: Avg prompt throughput: 0.0 tokens/s, "
        "Avg generation throughput: 71.5 tokens/s, Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%"
    )
    found = read(tmp_path, *[line] * 3, vllm("2.50", 150, 300, "0.8, 0.5, 0.2"))
    assert [(one.batch, one.tokens_per_second) for one in found.rates] == [(4, 71.5)]
    assert read(tmp_path, line, line, vllm("2.50", 150, 300, "0.8, 0.5, 0.2")).rates == ()


def test_the_interval_of_the_log_gives_the_cycles(tmp_path: Path) -> None:
    found = read(tmp_path, "server_args=ServerArgs(decode_log_interval=10, x=1)", SGLANG["0.5.4"])
    assert found.cycles == 40.0


@pytest.mark.parametrize(
    "line",
    [
        f"Decode batch, #running-req: 4, {USAGE}accept len: 2.1",  # cut inside the number
        f"Decode batch, #running-req: 4, {USAGE}accept len: x.y, {TAIL}",
        f"Decode batch, #running-req: 4, {USAGE}accept len: 0.50, {TAIL}",  # below the bonus
        f"Decode batch, #running-req: 4, {USAGE}accept len: 99999999, {TAIL}",
        f"Decode batch, #running-req: ,{USAGE}accept len: 2.10, {TAIL}",
        f"Decode batch, #running-req: ٤, {USAGE}accept len: 2.10, {TAIL}",
        "Decode batch",
    ],
)
def test_a_damaged_line_of_sglang_is_counted(tmp_path: Path, line: str) -> None:
    found = read(tmp_path, line, SGLANG["0.5.4"])
    assert (found.accept_length, found.used, found.damaged) == (2.10, 1, 1)


@pytest.mark.parametrize(
    "line",
    [
        vllm("2.50", 150, 300, "0.800, 0.500, 0.200")[:-60],
        vllm("2.50", 400, 300, "0.800, 0.500, 0.200"),  # more accepted than drafted
        vllm("9.00", 150, 300, "0.800, 0.500, 0.200"),  # a mean that the counts contradict
        vllm("2.50", 150, 300, "0.500, 0.800, 0.200"),  # rates that rise
        vllm("2.50", 150, 300, "1.500, 0.800, 0.200"),
        "SpecDecoding metrics:",
    ],
)
def test_a_damaged_line_of_vllm_is_counted(tmp_path: Path, line: str) -> None:
    found = read(tmp_path, line, vllm("2.50", 150, 300, "0.800, 0.500, 0.200"))
    assert (found.accept_length, found.used, found.damaged) == (2.5, 1, 1)


def test_lines_without_speculation_are_counted_apart(tmp_path: Path) -> None:
    plain = f"Decode batch, #running-req: 4, {USAGE}{TAIL}"
    found = read(tmp_path, plain, SGLANG["0.5.4"])
    assert (found.used, found.damaged, found.empty) == (1, 0, 1)
    idle = vllm("nan", 0, 0, "nan")
    found = read(tmp_path, idle, vllm("2.50", 150, 300, "0.8, 0.5, 0.2"))
    assert (found.used, found.damaged, found.empty) == (1, 0, 1)


def test_two_writes_on_one_line_are_two(tmp_path: Path) -> None:
    assert read(tmp_path, SGLANG["0.5.4"] + SGLANG["0.5.4"]).used == 2


@pytest.mark.parametrize(
    ("line", "simulated"),
    [
        ("env: SGLANG_SIMULATE_ACC_LEN=2.1", True),
        ("{'SGLANG_SIMULATE_ACC_LEN': '2.1'}", True),
        ("SGLANG_SIMULATE_ACC_LEN=0", False),
        ("SpeculativeConfig(synthetic_acceptance_length=2.5)", True),
        ("SpeculativeConfig(synthetic_acceptance_length=None)", False),
        ("rejection_sample_method='synthetic'", True),
        ("nothing", False),
    ],
)
def test_simulated_acceptance_is_seen_in_the_log(
    tmp_path: Path, line: str, simulated: bool
) -> None:
    assert read(tmp_path, line, SGLANG["0.5.4"]).simulated is simulated


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello\n", "no line on decoding"),
        (f"Decode batch, #running-req: 4, {USAGE}{TAIL}\n", "nothing of acceptance"),
        ("Decode batch, #run", "none of its 1 lines"),
        ("", "no line on decoding"),
    ],
)
def test_a_log_without_acceptance_says_what_it_is(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.log"
    path.write_text(text)
    with pytest.raises(TraceFormatError, match=words) as error:
        read_server_log(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["missing.log", "."])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        read_server_log(tmp_path / name)


def test_a_line_without_an_end_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"\xff\x00" * LONGEST_LINE * 8 + b"\n" + SGLANG["0.5.4"].encode())
    assert read_server_log(path).used == 1


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.text(), st.sampled_from([*SGLANG.values(), VLLM])), max_size=6))
def test_no_text_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = tmp_path_factory.getbasetemp() / "drawn.log"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    try:
        found = read_server_log(path)
    except SpecscopeError as error:
        assert "\n" not in str(error)
        return
    assert found.used > 0
    assert found.accept_length is None or found.accept_length >= 1


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_line_cut_anywhere_never_gives_another_length(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    line = data.draw(st.sampled_from(list(SGLANG.values())))
    cut = line[: data.draw(st.integers(0, len(line)))]
    path = tmp_path_factory.getbasetemp() / "cut.log"
    path.write_text(cut)
    with contextlib.suppress(TraceFormatError):
        assert read_server_log(path).accept_length == 2.10
