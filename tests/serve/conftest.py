"""A service that is served over HTTP, for the clients that speak to it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from agent_factory.serve import create_app
from agent_factory.service import Service
from service.conftest import postgres_server, quick_queue  # noqa: F401  fixtures


@contextmanager
def served(service: Service, **options: Any) -> Iterator[str]:
    """The URL of a server in a thread of this process."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    app = create_app(service, **options)
    settings = uvicorn.Config(app, port=port, log_level="warning", timeout_graceful_shutdown=2)
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(timeout=10)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients speak to this machine."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="module")
def url(service: Service) -> Iterator[str]:
    """The URL of the service of a module."""
    with served(service) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[SyncLangGraphClient]:
    """A client of LangGraph's for the service of a module."""
    with get_sync_client(url=url) as client:
        yield client
