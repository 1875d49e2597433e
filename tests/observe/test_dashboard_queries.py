"""What the queries of the dashboards mean: tried with promtool on series that are written down here."""

import json
import subprocess

import dashboards

PROMTOOL = dashboards.REPOSITORY / ".tools/bin/promtool"


def promtool(folder, verb, noun, document):
    path = folder / "promtool.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    ran = subprocess.run([PROMTOOL, verb, noun, path], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def two_processes(metric, labels, one, other):
    """A series as two processes publish it."""
    return [
        {"series": f'{metric}{{job="stockade", instance="{instance}", pod="{instance}", {labels}}}', "values": values}
        for instance, values in (("a", one), ("b", other))
    ]


def levels(sale, available, held, sold, granted="10x20"):
    """The units of a sale, which the second process sees one moment later."""

    def later(values):
        return f"{values.split()[0]} {values}"

    states = {"available": available, "held": held, "sold": sold, "granted": granted}
    return [
        series
        for state, values in states.items()
        for series in two_processes("stockade_sale_units", f'sale="{sale}", state="{state}"', values, later(values))
    ]


def check(folder, series, *expectations):
    """Each expectation: an expression, when in seconds, and what it is then: a number, or numbers by labels."""
    tests = []
    for expr, second, wanted in expectations:
        if not isinstance(wanted, dict):
            wanted = {"{}": wanted}
        samples = [{"labels": labels, "value": value} for labels, value in wanted.items()]
        tests.append({"expr": expr, "eval_time": f"{second}s", "exp_samples": samples})
    document = {"interval": "5s", "input_series": series, "promql_expr_test": tests}
    # Samples are loaded up to the last evaluation.
    promtool(folder, "test", "rules", {"evaluation_interval": "5s", "tests": [document]})


def query(title, legend=None, dashboard="stockade-sale", **chosen):
    """The query of a panel, as it would be sent for a graph whose rates are over 20 seconds."""
    (panel,) = [
        panel
        for panel in dashboards.panels("20s", "1m", **chosen)
        if (panel.dashboard, panel.title) == (dashboard, title)
    ]
    (target,) = [target for target in panel.targets if legend in (None, target.legend)]
    return target.expr


def test_queries_are_promql(tmp_path):
    exprs = [target.expr for panel in dashboards.panels() for target in panel.targets]
    exprs += [annotation.expr for annotation in dashboards.annotations()]
    exprs += [variable.selector for variable in dashboards.variables()]
    rules = [{"record": "any", "labels": {"number": str(number)}, "expr": expr} for number, expr in enumerate(exprs)]
    promtool(tmp_path, "check", "rules", {"groups": [{"name": "queries", "rules": rules}]})


def test_units_of_two_processes_count_once(tmp_path):
    check(
        tmp_path,
        levels("drop", "10 6 0x20", "0 4 6 3x20", "0 0 4 7x20") + levels("other", "5x20", "0x20", "5x20"),
        (query("Units left", sale="drop"), 20, 0),
        (query("Held", sale="drop"), 20, 3),
        (query("Sold", sale="drop"), 20, 7),
        (query("Granted", sale="drop"), 20, 10),
        (query("Units left"), 20, 5),
        (query("Granted"), 20, 20),
        (query("Units", "{{state}}"), 20, {'{state="available"}': 5, '{state="held"}': 3, '{state="sold"}': 12}),
    )


def test_books_balance_though_processes_look_at_different_moments(tmp_path):
    # At 10 s the first process says 0 + 6 + 4, the second one still 6 + 4 + 0.
    check(
        tmp_path,
        levels("drop", "10 6 0x20", "0 4 6 3x20", "0 0 4 7x20"),
        (query("Oversold", "sales"), 10, 0),
        (query("Drift", "sales"), 10, 0),
    )


def test_books_that_do_not_balance_show(tmp_path):
    check(
        tmp_path,
        # One unit more is held than there was, and two are lost.
        levels("oversold", "0x20", "4x20", "7x20")
        + levels("lost", "3x20", "2x20", "3x20")
        + levels("well", "1x20", "2x20", "7x20"),
        (query("Oversold", "sales"), 20, 1),
        (query("Drift", "sales"), 20, 3),
        (query("Oversold", "sales", sale="lost"), 20, 0),
        (query("Drift", "sales", sale="well"), 20, 0),
    )


def test_annotations_are_drawn_at_the_change_and_not_after_it(tmp_path):
    expr = {annotation.name: annotation.expr for annotation in dashboards.annotations("20s")}
    status = two_processes("stockade_sale_status", 'sale="drop", status="open"', "0x9 1x20", "0x10 1x20")
    status += two_processes("stockade_sale_status", 'sale="drop", status="paused"', "0x29", "0x29")
    # Open when it is seen for the first time.
    status += two_processes("stockade_sale_status", 'sale="old", status="open"', "_x9 1x20", "_x9 1x20")
    drop, nothing = {'{sale="drop"}': 1}, {}
    sold_out = levels("drop", "5x9 0x20", "5x9 10x20", "0x30") + levels("never", "0x30", "0x30", "0x30", "0x30")
    check(
        tmp_path,
        status + sold_out,
        *((expr["opened"], second, nothing) for second in (30, 49, 70, 75, 120)),
        *((expr["opened"], second, drop) for second in (50, 55, 60, 65)),
        *((expr["paused"], second, nothing) for second in (30, 50, 60, 120)),
        *((expr["sold out"], second, nothing) for second in (30, 49, 75, 120)),
        *((expr["sold out"], second, {'{sale="drop"}': 0}) for second in (50, 55, 60, 65)),
    )


def test_answers_are_accepted_refused_or_failed(tmp_path):
    def answers(outcome, a_second):
        return two_processes(
            "stockade_sale_reservations_total", f'sale="drop", outcome="{outcome}"', f"0+{5 * a_second}x20", "0x20"
        )

    words = {
        "held": 1,
        "confirmed": 2,
        "replayed": 4,
        "sold_out": 8,
        "buyer_limit": 16,
        "queue_full": 32,
        "store_busy": 64,
    }
    series = [one for outcome, a_second in words.items() for one in answers(outcome, a_second)]
    series += two_processes("stockade_sale_status", 'sale="drop", status="open"', "1x20", "1x20")
    series += two_processes("stockade_sale_status", 'sale="quiet", status="scheduled"', "1x20", "1x20")
    check(
        tmp_path,
        series,
        (query("Accepted", sale="drop"), 60, 1),
        (query("Refused", sale="drop"), 60, 8 + 16),
        (query("Failed", sale="drop"), 60, 32 + 64),
        (query("Answers", "replayed", sale="drop"), 60, 4),
        (query("Conversion"), 60, {'{sale="drop"}': 2}),
        # Nobody has asked for it yet: that is 0, not nothing.
        (query("Accepted", sale="quiet"), 60, 0),
        (query("Accepted", sale="unknown"), 60, {}),
    )


def test_doors_open_in_the_time_until_the_next_sale(tmp_path):
    series = []
    for sale, opens_at, status in (("near", 360, "scheduled"), ("far", 900, "scheduled"), ("past", 0, "open")):
        series += two_processes("stockade_sale_opens_at_seconds", f'sale="{sale}"', f"{opens_at}x20", f"{opens_at}x20")
        for word in ("scheduled", "open"):
            value = int(word == status)
            series += two_processes(
                "stockade_sale_status", f'sale="{sale}", status="{word}"', f"{value}x20", f"{value}x20"
            )
    check(
        tmp_path,
        series,
        (query("Doors open in"), 60, 300),
        (query("Doors open in", sale="far"), 60, 840),
        (query("Doors open in", sale="past"), 60, {}),
        (query("Doors"), 60, {'{status="scheduled"}': 2, '{status="open"}': 1}),
    )


def test_error_budget_counts_faults_of_requests(tmp_path):
    def requests(route, status, a_second):
        labels = f'route="{route}", method="POST", status="{status}"'
        return two_processes("stockade_http_requests_total", labels, f"0+{5 * a_second}x20", f"0+{5 * a_second}x20")

    def service(title):
        return query(title, dashboard="stockade-service")

    well = requests("/v1/sales", "201", 500) + requests("/v1/sales", "409", 500) + requests("/readyz", "503", 500)
    check(tmp_path, well, (service("Errors"), 60, 0), (service("Error budget left"), 60, 1))
    ill = well + requests("/v1/sales", "503", 10)
    ratio = 10 / 1010
    check(
        tmp_path,
        ill,
        (f"round({service('Errors')}, 0.0001)", 60, round(ratio, 4)),
        (f"round({service('Error budget left')}, 0.01)", 60, round(1 - ratio / 0.001, 2)),
        (service("Requests"), 60, 2 * 1010),
    )


def test_counters_of_redis_count_once_and_other_programs_do_not_count(tmp_path):
    series = two_processes("stockade_redis_commands_total", 'x="y"', "0+50x20", "0+50x20")
    series += two_processes("stockade_build_info", 'version="1"', "1x20", "1x20")
    series += [
        {"series": 'process_cpu_seconds_total{job="stockade", instance="a"}', "values": "0+1x20"},
        {"series": 'process_cpu_seconds_total{job="prometheus", instance="p"}', "values": "0+1x20"},
    ]
    check(
        tmp_path,
        series,
        (query("Commands", "commands", "stockade-service"), 60, 10),
        (query("CPU", dashboard="stockade-service"), 60, {'{job="stockade", instance="a"}': 0.2}),
    )
