#!/usr/bin/env python3
"""Which encoding of a reservation's record costs least? Figures behind the decision record on the record's encoding.

Three encodings, everything else equal, against a real redis-server over a unix socket with `appendfsync always`:

  packed   one string a reservation, the strings of a batch written by one MSET
  set      the same string, one SET a reservation
  hash     one hash a reservation, one HSET each

Each batch is one EVALSHA, as group commit sends it: rules and stock read by HMGET, existence of all records by one EXISTS,
the buyers' entries by HMGET a bucket, then stock HSET, due ZADD with all members, buyers HSET a bucket, one XADD. What does
not depend on the clock is prepared by the caller. Variants alternate; the table holds medians over the rounds.
"""

import argparse
import base64
import hashlib
import statistics
import tempfile
import time

from resp import Server, encode

SALE = "drop-2026"
FIXED = ["rules", "stock", "due", "pinned", "done", "events"]

HEAD = """#!lua
-- KEYS 1..6 fixed keys of the sale, 7..22 buckets of buyers, 23.. records.
-- ARGV 1 clock offset, 2 generation, 3 number of requests, then 6 for each request:
-- id, buyer, bucket (1..16), event fragment, and two for the record.
local n = tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) + tonumber(ARGV[1])
local rules = redis.call('HMGET', KEYS[1], 'generation', 'status', 'opens_at_ms', 'closes_at_ms', 'hold_ms', 'hold_ms_max', 'buyer_limit')
if rules[1] ~= ARGV[2] then return {'stale_generation'} end
local hold, hold_max, limit = tonumber(rules[5]), tonumber(rules[6]), tonumber(rules[7])
local records = {}
for i = 1, n do records[i] = KEYS[22 + i] end
if redis.call('EXISTS', unpack(records)) > 0 then return redis.error_reply('BENCH records must be new') end
local stock = redis.call('HMGET', KEYS[2], 'hot:a', 'hot:h', ':a', ':h')
local a, h, ta, th = tonumber(stock[1]), tonumber(stock[2]), tonumber(stock[3]), tonumber(stock[4])
local asked, buyers, seen = {}, {}, {}
for i = 1, n do
  local at = 3 + (i - 1) * 6
  local bucket = tonumber(ARGV[at + 3])
  local list = asked[bucket]
  if not list then list = {} asked[bucket] = list end
  list[#list + 1] = ARGV[at + 2]
end
for bucket, list in pairs(asked) do
  local found = redis.call('HMGET', KEYS[6 + bucket], unpack(list))
  for i, name in ipairs(list) do seen[name] = found[i] or '0|0|' end
end
local expires = string.format('%d', now + hold)
local times = string.format('held\\n%d\\n%d\\n\\n%d\\n', now + hold, now, now + hold_max)
local created, until_ms = string.format('%d', now), string.format('%d', now + hold_max)
local due, payload, replies, writes = {}, {}, {}, {}
for i = 1, n do
  local at = 3 + (i - 1) * 6
  local id, buyer, bucket = ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local holds, units = string.match(seen[buyer], '^(%d+)|(%d+)|')
  if a < 1 then replies[i] = {'sold_out'}
  elseif tonumber(units) + 1 > limit then replies[i] = {'buyer_limit'}
  else
    a = a - 1 h = h + 1 ta = ta - 1 th = th + 1
    seen[buyer] = string.format('%d|%d|hot=%d', holds + 1, units + 1, units + 1)
    local list = buyers[bucket]
    if not list then list = {} buyers[bucket] = list end
    list[#list + 1] = buyer
    list[#list + 1] = seen[buyer]
    due[#due + 1] = expires
    due[#due + 1] = id
    payload[#payload + 1] = ARGV[at + 4]
    replies[i] = {'held', expires}
"""

TAIL = """
  end
end
if #due > 0 then
  redis.call('HSET', KEYS[2], 'hot:a', a, 'hot:h', h, ':a', ta, ':h', th)
  redis.call('ZADD', KEYS[3], unpack(due))
  for bucket, list in pairs(buyers) do redis.call('HSET', KEYS[6 + bucket], unpack(list)) end
  %s
  redis.call('XADD', KEYS[6], '*', 't', expires, 'p', table.concat(payload, '\\n'))
end
return replies
"""

PER_REQUEST = {
    "packed": "writes[#writes + 1] = KEYS[22 + i] writes[#writes + 1] = times .. ARGV[at + 5]",
    "set": "writes[#writes + 1] = KEYS[22 + i] writes[#writes + 1] = times .. ARGV[at + 5]",
    "hash": "writes[#writes + 1] = i",
}
WRITE = {
    "packed": "redis.call('MSET', unpack(writes))",
    "set": "for i = 1, #writes, 2 do redis.call('SET', writes[i], writes[i + 1]) end",
    # `h` holds what never changes but is short enough for a listpack; status and times have fields of their own.
    "hash": """for _, i in ipairs(writes) do
    local at = 3 + (i - 1) * 6
    redis.call('HSET', KEYS[22 + i], 's', 'held', 'e', expires, 'c', created, 'u', until_ms, 'n', '1', 'f', ARGV[at + 6],
      'l', 'hot=1', 'b', ARGV[at + 2], 'r', ARGV[at + 5])
  end""",
}


def script(name):
    return HEAD + PER_REQUEST[name] + TAIL % WRITE[name]


def digest(text, size):
    raw = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()[:size]


def batches(name, sha, seed, count, size):
    """Every command of one run, encoded beforehand: the client shall cost nothing while the clock runs."""
    prefix = f"st:{{{SALE}}}:"
    keys = [prefix + key for key in FIXED] + [f"{prefix}buyers:{n:x}" for n in range(16)]
    out = []
    for first in range(0, count, size):
        records, arguments = [], []
        for n in range(first, min(first + size, count)):
            id, print_ = digest(f"{seed}-{n}", 22), digest(f"f{seed}-{n}", 11)
            buyer, reference = f"buyer-{seed}-{n:07d}", f"order-{n:07d}"
            records.append(f"{prefix}r:{id}")
            # counted, replaces, fingerprint, lines, buyer, reference, metadata
            tail = f"1\n\n{print_}\nhot=1\n{buyer}\n{reference}\n"
            event = f"held\t{id}\thot=1\t{buyer}\t{reference}"
            bucket = int(hashlib.sha256(buyer.encode()).hexdigest()[0], 16) + 1
            last = (reference, print_) if name == "hash" else (tail, "")
            arguments += [id, buyer, bucket, event, *last]
        every = keys + records
        out.append(encode("EVALSHA", sha, len(every), *every, 0, "gen", len(records), *arguments))
    return out


def measure(name, args, seed):
    with tempfile.TemporaryDirectory(prefix="encodings-") as folder:
        server = Server(folder, binary=args.server, appendfsync=args.appendfsync)
        try:
            return run(server.client, name, args, seed)
        finally:
            server.stop()


def run(redis, name, args, seed):
    prefix = f"st:{{{SALE}}}:"
    redis.call("CONFIG", "SET", "hash-max-listpack-entries", args.listpack_entries)
    redis.call("HSET", prefix + "rules", "generation", "gen", "status", "active", "opens_at_ms", 0, "closes_at_ms", 0,
               "hold_ms", 600000, "hold_ms_max", 3600000, "buyer_limit", 4)
    redis.call("HSET", prefix + "stock", "hot:a", 10**8, "hot:h", 0, ":a", 10**8, ":h", 0)
    sha = redis.call("SCRIPT", "LOAD", script(name))
    commands = batches(name, sha, seed, args.holds, args.batch)
    before = redis.info()
    started = time.perf_counter()
    for command in commands:
        redis.send(command)
        reply = redis.read()
        assert reply[0][0] == "held", reply
    wall = time.perf_counter() - started
    after = redis.info()
    held = int(redis.call("HGET", prefix + "stock", "hot:h"))
    assert held == args.holds == redis.call("ZCARD", prefix + "due"), held
    cpu = sum(float(after[k]) - float(before[k]) for k in ("used_cpu_user", "used_cpu_sys"))
    # cmdstat_evalsha:calls=..,usec=..,usec_per_call=..
    usec = int(after["cmdstat_evalsha"].split("usec=")[1].split(",")[0])
    memory = int(after["used_memory"]) - int(before["used_memory"])
    aof = int(after["aof_current_size"]) - int(before["aof_current_size"])
    record = redis.call("MEMORY", "USAGE", f"{prefix}r:{digest(f'{seed}-0', 22)}")
    events = redis.call("MEMORY", "USAGE", prefix + "events", "SAMPLES", 0)
    n = args.holds
    return {"script us": usec / n, "cpu us": cpu * 1e6 / n, "wall us": wall * 1e6 / n, "holds/s": n / wall,
            "bytes/hold": memory / n, "record B": record, "events B": events / n, "AOF B": aof / n}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--holds", type=int, default=64_000, help="reservations a run")
    parser.add_argument("--batch", type=int, default=64, help="reservations a script call")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each encoding, alternating")
    parser.add_argument("--appendfsync", default="always", choices=["always", "everysec", "no"])
    parser.add_argument("--server", default="redis-server", help="another binary, such as valkey-server")
    parser.add_argument("--listpack-entries", type=int, default=512, help="hash-max-listpack-entries (%(default)s, Redis 7's own)")
    args = parser.parse_args()
    results = {name: [] for name in WRITE}
    for round_ in range(args.rounds):
        for name in WRITE:
            results[name].append(measure(name, args, f"{round_}"))
    columns = list(results["packed"][0])
    print(f"batches of {args.batch}, {args.holds} holds a run, appendfsync {args.appendfsync}, medians of {args.rounds} alternating runs")
    print("| encoding | " + " | ".join(columns) + " |\n|---|" + "---:|" * len(columns))
    for name, runs in results.items():
        print(f"| {name} | " + " | ".join(f"{statistics.median(run[c] for run in runs):.1f}" for c in columns) + " |")


if __name__ == "__main__":
    main()
