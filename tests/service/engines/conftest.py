"""Services over each engine that has a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from service.engines.noted_work import NotedWork
from service.engines.servers import SERVERS, Server


@pytest.fixture
def server(request: pytest.FixtureRequest, kind: str) -> Server:
    """The server of a kind, for this process of the tests."""
    server: Server = request.getfixturevalue(f"{kind}_server")
    return server


@pytest.fixture
def own_server(tmp_path: Path, kind: str) -> Iterator[Server]:
    """A server that a test may kill; it does not run yet."""
    server = SERVERS[kind](tmp_path / kind)
    yield server
    server.kill()


@pytest.fixture
def name() -> str:
    """The name of a service, which no other test has in the server."""
    return f"t{uuid4().hex[:8]}"


@pytest.fixture
def engine_url(server: Server, name: str) -> str:
    """The URL of an engine of the service."""
    return server.url(name)


@pytest.fixture
def work(tmp_path: Path) -> Iterator[NotedWork]:
    work = NotedWork(tmp_path / "notes")
    yield work
    work.release()
