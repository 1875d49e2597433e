#!/usr/bin/env python3
"""Schemathesis from the OpenAPI document against a service of its own (`make fuzz`): no 5xx, no status, header, type or
schema that is not documented, and nothing accepted that the document forbids. Afterwards the books must hold.

    fuzz.py [SEED=1] [EXAMPLES=30] [SECONDS=] [PHASES=coverage,fuzzing,stateful]

SEED makes other calls; the same one makes nearly the same, as some are made from answers, which have new ids.
EXAMPLES are the most calls of one operation in one phase; with SECONDS fuzzing goes on until they are over.
Exit code: that of schemathesis (0: nothing found), or that of `stockade audit`."""

import collections
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "tests/observe")]
import engine  # noqa: E402
from servers import MEMORY, binary  # noqa: E402

# Not the script of that name, which no longer runs once the project has been moved.
SCHEMATHESIS = (str(ROOT / ".tools/fuzz/bin/python"), "-m", "schemathesis.cli")
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
          "response_headers_conformance", "negative_data_rejection")
# Name and flags of each API key.
KEYS = {"everything": "--scope operator,storefront,barrier,metrics", "storefront": "--scope storefront",
        "barrier": "--scope barrier", "metrics": "--scope metrics", "narrow": "--scope storefront --sales open-*"}
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
    found = [*SCHEMATHESIS, "--config-file", str(HERE / "schemathesis.toml"), "run", f"{url}/openapi.json", "--url", url,
             "--checks", ",".join(CHECKS), "--workers", "1", "--seed", wanted["SEED"], "--max-examples", wanted["EXAMPLES"], "--phases", wanted["PHASES"],
             "--generation-database", "none", "--request-timeout", "30", "--continue-on-failure",
             # They say how often an answer was 404 or 422: that is what most of this is for.
             "--warnings", "off", "--suppress-health-check", "all"]
    for name in ENDLESS:
        found += ["--exclude-operation-id", name]
    return found + (["--max-time", wanted["SECONDS"]] if wanted["SECONDS"] else [])


def add_keys(home):
    """Names and tokens of API keys, which the service then asks for."""
    # What is called is a port of this machine where nobody listens.
    os.environ |= {"STOCKADE_KEYS_FILE": f"{home}/keys.json", "STOCKADE_WEBHOOK_ALLOW_PRIVATE": "true"}
    tokens = {}
    for name, flags in KEYS.items():
        command = [engine.STOCKADE, "keys", "add", name, *flags.split()]
        # Beside the token it says where the key is.
        tokens[name] = subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True).strip()
    return tokens


def answers(port, token):
    """How many there were of each status: most calls should have been let in."""
    _, text = engine.Caller(port, token).fetch("GET", "/metrics")
    found = collections.Counter()
    for status, count in re.findall(r'^stockade_http_requests_total{.*status="(\d+)".*} (\d+)$', text.decode(), re.MULTILINE):
        found[status] += int(count)
    return ", ".join(f"{status}: {count}" for status, count in sorted(found.items()))


def run(wanted):
    # Debug builds have the asserts, and panic where a number overflows.
    engine.STOCKADE = binary("debug")
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(engine.folder(MEMORY))
        tokens = add_keys(home)
        service = stack.enter_context(engine.Stockade(home))
        env = {**os.environ, "FUZZ_PORT": str(service.port), "FUZZ_TOKENS": json.dumps(tokens),
               "SCHEMATHESIS_HOOKS": str(HERE / "hooks.py"), "PYTHONDONTWRITEBYTECODE": "1"}
        code = subprocess.call(command(wanted, service.port), env=env, cwd=home)
        print(f"Answers: {answers(service.port, tokens['everything'])}")
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
