"""A service that is served over HTTP, for the clients that speak to it."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from threading import Event
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from agent_factory.service import Service
from serve.agents import GATE
from servers import served
from service.conftest import postgres_server  # noqa: F401  a fixture
from service.stage import stage  # noqa: F401  a fixture

# The default of httpx, five seconds for an answer, is short on a busy machine.
PATIENCE = signature(httpx.get).parameters["timeout"].default
for part in ("connect", "read", "write", "pool"):
    setattr(PATIENCE, part, 60.0)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients speak to this machine."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def gate() -> Iterator[Event]:
    """A run whose message says "held" works until a test sets it."""
    GATE.clear()
    yield GATE
    GATE.set()


@pytest.fixture(scope="module")
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The service of a module, by the function that it names."""
    folder = tmp_path_factory.mktemp("service")
    with request.module.SERVICE(f"sqlite:///{folder}/desk.db") as service:
        yield service


@pytest.fixture(scope="module")
def url(service: Service, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of the service of a module, with the options of the server that it names."""
    with served(service, **getattr(request.module, "SERVER", {})) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[SyncLangGraphClient]:
    """A client of LangGraph's for the service of a module."""
    with get_sync_client(url=url) as client:
        yield client


@pytest.fixture
def thread(client: SyncLangGraphClient) -> str:
    """A new thread."""
    return str(client.threads.create()["thread_id"])
