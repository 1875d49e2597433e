"""The promises: what each row compares, the floor that it must reach, and the figure that it aims at."""

import barriers
import books
import peers
import scale
from report import Row


def promises(run):
    """All rows; None where it was not measured."""
    def ratio(one, other, figure="per_second"):
        above, below = run.median(one, figure), run.median(other, figure)
        return above / below if above and below else None
    soak = run.samples.get("soak", [{}])[0]
    growth = soak["late_kib"] / soak["early_kib"] if soak else None
    memory = run.samples.get("memory", [{}])[0].get("bytes_a_hold")
    return [
        Row("reserve / no-op POST", ratio("reserve", "noop"), 0.45, 0.65),
        Row("reserve / plain bb8 pool", ratio("reserve", "plain"), 2.0, 3.0),
        Row("reserve / redis-benchmark", ratio("reserve", "redis-benchmark"), 1.0, 1.3),
        Row("bulk of 200, accepted a second", run.median("bulk"), 60_000, 100_000),
        Row("sold out / no-op POST", ratio("sold out", "noop"), 0.7, 0.85),
        Row("cached level / no-op GET", ratio("level", "noop read"), 0.85, 0.95),
        Row("fsync always / fsync no", ratio("reserve", "reserve, fsync no"), 0.8, 0.95),
        Row("p99 at half peak / no-op's", ratio("service at rate", "noop at rate", "p99_us"), 3.0, None, lower=True),
        Row("the same with fsync no (for information)", ratio("service, fsync no, at rate", "noop at rate", "p99_us"), None, None),
        Row("Redis bytes a hold", memory, 600, 450, lower=True),
        Row("service memory, late / early", growth, 1.05, 1.01, lower=True),
        Row(f"cost of reserve, {run.args.records:,} holds / empty", ratio(scale.HOLDS, scale.EMPTY, "cost_us"), 1.15, 1.05, lower=True),
        Row("cost of reserve, 10,000 SKUs / empty", ratio(scale.SKUS, scale.EMPTY, "cost_us"), 1.15, 1.05, lower=True),
        Row("cost of reserve, 1,000 listeners elsewhere / none", ratio("1,000 elsewhere", "no listeners", "cost_us"), 1.15, 1.05, lower=True),
        Row("Redis CPU of reserve, its 1,000 listeners / none", ratio("redis, 1,000 listeners", "redis, no listeners", "cost_us"), 1.15, 1.05, lower=True),
        Row(f"p99 beside the deletion of {run.args.records:,} / before", ratio("beside a deletion", "other sale", "p99_us"), 2.0, 1.2, lower=True),
        Row("arrivals / no-op POST", ratio("arrivals, members", "noop arrival"), 0.45, 0.65),
        Row("arrivals, mode count / no-op POST", ratio("arrivals, count", "noop arrival"), 0.45, 0.65),
        Row("Redis CPU of an arrival, 100,000 participants / 100",
            ratio(f"{barriers.LARGE:,} participants", f"{barriers.SMALL:,} participants", "cost_us"), 1.2, 1.05, lower=True),
        Row("last arrival to webhook, ms", run.median("notification", "median_ms"), 50, 20, lower=True),
        Row("Redis commands while 10,000 wait / while 10 do", run.median("waiters", "window_ratio"), 1.2, 1.05, lower=True),
        Row("Redis commands a waiter", run.median("waiters", "calls_a_waiter"), 0.01, 0.005, lower=True),
        Row("round trips to hold an order of two sales", run.median("order alone", "hold_trips"), 8, 8, lower=True),
        Row("round trips to confirm it", run.median("order alone", "confirm_trips"), 7, 7, lower=True),
        Row("orders of two sales / plain carts, 32 clients (for information)",
            ratio("orders of two sales, 32 clients", "plain carts, 32 clients"), None, None),
        *books.rows(run),
        Row("reserve / tuned pool (for information)", ratio("reserve", "plain tuned"), None, None),
        *[Row(f"{one} / {name} (for information)", ratio(one, other), None, None, note=run.missing.get(peer, ""))
          for one, name, peer, other in [
              ("reserve", "Node, fastify + ioredis", "node", "node"),
              ("sold out", "Node, fastify + ioredis", "node", "node sold out"),
              ("reserve", "PostgreSQL, pgbench", "postgres", "postgres"),
              ("reserve", f"PostgreSQL, pgbench with {peers.FEW} clients", "postgres", f"postgres, {peers.FEW} clients"),
              ("sold out", "PostgreSQL, pgbench", "postgres", "postgres sold out")]],
    ]
