"""One cycle on the page, and the choice of another: all ops of a few are inside, parts of most."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from specscope.analyzers.report import Report
from specscope.dashboards import sections
from specscope.dashboards.cycle_choice import Listed, listed, parts_by_cycle, same_cycles
from specscope.dashboards.cycle_slice import CycleSlice, cycle_slice, parts_of
from specscope.dashboards.figures import (
    Part,
    part_ns,
    part_order,
    parts_figure,
    timeline_figure,
)
from specscope.dashboards.html_blocks import escape, figure_block, json_block
from specscope.dashboards.units import count_text, time_text

# Where the ops of further cycles go, as far as there is room.
MORE: Final = "<!-- further cycles -->"
_PARTS: Final = "Parts of the cycle on each rank"

DRAW: Final = """
(function () {
  var config = { responsive: true, displaylogo: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  function read(found) { return found ? JSON.parse(found.textContent) : null; }
  function id(name) { return document.getElementById(name); }
  var waiting = [];
  document.querySelectorAll("script[data-target]").forEach(function (block) {
    waiting.push(block);
  });
  function draw(name) {
    waiting = waiting.filter(function (block) {
      if (name && block.dataset.target !== name) { return true; }
      var figure = read(block), target = id(block.dataset.target);
      Plotly.newPlot(target, figure.data, figure.layout, config);
      if (block.dataset.target === "cycles") { target.on("plotly_click", clicked); }
      return false;
    });
  }
  function next() {
    if (waiting.length) { draw(waiting[0].dataset.target); setTimeout(next, 0); }
  }
  window.addEventListener("beforeprint", function () { draw(); });
  setTimeout(next, 0);
  var every = read(document.querySelector("script[data-every]")), choice = id("cycle-choice");
  var drawn = { figure: read(document.querySelector("script[data-target='timeline']")),
    left_out: id("cycle-left-out") ? id("cycle-left-out").textContent : "" };
  function clicked(event) {
    var place = event.points[0].customdata;
    if (place && every) { show(Number(place[1])); id("cycle-title").scrollIntoView(); }
  }
  function show(number) {
    draw("parts");
    draw("timeline");
    var cycle = every.cycles[number], ops;
    id("cycle-title").textContent = every.title + number;
    id("cycle-missing").textContent = every.missing.split("{}").join(number);
    id("cycle-about").textContent = cycle ? cycle.about : "";
    if (cycle) {
      choice.value = number;
      Plotly.restyle("parts", { x: cycle.x, customdata: cycle.texts });
    }
    id("parts").hidden = !cycle;
    if (!id("timeline")) { return; }
    ops = number === every.drawn ? drawn
      : read(document.querySelector("script[data-cycle='" + number + "']"));
    id("timeline").hidden = !ops;
    id("cycle-missing").hidden = !!ops;
    id("cycle-left-out").hidden = !ops;
    if (ops) {
      Plotly.react("timeline", ops.figure.data, ops.figure.layout, config);
      id("cycle-left-out").textContent = ops.left_out;
    }
  }
  if (choice) {
    choice.addEventListener("change", function () { show(Number(choice.value)); });
  }
})();
"""


def cycle_section(
    report: Report, pieces: Sequence[CycleSlice], asked: bool, bars: int
) -> Iterator[str]:
    """The chosen cycle: its parts on each rank, then its ops in time."""
    first = pieces[0]
    lap = sections.lap(report)
    which = "" if asked else ", the one closest to the median"
    numbers = ", ".join(f"{piece.number} on rank {piece.rank}" for piece in pieces)
    if len({piece.number for piece in pieces}) == 1:
        numbers = f"number {first.number}"
    yield f'<h2 id="cycle-title">One {lap}{escape(which)}: {escape(numbers)}</h2>'
    names = sections.stage_names(report)
    if report.blind:
        yield (
            f'<p class="soft">{time_text(first.ns)} on rank {first.rank}. GPU work is '
            "missing in the trace: where nothing is drawn on a stream, something may have run.</p>"
        )
    else:
        yield from _parts(report, pieces, asked, names)
    if not any(piece.ops for piece in pieces):
        return
    timeline, left_out = timeline_figure(pieces, names, bars)
    yield (
        '<p class="soft">The same in time: launches on the host, and what ran on each stream. '
        "Drag to zoom, double-click to go back.</p>"
    )
    yield f'<p id="cycle-left-out">{escape(_left_out(left_out, bars))}</p>'
    yield from figure_block("timeline", timeline, "Calls and ops of the cycle in time")
    yield MORE


def _left_out(count: int, bars: int) -> str:
    if not count:
        return ""
    return (
        f"The {count_text(count)} shortest ops and calls are not drawn: this page holds "
        f"{count_text(bars)}. --cycle on the terminal shows all."
    )


def _parts(
    report: Report, pieces: Sequence[CycleSlice], asked: bool, names: Mapping[str, str]
) -> Iterator[str]:
    """The parts of the chosen cycle, and of the others as data where there are any."""
    first = pieces[0]
    choice = listed(report, first.number, "" if asked else "closest to the median")
    if len(choice) > 1:
        yield '<p><label for="cycle-choice">Another one: </label><select id="cycle-choice">'
        for one in choice:
            chosen = " selected" if one.number == first.number else ""
            yield f'<option value="{one.number}"{chosen}>{escape(one.text)}</option>'
        yield "</select></p>"
    yield (
        f'<p class="soft"><span id="cycle-about">{escape(_about(first.ns, first.rank))}</span> '
        "Full colour is compute, hatched a collective, dotted a copy, light is idle; the parts sum "
        "to its length.</p>"
    )
    with_parts = [(piece, parts_of(report, piece)) for piece in pieces]
    if len(choice) < 2:
        yield from figure_block("parts", parts_figure(with_parts, names), _PARTS)
        return
    same = same_cycles(report, [one.number for one in choice])
    rows = parts_by_cycle(report, same)
    order = part_order(row for found in rows.values() for row in found)
    yield from figure_block("parts", parts_figure(with_parts, names, order), _PARTS)
    every: dict[str, Any] = {
        "title": f"One {sections.lap(report)}: number ",
        "missing": "The ops of number {} are not inside this page; this draws them: "
        "analyze PATH... --cycle {} --html FILE",
        "drawn": first.number,
        "cycles": {},
    }
    for one in choice:
        numbers = dict(same[one.number])
        found = [rows.get((piece.rank, numbers.get(piece.rank, -1)), []) for piece in pieces]
        every["cycles"][one.number] = _one(one, first.rank, found, order)
    yield json_block(json.dumps(every, allow_nan=False), every="parts")
    yield '<p id="cycle-missing" hidden></p>'


def _one(
    one: Listed, rank: int, rows: Sequence[list[dict[str, Any]]], order: Sequence[Part]
) -> dict[str, Any]:
    """The lengths of each part on each rank, in the order of the traces."""
    ns = [[part_ns(found, *part) for found in rows] for part in order]
    return {
        "about": _about(one.ns, rank) + (f" It is {one.why}." if one.why else ""),
        "x": [[value / 1e6 for value in line] for line in ns],
        "texts": [[time_text(value) for value in line] for line in ns],
    }


def _about(ns: int, rank: int) -> str:
    return f"{time_text(ns)} on rank {rank}."


def more_cycles(report: Report, pieces: Sequence[CycleSlice], bars: int, room: int) -> str:
    """The ops of the further cycles that are worth it, within `room` bytes."""
    if report.blind or not any(piece.ops for piece in pieces):
        return ""
    drawn = pieces[0].number
    choice = [one for one in listed(report, drawn, "") if one.whole and one.number != drawn]
    names = sections.stage_names(report)
    same = same_cycles(report, [one.number for one in choice])
    blocks = []
    for one in choice:
        found = [cycle_slice(report, rank, number) for rank, number in same[one.number]]
        timeline, left_out = timeline_figure(found, names, bars)
        words = json.dumps(_left_out(left_out, bars))
        text = f'{{"figure": {timeline.to_json()}, "left_out": {words}}}'
        block = json_block(text, cycle=one.number)
        if len(block.encode()) > room:
            continue
        room -= len(block.encode())
        blocks.append(block)
    return "\n".join(blocks)
