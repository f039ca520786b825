"""What a change would do, on the page: the ranked list, a slider for each lever, two curves.

The sliders read replays that are inside the page as data. On a grid point they show what
`specscope whatif --json` says; between two they draw a straight line and say so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from specscope.analyzers.lever_bench import Prediction
from specscope.analyzers.report import Report
from specscope.analyzers.whatif import WhatIf
from specscope.dashboards.figures_whatif import accept_panel, ranked_panel, steps_panel
from specscope.dashboards.html_blocks import bullets, escape, figure_block, json_block
from specscope.dashboards.json_whatif import whatif_json
from specscope.dashboards.safe_text import clean
from specscope.dashboards.whatif_sections import (
    basis_lines,
    between_times,
    bound_text,
    change_text,
    rate_text,
)

_TITLE: Final = "What if"
# How the page calls each lever, and a value of it; without the second it has no value between
# two others.
_LEVERS: Final = (
    ("allreduce-speedup", "faster all-reduces", "all-reduce {} times as fast"),
    ("verify-speedup", "a faster verify", "verify {} times as fast"),
    ("no-gaps", "no host work, no gaps", ""),
    ("draft-tp", "the draft on one GPU", ""),
    ("draft-graph", "the draft as one graph", ""),
    ("steps", "draft steps", ""),
    ("accept-length", "accept length", "accept length {}"),
    ("batch", "batch", ""),
    ("draft-tokens", "tokens verified a sequence", ""),
)
# Places of a slider from one grid point to the next.
_PLACES: Final = 4

SLIDE: Final = """
(function () {
  var block = document.querySelector("script[data-whatif]");
  if (!block) { return; }
  var found = JSON.parse(block.textContent);
  function time(ns) {
    if (Math.abs(ns) >= 999500) { return (ns / 1e6).toFixed(2) + " ms"; }
    return (ns / 1e3).toFixed(ns && Math.abs(ns) < 10000 ? 1 : 0) + " us";
  }
  function change(ns) {
    var text = (100 * (ns / found.cycle_ns - 1)).toFixed(1);
    if (text === "-0.0") { text = "0.0"; }
    return (text[0] === "-" ? "" : "+") + text;
  }
  function rate(value) { return value.toFixed(value >= 100 ? 0 : 1); }
  function between(low, high) {
    if (low === high) { return low; }
    var unit = low.indexOf(" ") < 0 ? "" : low.slice(low.indexOf(" "));
    return (unit && unit === high.slice(high.indexOf(" ")) ? low.slice(0, -unit.length) : low)
      + " to " + high;
  }
  function mixed(a, b, share) { return a + (b - a) * share; }
  Object.keys(found.levers).forEach(function (name) {
    var input = document.getElementById("lever-" + name), lever = found.levers[name];
    if (!input) { return; }
    function show() {
      var place = Number(input.value), at = Math.floor(place / lever.places);
      var share = place / lever.places - at, a = lever.points[at], b = lever.points[at + 1];
      var texts = a.texts, low = a.low, high = a.high;
      if (share) {
        low = mixed(a.low, b.low, share);
        high = mixed(a.high, b.high, share);
        texts = {
          value: lever.between.replace("{}", Number(mixed(a.value, b.value, share).toFixed(4))),
          cycle: between(time(low), time(high)),
          change: between(change(low), change(high)) + " %",
          rate: a.tokens_per_second && b.tokens_per_second ? between(
            rate(mixed(a.tokens_per_second[0], b.tokens_per_second[0], share)),
            rate(mixed(a.tokens_per_second[1], b.tokens_per_second[1], share))) : "-"
        };
      }
      var row = input.closest("tr");
      Object.keys(texts).forEach(function (part) {
        row.querySelector("[data-part=" + part + "]").textContent = texts[part];
      });
      row.querySelector("[data-part=how]").textContent = share ? "interpolated" : "";
      row.dataset.low = low;
      row.dataset.high = high;
      input.setAttribute("aria-valuetext", texts.value + ", " + texts.cycle + " a cycle"
        + (share ? ", interpolated" : ""));
    }
    input.addEventListener("input", show);
    show();
  });
})();
"""


def whatif_section(report: Report, found: WhatIf | None) -> Iterator[str]:
    """The list as a figure, the levers, the curves; whatever is not there says why."""
    if found is None:
        yield f"<h2>{_TITLE}</h2>"
        yield (
            '<p class="soft">Not computed for this page: specscope whatif PATH... says what a '
            "change would do.</p>"
        )
        return
    panel = ranked_panel(found)
    yield f"<h2>{escape(panel.title)}</h2>"
    yield from _words(panel.note if panel.figure is not None else panel.empty)
    if panel.figure is None:
        return
    yield from figure_block(panel.name, panel.figure, panel.title)
    yield bullets(basis_lines(found))
    yield from _levers(report, found)
    for panel in (steps_panel(found, report.throughput), accept_panel(found, report.throughput)):
        yield f"<h2>{escape(panel.title)}</h2>"
        yield from _words(panel.note if panel.figure is not None else panel.empty)
        if panel.figure is not None:
            yield from figure_block(panel.name, panel.figure, panel.title)


def _words(text: str) -> Iterator[str]:
    yield f'<p class="soft">{escape(text)}</p>'


def _levers(report: Report, found: WhatIf) -> Iterator[str]:
    """A row for each lever: its slider and what its value gives; refused ones say why."""
    yield f"<h2>{_TITLE}</h2>"
    yield from _words(
        "Each lever alone. Every mark of a slider is a replay of the run; between two of them the "
        "figures are interpolated."
    )
    yield '<div class="scroll"><table class="levers"><thead><tr><th class="words">lever</th>'
    yield '<th class="words">value</th><th>cycle</th><th>change</th><th>tok/s</th>'
    yield "<th>at most</th></tr></thead>"
    for name, title, _ in _LEVERS:
        rows = found.grid.get(name, ())
        if rows:
            yield from _lever(found, name, title, rows, _first(report, name, rows))
        elif name in found.unanswered:
            yield f'<tbody><tr><th scope="row" class="words">{escape(title)}</th>'
            why = escape(clean(found.unanswered[name]))
            yield f'<td colspan="5" class="words soft">cannot be told: {why}</td></tr></tbody>'
    yield "</table></div>"
    yield json_block(json.dumps(whatif_data(found), allow_nan=False), whatif="levers")


def _lever(
    found: WhatIf, name: str, title: str, rows: Sequence[Prediction], first: int
) -> Iterator[str]:
    row, one = rows[first], f"lever-{name}"
    texts = _texts(found, row)
    yield '<tbody><tr><th scope="row" class="words">'
    if len(rows) > 1:
        places = _places(name)
        yield f'<label for="{one}">{escape(title)}</label></th><td class="words slider">'
        yield (
            f'<input type="range" id="{one}" min="0" max="{places * (len(rows) - 1)}" step="1" '
            f'value="{places * first}" list="{one}-marks" aria-describedby="{one}-why">'
            f'<datalist id="{one}-marks">'
        )
        yield "".join(f'<option value="{places * i}"></option>' for i in range(len(rows)))
        yield f'</datalist><br><span data-part="value">{escape(texts["value"])}</span>'
        yield ' <em data-part="how"></em></td>'
    else:
        yield f'{escape(title)}</th><td class="words soft">as named</td>'
    for part in ("cycle", "change", "rate"):
        yield f'<td data-part="{part}">{escape(texts[part])}</td>'
    bound = next((one for one in rows if one.bound_ns is not None), row)
    yield f"<td>{escape(bound_text(found, bound))}</td></tr>"
    ends = f"From {rows[0].value} to {rows[-1].value}. " if len(rows) > 1 else ""
    yield f'<tr class="part"><td colspan="6" class="words" id="{one}-why">{escape(ends)}'
    yield f"{escape(_upper(clean(row.assumption)))}.</td></tr></tbody>"


def whatif_data(found: WhatIf) -> dict[str, Any]:
    """What the sliders read: the grid of `specscope whatif --json`, each point with its words."""
    document = whatif_json(found)
    between = {name: text for name, _, text in _LEVERS}
    return {
        "cycle_ns": document["cycle_ns"],
        "levers": {
            name: {
                "places": _places(name),
                "between": between.get(name, ""),
                "points": [
                    {**point, "texts": _texts(found, row)}
                    for point, row in zip(points, found.grid[name], strict=True)
                ],
            }
            for name, points in document["grid"].items()
        },
    }


def _texts(found: WhatIf, row: Prediction) -> dict[str, str]:
    return {
        "value": clean(row.title),
        "cycle": between_times(row),
        "change": change_text(found, row),
        "rate": rate_text(row),
    }


def _places(name: str) -> int:
    return _PLACES if any(lever == name and text for lever, _, text in _LEVERS) else 1


def _first(report: Report, name: str, rows: Sequence[Prediction]) -> int:
    """Where a slider stands at first: the value that runs now, else that of the ranked list."""
    known = report.throughput
    now: float | None = {"allreduce-speedup": 2.0, "verify-speedup": 1.1}.get(name)
    if known is not None:
        accepted = known.acceptance.accept_length if known.acceptance else None
        width = known.k + 1 if known.k else None
        run = {"steps": known.k, "batch": known.batch, "accept-length": accepted}
        now = {**run, "draft-tokens": width}.get(name, now)
    if now is None:
        return 0
    wanted = now
    return min(range(len(rows)), key=lambda i: abs(float(rows[i].value) - wanted))


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
