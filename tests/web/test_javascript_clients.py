"""Clients for JavaScript, as they are, against a service: LangGraph's, React's, AG-UI's."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serve.agents import chat_service

from agent_factory.service import Service
from servers import served
from waiting import until

FOLDER = Path(__file__).parent
# LangGraph's client, LangChain's newest hook for React, and agent-chat-ui, which has an older one.
SCRIPTS = ("langgraph_client.mjs", "react_client.mjs", "agent_chat_ui.mjs")


def cases(script: str) -> list[str]:
    """The names of a script's cases."""
    return re.findall(r"^  async (\w+)\(\) {$", (FOLDER / script).read_text(), re.MULTILINE)


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `node SCRIPT URL CASE`; an assertion that fails has what the script wrote to stderr."""
    command: list[Any] = ["node", FOLDER / script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize(
    ("script", "case"), [(script, case) for script in SCRIPTS for case in cases(script)]
)
def test_a_client_of_langgraph(protocol_url: str, script: str, case: str) -> None:
    run(script, protocol_url, case)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with chat_service(f"sqlite:///{tmp_path_factory.mktemp('ag_ui')}/desk.db") as made:
        yield made


@pytest.fixture(scope="module")
def url(service: Service) -> Iterator[str]:
    with served(service) as url:
        yield url


def client(url: str, flow: str) -> str:
    """What the client of AG-UI prints in a flow."""
    done = run("ag_ui_client.mjs", url, flow)
    # It warns of whatever in the stream does not follow the protocol.
    assert done.stderr == "" or flow == "error"
    return done.stdout.strip()


@pytest.mark.parametrize(
    "flow",
    [
        *("text", "twoRuns", "tools", "clientTools", "clientToolsReload", "state"),
        *("reasoning", "interrupt", "abandon", "error"),
    ],
)
def test_a_flow(url: str, flow: str) -> None:
    client(url, flow)


def test_a_frontend_action_of_copilotkit(url: str) -> None:
    run("copilotkit.mjs", url)


@pytest.mark.usefixtures("gate")
def test_a_client_cancels(url: str, service: Service) -> None:
    (run,) = service.threads.runs(client(url, "cancel"))
    until(lambda: run.status not in ("queued", "running"))
    assert run.status == "cancelled"
