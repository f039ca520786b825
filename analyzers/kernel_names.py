"""Is it the same kernel? Two names of it, where one writer demangles and the other does not."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

# What tools put behind a name.
_SUFFIX: Final = re.compile(r"(?:\s*\[clone [^\]]*\])+$|\.kd$")
_LENGTH: Final = re.compile(r"L?(\d{1,6})")
_LEAD: Final = re.compile(r"(?:(?:void|static|__global__)\s+)*")
_ANONYMOUS: Final = "(anonymous namespace)"
# Kernels by which ROCm carries out the copies and sets of a graph.
_ROCM_STAND_INS: Final = re.compile(r"__amd_rocclr_(copy|fill)")


@lru_cache(maxsize=1 << 16)
def same_kernel(one: str, other: str) -> bool:
    """Do both name one kernel?

    Equal texts do, blanks aside. A mangled and a demangled name do when their qualified names
    agree up to the first template argument.

    >>> same_kernel("_ZN5aiter12add_rms_quantIDF16bEEvPT_", "void aiter::add_rms_quant<bf16>(a*)")
    True
    >>> same_kernel("void a::norm<float>(int)", "void a::norm<half>(int)")
    False
    """
    if one == other:
        return True
    one, other = _SUFFIX.sub("", one), _SUFFIX.sub("", other)
    if one.startswith("_Z") == other.startswith("_Z"):
        return one.replace(" ", "") == other.replace(" ", "")
    mangled, plain = (one, other) if one.startswith("_Z") else (other, one)
    name = qualified(mangled)
    return bool(name) and name == _plain(plain)


def is_stand_in(kernel: str) -> bool:
    """Does ROCm run that kernel in place of a copy or a set?"""
    return _ROCM_STAND_INS.match(kernel) is not None


@lru_cache(maxsize=4096)
def qualified(mangled: str) -> str:
    """The qualified name in a mangled one, up to its first template argument; empty: unread.

    >>> qualified("_ZN12_GLOBAL__N_13fooIfEEvPf"), qualified("_Z4silui")
    ('(anonymous namespace)::foo', 'silu')
    """
    at = 2
    nested = mangled.startswith("N", at)
    if nested:
        at += 1
        while mangled[at : at + 1] in ("K", "V", "r"):
            at += 1
    parts: list[str] = []
    if mangled.startswith("St", at):
        parts, at = ["std"], at + 2
    while match := _LENGTH.match(mangled, at):
        start, size = match.end(), int(match[1])
        part = mangled[start : start + size]
        if len(part) < size:
            return ""
        parts.append(_ANONYMOUS if part.startswith("_GLOBAL__N") else part)
        at = start + size
        if not nested:
            break
    return "::".join(parts)


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    """The qualified name in a demangled one, up to its first template argument."""
    at = _LEAD.match(name)
    start = at.end() if at else 0
    out = []
    while start < len(name):
        if name.startswith(_ANONYMOUS, start):
            out.append(_ANONYMOUS)
            start += len(_ANONYMOUS)
        elif name[start] in "<(":
            break
        else:
            out.append(name[start])
            start += 1
    return "".join(out).strip()
