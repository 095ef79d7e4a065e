"""A server that keeps what it gets: a webhook of a chat."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from waiting import until


@dataclass
class Receiver:
    """A server that answers with these statuses, then with 200."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    drips: bytes = b""
    """The begin of each answer, which goes on by single bytes until `end`."""
    end: Event = field(default_factory=Event)

    def wait(self, count: int = 1) -> list[dict[str, Any]]:
        """The bodies, once so many requests have come."""
        until(lambda: len(self.requests) >= count)
        return [json.loads(body) for _, body in self.requests]


@contextmanager
def receiving(drips: bytes = b"") -> Iterator[Receiver]:
    """The server, in a thread of this process."""
    receiver = Receiver(drips=drips)

    class Web(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.requests.append(({k.lower(): v for k, v in self.headers.items()}, body))
            if receiver.drips and not receiver.end.is_set():
                with suppress(OSError):  # the sender has left
                    self.wfile.write(receiver.drips)
                    while not receiver.end.wait(0.02):
                        self.wfile.write(b"x")
                return
            self.send_response(receiver.statuses.pop(0) if receiver.statuses else 200)
            self.send_header("Location", f"{receiver.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield receiver
    finally:
        receiver.end.set()
        server.shutdown()
        server.server_close()
