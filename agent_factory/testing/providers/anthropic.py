"""Fake of Anthropic's Messages API.

https://platform.claude.com/docs/en/api/messages/create
https://platform.claude.com/docs/en/build-with-claude/streaming
https://platform.claude.com/docs/en/api/errors
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

from agent_factory.testing.providers import preserved_thinking as thinking
from agent_factory.testing.providers.anthropic_rules import AnthropicRules
from agent_factory.testing.providers.replies import ProviderReply, Step, cut_json
from agent_factory.testing.providers.rules import Json
from agent_factory.testing.providers.server import ProviderServer, pieces, sse, token

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STOP_REASONS = {"length": "max_tokens", "refusal": "refusal", "pause": "pause_turn"}


class AnthropicServer(AnthropicRules, ProviderServer):
    """Fake of Anthropic: the Messages API, whole and streamed.

    A text with a `pause` is followed by the call of a web search that has no result yet.

    Args:
        replies: The script; see `ProviderServer`. A dict replaces fields of the message, as
            `content` and `stop_reason`; the server signs thoughts in it that have no signature.
        preserved_thinking: Check requests as the models with preserved thinking do (Opus 5.5 and
            newer): nothing before a thought may change while the thought goes back.
        strict: Refuse requests that break a rule. False: note the faults, and answer.

    Raises:
        ValueError: The provider has no such reply.

    >>> import json
    >>> from urllib.request import Request, urlopen
    >>> from agent_factory.testing.providers import AnthropicServer, reply
    >>> with AnthropicServer([reply("Hello.")]) as server:
    ...     body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    ...     with urlopen(Request(f"{server.url}/v1/messages", json.dumps(body).encode())) as http:
    ...         print(json.load(http)["content"], server.faults)
    [{'type': 'text', 'text': 'Hello.'}] []
    """

    endpoints = re.compile(r"/v1/messages(\?|$)")
    errors: ClassVar = {
        "authentication": (401, "invalid x-api-key", ""),
        "not_found": (404, "model: {model}", ""),
        "overflow": (400, "prompt is too long: 200251 tokens > 200000 maximum", ""),
        "overloaded": (529, "Overloaded", ""),
        "rate_limit": (429, "This request would exceed your organization's rate limit.", ""),
    }

    def __init__(
        self,
        replies: Iterable[Step] = (),
        *,
        preserved_thinking: bool = False,
        strict: bool = True,
    ) -> None:
        self.preserved_thinking = preserved_thinking
        super().__init__(replies, strict=strict)

    def render(self, answer: ProviderReply, request: Json) -> Json:
        content: list[Json] = []
        if answer.thinking:
            content.append({"type": "thinking", "thinking": answer.thinking, "signature": ""})
        if answer.text and answer.ending != "refusal":
            content.append({"type": "text", "text": answer.text})
        for call in answer.calls:
            id_ = call.id or f"toolu_{token()}"
            content.append(
                {"type": "tool_use", "id": id_, "name": call.name, "input": dict(call.args)}
            )
        if answer.ending == "pause":
            query = {"id": f"srvtoolu_{token()}", "name": "web_search", "input": {"query": "x"}}
            content.append({"type": "server_tool_use", **query})
        details = {"type": "refusal", "category": None, "explanation": answer.text}
        return {
            "id": f"msg_{token()}",
            "type": "message",
            "role": "assistant",
            "model": request.get("model"),
            "content": content,
            "stop_reason": _STOP_REASONS.get(
                answer.ending, "tool_use" if answer.calls else "end_turn"
            ),
            "stop_sequence": None,
            **({"stop_details": details} if answer.ending == "refusal" else {}),
            "usage": {"input_tokens": answer.usage[0], "output_tokens": answer.usage[1]},
        }

    def sign(self, response: Json, request: Json) -> None:
        thinking.sign(response["content"], request)
        if self.preserved_thinking:
            response["input_transformations"] = [
                {"type": "thinking_dropped", "path": path, "reason": "prefix_binding_mismatch"}
                for path, _ in thinking.mismatches(request)
            ]

    def stream(self, response: Json, request: Json) -> Iterator[bytes]:
        start = {**response, "content": [], "stop_reason": None}
        start["usage"] = {**response["usage"], "output_tokens": 1}
        changes = {k: start.pop(k) for k in ("input_transformations", "stop_details") if k in start}
        yield _event("message_start", message=start)
        is_cut = response["stop_reason"] == "max_tokens"
        for index, block in enumerate(response["content"]):
            is_last = index == len(response["content"]) - 1
            first, deltas = _parts(block, is_cut=is_cut and is_last)
            yield _event("content_block_start", index=index, content_block=first)
            for delta in deltas:
                yield _event("content_block_delta", index=index, delta=delta)
            yield _event("content_block_stop", index=index)
        yield _event("ping")
        end = {"stop_reason": response["stop_reason"], "stop_sequence": response["stop_sequence"]}
        if "stop_details" in changes:
            end["stop_details"] = changes.pop("stop_details")
        # The usage of this event is the sum of the whole stream.
        yield _event("message_delta", delta=end, usage=response["usage"], **changes)
        yield _event("message_stop")

    def error_body(self, status: int, message: str, code: str = "") -> Json:
        problem = {"type": code or _TYPES.get(status, "api_error"), "message": message}
        return {"type": "error", "error": problem, "request_id": f"req_{token()}"}


def _event(kind: str, **fields: object) -> bytes:
    return sse({"type": kind, **fields}, kind)


def _parts(block: Json, is_cut: bool) -> tuple[Json, list[Json]]:
    """The start of a block in a stream, and its deltas."""
    kind = block["type"]
    if kind == "text":
        citations = block.get("citations") or ()
        deltas = [{"type": "text_delta", "text": text} for text in pieces(block["text"])]
        deltas += [{"type": "citations_delta", "citation": citation} for citation in citations]
        return {"type": kind, "text": "", **({"citations": []} if citations else {})}, deltas
    if kind == "thinking":
        texts = pieces(block["thinking"])
        deltas = [{"type": "thinking_delta", "thinking": text} for text in texts]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {"type": kind, "thinking": "", "signature": ""}, deltas
    if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        text = cut_json(block["input"]) if is_cut else json.dumps(block["input"])
        # A call without arguments has one delta, which is empty.
        texts = ["", *pieces(text if block["input"] else "", 5)]
        deltas = [{"type": "input_json_delta", "partial_json": text} for text in texts]
        return {**block, "input": {}}, deltas
    return block, []
