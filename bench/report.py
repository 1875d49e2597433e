"""Tables of one run, and the files that keep it."""

import json
import os
import statistics
from dataclasses import dataclass

import plot

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")


@dataclass
class Row:
    """One promise: the figure, what it must reach, what it aims at. `lower` turns better round, `note` says why there is none."""
    name: str
    value: float | None
    floor: float | None
    aim: float | None
    lower: bool = False
    note: str = ""

    def reaches(self, mark):
        return self.value <= mark if self.lower else self.value >= mark

    def verdict(self):
        if self.value is None:
            return f"not measured{self.note and ': '}{self.note}"
        if self.floor is None:
            return ""
        if not self.reaches(self.floor):
            return "BELOW FLOOR"
        return "aim reached" if self.aim is not None and self.reaches(self.aim) else "ok"


def number(value):
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 or isinstance(value, int) else f"{value:.2f}"


def table(head, lines):
    """A Markdown table with the columns padded, so that a terminal shows it straight."""
    cells = [[str(cell) for cell in line] for line in [head, *lines]]
    widths = [max(len(line[n]) for line in cells) for n in range(len(head))]
    padded = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in cells]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([padded[0], rule, *padded[1:]])


def rows_table(rows):
    lines = []
    for row in rows:
        sign = "<= " if row.lower else ">= "
        marks = [sign + number(mark) if mark is not None else "" for mark in (row.floor, row.aim)]
        lines.append([row.name, number(row.value), *marks, row.verdict()])
    return table(["row", "value", "floor", "aim", ""], lines)


def figures_table(samples):
    lines = []
    for name, runs in samples.items():
        if "per_second" in runs[0]:
            rates = [run["per_second"] for run in runs]
            shown = [f"{statistics.median(run[key] for run in runs):.2f}" if key in runs[0] else "" for key in ("p50_ms", "p99_ms")]
            lines.append([name, f"{statistics.median(rates):.0f}", f"{min(rates):.0f}", f"{max(rates):.0f}", *shown,
                          sum(run.get("refused", 0) for run in runs)])
        elif "p99_us" in runs[0]:
            shown = [f"{statistics.median(run[key] for run in runs) / 1000:.2f}" for key in ("p50_us", "p99_us")]
            lines.append([name, runs[0]["rate"], "", "", *shown, 0])
    return table(["side", "per second", "min", "max", "p50 ms", "p99 ms", "non-2xx"], lines)


def cpu_table(samples):
    """CPU microseconds a request: the HTTP side, Redis (or PostgreSQL), and the load generator."""
    lines = []
    for name, runs in samples.items():
        if "cpu_seconds" not in runs[0]:
            continue
        def each(who):
            if who not in runs[0]["cpu_seconds"]:
                return ""
            return f"{statistics.median(run['cpu_seconds'][who] * 1e6 / run['requests'] for run in runs):.1f}"
        lines.append([name, each("http"), each("redis") or each("store"), each("load")])
    return table(["side", "http us", "store us", "load us"], lines)


def markdown(about, rows, run, with_cpu):
    parts = ["# Benchmark", ", ".join(f"{key} {value}" for key, value in about.items()), rows_table(rows),
             figures_table(run.samples), *run.parts]
    if with_cpu:
        parts += ["CPU microseconds a request:", cpu_table(run.samples)]
    return "\n\n".join(parts) + "\n"


def stem(about):
    """Of the files of one run."""
    return os.path.join(RESULTS, about["date"].replace(":", ""))


def save(about, rows, samples, text):
    """Write both files; say where."""
    os.makedirs(RESULTS, exist_ok=True)
    path = stem(about)
    with open(path + ".json", "w") as out:
        named = [{"row": row.name, "value": row.value, "floor": row.floor, "aim": row.aim, "verdict": row.verdict()} for row in rows]
        json.dump({"about": about, "rows": named, "samples": samples}, out, indent=1)
    with open(path + ".md", "w") as out:
        out.write(text)
    return f"written: {os.path.relpath(path)}.json and .md"


def save_plots(about, plots, folder):
    """Draw the plots beside the results, and into `folder` if one is given; answers where they are."""
    if folder:
        os.makedirs(folder, exist_ok=True)
    for name, what in plots.items():
        drawn = plot.figure(*what)
        for path in [f"{stem(about)}-{name}.svg", *([os.path.join(folder, f"{name}.svg")] if folder else [])]:
            with open(path, "w") as out:
                out.write(drawn)
            yield os.path.relpath(path)
