"""Servers in threads of the tests' process."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import uvicorn

from agent_factory.serve import create_app
from agent_factory.service import Service


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port: int = place.getsockname()[1]
        return port


@contextmanager
def served(
    service: Service, *, port: int | None = None, grace: int = 2, **options: Any
) -> Iterator[str]:
    """The URL of a service in a thread; the error of a server that does not start."""
    port, app = port or free_port(), create_app(service, **options)
    settings = uvicorn.Config(
        app, port=port, log_level="warning", timeout_graceful_shutdown=grace, ws="none"
    )
    server = uvicorn.Server(settings)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            server.run()
        # Also SystemExit, which uvicorn raises if the port is taken, and which ends a thread
        # without a word.
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError(f"The server at port {port} has ended: {errors}") from (
                errors[0] if errors else None
            )
        time.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(timeout=10)
