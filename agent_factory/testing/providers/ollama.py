"""Fake of Ollama's chat API, with its rules.

https://docs.ollama.com/api/chat
https://docs.ollama.com/capabilities/tool-calling
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import ClassVar

from agent_factory.testing.providers.replies import ProviderReply
from agent_factory.testing.providers.rules import Json, documented, extra_fields
from agent_factory.testing.providers.server import ProviderRequest, ProviderServer, pieces

CHAT = "https://docs.ollama.com/api/chat"
TOOLS = "https://docs.ollama.com/capabilities/tool-calling"

_FIELDS = {*("role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id")}


class OllamaServer(ProviderServer):
    """Fake of Ollama: `/api/chat`, whole and as lines of JSON.

    Ollama has no form for a refusal: `refusal` answers with the text. Calls have no ids unless a
    reply names them.

    Args:
        replies: The script; see `ProviderServer`. A dict replaces fields of the response, as
            `message` and `done_reason`.
        strict: Refuse requests that break a rule. False: note the faults, and answer.

    Raises:
        ValueError: The provider has no such reply.

    >>> from agent_factory.testing.providers import OllamaServer, reply
    >>> server = OllamaServer([reply("Hello.", thinking="A greeting.")])
    """

    endpoints = re.compile(r"/api/chat(\?|$)")
    stream_type = "application/x-ndjson"
    errors: ClassVar = {
        "authentication": (401, "unauthorized", ""),
        "not_found": (404, "model '{model}' not found", ""),
        "overflow": (400, "the input length exceeds the context length", ""),
        "overloaded": (503, "server busy, please try again. maximum pending requests exceeded", ""),
        "rate_limit": (429, "too many requests", ""),
    }

    def streams(self, request: ProviderRequest) -> bool:
        return bool(request.body.get("stream", True))

    def render(self, answer: ProviderReply, request: Json) -> Json:
        message: Json = {"role": "assistant", "content": answer.text}
        if answer.thinking:
            message["thinking"] = answer.thinking
        if answer.calls:
            message["tool_calls"] = [
                {
                    "function": {"index": index, "name": call.name, "arguments": dict(call.args)},
                    **({"id": call.id} if call.id else {}),
                }
                for index, call in enumerate(answer.calls)
            ]
        return {
            "model": request.get("model"),
            "created_at": "2026-01-01T00:00:00Z",
            "message": message,
            "done": True,
            "done_reason": "length" if answer.ending == "length" else "stop",
            "total_duration": 1,
            "load_duration": 1,
            "prompt_eval_count": answer.usage[0],
            "prompt_eval_duration": 1,
            "eval_count": answer.usage[1],
            "eval_duration": 1,
        }

    def stream(self, response: Json, request: Json) -> Iterator[bytes]:
        message = response["message"]
        head = {key: response[key] for key in ("model", "created_at")}
        deltas: list[Json] = [{"thinking": text} for text in pieces(message.get("thinking") or "")]
        deltas += [{"content": text} for text in pieces(message.get("content") or "")]
        deltas += [{"tool_calls": [call]} for call in message.get("tool_calls") or ()]
        for delta in deltas:
            part = {"role": "assistant", "content": "", **delta}
            yield _line({**head, "message": part, "done": False})
        yield _line({**response, "message": {"role": "assistant", "content": ""}})

    def error_body(self, status: int, message: str, code: str = "") -> Json:
        return {"error": message}

    @documented(CHAT)
    def required_fields(self, body: Json) -> Iterator[str]:
        """A request has a model."""
        if not body.get("model"):
            yield "model is required"

    @documented(CHAT)
    def messages(self, body: Json) -> Iterator[str]:
        """Messages have documented roles and fields, and a text as content."""
        error = "unknown {place}.{name}"
        for index, message in enumerate(body["messages"]):
            yield from extra_fields(message, _FIELDS, f"messages[{index}]", error)
            if message["role"] not in ("system", "user", "assistant", "tool"):
                yield f"messages[{index}]: unknown role {message['role']}"
            if not isinstance(message.get("content", ""), str):
                yield (
                    "json: cannot unmarshal array into Go struct field ChatRequest.messages.content"
                    " of type string"
                )

    @documented(TOOLS, refused=False)
    def names_of_results(self, body: Json) -> Iterator[str]:
        """A result names its tool or its call."""
        for index, message in enumerate(body["messages"]):
            is_named = message.get("tool_name") or message.get("tool_call_id")
            if message["role"] == "tool" and not is_named:
                yield f"messages[{index}]: a message of a tool needs tool_name"

    @documented(TOOLS)
    def arguments_are_objects(self, body: Json) -> Iterator[str]:
        """The arguments of a call are an object."""
        for message in body["messages"]:
            for call in message.get("tool_calls") or ():
                if not isinstance(call["function"]["arguments"], dict):
                    yield (
                        "json: cannot unmarshal string into Go struct field "
                        "ToolCallFunction.messages.tool_calls.function.arguments"
                    )


def _line(value: Json) -> bytes:
    return json.dumps(value).encode() + b"\n"
