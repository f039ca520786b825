"""A model's config.json: hidden size and element type, or one line that says what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specscope.traces.errors import UsageError
from specscope.traces.model_config import ModelWidth, read_model_config


def config(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize(
    ("value", "width"),
    [
        ({"hidden_size": 8192, "torch_dtype": "bfloat16"}, (8192, 2)),
        ({"hidden_size": 4096, "dtype": "float32"}, (4096, 4)),
        ({"hidden_size": 64, "dtype": "torch.float16"}, (64, 2)),
        ({"hidden_size": 64, "dtype": "float16", "torch_dtype": "float32"}, (64, 2)),
        ({"text_config": {"hidden_size": 5120, "torch_dtype": "bfloat16"}}, (5120, 2)),
        ({"torch_dtype": "bfloat16", "text_config": {"hidden_size": 5120}}, (5120, 2)),
    ],
)
def test_width_is_read_where_configs_have_it(
    tmp_path: Path, value: Any, width: tuple[int, int]
) -> None:
    assert read_model_config(config(tmp_path, value)) == ModelWidth(*width)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"torch_dtype": "bfloat16"}, "does not say hidden_size"),
        ({"hidden_size": "8192", "dtype": "bfloat16"}, "does not say hidden_size"),
        ({"hidden_size": True, "dtype": "bfloat16"}, "does not say hidden_size"),
        ({"hidden_size": 0, "dtype": "bfloat16"}, "does not say hidden_size"),
        ({"hidden_size": 1 << 60, "dtype": "bfloat16"}, "does not say hidden_size"),
        ({"hidden_size": 8192}, "neither dtype nor torch_dtype"),
        ({"hidden_size": 8192, "dtype": "int3\n"}, "is none of bfloat16"),
        ([8192], "holds no JSON object"),
    ],
)
def test_what_is_missing_is_named_in_one_line(tmp_path: Path, value: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        read_model_config(config(tmp_path, value))
    assert len(str(caught.value).splitlines()) == 1


def test_what_is_no_config_is_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_bytes(b"{\xff")
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    for path in (broken, deep, tmp_path, tmp_path / "missing.json"):
        with pytest.raises(UsageError) as caught:
            read_model_config(path)
        assert len(str(caught.value).splitlines()) == 1
