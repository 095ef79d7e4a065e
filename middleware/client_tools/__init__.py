"""Offer the model tools that the client of a run brings, and let the client run their calls.

The tools, and the format that the client wants the answer in, come in `config["configurable"]`, so
that each run has its own and none is stored in the state. A client that sends the result of a call
may change them for the rest of the run: what it then asks for is the artifact of the result, which
no model reads.
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
