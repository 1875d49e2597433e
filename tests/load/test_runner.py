"""`load-tests/run.py`: its own service, the report, Prometheus; and README names every script and knob."""

import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request

import harness
from liar import Liar

README = (harness.SCRIPTS / "README.md").read_text(encoding="utf-8")


def test_it_brings_a_service_of_its_own_and_audits_it(tmp_path):
    given = harness.small("steady", DURATION="3s", SUMMARY_DIR=tmp_path, HTML=1)
    knobs = [f"{name}={value}" for name, value in given.items()]
    command = [sys.executable, harness.SCRIPTS / "run.py", "steady", *knobs]
    ran = subprocess.run(command, env=harness.environment(), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "steady: all thresholds hold" in ran.stdout
    assert re.search(r"stockade audit: 1 sales, .*: the books balance", ran.stdout)
    assert "<html" in (tmp_path / "steady.html").read_text(encoding="utf-8")[:1000].lower()
    assert json.loads((tmp_path / "steady.json").read_text(encoding="utf-8"))["settings"]["RATE"] == harness.SMALL["RATE"]


def test_make_hands_over_its_arguments(tmp_path):
    """With a service that is there, so that nothing is built."""
    with Liar("truth") as liar:
        given = harness.small("steady", SCRIPT="steady", BASE_URL=liar.url, SUMMARY_DIR=tmp_path)
        command = ["make", "load", *(f"{name}={value}" for name, value in given.items())]
        ran = subprocess.run(command, cwd=harness.REPOSITORY, env=harness.environment(), capture_output=True, text=True)
        slip = subprocess.run([*command, "RAET=5"], cwd=harness.REPOSITORY, env=harness.environment(), capture_output=True, text=True)
    assert ran.returncode == 0 and "steady: all thresholds hold" in ran.stdout, ran.stdout + ran.stderr
    assert json.loads((tmp_path / "steady.json").read_text(encoding="utf-8"))["settings"]["P99_MS"] == harness.SMALL["P99_MS"]
    assert slip.returncode != 0 and "steady has no knob RAET" in slip.stdout + slip.stderr


def test_its_secret_is_not_written_down(tmp_path):
    with Liar("truth") as liar:
        run = harness.run(tmp_path, "steady", liar.url, **harness.small("steady", API_KEY="0123456789abcdef.verysecret"))
    assert run.code == 0, run.output
    written = run.output + "".join(path.read_text(encoding="utf-8") for path in tmp_path.iterdir())
    assert "verysecret" not in written
    assert liar.keys == {"Bearer 0123456789abcdef.verysecret"}


def test_its_numbers_reach_prometheus(tmp_path, monkeypatch):
    """By remote write, under the names that README says."""
    monkeypatch.setenv("K6_PROMETHEUS_RW_PUSH_INTERVAL", "1s")  # a rate needs two samples
    (tmp_path / "prometheus.yml").write_text("{}\n", encoding="utf-8")
    url = f"http://127.0.0.1:{harness.free_port()}"
    flags = [f"--web.listen-address={url.removeprefix('http://')}", f"--storage.tsdb.path={tmp_path}/data",
             f"--config.file={tmp_path}/prometheus.yml", "--web.enable-remote-write-receiver"]
    with (tmp_path / "log").open("wb") as log:
        prometheus = subprocess.Popen([harness.REPOSITORY / ".tools/bin/prometheus", *flags], stdout=log, stderr=log)
    try:
        harness.eventually(lambda: fetch(f"{url}/-/ready") is not None)
        with Liar("truth") as liar:
            knobs = harness.small("steady", DURATION="4s", PROMETHEUS=url, TESTID="tried")
            run = harness.run(tmp_path / "results", "steady", liar.url, **knobs)
        assert run.code == 0, run.output
        queries = re.findall(r"```promql\n(.*?)```", README, re.DOTALL)[0].splitlines()
        for query in queries:
            query = query.partition("#")[0].replace("$testid", "tried").replace("$__rate_interval", "1m").strip()
            found = json.loads(fetch(f"{url}/api/v1/query?query={urllib.parse.quote(query)}"))["data"]["result"]
            assert found, f"{query}: nothing"
        counted = 'sum(last_over_time(k6_accepted_total{testid="tried", verb="reserve", outcome="held"}[5m]))'
        (one,) = json.loads(fetch(f"{url}/api/v1/query?query={urllib.parse.quote(counted)}"))["data"]["result"]
        assert int(one["value"][1]) == run.count("accepted{verb:reserve,outcome:held}")
    finally:
        prometheus.terminate()
        prometheus.wait()


def fetch(url):
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as answer:
            return answer.read()
    except OSError:
        return None


def test_readme_names_every_script_with_its_defaults():
    rows = {cells[1]: cells for cells in (row.split("|") for row in README.splitlines()) if len(cells) > 3}
    for name in harness.NAMES:
        source = (harness.SCRIPTS / f"{name}.js").read_text(encoding="utf-8")
        own = re.search(r"read\('" + name + r"', \{(.*?)\}\)", source, re.DOTALL)[1]
        row = "|".join(rows[f" `{name}` "])
        for knob, value in re.findall(r"(\w+): '?([^',\s]*)'?", own):
            if value:
                assert re.search(rf"`{knob}={value}`", row), f"README does not say that {name} has {knob}={value}"


def test_readme_names_every_knob():
    source = (harness.SCRIPTS / "lib/settings.js").read_text(encoding="utf-8")
    knobs = re.findall(r"@property \{\S+\} ([A-Z][A-Z0-9_]+)", source)
    assert len(knobs) == 14
    for knob in [*knobs, "HTML", "PROMETHEUS", "TESTID", "K6", "SCRIPT"]:
        assert re.search(rf"^\| `{knob}` \|", README, re.MULTILINE), f"README has no row for {knob}"
