"""Every panel and alert with its present value (`make observe`), from two instances, a Prometheus, and the story told to them.

Exit code 1 if a panel has no data that should have some. KEEP=1 goes on until Ctrl-C.
"""

import contextlib
import os
import sys

import cost
import expected
import promql
import rules
import servers
import style
import units
from story import Story

RATE_INTERVAL = "15s"
SERIES_SHOWN, WIDTH = 4, 52
ROUNDS = 20


def lines(panel, how, answers):
    """Name and value of each series, the largest first where not all are shown; the rows of a table."""
    samples = [(labels, value, place) for place, samples in enumerate(answers) for labels, value in samples]
    if how.kind == "table":
        head, rows = how.table(samples)
        return [("", ", ".join(f"{name} {cell}" for name, cell in zip(head, row) if cell)) for row in rows]
    if how.kind == "heatmap":
        return [("of all sizes", f"{units.number(value)} /s") for labels, value, _ in samples if labels["le"] == "+Inf"]
    named = [(promql.legend(panel.targets[place], labels), value) for labels, value, place in samples]
    if len(named) > SERIES_SHOWN:
        named.sort(key=lambda entry: -entry[1])
    return [(name, how.say(name, value)) for name, value in named]


def show(panel, how, answers):
    """One panel in one line, or in one for each of its first series."""
    found = lines(panel, how, answers)
    if len(found) == 1:
        return print(f"    {panel.title:{WIDTH}} {found[0][1]:>14}")
    if found:
        print(f"    {panel.title}")
    for series, value in found[:SERIES_SHOWN]:
        print(f"      {series[:WIDTH - 2]:{WIDTH - 2}} {value:>14}" if series else f"      {value}")
    if len(found) > SERIES_SHOWN:
        print(f"      and {len(found) - SERIES_SHOWN} more")


def show_panels(readings):
    """Prints all panels, and answers those that have no data and no reason for that."""
    place, unexplained = None, []
    for (panel, how), answers in readings:
        if place != (panel.dashboard, panel.row):
            place = panel.dashboard, panel.row
            print(f"\n{panel.dashboard} > {panel.row}" if panel.row else f"\n{panel.dashboard}")
        show(panel, how, answers)
        if not all(map(promql.has_data, answers)):
            reason = expected.NO_DATA.get((panel.dashboard, panel.title))
            print(f"    {panel.title:{WIDTH}} {'no data':>14}   {reason or 'and nobody knows why'}")
            if not reason:
                unexplained.append(f"{panel.dashboard} > {panel.title}")
    return unexplained


def show_alerts(prometheus):
    states = {rule["name"]: rule["state"] for group in prometheus.get("rules", type="alert")["groups"] for rule in group["rules"]}
    print("\nAlerts")
    for name in dict(rules.exprs()):
        print(f"    {name:{WIDTH}} {states[name]:>14}   {expected.TRUE_ALERTS.get(name, '')}".rstrip())


def main():
    print("Two instances, a Redis and a Prometheus are started, and a story is told to them: half a minute.", flush=True)
    with servers.running("release") as running:
        prometheus = running.prometheus
        with Story(running.instances) as story:
            story.wait_told(ROUNDS)
            at = prometheus.wait_scraped(times=3)
            panels = style.panels(rate_interval=RATE_INTERVAL)
            readings = [(panel, promql.read(prometheus, panel[0], at)) for panel in panels]
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
