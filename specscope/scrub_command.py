"""What `specscope scrub` does, and what it says of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from specscope import exits
from specscope.dashboards.progress import reading
from specscope.dashboards.safe_text import clean
from specscope.dashboards.units import size_text
from specscope.traces.scrub import scrub

# Counts of what was replaced; those of the other kinds were left out.
_REPLACED: Final = (
    "secrets",
    "environment",
    "users",
    "hosts",
    "addresses",
    "emails",
    "paths",
    "ids",
    "long texts",
    "payloads emptied",
)
_WORDS: Final = {
    "secrets": ("secret", "secrets"),
    "environment": ("variable of an environment", "variables of an environment"),
    "users": ("user name", "user names"),
    "hosts": ("host name", "host names"),
    "addresses": ("address", "addresses"),
    "emails": ("email address", "email addresses"),
    "paths": ("path", "paths"),
    "ids": ("id of a device", "ids of devices"),
    "long texts": ("long text (emptied)", "long texts (emptied)"),
    "payloads emptied": ("payload (emptied)", "payloads (emptied)"),
    "header keys left out": ("key of the header", "keys of the header"),
    "stretches left out": ("stretch that cannot be read", "stretches that cannot be read"),
    "rows left out": ("row of output or system settings", "rows of output or system settings"),
    "strings left out": (
        "string that no row refers to",
        "strings that no row refers to",
    ),
}
_SHOWN: Final = 20
JUDGE: Final = (
    "names of kernels, ranges, operators and modules stand as they were, and free text may say "
    "what no rule knows: whether the copy may be shared is for you to judge"
)


def run(source: Path, out: Path, *, force: bool = False, quiet: bool = False) -> int:
    """Do it; the exit code."""
    with reading(sys.stderr, enabled=not quiet) as on_progress:
        done = scrub(source, out, force=force, on_progress=on_progress)
    if quiet:
        return exits.DONE
    files = f"{len(done.files)} file{'' if len(done.files) == 1 else 's'}"
    exits.say(f"wrote {clean(out)} ({files}, {size_text(done.bytes)})")
    exits.say(f"replaced: {_told(done.counts, replaced=True) or 'nothing, none was found'}")
    left_out = _told(done.counts, replaced=False)
    if left_out:
        exits.say(f"left out: {left_out}")
    for line in done.not_copied[:_SHOWN]:
        exits.say(f"not copied: {clean(line)}")
    if len(done.not_copied) > _SHOWN:
        exits.say(f"not copied: {len(done.not_copied) - _SHOWN} more")
    exits.say(JUDGE)
    return exits.DONE


def _told(counts: Mapping[str, int], *, replaced: bool) -> str:
    """The counts of one sort, in words."""
    return ", ".join(
        f"{counts[kind]:,} {one if counts[kind] == 1 else many}"
        for kind, (one, many) in _WORDS.items()
        if (kind in _REPLACED) is replaced and counts.get(kind)
    )
