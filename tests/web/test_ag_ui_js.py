"""AG-UI's own client for JavaScript, and CopilotKit's, as they are, against a service."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from serve.agents import chat_service

from agent_factory.service import Service
from servers import served

SCRIPT = Path(__file__).with_name("ag_ui_client.mjs")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with chat_service(tmp_path_factory.mktemp("ag_ui")) as made:
        yield made


@pytest.fixture(scope="module")
def url(service: Service) -> Iterator[str]:
    with served(service) as url:
        yield url


def client(url: str, flow: str) -> str:
    """What the client prints in a flow."""
    done = subprocess.run(
        ["node", SCRIPT, url, flow], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
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
    done = subprocess.run(
        ["node", SCRIPT, url, "error"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr  # the client writes errors to stderr, too


def test_a_frontend_action_of_copilotkit(url: str) -> None:
    script = SCRIPT.with_name("copilotkit.mjs")
    done = subprocess.run(
        ["node", script, url], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_client_cancels(url: str, service: Service) -> None:
    (run,) = service.threads.runs(client(url, "cancel"))
    end = time.monotonic() + 10
    while run.status in ("queued", "running"):
        assert time.monotonic() < end
        time.sleep(0.02)
    assert run.status == "cancelled"
