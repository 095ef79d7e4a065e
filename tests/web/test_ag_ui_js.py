"""AG-UI's own client for JavaScript, and CopilotKit's, as they are, against a service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from serve.agents import chat_service

from agent_factory.service import Service
from servers import served
from waiting import until
from web import javascript

SCRIPT = "ag_ui_client.mjs"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with chat_service(f"sqlite:///{tmp_path_factory.mktemp('ag_ui')}/desk.db") as made:
        yield made


@pytest.fixture(scope="module")
def url(service: Service) -> Iterator[str]:
    with served(service) as url:
        yield url


def client(url: str, flow: str) -> str:
    """What the client prints in a flow."""
    done = javascript.run(SCRIPT, url, flow)
    # It warns of whatever in the stream does not follow the protocol.
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize(
    "flow",
    [
        *("text", "twoRuns", "tools", "clientTools", "clientToolsReload", "state"),
        *("reasoning", "interrupt", "abandon"),
    ],
)
def test_a_flow(url: str, flow: str) -> None:
    client(url, flow)


def test_errors_are_reported(url: str) -> None:
    javascript.run(SCRIPT, url, "error")  # the client writes errors to stderr, too


def test_a_frontend_action_of_copilotkit(url: str) -> None:
    javascript.run("copilotkit.mjs", url)


@pytest.mark.usefixtures("gate")
def test_a_client_cancels(url: str, service: Service) -> None:
    (run,) = service.threads.runs(client(url, "cancel"))
    until(lambda: run.status not in ("queued", "running"))
    assert run.status == "cancelled"
