"""Panels as SVG, by hand: what Grafana would show of the same data, drawn plainly."""

import math
from html import escape

import units

# Grafana's grid: 24 columns; a row of the grid and the gap between panels.
WIDTH, COLUMNS, UNIT, GAP = 1440, 24, 30, 6
PAD, HEAD = 10, 30
COLOURS = ["#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#96d98d", "#fade2a", "#c0d8ff",
           "#ffb357", "#ff9eb4"]
NAMED = {"green": "#73bf69", "red": "#f2495c", "yellow": "#fade2a", "orange": "#ff9830", "blue": "#5794f2", "text": "#d8d9da",
         "purple": "#b877d9", "transparent": "#d8d9da"}
TEXT, DIM, LINE, BACK, PANEL = "#d8d9da", "#8e8e8e", "#2c3235", "#111217", "#181b1f"
# A panel gives a line of its legend to each so many pixels.
LEGEND_ROW_OF = 50


def colour(name):
    """A colour of Grafana by its name; its shades (`dark-red`) are not told apart."""
    name = (name or "text").split("-")[-1]
    return NAMED.get(name, name if name.startswith("#") else TEXT)


def text(x, y, words, size=12, fill=TEXT, anchor="start", weight="normal"):
    more = "".join(f' {name}="{value}"' for name, value, usual in
                   (("text-anchor", anchor, "start"), ("font-weight", weight, "normal")) if value != usual)
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{fill}"{more}>{escape(str(words))}</text>'


def rect(x, y, width, height, fill, stroke=None):
    border = f' stroke="{stroke}"' if stroke else ""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"{border}/>'


def fitted(words, width, size=12):
    """As much of a text as fits; a letter is a little more than half as wide as it is high."""
    most = max(1, int(width / (size * 0.56)))
    return words if len(words) <= most else words[:most - 1] + "…"


class Box:
    """A panel's place, and what is in it."""

    def __init__(self, x, y, width, height, title):
        self.x, self.y, self.width, self.height = x, y, width, height
        self.parts = [rect(x, y, width, height, PANEL, LINE),
                      text(x + PAD, y + 20, fitted(title, width - 2 * PAD, 13), 13, weight="500")]
        self.left, self.right, self.top, self.bottom = x + PAD, x + width - PAD, y + HEAD, y + height - PAD

    def middle(self, words, size, fill):
        x, y = (self.left + self.right) / 2, (self.top + self.bottom + size * 0.6) / 2
        self.parts.append(text(x, y, words, size, fill, "middle"))

    def nothing(self, words=None):
        self.middle(words or "no data in this run", 13, DIM)


def stat(box, series, style):
    """Big numbers, side by side; a name below where there are several, or where it is wanted."""
    series = series[:max(1, int((box.right - box.left) / 80))]
    width = (box.right - box.left) / len(series)
    for place, (name, value) in enumerate(series):
        shown, middle = style.say(name, value), box.left + width * (place + 0.5)
        size = min(34, (box.bottom - box.top) * 0.6, width / max(1, len(shown)) / 0.58)
        named = name and (len(series) > 1 or style.options.get("textMode") == "value_and_name")
        y = (box.top + box.bottom) / 2 + size * 0.36 - (7 if named else 0)
        box.parts.append(text(middle, y, shown, round(size), style.shade(name, value), "middle", "600"))
        if named:
            box.parts.append(text(middle, y + 17, fitted(name, width - 4, 11), 11, DIM, "middle"))


def bars(box, series, style):
    """A bar for each, as long as its share of the largest."""
    rows = max(1, int((box.bottom - box.top) / 20))
    most = max((value for _, value in series if math.isfinite(value)), default=0) or 1
    name_width = (box.right - box.left) * 0.35
    for place, (name, value) in enumerate(series[:rows]):
        y = box.top + place * 20
        long = max(1, (box.right - box.left - name_width - 80) * min(1, max(0, value / most)))
        box.parts += [text(box.left, y + 13, fitted(name, name_width - 6), 12),
                      rect(box.left + name_width, y + 3, long, 12, style.shade(name, value)),
                      text(box.right, y + 13, style.say(name, value), 12, TEXT, "end")]


def table(box, head, rows):
    """A head and as many rows as there is room for."""
    if not rows:
        return box.nothing()
    width = (box.right - box.left) / len(head)
    room = max(1, int((box.bottom - box.top - 20) / 20))
    for line, cells in enumerate([head, *rows[:room]]):
        y = box.top + 13 + line * 20
        for place, cell in enumerate(cells):
            box.parts.append(text(box.left + place * width, y, fitted(cell, width - 8), 12, TEXT if line else NAMED["blue"]))
        box.parts.append(rect(box.left, y + 5, box.right - box.left, 0.5, LINE))
    if len(rows) > room:
        box.parts.append(text(box.right, box.bottom + 4, f"and {len(rows) - room} more", 11, DIM, "end"))


def steps(low, high, wanted, base=10):
    """Round numbers for an axis; of bytes, those with a base of 2."""
    raw = (high - low) / max(1, wanted)
    size, factors = (2 ** math.floor(math.log2(raw)), (1, 2)) if base == 2 else (10 ** math.floor(math.log10(raw)), (1, 2, 5, 10))
    size *= next(factor for factor in factors if size * factor >= raw)
    first = math.ceil(low / size - 1e-9)
    return [size * place for place in range(first, math.floor(high / size + 1e-9) + 1)]


def legend(box, entries):
    """Names and their colours below the drawing; answers where the drawing must end."""
    rows, row, x = [], [], 0
    room = box.right - box.left
    for name, shade in entries:
        name = fitted(name, room - 20, 11)
        width = 24 + len(name) * 6
        if row and x + width > room:
            rows, row, x = [*rows, row], [], 0
        row.append((x, name, shade))
        x += width
    rows.append(row)
    most = max(2, round((box.bottom - box.top) / LEGEND_ROW_OF))
    if len(rows) > most:
        left_out = sum(map(len, rows[most - 1:]))
        rows = [*rows[:most - 1], [(-14, f"and {left_out} more", PANEL)]]
    top = box.bottom - 14 * len(rows) + 6
    for line, row in enumerate(rows):
        for x, name, shade in row:
            y = top + 14 * line + 8
            box.parts += [rect(box.left + x, y - 5, 10, 3, shade), text(box.left + x + 14, y, name, 11, DIM)]
    return top - 8


def axes(box, bottom, span, low, high, label, base=10):
    """Grid lines with values at the left and seconds below; answers how time and value become x and y."""
    left, right, top, foot = box.left + 62, box.right - 4, box.top + 6, bottom - 16

    def x(at):
        return left + (at - span[0]) / (span[1] - span[0]) * (right - left)

    def y(value):
        return foot - (value - low) / (high - low) * (foot - top)

    for value in steps(low, high, max(2, (foot - top) / 34), base):
        box.parts += [rect(left, y(value), right - left, 0.5, LINE), text(left - 6, y(value) + 4, label(value), 11, DIM, "end")]
    for at in steps(0, span[1] - span[0], max(2, (right - left) / 70)):
        if at:
            middle = min(x(span[0] + at), right - 8)
            box.parts.append(text(middle, foot + 14, f"{at:.0f} s", 11, DIM, "middle"))
    return x, y


def lines(box, series, style, span):
    """Series over time; gaps stay gaps."""
    if not series:
        return box.nothing()
    shades = {name: style.colour(name, place) for place, (name, _) in enumerate(series)}
    series, unit = pile(series, style.stacked), style.unit()
    values = [value for _, points in series for _, value in points if math.isfinite(value)]
    low, high = min(0, *values, 0), max(*values, 0)
    high = high if high > low else low + 1
    bottom = legend(box, shades.items())
    base = 2 if units.is_bytes(unit) else 10
    x, y = axes(box, bottom, span, low, high * 1.05, lambda value: units.shown(value, unit), base)
    for name, points in series:
        path, before = [], None
        for at, value in points:
            if not math.isfinite(value):
                before = None
                continue
            path.append(f"{'L' if before is not None and at - before < 1.5 else 'M'}{x(at):.1f} {y(value):.1f}")
            before = at
        dash = ' stroke-dasharray="6 5"' if style.dashed(name) else ""
        # A line of one point is seen as a dot.
        box.parts.append(f'<path d="{"".join(path)}h.1" fill="none" stroke="{shades[name]}" stroke-width="1.6"{dash}/>')


def pile(series, stacked):
    """Each series that is stacked on top of those before it."""
    below, piled = {}, []
    for name, points in series:
        if stacked(name):
            for at, value in points:
                below[at] = below.get(at, 0) + (value if math.isfinite(value) else 0)
            points = [(at, below[at]) for at, _ in points]
        piled.append((name, points))
    return piled


def heatmap(box, buckets, unit, span, step):
    """A cell for each bucket and moment: the more, the brighter. Buckets are (upper bound, points), not cumulative."""
    most = max((value for _, points in buckets for _, value in points if math.isfinite(value)), default=0)
    if not most:
        return box.nothing()
    used = [place for place, (_, points) in enumerate(buckets) if any(value > 0 for _, value in points)]
    buckets = buckets[max(0, used[0] - 1):used[-1] + 1]
    names = [units.shown(bound, unit) for bound, _ in buckets]
    every = max(1, math.ceil(len(buckets) * 13 / (box.bottom - box.top - 20)))

    def label(place):
        return names[int(place)] if place == int(place) and 0 <= place < len(names) and int(place) % every == 0 else ""

    x, y = axes(box, box.bottom + 4, span, 0, len(buckets), label)
    width, height = x(step) - x(0), y(0) - y(1)
    for place, (_, points) in enumerate(buckets):
        for at, value in points:
            if value > 0:
                box.parts.append(f'<rect x="{x(at) - width:.1f}" y="{y(place + 1):.1f}" width="{width:.1f}" height="{height:.1f}"'
                                 f' fill="#ff9830" fill-opacity="{0.15 + 0.85 * value / most:.2f}"/>')


def page(title, caption, height, parts):
    """The whole picture."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}"'
        ' font-family="Inter, Helvetica, Arial, sans-serif">', rect(0, 0, WIDTH, height, BACK),
        text(GAP + 4, 26, title, 18, weight="600"), text(GAP + 4, 46, caption, 12, DIM), *parts, "</svg>", ""])
