"""Every script runs, against a real service, and its thresholds hold."""

import concurrent.futures
import re

import pytest

import harness

# So that something sells out, and somebody repeats.
KNOBS = {
    "flash_sale": {"RATE": 20, "STOCK": 10},
    "cart": {"STOCK": 3},
    "soak": {"DURATION": "2s", "STOCK": 2},
    "lifecycle": {"DURATION": "2s"},
    "order": {"STOCK": 4},
    "retry": {"LOST_PERCENT": 50},
    "barrier": {"PARTICIPANTS": 5, "RATE": 5},
}
SEEN = {
    "smoke": ["accepted{verb:return,outcome:returned}", "accepted{verb:release,outcome:released}"],
    "steady": ["accepted{verb:confirm,outcome:confirmed}"],
    "flash_sale": ["accepted{verb:confirm,outcome:confirmed}", "refused{verb:reserve,outcome:sold_out}"],
    "sold_out": ["refused{verb:reserve,outcome:sold_out}"],
    "soak": ["accepted{verb:return,outcome:returned}", "refused{verb:reserve,outcome:sold_out}"],
    "breakpoint": ["accepted{verb:release,outcome:released}"],
    "cart": ["accepted{verb:replace,outcome:held}", "refused{verb:replace,outcome:sold_out}"],
    "lifecycle": ["refused{verb:confirm,outcome:hold_expired}", "accepted{verb:confirm,outcome:retaken}"],
    "barrier": ["accepted{verb:arrive,outcome:completed}", "accepted{verb:arrive,outcome:replayed}"],
    "order": ["accepted{verb:confirm,outcome:confirmed}", "refused{verb:order,outcome:sold_out}"],
    "retry": ["accepted{verb:again,outcome:replayed}", "repeated"],
}


@pytest.fixture(scope="module")
def service():
    with harness.folder() as home, harness.Stockade(home) as service:
        yield service


@pytest.fixture(scope="module")
def runs(service, tmp_path_factory):
    """All scripts, a few at a time: most of their time is waiting."""
    url, results = f"http://127.0.0.1:{service.port}", tmp_path_factory.mktemp("results")
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        started = {
            name: pool.submit(harness.run, results, name, url, **harness.small(name, **KNOBS.get(name, {})))
            for name in harness.NAMES
        }
        return {name: future.result() for name, future in started.items()}


@pytest.mark.parametrize("name", harness.NAMES)
def test_its_thresholds_hold(runs, name):
    run = runs[name]
    assert run.code == 0, run.output
    assert run.crossed == set() and run.summary["verdict"] == "passed"
    assert all(run.count(metric) > 0 for metric in SEEN[name]), run.output
    assert f"{name}: all thresholds hold" in run.output


@pytest.mark.parametrize("name", harness.NAMES)
def test_what_it_writes_is_short_and_says_it_all(runs, name):
    table = runs[name].path.with_suffix(".md").read_text(encoding="utf-8")
    assert table.startswith(f"**{name}**") and "All thresholds hold." in table
    assert len(table.splitlines()) < 30
    for metric in SEEN[name]:
        if parts := re.fullmatch(r"\w+\{verb:(\w+),outcome:(\w+)\}", metric):
            assert f"| {parts[1]} | {parts[2]} | {runs[name].count(metric)} |" in table


def test_the_books_of_all_sales_balance(runs, service):
    assert len(runs) == len(harness.NAMES)
    code, words = service.audit()
    assert code == 0, words


def test_several_machines_share_a_sale(service, tmp_path):
    url = f"http://127.0.0.1:{service.port}"
    rules = {"hold_seconds": 1, "stock": {"only": {"initial": 12}}}
    assert service.call("PUT", "/v1/sales/shared", rules)[0] == 201
    machines = [
        harness.Run(tmp_path / name, "flash_sale", url, **harness.small("flash_sale", SALE_ID="shared", TESTID="shared"))
        for name in ("one", "two")
    ]
    outputs = [machine.wait() for machine in machines]
    assert [run.code for run in outputs] == [0, 0], "".join(run.output for run in outputs)
    bought = sum(run.count("accepted{verb:confirm,outcome:confirmed}") for run in outputs)
    level = service.call("GET", "/v1/sales/shared/stock/only?fresh=true")[1]
    assert 0 < bought == level["sold"] <= 12 and level["held"] == 0
    assert all(run.count("unaccounted") == 0 for run in outputs)


def test_nothing_is_fetched_from_elsewhere():
    k6s = {"k6", "k6/http", "k6/metrics", "k6/execution", "k6/options"}
    for path in [*harness.SCRIPTS.glob("*.js"), *harness.SCRIPTS.glob("lib/*.js")]:
        for module in re.findall(r"\bfrom '([^']+)'|\bimport\('([^']+)'\)\.", path.read_text(encoding="utf-8")):
            name = "".join(module)
            assert name.startswith("./") or name in k6s, f"{path}: {name}"
