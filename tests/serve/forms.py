"""Clients of applications in this process, and forms of pages as a browser sends them."""

from __future__ import annotations

import re
from typing import Any

from starlette.testclient import TestClient

from agent_factory.serve import create_app
from agent_factory.service import Service


def local_client(service: Service, **options: Any) -> TestClient:
    """A client on this machine, with the token of forms."""
    return TestClient(
        create_app(service, **options),
        base_url="http://127.0.0.1:1",
        client=("127.0.0.1", 1),
        cookies={"agent_factory_csrf": "token"},
    )


def send(client: TestClient, path: str, page: str = "/studio", **fields: Any) -> Any:
    """Send a form of a page, with its token."""
    (token, *_) = re.findall(r'name="csrf_token" value="([^"]+)"', client.get(page).text)
    return client.post(path, data={"csrf_token": token, **fields})
