"""LangGraph's own client for JavaScript, as it is, against a service on each kind of database."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from serve.langgraph_desk import running_service

from servers import served
from service.databases import new_postgres, new_server

SCRIPT = Path(__file__).with_name("langgraph_client.mjs")
CASES = [
    "assistants",
    "threads",
    "stream_modes",
    "interrupt_and_resume",
    "history_and_fork",
    "rejoin",
    "thread_stream",
    "store",
    "cancel",
    "without_a_thread",
]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose service runs the agents of `langgraph_desk`."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "sqlite":
        with running_service(f"sqlite:///{folder}/desk.db") as service, served(service) as url:
            yield url
        return
    with (
        new_server(folder) as server,
        running_service(new_postgres(server)) as service,
        served(service) as url,
    ):
        yield url


@pytest.mark.parametrize("case", CASES)
def test_the_client_for_javascript(url: str, case: str) -> None:
    done = subprocess.run(
        ["node", SCRIPT, url, case], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_each_case_is_run() -> None:
    text = SCRIPT.read_text()
    assert [line[8:-4] for line in text.splitlines() if line.startswith("  async ")] == CASES
