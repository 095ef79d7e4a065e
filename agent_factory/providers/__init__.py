"""Rules of the providers of models: how answers end, errors, and valid requests.

Each provider documents reasons for the end of an answer, codes of errors, and rules for messages.
Each rule stands here once, with its source, for the engine, middleware, servers and telemetry.
"""

from agent_factory.providers.content import ServerCall, server_calls, sources_of
from agent_factory.providers.endings import ending_of, reasons_in, refusal_of, refusal_text, text_of
from agent_factory.providers.errors import is_overflow

__all__ = [
    "ServerCall",
    "ending_of",
    "is_overflow",
    "reasons_in",
    "refusal_of",
    "refusal_text",
    "server_calls",
    "sources_of",
    "text_of",
]
