"""Text from traces made safe to show: names of kernels, ranges and files are hostile.

`clean` is for every medium; Markdown and HTML escape their own marks on top of it.
"""

from __future__ import annotations

from typing import Final

NAME_LIMIT: Final = 120
_DOTS: Final = "..."


def clean(text: object, limit: int | None = None) -> str:
    r"""One line without control characters, direction marks or anything else that cannot be seen.

    What is not printable is shown as its escape, and `limit` cuts long names.

    >>> clean("a\x1b[31mb\u202ec\n")
    'a\\x1b[31mb\\u202ec\\n'
    >>> clean("flash_fwd_splitkv_kernel", 9)
    'flash_...'
    """
    line = str(text)
    if limit is not None and len(line) > limit:
        line = line[: max(limit - len(_DOTS), 0)] + _DOTS
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else _escape(c) for c in line)


def clean_lines(text: object) -> list[str]:
    """The same for text of our own that has several lines."""
    return [clean(line) for line in str(text).split("\n")]


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
