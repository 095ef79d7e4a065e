"""Who makes a request: here, everybody who has the one key of the shop."""

from __future__ import annotations

import os
import secrets

from starlette.requests import Request

from agent_factory.serve import Principal

_KEY = os.environ["SHOP_API_KEY"]
if not _KEY:
    raise ValueError("SHOP_API_KEY is empty: a request without a key would have it.")


def who(request: Request) -> Principal | None:
    """The principal of a request: in a product, of a session or of a user's own key."""
    sent = request.headers.get("x-api-key", "")
    # As bytes, because `compare_digest` takes no text beyond ASCII.
    if not secrets.compare_digest(sent.encode(), _KEY.encode()):
        return None
    return Principal(tenant="shop", name="desk")
