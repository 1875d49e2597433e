"""A flash sale at a constant rate, and its books: after the sale, after a kill -9 of Redis, and after one in its middle.

Accepted, sold out and failed are told apart, and every reservation that was acknowledged is looked for afterwards. A request
is sent once, whatever the answer. Those whose outcome is unknown are repeated with their keys when the sale is over, as a
client would do at once; then each held unit must have an owner who knows of it.
"""

import base64
import collections
import json
import re
import statistics
import tempfile
import time
import uuid
from dataclasses import asdict, dataclass
from typing import NamedTuple

import load
import report
from sides import Failed, Service

ROUNDS_MAX = 3
WARM, CALM, KILLED = "books-warm", "books-calm", "books-killed"
#: Redis is killed after this share of the run, when half of the units are gone, and is away for so long.
KILL_AT, DOWN_SECONDS = 0.25, 0.5
IDS_A_CALL = 1_000
#: Of 503: whether the units are held is not known. Any other word says that they are not.
UNKNOWN = "outcome_unknown"
STATUSES = {"accepted": "201", "sold out": "409", "failed": "503"}
PERCENTILES = {"p50 ms": "p50_us", "p99 ms": "p99_us", "p99.9 ms": "p999_us"}


class Entry(NamedTuple):
    """A line of the generator's journal."""
    at_ms: str
    number: str
    status: str
    outcome: str
    id: str

    def at(self):
        return int(self.at_ms) / 1000


@dataclass
class Books:
    """What a sale's levels, records and ledger say, beside what its callers were told. Units and reservations are as many."""
    granted: int
    held: int
    #: Answered 2xx, at once or when repeated.
    acknowledged: int
    #: Requests that were never answered, nor repeated: the generator gave up before it could send them.
    unknown: int
    #: Acknowledged ones whose record is not there.
    missing: int
    #: Units held or promised beyond those there were.
    oversold: int
    #: Units by which levels, records, ledger and answers differ.
    drift: int


def audit_drift(text, code):
    """Units of drift in what `stockade audit` said: the largest difference, at least one where anything is wrong."""
    if code == 0 and text.rstrip().endswith(", 0 orphans: the books balance"):
        return 0
    if code != 1:
        raise Failed(f"the books could not be read: {text}")
    return max([1, *(abs(int(counter) - int(books)) for counter, books in re.findall(r"(\d+) \(books: (\d+)\)", text))])


def compare(level, units, ids, missing, unknown, drift):
    """The books of a sale of `units`, of which `ids` were acknowledged, one unit each."""
    held, acknowledged = level["held"], len(set(ids))
    # Nobody can know of a unit more than is held for those who were told, and those who were told nothing.
    unaccounted = max(acknowledged - held, held - acknowledged - unknown, 0)
    unbalanced = abs(level["available"] + held + level["sold"] - level["granted"]) + abs(level["granted"] - units)
    # One reservation that two callers believe in is one unit sold twice.
    oversold = max(held + level["sold"] - units, acknowledged - units, 0) + len(ids) - acknowledged
    return Books(units, held, acknowledged, unknown, missing, oversold, drift + unbalanced + unaccounted)


def record_key(sale, reservation):
    packed = base64.urlsafe_b64encode(uuid.UUID(reservation).bytes).rstrip(b"=").decode()
    return f"st:{{{sale}}}:r:{packed}"


def missing(redis, sale, ids):
    """How many of these have no record."""
    keys = [record_key(sale, reservation) for reservation in set(ids)]
    chunks = [keys[first:first + IDS_A_CALL] for first in range(0, len(keys), IDS_A_CALL)]
    return sum(len(chunk) - redis.client.call("EXISTS", *chunk) for chunk in chunks)


@dataclass
class Sold:
    """One flash sale as its callers saw it."""
    sale: str
    units: int
    seconds: float
    result: dict
    journal: list
    #: Of those who did not know: how many a repeat told that they hold a unit, and that they do not.
    repeated: dict

    def acknowledged(self):
        return [entry for entry in self.journal if entry.status.startswith("2")]

    def unknown(self):
        return self.result["missing"] - sum(entry.status == "-" for entry in self.journal)

    def figures(self, answer):
        """Of accepted, sold out or failed ones; these are also those without an answer."""
        status = self.result["by_status"].get(STATUSES[answer], {})
        count = status.get("count", 0) + (self.result["missing"] if answer == "failed" else 0)
        return {"count": count, "a second": count / self.seconds,
                **{name: status[key] / 1000 if status else None for name, key in PERCENTILES.items()}}

    def books(self, service):
        """Read now."""
        _, raw = service.expect(200, "GET", f"/v1/sales/{self.sale}/stock/hot?fresh=true")
        ids = [entry.id for entry in self.acknowledged()]
        lost = missing(service.redis, self.sale, ids)
        audit = service.audit(self.sale)
        drift = audit_drift(audit.stdout + audit.stderr, audit.returncode)
        return compare(json.loads(raw), self.units, ids, lost, self.unknown(), drift)


def sell(service, sale, rate, seconds, watch=None):
    """A sale with units for half of the requests."""
    units = rate * seconds // 2
    service.put_sale(sale, units)
    path = f"{service.log_path}.{sale}"
    result = load.generate(service, sale, sale, rate, seconds, watch=watch, settings={"JOURNAL": path, "ALLOW_MISSING": "true"})
    with open(path) as file:
        journal = [Entry(*line.split()) for line in file]
    refused = result["statuses"].get("409", 0)
    if set(result["statuses"]) - set(STATUSES.values()) or result["outcomes"].get("sold_out", 0) != refused:
        raise Failed(f"{sale}: unexpected answers: {result['statuses']} {result['outcomes']}")
    if not refused or "201" not in result["statuses"]:
        raise Failed(f"{sale}: nothing was sold, or nothing refused: {result['statuses']}")
    service.wait_until_ready()
    return Sold(sale, units, seconds, result, journal, repeat(service, sale, journal))


def repeat(service, sale, journal):
    """Ask again for whom the outcome is not known, with the same keys; what they hold is acknowledged by that."""
    told = {"held": 0, "not held": 0}
    for entry in [entry for entry in journal if UNKNOWN in entry or entry.status == "-"]:
        body = {"buyer": f"b-{sale}-{entry.number}", "lines": [{"sku": "hot", "quantity": 1}]}
        status, _, raw = service.request("POST", f"/v1/sales/{sale}/reservations", body,
                                         {"Idempotency-Key": f"k-{sale}-{entry.number}"})
        if status not in (200, 201, 409):
            raise Failed(f"{sale}: the repeat of {entry} was answered {status}: {raw[:500]!r}")
        told["not held" if status == 409 else "held"] += 1
        if status != 409:
            journal.append(Entry(str(time.time_ns() // 1_000_000), entry.number, str(status), "-", json.loads(raw)["id"]))
    return told


def killer(redis, after):
    """A `watch` that kills Redis after so many seconds and starts it again on its files; and the moments when it did."""
    moments = {}

    def watch():
        if not moments:
            time.sleep(after)
            redis.kill()
            moments["killed"] = time.time()
            time.sleep(DOWN_SECONDS)
            moments["log_bytes"], moments["started"] = redis.log_bytes(), time.time()
            redis.start()
            redis.wait_loaded()
            moments["loaded"] = time.time()
        time.sleep(0.05)
    return watch, moments


def outage(sold, moments):
    """How long nobody got a unit."""
    accepted = [entry.at() for entry in sold.acknowledged() if entry.status == "201"]
    started = moments.get("started", 0)
    before, after = [at for at in accepted if at <= started], [at for at in accepted if at > started]
    if "loaded" not in moments or not before or not after:
        raise Failed(f"{sold.sale}: {len(before)} were accepted before Redis was killed, {len(after)} later: use more --seconds")
    first, last = min(after), max(before)
    return {"log_mb": moments["log_bytes"] / 1e6, "load_s": moments["loaded"] - started,
            "first_accepted_s": first - started, "without_accepted_s": first - last,
            "failed": {word: count for word, count in sold.result["outcomes"].items() if word not in ("held", "sold_out")},
            "no answer": sold.result["missing"], "repeated": sold.repeated}


def round_of(run, folder, rate):
    """Both sales on a service of their own, and the books three times."""
    args, seconds = run.args, run.args.seconds
    service = Service(folder, args.transport, args.redis_binary)
    try:
        service.put_sale(WARM, rate * 2)
        load.generate(service, WARM, WARM, rate, 1)
        calm = sell(service, CALM, rate, seconds)
        books = {"after the sale": calm.books(service)}
        service.redis.kill()
        service.redis.start()
        service.redis.wait_loaded()
        service.wait_until_ready()
        books["after kill -9, idle"] = calm.books(service)
        watch, moments = killer(service.redis, seconds * KILL_AT)
        killed = sell(service, KILLED, rate, seconds, watch)
        books["after kill -9 in the sale"] = killed.books(service)
    finally:
        service.stop()
    figures = {(name, answer): sold.figures(answer) for name, sold in (("undisturbed", calm), ("Redis killed", killed))
               for answer in STATUSES}
    return figures, books, outage(killed, moments)


def books(run):
    """Rounds of it: medians of what it took, the sum of what the books say."""
    rate = run.args.books_rate or max(500, round((run.median("reserve") or 4000) / 2))
    rounds = 1 if run.args.quick else min(run.args.rounds, ROUNDS_MAX)
    print(f"flash sales at a constant rate of {rate}/s, each of {run.args.seconds} s")
    samples = run.samples["books"] = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory(dir=run.folder) as folder:
            figures, books_of, away = round_of(run, folder, rate)
        for (name, answer), of in figures.items():
            print(f"  {name + ', ' + answer:<24}{of['a second']:8.0f}/s   " + ", ".join(
                f"{what} {value:.2f}" for what, value in of.items() if what in PERCENTILES and value is not None), flush=True)
        for when, of in books_of.items():
            print(f"  {when:<26}" + ", ".join(f"{what} {count}" for what, count in asdict(of).items()), flush=True)
        print("  " + ", ".join(f"{what} {value if isinstance(value, (int, dict)) else round(value, 2)}" for what, value in away.items()))
        samples.append({"figures": [[*which, of] for which, of in figures.items()],
                        "books": {when: asdict(of) for when, of in books_of.items()}, "outage": away})
    run.parts.append(tables(samples, rate, run.args.seconds))


def tables(samples, rate, seconds):
    def median(values):
        values = [value for value in values if value is not None]
        return statistics.median(values) if values else None
    lines = []
    for which in zip(*(sample["figures"] for sample in samples)):
        name, answer, first = which[0]
        shown = [report.number(median(of[key] for _, _, of in which)) for key in ("a second", *PERCENTILES)]
        lines.append([name, answer, sum(of["count"] for _, _, of in which), *shown])
    kept = [[when, *(sum(sample["books"][when][key] for sample in samples) for key in of)] for when, of in samples[0]["books"].items()]
    away = {key: statistics.median(sample["outage"][key] for sample in samples)
            for key in ("log_mb", "load_s", "first_accepted_s", "without_accepted_s")}
    return (
        f"Flash sales at {rate} a second for {seconds} s, units for half of the requests; {len(samples)} of each. Redis is killed\n"
        f"after a quarter of the time and is away for {DOWN_SECONDS} s. Each request is sent once. Latencies count from when a request\n"
        "was due.\n\n" + report.table(["sale", "answer", "in all", "a second", *PERCENTILES], lines) + "\n\n"
        f"Redis needed {away['load_s']:.2f} s to read its log of {away['log_mb']:.0f} MB; the first reservation was accepted "
        f"{away['first_accepted_s']:.2f} s after its start,\n{away['without_accepted_s']:.2f} s after the last one before. "
        f"{failures(samples)}\n\n"
        "The books, all rounds together:\n\n" + report.table(["when", *samples[0]["books"]["after the sale"]], kept))


def failures(samples):
    """Whom Redis failed, and what a repeat said to those who did not know."""
    words = collections.Counter()
    for sample in samples:
        words.update(sample["outage"]["failed"] | {"no answer": sample["outage"]["no answer"]} | sample["outage"]["repeated"])
    held, not_held = words.pop("held"), words.pop("not held")
    return (f"Failed: {', '.join(f'{word} {count}' for word, count in words.items())}.\n"
            f"Of those who did not know, {held} were told by a repeat that they hold a unit, {not_held} that they do not.")


def rows(run):
    """All of them must be 0, in every round."""
    samples = run.samples.get("books", [])

    def worst(key, *whens):
        return max((sample["books"][when][key] for sample in samples for when in whens or sample["books"]), default=None)
    killed = ("after kill -9, idle", "after kill -9 in the sale")
    return [report.Row(name, value, 0, None, lower=True) for name, value in (
        ("flash sale: units oversold", worst("oversold")),
        ("drift after it, units", worst("drift", "after the sale")),
        ("drift after kill -9 of Redis and restart, units", worst("drift", *killed)),
        ("acknowledged reservations missing after it", worst("missing", *killed)))]
