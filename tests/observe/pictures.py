"""Draws each dashboard from Prometheus data of real runs: docs/pictures/*.svg (`make pictures`).

`Sale` and `Service` are of a run of `make demo`. It has no locks, orders, barriers and webhooks: `Coordination` is of the
story that the tests tell to two instances. This is not Grafana: the panels and their queries are its own, the drawing is by
`svg.py`.
"""

import contextlib
import math
import subprocess
import sys
import time

import dashboards
import promql
import servers
import style
import svg
from servers import Prometheus, eventually, folder, free_port
from story import Story

OUT = servers.ROOT / "docs/pictures"
SIZE_MAX = 150_000
SEED = "7"
# Scrapes come each second, and what is said of the store is renewed every five.
RATE_INTERVAL = "6s"
STEP_SECONDS = 1
BEFORE_SECONDS, STORY_ROUNDS = 1, 40
COORDINATION = "stockade-coordination"


class Recording:
    """What Prometheus knows of a run, and when that was."""

    def __init__(self, prometheus, begin, end):
        self.prometheus, self.begin, self.end = prometheus, begin, end

    def last(self, panel):
        """Name, value and labels of each series at the end."""
        return [(promql.legend(target, labels), value, labels, place) for place, target in enumerate(panel.targets)
                for labels, value in self.prometheus.query(target.expr, self.end)]

    def series(self, panel):
        return [(promql.legend(target, labels), points) for target in panel.targets
                for labels, points in self.prometheus.query_range(target.expr, self.begin, self.end, STEP_SECONDS)]


@contextlib.contextmanager
def demo():
    """A run of `make demo` with a Prometheus beside it."""
    with folder() as home:
        port, begun = free_port(), time.time()
        with Prometheus(home, [f"127.0.0.1:{port}"]) as prometheus:
            # It takes its time to begin; a demo does not.
            eventually(lambda: prometheus.query("up"), "a first try to scrape")
            command = [sys.executable, servers.ROOT / "examples/demo.py", "--seed", SEED, "--port", str(port)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"the demo failed:\n{done.stdout}{done.stderr}")
            ups = prometheus.query_range("max(up)", begun, time.time(), STEP_SECONDS)[0][1]
            answered = [at for at, value in ups if value == 1]
            yield Recording(prometheus, answered[0] - BEFORE_SECONDS, answered[-1])


@contextlib.contextmanager
def story():
    with servers.running("release") as running:
        begin = time.time()
        with Story(running.instances) as told:
            told.wait_told(STORY_ROUNDS)
            end = running.prometheus.wait_scraped()
            told.stop()
        yield Recording(running.prometheus, begin - BEFORE_SECONDS, end)


def buckets(series):
    """Prometheus counts what is at most so large: what is in a bucket alone is the difference to the one before."""
    found, below = [], {}
    for bound, points in sorted((float(name.replace("+Inf", "inf")), points) for name, points in series):
        found.append((bound, [(at, value - below.get(at, 0)) for at, value in points]))
        below = dict(points)
    return found


def draw(recording, box, panel, how):
    span = recording.begin, recording.end
    if how.kind == "timeseries":
        series = [(name, points) for name, points in recording.series(panel) if any(map(math.isfinite, dict(points).values()))]
        return svg.lines(box, series, how, span)
    if how.kind == "heatmap":
        return svg.heatmap(box, buckets(recording.series(panel)), how.unit(), span, STEP_SECONDS)
    answers = [answer for answer in recording.last(panel) if not math.isnan(answer[1])]
    if not answers:
        return box.nothing(how.defaults.get("noValue"))
    if how.kind == "table":
        return svg.table(box, *how.table([(labels, value, place) for _, value, labels, place in answers]))
    draw_values = {"stat": svg.stat, "bargauge": svg.bars}[how.kind]
    return draw_values(box, [(name, value) for name, value, _, _ in answers], how)


def picture(recording, uid, of):
    """One dashboard."""
    board, parts, foot = dashboards.load()[uid], [], 0
    column, top = (svg.WIDTH - svg.GAP) / svg.COLUMNS, 60

    def place(at):
        return (svg.GAP + at["x"] * column, top + at["y"] * (svg.UNIT + svg.GAP),
                at["w"] * column - svg.GAP, at["h"] * (svg.UNIT + svg.GAP) - svg.GAP)

    for row in board["panels"]:
        if row["type"] == "row":
            x, y, _, height = place(row["gridPos"])
            mark = "▸" if row["collapsed"] else "▾"
            parts.append(svg.text(x + 4, y + height - 9, f"{mark} {row['title']}", 14, weight="500"))
            foot = max(foot, y + height)
    for panel, how in style.panels(rate_interval=RATE_INTERVAL, time_range=f"{round(recording.end - recording.begin)}s"):
        if panel.dashboard == uid and not how.folded:
            x, y, width, height = place(how.place)
            box = svg.Box(x, y, width, height, panel.title)
            draw(recording, box, panel, how)
            parts += box.parts
            foot = max(foot, y + height)
    caption = (f"Drawn by `make pictures` from Prometheus data of {of}; not a screenshot of Grafana. "
               "Single values are those at the end.")
    return svg.page(board["title"], caption, foot + svg.GAP, parts)


def path_of(uid):
    return OUT / f"{uid.removeprefix('stockade-')}.svg"


def write(recording, uids, of):
    for uid in uids:
        path = path_of(uid)
        path.write_text(picture(recording, uid, of))
        size = path.stat().st_size
        print(f"{path.relative_to(servers.ROOT)}: {size:,} bytes, {recording.end - recording.begin:.0f} s of data", flush=True)
        if size > SIZE_MAX:
            raise SystemExit(f"{path} has more than {SIZE_MAX:,} bytes")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    uids = dashboards.load().keys()
    with demo() as recording:
        write(recording, uids - {COORDINATION}, "a `make demo` run")
    if COORDINATION in uids:
        with story() as recording:
            write(recording, [COORDINATION],
                  "the tests' story at two instances (`make demo` has no locks, orders, barriers or webhooks)")


if __name__ == "__main__":
    main()
