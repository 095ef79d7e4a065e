"""LangChain's newest hook for React, as it is, which speaks LangGraph's protocol v2."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from serve.protocol_desk import protocol_service

from servers import served
from service.databases import new_postgres, new_server

SCRIPT = Path(__file__).with_name("react_client.mjs")
CASES = re.findall(r"^  async (\w+)\(\) {$", SCRIPT.read_text(), re.MULTILINE)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose service runs the agents of `protocol_desk`."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "sqlite":
        with protocol_service(f"sqlite:///{folder}/desk.db") as service, served(service) as url:
            yield url
        return
    with (
        new_server(folder) as server,
        protocol_service(new_postgres(server)) as service,
        served(service) as url,
    ):
        yield url


@pytest.mark.parametrize("case", CASES)
def test_the_hook_for_react(url: str, case: str) -> None:
    done = subprocess.run(
        ["node", SCRIPT, url, case], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
