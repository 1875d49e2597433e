#!/usr/bin/env python3
"""One run of every comparison that Stockade's promises of speed rest on. See bench/README.md for what each row means.

All sides run in one go, alternating round by round, since figures of different runs on a shared machine don't compare. A row
is a ratio of medians, beside the floor it must reach and the figure it aims at. Exit 1 if a row is below its floor, 2 if a
run did not count (wrong answers, stock that does not add up).
"""

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import barriers
import books
import growth
import listeners
import load
import orders
import peers
import report
import scale
import sweep
from rows import promises
from sides import HOT_UNITS, ROOT, Failed, Noop, Plain, Service, seed_sale

SIDES = ("noop", "service", "plain", "tuned", "redis", "node", "postgres")
PEERS = {"node": peers.Node, "postgres": peers.Postgres}
BENCHES = ("reserve", "latency", "sweep", "memory", "soak", "size", "listeners", "deletion", "arrivals", "barrier_size",
           "webhook_latency", "waiters", "orders", "books", "growth")
SALE, BULK, GONE = "bench", "bench-bulk", "bench-gone"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(SIDES), help="sides to run, of: %(default)s")
    parser.add_argument("--benches", default=",".join(BENCHES), help="what to measure, of: %(default)s")
    parser.add_argument("--seconds", type=int, default=10, help="length of one run of one side (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="times that every side is run (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="3 rounds of 3 s, a short soak: for a look, not for figures")
    parser.add_argument("--threads", type=int, default=2, help="threads of wrk (%(default)s)")
    parser.add_argument("--holds", type=int, default=100_000, help="holds of the memory row (%(default)s)")
    parser.add_argument("--records", type=int, default=1_000_000, help="records of the rows about size (%(default)s)")
    parser.add_argument("--books-rate", type=int, help="requests a second of the flash sales; else half the peak of reserve")
    parser.add_argument("--soak-minutes", type=float, default=1.0, help="length of the soak; 10 for the real figure")
    parser.add_argument("--transport", choices=("unix", "tcp"), default="unix", help="to Redis, for all sides (%(default)s)")
    parser.add_argument("--redis-binary", default="redis-server", help="another server, such as valkey-server")
    parser.add_argument("--curves", default=",".join(growth.CURVES), help="curves of growth, of: %(default)s")
    parser.add_argument("--plots", metavar="FOLDER", help="write the plots there too, by names that stay")
    parser.add_argument("--profile-cpu", action="store_true", help="print CPU microseconds a reservation, side by side")
    parser.add_argument("--keep-going", action="store_true", help="report rows below their floor, but exit 0")
    args = parser.parse_args()
    if args.quick:
        args.seconds, args.rounds, args.soak_minutes = 3, 3, min(args.soak_minutes, 0.25)
        args.holds, args.records = min(args.holds, 30_000), min(args.records, 200_000)
    args.only, args.benches, args.curves = (given.split(",") for given in (args.only, args.benches, args.curves))
    if set(args.only) - set(SIDES) or set(args.benches) - set(BENCHES) or set(args.curves) - set(growth.CURVES):
        parser.error("unknown side, bench or curve")
    return args


class Run:
    """The sides under way, and what they have shown so far."""

    def __init__(self, args, folder):
        self.args, self.folder, self.sides = args, folder, {}
        self.samples = {}       # name of a measurement -> list of results, one a round
        self.missing = {}       # peer -> why it is not there
        self.parts, self.plots = [], {}     # of the report: further tables; name -> what plot.figure draws

    def start(self):
        wanted = self.args.only
        common = (self.folder, self.args.transport, self.args.redis_binary)
        if "service" in wanted:
            self.sides["service"] = service = Service(*common)
            service.put_sale(SALE, HOT_UNITS)
            service.put_sale(BULK, HOT_UNITS)
            service.put_sale(GONE, 1)
            service.reserve(GONE, "gone")
        if "plain" in wanted or "redis" in wanted or "noop" in wanted and "service" not in wanted:
            self.sides["plain"] = Plain(*common)
            self.sides["plain"].put_sale(SALE, HOT_UNITS)
            seed_sale(self.sides["plain"].redis, "bench-script", HOT_UNITS)
        if "tuned" in wanted:
            self.sides["tuned"] = Plain(*common, tuned=True)
            self.sides["tuned"].put_sale(SALE, HOT_UNITS)
        if "noop" in wanted:
            model = self.sides.get("service") or self.sides["plain"]
            self.sample = model.reserve(SALE, "sample")
            self.sides["noop"] = Noop(self.folder, self.sample)
            print(f"no-op answers {len(self.sample[1])} bytes and the headers of {model.name}")
            if "service" in wanted:
                level = self.sides["service"].cached_level(SALE)
                self.sides["noop read"] = Noop(self.folder, level, "noop-read", status=200)
                print(f"no-op read answers {len(level[1])} bytes")
        for name in [name for name in PEERS if name in wanted]:
            self.start_peer(name, common if name == "node" else ())

    def start_peer(self, name, settings):
        try:
            self.sides[name] = peer = PEERS[name](*settings)
        except peers.Missing as missing:
            self.missing[name] = str(missing)
            print(f"{name} is left out: {missing}")
            return
        peer.put_sale(SALE, HOT_UNITS)
        peer.put_sale(GONE, 0)

    def stop(self):
        for side in self.sides.values():
            side.stop()

    def pids(self, side):
        pids = {"http": getattr(side, "pids", side.process.pid)}
        return {**pids, "redis": side.redis.pid} if hasattr(side, "redis") else pids

    def measure(self, name, work, *arguments):
        result = work(*arguments)
        self.samples.setdefault(name, []).append(result)
        figure = result.get("per_second")
        counts = ", ".join(f"{key} {result[key]}" for key in ("requests", "refused", "held", "uncounted", "statuses") if key in result)
        if "hit_ratio" in result:
            counts += f", {result['hit_ratio']:.4%} from the cache"
        shown = f"{figure:10.0f}/s" if figure else f"{result['p99_us'] / 1000:8.2f} ms p99"
        print(f"  {name:<22}{shown}   {counts}", flush=True)
        return result

    def median(self, name, figure="per_second"):
        runs = self.samples.get(name)
        return statistics.median(run[figure] for run in runs) if runs else None

    def wrk(self, name, work, side, sale, word):
        args = self.args
        return self.measure(name, work, side, sale, word, args.seconds, args.threads, self.pids(side))

    def appendfsync(self, value):
        self.sides["service"].redis.client.call("CONFIG", "SET", "appendfsync", value)
        time.sleep(0.2)

    def reserve_round(self, number):
        """Every side once; the order turns with the round, so that none always follows the same neighbour."""
        wanted, word = self.args.only, f"r{number}"
        steps = []
        if "noop" in wanted:
            steps.append(lambda: self.wrk("noop", load.wrk_accepted, self.sides["noop"], SALE, word))
        if "service" in wanted:
            service = self.sides["service"]
            steps.append(lambda: self.wrk("reserve", load.wrk_accepted, service, SALE, word))
            steps.append(lambda: self.wrk("bulk", load.wrk_bulk, service, BULK, f"{word}b"))
            steps.append(lambda: self.wrk("sold out", load.wrk_sold_out, service, GONE, word))
            steps.append(self.unsafe_reserve(service, word))
            steps.append(lambda: self.wrk("level", load.wrk_level, service, SALE, word))
        if "noop read" in self.sides:
            steps.append(lambda: self.wrk("noop read", load.wrk_level, self.sides["noop read"], SALE, word))
        if "plain" in wanted:
            steps.append(lambda: self.wrk("plain", load.wrk_accepted, self.sides["plain"], SALE, word))
        if "tuned" in wanted:
            steps.append(lambda: self.wrk("plain tuned", load.wrk_accepted, self.sides["tuned"], SALE, word))
        if "redis" in wanted:
            steps.append(self.script_alone)
        if "node" in self.sides:
            steps.append(lambda: self.wrk("node", load.wrk_accepted, self.sides["node"], SALE, word))
            steps.append(lambda: self.wrk("node sold out", load.wrk_sold_out, self.sides["node"], GONE, word))
        if "postgres" in self.sides:
            postgres, seconds = self.sides["postgres"], self.args.seconds
            steps.append(lambda: self.measure("postgres", postgres.accepted, seconds))
            steps.append(lambda: self.measure(f"postgres, {peers.FEW} clients", postgres.accepted, seconds, SALE, peers.FEW))
            steps.append(lambda: self.measure("postgres sold out", postgres.sold_out, seconds, GONE))
        turn = number % len(steps)
        for step in steps[turn:] + steps[:turn]:
            step()

    def unsafe_reserve(self, service, word):
        def step():
            self.appendfsync("no")
            try:
                self.wrk("reserve, fsync no", load.wrk_accepted, service, SALE, f"{word}n")
            finally:
                self.appendfsync("always")
        return step

    def script_alone(self):
        redis = self.sides["plain"].redis
        if "redis-benchmark" not in self.samples:      # find out how many calls fill the time
            self.script_rate = load.redis_benchmark(redis, "bench-script", 5_000)["per_second"]
        requests = max(5_000, int(self.script_rate * self.args.seconds))
        self.measure("redis-benchmark", load.redis_benchmark, redis, "bench-script", requests)

    def latency(self):
        """p99 at half the peak rate of reserve (of the plain pool, where the service is not there)."""
        name = "service" if "service" in self.sides else "plain"
        peak = self.median("reserve" if name == "service" else "plain")
        if not peak or "noop" not in self.sides:
            return
        rate = round(peak / 2)
        print(f"constant rate {rate}/s")

        def at_rate(shown, side, word):
            self.measure(f"{shown} at rate", load.constant_rate, self.sides[side], SALE, word, rate, self.args.seconds)

        def unsafe(word):
            """What is left of the wait without the disk."""
            self.appendfsync("no")
            try:
                at_rate("service, fsync no,", name, word)
            finally:
                self.appendfsync("always")
        for number in range(self.args.rounds):
            steps = [lambda: at_rate("noop", "noop", f"l{number}"), lambda: at_rate(name, name, f"l{number}")]
            steps += [lambda: unsafe(f"m{number}")] if name == "service" else []
            turn = number % len(steps)
            for step in steps[turn:] + steps[:turn]:
                step()

    def memory(self):
        """What one held reservation costs in Redis: everything that was written for it, its event included."""
        service, sale = self.sides["service"], "bench-memory"
        service.put_sale(sale, HOT_UNITS)
        time.sleep(1)
        before = int(service.redis.client.info()["used_memory"])
        rate = max(500, round((self.median("reserve") or 4000) / 2))
        seconds = self.args.holds / rate
        load.constant_rate(service, sale, "m", rate, seconds, warmup_seconds=0)
        time.sleep(2)
        info = service.redis.client.info()
        held = service.held(sale)
        bytes_each = (int(info["used_memory"]) - before) / held
        self.samples["memory"] = [{"holds": held, "bytes_a_hold": bytes_each}]
        print(f"  memory: {held} holds, {bytes_each:.0f} B each")

    def soak(self):
        """The service's own memory under steady load: few units that are held for 5 s and taken again, the rest sold out."""
        service, sale = self.sides["service"], "bench-soak"
        rate = max(200, round((self.median("reserve") or 4000) / 4))
        service.put_sale(sale, rate * 2, hold_seconds=5)
        seconds, points = self.args.soak_minutes * 60, []
        started = time.monotonic()

        def watch():
            points.append({"seconds": round(time.monotonic() - started, 1), "rss_kib": service.rss_kib()})
            time.sleep(max(0.5, seconds / 120))
        answers = load.constant_rate(service, sale, "s", rate, seconds, warmup_seconds=0, expected=("201", "409"), watch=watch)
        quarter = max(1, len(points) // 4)
        # The first quarter warms up: buffers, allocator, pools.
        early = statistics.median(point["rss_kib"] for point in points[quarter:2 * quarter] or points)
        late = statistics.median(point["rss_kib"] for point in points[-quarter:])
        service.level(sale)
        self.samples["soak"] = [{"rate": rate, "minutes": self.args.soak_minutes, "early_kib": early, "late_kib": late,
                                 "statuses": answers["statuses"], "points": points}]
        print(f"  soak: {rate}/s for {self.args.soak_minutes} min, {early / 1024:.1f} MiB -> {late / 1024:.1f} MiB, answers {answers['statuses']}")

    def size(self):
        scale.large_sales(self)

    def listeners(self):
        listeners.listeners(self)

    def deletion(self):
        scale.deletion(self)

    def arrivals(self):
        barriers.arrivals(self)

    def barrier_size(self):
        barriers.size(self)

    def webhook_latency(self):
        barriers.notification(self)

    def waiters(self):
        barriers.waiters(self)

    def orders(self):
        orders.orders(self)

    def books(self):
        books.books(self)

    def growth(self):
        growth.growth(self)

    def sweep(self):
        sweep.sweep(self)


def machine(args):
    """Where and on what this was measured."""
    def said(*command):
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        return done.stdout.strip()
    with open("/proc/cpuinfo") as cpuinfo:
        models = [line.split(":", 1)[1].strip() for line in cpuinfo if line.startswith("model name")]
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": said("git", "rev-parse", "--short", "HEAD") + ("-dirty" if said("git", "status", "--porcelain") else ""),
        "cpu": models[0] if models else platform.processor(), "cores": os.cpu_count(), "kernel": platform.release(),
        "redis": said(args.redis_binary, "--version").split(" sha=")[0], "transport": args.transport, **peers.versions(),
        "wrk": f"-t {args.threads} -c {load.CONNECTIONS}", "seconds": args.seconds, "rounds": args.rounds,
        "load_before": os.getloadavg()[0], **fsync_us(),
    }


def fsync_us():
    """What the disk under the append-only files takes to make 4 KiB durable: 1,000 times, one after the other."""
    times = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(1_000):
            os.write(file.fileno(), b"x" * 4096)
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(round((time.perf_counter() - started) * 1e6))
    times.sort()
    return {"fsync_us": times[500], "fsync_p99_us": times[990], "fsync_max_us": times[-1]}


def main():
    args = arguments()
    # Thousands of waiters and listeners are thousands of sockets, here and in the service.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    about = machine(args)
    if about["load_before"] > 0.5:
        print(f"warning: the machine is busy (load {about['load_before']:.1f}): ratios hold better than figures, but not well")
    with tempfile.TemporaryDirectory(prefix="stockade-bench-") as folder:
        run = Run(args, folder)
        try:
            run.start()
            if "reserve" in args.benches:
                for number in range(args.rounds):
                    print(f"round {number + 1} of {args.rounds}")
                    run.reserve_round(number)
            if "latency" in args.benches:
                run.latency()
            if "sweep" in args.benches:
                run.sweep()
            if "service" in run.sides:
                for bench in BENCHES[3:]:
                    if bench in args.benches:
                        getattr(run, bench)()
        finally:
            run.stop()
    rows = promises(run)
    text = report.markdown(about, rows, run, args.profile_cpu)
    print("\n" + text)
    print(report.save(about, rows, run.samples, text))
    for path in report.save_plots(about, run.plots, args.plots):
        print(f"written: {path}")
    below = [row.name for row in rows if row.verdict() == "BELOW FLOOR"]
    if below:
        print(f"below the floor: {', '.join(below)}", file=sys.stderr)
    return 1 if below and not args.keep_going else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        print(f"this run does not count: {failure}", file=sys.stderr)
        sys.exit(2)
