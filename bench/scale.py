"""What size costs: a million open holds, ten thousand SKUs, and the removal of a million records.

The million is written as the scripts write it, by the thousand, past the service: through it the filling would be the
benchmark. `stockade audit` then has to find it right.
"""

import time

import load
from sides import HOT_UNITS, Failed

EMPTY, HOLDS, SKUS, MILLION = "scale-empty", "scale-holds", "scale-skus", "scale-million"
SKU_COUNT = 10_000
A_CALL = 1_000

# KEYS[1] is the prefix of the sale's keys; one record a number, as lua/README.md describes it.
FILL = """
local prefix, first, last, status, at = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local place, ended = prefix .. (status == 'held' and 'due' or 'done'), status == 'held' and '' or at
local records, places = {}, {}
for n = first, last do
  local id = string.format('%022d', n)
  records[#records + 1] = prefix .. 'r:' .. id
  records[#records + 1] = status .. '\\n' .. at .. '\\n1\\n' .. ended .. '\\n' .. at
    .. '\\n\\n\\n\\n\\n\\n\\n\\nfingerprint\\n\\nhot=1\\n\\n\\n'
  places[#places + 1], places[#places + 2] = at, id
end
redis.call('MSET', unpack(records))
redis.call('ZADD', place, unpack(places))
"""


def fill(service, sale, count, status):
    """`count` reservations of one unit of `hot`: held for a day, or ended and kept for a day."""
    client, prefix = service.redis.client, f"st:{{{sale}}}:"
    at = int((time.time() + 86_400) * 1000)
    sha = client.call("SCRIPT", "LOAD", FILL)
    client.call("CONFIG", "SET", "appendfsync", "no")
    for first in range(1, count + 1, A_CALL):
        client.call("EVALSHA", sha, 1, prefix, first, min(first + A_CALL - 1, count), status, at)
    if status == "held":
        for sku in ("hot", ""):
            client.call("HINCRBY", prefix + "stock", f"{sku}:a", -count)
            client.call("HINCRBY", prefix + "stock", f"{sku}:h", count)
        client.call("HINCRBY", prefix + "stock", "hot:r", 1)
    client.call("CONFIG", "SET", "appendfsync", "always")
    audit(service, sale)


def audit(service, sale):
    """The books of a sale must balance, or what is measured is no sale."""
    done = service.audit(sale)
    if done.returncode != 0:
        raise Failed(f"the books of {sale} do not balance: {done.stdout}{done.stderr}")
    print(f"  {done.stdout.strip().splitlines()[-1]}", flush=True)


def add_skus(service, sale, count, initial=1):
    for first in range(0, count, A_CALL):
        stock = {f"s{n:05d}": {"initial": initial} for n in range(first, min(first + A_CALL, count))}
        rules = {"buyer_limit": 4, "hold_seconds": 3600, "stock": stock}
        service.expect(200, "PUT", f"/v1/sales/{sale}", rules)


def cost(run):
    """CPU microseconds of service and Redis together for each accepted reserve."""
    return (run["cpu_seconds"]["http"] + run["cpu_seconds"]["redis"]) * 1e6 / run["requests"]


def large_sales(run):
    """Reserve in an empty sale, beside one with many holds and one with many SKUs, turn by turn."""
    service, args = run.sides["service"], run.args
    for sale in (EMPTY, HOLDS, SKUS):
        service.put_sale(sale, HOT_UNITS)
    fill(service, HOLDS, args.records, "held")
    add_skus(service, SKUS, SKU_COUNT - 1)
    for number in range(args.rounds):
        sales = [EMPTY, HOLDS, SKUS]
        turn = number % len(sales)
        for sale in sales[turn:] + sales[:turn]:
            result = run.wrk(sale, load.wrk_accepted, service, sale, f"z{number}")
            result["cost_us"] = cost(result)


def deletion(run):
    """p99 of another sale at a constant rate, before and while a million records are removed."""
    service, args = run.sides["service"], run.args
    service.put_sale(MILLION, 1)
    fill(service, MILLION, args.records, "released")
    if EMPTY not in run.samples:
        service.put_sale(EMPTY, HOT_UNITS)
    rate = max(200, round((run.median(EMPTY) or run.median("reserve") or 4000) / 4))
    client, done = service.redis.client, f"st:{{{MILLION}}}:done"
    for number in range(args.rounds):
        run.measure("other sale", load.constant_rate, service, EMPTY, f"y{number}", rate, args.seconds)
    service.expect(202, "DELETE", f"/v1/sales/{MILLION}")
    for number in range(args.rounds):
        before = client.call("ZCARD", done)
        run.measure("beside a deletion", load.constant_rate, service, EMPTY, f"x{number}", rate, args.seconds)
        after = client.call("ZCARD", done)
        print(f"    {before - after} records went meanwhile, {after} are left", flush=True)
        if before == after:
            raise Failed("nothing was removed: use more --records, or fewer --rounds")
    status, _, _ = service.request("PUT", f"/v1/sales/{MILLION}", {})
    if after and status != 409:
        raise Failed(f"PUT of a sale that is being deleted answered {status}")
