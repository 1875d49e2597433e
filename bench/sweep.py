"""Throughput and latency against the offered rate: up a ladder of constant rates, until a side no longer follows.

An open model: what is offered does not wait for what was answered. So past a side's peak its queue grows for as long as the rung
lasts, and the latency there says how long that was. Such a rung is marked as what it is; it is no void run.
"""

import statistics

import load
import report
from plot import Line, Panel
from sides import HOT_UNITS

#: The order is that of the colours.
SIDES = ("service", "noop", "plain", "node", "postgres")
SALE = "bench-sweep"
LOWEST, FACTOR, RUNGS = 300, 1.6, 14
SECONDS_MAX, ROUNDS_MAX, WARMUP_SECONDS = 2, 3, 1
#: What a side achieves of the offered rate as long as it follows, and the p99 from which it does not.
FOLLOWS, P99_MAX_MS = 0.95, 2_000
PERCENTILES = {"p50_ms": "p50_us", "p99_ms": "p99_us", "p999_ms": "p999_us"}


def ladder(lowest=LOWEST, factor=FACTOR, rungs=RUNGS):
    """Rates a second, each `factor` times the one before, in two digits."""
    rates = [lowest * factor ** rung for rung in range(rungs)]
    return [int(float(f"{rate:.1e}")) for rate in rates]


def rung(side, sale, word, rate, seconds):
    """One side at one rate: what it achieved, the latencies, and whether that was too much for it.

    A rung up to twice the peak has less left to do at its end than the generator waits for. One beyond that is answered in part.
    """
    try:
        # Not every side speaks HTTP.
        result = (load.constant_rate(side, sale, word, rate, seconds, WARMUP_SECONDS) if hasattr(side, "port")
                  else side.constant_rate(rate, seconds, WARMUP_SECONDS))
    except load.Unanswered as late:
        result = late.result
    figures = {"rate": rate, "answered": result["answered"], "achieved": result["answered"] / result.get("seconds", seconds),
               **{name: result[key] / 1000 for name, key in PERCENTILES.items()}}
    figures["overloaded"] = bool(result.get("missing") or figures["achieved"] < FOLLOWS * rate or figures["p99_ms"] > P99_MAX_MS)
    return figures


def say(name, figures):
    print(f"  {name:<22}{figures['rate']:>8} offered {figures['achieved']:10.0f}/s   p50 {figures['p50_ms']:8.2f}"
          f" p99 {figures['p99_ms']:8.2f} ms{'   overloaded' if figures['overloaded'] else ''}", flush=True)


def sweep(run):
    """All sides alternate rung by rung. A stall is no peak: only who does not follow twice has done for the round."""
    sides = [(name, run.sides[name]) for name in SIDES if name in run.sides]
    if not sides:
        return
    seconds, rounds = min(run.args.seconds, SECONDS_MAX), min(run.args.rounds, ROUNDS_MAX)
    if run.args.quick:
        seconds, rounds = 1, 1
    for _, side in sides:
        if hasattr(side, "put_sale"):
            side.put_sale(SALE, HOT_UNITS)
    samples = run.samples["sweep"] = []
    for number in range(rounds):
        print(f"constant rates, round {number + 1} of {rounds}")
        climbing = list(sides)
        for place, rate in enumerate(ladder()):
            turn = (number + place) % len(climbing) if climbing else 0
            for name, side in climbing[turn:] + climbing[:turn]:
                for attempt in range(2):
                    figures = rung(side, SALE, f"w{number}-{rate}-{attempt}", rate, seconds)
                    say(name, figures)
                    samples.append({"side": name, **figures})
                    if not figures["overloaded"]:
                        break
                else:
                    climbing.remove((name, side))
    curves = {name: medians([sample for sample in samples if sample["side"] == name]) for name, _ in sides}
    run.parts.append(table(curves, rounds))
    run.plots |= plots(curves, seconds)


def medians(samples):
    """By rate: the medians of what was measured there. Overloaded is what was so more often than not."""
    rates = sorted({sample["rate"] for sample in samples})
    of = {rate: [sample for sample in samples if sample["rate"] == rate] for rate in rates}
    return {rate: {key: statistics.median(sample[key] for sample in of[rate]) for key in ("achieved", *PERCENTILES, "overloaded")}
            for rate in rates}


def overloaded(point):
    return point["overloaded"] > 0.5


def table(curves, rounds):
    """A row a rate; past its peak, what a side achieved."""
    def cell(point):
        if not point:
            return ""
        return f"{point['achieved']:.0f}/s" if overloaded(point) else f"{point['p50_ms']:.2f} / {point['p99_ms']:.2f}"
    rates = sorted({rate for curve in curves.values() for rate in curve})
    lines = [[rate, *(cell(curve.get(rate)) for curve in curves.values())] for rate in rates]
    return (f"Latency at a constant rate, p50 / p99 in ms, median of {rounds}. Where a side does not follow: what it\n"
            "achieved.\n\n" + report.table(["offered a second", *curves], lines))


def lines(curves, key, name="", dashed=False):
    return [Line(f"{side}{name}", [(rate, point[key]) for rate, point in curve.items()], SIDES.index(side), dashed,
                 frozenset(rate for rate, point in curve.items() if overloaded(point)))
            for side, curve in curves.items()]


def plots(curves, seconds):
    about = f"An open model, {seconds} s at each rate; the generator is on the same machine. Hollow: the side does not follow."
    latencies = lines(curves, "p99_ms", " p99") + lines(curves, "p50_ms", " p50", dashed=True)
    offered = "offered a second"
    return {
        "throughput": ("Throughput against offered rate", about,
                       [Panel("achieved a second", offered, lines(curves, "achieved"), log_y=True)], 1),
        "latency": ("Latency against offered rate", about, [Panel("milliseconds", offered, latencies, log_y=True)], 1),
    }
