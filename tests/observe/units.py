"""Values as people read them, by the unit of their panel in Grafana."""

import datetime
import math

STEPS = {1000: ["", "k", "M", "G", "T"], 1024: [" B", " KiB", " MiB", " GiB", " TiB"]}


def short(value, base=1000):
    """`1234567` is `1.23 M`."""
    names, place = STEPS[base], 0
    while abs(value) >= base and place < len(names) - 1:
        value, place = value / base, place + 1
    return f"{number(value)}{names[place]}"


def number(value):
    """Three digits that count, and no zeros behind them."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
    shown = f"{value:.{digits}f}"
    return shown.rstrip("0").rstrip(".") if digits else shown


def seconds(value):
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
        if abs(value) >= size:
            return f"{number(value / size)} {name}"
    return f"{number(value * 1e6)} µs" if value else "0 s"


def moment(milliseconds):
    at = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
    return at.strftime("%H:%M:%S")


FORMATS = {
    "s": seconds,
    "dtdhms": seconds,
    "ms": lambda value: seconds(value / 1000),
    "bytes": lambda value: short(value, 1024),
    "decbytes": lambda value: f"{short(value)}B",
    "Bps": lambda value: f"{short(value, 1024)}/s",
    "binBps": lambda value: f"{short(value, 1024)}/s",
    "percentunit": lambda value: f"{number(value * 100)} %",
    "percent": lambda value: f"{number(value)} %",
    "reqps": lambda value: f"{short(value)} req/s",
    "ops": lambda value: f"{short(value)} ops/s",
    "cps": lambda value: f"{short(value)} c/s",
    "dateTimeAsIso": moment,
    "dateTimeFromNow": moment,
}


def is_bytes(unit):
    return unit in ("bytes", "Bps", "binBps")


def shown(value, unit):
    """`unit` as Grafana names it; one that is not known is a word behind the number."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if unit in FORMATS:
        return FORMATS[unit](value)
    word = "" if unit in (None, "", "none", "short", "bool", "string") else f" {unit.removeprefix('suffix:')}"
    return f"{short(value)}{word}"
