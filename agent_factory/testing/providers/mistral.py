"""Fake of Mistral's chat completions, with its rules.

https://docs.mistral.ai/api/
https://docs.mistral.ai/capabilities/reasoning
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import ClassVar
from uuid import uuid4

from agent_factory.testing.providers.chat_completions import (
    ChatCompletionsServer,
    calls_without_results,
    results_without_calls,
)
from agent_factory.testing.providers.replies import ProviderReply
from agent_factory.testing.providers.rules import Json, documented, extra_fields
from agent_factory.testing.providers.server import pieces

CHAT = "https://docs.mistral.ai/api/endpoint/chat"
FUNCTIONS = "https://docs.mistral.ai/capabilities/function_calling"

_EXTRA = "{place}.{name}: Extra inputs are not permitted"
_CHUNKS = {
    "text": {"type", "text"},
    "thinking": {"type", "thinking", "closed", "signature"},
    "reference": {"type", "reference_ids"},
    "image_url": {"type", "image_url"},
    "document_url": {"type", "document_url", "document_name"},
    "input_audio": {"type", "input_audio"},
    "file": {"type", "file_id"},
}


class MistralServer(ChatCompletionsServer):
    """Fake of Mistral: chat completions, with thoughts as parts of the content.

    Mistral has no form for a refusal: `refusal` answers with the text.

    Args:
        replies: The script; see `ProviderServer`. A dict replaces fields of the response, as
            `choices`.
        strict: Refuse requests that break a rule. False: note the faults, and answer.

    Raises:
        ValueError: The provider has no such reply.

    >>> from agent_factory.testing.providers import MistralServer, reply
    >>> server = MistralServer([reply("Hello.", thinking="A greeting.")])
    """

    errors: ClassVar = {
        "authentication": (401, "Unauthorized", ""),
        "not_found": (400, "Invalid model: {model}", "1500"),
        "overflow": (
            400,
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum context length",
            "3051",
        ),
        "overloaded": (503, "Service unavailable.", "3505"),
        "rate_limit": (429, "Rate limit exceeded", "1300"),
    }
    codes: ClassVar = {
        "order_of_roles": "3230",
        "results_have_calls": "3230",
        "calls_have_results": "3230",
        "assistant_content": "3240",
        "call_ids": "3280",
    }

    def message(self, answer: ProviderReply) -> Json:
        message = {**super().message(answer), "content": answer.text}
        if answer.thinking:
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": answer.thinking}]}
            text = [{"type": "text", "text": answer.text}] if answer.text else []
            message["content"] = [thought, *text]
        return message

    def call_id(self) -> str:
        return uuid4().hex[:9]

    def last_delta(self, message: Json) -> Json:
        # Calls come whole.
        calls = [{**call, "index": i} for i, call in enumerate(message.get("tool_calls") or ())]
        return {"content": "", **({"tool_calls": calls} if calls else {})}

    def end_fields(self, response: Json) -> Json:
        return {"usage": response["usage"]}

    def deltas(self, message: Json) -> Iterator[Json]:
        yield {"role": "assistant", "content": ""}
        content = message["content"]
        is_text = isinstance(content, str)
        for chunk in [{"type": "text", "text": content}] if is_text else content:
            if chunk["type"] == "text":
                yield from ({"content": text} for text in pieces(chunk["text"]))
            elif chunk["type"] == "thinking":
                for text in pieces(chunk["thinking"][0]["text"]):
                    part = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
                    yield {"content": [part]}
            else:
                yield {"content": [chunk]}

    def error_body(self, status: int, message: str, code: str = "") -> Json:
        kinds = {
            "1300": "rate_limited",
            "1500": "invalid_model",
            "3051": "invalid_request_prompt_too_long",
            "3230": "invalid_request_message_order",
            "3240": "invalid_request_assistant_message",
            "3280": "invalid_function_call",
            "3505": "service_unavailable",
        }
        kind = kinds.get(code, "invalid_request_error")
        fields = {"type": kind, "param": None, "code": code or None}
        return {"object": "error", "message": message, **fields}

    @documented(CHAT)
    def required_fields(self, body: Json) -> Iterator[str]:
        """A request has a model and messages."""
        for name in ("model", "messages"):
            if not body.get(name):
                yield f"body.{name}: Field required"

    @documented(CHAT)
    def documented_fields(self, body: Json) -> Iterator[str]:
        """Messages, calls and chunks have documented fields and types alone."""
        fields = {"role", "content", "name", "tool_calls", "tool_call_id", "prefix"}
        for index, message in enumerate(body["messages"]):
            place = f"body.messages.{index}"
            yield from extra_fields(message, fields, place, _EXTRA)
            for call in message.get("tool_calls") or ():
                names = {"id", "type", "function", "index"}
                yield from extra_fields(call, names, f"{place}.tool_calls", _EXTRA)
            content = message.get("content")
            for chunk in content if isinstance(content, list) else ():
                kind = chunk.get("type") if isinstance(chunk, dict) else None
                if kind not in _CHUNKS:
                    yield f"{place}.content: Input tag '{kind}' does not match any of the tags"
                else:
                    yield from extra_fields(chunk, _CHUNKS[kind], f"{place}.content", _EXTRA)

    @documented(FUNCTIONS)
    def order_of_roles(self, body: Json) -> Iterator[str]:
        """After a result comes the assistant; a request ends with the user, or with a result."""
        roles = [message["role"] for message in body["messages"]]
        for before, role in pairwise(roles):
            if before == "tool" and role in ("user", "system"):
                yield f"Unexpected role '{role}' after role 'tool'"
        if roles[-1] == "assistant" and not body["messages"][-1].get("prefix"):
            yield (
                "Expected last role User or Tool (or Assistant with prefix True) for serving but "
                "got assistant"
            )

    @documented(FUNCTIONS)
    def calls_have_results(self, body: Json) -> Iterator[str]:
        """Each call has a result in the messages after it."""
        for _ in calls_without_results(body["messages"]):
            yield "Not the same number of function calls and responses"

    @documented(FUNCTIONS)
    def results_have_calls(self, body: Json) -> Iterator[str]:
        """A result is the only one of a call in the message of the assistant before."""
        for _, id_ in results_without_calls(body["messages"]):
            yield f"Unexpected tool call id {id_} in tool results"

    @documented(FUNCTIONS)
    def call_ids(self, body: Json) -> Iterator[str]:
        """The id of a call has nine letters and digits."""
        for message in body["messages"]:
            for call in message.get("tool_calls") or ():
                if not re.fullmatch(r"[a-zA-Z0-9]{9}", call["id"]):
                    yield (
                        f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length "
                        "of 9."
                    )

    @documented(CHAT)
    def assistant_content(self, body: Json) -> Iterator[str]:
        """A message of the assistant has a content or calls."""
        for message in body["messages"]:
            is_empty = not message.get("content") and not message.get("tool_calls")
            if message["role"] == "assistant" and is_empty:
                yield "Assistant message must have either content or tool_calls, but not none."
