"""The folder of a row that is taken again: what was measured in it is not given up for nothing."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specscope.profiler import run_file

_ASIDE: Final = ".before"


@dataclass
class Taken:
    """A folder that is measured into. `kept`: nothing new came, what was there is there again."""

    kept: bool = False


@contextlib.contextmanager
def taken_again(folder: Path) -> Iterator[Taken]:
    """An empty folder for the body; where that leaves no run.json, the folder as it was before.

    What was there lies beside it meanwhile, and is found there also after a kill.
    """
    aside = folder.with_name(folder.name + _ASIDE)
    restore(folder)
    if (folder / run_file.NAME).exists():
        folder.replace(aside)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    taken = Taken()
    try:
        yield taken
    finally:
        taken.kept = restore(folder)


def restore(folder: Path) -> bool:
    """Settle which of two folders it is: the new one, once it has a run.json, else the old one.

    Whether it is the old one that was put aside.
    """
    aside = folder.with_name(folder.name + _ASIDE)
    if not aside.exists():
        return False
    if (folder / run_file.NAME).exists():
        shutil.rmtree(aside, ignore_errors=True)
        return False
    shutil.rmtree(folder, ignore_errors=True)
    aside.replace(folder)
    return True
