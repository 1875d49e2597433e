#!/usr/bin/env python3
"""Runs one k6 script (`make load`): against a Stockade of its own, or against the one of BASE_URL, which it leaves alone.

    python3 load-tests/run.py flash_sale RATE=200 DURATION=20s

NAME=value are the script's knobs (README.md), and: HTML=1 writes a report, PROMETHEUS=http://... sends the metrics there,
TESTID=... is their tag, K6=... is the program. Exit code: k6's (0 all thresholds hold, 99 one was crossed), or that of `stockade audit`.
"""

import datetime
import os
import pathlib
import signal
import subprocess
import sys
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "examples"))
from engine import TARGET, Stockade, folder  # noqa: E402

OWN = ("BASE_URL", "HTML", "K6", "PROMETHEUS", "TESTID", "SUMMARY_DIR")


def fail(message):
    raise SystemExit(f"load: {message}")


def arguments(given):
    """The script, and what was set: by an argument, or in the environment for what is this program's own."""
    scripts = sorted(path.stem for path in HERE.glob("*.js"))
    script, *pairs = given or ["smoke"]
    if script not in scripts:
        fail(f"there is no script {script}. There are {', '.join(scripts)}")
    wanted = {name: os.environ[name] for name in OWN if os.environ.get(name)}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            fail(f"{pair}: must be NAME=value")
        wanted[name] = value
    return script, wanted


def prometheus(url):
    """Where Prometheus takes remote writes, by its root."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        fail(f"PROMETHEUS={url}: must be the URL of a Prometheus, like http://127.0.0.1:9090")
    return url if parts.path.strip("/") else f"{url.rstrip('/')}/api/v1/write"


def k6(script, wanted):
    """The command and its environment."""
    results = pathlib.Path(wanted.pop("SUMMARY_DIR", os.path.join(TARGET, "load")))
    results.mkdir(parents=True, exist_ok=True)
    program = wanted.pop("K6", str(ROOT / ".tools" / "bin" / "k6"))
    html, receiver = wanted.pop("HTML", "0"), wanted.pop("PROMETHEUS", "")
    testid = wanted.pop("TESTID", f"{script}-{datetime.datetime.now(datetime.timezone.utc):%Y%m%dT%H%M%SZ}")
    if html not in ("0", "1"):
        fail(f"HTML={html}: must be 0 or 1")
    env = dict(os.environ)
    # No REST API: two runs at a time would quarrel about its port.
    command = [program, "run", "--no-usage-report", "--address=", "--tag", f"testid={testid}"]
    for name, value in {**wanted, "SUMMARY_DIR": results, "GIVEN": ",".join(wanted)}.items():
        command += ["-e", f"{name}={value}"]
    if html == "1":
        # Short runs would end before the first period of the report's default.
        env |= {"K6_WEB_DASHBOARD": "true", "K6_WEB_DASHBOARD_PORT": "-1", "K6_WEB_DASHBOARD_PERIOD": "1s",
                "K6_WEB_DASHBOARD_EXPORT": str(results / f"{script}.html")}
    if receiver:
        env |= {"K6_PROMETHEUS_RW_SERVER_URL": prometheus(receiver), "K6_PROMETHEUS_RW_TREND_STATS": "p(50),p(95),p(99),max"}
        command += ["-o", "experimental-prometheus-rw"]
    if not sys.stdout.isatty():
        command.append("--quiet")
    return [*command, str(HERE / f"{script}.js")], env, results


def run(script, wanted):
    command, env, results = k6(script, wanted)
    try:
        child = subprocess.Popen(command, env=env)
    except OSError as error:
        fail(f"{command[0]} cannot be started ({error.strerror}): run `scripts/setup.sh load`, or name a k6 in K6")
    # Ctrl-C reaches k6 as well: it ends the load, checks the books and writes the summary. Nothing is cut short here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = child.wait()
    print(f"load: results are in {os.path.relpath(results)}/{script}.*", flush=True)
    return code


def main():
    # So that what was started here ends here.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    script, wanted = arguments(sys.argv[1:])
    if wanted.get("BASE_URL"):
        return run(script, wanted)
    with folder() as home, Stockade(home) as service:
        code = run(script, {**wanted, "BASE_URL": f"http://127.0.0.1:{service.port}"})
        fault, words = service.audit()
    print(f"stockade audit: {words}")
    return code or fault


if __name__ == "__main__":
    sys.exit(main())
