"""Charts as plain SVG, readable on light and on dark ground. Standard library only."""

from __future__ import annotations

import math
import textwrap
from html import escape
from pathlib import Path
from typing import Dict, List, Sequence, Tuple

WIDTH, LEFT, RIGHT, TOP = 720, 170, 70, 44
COLOURS = ("#2f78c4", "#d9822b", "#3a9d5d", "#b0489c", "#8a6d3b", "#607d8b")
STYLE = """<style>
text { font: 12px sans-serif; fill: #24292f } .title { font-weight: bold; font-size: 14px }
.small { font-size: 10px; fill: #57606a } .axis { stroke: #8c959f } .grid { stroke: #d0d7de }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .small { fill: #9aa4ae } .axis { stroke: #6e7681 } .grid { stroke: #30363d } }
</style>"""


def number(value: float) -> str:
    """As people write it: 1.2M, 35k, 0.8."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def save(path: Path, title: str, caption: str, height: float, parts: Sequence[str]) -> None:
    rows = textwrap.wrap(caption, 115)
    bottom = height + 14 * len(rows) + 8
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom:.0f}" role="img">',
        f"<title>{escape(title)}</title>", STYLE, text(12, 22, title, "title"), *parts,
        *(text(12, height + 14 * i, row, "small") for i, row in enumerate(rows, 1)),
        "</svg>",
    ]  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(body) + "\n")


def bars(path: Path, title: str, unit: str, caption: str,
         groups: Dict[str, List[Tuple[str, float]]], log: bool = False) -> None:  # fmt: skip
    """Horizontal bars in groups: {group: [(label, value), ...]}. With log, lengths are logarithms."""
    values = [v for rows in groups.values() for _, v in rows if v > 0]
    low = min(values) / 2 if log else 0.0
    high = max(values)

    def length(value: float) -> float:
        share = math.log(max(value, low) / low) / math.log(high / low) if log else value / high
        return share * (WIDTH - LEFT - RIGHT)

    labels = list(dict.fromkeys(label for rows in groups.values() for label, _ in rows))
    parts, y = [], float(TOP)
    for group, rows in groups.items():
        y += 8
        parts.append(text(12, y + 11, group))
        y += 18
        parts.append(line(LEFT, y - 1, LEFT, y + 16 * len(rows), "axis"))
        for label, value in rows:
            colour = COLOURS[labels.index(label) % len(COLOURS)] if len(labels) <= 6 else COLOURS[0]
            parts.append(text(LEFT - 8, y + 11, label, "", "end"))
            parts.append(
                f'<rect x="{LEFT}" y="{y + 1:.1f}" width="{length(value):.1f}" height="12" fill="{colour}"/>'
            )
            parts.append(text(LEFT + length(value) + 5, y + 11, number(value)))
            y += 16
    parts.append(text(LEFT, y + 18, unit + (" (logarithmic)" if log else ""), "small"))
    save(path, title, caption, y + 28, parts)


class Axis:
    """From a low value to a high one, with marks: from 0 in round steps, or of a logarithm."""

    def __init__(self, values: Sequence[float], start: float, end: float, marks: Sequence[float] = ()) -> None:
        self.start, self.end, self.log = start, end, bool(marks)
        step = round_step(max(values))
        self.marks = marks or [i * step for i in range(int(max(values) / step) + 1)]
        self.low, self.high = (marks[0], marks[-1]) if marks else (0.0, max(values))

    def at(self, value: float) -> float:
        """Where on the picture a value is."""
        if self.low == self.high:
            share = 0.5
        elif self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def round_step(high: float) -> float:
    """A round distance of marks, some five of them up to `high`."""
    power = 10 ** math.floor(math.log10(high / 5))
    return power * next(factor for factor in (1, 2, 5, 10) if power * factor * 5.5 >= high)


def decades(values: Sequence[float]) -> List[float]:
    """The powers of ten around all of these."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values) * 1.0001))
    return [10.0**power for power in range(low, high + 1)]


def lines(path: Path, title: str, x_unit: str, y_unit: str, caption: str,
          series: Dict[str, List[Tuple[float, float]]], log: bool = False) -> None:  # fmt: skip
    """Lines on two axes from 0: {name: [(x, y), ...]}. With log, both are logarithmic, and each point is marked."""
    xs, ys = zip(*(point for points in series.values() for point in points))
    left, bottom, right = 70, 330, WIDTH - 190
    across = Axis(xs, left, right, sorted(set(xs)) if log else ())
    up = Axis(ys, bottom, TOP, decades(ys) if log else ())
    parts = []
    for y in up.marks:
        parts += [line(left, up.at(y), right, up.at(y), "grid"), text(left - 6, up.at(y) + 4, number(y), "", "end")]
    parts += [text(across.at(x), bottom + 16, number(x), "", "middle") for x in across.marks]
    parts += [line(left, bottom, right, bottom, "axis"), line(left, TOP, left, bottom, "axis")]
    parts.append(text((left + right) / 2, bottom + 34, x_unit, "small", "middle"))
    parts.append(text(12, TOP - 9, y_unit, "small"))
    for i, (name, points) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        places = [(across.at(x), up.at(y)) for x, y in points]
        path_points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path_points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places if log]
        parts.append(f'<rect x="{right + 14}" y="{TOP + 18 * i}" width="12" height="12" fill="{colour}"/>')
        parts.append(text(right + 32, TOP + 11 + 18 * i, name))
    save(path, title, caption, bottom + 44, parts)
