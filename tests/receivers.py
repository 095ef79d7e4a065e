"""A server that keeps what it gets: a webhook of a chat."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass
class Received:
    """The requests of a server, and its URL."""

    url: str = ""
    posts: list[bytes] = field(default_factory=list)


@contextmanager
def receiving() -> Iterator[Received]:
    """The server, in a thread of this process."""
    received = Received()

    class Web(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.posts.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    received.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    yield received
    server.shutdown()
    server.server_close()
