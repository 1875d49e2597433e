"""What barriers cost: arrivals as fast as they come, into small and large barriers; a notification; and those who wait."""

import http.client
import http.server
import json
import queue
import resource
import selectors
import socket
import statistics
import threading
import time

import load
from sides import Failed, Noop

PARTICIPANTS_MAX = 100_000
NAMES_A_CALL = 1_000
#: Of one run of `arrivals`: more than the service takes in it.
BARRIERS_A_SECOND = 1.5
SMALL, LARGE = 100, 100_000
#: So few that the batches are smaller than the small barriers: what differs is the size alone.
SIZE_CONNECTIONS = 8
SIZE_SECONDS_MAX = 5
#: More than so few connections make.
SIZE_RATE_MAX = 40_000
NOTIFICATIONS = 100
FEW, MANY = 10, 10_000
WAIT_SECONDS = 50
WINDOW_SECONDS = 10


class Caller:
    """One connection that is kept: thousands of calls in a row, or one without the time that a connection takes."""

    def __init__(self, service):
        self.connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def expect(self, status, method, path, body=None):
        raw = json.dumps(body) if body is not None else None
        self.connection.request(method, path, raw, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        got, text = answer.status, answer.read()
        if got != status:
            raise Failed(f"{method} {path} answered {got} instead of {status}: {text[:500]!r}")
        return json.loads(text)

    def arrive(self, barrier, participant):
        return self.expect(200, "POST", f"/v1/barriers/{barrier}/arrivals", {"participant": participant})

    def completed(self, barrier):
        return self.expect(200, "GET", f"/v1/barriers/{barrier}")["completed"]


def wrk_arrivals(run, name, side, barriers, size, seconds, threads, connections, count=None):
    """One run of wrk; `count` tells how many have arrived in all, and must have grown by as many as were answered."""
    def work():
        before = count() if count else None
        env = {"BARRIER": barriers, "SIZE": str(size)}
        what = ["-s", f"{load.HERE}/arrivals.lua", f"http://127.0.0.1:{side.port}/"]
        result = load.wrk(side, what, seconds, threads, run.pids(side), env, connections)
        if result["refused"]:
            raise Failed(f"{side.name}: {result['refused']} of {result['requests']} arrivals were not 2xx")
        if count:
            time.sleep(0.5)
            # When wrk ends it drops what is under way.
            result["uncounted"] = count() - before - result["requests"]
            if not 0 <= result["uncounted"] <= connections:
                raise Failed(f"{result['requests']} arrivals were answered, {result['uncounted']} more were counted")
        return result
    return run.measure(name, work)


def arrivals(run):
    """Arrivals at one barrier after the other, in both modes, beside a no-op that takes and answers as many bytes."""
    args, service = run.args, run.sides["service"]
    caller = Caller(service)
    # Each thread has its share of the names. One place is left, so that none of them fires.
    size = (PARTICIPANTS_MAX - 1) // args.threads
    barriers_a_run = 1 + int(BARRIERS_A_SECOND * args.seconds)
    service.expect(201, "PUT", "/v1/barriers/arrivals-sample", {"expected": PARTICIPANTS_MAX})
    sample = service.expect(200, "POST", "/v1/barriers/arrivals-sample/arrivals", {"participant": "p-0-000000000"})
    noop = run.sides["noop arrival"] = Noop(run.folder, sample, "noop-arrival", status=200)
    print(f"no-op arrival answers {len(sample[1])} bytes")

    def at(mode, number):
        names = [f"arrivals-{mode}-{number}-{n}" for n in range(barriers_a_run)]
        for name in names:
            caller.expect(201, "PUT", f"/v1/barriers/{name}", {"expected": PARTICIPANTS_MAX, "mode": mode})
        wrk_arrivals(run, f"arrivals, {mode}", service, f"arrivals-{mode}-{number}", size, args.seconds, args.threads,
                     load.CONNECTIONS, lambda: sum(caller.completed(name) for name in names))
        for name in names:      # so that the next run is beside as few
            caller.expect(200, "DELETE", f"/v1/barriers/{name}")

    for number in range(args.rounds):
        steps = [
            lambda: wrk_arrivals(run, "noop arrival", noop, "noop", size, args.seconds, args.threads, load.CONNECTIONS),
            lambda: at("members", number),
            lambda: at("count", number),
        ]
        turn = number % len(steps)
        for step in steps[turn:] + steps[:turn]:
            step()


def size(run):
    """CPU of Redis for an arrival at barriers whose participants are all named before: 100 of them, or 100,000."""
    service = run.sides["service"]
    caller = Caller(service)
    seconds = min(run.args.seconds, SIZE_SECONDS_MAX)
    names_a_run = SIZE_RATE_MAX * seconds

    def at(participants, number):
        barriers = [f"size-{participants}-{number}-{n}" for n in range(-(-names_a_run // participants))]
        for n, barrier in enumerate(barriers):
            # The names that `arrivals.lua` sends to it.
            names = [f"p-0-{name:09d}" for name in range(n * participants, (n + 1) * participants)]
            # Never sealed, so none of them fires.
            caller.expect(201, "PUT", f"/v1/barriers/{barrier}", {})
            for first in range(0, participants, NAMES_A_CALL):
                declared = {"participants": names[first:first + NAMES_A_CALL]}
                caller.expect(200, "POST", f"/v1/barriers/{barrier}/participants", declared)
        result = wrk_arrivals(run, f"{participants:,} participants", service, f"size-{participants}-{number}", participants,
                              seconds, 1, SIZE_CONNECTIONS)
        result["cost_us"] = result["cpu_seconds"]["redis"] * 1e6 / result["requests"]

    for number in range(run.args.rounds):
        for participants in ((SMALL, LARGE) if number % 2 == 0 else (LARGE, SMALL)):
            at(participants, number)


class Receiver:
    """Takes webhooks in, and says when each came."""

    def __init__(self):
        came = self.came = queue.SimpleQueue()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                at = time.perf_counter()
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(204)
                self.end_headers()
                came.put((json.loads(body)["subject"], at))

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def when(self, barrier):
        """When the message of a barrier came; messages of others before it are repeats."""
        while True:
            try:
                subject, at = self.came.get(timeout=30)
            except queue.Empty:
                raise Failed(f"nobody heard of {barrier}") from None
            if subject == barrier:
                return at


def notification(run):
    """From the moment when the last arrival is sent to the moment when the webhook is there, one barrier after the other."""
    caller, milliseconds = Caller(run.sides["service"]), []
    with Receiver() as receiver:
        for n in range(NOTIFICATIONS):
            barrier = f"notification-{n}"
            spec = {"participants": ["first", "last"], "notify": [{"url": receiver.url}]}
            caller.expect(201, "PUT", f"/v1/barriers/{barrier}", spec)
            caller.arrive(barrier, "first")
            sent = time.perf_counter()
            if not caller.arrive(barrier, "last")["fired"]:
                raise Failed(f"the last arrival at {barrier} did not fire")
            milliseconds.append((receiver.when(barrier) - sent) * 1000)
    cuts = statistics.quantiles(milliseconds, n=100)
    run.samples["notification"] = [{"median_ms": statistics.median(milliseconds), "p99_ms": cuts[98]}]
    print(f"  last arrival to webhook: median {statistics.median(milliseconds):.1f} ms, p99 {cuts[98]:.1f} ms")


def redis_calls(service):
    return int(service.redis.client.info()["total_commands_processed"])


def waiting(service, waiters, word):
    """Redis commands while so many wait on one barrier: in a window, and from the first call to the last answer."""
    caller, barrier = Caller(service), f"waiters-{word}-{waiters}"
    caller.expect(201, "PUT", f"/v1/barriers/{barrier}", {"participants": ["last"]})
    request = f"GET /v1/barriers/{barrier}/wait?seconds={WAIT_SECONDS} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    began, first = time.monotonic(), redis_calls(service)
    sockets, answers = selectors.DefaultSelector(), {}
    try:
        for _ in range(waiters):
            waiter = socket.create_connection(("127.0.0.1", service.port), timeout=30)
            waiter.sendall(request)
            waiter.setblocking(False)
            sockets.register(waiter, selectors.EVENT_READ)
            answers[waiter] = b""
        time.sleep(1)   # until the service has read all of them
        before = redis_calls(service)
        if sockets.select(timeout=WINDOW_SECONDS):
            raise Failed(f"one of {waiters} waiters was answered before the end")
        window = redis_calls(service) - before
        caller.arrive(barrier, "last")
        while sockets.get_map():
            ready = sockets.select(timeout=30)
            if not ready:
                raise Failed(f"{len(sockets.get_map())} of {waiters} waiters were not answered")
            for key, _ in ready:
                read = key.fileobj.recv(65_536)
                answers[key.fileobj] += read
                if not read:
                    sockets.unregister(key.fileobj)
        seconds, all_calls = time.monotonic() - began, redis_calls(service) - first
    finally:
        for waiter in answers:
            waiter.close()
    good = sum(answer.startswith(b"HTTP/1.1 200") and b'"status":"completed"' in answer for answer in answers.values())
    if good != waiters:
        raise Failed(f"{waiters - good} of {waiters} waiters got another answer")
    return {"window": window, "calls": all_calls, "seconds": seconds}


def waiters(run):
    """The same with few and with many, turn by turn: what more of them cost is the difference."""
    service = run.sides["service"]
    # The service has been started with the same limit.
    many = min(MANY, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500)
    if many < MANY:
        print(f"  only {many} waiters: `ulimit -n` allows no more")
    for number in range(min(run.args.rounds, 3)):
        few, crowd = waiting(service, FEW, number), waiting(service, many, number)
        # What Redis is asked anyway goes by time.
        idle = few["calls"] / few["seconds"] * crowd["seconds"]
        figures = {"window_ratio": crowd["window"] / max(1, few["window"]), "calls_a_waiter": max(0, crowd["calls"] - idle) / many,
                   "waiters": many}
        run.samples.setdefault("waiters", []).append(figures)
        print(f"  {many} waiters: {crowd['window']} Redis commands in {WINDOW_SECONDS} s, {few['window']} beside {FEW}; "
              f"{figures['calls_a_waiter']:.4f} a waiter from call to answer")
