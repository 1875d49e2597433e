"""Starts what the tests of load-tests/ need: services of their own, and k6."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = REPOSITORY / "load-tests"
K6 = os.environ.get("K6") or REPOSITORY / ".tools/bin/k6"
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.js"))

# What `engine` starts: the debug binary that `make test` has just built.
os.environ.setdefault("STOCKADE_BINARY", str(REPOSITORY / "target/debug/stockade"))
os.environ["STOCKADE_REDIS_APPENDFSYNC"] = "no"
sys.path.insert(0, str(REPOSITORY / "examples"))
from engine import Redis, Stockade, folder, free_port  # noqa: E402, F401

# Few callers for a moment. The machine may be busy: what is judged here is whether the numbers are right.
SMALL = {"RATE": 10, "DURATION": "1s", "HOLD_SECONDS": 1, "P99_MS": 20000, "LATENCY_MS_MAX": 10000}
WITHOUT_HOLDS = ("barrier", "sold_out")


def small(script, **knobs):
    chosen = {name: value for name, value in SMALL.items() if not (name == "HOLD_SECONDS" and script in WITHOUT_HOLDS)}
    return {**chosen, **knobs}


class Run:
    """`load-tests/run.py` in a process of its own, on a service that is there already."""

    def __init__(self, results, script, url, **knobs):
        self.path = pathlib.Path(results) / f"{script}.json"
        given = {"BASE_URL": url, "SUMMARY_DIR": results, **knobs}
        command = [sys.executable, SCRIPTS / "run.py", script, *(f"{name}={value}" for name, value in given.items())]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self.process = subprocess.Popen(command, env=environment(), **pipes)

    def wait(self):
        self.output, _ = self.process.communicate()
        self.code = self.process.returncode
        self.summary = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else None
        return self

    @property
    def crossed(self):
        """Names of the metrics whose thresholds were crossed."""
        assert self.summary, self.output
        metrics = self.summary["metrics"].items()
        return {name for name, metric in metrics if any(not rule["ok"] for rule in metric.get("thresholds", {}).values())}

    def count(self, metric):
        return self.summary["metrics"].get(metric, {"values": {"count": 0}})["values"]["count"]


def environment():
    """This machine's, without what would be taken for a knob, or for an order of the `make` that runs the tests."""
    settings = (SCRIPTS / "lib/settings.js").read_text(encoding="utf-8")
    dropped = {*re.findall(r"^  ([A-Z][A-Z0-9_]+):", settings, re.MULTILINE), "HTML", "PROMETHEUS", "TESTID", "GIVEN", "MAKEFLAGS"}
    return {name: value for name, value in os.environ.items() if name not in dropped}


def run(results, script, url, **knobs):
    return Run(results, script, url, **knobs).wait()


def eventually(holds):
    latest = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < latest, "it does not come to that"
        time.sleep(0.02)
