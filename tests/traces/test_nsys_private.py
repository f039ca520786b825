"""What is kept of a report's export holds nothing private, and reads alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from specscope.traces import nsys_private
from tests.shared import shared_path
from tests.traces.nsys_files import Row, call, kernel, nvtx, pid, read, strings, write

TOKEN = "hf_plantedTokenPlantedToken123456"


def private_export(path: Path) -> Path:
    tables: dict[str, list[Row]] = {
        "StringIds": [
            *strings(
                "cudaLaunchKernel", "gemm", "verify", f"HF_TOKEN={TOKEN}\0HOME=/home/a", TOKEN
            ),
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [call(1, 2, 1, 1)],
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(3, 4, 1, 2)],
        "NVTX_EVENTS": [nvtx(0, 9, None, textId=3)],
        "META_DATA_CAPTURE": [
            {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": f"HF_TOKEN={TOKEN}"},
            {"name": "PROCESS_0:ARGUMENT_1", "value": f"--api-key={TOKEN}"},
            {"name": "TARGET_OPTIONS:ENV_VAR", "value": TOKEN},
            {"name": "CAPTURE_EVENT_TYPE", "value": "Cuda"},
        ],
        "META_DATA_EXPORT": [
            {"name": "EXPORT_HOST", "value": TOKEN},
            {"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"},
        ],
        "ProcessStreams": [{"globalPid": pid(), "filenameId": 4, "contentId": 5}],
        "ANALYSIS_FILE": [{"id": 1, "filename": TOKEN, "contentId": 5, "globalPid": pid()}],
        "TARGET_INFO_ENVIRONMENT": [{"value": TOKEN}],
        "TARGET_INFO_SYSTEM_ENV": [{"name": "Hostname", "value": TOKEN}],
    }
    return write(path, tables)


def test_no_byte_of_the_environment_or_the_output_is_left(tmp_path: Path) -> None:
    path = private_export(tmp_path / "x.sqlite")
    (before,) = read(path)
    assert TOKEN.encode() in path.read_bytes()
    nsys_private.strip(path)
    assert TOKEN.encode() not in path.read_bytes()
    (after,) = read(path)
    for table in ("ops", "calls", "ranges", "marks", "tracks"):
        assert getattr(before, table).to_pylist() == getattr(after, table).to_pylist(), table
    assert after.facts["versions"] == {"nsys_schema": "3.25.0"}
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["x.sqlite"]


@pytest.mark.parametrize(
    "name", ["torchrun_2gpu_nccl_s3.25.0.sqlite", "oldmeta_4gpu_s3.1.7.sqlite"]
)
def test_a_recording_reads_alike_without_them(name: str, tmp_path: Path) -> None:
    source = shared_path("traces", "nsight", name)
    copy = tmp_path / name
    copy.write_bytes(source.read_bytes())
    nsys_private.strip(copy)
    for a, b in zip(read(source), read(copy), strict=True):
        for table in ("ops", "calls", "ranges", "range_args", "marks", "tracks"):
            assert getattr(a, table).equals(getattr(b, table)), table
