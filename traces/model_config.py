"""How wide a model is: the two facts of its `config.json` that a message's size depends on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .errors import UsageError
from .sniff import printable

MAX_BYTES: Final = 4 << 20
# Bytes of one element by the names that torch gives to types.
ELEMENT_BYTES: Final = {
    "bfloat16": 2,
    "float16": 2,
    "half": 2,
    "float32": 4,
    "float": 4,
}
# Keys of the element type, the newer one first.
_DTYPE_KEYS: Final = ("dtype", "torch_dtype")
# Where models of text and pictures keep the language model.
_INNER: Final = "text_config"
_MOST_HIDDEN: Final = 1 << 24


@dataclass(frozen=True)
class ModelWidth:
    """What one token carries from layer to layer."""

    hidden_size: int
    element_bytes: int

    @property
    def token_bytes(self) -> int:
        """Bytes of one token's activations."""
        return self.hidden_size * self.element_bytes


def read_model_config(path: Path) -> ModelWidth:
    """The width of the model whose `config.json` this is.

    Raises:
        UsageError: the file cannot be read, or does not say it; one line with the mend.
    """
    raw = _read(path)
    name = printable(str(path), 200)
    inner = raw.get(_INNER)
    levels = [raw, inner] if isinstance(inner, dict) else [raw]
    hidden = next((level["hidden_size"] for level in levels if "hidden_size" in level), None)
    if type(hidden) is not int or not 0 < hidden < _MOST_HIDDEN:
        raise UsageError(
            f"{name} does not say hidden_size, a whole number: give the config.json that lies "
            "beside the model's weights"
        )
    return ModelWidth(hidden, _element_bytes(levels, name))


def _element_bytes(levels: list[dict[str, Any]], name: str) -> int:
    for level in levels:
        for key in _DTYPE_KEYS:
            word = level.get(key)
            if word is None:
                continue
            size = ELEMENT_BYTES.get(str(word).removeprefix("torch."))
            if size is None:
                raise UsageError(
                    f"{name}: {key} {printable(str(word), 40)!r} is none of "
                    f"{', '.join(ELEMENT_BYTES)}: name the type that the server computes in"
                )
            return size
    raise UsageError(
        f"{name} says neither dtype nor torch_dtype: add the type that the server computes in, "
        'such as "dtype": "bfloat16"'
    )


def _read(path: Path) -> dict[str, Any]:
    name = printable(str(path), 200)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES >> 20} MiB")
        raw = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"{name} cannot be read ({error.strerror}): give a model's config.json"
        ) from error
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UsageError(
            f"{name} is no model's config.json ({printable(why, 120)}): give the one that lies "
            "beside the model's weights"
        ) from error
    if not isinstance(raw, dict):
        raise UsageError(f"{name} is no model's config.json: it holds no JSON object")
    return raw
