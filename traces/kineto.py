"""Kineto documents into the tables of one rank each.

Everything works on whole columns; no Python loop runs over events, except over the few that
carry arguments of their own (metadata events and collectives).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import schema
from .collectives import collective_table
from .events import Document
from .header import Header, read_header
from .kineto_events import Events, read_events
from .kineto_facts import dropped_counts, read_facts
from .kineto_losses import Losses, once, repaired_ends, report_odd_times, valid_ops, with_time
from .kineto_tables import call_table, op_table, range_table, track_table
from .run import RankTables

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Source:
    """The file that documents were read from, as the table `sources` names it."""

    path: str
    format: str
    bytes: int
    text_bytes: int
    fingerprint: str
    reader: str


def rank_tables(documents: Sequence[Document], source: Source) -> list[RankTables]:
    """The tables of every rank in the documents of one file.

    A file that a tool merged from several ranks (process ids such as `[TP01] 3000`) gives one
    set a label. `RankTables.rank` is the recorded rank, else the place in the file; what was
    recorded is in `facts["rank"]`.
    """
    found: list[RankTables] = []
    for document in documents:
        header = read_header(document.header)
        events, labels, label_of = read_events(document)
        losses = Losses(source.path)
        losses.add_scan(document)
        if not labels:
            found.append(_one_rank(events, header, source, losses, None))
            continue
        foreign = (label_of < 0) & (events.code > 0)
        losses.add(
            events.offset[foreign], "rank_unknown", "left out: no rank label in a merged file"
        )
        for index, rank in _ranks_of_labels(labels):
            chosen = events.take(np.flatnonzero(label_of == index))
            # distributedInfo of a merged file is that of its first rank only.
            own = Header(**{**vars(header), "rank": rank})
            found.append(_one_rank(chosen, own, source, losses, labels[index]))
            losses = Losses(source.path)
    # Without a recorded rank the place in the file is the best there is.
    return [
        rank if rank.facts["rank"] is not None else replace(rank, rank=place)
        for place, rank in enumerate(found)
    ]


def _ranks_of_labels(labels: list[str]) -> list[tuple[int, int]]:
    """(index of the label, rank) in rank order.

    The rank is the TP number when every label is only that, else the place in order.
    """
    plain = [re.fullmatch(r"TP(\d+)", label) for label in labels]
    keys = [
        [(kind, int(number)) for kind, number in re.findall(r"([A-Z]+)(\d+)", label)]
        for label in labels
    ]
    order = sorted(range(len(labels)), key=keys.__getitem__)
    if all(plain):
        return [(index, keys[index][0][1]) for index in order]
    return [(index, place) for place, index in enumerate(order)]


def _one_rank(
    events: Events,
    header: Header,
    source: Source,
    losses: Losses,
    label: str | None,
) -> RankTables:
    report_odd_times(events, losses)
    calls = once(events, with_time(events, events.rows("call", "call"), losses), losses)
    ranges = with_time(events, events.rows("annotation", "frame"), losses)
    with ThreadPoolExecutor(1) as pool:  # numpy works outside the interpreter lock
        of_host = pool.submit(_host_tables, events, header, calls, ranges, label)
        ops = valid_ops(events, events.rows("kernel", "set"), calls, losses)
        ops = once(events, ops, losses)
        ends = pool.submit(repaired_ends, events, ops, losses)
        gpu_work = op_table(events, ops, ends.result)
        tables, known = of_host.result()
    collectives, unreadable = collective_table(events, ops, ranges)
    losses.add(unreadable, "collective_unreadable", "left out of the collectives")
    facts = {
        **known,
        "path": source.path,
        "reader": source.reader,
    }
    return RankTables(
        rank=header.rank or 0,
        ops=gpu_work,
        **tables,
        collectives=collectives,
        losses=losses.table(),
        sources=_source_table(source, facts),
        facts=facts,
    )


def _host_tables(
    events: Events, header: Header, calls: Ints, ranges: Ints, label: str | None
) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """All wide tables but that of the ops, and what is known of the rank."""
    tables = {
        "calls": call_table(events, calls),
        "ranges": range_table(events, ranges),
        "tracks": track_table(events),
    }
    return tables, read_facts(events, header, tables, label)


def _source_table(source: Source, facts: dict[str, Any]) -> pa.Table:
    label = facts["label"]
    row = {
        "path": source.path if label is None else f"{source.path} [{label}]",
        "format": source.format,
        "producer": facts["producer"],
        "bytes": source.bytes,
        "text_bytes": source.text_bytes,
        "fingerprint": source.fingerprint,
        "rank": facts["rank"],
        "world_size": facts["world_size"],
        "groups": json.dumps(facts["groups"], sort_keys=True) if facts["groups"] else None,
        "devices": json.dumps(facts["devices"]) if facts["devices"] else None,
        "clock_base_ns": facts["clock_base_ns"],
        "resolution_ns": facts["resolution_ns"],
        "events": facts["events"],
        "dropped": json.dumps(dropped_counts(facts), sort_keys=True),
    }
    return pa.Table.from_pylist([row], schema=schema.SOURCES)
