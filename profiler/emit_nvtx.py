"""NVTX ranges, which Nsight sees: by the `nvtx` package's domains, or by `torch.cuda.nvtx`.

A domain range with kept attributes costs a fraction of `torch.cuda.nvtx` and stands apart in a
domain named `specscope`, so the package comes first. Its attributes are kept for each distinct
text; the cycle number, new every time, is the payload and not in the text, for every text is
registered for good.

Without a tool the package hands out a dummy domain: then nothing listens and a range costs
nothing. Newer packages also do so under older tools; where the environment shows that a tool
was injected, `torch.cuda.nvtx` takes over, and the report says so.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Final, Protocol

from . import grammar

DOMAIN: Final = grammar.DOMAIN
# Distinct texts kept a thread; beyond, a range carries its stage only.
MOST_TEXTS: Final = 512
# Variables by which a tool is loaded into a process.
_INJECTED: Final = ("NVTX_INJECTION64_PATH", "NVTX_INJECTION32_PATH", "CUDA_INJECTION64_PATH")

Values = tuple[int | None, ...]


class Ranges(Protocol):
    """Where NVTX ranges go; `push` and `pop` come in pairs on one thread."""

    name: str

    def push(self, stage: str, values: Values) -> None:
        """Open a range; `values` in the order of `grammar.FIELDS`."""

    def pop(self) -> None:
        """Close the innermost."""


class _Kept(threading.local):
    """Attributes of one thread: their payload is set anew for each range."""

    def __init__(self) -> None:
        self.by_stage: dict[str, dict[Values, Any]] = {}
        self.texts = 0


class DomainRanges:
    """Ranges in a real domain of the `nvtx` package."""

    def __init__(self, domain: Any, version: str) -> None:
        self.name = f"nvtx {version}, domain {DOMAIN}"
        self._domain = domain
        self._push = domain.push_range
        self.pop = domain.pop_range
        self._kept = _Kept()
        self._has_payload = _takes_payload(domain)

    def push(self, stage: str, values: Values) -> None:
        """Open a range of the bare text, the cycle number as its payload."""
        cycle = values[0]
        fixed = values[1:]
        try:
            attributes = self._kept.by_stage[stage][fixed]
        except KeyError:
            attributes = self._make(stage, fixed)
        if self._has_payload:
            attributes.payload = cycle
        self._push(attributes)

    def _make(self, stage: str, fixed: Values) -> Any:
        kept = self._kept
        of_stage = kept.by_stage.setdefault(stage, {})
        if kept.texts >= MOST_TEXTS:
            fixed = (None,) * len(fixed)
            if fixed in of_stage:
                return of_stage[fixed]
        text = grammar.bare(stage, (None, *fixed))
        attributes = of_stage[fixed] = self._domain.get_event_attributes(message=text)
        kept.texts += 1
        return attributes


class TorchRanges:
    """Ranges of the whole text in torch's default domain."""

    name = "torch.cuda.nvtx"

    def __init__(self, nvtx: Any) -> None:
        self._push = nvtx.range_push
        self._pop = nvtx.range_pop

    def push(self, stage: str, values: Values) -> None:
        """Open a range of the whole text."""
        self._push(grammar.PREFIX + grammar.bare(stage, values))

    def pop(self) -> None:
        """Close the innermost."""
        self._pop()


class _OlderDomain:
    """A domain of the package before 0.2.12, with the calls of a newer one."""

    def __init__(self, lib: Any, domain: Any) -> None:
        self._lib = lib
        self._domain = domain
        self._handle = domain.handle

    def push_range(self, attributes: Any) -> None:
        self._lib.push_range(attributes, self._handle)

    def pop_range(self) -> None:
        self._lib.pop_range(self._handle)

    def get_event_attributes(self, message: str) -> Any:
        """New ones: those of the package are shared by all threads, and so is their payload."""
        return self._lib.EventAttributes(self._domain.get_registered_string(message), "blue")


def find(wish: str) -> tuple[Ranges | None, str]:
    """Where ranges go by the wish (`auto`, `package`, `torch`, `off`), and why.

    Never raises; the reason names what was found.
    """
    if wish == "off":
        return None, "switched off"
    ranges, reason = (None, "") if wish == "torch" else _package()
    if ranges is not None or wish == "package":
        return ranges, reason
    injected = _injected()
    if wish != "torch" and injected is None:
        return None, reason
    torch_ranges, torch_reason = _torch()
    said = f"{reason}; a tool is injected ({injected})" if reason else ""
    return torch_ranges, "; ".join(text for text in (said, torch_reason) if text)


def _injected() -> str | None:
    """The variable by which a tool was loaded into this process."""
    return next((name for name in _INJECTED if os.environ.get(name)), None)


def _package() -> tuple[Ranges | None, str]:
    try:
        import nvtx
    except ImportError:
        return None, "the package nvtx is not installed"
    except Exception as error:
        return None, f"the package nvtx cannot be loaded ({type(error).__name__})"
    try:
        from importlib.metadata import version

        number = version("nvtx")
        domain = nvtx.get_domain(DOMAIN)
        if not hasattr(domain, "push_range"):
            if _injected() is None:
                return None, f"nvtx {number} cannot say whether a tool listens; none is injected"
            return DomainRanges(_OlderDomain(nvtx._lib, domain), number), f"nvtx {number}: a domain"
        dummy = getattr(nvtx._lib, "DummyDomain", None)
        if (dummy is not None and isinstance(domain, dummy)) or _is_dummy(domain):
            return None, f"nvtx {number} gives a dummy domain: no tool that it knows listens"
        return DomainRanges(domain, number), f"nvtx {number}: a real domain, a tool listens"
    except Exception as error:
        return None, f"the package nvtx gives no domain ({type(error).__name__})"


def _takes_payload(domain: Any) -> bool:
    """Can attributes that are kept be given another payload? Not in older packages."""
    try:
        attributes = domain.get_event_attributes(message=grammar.CYCLE)
        attributes.payload = 0
        attributes.payload = None
    except Exception:
        return False
    return True


def _is_dummy(domain: Any) -> bool:
    """A dummy domain has no attributes to give."""
    return "Dummy" in type(domain).__name__ or domain.get_event_attributes(message="cycle") is None


def _torch() -> tuple[Ranges | None, str]:
    torch = sys.modules.get("torch")
    if torch is None:
        return None, "torch is not loaded, so torch.cuda.nvtx cannot be used"
    try:
        nvtx = torch.cuda.nvtx
        if nvtx.range_push("specscope") is None:
            raise RuntimeError("no range")
        nvtx.range_pop()
    except Exception as error:
        return None, f"torch.cuda.nvtx does not work here ({type(error).__name__})"
    return TorchRanges(nvtx), "ranges by torch.cuda.nvtx"
