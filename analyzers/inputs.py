"""What was measured beside the traces and read for this analysis, before any of it is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specscope.traces.run import Note
from specscope.traces.served import Served
from specscope.traces.server_metrics import DeviceSeconds

if TYPE_CHECKING:
    from specscope.analyzers.report import Report


@dataclass(frozen=True)
class Inputs:
    """Files and addresses that were given by options, read.

    `served`: what each says of acceptance, in the order of trust. `device`: the engine's own
    times. `plain`: the report of a run of the same server without speculation. `others`: of runs
    of it with other draft tokens or batches. `notes`: what of the files could not be read.
    """

    served: tuple[Served, ...] = ()
    device: DeviceSeconds | None = None
    plain: Report | None = None
    others: tuple[Report, ...] = ()
    plain_tokens_per_second: float | None = None
    notes: tuple[Note, ...] = ()

    def unused(self, accept_length: float | None, refused: tuple[str, ...]) -> list[Note]:
        """A note for a run that has no use for what was given.

        `accept_length`: that of the option; `refused`: why the run has no verdict.
        """
        given = (
            self.served or self.device or self.plain or self.others or self.plain_tokens_per_second
        )
        if not given and accept_length is None:
            return []
        what = "what was given of acceptance and of plain decoding is not used"
        if refused:
            return [
                Note(
                    "inputs_unused",
                    f"{what}: a rate needs a verdict, and there is none: {'; '.join(refused)}",
                    "record longer, or give --cycle-ms",
                )
            ]
        return [
            Note(
                "inputs_unused",
                f"{what}: this run has no cycle of speculation whose length is known",
                "give a trace of the server that speculates, or --cycle-ms",
            )
        ]
