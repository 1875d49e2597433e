"""Thresholds fail when they must: k6 exits 99, and names what is wrong."""

import concurrent.futures
import subprocess

import pytest

import harness
from liar import Liar

# What the liar lies about, the script that is told, and the thresholds that must be crossed: these and no others.
LIES = [
    ("truth", "steady", set()),
    ("truth", "retry", set()),
    ("truth", "barrier", set()),
    ("sold twice", "steady", {"oversold", "drift", "unaccounted"}),
    ("units are lost", "steady", {"drift"}),
    ("totals differ", "steady", {"drift"}),
    ("a sale is lost", "steady", {"unaccounted"}),
    ("a hold never ends", "steady", {"overdue_units"}),
    ("the audit found something", "steady", {"drift"}),
    ("the books are shut", "steady", {"books_checked", "unaccounted"}),
    ("payments get no answer", "steady", {"failed", "http_req_failed", "unknown_units"}),
    ("a strange refusal", "steady", {"unexpected"}),
    ("a repeat takes again", "retry", {"duplicate_holds"}),
    ("a buyer has twice", "retry", {"duplicate_holds"}),
    ("all are the last", "barrier", {"misfires"}),
]
KNOBS = {"steady": {"GRACE_SECONDS": 1}, "retry": {"LOST_PERCENT": 50}, "barrier": {"PARTICIPANTS": 5}}


def hear(results, lie, script):
    with Liar(lie) as liar:
        return harness.run(results, script, liar.url, **harness.small(script, RATE=5, **KNOBS.get(script, {})))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """All of them, a few at a time."""
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        started = {(lie, script): pool.submit(hear, tmp_path_factory.mktemp("lie"), lie, script) for lie, script, _ in LIES}
        return {what: future.result() for what, future in started.items()}


@pytest.mark.parametrize("lie, script, wanted", LIES)
def test_a_lie_is_found_out(runs, lie, script, wanted):
    run = runs[lie, script]
    assert run.crossed == wanted, run.output
    assert run.code == (99 if wanted else 0), run.output
    assert run.summary["verdict"] == ("failed" if wanted else "passed")
    for metric in wanted:
        assert metric in run.path.with_suffix(".md").read_text(encoding="utf-8")


def test_a_store_that_dies_is_a_failure_and_no_refusal(tmp_path):
    """The service answers on: 503 to each, and k6 says so."""

    class OnRedis(harness.Stockade):
        def __init__(self, home, redis):
            super().__init__(home)
            self.command += ["--redis-url", f"unix://{redis.path}"]

    with harness.folder() as home, harness.Redis(home) as redis, OnRedis(home, redis) as service:
        run = harness.Run(tmp_path, "steady", f"http://127.0.0.1:{service.port}", **harness.small("steady", DURATION="4s"))

        def somebody_bought():
            sales = service.call("GET", "/v1/sales")[1]["items"]
            return any(sale["totals"]["sold"] > 2 for sale in sales)

        harness.eventually(somebody_bought)
        redis.kill()
        run.wait()
    assert run.code == 99, run.output
    assert {"failed", "http_req_failed", "books_checked"} <= run.crossed
    assert run.count("refused") == 0 and run.count("unexpected") == 0
    assert "failed: reserve is answered store_unavailable (503" in run.output
    assert "The books cannot be read" in run.output


def test_a_service_that_is_not_there_is_told_at_once(tmp_path):
    run = harness.run(tmp_path, "smoke", f"http://127.0.0.1:{harness.free_port()}", **harness.small("smoke"))
    assert run.code != 0 and "connection refused" in run.output and "accepted " not in run.output


def test_a_generator_that_cannot_keep_its_rate_says_so(tmp_path):
    """Every VU waits for an answer that takes long, so arrivals are dropped."""
    with Liar("payments get no answer") as liar:
        knobs = harness.small("steady", RATE=50, LATENCY_MS_MAX=1)
        run = harness.run(tmp_path, "steady", liar.url, **knobs)
    assert run.code == 99 and "dropped_iterations" in run.crossed, run.output


@pytest.mark.parametrize("script, knob, said", [
    ("smoke", "RATE=fast", "RATE=fast: RATE must be a whole number from 1 to 100000"),
    ("smoke", "RATE=0", "RATE must be a whole number from 1 to 100000"),
    ("smoke", "DURATION=10", "DURATION must be a time of at least 1s and at most 168h, like 90s, 10m or 1h30m"),
    ("smoke", "BASE_URL=localhost:8080", "BASE_URL must be http:// or https://, a host and perhaps a port, without a path"),
    ("smoke", "HOLD_SECONDS=1.5", "HOLD_SECONDS must be a whole number from 1 to 3600"),
    ("smoke", "SALE_ID=a b", "SALE_ID must be a name of a sale"),
    ("retry", "LOST_PERCENT=101", "LOST_PERCENT must be a number above 0 and at most 100"),
    ("barrier", "PARTICIPANTS=1", "PARTICIPANTS must be a whole number from 2 to 1000"),
])
def test_a_wrong_knob_stops_the_start(script, knob, said):
    """By k6 alone, as on a load machine without Python."""
    command = [harness.K6, "run", "--no-usage-report", "--address=", "-e", knob, harness.SCRIPTS / f"{script}.js"]
    ran = subprocess.run(command, env=harness.environment(), capture_output=True, text=True)
    assert ran.returncode != 0 and said in ran.stderr, ran.stderr
    assert "setup" not in ran.stderr


@pytest.mark.parametrize("arguments, said", [
    (["smoke", "RAET=5"], "smoke has no knob RAET. It has BASE_URL, API_KEY, RATE"),
    (["barrier", "SALE_ID=a"], "barrier has no knob SALE_ID"),
    (["flashsale"], "there is no script flashsale. There are barrier, breakpoint, cart"),
    (["smoke", "RATE"], "RATE: must be NAME=value"),
    (["smoke", "K6=/nowhere/k6"], "/nowhere/k6 cannot be started (No such file or directory)"),
    (["smoke", "HTML=yes"], "HTML=yes: must be 0 or 1"),
    (["smoke", "PROMETHEUS=localhost:9090"], "PROMETHEUS=localhost:9090: must be the URL of a Prometheus"),
])
def test_a_slip_of_the_pen_stops_it(tmp_path, arguments, said):
    extra = [f"SUMMARY_DIR={tmp_path}", "BASE_URL=http://127.0.0.1:1"]
    command = [harness.sys.executable, harness.SCRIPTS / "run.py", *arguments, *extra]
    ran = subprocess.run(command, env=harness.environment(), capture_output=True, text=True)
    assert ran.returncode != 0 and said in ran.stdout + ran.stderr, ran.stderr


def test_the_number_of_sales_to_join_is_the_scripts(tmp_path):
    with Liar("truth") as liar:
        run = harness.run(tmp_path, "order", liar.url, **harness.small("order", SALE_ID="one"))
    assert run.code != 0 and "SALE_ID=one: order needs 2 of them" in run.output
