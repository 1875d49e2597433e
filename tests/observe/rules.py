"""The rules of grafana/prometheus/alerts.yml, as Prometheus reads them."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS = ROOT / "grafana" / "prometheus"
ALERTS = PROMETHEUS / "alerts.yml"


def rules() -> list[dict]:
    """All rules, recorded ones too, in the order of the file."""
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def alerts() -> list[dict]:
    return [rule for rule in rules() if "alert" in rule]


def records() -> list[tuple[str, str]]:
    """Name and expression of each recorded rule."""
    return [(rule["record"], rule["expr"]) for rule in rules() if "record" in rule]


def exprs() -> list[tuple[str, str]]:
    """Name and expression of each alert. An alert with two severities is there twice."""
    return [(rule["alert"], rule["expr"]) for rule in alerts()]


def metrics(expr: str) -> set[str]:
    """The metrics that an expression names. All of ours begin with `stockade`, those of the process with `process_`."""
    bare = re.sub(r"#[^\n]*|\"[^\"]*\"", "", expr)
    return set(re.findall(r"(?<![\w:])(?:stockade[_:][\w:]*|process_\w+|up)(?![\w:(])", bare))
