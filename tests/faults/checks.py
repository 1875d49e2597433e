"""When all is over: the books balance, and agree with what the clients were told."""

import collections
import sys
from dataclasses import dataclass, field

import plan
from clients import SALE
from processes import ROOT, audit

sys.path.insert(0, str(ROOT / "bench"))
from books import audit_drift  # noqa: E402

#: What may come after what: the events of one reservation.
NEXT = {"held": {None}, "extended": {"held", "extended"}, "confirmed": {"held", "extended"}, "released": {"held", "extended"},
        "expired": {"held", "extended"}, "returned": {"confirmed"}}
RESERVATION = "dev.stockade.reservation."


@dataclass
class Findings:
    """What is counted of a run; `wrong` says each in words."""
    lost: int = 0
    drift: int = 0
    oversold: int = 0
    duplicates: int = 0
    wrong: list = field(default_factory=list)


class Books:
    """All that the service says of the sale."""

    def __init__(self, caller):
        self.caller = caller
        self.all = self.list("/reservations?status=held&") + self.list("/reservations?status=ended&")
        self.records = {record["id"]: record for record in self.all}
        self.ledgers = {sku: self.list(f"/stock/{sku}/adjustments?") for sku in plan.SKUS}
        self.levels = {sku: self.get(f"/stock/{sku}?fresh=true") for sku in plan.SKUS}
        self.events = self.list("/events?")

    def get(self, path):
        for _ in range(200):
            status, document = self.caller.call("GET", f"/v1/sales/{SALE}{path}")
            if status == 200:
                return document
            if status != 503:
                break
        raise RuntimeError(f"{path}: {status} {document}")

    def list(self, path):
        found, after = [], ""
        while True:
            page = self.get(f"{path}limit=500{after}")
            found += page["items"]
            # A page of events that is not full is the last there is.
            if not page["next"] or not page["items"]:
                return found
            after = f"&after={page['next']}"


def check(calls, books, may_expire=False):
    """Without what `stockade audit` says."""
    findings = Findings()
    by = collections.defaultdict(list)
    for call in calls:
        by[call.name, call.kind].append(call)
    check_reservations(by, books, findings, may_expire)
    check_ledger(by, books, findings)
    check_levels(books, findings)
    check_events(books, findings)
    return findings


def check_reservations(by, books, findings, may_expire):
    named = collections.defaultdict(list)
    for record in books.all:
        named[record["reference"]].append(record)
    for name, kind in by:
        if kind == "reserve":
            check_key(name, by, named.pop(name, []), findings, may_expire)
    if named:
        findings.wrong.append(f"reservations that nobody asked for: {list(named)}")


def check_key(name, by, records, findings, may_expire):
    """At most one reservation, the one that its client knows, and no status that contradicts what the client was told."""
    reserves = by[name, "reserve"]
    told = {call.document["id"] for call in reserves if call.is_good}
    ids = told | {record["id"] for record in records}
    if len(ids) > 1 or len(records) > 1:
        findings.duplicates += max(len(ids), len(records)) - 1
        findings.wrong.append(f"one key, several reservations: {name} {ids}")
    known = min((call.ended for call in reserves if call.is_good), default=None)
    if known and any(call.begun > known and call.document.get("code") == "sold_out" for call in reserves):
        findings.wrong.append(f"refused after it was held: {name}")
    if told and not records:
        findings.lost += any(call.is_durable for call in reserves)
        findings.wrong.append(f"acknowledged and lost: {name} {told}")
    for record in records:
        check_status(name, record["status"], by, findings, may_expire)


def check_status(name, status, by, findings, may_expire):
    done = {verb for verb in ("confirm", "release", "return") if any(call.is_durable for call in by.get((name, verb), []))}
    tried = {verb for verb in ("confirm", "release", "return") if (name, verb) in by}
    excluded = {"held": {"confirm", "release", "return"}, "confirmed": {"release", "return"}, "released": {"confirm", "return"},
                "returned": {"release"}, "expired": {"confirm", "return"}}    # a release that met an overdue hold is answered 200, too
    needed = {"held": set(), "confirmed": {"confirm"}, "released": {"release"}, "returned": {"confirm", "return"}}
    if may_expire:
        needed["expired"] = set()
    if status not in needed or needed[status] - tried:
        findings.wrong.append(f"{name} is {status}, and nobody asked for that")
    elif done & excluded[status]:
        findings.lost += len(done & excluded[status])
        findings.wrong.append(f"{name} is {status} though {done & excluded[status]} was acknowledged")


def check_ledger(by, books, findings):
    entries = collections.Counter(entry["reason"] for ledger in books.ledgers.values() for entry in ledger if entry["reason"] != "initial")
    findings.duplicates += sum(count - 1 for count in entries.values())
    findings.wrong += [f"adjusted {count} times: {reason}" for reason, count in entries.items() if count > 1]
    told = {name for (name, kind), calls in by.items() if kind == "adjust" and any(call.is_durable for call in calls)}
    findings.lost += len(told - set(entries))
    findings.wrong += [f"acknowledged and not in the ledger: {name}" for name in told - set(entries)]


def check_levels(books, findings):
    """Levels are what the records add up to, and no more is held and sold than was granted."""
    for sku, level in books.levels.items():
        held = sold = 0
        for record in books.all:
            for line in (line for line in record["lines"] if line["sku"] == sku):
                held += line["quantity"] if record["status"] == "held" else 0
                sold += line["confirmed"] - line["returned"]
        granted = sum(entry["delta"] for entry in books.ledgers[sku])
        expected = {"available": granted - held - sold, "held": held, "sold": sold, "granted": granted}
        off = sum(abs(level[word] - units) for word, units in expected.items())
        findings.drift += off
        findings.oversold += max(held + sold - granted, 0)
        if off or held + sold > granted:
            findings.wrong.append(f"levels: {level}, records and ledger: {expected}")


def check_events(books, findings):
    """One event a transition: of each reservation they are a path through the states, and end where the record is."""
    ids = collections.Counter(event["id"] for event in books.events)
    findings.duplicates += sum(count - 1 for count in ids.values())
    last = {}
    for event in books.events:
        word, before = event["type"].removeprefix(RESERVATION), last.get(event["subject"])
        if not event["type"].startswith(RESERVATION):
            continue
        if before not in NEXT[word]:
            findings.duplicates += word == before
            findings.wrong.append(f"event {word} after {before}: {event['subject']}")
        last[event["subject"]] = word
    for record in books.all:
        word = last.get(record["id"])
        if word != record["status"] and not (word == "extended" and record["status"] == "held"):
            findings.wrong.append(f"{record['id']} is {record['status']}, its last event {word}")


def check_audit(findings, **where):
    """What the operator's tool says, of all sales."""
    done = audit(**where)
    drift = audit_drift(done.stdout + done.stderr, done.returncode)
    findings.drift += drift
    if drift:
        findings.wrong.append(f"audit: {done.stdout}{done.stderr}")
