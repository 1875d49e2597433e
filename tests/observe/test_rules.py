"""The alert rules: what promtool says of them, and what it cannot know: that there is a test and a section of the runbook
for each, and that the service has every metric they name. `grafana/prometheus/tests` tries the rules themselves."""

import json
import re
import shutil
import subprocess
from functools import cache

import pytest
import yaml

import rules

PROMTOOL = rules.ROOT / ".tools" / "bin" / "promtool"
CONFIG = rules.PROMETHEUS / "prometheus.yml"
TESTS = sorted((rules.PROMETHEUS / "tests").glob("*.yml"))
RUNBOOK = rules.ROOT / "docs" / "runbook.md"
PARTS = ["For buyers", "Look", "Do", "Do not", "Wake"]

each_alert = pytest.mark.parametrize(
    "alert", rules.alerts(), ids=lambda alert: f"{alert['alert']}-{alert['labels']['severity']}"
)


def promtool(*arguments) -> str:
    ran = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_configuration_is_sound_and_finds_the_rules():
    said = promtool("check", "config", CONFIG)
    assert "1 rule files found" in said and f"{len(rules.rules())} rules found" in said


def test_the_rules_are_sound():
    assert promtool("check", "rules", "--lint-fatal", rules.ALERTS).count("SUCCESS") == 1


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_promtool_tries_the_rules(file):
    assert promtool("test", "rules", file).count("SUCCESS") == 1


def test_the_way_with_a_key_is_right_as_it_stands_in_the_comment(tmp_path):
    with_key = re.sub(r"    # (authorization:\n)    # (  credentials_file:)", r"    \1    \2", CONFIG.read_text())
    job = yaml.safe_load(with_key)["scrape_configs"][0]
    key = tmp_path / job["authorization"]["credentials_file"]
    (tmp_path / "prometheus.yml").write_text(with_key)
    shutil.copy(rules.ALERTS, tmp_path)
    with pytest.raises(AssertionError, match="credentials_file|no such file"):
        promtool("check", "config", tmp_path / "prometheus.yml")
    key.write_text("id.secret\n")
    promtool("check", "config", tmp_path / "prometheus.yml")


@each_alert
def test_an_alert_says_what_somebody_who_is_woken_needs(alert):
    assert re.fullmatch(r"Stockade[A-Za-z]+", alert["alert"])
    assert set(alert["labels"]) == {"severity"}
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert re.fullmatch(r"\d+[smh]", alert["for"])
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    assert all(alert["annotations"].values())
    assert "{{" not in alert["annotations"]["summary"], "it names the alert in a list: nothing in it may change"
    assert re.search(r"\$value \|", alert["annotations"]["description"]), "the value, readable"


@each_alert
def test_an_alert_has_its_section_in_the_runbook(alert):
    file, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert rules.ROOT / file == RUNBOOK
    assert anchor == anchor_of(alert["alert"])
    section = sections()[alert["alert"]]
    assert [part for part in PARTS if not re.search(rf"^\*\*{part}\.?\*\*", section, re.M)] == []


def test_the_runbook_knows_each_alert_and_no_other():
    named = {heading for heading in sections() if heading.startswith("Stockade")}
    assert named == {name for name, _ in rules.exprs()}
    rows = re.findall(r"^\| \[(\w+)\]\(#\w+\) \| ([a-z, ]+) \|", RUNBOOK.read_text(), re.M)
    severities = {}
    for alert in rules.alerts():
        severities.setdefault(alert["alert"], []).append(alert["labels"]["severity"])
    assert {name: severity.split(", ") for name, severity in rows} == severities
    assert len(rows) == len(severities)


def test_the_links_of_the_runbook_lead_somewhere():
    text = RUNBOOK.read_text()
    anchors = [anchor_of(heading) for heading in sections()]
    assert len(anchors) == len(set(anchors)), "GitHub numbers anchors that are there twice"
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= set(anchors)
    for file in re.findall(r"`((?:docs|grafana)/[\w./-]+)`", text):
        assert (rules.ROOT / file).exists(), file


def test_the_runbook_names_panels_that_there_are():
    named = set(re.findall(r"\*(Sale|Service|Coordination) / ([^*]+)\*", RUNBOOK.read_text()))
    assert {dashboard for dashboard, _ in named} == {"Sale", "Service", "Coordination"}
    assert named - {(dashboard, title) for dashboard, _ in named for title in panels(dashboard)} == set()


@each_alert
def test_an_alert_is_seen_to_fire_and_to_be_quiet(alert):
    cases = [case for case in alert_cases() if case["alertname"] == alert["alert"]]
    fires = [fired["exp_labels"]["severity"] for case in cases for fired in case.get("exp_alerts") or []]
    assert alert["labels"]["severity"] in fires
    assert any(not case.get("exp_alerts") for case in cases)


@pytest.mark.parametrize("rule", rules.rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_the_service_has_every_metric_that_a_rule_names(rule):
    named = rules.metrics(rule["expr"])
    assert named
    of_the_service = named - {"up"} - {record for record, _ in rules.records()}
    assert {re.sub(r"_(bucket|count|sum)$", "", metric) for metric in of_the_service} - exported() == set()


@cache
def exported() -> set[str]:
    sources = (rules.ROOT / "src" / "metrics").glob("*.rs")
    return {name for file in sources for name in re.findall(r'"((?:stockade|process)_\w+)"', file.read_text())}


@cache
def panels(dashboard: str) -> set[str]:
    document = json.loads((rules.ROOT / "grafana" / "dashboards" / f"{dashboard.lower()}.json").read_text())
    return {panel["title"] for row in document["panels"] for panel in [row, *row.get("panels", [])]}


@cache
def alert_cases() -> list[dict]:
    groups = [group for file in TESTS for group in yaml.safe_load(file.read_text())["tests"]]
    return [case for group in groups for case in group.get("alert_rule_test", [])]


@cache
def sections() -> dict[str, str]:
    """Headings of the runbook, with the text below them. What looks like one inside a block of code is none."""
    found, heading, in_code = {}, "", False
    for line in RUNBOOK.read_text().splitlines():
        in_code ^= line.lstrip().startswith("```")
        title = None if in_code else re.fullmatch(r"#+ (.*)", line)
        if title:
            heading = title[1]
            assert heading not in found
        found[heading] = found.get(heading, "") + line + "\n"
    return found


def anchor_of(heading: str) -> str:
    """As GitHub makes it: lower case, without punctuation, hyphens for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
