"""Offer the model tools of the client of a run, and let the client run their calls.

They come in `config["configurable"]`, so that each run has its own and the state stores none.
"""

from .middleware import ClientToolsMiddleware
from .requests import (
    CLIENT_RESPONSE_FORMAT,
    CLIENT_TOOL_CHOICE,
    CLIENT_TOOL_CHOICE_AT,
    CLIENT_TOOLS,
    client_request,
)

__all__ = [
    "CLIENT_RESPONSE_FORMAT",
    "CLIENT_TOOLS",
    "CLIENT_TOOL_CHOICE",
    "CLIENT_TOOL_CHOICE_AT",
    "ClientToolsMiddleware",
    "client_request",
]
