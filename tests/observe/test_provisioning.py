"""What Grafana finds when it starts: its data source and its dashboards."""

import pathlib
import subprocess

import dashboards
import yaml

GRAFANA = dashboards.REPOSITORY / "grafana"
YAMLLINT = dashboards.REPOSITORY / ".tools/python/bin/yamllint"


def provisioned(path):
    return yaml.safe_load((GRAFANA / "provisioning" / path).read_text(encoding="utf-8"))


def test_provisioning_is_tidy_yaml():
    rules = "{extends: default, rules: {document-start: disable, line-length: {max: 120}}}"
    ran = subprocess.run(
        [YAMLLINT, "--strict", "-d", rules, GRAFANA / "provisioning"],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout


def test_datasource_is_that_of_the_scraper():
    (source,) = provisioned("datasources/prometheus.yml")["datasources"]
    assert (source["uid"], source["type"], source["isDefault"]) == ("stockade-prometheus", "prometheus", True)
    assert source["url"] == "http://prometheus:9090"
    prometheus = yaml.safe_load((GRAFANA / "prometheus/prometheus.yml").read_text(encoding="utf-8"))
    assert source["jsonData"]["timeInterval"] == prometheus["global"]["scrape_interval"]


def test_dashboards_are_provisioned_from_where_they_are():
    (provider,) = provisioned("dashboards/stockade.yml")["providers"]
    assert (provider["folder"], provider["type"], provider["allowUiUpdates"]) == ("Stockade", "file", False)
    # A container sees the folder grafana/ as /etc/grafana.
    path = pathlib.PurePath(provider["options"]["path"])
    assert GRAFANA / path.relative_to("/etc/grafana") == dashboards.FOLDER
    assert list(dashboards.FOLDER.glob("*.json"))
