"""What schemathesis is told about this service, before each call: what there is, and what would be waited for in vain.

It looks only at what is valid already: what schemathesis made wrong on purpose stays wrong."""

import json
import os
import pathlib
import re
import sys
import zlib

import schemathesis

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from world import NOWHERE, World  # noqa: E402

PORT = int(os.environ["FUZZ_PORT"])
TOKENS = json.loads(os.environ["FUZZ_TOKENS"])
# So many calls of ten have the key that may do everything; the others have one that may do less, a wrong one or none.
EVERYTHING_OF_TEN = 7
LESSER = [None, TOKENS["everything"][:-1], *(token for name, token in TOKENS.items() if name != "everything")]
# One world serves so many calls: by then they have sold, closed and deleted what there was.
CALLS_A_WORLD = 100
# One name of so many stays as it was made.
UNKNOWN_ONE_IN = 5
WAIT_MS = 20
WAIT_MS_MAX = 30_000
URL_CHARS_MAX = 2_048
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", re.ASCII)
WEB = re.compile(r"https?://")
# What else a name in a path or a body stands for.
ALIASES = {"replaces": "reservation"}

calls = 0
world = None


def known(member, value):
    """A name that there is, in place of one that was made up."""
    names = world.names.get(member)
    valid = isinstance(value, str) and NAME.fullmatch(value) or type(value) is int and 0 <= value < 1 << 63
    made = zlib.crc32(f"{calls} {member} {value}".encode())
    if not names or not valid or made % UNKNOWN_ONE_IN == 0:
        return value
    return names[made // UNKNOWN_ONE_IN % len(names)]


def bounded(member, value):
    """One member of a body: it waits for little, and calls nobody but this machine."""
    if member == "url" and isinstance(value, str) and WEB.match(value) and len(value) <= URL_CHARS_MAX:
        return NOWHERE + str(zlib.crc32(value.encode()))
    if member == "wait_ms" and type(value) is int and value <= WAIT_MS_MAX:
        return min(value, WAIT_MS)
    return known(ALIASES.get(member, member), value)


def told(value, member=None):
    """A body, with all that is in it."""
    if isinstance(value, dict):
        return {name: told(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [told(inner, member) for inner in value]
    return bounded(member, value)


def path_member(operation, name):
    if name == "id":
        return "order" if "/orders/" in operation.path else "reservation"
    return name


def authorize(case):
    made = zlib.crc32(f"{calls} key".encode())
    lesser = LESSER[made // 10 % len(LESSER)]
    token = TOKENS["everything"] if made % 10 < EVERYTHING_OF_TEN else lesser
    if token:
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {token}"}


@schemathesis.hook
def before_call(context, case, kwargs):
    global calls, world
    if calls % CALLS_A_WORLD == 0:
        world = World(PORT, TOKENS["everything"], calls // CALLS_A_WORLD)
    calls += 1
    authorize(case)
    for name, value in (case.path_parameters or {}).items():
        case.path_parameters[name] = known(path_member(case.operation, name), value)
    if isinstance(case.body, (dict, list)):
        case.body = told(case.body)
    if case.operation.path.endswith("/wait"):
        case.query = brief(case.query or {})


def brief(query):
    """What waits does so for up to 50 seconds, and for 30 where nothing is said."""
    seconds = query.get("seconds", "30")
    valid = str(seconds).isdecimal() and 1 < int(seconds) <= 50
    return {**query, "seconds": "0"} if valid else query
