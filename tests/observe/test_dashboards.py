"""The dashboards as they are committed: what holds for every panel.

The rules are those of Grafana's dashboard-linter and of this project. What queries mean is tried in
test_dashboard_queries.py, and whether every panel shows something, on a service that runs.
"""

import re
import subprocess
import sys

import dashboards
import pytest

GRAFANA = dashboards.REPOSITORY / "grafana"

BOARDS = dashboards.load()
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# What is as high as a screen of 1080 lines shows without scrolling.
SCREEN = 20

boards = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)


def panels(board):
    """Every panel as it is in the file."""
    return [panel for _, panel in dashboards.rows_and_panels(board)]


def queries(board):
    """Every query, of panels and of annotations, with the kind of what asks it."""
    for panel in panels(board):
        yield from ((panel["type"], target["expr"]) for target in panel["targets"])
    yield from (("annotation", entry["expr"]) for entry in board["annotations"]["list"] if "expr" in entry)


def words_in(*files):
    """Every quoted word of the service's own files."""
    texts = [(dashboards.REPOSITORY / "src" / file).read_text(encoding="utf-8") for file in files]
    return set(re.findall(r'"(\w+)"', "".join(texts)))


# --- Files -----------------------------------------------------------------------------------------------------------


def test_files_are_made_from_their_source():
    checked = subprocess.run([sys.executable, GRAFANA / "generate.py", "check"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_there_are_three_dashboards():
    # A second one of the same uid would be missing here.
    assert sorted(BOARDS) == ["stockade-coordination", "stockade-sale", "stockade-service"]
    assert len(list(dashboards.FOLDER.glob("*.json"))) == len(BOARDS)


@boards
def test_dashboard_is_fit_for_provisioning(board):
    assert board["id"] is None
    assert board["editable"] is False
    assert board["schemaVersion"] == 39
    assert board["description"]
    assert board["title"].startswith("Stockade / ")


@boards
def test_dashboards_link_to_each_other(board):
    (link,) = board["links"]
    assert (link["type"], link["keepTime"], link["includeVars"]) == ("dashboards", True, True)
    assert set(link["tags"]) <= set(board["tags"])


@pytest.mark.parametrize("source", sorted((GRAFANA / "src").iterdir()), ids=lambda path: path.name)
def test_source_leaves_places_to_the_layout(source):
    assert source.name == "layout.libsonnet" or "gridPos:" not in source.read_text(encoding="utf-8")


# --- Variables -------------------------------------------------------------------------------------------------------


@boards
def test_there_is_one_datasource_variable(board):
    (variable,) = [variable for variable in board["templating"]["list"] if variable["type"] == "datasource"]
    assert (variable["name"], variable["query"], variable["multi"]) == ("datasource", "prometheus", False)


@boards
def test_variables_of_labels_come_from_prometheus(board):
    variables = {variable["name"]: variable for variable in board["templating"]["list"] if variable["type"] == "query"}
    own = {"stockade-sale": {"sale"}, "stockade-service": {"testid"}, "stockade-coordination": set()}
    assert set(variables) == {"job", "instance"} | own[board["uid"]]
    for name, variable in variables.items():
        assert variable["datasource"] == DATASOURCE
        assert (variable["multi"], variable["includeAll"], variable["current"]["value"]) == (True, True, ["$__all"])
        assert variable["refresh"] == 2, "2 is: when the time range changes"
        assert variable["query"]["query"] == variable["definition"]
        assert variable["definition"].endswith(f", {name})")


# --- Panels ----------------------------------------------------------------------------------------------------------


@boards
def test_panels_say_what_they_show(board):
    for panel in panels(board):
        title = panel["title"]
        assert title and panel["targets"]
        assert panel["fieldConfig"]["defaults"]["unit"], title
        assert re.fullmatch(r"[A-Z0-9][^\n]+\.", panel["description"]), f"{title}: the description is not a sentence"
    titles = [panel["title"] for panel in panels(board)]
    assert len(titles) == len(set(titles))


@boards
def test_panels_ask_the_chosen_datasource(board):
    for panel in panels(board):
        assert panel["datasource"] == DATASOURCE, panel["title"]
        assert all(target["datasource"] == DATASOURCE for target in panel["targets"]), panel["title"]
        ids = [target["refId"] for target in panel["targets"]]
        assert len(ids) == len(set(ids)), panel["title"]
    for entry in board["annotations"]["list"]:
        assert entry["datasource"] == DATASOURCE or entry["builtIn"] == 1


@boards
def test_legends_name_the_labels_that_tell_series_apart(board):
    for panel in panels(board):
        # A table has columns, a heatmap the bounds of its buckets; what is one number needs no name.
        alone = panel["type"] == "stat" and len(panel["targets"]) == 1
        for target in panel["targets"] if panel["type"] not in ("table", "heatmap") else []:
            grouped = re.search(r"\bby \(([^)]+)\)", target["expr"])
            labels = set(grouped[1].split(", ")) - {"le", "job"} if grouped else set()
            if target["legendFormat"] or not alone:
                assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) == labels, target
                assert target["legendFormat"], target


@boards
def test_what_is_one_number_is_not_an_old_one(board):
    """A range query would show the last value of a series that is gone."""
    for panel in panels(board):
        at_one_moment = panel["type"] in ("stat", "bargauge", "table")
        assert all(target["instant"] == at_one_moment for target in panel["targets"]), panel["title"]


@boards
def test_what_must_be_zero_is_red_otherwise(board):
    stats = [panel for panel in panels(board) if panel["type"] == "stat" and "Must be 0" in panel["description"]]
    for panel in stats:
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert [(step["color"], step["value"]) for step in steps] == [("green", None), ("red", 1e-9)], panel["title"]
    assert stats


@boards
def test_panels_fill_their_rows_and_overlap_nowhere(board):
    taken = {}
    ids = []

    def take(panel):
        place = panel["gridPos"]
        ids.append(panel["id"])
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["id"]) == panel["id"], f"{panel['title']} overlaps another"

    for panel in board["panels"]:
        take(panel)
        for inner in panel.get("panels", []):
            # Drawn below the row when somebody opens it: what follows would have to move.
            assert panel["collapsed"] and panel is board["panels"][-1]
            take(inner)
    height = max(y for _, y in taken) + 1
    assert set(taken) == {(x, y) for x in range(24) for y in range(height)}, "there are holes"
    assert ids == list(range(1, len(ids) + 1))


def test_first_screen_of_sale_is_what_an_operator_needs_before_the_doors_open():
    places = {panel["title"]: panel["gridPos"] for panel in panels(BOARDS["stockade-sale"])}
    first_screen = {title for title, place in places.items() if place["y"] + place["h"] <= SCREEN}
    stock = {"Doors open in", "Doors", "Units left", "Held", "Sold", "Granted", "Units"}
    traffic = {"Accepted", "Refused", "Failed", "Answer time, p99", "Holds open", "Expiry lag, p99", "Answers"}
    health = {"Oversold", "Drift", "Violations", "Last audit", "Redis", "Webhook backlog"}
    assert stock | traffic | health <= first_screen


# --- Queries ---------------------------------------------------------------------------------------------------------

# Whom a metric is about, and its kind: buckets have other names than counters and gauges.
CATALOGUE = {
    name: (scope, kind.removeprefix("Kind::").lower() if kind.startswith("Kind::") else "histogram")
    for name, scope, kind in re.findall(
        r'"(stockade_\w+)"\s+(Process|Store)\s+([\w:]+),',
        (dashboards.REPOSITORY / "src/metrics/catalogue.rs").read_text(encoding="utf-8"),
    )
}
SELECTOR = re.compile(r"\b((?:stockade|process|k6)_\w+){")
ONCE = "max without (instance, pod) ("


def metric(name):
    """Whom a series is about, and its kind: counter, gauge, or histogram."""
    if not name.startswith("stockade_"):
        return "Process", "counter" if name.endswith("_total") else "gauge"
    family = re.sub(r"_(bucket|sum|count)$", "", name)
    known = CATALOGUE.get(name) or CATALOGUE.get(family)
    assert known, f"the service has no metric {name}"
    assert (known[1] == "histogram") == (name != family), f"{name} is not a series that can be asked for"
    return known


@boards
def test_queries_are_of_the_chosen_processes(board):
    for _, expr in queries(board):
        selectors = list(SELECTOR.finditer(expr))
        for selector in selectors:
            wanted = 'testid=~"$testid"' if selector[1].startswith("k6_") else 'job=~"$job", instance=~"$instance"'
            assert expr[selector.end() :].startswith(wanted), expr
        # None stands without braces.
        assert len(re.findall(r"\b(?:stockade|k6|process)_\w+", expr)) == len(selectors) > 0, expr


@boards
def test_counters_are_rated_and_gauges_are_not(board):
    for _, expr in queries(board):
        for selector in SELECTOR.finditer(expr):
            rated = re.search(r"\b(rate|increase)\($", expr[: selector.start()]) is not None
            assert rated == (metric(selector[1])[1] != "gauge"), f"{selector[1]} in {expr}"


@boards
def test_rates_are_over_the_interval_of_the_graph(board):
    for kind, expr in queries(board):
        windows = re.findall(r"\b(\w+)\([^\[\]()]*\[([^\]]+)\]\)", expr)
        assert len(windows) == expr.count("["), expr
        for function, window in windows:
            # An increase is over all the time shown, for one number: how many, not how fast.
            assert (function, window) in (("rate", "$__rate_interval"), ("increase", "$__range")), expr
            assert function == "rate" or kind in ("stat", "bargauge"), expr


@boards
def test_rates_are_summed_after_they_are_taken(board):
    summed = re.compile(r"\bsum(?: by \([^)]*\))? \((?:%s)?$" % re.escape(ONCE))
    for _, expr in queries(board):
        for place in re.finditer(r"\b(?:rate|increase)\(", expr):
            assert summed.search(expr[: place.start()]), expr


@boards
def test_what_every_process_says_of_the_store_counts_once(board):
    for kind, expr in queries(board):
        # Annotations take the highest or lowest of all processes at once.
        for selector in SELECTOR.finditer(expr) if kind != "annotation" else ():
            around = expr[: selector.start()]
            innermost = around[around.rfind(ONCE) :] if ONCE in around else ""
            is_once = innermost.count("(") > innermost.count(")")
            assert is_once == (metric(selector[1])[0] == "Store"), f"{selector[1]} in {expr}"


@boards
def test_buckets_keep_their_bounds(board):
    for _, expr in queries(board):
        for place in re.finditer(r"_bucket{", expr):
            assert re.search(r"sum by \(le\b[^)]*\) \(rate\(\w+$", expr[: place.start()]), expr


@boards
def test_words_are_those_of_the_service(board):
    known = words_in("metrics/labels.rs", "domain/sale.rs", "domain/stock.rs")
    for _, expr in queries(board):
        for words in re.findall(r'\b(?:outcome|state|status|transition|operation)[!=]~?"([\w|]+)"', expr):
            assert set(words.split("|")) <= known, expr
