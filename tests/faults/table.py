"""What came of it, for the terminal, for docs/reliability.md and for programs."""

import statistics
from dataclasses import asdict

COUNTS = ("calls", "unknown", "lost", "drift", "oversold", "duplicates")
HEADS = ("fault", "runs", "calls", "unknown outcomes", "lost acknowledged", "drift", "oversold", "duplicates", "not linearizable",
         "s to recover: median", "max")


def line(result):
    """Of one run."""
    counts = ", ".join(f"{word} {getattr(result, word)}" for word in COUNTS)
    recovered = f", recovered in {', '.join(f'{one:.2f}' for one in result.recovered)} s" if result.recovered else ""
    notes = "".join(f", {what} {count}" for what, count in result.notes.items())
    return f"{counts}{recovered}{notes}, {'WRONG' if result.wrong else 'ok'}"


def cells(row, results):
    """Of one row."""
    recovered = [one for result in results for one in result.recovered]
    histories = [result.not_linearizable for result in results if result.not_linearizable is not None]
    return [row.fault, len(results), *(sum(getattr(result, word) for result in results) for word in COUNTS),
            sum(histories) if histories else "-",
            f"{statistics.median(recovered):.2f}" if recovered else "-", f"{max(recovered):.2f}" if recovered else "-"]


def text(rows, results):
    """As Markdown."""
    lines = [HEADS, *(cells(row, results[row.name]) for row in rows)]
    lines = [[str(cell) for cell in cells] for cells in lines]
    widths = [max(len(cells[place]) for cells in lines) for place in range(len(HEADS))]
    shown = ["| " + " | ".join(cell.ljust(width) if place == 0 else cell.rjust(width) for place, (cell, width) in enumerate(zip(cells, widths)))
             + " |" for cells in lines]
    rule = "|" + "|".join("-" * (width + 1) + ("-" if place == 0 else ":") for place, width in enumerate(widths)) + "|"
    return "\n".join(["", shown[0], rule, *shown[1:], *notes(rows, results)])


def notes(rows, results):
    found = []
    for row in rows:
        totals = {}
        for result in results[row.name]:
            for what, count in result.notes.items():
                totals[what] = totals.get(what, 0) + count
        found += [f"{row.name}: {what} {count}" for what, count in totals.items()]
    return ["", *found] if found else []


def document(rows, results):
    return {"rows": {row.name: {"fault": row.fault, "runs": [asdict(result) for result in results[row.name]]} for row in rows}}
