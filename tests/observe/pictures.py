"""Draws each dashboard from Prometheus data of real runs: docs/pictures/*.svg (`make pictures`).

`Sale` and `Service` are of a run of `make demo`. It has no locks, orders, barriers and webhooks: `Coordination` is of the
story that the tests tell to two instances. This is not Grafana: the panels and their queries are its own, the drawing is by
`svg.py`.
"""

import contextlib
import math
import re
import subprocess
import sys
import time

import dashboards
import look
import servers
import svg
import units
from looks import Looks
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

    def panels(self, uid):
        """Each panel of a dashboard that is not folded away: its place and looks, and its queries."""
        asked = [panel for panel in dashboards.panels(RATE_INTERVAL, f"{round(self.end - self.begin)}s") if panel.dashboard == uid]
        board = dashboards.load()[uid]
        folded = {inner["id"] for panel in board["panels"] for inner in panel.get("panels", ())}
        for (_, panel), queries in zip(dashboards.rows_and_panels(board), asked, strict=True):
            if panel["id"] not in folded:
                yield panel, queries

    def last(self, queries):
        """Name, value and labels of each series at the end."""
        return [(look.legend(target, labels), value, labels, place) for place, target in enumerate(queries.targets)
                for labels, value in self.prometheus.query(target.expr, self.end)]

    def series(self, queries):
        return [(look.legend(target, labels), points) for target in queries.targets
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


def draw_table(box, looks, answers):
    """A row for each set of labels; what has only some of the labels is joined to all rows that have the same ones."""
    labels_of = [{name: value for name, value in labels.items() if re.match(looks.wanted, name) and name != "__name__"}
                 for _, _, labels, _ in answers]
    names = sorted({name for labels in labels_of for name in labels}, key=lambda name: (looks.wanted.find(name), name))
    keys = [labels for place, labels in enumerate(labels_of) if labels not in labels_of[:place]]
    # Those with all that others have, and more, are the rows.
    keys = [key for key in keys if not any(key.items() < other.items() for other in keys)]
    rows = [(key, {}) for key in keys]
    for labels, (_, value, _, place) in zip(labels_of, answers):
        for key, cells in rows:
            if labels.items() <= key.items():
                cells[looks.columns[place]] = value
    shown = [column for column in looks.columns if not looks.hidden(column)]
    svg.table(box, [*names, *shown], [
        [*(key.get(name, "") for name in names),
         *(units.shown(cells[column], looks.unit(column)) if column in cells else "" for column in shown)] for key, cells in rows])


def buckets(series):
    """Prometheus counts what is at most so large: what is in a bucket alone is the difference to the one before."""
    found, below = [], {}
    for bound, points in sorted((float(name.replace("+Inf", "inf")), points) for name, points in series):
        found.append((bound, [(at, value - below.get(at, 0)) for at, value in points]))
        below = dict(points)
    return found


def draw(recording, box, looks, queries):
    span = recording.begin, recording.end
    if looks.kind == "timeseries":
        series = [(name, points) for name, points in recording.series(queries) if any(map(math.isfinite, dict(points).values()))]
        return svg.lines(box, series, looks, span)
    if looks.kind == "heatmap":
        return svg.heatmap(box, buckets(recording.series(queries)), looks.unit(), span, STEP_SECONDS)
    answers = [answer for answer in recording.last(queries) if not math.isnan(answer[1])]
    if not answers:
        return box.nothing(looks.defaults.get("noValue"))
    if looks.kind == "table":
        return draw_table(box, looks, answers)
    draw_values = {"stat": svg.stat, "bargauge": svg.bars}[looks.kind]
    return draw_values(box, [(name, value) for name, value, _, _ in answers], looks)


def picture(recording, uid, of):
    """One dashboard."""
    board, parts, foot = dashboards.load()[uid], [], 0
    column, top = (svg.WIDTH - svg.GAP) / svg.COLUMNS, 60

    def place(panel):
        at = panel["gridPos"]
        return (svg.GAP + at["x"] * column, top + at["y"] * (svg.UNIT + svg.GAP),
                at["w"] * column - svg.GAP, at["h"] * (svg.UNIT + svg.GAP) - svg.GAP)

    for panel in board["panels"]:
        if panel["type"] == "row":
            x, y, _, height = place(panel)
            mark = "▸" if panel["collapsed"] else "▾"
            parts.append(svg.text(x + 4, y + height - 9, f"{mark} {panel['title']}", 14, weight="500"))
            foot = max(foot, y + height)
    for panel, queries in recording.panels(uid):
        x, y, width, height = place(panel)
        box = svg.Box(x, y, width, height, panel["title"])
        draw(recording, box, Looks(panel), queries)
        parts += box.parts
        foot = max(foot, y + height)
    caption = f"Drawn by `make pictures` from Prometheus data of {of}; not a screenshot of Grafana. Single values are those at the end."
    return svg.page(board["title"], caption, foot + svg.GAP, parts)


def write(recording, uids, of):
    for uid in uids:
        path = OUT / f"{uid.removeprefix('stockade-')}.svg"
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
            write(recording, [COORDINATION], "the tests' story at two instances (`make demo` has no locks, orders, barriers or webhooks)")


if __name__ == "__main__":
    main()
