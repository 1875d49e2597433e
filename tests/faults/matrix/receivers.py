"""Where webhooks go: a receiver that fails as it is told."""

import collections
import http.server
import threading
import time

BEHAVIOURS = ("ok", "refuse", "hang", "drop")
HANG_SECONDS = 2


class Receiver:
    """Treats the first try of each message as the next behaviour says, and takes all later ones."""

    def __init__(self, behaviours=("ok",)):
        self.behaviours, self.tries, self.taken = list(behaviours), collections.Counter(), collections.Counter()

    def __enter__(self):
        lock = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler):
                handler.rfile.read(int(handler.headers["Content-Length"]))
                message = handler.headers["webhook-id"]
                with lock:
                    how = "ok" if self.tries[message] else self.behaviours[len(self.tries) % len(self.behaviours)]
                    self.tries[message] += 1
                    if how == "ok":
                        self.taken[message] += 1
                if how in ("hang", "drop"):
                    time.sleep(HANG_SECONDS if how == "hang" else 0)
                    handler.close_connection = True
                    return
                handler.send_response(204 if how == "ok" else 500)
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
