"""Decisions and replies of the local model as LangChain messages, chunks and values."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass, replace
from typing import Any

from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import UsageMetadata, add_usage
from langchain_core.messages.tool import tool_call, tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from pydantic import BaseModel, TypeAdapter

from agent_factory.local_model.engine import Reply
from agent_factory.local_model.messages import ASKED_FOR
from agent_factory.local_model.prompts import ask_back
from agent_factory.local_model.tool_calling import Call, Question


def decision_message(
    decision: Call | Question, usage: UsageMetadata, about: Mapping[str, Any]
) -> AIMessage:
    """The message that calls a tool, or asks for missing arguments."""
    if isinstance(decision, Call):
        call = tool_call(name=decision.name, args=decision.arguments, id=f"call_{uuid.uuid4().hex}")
        metadata = {**about, "finish_reason": "tool_calls"}
        return AIMessage("", tool_calls=[call], usage_metadata=usage, response_metadata=metadata)
    asked = {
        "tool": decision.function["name"],
        "missing": list(decision.missing),
        "text": decision.text,
    }
    return AIMessage(
        ask_back(decision.function, decision.missing),
        usage_metadata=usage,
        response_metadata={**about, "finish_reason": "stop", ASKED_FOR: asked},
    )


def answer_message(reply: Reply, usage: UsageMetadata, about: Mapping[str, Any]) -> AIMessage:
    """The message of an answer in prose; `usage` counts the tokens of the decision before it."""
    return AIMessage(
        reply.text.strip(),
        usage_metadata=add_usage(usage, reply.usage),
        response_metadata={**about, "finish_reason": reply.finish_reason or "stop"},
    )


def single_chunk(message: AIMessage) -> ChatGenerationChunk:
    """A message as the only chunk of a stream, or the last one."""
    calls = [
        tool_call_chunk(
            name=call["name"],
            args=json.dumps(call["args"], ensure_ascii=False),
            id=call["id"],
            index=at,
        )
        for at, call in enumerate(message.tool_calls)
    ]
    return ChatGenerationChunk(
        message=AIMessageChunk(
            content=message.content,
            tool_call_chunks=calls,
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
            chunk_position="last",
        )
    )


def chunks(
    pieces: Iterator[Reply], usage: UsageMetadata, about: Mapping[str, Any]
) -> Iterator[ChatGenerationChunk]:
    """The chunks of an answer in prose; the last one has usage and metadata and no text."""
    whole = Reply("", None, usage)
    for piece in trimmed(pieces):
        finish_reason = piece.finish_reason or whole.finish_reason
        whole = Reply("", finish_reason, add_usage(whole.usage, piece.usage))
        if piece.text:
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece.text))
    nothing = UsageMetadata(input_tokens=0, output_tokens=0, total_tokens=0)
    yield single_chunk(answer_message(whole, nothing, about))


def trimmed(pieces: Iterator[Reply]) -> Iterator[Reply]:
    """The pieces without leading and trailing space, like an answer that is not streamed."""
    held, started = "", False
    for piece in pieces:
        text = held + piece.text if started else piece.text.lstrip()
        kept = text.rstrip()
        held, started = text[len(kept) :], started or bool(kept)
        yield replace(piece, text=kept)


class Parser:
    """Parses an answer in JSON to a value of a schema."""

    def __init__(self, schema: Any) -> None:
        typed = isinstance(schema, type) and (issubclass(schema, BaseModel) or is_dataclass(schema))
        self._adapter: TypeAdapter[Any] = TypeAdapter(schema if typed else dict[str, Any])

    def __call__(self, message: AIMessage) -> Any:
        try:
            return self._adapter.validate_json(message.text)
        except ValueError as error:
            raise OutputParserException(
                f"The local model's answer does not fit the schema: {error}",
                llm_output=message.text,
            ) from error

    def with_raw(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """The message with its value, or with the error."""
        try:
            return {**answer, "parsed": self(answer["raw"]), "parsing_error": None}
        except OutputParserException as error:
            return {**answer, "parsed": None, "parsing_error": error}
