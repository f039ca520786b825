"""The plot of cost against size, as a small SVG written by hand: two series, two log axes."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor, log10
from typing import Any, Final

WIDTH: Final = 640
HEIGHT: Final = 380
LEFT, RIGHT, TOP, BOTTOM = 64, 132, 44, 48
Point = dict[str, Any]


def _read(point: Point) -> float:
    return float(point["read_cpu_s"])


def _verdict(point: Point) -> float:
    return _read(point) + float(point["verdict_cpu_s"])


SERIES: Final = (("text to tables", "#0072b2", _read), ("text to verdict", "#d55e00", _verdict))


def cost_linear(points: list[Point]) -> str:
    """CPU seconds against size of the text; the grey line is exact proportion."""
    sizes = [p["text_bytes"] for p in points]
    costs = [cost(p) for p in points for _, _, cost in SERIES]
    x = _axis(min(sizes), max(sizes), LEFT, WIDTH - RIGHT)
    y = _axis(min(costs), max(costs), HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 22, "CPU seconds by size of the trace, one core", size=14),
    ]
    for value in _decades(min(sizes), max(sizes)):
        parts += _line(x(value), TOP, x(value), HEIGHT - BOTTOM, "#e4e4e4")
        parts.append(_text(x(value), HEIGHT - BOTTOM + 18, _size(value), anchor="middle"))
    for value in _decades(min(costs), max(costs)):
        parts += _line(LEFT, y(value), WIDTH - RIGHT, y(value), "#e4e4e4")
        parts.append(_text(LEFT - 8, y(value) + 4, f"{value:g} s", anchor="end"))
    for name, colour, cost in SERIES:
        last = points[-1]
        rate = cost(last) / last["text_bytes"]
        parts += _line(
            x(sizes[0]), y(rate * sizes[0]), x(sizes[-1]), y(cost(last)), "#bbbbbb", "4 4"
        )
        path = " ".join(f"{x(p['text_bytes']):.1f},{y(cost(p)):.1f}" for p in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{x(p["text_bytes"]):.1f}" cy="{y(cost(p)):.1f}" r="3.5" fill="{colour}"/>'
            for p in points
        ]
        parts.append(_text(x(sizes[-1]) + 10, y(cost(last)) + 4, name, colour=colour))
    parts.append(_text(LEFT, HEIGHT - 8, "Dashed: in exact proportion to the largest trace."))
    return "\n".join([*parts, "</svg>", ""])


def _axis(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """From a value to a place: the logarithm, with some room at both ends."""
    bottom, top = log10(low) - 0.15, log10(high) + 0.15

    def place(value: float) -> float:
        return start + (log10(value) - bottom) / (top - bottom) * (end - start)

    return place


def _decades(low: float, high: float) -> list[float]:
    first, last = ceil(log10(low) - 0.15), floor(log10(high) + 0.15)
    return [10.0**power for power in range(first, last + 1)]


def _size(value: float) -> str:
    return f"{value / 1e9:g} GB" if value >= 1e9 else f"{value / 1e6:g} MB"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, dashes: str = "") -> list[str]:
    style = f' stroke-dasharray="{dashes}"' if dashes else ""
    return [
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{style}/>'
    ]


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", colour: str = "#333333", size: int = 12
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-size="{size}">{text}</text>'
    )
