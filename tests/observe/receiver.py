"""Where the story's webhooks go."""

import collections
import http.server
import threading


class Receiver:
    """Takes webhooks. Under /moody it refuses each message once, under /gone for good."""

    def __enter__(self):
        self.refused, self.taken, lock = set(), collections.Counter(), threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler):
                handler.rfile.read(int(handler.headers["Content-Length"]))
                message, status = handler.headers["webhook-id"], 204
                with lock:
                    if handler.path == "/moody" and message not in self.refused:
                        self.refused.add(message)
                        status = 500
                    if handler.path == "/gone":
                        status = 410
                    self.taken[handler.path, status] += 1
                handler.send_response(status)
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
