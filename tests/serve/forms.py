"""Clients of applications in this process, and forms of pages as a browser sends them."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from starlette.testclient import TestClient

from agent_factory.serve import create_app
from agent_factory.service import Service


def local_client(service: Service, **options: Any) -> TestClient:
    """A client on this machine."""
    return TestClient(
        create_app(service, **options),
        base_url="http://127.0.0.1:1",
        client=("127.0.0.1", 1),
    )


class Tags(HTMLParser):
    """The tags of an HTML text, with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def wrong_tags(html: str) -> list[str]:
    """Tags that the policy of pages does not allow, and tags that texts have brought."""
    return [
        tag
        for tag, names in Tags(html).tags
        if (tag == "script" and "src" not in names)
        or tag in ("style", "x-tag")
        or any(re.match("on|style", name) for name in names)
    ]
