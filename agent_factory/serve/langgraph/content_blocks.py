"""Messages as LangGraph's protocol v2 streams them: content block by content block."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    RemoveMessage,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata, add_usage

_GROWING = {"text": "text", "reasoning": "reasoning", "refusal": "refusal"}
"""The growing field of a block, by the type of the block."""

_CALL_CHUNK = "tool_call_chunk"


class MessageStreams:
    """Turns the messages of a stream into events: a start, content blocks, a finish."""

    def __init__(self) -> None:
        self._open: dict[tuple[tuple[str, ...], str], _Blocks] = {}

    def events(self, ns: Sequence[str], message: BaseMessage) -> Iterator[dict[str, Any]]:
        """The events of a message, or of a chunk.

        Args:
            message: The message. Chunks of one message have one id.
        """
        if isinstance(message, RemoveMessage):  # an instruction to the state, which nobody says
            return
        key = ((*ns,), str(message.id))
        if (blocks := self._open.get(key)) is None:
            role = "ai" if isinstance(message, AIMessage) else message.type  # not "AIMessageChunk"
            call = message.tool_call_id if isinstance(message, ToolMessage) else None
            of_call = {} if call is None else {"tool_call_id": call}
            yield {"event": "message-start", "role": role, "id": message.id, **of_call}
            blocks = _Blocks()
        yield from blocks.add(message)
        if isinstance(message, AIMessageChunk) and message.chunk_position != "last":
            self._open[key] = blocks
            return
        self._open.pop(key, None)
        yield from blocks.finish()

    def finish(self, ns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The events of messages without a last chunk, when a step of their namespace has ended."""
        for key in [key for key in self._open if key[0] == (*ns,)]:
            yield from self._open.pop(key).finish()

    @property
    def namespaces(self) -> list[tuple[str, ...]]:
        """The namespaces of messages without a last chunk."""
        return [*dict.fromkeys(ns for ns, _ in self._open)]

    def drop(self) -> None:
        """Forget messages whose rest does not come, since another worker begins them again."""
        self._open.clear()


class _Blocks:
    """Content blocks of one message so far."""

    def __init__(self) -> None:
        self._blocks: dict[object, dict[str, Any]] = {}
        self._usage: UsageMetadata | None = None
        self._metadata: dict[str, Any] = {}

    def add(self, message: BaseMessage) -> Iterator[dict[str, Any]]:
        # A chunk that is marked as the last leaves out its part of a call.
        is_last = isinstance(message, AIMessageChunk) and message.chunk_position == "last"
        unmarked = message.model_copy(update={"chunk_position": None}) if is_last else message
        for position, part in enumerate(unmarked.content_blocks):
            block: dict[str, Any] = {**part}
            # Chunks name their block; parts of a whole message are different blocks.
            place = block.get("index") if isinstance(message, AIMessageChunk) else position
            key = (block["type"], place)
            index = [*self._blocks].index(key) if key in self._blocks else len(self._blocks)
            field = "args" if block["type"] == _CALL_CHUNK else _GROWING.get(block["type"])
            if key not in self._blocks:
                empty = {**block, field: ""} if field else block
                self._blocks[key] = {**empty}
                yield {"event": "content-block-start", "index": index, "content": empty}
            if field is None:
                self._blocks[key].update(block)
            elif text := block.get(field):
                self._blocks[key][field] += text
                if field == "refusal":  # the protocol has no delta for it
                    continue
                kind = "tool-call" if field == "args" else field
                delta = {"type": f"{kind}-delta", field: text}
                yield {"event": "content-block-delta", "index": index, "delta": delta}
        if isinstance(message, AIMessage) and message.usage_metadata:
            self._usage = add_usage(self._usage, message.usage_metadata)  # comes in parts
        self._metadata |= message.response_metadata

    def finish(self) -> Iterator[dict[str, Any]]:
        for index, block in enumerate(self._blocks.values()):
            content = block
            if block["type"] == _CALL_CHUNK:
                content = {"type": "tool_call", "id": block.get("id"), "name": block.get("name")}
                # Only now are the arguments complete, and can be read.
                try:
                    content["args"] = json.loads(block["args"] or "{}")
                except ValueError as error:
                    content |= {"type": "invalid_tool_call", "args": block["args"]}
                    content["error"] = str(error)
            yield {"event": "content-block-finish", "index": index, "content": content}
        usage = {} if self._usage is None else {"usage": self._usage}
        # As LangGraph's server: among the metadata is the reason of the end.
        metadata = {"metadata": self._metadata} if self._metadata else {}
        yield {"event": "message-finish", **usage, **metadata}
