"""Dashboards and alerts tell the truth about two real instances that the story is told to."""

import collections
import contextlib
import math
import re
import subprocess
import time
from dataclasses import dataclass, field

import cost
import dashboards
import expected
import promql
import pytest
import rules
import servers
from client import Client
from servers import eventually
from story import Story

PANELS = dashboards.panels(rate_interval="15s")
ALERTS, RECORDED = rules.exprs(), dict(rules.records())
PROMTOOL = servers.ROOT / ".tools/bin/promtool"
# Gauges that are another after a moment: two processes, which look at different moments, do not see the same.
MOMENTARY = {"stockade_redis_client_buffer_bytes", "stockade_redis_latency_seconds", "stockade_redis_blocked_clients",
             "stockade_audit_last_success_timestamp_seconds"}
SUFFIX = re.compile(r"_(?:bucket|sum|count)$")


def name_of(panel):
    return panel.dashboard, panel.title


@dataclass
class Seen:
    """What the fixture leaves to the tests."""

    begun: float
    live: dict
    missing: dict
    true_alerts: set
    firing: list
    story: Story
    running: servers.Servers
    alone: servers.Prometheus
    api: dict = field(default_factory=dict)
    quiet: float = 0.0
    page: str = ""


def total(prometheus, expr, at=None):
    return sum(value for _, value in prometheus.query(f"sum({expr})", at))


def by_labels(samples):
    return {tuple(sorted(labels.items())): value for labels, value in samples}


def levels(client):
    """Of each SKU, as it is now."""
    found = {}
    for sale in client.expect("200", "GET", "/v1/sales")[1]["items"]:
        for level in client.expect("200", "GET", f"/v1/sales/{sale['sale']}/stock?fresh=true")[1]["items"]:
            found[sale["sale"], level["sku"]] = level
    return found


@pytest.fixture(scope="module")
def seen():
    """Tells the story, reads everything while it is told, and waits until all is quiet."""
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(servers.running("debug", servers.MEMORY))
        prometheus, (one, _) = running.prometheus, running.instances
        # What the same dashboards say where only one of the two is scraped.
        alone = stack.enter_context(servers.Prometheus(running.home, [one.address], "alone"))
        alone.wait_scraped()
        begun = prometheus.wait_scraped()
        story = stack.enter_context(Story(running.instances))
        story.wait_told(times=6)
        at = prometheus.wait_scraped(times=3)
        live = {name_of(panel): promql.read(prometheus, panel, at) for panel in PANELS}
        missing = {(name, selector.text) for name, expr in ALERTS for selector in promql.selectors(expr)
                   # What is recorded need not be there yet: it follows from what is.
                   if not promql.has_data(prometheus.query(RECORDED.get(selector.metric, selector.text), at))}
        true = {name for name, expr in ALERTS if prometheus.query(expr, at)}
        result = Seen(begun, live, missing, true, prometheus.get("alerts")["alerts"], story, running, alone)
        story.stop()
        client = Client(one.port, story.seen)
        story.settled(client)
        result.api = levels(client)
        client.close()
        # Until both have read the slowest gauge anew, and audited the books as they are now.
        over = time.time()
        eventually(lambda: held(prometheus) == 0, lambda: f"{held(prometheus)} units are held, says Prometheus")
        audited = "min(stockade_audit_last_success_timestamp_seconds)"
        eventually(lambda: total(prometheus, audited) > over, "an audit after the story")
        result.quiet = prometheus.wait_scraped(times=2)
        result.page = one.page()
        yield result


def held(prometheus):
    """Units that are held, says either instance, and deliveries that wait."""
    return total(prometheus, 'stockade_sale_units{state="held"}') + total(prometheus, "stockade_webhook_backlog")


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: " > ".join(name_of(panel)))
def test_a_panel_shows_data(panel, seen):
    shown = all(promql.has_data(samples) for samples in seen.live[name_of(panel)])
    reason = expected.NO_DATA.get(name_of(panel))
    assert shown or reason, [target.expr for target, samples in zip(panel.targets, seen.live[name_of(panel)])
                             if not promql.has_data(samples)]
    if name_of(panel) not in expected.SLOW_MACHINE:
        assert not (shown and reason), f"it has data: take it out of NO_DATA, where it says: {reason}"


def test_what_has_no_data_is_there_at_all():
    assert set(expected.NO_DATA) <= set(map(name_of, PANELS))
    assert set(expected.TRUE_ALERTS) | set(expected.NO_SERIES) | expected.MACHINE <= set(dict(ALERTS))


def test_variables_have_values(seen):
    empty = {(variable.dashboard, variable.name) for variable in dashboards.variables()
             if not any(variable.label in labels for labels, _ in seen.running.prometheus.query(variable.selector, seen.quiet))}
    assert empty == set(expected.NO_VALUES)


def test_what_is_drawn_over_panels_comes_from_series_that_exist(seen):
    drawn = {}
    for annotation in dashboards.annotations(rate_interval="15s"):
        for selector in promql.selectors(annotation.expr):
            assert seen.running.prometheus.query(selector.text, seen.quiet), annotation
        found = seen.running.prometheus.query_range(annotation.expr, seen.begun, seen.quiet, servers.SCRAPE_SECONDS)
        drawn[annotation.name] = {labels["sale"] for labels, _ in found}
    assert "encore" in drawn["opened"], drawn


@pytest.mark.parametrize("alert", dict(ALERTS))
def test_an_alert_looks_at_series_that_exist(alert, seen):
    missing = {text for name, text in seen.missing if name == alert}
    reasons = expected.NO_SERIES.get(alert, {})
    assert missing == set(reasons), "what is missing needs a reason in NO_SERIES, and what is there needs none"


def test_no_alert_fires_in_a_healthy_story(seen):
    assert seen.true_alerts - expected.MACHINE == set(expected.TRUE_ALERTS)
    firing = {alert["labels"]["alertname"] for alert in seen.firing if alert["state"] == "firing"}
    assert firing <= set(expected.TRUE_ALERTS)


def scopes(page):
    """Of each metric on a page: what its HELP says about whose it is."""
    return dict(re.findall(r"^# HELP (\S+) .*\[(process|store-wide)\]$", page, re.M))


def exported(page):
    return set(re.findall(r"^# TYPE (\S+) ", page, re.M))


def test_every_help_says_whose_figure_it_is(seen):
    assert exported(seen.page) - set(scopes(seen.page)) == set()


def test_what_is_of_the_store_does_not_double_with_a_second_instance(seen):
    """Panels of figures that every process exports alike say the same where one process alone is scraped."""
    store_wide = {metric for metric, scope in scopes(seen.page).items() if scope == "store-wide"}
    looked_at = 0
    # Over the whole story, so that it matters little which process looked first.
    for panel in dashboards.panels(rate_interval="2m"):
        for target in panel.targets:
            metrics = {SUFFIX.sub("", selector.metric) for selector in promql.selectors(target.expr)}
            if not metrics or not metrics <= store_wide:
                continue
            both, alone = (by_labels(prometheus.query(target.expr, seen.quiet))
                           for prometheus in (seen.running.prometheus, seen.alone))
            assert both.keys() == alone.keys(), (name_of(panel), target.expr)
            for labels, value in both.items() if not metrics & MOMENTARY else ():
                # Not the same to the last digit; twice as much would be off by half of the larger one.
                assert math.isclose(value, alone[labels], rel_tol=0.4, abs_tol=0.01), (name_of(panel), target.expr, labels)
            looked_at += 1
    assert looked_at > 10


def test_units_are_those_of_the_api(seen):
    """Of each SKU, of each sale, and over all."""
    wanted = {(sale, sku, state): level["granted" if state == "granted" else state]
              for (sale, sku), level in seen.api.items() for state in ("available", "held", "sold", "granted")}
    shown = {(labels["sale"], labels["sku"], labels["state"]): value for labels, value in
             seen.running.prometheus.query("max without (instance) (stockade_stock_units)", seen.quiet)}
    assert shown == wanted
    sales = collections.Counter()
    for (sale, _, state), units in wanted.items():
        sales[sale, state] += units
    shown = {(labels["sale"], labels["state"]): value for labels, value in
             seen.running.prometheus.query("max without (instance) (stockade_sale_units)", seen.quiet)}
    assert shown == dict(sales)


def test_counters_are_what_the_clients_did(seen):
    """Over both instances: each call was counted by one of them."""
    prometheus, story = seen.running.prometheus, seen.story

    def grown(expr):
        counted = by_labels(prometheus.query(expr, seen.quiet))
        for labels, value in by_labels(prometheus.query(expr, seen.begun)).items():
            counted[labels] -= value
        return {tuple(value for _, value in labels): count for labels, count in counted.items() if count}

    calls = collections.Counter()
    for (route, method, status, _), count in story.seen.items():
        if method != "GET":
            calls[method, route, status] += count
    requests = grown('sum by (method, route, status) (stockade_http_requests_total{method=~"POST|PUT|DELETE"})')
    names = re.compile(r"\{\w+\}|(?<=/)bulk$")
    assert {(method, names.sub("{}", route), status): count for (method, route, status), count in requests.items()} == calls

    def said(outcome, *routes):
        return sum(count for (route, _, _, word), count in story.seen.items()
                   if word == outcome and (not routes or route in routes))

    # Not `acquired` and `released`: orders take locks as well.
    assert grown('sum by (outcome) (stockade_locks_total{outcome=~"lock_held|not_owner|renewed"})') == {
        (outcome,): said(outcome) for outcome in ("lock_held", "not_owner", "renewed")}
    assert grown('sum by (outcome) (stockade_orders_total{outcome=~"held|confirmed|released|sold_out"})') == {
        ("held",): said("held", "/v1/orders"), ("sold_out",): said("sold_out", "/v1/orders"),
        ("confirmed",): said("confirmed", "/v1/orders/{}/confirm"), ("released",): said("released", "/v1/orders/{}/release")}
    assert grown('sum by (outcome) (stockade_barriers_total{outcome=~"created|cancelled"})') == {
        ("created",): said("created", "/v1/barriers/{}"), ("cancelled",): said("cancelled", "/v1/barriers/{}")}
    assert grown('sum by (outcome) (stockade_sale_reservations_total{outcome=~"sale_paused|buyer_limit|returned|retaken"})') == {
        (outcome,): said(outcome) for outcome in ("sale_paused", "buyer_limit", "returned", "retaken")}
    taken = collections.Counter()
    for (_, status), count in story.receiver.taken.items():
        taken[{204: "delivered", 500: "retried", 410: "gone"}[status],] += count
    # `dead` are those that waited for an endpoint that had gone: nobody was called.
    assert grown('sum by (outcome) (stockade_webhook_deliveries_total{outcome!="dead"})') == taken


def test_units_that_moved_are_units_that_are_there(seen):
    """What was held by one instance and ended by the other is in the sum over both, once."""
    moved = {labels["transition"]: value for labels, value in
             seen.running.prometheus.query("sum by (transition) (stockade_reservation_units_total)", seen.quiet)}
    for labels, value in seen.running.prometheus.query("sum by (transition) (stockade_reservation_units_total)", seen.begun):
        moved[labels["transition"]] -= value
    assert moved["held"] == moved["confirmed"] + moved["released"] + moved["expired"]
    sold = sum(level["sold"] for level in seen.api.values())
    assert moved["confirmed"] + moved["retaken"] == sold + seen.story.units_returned


def test_the_books_balance(seen):
    """Says the audit that began when all was quiet or nearly so; and it says so of the whole store."""
    for metric in ("stockade_conservation_violations", "stockade_orphans", "stockade_holds_open", "stockade_holds_overdue"):
        assert {value for _, value in seen.running.prometheus.query(metric, seen.quiet)} == {0}, metric


def metrics_in(*patterns):
    """Names of metrics in files of grafana/."""
    files = [file for pattern in patterns for file in (servers.ROOT / "grafana").glob(pattern)]
    assert files
    return {SUFFIX.sub("", name) for file in files
            for name in re.findall(r"\b(?:stockade|process)_\w+", file.read_text())}


def test_every_metric_in_grafana_is_exported(seen):
    assert metrics_in("dashboards/*.json", "prometheus/alerts.yml") - exported(seen.page) == set()


def test_every_metric_of_the_service_is_on_a_dashboard(seen):
    ours = {metric for metric in exported(seen.page) if metric.startswith("stockade_")}
    assert ours - metrics_in("dashboards/*.json") == set(expected.NOT_SHOWN)


def test_promtool_finds_nothing_wrong_with_the_page(seen):
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=seen.page, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_cost_of_a_scrape_is_reported(seen, capsys):
    """Reported, not judged: other work runs on this machine while tests do. `make observe` says it, too."""
    measured = cost.measure(seen.running.instances[0])
    with capsys.disabled():
        print("", *measured.lines(), sep="\n")
