"""What listeners cost: a thousand live streams, of another sale and of the one that sells.

Listeners of the selling sale are sent every event a thousand times over, which no program does for nothing at the rate
of the crowd. So there the rate is low, and what is compared is what Redis spends: one reader serves them all.
"""

import multiprocessing
import selectors
import socket

import load
from scale import cost
from sides import HOT_UNITS, Failed

HEARD, SILENT, ELSEWHERE = "listeners-heard", "listeners-silent", "listeners-elsewhere"
LISTENERS = 1_000
QUIET_RATE = 100


def listen(port, sale, count, ready, over):
    """Opens `count` streams and reads whatever comes, until told to stop."""
    request = f"GET /v1/sales/{sale}/events/live HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    streams = selectors.DefaultSelector()
    for _ in range(count):
        stream = socket.create_connection(("127.0.0.1", port))
        stream.sendall(request)
        if not stream.recv(65_536).startswith(b"HTTP/1.1 200"):
            return
        stream.setblocking(False)
        streams.register(stream, selectors.EVENT_READ)
    ready.set()
    while not over.is_set():
        for key, _ in streams.select(timeout=0.2):
            if not key.fileobj.recv(1 << 20):
                streams.unregister(key.fileobj)


class Listeners:
    """A process of its own with a thousand live streams of a sale."""

    def __init__(self, service, sale):
        self.ready, self.over = multiprocessing.Event(), multiprocessing.Event()
        arguments = (service.port, sale, LISTENERS, self.ready, self.over)
        self.process = multiprocessing.Process(target=listen, args=arguments, daemon=True)

    def __enter__(self):
        self.process.start()
        if not self.ready.wait(timeout=60):
            raise Failed("the listeners do not get their streams")
        return self

    def __exit__(self, *_):
        self.over.set()
        self.process.join()


def redis_cost(run, name, service, sale, word):
    """CPU microseconds of Redis for each reserve at a low rate."""
    with load.Cpu(**run.pids(service)) as cpu:
        result = run.measure(name, load.constant_rate, service, sale, word, QUIET_RATE, run.args.seconds, 0)
    result["cost_us"] = cpu.seconds["redis"] * 1e6 / sum(result["statuses"].values())


def listeners(run):
    """Reserve with and without listeners, turn by turn."""
    service = run.sides["service"]
    for sale in (HEARD, SILENT, ELSEWHERE):
        service.put_sale(sale, HOT_UNITS)
    for number in range(run.args.rounds):
        redis_cost(run, "redis, no listeners", service, SILENT, f"v{number}")
        with Listeners(service, HEARD):
            redis_cost(run, "redis, 1,000 listeners", service, HEARD, f"w{number}")
        alone = run.wrk("no listeners", load.wrk_accepted, service, SILENT, f"t{number}")
        with Listeners(service, ELSEWHERE):
            beside = run.wrk("1,000 elsewhere", load.wrk_accepted, service, SILENT, f"u{number}")
        for result in (alone, beside):
            result["cost_us"] = cost(result)
