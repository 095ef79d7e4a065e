"""Servers in threads of the tests' process, and the commands that serve in processes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any

import uvicorn

from agent_factory.serve import create_app
from agent_factory.service import Service
from processes import Processes, wait_for_line
from waiting import until

SERVERS: dict[str, uvicorn.Server] = {}
"""The servers in this process by their URL."""


def connections(url: str) -> int:
    """How many connections a server knows: one less as soon as it sees that a client has gone."""
    return len(SERVERS[url].server_state.connections)


@contextmanager
def served(service: Service, **options: Any) -> Iterator[str]:
    """The URL of a service in a thread; the error of a server that does not start."""
    settings = uvicorn.Config(
        create_app(service, **options),
        port=0,
        log_level="warning",
        timeout_graceful_shutdown=2,
        ws="none",
    )
    server = uvicorn.Server(settings)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            server.run()
        # Also SystemExit, which uvicorn raises if it cannot listen, and which ends a thread
        # without a word.
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    until(lambda: server.started or not thread.is_alive())
    if not server.started:
        raise RuntimeError(f"The server has ended: {errors}") from (errors[0] if errors else None)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    SERVERS[url] = server
    try:
        yield url
    finally:
        del SERVERS[url]
        server.should_exit = True
        until(lambda: not thread.is_alive())


def listening(
    processes: Processes, command: Sequence[object], **options: Any
) -> tuple[subprocess.Popen[str], str]:
    """A process of `agent-factory serve` or `worker` that listens at port 0, and its URL."""
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = processes.start([*command, "--port", 0], **options)
    line = wait_for_line(process, "http://")
    (url,) = re.findall(r"http://[\d.]+:\d+", line)
    return process, url.replace("0.0.0.0", "127.0.0.1")
