"""What was measured beside the traces and read for this analysis, before any of it is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specscope.analyzers.acceptance import Acceptance
from specscope.traces.run import Note

if TYPE_CHECKING:
    from specscope.analyzers.report import Report


@dataclass(frozen=True)
class Inputs:
    """Files and addresses that were given by options, read.

    `acceptances`: what each says of acceptance, in the order of trust. `plain`: the report of a
    run of the same server without speculation. `notes`: what of the files could not be read.
    """

    acceptances: tuple[Acceptance, ...] = ()
    plain: Report | None = None
    plain_tokens_per_second: float | None = None
    notes: tuple[Note, ...] = ()
