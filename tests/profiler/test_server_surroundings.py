"""What is found out around a server: its process, its GPUs, its graph captures, warnings."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from specscope.profiler import (
    capture_warnings,
    gpu_state,
    graph_traces,
    local_server,
)
from specscope.profiler.engine_probe import Engine
from specscope.profiler.local_server import LocalServer
from tests.profiler.captures import engine
from tests.profiler.fake_servers import (
    FakeSglang,
)


def test_the_process_behind_a_port_is_found() -> None:
    with FakeSglang() as fake:
        found = local_server.find(fake.port)
    assert found is not None
    assert found.pid == os.getpid()
    assert (found.same_user, found.same_disk) == (True, True)
    assert abs(found.started - time.time()) < 3600 * 24
    assert all(
        name.startswith(local_server.PREFIXES) or name in local_server.NAMES
        for name in found.environment
    )
    assert local_server.find(1) is None


@pytest.mark.parametrize(
    ("host", "is_local"), [("127.0.0.1", True), ("localhost", True), ("192.0.2.1", False)]
)
def test_addresses_of_this_machine_are_known(host: str, is_local: bool) -> None:
    assert local_server.is_local(host) == is_local


def test_the_gpus_are_read_from_nvidia_smi() -> None:
    text = (
        "0, NVIDIA H200, 580.159.04, 1980, 1980, 3201, 413.39, 76424\n"
        "1, NVIDIA H200, 580.159.04, [N/A], 1980, 3201, [Not Supported], 76424\n"
    )
    first, second = gpu_state.read(text)
    assert (first["name"], first["sm_clock_mhz"], first["power_w"]) == ("NVIDIA H200", 1980, 413.39)
    assert (second["sm_clock_mhz"], second["power_w"]) == (None, None)
    assert gpu_state.sample("no-such-program") is None


@pytest.mark.parametrize(
    ("name", "arguments", "environment", "words"),
    [
        ("sglang", {}, {}, "stands still while it writes"),
        ("sglang", {}, {"SGLANG_PROFILE_V2": "1"}, "by stage only"),
        ("vllm", {"profiler_config": {"profiler": "torch"}}, {}, "records stacks"),
        ("vllm", {}, {}, "VLLM_CUSTOM_SCOPES_FOR_PROFILING=1 is not set"),
    ],
)
def test_what_is_known_to_go_wrong_is_said_before(
    name: str, arguments: dict[str, Any], environment: dict[str, str], words: str
) -> None:
    server = Engine(name, arguments=arguments, local=LocalServer(1, (), environment))
    assert any(words in text for text in capture_warnings.before_profiling(server, stacks=False))


def test_a_well_started_vllm_is_not_warned_about() -> None:
    config = {"profiler_config": {"torch_profiler_with_stack": False}}
    local = LocalServer(1, (), {"VLLM_CUSTOM_SCOPES_FOR_PROFILING": "1"})
    server = Engine("vllm", arguments=config, local=local)
    assert capture_warnings.before_profiling(server, stacks=False) == []
    assert len(capture_warnings.before_profiling(server, stacks=True)) == 1


def test_graph_captures_of_this_server_are_brought(tmp_path: Path) -> None:
    inner = tmp_path / "server" / "graph_capture_profile"
    inner.mkdir(parents=True)
    (inner / "DecodeCudaGraphRunner_bs_1_rank0.json.gz").write_bytes(b"new")
    stale = inner / "DecodeCudaGraphRunner_bs_8_rank0.json.gz"
    stale.write_bytes(b"old")
    os.utime(stale, (1, 1))
    environment = {"SGLANG_TORCH_PROFILER_DIR": str(tmp_path / "server")}
    local = LocalServer(1, (), environment, started=time.time() - 60)
    found = graph_traces.collect(engine(local), tmp_path / "out")
    assert [path.name for path in found.files] == ["DecodeCudaGraphRunner_bs_1_rank0.json.gz"]
    assert found.files[0].read_bytes() == b"new"


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (Engine("sglang", "0.5.23"), "SGLANG_GRAPH_BATCH_CAPTURE=1 .*--enable-profile-cuda-graph"),
        (Engine("sglang", "0.5.15"), "SGLANG_ENABLE_CUDA_GRAPH_CAPTURE_TRACE=1"),
        (Engine("sglang", "0.5.9"), "0.5.9 writes none"),
        (Engine("vllm", "0.32.0"), '"capture_torch_profiler": true'),
        (
            Engine("sglang", "0.5.23", arguments={"enable_profile_cuda_graph": False}),
            "it was not started for them",
        ),
    ],
)
def test_without_graph_captures_the_start_that_makes_them_is_said(
    tmp_path: Path, server: Engine, words: str
) -> None:
    import re

    found = graph_traces.collect(server, tmp_path)
    assert found.files == ()
    assert re.search(words, found.missing)
