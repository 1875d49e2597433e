#!/usr/bin/env python3
"""Schemathesis from the OpenAPI document against a service of its own (`make fuzz`): no 5xx, no status, header, type or
schema that is not documented. Afterwards the books must hold.

    fuzz.py [SEED=1] [EXAMPLES=30] [SECONDS=] [PHASES=coverage,fuzzing,stateful]

SEED makes other calls; the same one makes nearly the same, as some are made from answers, which have new ids.
EXAMPLES are the most calls of one operation in one phase; with SECONDS fuzzing goes on until they are over.
Exit code: that of schemathesis (0: nothing found), or that of `stockade audit`."""

import os
import pathlib
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests/observe")]
import engine  # noqa: E402
from servers import MEMORY, binary  # noqa: E402

SCHEMATHESIS = ROOT / ".tools/fuzz/bin/schemathesis"
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
          "response_headers_conformance")
# Streams that end when their sale or barrier does.
ENDLESS = ("live_events", "live_barrier")
KNOBS = {"SEED": "1", "EXAMPLES": "30", "SECONDS": "", "PHASES": "coverage,fuzzing,stateful"}


def fail(message):
    raise SystemExit(f"fuzz: {message}")


def knobs(given):
    wanted = dict(KNOBS)
    for pair in given:
        name, _, value = pair.partition("=")
        if name not in KNOBS:
            fail(f"{pair}: must be one of {', '.join(KNOBS)}, with =value")
        wanted[name] = value
    for name in ("SEED", "EXAMPLES", "SECONDS"):
        if wanted[name] and not wanted[name].isdecimal():
            fail(f"{name}={wanted[name]}: must be a whole number")
    return wanted


def command(wanted, port):
    """One worker, and no memory of earlier runs: what a seed makes then hangs on little else."""
    url = f"http://127.0.0.1:{port}"
    found = [str(SCHEMATHESIS), "run", f"{url}/openapi.json", "--url", url, "--checks", ",".join(CHECKS), "--workers", "1",
             "--seed", wanted["SEED"], "--max-examples", wanted["EXAMPLES"], "--phases", wanted["PHASES"],
             "--generation-database", "none", "--request-timeout", "30", "--continue-on-failure",
             # They say how often an answer was 404 or 422: that is what most of this is for.
             "--warnings", "off", "--suppress-health-check", "all"]
    for name in ENDLESS:
        found += ["--exclude-operation-id", name]
    return found + (["--max-time", wanted["SECONDS"]] if wanted["SECONDS"] else [])


def run(wanted):
    # Debug builds have the asserts, and panic where a number overflows.
    engine.STOCKADE = binary("debug")
    with engine.folder(MEMORY) as home, engine.Stockade(home) as service:
        env = {**os.environ, "FUZZ_PORT": str(service.port), "SCHEMATHESIS_HOOKS": str(HERE / "hooks.py"),
               "PYTHONDONTWRITEBYTECODE": "1"}
        code = subprocess.call(command(wanted, service.port), env=env, cwd=home)
        fault, words = service.audit()
        if code or fault:
            print(pathlib.Path(service.log).read_text()[-4000:])
    print(f"stockade audit: {words.splitlines()[-1]}")
    return code or fault


def main():
    # So that what was started here ends here.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return run(knobs(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
