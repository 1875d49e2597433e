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
import look
import servers
import svg
import units
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
        port = free_port()
        with Prometheus(home, [f"127.0.0.1:{port}"]) as prometheus:
            command = [sys.executable, servers.ROOT / "examples/demo.py", "--seed", SEED, "--port", str(port)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"the demo failed:\n{done.stdout}{done.stderr}")
            ups = prometheus.query_range("max(up)", time.time() - 120, time.time(), STEP_SECONDS)[0][1]
            # Prometheus repeats an old answer until its next scrape: the first failed one is the end.
            answered = [at for at, value in ups if value == 1]
            yield Recording(prometheus, answered[0] - BEFORE_SECONDS, answered[-1] - STEP_SECONDS)


@contextlib.contextmanager
def story():
    with servers.running("release") as running:
        begin = time.time()
        with Story(running.instances) as told:
            told.wait_told(STORY_ROUNDS)
            end = running.prometheus.wait_scraped()
            told.stop()
        yield Recording(running.prometheus, begin - BEFORE_SECONDS, end)


def shade(panel):
    """The colour of a value, by the thresholds of its panel."""
    def colour(value):
        at = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
        return svg.colour(at[-1] if at else "text")

    steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])
    return colour


def words(panel, value):
    """What the panel says instead of a number."""
    for mapping in panel["fieldConfig"]["defaults"].get("mappings", []):
        if mapping["type"] == "value" and (found := mapping["options"].get(units.number(value))):
            return found["text"]
    return None


def draw_table(box, panel, queries, answers):
    columns = [target.get("refId") for target in panel["targets"]]
    names = sorted({name for _, _, labels, _ in answers for name in labels if name not in ("__name__", "job", "instance")})
    rows = {}
    for _, value, labels, place in answers:
        rows.setdefault(tuple(labels.get(name, "") for name in names), {})[place] = value
    unit_of = {}
    for override in panel["fieldConfig"]["overrides"]:
        for entry in override["properties"]:
            if entry["id"] == "unit":
                unit_of[override["matcher"]["options"]] = entry["value"]
    def cell(values, place, column):
        return units.shown(values[place], unit_of.get(column, queries.unit)) if place in values else "-"

    svg.table(box, [*names, *columns], [[*key, *(cell(values, place, column) for place, column in enumerate(columns))]
                                        for key, values in sorted(rows.items())])


def buckets(series):
    """Prometheus counts what is at most so large: what is in a bucket alone is the difference to the one before."""
    found, below = [], {}
    for bound, points in sorted((float(name.replace("+Inf", "inf")), points) for name, points in series):
        found.append((bound, [(at, value - below.get(at, 0)) for at, value in points]))
        below = dict(points)
    return found


def draw(recording, box, panel, queries):
    kind = panel["type"]
    if kind == "timeseries":
        series = [(name, points) for name, points in recording.series(queries) if any(map(math.isfinite, dict(points).values()))]
        custom = panel["fieldConfig"]["defaults"]["custom"]
        stacked = custom.get("stacking", {}).get("mode", "none") != "none"
        return svg.lines(box, series, queries.unit, (recording.begin, recording.end), stacked)
    if kind == "heatmap":
        return svg.heatmap(box, buckets(recording.series(queries)), queries.unit, (recording.begin, recording.end), STEP_SECONDS)
    answers = [answer for answer in recording.last(queries) if not math.isnan(answer[1])]
    if not answers:
        return box.nothing()
    if kind == "table":
        return draw_table(box, panel, queries, answers)
    values = [(name, value) for name, value, _, _ in answers]
    if kind == "stat":
        by_name = panel["options"].get("textMode") == "name"
        return svg.stat(box, values, lambda name, value: name if by_name else words(panel, value) or units.shown(value, queries.unit),
                        shade(panel))
    if kind in ("bargauge", "gauge"):
        return svg.bars(box, values, queries.unit, shade(panel))
    raise SystemExit(f"{panel['title']}: a {kind} cannot be drawn yet")


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
        draw(recording, box, panel, queries)
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
