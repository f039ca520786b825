"""Prints the commands of the `sh` blocks of Markdown files, for `bash -e`.

A block marked ```sh is run by CI; anything else (```console, ```text) is only shown.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def main(paths: list[str]) -> None:
    """Print every block, in order, each named by its file."""
    for path in paths:
        for block in BLOCK.findall(Path(path).read_text("utf-8")):
            print(f"echo '--- {path}'")
            print(block)


if __name__ == "__main__":
    main(sys.argv[1:])
