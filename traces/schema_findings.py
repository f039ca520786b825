"""The tables of many runs: what was found in each, one Parquet dataset a table (docs/dataset.md).

The columns `run`, `model`, `engine_version` and `date` are the names of folders, and so of every
table. Times are nanoseconds, shares fractions. Texts come from traces: hostile.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

SCHEMA_VERSION: Final = 1
PARTITIONS: Final = ("run", "model", "engine_version", "date")

_TEXT, _NUMBER, _COUNT = pa.string(), pa.float64(), pa.int64()


def _schema(*fields: tuple[str, pa.DataType, str]) -> pa.Schema:
    """Fields as (name, type, meaning); a name ending in `?` may be null."""
    return pa.schema(
        [
            pa.field(name.rstrip("?"), kind, nullable=name.endswith("?"), metadata={"doc": meaning})
            for name, kind, meaning in fields
        ],
        metadata={"specscope_findings_version": str(SCHEMA_VERSION)},
    )


RUNS = _schema(
    ("path", _TEXT, "what was read, as a whole path"),
    (
        "outcome",
        _TEXT,
        "answered (also: it does not speculate), refused (figures without a verdict), unreadable, "
        "duplicate",
    ),
    (
        "reason?",
        _TEXT,
        "why no stage is named, such as `no speculation in this trace`, which is an answer too; "
        "null: one is named",
    ),
    ("sentence?", _TEXT, "the verdict in words"),
    ("stage?", _TEXT, "stage that the verdict speaks of"),
    ("share?", _NUMBER, "its share of the cycle"),
    ("share_low?", _NUMBER, "low end of the interval of that share"),
    ("share_high?", _NUMBER, "high end"),
    ("confidence?", _TEXT, "high, medium, low, none"),
    ("evidence?", _TEXT, "kinds of evidence, comma-separated"),
    ("model_name?", _TEXT, "the model as recorded; the folder has a cleaned name"),
    ("draft_model?", _TEXT, "the draft model"),
    ("engine?", _TEXT, "engine"),
    ("engine_version_name?", _TEXT, "its version as recorded"),
    ("gpus?", _TEXT, "names of the GPUs"),
    ("link?", _TEXT, "what links them"),
    ("tp?", _COUNT, "tensor-parallel ranks of the server"),
    ("batch?", _COUNT, "sequences in the counted cycles"),
    ("k?", _COUNT, "draft tokens a sequence"),
    ("accept_length?", _NUMBER, "tokens a sequence and cycle, the bonus token included"),
    ("simulated_acceptance?", _TEXT, "what the server was told to accept, where it was"),
    ("tokens_per_second?", _NUMBER, "of the batch, without a profiler"),
    ("baseline_step_ns?", _NUMBER, "a plain step of the same server, without speculation"),
    ("break_even?", _NUMBER, "accept length at which speculation equals the plain step"),
    ("speed_up?", _NUMBER, "against plain decoding: above 1 speculation wins"),
    ("recorded_at?", pa.timestamp("ms", "UTC"), "begin of the recording"),
    ("ranks", _COUNT, "ranks that were read"),
    ("speculates?", pa.bool_(), "are there cycles of speculation?"),
    ("clock?", _TEXT, "gpu, host, cuda_events"),
    ("cycles", _COUNT, "counted cycles of a rank; the least over the ranks"),
    ("cycle_ns?", _NUMBER, "their median, the median over the ranks"),
    ("unprofiled_cycle_ns?", _NUMBER, "the cycle without a profiler"),
    ("idle_share?", _NUMBER, "of the cycle"),
    ("other_activity_share?", _NUMBER, "of busy time, kernels of no known activity"),
    ("linked_share?", _NUMBER, "of busy time, linked to its launch; the least over the ranks"),
    ("placed_share?", _NUMBER, "of busy time, its stage rests on evidence; the least"),
    ("group_sentence?", _TEXT, "is the wire slow, or is a rank late? null: not known"),
    ("losses", _COUNT, "events or records that were lost or mended, see losses"),
    ("notes", _COUNT, "warnings, see notes"),
    ("content?", _TEXT, "sha256 of the fingerprints of what was read"),
    ("specscope_version", _TEXT, "that found this"),
)

RANKS = _schema(
    ("rank", _COUNT, "rank"),
    ("path", _TEXT, "its file, as given"),
    ("bytes", _COUNT, "size of the file"),
    ("events", _COUNT, "events in it"),
    ("fingerprint", _TEXT, "sha256 of size, head, tail and sampled blocks"),
    ("cycles?", _COUNT, "counted cycles"),
    ("linked_share?", _NUMBER, "of busy time"),
    ("placed_share?", _NUMBER, "of busy time"),
    ("placed_cycle_share?", _NUMBER, "of cycle time, idle included"),
    ("launches_without_op?", _COUNT, "launches that have no op on record"),
)

CYCLES = _schema(
    ("rank", _COUNT, "rank"),
    ("kind", _TEXT, "speculation, decode, prefill, mixed, empty"),
    ("batch?", _COUNT, "sequences"),
    ("count", _COUNT, "whole cycles"),
    ("warmup", _COUNT, "of them warm-up"),
    ("outliers", _COUNT, "of them outliers"),
    ("median_ns", _NUMBER, "median length"),
    ("low_ns", _NUMBER, "low end of its interval"),
    ("high_ns", _NUMBER, "high end"),
    ("leads", pa.bool_(), "the row that the verdict speaks of"),
)

STAGES = _schema(
    ("rank?", _COUNT, "rank; null: the median over the ranks"),
    ("stage", _TEXT, "stage; verify holds accept"),
    ("part_of?", _TEXT, "stage that this row is a part of"),
    ("work_ns", _NUMBER, "GPU busy, median a cycle"),
    ("idle_ns", _NUMBER, "idle that its ops end"),
    ("total_ns", _NUMBER, "both"),
    ("collective_ns?", _NUMBER, "exposed collectives; null: not to be told inside graphs"),
    ("hidden_collective_ns", _NUMBER, "collectives behind compute"),
    ("cycle_share", _NUMBER, "of the cycle"),
    ("cycle_share_low", _NUMBER, "low end of its interval"),
    ("cycle_share_high", _NUMBER, "high end"),
    ("busy_share?", _NUMBER, "of GPU busy time"),
    ("unprofiled_share_low?", _NUMBER, "of the cycle without a profiler, at least"),
    ("unprofiled_share_high?", _NUMBER, "at most"),
)

IDLE = _schema(
    ("rank?", _COUNT, "rank; null: the median over the ranks"),
    ("cause", _TEXT, "sync, host, launch_call, queue, graph, unknown"),
    ("ns", _NUMBER, "median a cycle"),
    ("cycle_share", _NUMBER, "of the cycle"),
)

ACTIVITIES = _schema(
    ("stage", _TEXT, "stage"),
    ("activity", _TEXT, "activity"),
    ("ns", _NUMBER, "median a cycle, median over the ranks"),
    ("cycle_share", _NUMBER, "of the cycle"),
)

CAUSES = _schema(
    ("id", _TEXT, "C1, C2, ... (docs/causes.md)"),
    ("title", _TEXT, "cause in words"),
    ("state", _TEXT, "seen, suspected, open, absent"),
    ("gain?", _NUMBER, "at most this times the tokens a second; null: no bound"),
    ("signs", _TEXT, "signs with their figures, separated by `; `"),
    ("missing", _TEXT, "figures that are not known, comma-separated"),
)

RANK_STAGES = _schema(
    ("rank?", _COUNT, "rank; null: the median over the ranks"),
    ("stage", _TEXT, "stage; verify holds accept"),
    ("calls", _NUMBER, "collectives a cycle"),
    ("wait_ns", _NUMBER, "wait a cycle"),
    ("transfer_ns", _NUMBER, "transfer a cycle"),
    ("wait_share", _NUMBER, "of the cycle"),
    ("transfer_share", _NUMBER, "of the cycle"),
    ("late_share?", _NUMBER, "of the collectives, those in which it arrived last"),
    ("late_ns?", _NUMBER, "lateness a cycle"),
    ("lateness_share?", _NUMBER, "of the lateness of all ranks"),
    ("cause?", _TEXT, "of most of its lateness"),
    ("cause_share?", _NUMBER, "of its lateness that this explains"),
    ("end_skew_ns?", _NUMBER, "median of its end less the mean of all ranks' ends"),
)

LOSSES = _schema(
    ("rank", _COUNT, "rank"),
    ("source", _TEXT, "file name"),
    ("reason", _TEXT, "short code (docs/losses.md)"),
    ("action", _TEXT, "what was done"),
    ("count", _COUNT, "events or records, over all places"),
)

NOTES = _schema(
    ("code", _TEXT, "short code (docs/warnings.md)"),
    ("text", _TEXT, "in words"),
    ("mend", _TEXT, "what to do about it"),
)

FINDINGS: Final = {
    "runs": RUNS,
    "ranks": RANKS,
    "cycles": CYCLES,
    "stages": STAGES,
    "idle": IDLE,
    "activities": ACTIVITIES,
    "causes": CAUSES,
    "rank_stages": RANK_STAGES,
    "losses": LOSSES,
    "notes": NOTES,
}
