"""Servers that keep what they get: a webhook of a chat, and a mail server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_string
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any


@dataclass
class Received:
    """What both servers have got, and where they are."""

    url: str = ""
    smtp: str = ""
    posts: list[bytes] = field(default_factory=list)
    mails: list[Message] = field(default_factory=list)


@contextmanager
def receiving() -> Iterator[Received]:
    """Both servers, in threads of this process."""
    received = Received()

    class Web(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.posts.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    class Mail(StreamRequestHandler):
        def handle(self) -> None:
            self.say("220 mail.example.com")
            while line := self.rfile.readline().decode().strip():
                if line.upper() == "DATA":
                    self.say("354 go on")
                    lines = iter(lambda: self.rfile.readline().decode(), ".\r\n")
                    received.mails.append(message_from_string("".join(lines)))
                self.say("221 bye" if line.upper() == "QUIT" else "250 ok")

        def say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    servers: list[Any] = [
        ThreadingHTTPServer(("127.0.0.1", 0), Web),
        ThreadingTCPServer(("127.0.0.1", 0), Mail),
    ]
    for server in servers:
        server.daemon_threads = True
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    web, mail = (server.server_address for server in servers)
    received.url, received.smtp = f"http://127.0.0.1:{web[1]}/hook", f"127.0.0.1:{mail[1]}"
    yield received
    for server in servers:
        server.shutdown()
        server.server_close()
