"""`make cluster`: three masters and three replicas on this machine, and Stockade on them. Ctrl-C ends all; what was sold stays in the
folder. Standard library only.

    python3 examples/cluster.py [--folder FOLDER] [--first 127.0.0.1:7001] [--masters 3] [--replicas 1] [COMMAND ...]

COMMAND is what runs on it, with STOCKADE_REDIS_URL set; without one it is `stockade serve` (STOCKADE_BINARY names another program).
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys

import engine
from redis_cluster import Cluster, Node


def options():
    parser = argparse.ArgumentParser(description="A Redis Cluster on this machine, and Stockade on it.")
    parser.add_argument("--folder", default=os.path.join(engine.ROOT, "stockade-data", "cluster"), help="what the servers keep")
    parser.add_argument("--first", default="127.0.0.1:7001", help="where the first listens; the others take the ports after it, the bus "
                        "10000 more")
    parser.add_argument("--masters", type=int, default=3, help="at least 3: a majority of them must be there")
    parser.add_argument("--replicas", type=int, default=1, help="of each master")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="what runs on it; without one the service")
    chosen = parser.parse_args()
    if chosen.masters < 1 or chosen.replicas < 0:
        parser.error("a cluster has a master at least")
    return chosen


def run(command, url):
    """Ends when it does, and passes on whoever wants it to end: the servers go after it."""
    with subprocess.Popen(command, env=os.environ | {"STOCKADE_REDIS_URL": url}) as child:
        # Ctrl-C reaches it, too.
        signal.signal(signal.SIGINT, lambda *_: None)
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, lambda *_: child.terminate())
        code = child.wait()
        return code if code >= 0 else 128 - code


def main():
    def stop(number, _):
        raise SystemExit(128 + number)

    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, stop)
    chosen = options()
    command = chosen.command or [engine.STOCKADE, "serve"]
    host, port = chosen.first.rsplit(":", 1)
    with contextlib.ExitStack() as started:
        nodes = [Node(os.path.join(chosen.folder, str(int(port) + number)), host, int(port) + number)
                 for number in range(chosen.masters * (1 + chosen.replicas))]
        for node in nodes:
            started.enter_context(node)
        cluster = Cluster(nodes, chosen.masters).create()
        print(f"{chosen.masters} masters and {len(nodes) - chosen.masters} replicas are in {chosen.folder}\n{cluster.url}", flush=True)
        return run(command, cluster.url)


if __name__ == "__main__":
    sys.exit(main())
