"""The nodes of a graph from the modules and operators around each launch call, by layer.

Python sees layers as modules (`Qwen3DecoderLayer_3`). A compiled model has none; there layers
are counted by the operators that no compiler takes in, from one attention to the next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

# A module class that is a layer of the model, without the number of the instance.
_COMPILED: Final = re.compile(r"(?<=^Torch-Compiled Region: )(\d+)/\d+$")
LAYER: Final = re.compile(
    r"(\w*Decoder|(?!\w*(Embed|Norm|Linear|Head|Attention|MLP|Mlp|MoE|Moe))\w*)"
    r"(Layer|Block)\d*(V\d+)?"
)
# Operators that stay whole in a compiled model, one a layer.
ATTENTION: Final = re.compile(
    r"(.*::)?(unified_(mla_)?attention|(gdn|linear)_attention|mamba_mixer|short_conv)\w*"
)
_INSTANCE: Final = re.compile(r"(.+)_\d+")
BY_MODULE, BY_ATTENTION, BY_NOTHING = "module", "attention", ""


class Call(NamedTuple):
    """A launch call inside a capture. `stack` are the ranges that hold it, outermost first.

    Modules and operators are (place in the stack, name).
    """

    kind: int
    kernel: str | None
    stack: tuple[int, ...]
    modules: list[tuple[int, str]]
    operators: list[tuple[int, str]]


class Node(NamedTuple):
    """One node of a graph. `kind` is LAUNCH, COPY or SET; `kernel` is None when not recorded."""

    kind: int
    kernel: str | None
    forward: int  # how often its layer, else its outermost module, ran before
    layer: int | None
    layer_module: str  # path to the layer's module; empty where none is or none has a name
    part: str  # module class inside the layer, or an operator
    module: str
    operator: str  # what the innermost module called
    inner: str  # what made the launch call


class _Counts:
    """How often each name was entered: a range that is seen again is the same entry."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[int, int]] = {}

    def of(self, name: str, row: int) -> int:
        """Number of this entry among those of `name`, from 0."""
        entries = self._seen.setdefault(name, {})
        return entries.setdefault(row, len(entries))


def nodes_of(calls: Sequence[Call]) -> tuple[tuple[Node, ...], str]:
    """The nodes of a graph, and what tells their layers (BY_*)."""
    entries, layers = _Counts(), _Layers()
    nodes: list[Node] = []
    for kind, kernel, stack, modules, operators in calls:
        path = [name for _, name in modules]
        innermost = modules[-1][0] if modules else -1
        called = [operator_of(name) for place, name in operators if place > innermost]
        inner = operator_of(operators[-1][1]) if operators else ""
        at = next((i for i, name in enumerate(path) if LAYER.fullmatch(_class(name))), None)
        entered = at if at is not None else 0
        nodes.append(
            Node(
                kind=kind,
                kernel=kernel,
                forward=entries.of(path[entered], stack[modules[entered][0]]) if path else 0,
                layer=None if at is None else layers.number(path[:at], path[at]),
                layer_module="" if at is None else "/".join(path[: at + 1]),
                part=_part(path, at),
                module="/".join(path),
                operator=called[0] if called else inner,
                inner=inner,
            )
        )
    if any(node.layer is not None for node in nodes):
        return tuple(nodes), BY_MODULE
    return _counted_by_attention(nodes, calls)


def operator_of(name: str) -> str:
    """The operator without the number that torch.compile gives its code for each shape."""
    return _COMPILED.sub(r"\1", name)


def _part(path: Sequence[str], layer: int | None) -> str:
    """The class of the module right below the layer, outside layers that of the innermost."""
    if not path:
        return ""
    return _class(path[-1] if layer is None else path[min(layer + 1, len(path) - 1)])


class _Layers:
    """Numbers layers in order of appearance, those below one parent together.

    The number of an instance counts the modules of its class in the process, so that it is not
    the layer's own where a draft model shares the class or layers are of two classes.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], dict[str, int]] = {}

    def number(self, parents: Sequence[str], name: str) -> int:
        """Number of that layer."""
        known = self._known.setdefault(tuple(parents), {})
        return known.setdefault(name, len(known))


def _counted_by_attention(
    nodes: Sequence[Node], calls: Sequence[Call]
) -> tuple[tuple[Node, ...], str]:
    """The nodes of a compiled model: a layer reaches from one attention to the next.

    What lies before the first attention is in no layer. The part is the operator.
    """
    out: list[Node] = []
    seen: dict[int, int] = {}  # forward: attentions so far
    last: dict[int, int] = {}  # forward: the attention that runs
    for node, call in zip(nodes, calls, strict=True):
        forward = node.forward
        anchor = next(
            (call.stack[place] for place, name in call.operators if ATTENTION.fullmatch(name)), None
        )
        if anchor is not None and last.get(forward) != anchor:
            last[forward] = anchor
            seen[forward] = seen.get(forward, 0) + 1
        count = seen.get(forward, 0)
        part = node.operator or node.part
        out.append(node._replace(layer=count - 1 if count else None, part=part))
    return tuple(out), BY_ATTENTION if seen else BY_NOTHING


def _class(name: str) -> str:
    """A module's class without the number of the instance."""
    match = _INSTANCE.fullmatch(name)
    return match[1] if match else name
