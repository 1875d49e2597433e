"""Line charts as SVG, of what a run measured.

The pieces (texts, round numbers of an axis) are those that draw the dashboards' pictures; a library of charts would be the only
package that the benchmark needs. There is no background: the colours can be read on white and on black, and beside the colour
each line has a marker of its own. The same figures make the same file.
"""

import math
import os
import sys
from dataclasses import dataclass
from html import escape

from sides import ROOT

sys.path.append(os.path.join(ROOT, "tests", "observe"))
import svg  # noqa: E402
import units  # noqa: E402

TEXT, GRID = "#75797f", "#75797f55"
COLOURS = ["#2b84d8", "#e0403e", "#2f9e44", "#d9730d", "#9a5fd6", "#0f9b9b", "#75797f"]
#: A circle, a square, a triangle, a diamond, drawn around a point.
MARKERS = ["m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "m-3.5 -3.5h7v7h-7z", "m0 -4.5l4.5 8h-9z", "m0 -5l5 5l-5 5l-5 -5z"]
WIDTH, MARGIN, HEAD = 880, 8, 56
#: By the number of columns.
PANEL_HEIGHT = {1: 420, 2: 300}
#: Of a panel, beside its axes.
LEFT, RIGHT, FOOT, LEGEND_ROW = 54, 24, 46, 18


@dataclass
class Line:
    """Points (x, y) in the order of x. The x of `hollow` are marked as measured past what the side can follow."""
    name: str
    points: list
    colour: int = 0
    dashed: bool = False
    hollow: frozenset = frozenset()


@dataclass
class Panel:
    """One drawing: its lines, what its axes say, which of them are logarithmic, and where x has its numbers."""
    title: str
    x: str
    lines: list
    log_x: bool = True
    log_y: bool = False
    ticks: tuple = ()


def log_ticks(low, high):
    """1, 2 and 5 of each power of ten, from the last one below `low` to the first one above `high`."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [factor * 10.0 ** decade for decade in decades for factor in (1, 2, 5)]
    first = max(place for place, tick in enumerate(ticks) if tick <= low * 1.0001)
    last = min(place for place, tick in enumerate(ticks) if tick >= high * 0.9999)
    return ticks[first:last + 1]


def label(value):
    return f"{value:,.0f}" if value == int(value) and value < 10_000 else units.short(value)


class Axis:
    """Where values are between `start` and `end`, and which of them are written beside it."""

    def __init__(self, values, log, start, end, wanted, ticks=()):
        self.place = math.log if log else float
        if log:
            self.ticks = list(ticks) or log_ticks(min(values), max(values))
            low, high = min(*self.ticks, *values), max(*self.ticks, *values)
            if len(self.ticks) > 2 * wanted:
                self.ticks = [tick for tick in self.ticks if math.log10(tick).is_integer()]
        else:
            low, high = min(ticks, default=0), max(values) or 1
            size = svg.steps(0, high, wanted)[1]
            above = [size * number for number in range(math.ceil(high / size - 1e-9) + 1)]
            self.ticks = list(ticks) or above
            high = self.ticks[-1]
        self.low, self.high = self.place(low), self.place(high)
        self.start, self.end = start, end

    def at(self, value):
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (self.place(value) - self.low) / (self.high - self.low) * (self.end - self.start)


def stroke(path, colour, width, more=""):
    return f'<path d="{path}" stroke="{colour}" stroke-width="{width}" fill="none"{more}/>'


def marker(point, line, hollow=False):
    """Lines of the same colour have the same one. A hollow one is white inside, so that its line does not run through it."""
    colour = COLOURS[line.colour % len(COLOURS)]
    fill = "#ffffff" if hollow else colour
    shape = MARKERS[line.colour % len(MARKERS)]
    return f'<path d="M{point}{shape}" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>'


def drawn(line, x, y):
    """A line and its markers."""
    colour = COLOURS[line.colour % len(COLOURS)]
    where = [(f"{x.at(at):.1f} {y.at(value):.1f}", at) for at, value in line.points]
    parts = [stroke("M" + "L".join(point for point, _ in where), colour, 2, ' stroke-dasharray="5 4"' if line.dashed else "")]
    return parts + [marker(point, line, at in line.hollow) for point, at in where]


def legend(lines, left, top, width):
    """Names behind a piece of their lines; answers the parts and how many rows they take."""
    parts, x, row = [], left, 0
    for line in lines:
        long = 40 + len(line.name) * 6.4
        if x > left and x + long > left + width:
            x, row = left, row + 1
        y = top + row * LEGEND_ROW
        colour, dash = COLOURS[line.colour % len(COLOURS)], ' stroke-dasharray="5 4"' if line.dashed else ""
        parts += [stroke(f"M{x:.1f} {y - 4:.1f}h24", colour, 2, dash),
                  marker(f"{x + 12:.1f} {y - 4:.1f}", line), svg.text(x + 29, y, line.name, 12, TEXT)]
        x += long
    return parts, row + 1


def panel(what, left, top, width, height):
    """One drawing at its place."""
    lines = [line for line in what.lines if line.points]
    names, rows = legend(lines, left, top + 38, width)
    parts = [svg.text(left, top + 18, what.title, 14, TEXT, weight="600"), *(names if len(lines) > 1 else [])]
    if not lines:
        return [*parts, svg.text(left, top + 44, "nothing was measured", 12, TEXT)]
    head, foot = top + 34 + rows * LEGEND_ROW * (len(lines) > 1), top + height - FOOT
    xs, ys = zip(*(point for line in lines for point in line.points))
    x = Axis(xs, what.log_x, left + LEFT, left + width - RIGHT, 6, what.ticks)
    y = Axis(ys, what.log_y, foot, head, 5)
    for value in y.ticks:
        parts += [stroke(f"M{x.start:.1f} {y.at(value):.1f}H{x.end:.1f}", GRID, 1),
                  svg.text(x.start - 8, y.at(value) + 4, label(value), 12, TEXT, "end")]
    for value in x.ticks:
        parts += [stroke(f"M{x.at(value):.1f} {head:.1f}V{foot:.1f}", GRID, 1),
                  svg.text(x.at(value), foot + 18, label(value), 12, TEXT, "middle")]
    parts.append(svg.text((x.start + x.end) / 2, foot + 36, what.x, 12, TEXT, "middle"))
    # The first one on top.
    for line in reversed(lines):
        parts += drawn(line, x, y)
    return parts


def figure(title, caption, panels, columns=1):
    """The whole picture: panels in one column or two, row by row."""
    across, down = (WIDTH - 2 * MARGIN) / columns, PANEL_HEIGHT[columns]
    height = HEAD + -(-len(panels) // columns) * down
    parts = [svg.text(MARGIN, 18, title, 16, TEXT, weight="600"), svg.text(MARGIN, 38, caption, 12, TEXT)]
    for place, what in enumerate(panels):
        parts += panel(what, MARGIN + place % columns * across, HEAD + place // columns * down, across, down)
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img"'
            ' font-family="system-ui, sans-serif">')
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>", ""])
