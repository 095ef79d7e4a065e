"""Fake of Amazon Bedrock's Converse API, with its rules.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
"""

from __future__ import annotations

import binascii
import json
import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import ClassVar

from agent_factory.testing.providers import preserved_thinking
from agent_factory.testing.providers.replies import ProviderReply, cut_json
from agent_factory.testing.providers.rules import Json, documented
from agent_factory.testing.providers.server import ProviderRequest, ProviderServer, pieces, token

_DOCS = "https://docs.aws.amazon.com/bedrock/latest"
MESSAGE = f"{_DOCS}/APIReference/API_runtime_Message.html"
CONVERSE = f"{_DOCS}/APIReference/API_runtime_Converse.html"
BLOCK = f"{_DOCS}/APIReference/API_runtime_ContentBlock.html"
TOOL_USE = f"{_DOCS}/APIReference/API_runtime_ToolUseBlock.html"
TOOL_RESULT = f"{_DOCS}/APIReference/API_runtime_ToolResultContentBlock.html"
TOOL_CONFIG = f"{_DOCS}/APIReference/API_runtime_ToolConfiguration.html"
REASONING = f"{_DOCS}/APIReference/API_runtime_ReasoningTextBlock.html"
TOOLS = f"{_DOCS}/userguide/tool-use-inference-call.html"
CACHING = f"{_DOCS}/userguide/prompt-caching.html"

_BLOCKS = {
    *("text", "image", "document", "video", "audio", "toolUse", "toolResult", "guardContent"),
    *("cachePoint", "reasoningContent", "citationsContent", "searchResult"),
}
_IN_RESULTS = {"text", "json", "image", "document", "video", "searchResult"}
_EXCEPTIONS = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}
_STOP_REASONS = {"length": "max_tokens", "refusal": "content_filtered"}


class BedrockServer(ProviderServer):
    """Fake of Amazon Bedrock: `Converse` and `ConverseStream`.

    Args:
        replies: The script; see `ProviderServer`. A dict replaces fields of the response, as
            `output` and `stopReason`.
        strict: Refuse requests that break a rule. False: note the faults, and answer.

    Raises:
        ValueError: The provider has no such reply.

    >>> from agent_factory.testing.providers import BedrockServer, reply
    >>> server = BedrockServer([reply("Hello.", thinking="A greeting.")])
    """

    endpoints = re.compile(r"/model/[^/]+/converse(-stream)?$")
    stream_type = "application/vnd.amazon.eventstream"
    errors: ClassVar = {
        "authentication": (403, "The security token included in the request is invalid.", ""),
        "not_found": (404, "The model is not found.", ""),
        "overflow": (400, "Input is too long for requested model.", ""),
        "overloaded": (503, "The service is temporarily unavailable.", ""),
        "rate_limit": (429, "Too many requests, please wait before trying again.", ""),
    }

    def streams(self, request: ProviderRequest) -> bool:
        return request.path.endswith("/converse-stream")

    def render(self, answer: ProviderReply, request: Json) -> Json:
        content: list[Json] = []
        if answer.thinking:
            text = {"text": answer.thinking, "signature": ""}
            content.append({"reasoningContent": {"reasoningText": text}})
        if answer.text:
            content.append({"text": answer.text})
        for call in answer.calls:
            id_ = call.id or f"tooluse_{token()}"
            use = {"toolUseId": id_, "name": call.name, "input": dict(call.args)}
            content.append({"toolUse": use})
        default = "tool_use" if answer.calls else "end_turn"
        return {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": _STOP_REASONS.get(answer.ending, default),
            "usage": answer.usage_by("inputTokens", "outputTokens", "totalTokens"),
            "metrics": {"latencyMs": 1},
        }

    def sign(self, response: Json, request: Json) -> None:
        for text in _thoughts(response["output"]["message"]["content"]):
            block = {"type": "thinking", "thinking": text["text"]}
            preserved_thinking.sign([block], {})
            text["signature"] = text.get("signature") or block["signature"]

    def stream(self, response: Json, request: Json) -> Iterator[bytes]:
        content = response["output"]["message"]["content"]
        yield _event("messageStart", {"role": "assistant"})
        for index, block in enumerate(content):
            place = {"contentBlockIndex": index}
            is_cut = response["stopReason"] == "max_tokens" and index == len(content) - 1
            if "toolUse" in block:
                use = {key: block["toolUse"][key] for key in ("toolUseId", "name")}
                start = {**place, "start": {"toolUse": use}}
                yield _event("contentBlockStart", start)
            for delta in _deltas(block, is_cut=is_cut):
                yield _event("contentBlockDelta", {**place, "delta": delta})
            yield _event("contentBlockStop", place)
        yield _event("messageStop", {"stopReason": response["stopReason"]})
        end = {key: response[key] for key in ("usage", "metrics")}
        yield _event("metadata", end)

    def error_body(self, status: int, message: str, code: str = "") -> Json:
        kind = code or _EXCEPTIONS.get(status, "InternalServerException")
        return {"__type": kind, "message": message}

    @documented(MESSAGE)
    def required_fields(self, body: Json) -> Iterator[str]:
        """A request has messages, and each message has a content."""
        if not body.get("messages"):
            yield "A conversation must start with a user message."
        for index, message in enumerate(body.get("messages") or ()):
            if not message["content"]:
                yield f"The content field in the Message object at messages.{index} is empty."

    @documented(CONVERSE)
    def order_of_roles(self, body: Json) -> Iterator[str]:
        """User and assistant alternate, and the user begins."""
        roles = [message["role"] for message in body["messages"]]
        if roles[0] != "user":
            yield "A conversation must start with a user message."
        for before, role in pairwise(roles):
            if before == role:
                yield "A conversation must alternate between user and assistant roles."

    @documented(BLOCK)
    def blocks(self, body: Json) -> Iterator[str]:
        """A block has one documented member; texts are not blank."""
        for place, block in _each_block(body):
            if len(block) != 1 or not block.keys() & _BLOCKS:
                yield f"{place}: expected one member of ContentBlock, got {', '.join(block)}"
            if "text" in block and not block["text"].strip():
                yield f"The text field in the ContentBlock object at {place} is blank."

    @documented(TOOL_RESULT)
    def content_of_results(self, body: Json) -> Iterator[str]:
        """A result has documented members; texts are not blank."""
        for place, block in _each_block(body):
            for item in block.get("toolResult", {}).get("content", ()):
                if not item.keys() & _IN_RESULTS:
                    yield f"{place}.toolResult.content: unknown member {', '.join(item)}"
                if "text" in item and not item["text"].strip():
                    yield f"The text field in the ToolResultContentBlock at {place} is blank."

    @documented(TOOL_USE)
    def calls(self, body: Json) -> Iterator[str]:
        """Arguments are an object; an id has at most 64 letters, digits, `_` and `-`."""
        for place, block in _each_block(body):
            if not (use := block.get("toolUse")):
                continue
            if not isinstance(use["input"], dict):
                yield (
                    f"The format of the value at {place}.toolUse.input is invalid. Provide a json "
                    "object for the field and try again."
                )
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", use["toolUseId"]):
                yield f"{place}.toolUse.toolUseId: must satisfy the pattern [a-zA-Z0-9_-]+"

    @documented(TOOLS)
    def calls_have_results(self, body: Json) -> Iterator[str]:
        """The message after calls has one result of each."""
        pairs = pairwise([*body["messages"], {"content": []}])
        for index, (message, following) in enumerate(pairs):
            calls, results = _ids(message, "toolUse"), _ids(following, "toolResult")
            if missing := [id_ for id_ in calls if id_ not in results]:
                yield (
                    f"Expected toolResult blocks at messages.{index + 1}.content for the following "
                    f"Ids: {', '.join(missing)}"
                )

    @documented(TOOLS)
    def results_have_calls(self, body: Json) -> Iterator[str]:
        """A result is the only one of a call in the message before."""
        pairs = pairwise([{"content": []}, *body["messages"]])
        for index, (before, message) in enumerate(pairs):
            calls, results = _ids(before, "toolUse"), _ids(message, "toolResult")
            if set(results) - set(calls) or len(results) != len(set(results)):
                yield (
                    f"The number of toolResult blocks at messages.{index}.content exceeds the "
                    "number of toolUse blocks of previous turn."
                )

    @documented(REASONING)
    def thoughts_are_unchanged(self, body: Json) -> Iterator[str]:
        """A thought goes back with its text and its signature."""
        for index, message in enumerate(body["messages"]):
            for text in _thoughts(message["content"]):
                values = preserved_thinking.read(text.get("signature"))
                block = {"thinking": text.get("text")}
                if values is None or values["thought"] != preserved_thinking.thought(block):
                    yield f"messages.{index}: Invalid `signature` in `thinking` block"

    @documented(TOOL_CONFIG)
    def tool_config(self, body: Json) -> Iterator[str]:
        """Calls and results need tools, at least one."""
        config = body.get("toolConfig")
        kinds = {key for _, block in _each_block(body) for key in block}
        if kinds & {"toolUse", "toolResult"} and not config:
            yield (
                "The toolConfig field must be defined when using toolUse and toolResult content "
                "blocks."
            )
        if (config or {}).get("tools") == []:
            yield "toolConfig.tools: must have length greater than or equal to 1"

    @documented(CACHING)
    def cache_points(self, body: Json) -> Iterator[str]:
        """A request has at most four cache points, and none begins a message."""
        tools = (body.get("toolConfig") or {}).get("tools") or []
        blocks = [block for _, block in _each_block(body)]
        number = sum("cachePoint" in b for b in [*blocks, *(body.get("system") or ()), *tools])
        if number > 4:
            yield f"You have exceeded the maximum number of cache points: {number}. Limit: 4."
        for index, message in enumerate(body["messages"]):
            if "cachePoint" in message["content"][0]:
                yield f"messages.{index}: a cachePoint cannot be the first block."


def _each_block(body: Json) -> Iterator[tuple[str, Json]]:
    for index, message in enumerate(body["messages"]):
        for position, block in enumerate(message["content"]):
            yield f"messages.{index}.content.{position}", block


def _ids(message: Json, key: str) -> list[str]:
    return [block[key]["toolUseId"] for block in message["content"] if key in block]


def _thoughts(content: list[Json]) -> list[Json]:
    """The texts of thoughts with their signatures."""
    blocks = [block.get("reasoningContent") or {} for block in content]
    return [block["reasoningText"] for block in blocks if "reasoningText" in block]


def _deltas(block: Json, is_cut: bool) -> Iterator[Json]:
    """The deltas of a block in a stream."""
    for text in pieces(block.get("text", "")):
        yield {"text": text}
    if use := block.get("toolUse"):
        text = cut_json(use["input"]) if is_cut else json.dumps(use["input"])
        for piece in ["", *pieces(text if use["input"] else "", 4)]:
            yield {"toolUse": {"input": piece}}
    if thought := block.get("reasoningContent"):
        values = thought.get("reasoningText")
        if values is None:
            yield {"reasoningContent": thought}
            return
        for text in pieces(values["text"]):
            yield {"reasoningContent": {"text": text}}
        yield {"reasoningContent": {"signature": values["signature"]}}


def _event(event: str, payload: Json) -> bytes:
    """A message in the event stream encoding of AWS, with headers and checksums.

    https://smithy.io/2.0/aws/amazon-eventstream.html
    """
    body = json.dumps(payload).encode()
    values = {":event-type": event, ":content-type": "application/json", ":message-type": "event"}
    # A name with its length, the type 7 of a text, and a text with its length.
    headers = b"".join(
        bytes([len(name)]) + name.encode() + struct.pack(">BH", 7, len(value)) + value.encode()
        for name, value in values.items()
    )
    # Two lengths and three checksums or lengths of four bytes: 16 bytes around headers and body.
    prelude = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    prelude += struct.pack(">I", binascii.crc32(prelude))
    message = prelude + headers + body
    return message + struct.pack(">I", binascii.crc32(message))
