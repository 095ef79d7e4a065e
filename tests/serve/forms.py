"""Forms of pages, sent as a browser sends them."""

from __future__ import annotations

import re
from typing import Any

from starlette.testclient import TestClient


def send(client: TestClient, path: str, page: str = "/studio", **fields: Any) -> Any:
    """Send a form of a page, with its token."""
    (token, *_) = re.findall(r'name="csrf_token" value="([^"]+)"', client.get(page).text)
    return client.post(path, data={"csrf_token": token, **fields})
