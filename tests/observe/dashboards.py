"""What the committed dashboards ask of Prometheus, with their variables replaced: for tests that ask it, too.

for panel in dashboards.panels(rate_interval="15s"):
    for target in panel.targets:
        prometheus.query(target.expr)
"""

import json
import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "grafana" / "dashboards"


@dataclass(frozen=True)
class Target:
    """One query of a panel."""

    expr: str
    legend: str
    instant: bool


@dataclass(frozen=True)
class Panel:
    """A panel that shows something; rows are none."""

    dashboard: str  # the uid
    row: str
    title: str
    kind: str
    unit: str
    description: str
    targets: tuple[Target, ...]


@dataclass(frozen=True)
class Annotation:
    """A query whose points are drawn over all panels."""

    dashboard: str
    name: str
    expr: str


@dataclass(frozen=True)
class Variable:
    """A variable whose values Prometheus knows: those of `label` of the series that `selector` chooses."""

    dashboard: str
    name: str
    selector: str
    label: str


def load() -> dict[str, dict]:
    """All dashboards as they are committed, by uid."""
    boards = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]
    return {board["uid"]: board for board in boards}


def rows_and_panels(board: dict) -> Iterator[tuple[str, dict]]:
    """Every panel with the title of its row, as they are read; also those of collapsed rows."""
    row = ""
    for panel in board["panels"]:
        if panel["type"] == "row":
            row = panel["title"]
            yield from ((row, inner) for inner in panel["panels"])
        else:
            yield row, panel


def panels(rate_interval: str = "15s", time_range: str = "5m", **chosen: str) -> list[Panel]:
    """All panels. `chosen` are regular expressions for variables (`sale="drop"`); the others let everything pass."""
    return [
        Panel(
            dashboard=uid,
            row=row,
            title=panel["title"],
            kind=panel["type"],
            unit=panel["fieldConfig"]["defaults"]["unit"],
            description=panel["description"],
            targets=tuple(
                Target(
                    expr=replace(target["expr"], rate_interval, time_range, chosen),
                    legend=target["legendFormat"],
                    instant=target["instant"],
                )
                for target in panel["targets"]
            ),
        )
        for uid, board in load().items()
        for row, panel in rows_and_panels(board)
    ]


def annotations(rate_interval: str = "15s", time_range: str = "5m", **chosen: str) -> list[Annotation]:
    """All annotations but Grafana's own."""
    return [
        Annotation(uid, entry["name"], replace(entry["expr"], rate_interval, time_range, chosen))
        for uid, board in load().items()
        for entry in board["annotations"]["list"]
        if "expr" in entry
    ]


def variables(**chosen: str) -> list[Variable]:
    """All variables but the data source."""
    found = []
    for uid, board in load().items():
        for variable in board["templating"]["list"]:
            if variable["type"] != "query":
                continue
            query = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert query, f"{uid}: variable {variable['name']} asks for something else than label_values"
            selector, label = query.groups()
            found.append(Variable(uid, variable["name"], replace(selector, "", "", chosen), label))
    return found


def replace(expr: str, rate_interval: str, time_range: str, chosen: dict[str, str]) -> str:
    """The expression as Grafana would send it."""
    values = {"__rate_interval": rate_interval, "__range": time_range, **chosen}
    return re.sub(r"\$(\w+)", lambda variable: values.get(variable[1], ".*"), expr)
