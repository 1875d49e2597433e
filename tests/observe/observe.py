"""Every panel and alert with its present value (`make observe`), from two instances, a Prometheus, and the story told to them.

Exit code 1 if a panel has no data that should have some. KEEP=1 goes on until Ctrl-C.
"""

import contextlib
import os
import sys

import cost
import dashboards
import expected
import look
import rules
import servers
import units
from story import Story

RATE_INTERVAL = "15s"
SERIES_SHOWN = 4
ROUNDS = 20


def values(panel, target, samples):
    """Name and value of each series, the largest first."""
    for labels, value in sorted(samples, key=lambda sample: -sample[1]):
        yield look.legend(target, labels), units.shown(value, panel.unit)


def show(panel, answers):
    """One panel in one line, or in one for each of its first series."""
    lines = [line for target, samples in zip(panel.targets, answers) for line in values(panel, target, samples)]
    left_out, lines = len(lines) - SERIES_SHOWN, lines[:SERIES_SHOWN]
    name = panel.title
    if len(lines) == 1:
        print(f"    {name:42} {lines[0][1]:>14}")
    elif lines:
        print(f"    {name}")
        for series, value in lines:
            print(f"      {series[:40]:40} {value:>14}")
        if left_out > 0:
            print(f"      and {left_out} more")


def show_panels(readings):
    """Prints all panels, and answers those that have no data and no reason for that."""
    place, unexplained = None, []
    for panel, answers in readings:
        if place != (panel.dashboard, panel.row):
            place = panel.dashboard, panel.row
            print(f"\n{panel.dashboard} > {panel.row}" if panel.row else f"\n{panel.dashboard}")
        show(panel, answers)
        if not all(map(look.has_data, answers)):
            reason = expected.NO_DATA.get((panel.dashboard, panel.title))
            print(f"    {panel.title:42} {'no data':>14}   {reason or 'and nobody knows why'}")
            if not reason:
                unexplained.append(f"{panel.dashboard} > {panel.title}")
    return unexplained


def show_alerts(prometheus):
    states = {rule["name"]: rule["state"] for group in prometheus.get("rules", type="alert")["groups"] for rule in group["rules"]}
    print("\nAlerts")
    for name in dict(rules.exprs()):
        print(f"    {name:42} {states[name]:>14}   {expected.TRUE_ALERTS.get(name, '')}".rstrip())


def main():
    print("Two instances, a Redis and a Prometheus are started, and a story is told to them. This takes half a minute.", flush=True)
    with servers.running("release") as running:
        prometheus = running.prometheus
        with Story(running.instances) as story:
            story.wait_told(ROUNDS)
            at = prometheus.wait_scraped(times=3)
            readings = look.read(prometheus, dashboards.panels(rate_interval=RATE_INTERVAL), at)
            unexplained = show_panels(readings)
            show_alerts(prometheus)
            story.stop()
        print("", *cost.measure(running.instances[0]).lines(), sep="\n")
        print(f"\n{len(readings)} panels were checked, {len(unexplained)} have no data that should have some.")
        print("".join(f"    {name}\n" for name in unexplained), end="", flush=True)
        if os.environ.get("KEEP") == "1":
            keep(running)
    return 1 if unexplained else 0


def keep(running):
    """The story goes on, for those who want to look themselves."""
    with Story(running.instances, seed=8) as story:
        print(f"\nPrometheus: http://127.0.0.1:{running.prometheus.port}\n" + "".join(
            f"Stockade {instance.name}: http://127.0.0.1:{instance.port}/metrics\n" for instance in running.instances)
            + "Ctrl-C ends it.", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            story.stopped.wait()
            story.check()


if __name__ == "__main__":
    sys.exit(main())
