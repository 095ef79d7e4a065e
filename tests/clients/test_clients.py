"""Clients of others, at pinned versions, against our server and `langgraph dev`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from clients.bench import clients, langgraph_dev, our_server, page_rows, problems, row, write_row

CLIENTS = clients()
UPDATE = bool(os.environ.get("UPDATE_DOCS"))


@pytest.fixture(scope="session")
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of our server, with the service of a client."""
    with our_server(tmp_path_factory.mktemp("ours"), request.param) as url:
        yield url


@pytest.fixture(scope="session")
def dev_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of `langgraph dev`."""
    with langgraph_dev(tmp_path_factory.mktemp("dev")) as url:
        yield url


CASES = [
    pytest.param(key, client.service, id=f"{key}-smoke" if client.smoke else key)
    for key, client in CLIENTS.items()
]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("key", "url"), CASES, indirect=["url"])
def test_a_client(key: str, url: str, request: pytest.FixtureRequest) -> None:
    client = CLIENTS[key]
    ours: Any = client.results(url)
    # A check without another server has no value: it asserts, and fails with an error.
    expected: Any = {check: {"value": None} for check, line in ours.items() if "error" not in line}
    if client.dev:
        expected = client.results(request.getfixturevalue("dev_url"))
    if UPDATE:
        write_row(client, row(client, ours))
    assert problems(key, ours, expected) == []
    assert page_rows()[client.name] == row(client, ours), "write it: UPDATE_DOCS=1 make clients"


def test_the_page_has_the_pinned_versions_smoke() -> None:
    assert list(page_rows()) == [client.name for client in CLIENTS.values()]
