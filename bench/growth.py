"""How reserve grows: with connections, SKUs, open holds, requests a bulk call, the offered rate, and processes.

Each curve has a service and a Redis of its own, and each run a sale of its own, so that no point pays for the ones before it. The
background audit is off, since it would fall into some of the runs; instead the last round's sales are audited when a curve is done.
"""

import contextlib
import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable

import load
import report
import scale
import sweep
from plot import Line, Panel
from sides import HOT_UNITS, Failed, Service, Sibling

SECONDS_MAX, ROUNDS_MAX = 2, 3
FIGURES = {"per_second": "a second", "p50_ms": "p50 ms", "p99_ms": "p99 ms", "http_us": "service us", "redis_us": "Redis us",
           "batch": "requests a script call"}


class Stand:
    """The service that one curve is measured on."""

    def __init__(self, run, folder):
        args = self.args = run.args
        self.folder, self.threads = folder, args.threads
        self.seconds = 1 if args.quick else min(args.seconds, SECONDS_MAX)
        self.rounds = 1 if args.quick else min(args.rounds, ROUNDS_MAX)
        self.service = Service(folder, args.transport, args.redis_binary)

    def sale(self, word):
        self.service.put_sale(word, HOT_UNITS)
        return word

    def accepted(self, word, connections=load.CONNECTIONS, env=None):
        """As many reservations as are accepted."""
        threads = min(self.threads, connections)
        return self.measured([self.service], lambda: load.wrk_accepted(
            self.service, word, word, self.seconds, threads, {}, connections, env))

    def measured(self, services, work):
        """What a run answers, and beside it: CPU microseconds a request, of the services and of Redis, and the batches' size."""
        before = [service.batches() for service in services]
        pids = {service.name: service.process.pid for service in services}
        with load.Cpu(redis=self.service.redis.pid, **pids) as cpu:
            result = work()
        calls, carried = (sum(after) - sum(start) for after, start in zip(
            zip(*(service.batches() for service in services)), zip(*before)))
        requests = result["requests"]
        return {**result, "http_us": sum(cpu.seconds[name] for name in pids) * 1e6 / requests,
                "redis_us": cpu.seconds["redis"] * 1e6 / requests, "batch": carried / calls}


def connections(stand, count, word):
    return stand.accepted(stand.sale(word), count)


def skus(stand, count, word):
    rules = {"buyer_limit": 4, "hold_seconds": 3600, "stock": {}}
    stand.service.expect(201, "PUT", f"/v1/sales/{word}", rules)
    scale.add_skus(stand.service, word, count, HOT_UNITS // count)
    return stand.accepted(word, env={"SKUS": str(count)})


def holds(stand, count, word):
    scale.fill(stand.service, stand.sale(word), count, "held")
    return stand.accepted(word)


def bulk(stand, size, word):
    stand.sale(word)
    return stand.measured([stand.service], lambda: load.wrk_bulk(
        stand.service, word, word, stand.seconds, stand.threads, {}, size))


def rates(stand, rate, word):
    """At a constant rate, which may be more than the service can take."""
    def work():
        figures = sweep.rung(stand.service, word, word, rate, stand.seconds)
        return {**figures, "per_second": figures["achieved"], "requests": figures["answered"]}
    stand.sale(word)
    return stand.measured([stand.service], work)


def processes(stand, count, word):
    """Several processes on one Redis, each with its share of the connections and a wrk of its own."""
    sale, first = stand.sale(word), stand.service
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=stand.folder))
        services = [first]
        for number in range(2, count + 1):
            services.append(Sibling(folder, first, number))
            stack.callback(services[-1].stop)
        share = load.CONNECTIONS // count

        def one(service):
            return load.wrk_reserve(service, sale, f"{word}-{service.name}", stand.seconds, 1, {}, connections=share)

        def work():
            with ThreadPoolExecutor(count) as pool:
                return together(list(pool.map(one, services)))
        result = stand.measured(services, work)
        time.sleep(0.5)     # until they have done what was under way
        uncounted = first.held(sale) - result["requests"]
    if result["refused"] or not 0 <= uncounted <= load.CONNECTIONS:
        raise Failed(f"{count} processes: {result['requests']} answers, {result['refused']} refused, {uncounted} more units held")
    return result


def together(results):
    """Of loads that ran side by side: sums, the median of the medians, and the p99 of the one that was worst off."""
    return {"requests": sum(result["requests"] for result in results), "refused": sum(result["refused"] for result in results),
            "per_second": sum(result["per_second"] for result in results),
            "p50_ms": statistics.median(result["p50_ms"] for result in results),
            "p99_ms": max(result["p99_ms"] for result in results)}


@dataclass
class Curve:
    """What is varied, where it is measured, and what a reader must know of it."""
    at: Callable
    title: str
    x: str
    points: tuple
    note: str
    log_x: bool = True


CURVES = {
    "connections": Curve(connections, "Connections", "connections", (1, 4, 16, 64, 256, 1024), "wrk, one hot SKU."),
    "skus": Curve(skus, "SKUs in the sale", "SKUs", (1, 10, 100, 1_000, 10_000),
                  f"wrk, {load.CONNECTIONS} connections; each request draws one of the SKUs."),
    "holds": Curve(holds, "Open holds", "open holds at the start", (1_000, 10_000, 100_000, 1_000_000),
                   f"wrk, {load.CONNECTIONS} connections. A run adds its own holds: to a small sale more than there were."),
    "bulk": Curve(bulk, "Requests a bulk call", "requests a call", (1, 10, 50, 100, 200, 500),
                  f"wrk, {load.BULK_CONNECTIONS} connections. The rate counts requests, the latency is a call's."),
    "batch": Curve(rates, "Batch size against load", "offered a second", (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000),
                   f"Constant rates, {load.CONNECTIONS} connections. Hollow: the service does not follow."),
    "processes": Curve(processes, "Service processes on one Redis", "processes", (1, 2, 3, 4),
                       f"{load.CONNECTIONS} connections in all, a wrk of one thread a process. On {os.cpu_count()} cores this"
                       " shows contention, not scaling.", log_x=False),
}


def growth(run):
    for name in run.args.curves:
        curve = CURVES[name]
        print(f"growth: {curve.title}")
        # Its records and its append-only file go with it.
        with tempfile.TemporaryDirectory(dir=run.folder) as folder:
            stand = Stand(run, folder)
            try:
                medians = measure(run, name, curve, stand)
            finally:
                stand.service.stop()
        run.parts.append(table(curve, medians, stand.rounds))
        run.plots[f"growth-{name}"] = picture(curve, medians)


def sale_of(name, point, number):
    return f"{name}-{point}-{number}"


def measure(run, name, curve, stand):
    """Every point once a round, in an order that turns; by point, the medians."""
    # --records bounds what is written past the service.
    points = [point for point in curve.points if name != "holds" or point <= max(run.args.records, curve.points[0])]
    results = {point: [] for point in points}
    for number in range(stand.rounds):
        turn = number % len(points)
        for point in points[turn:] + points[:turn]:
            result = curve.at(stand, point, sale_of(name, point, number))
            kept = {figure: result[figure] for figure in FIGURES}
            results[point].append(kept | {"overloaded": result.get("overloaded", False)})
            shown = ", ".join(f"{what} {result[figure]:.2f}" for figure, what in FIGURES.items() if figure != "per_second")
            print(f"  {point:>9,} {result['per_second']:10.0f}/s   {shown}", flush=True)
    # Of all rounds it would take as long as the runs.
    for point in points:
        scale.audit(stand.service, sale_of(name, point, stand.rounds - 1))
    run.samples[f"growth {name}"] = [{"points": results}]
    return {point: {figure: statistics.median(result[figure] for result in of) for figure in (*FIGURES, "overloaded")}
            for point, of in results.items()}


def table(curve, medians, rounds):
    lines = [[f"{point:,}", f"{figures['per_second']:.0f}", *(f"{figures[name]:.2f}" for name in list(FIGURES)[1:]),
              "overloaded" if sweep.overloaded(figures) else ""] for point, figures in medians.items()]
    return (f"{curve.title}, median of {rounds}. {curve.note}\n\n" + report.table([curve.x, *FIGURES.values(), ""], lines))


def picture(curve, medians):
    hollow = frozenset(point for point, figures in medians.items() if sweep.overloaded(figures))

    def panel(title, *lines, log_y=False):
        drawn = [Line(what, [(point, figures[name]) for point, figures in medians.items()], colour, hollow=hollow)
                 for colour, (what, name) in enumerate(lines)]
        return Panel(title, curve.x, drawn, curve.log_x, log_y, tuple(medians))
    panels = [panel("accepted a second", ("accepted", "per_second")),
              panel("latency, ms", ("p50", "p50_ms"), ("p99", "p99_ms"), log_y=True),
              panel("CPU microseconds a reservation", ("service", "http_us"), ("Redis", "redis_us")),
              panel("requests a script call", ("requests", "batch"))]
    return curve.title, curve.note, panels, 2
