"""One more call of the model, without tools, for an answer from the work so far."""

from __future__ import annotations

from functools import partial
from operator import is_not
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)

from agent_factory import Flow, ModelRequest, ModelResponse, NextChunk, stream_through
from agent_factory.structured_output.strategies import EXPLANATION, EXPLANATION_KWARGS

NO_ANSWER = "lc_no_answer"
"""Key in the metadata of a text that stands for an empty last answer: a guard may ask again."""

_INSTRUCTION = (
    "[No tool can be called any more: {reason}. Answer now with what you have. Say what you found, "
    "and say plainly what is missing or was not done.]"
)

_NO_TOOLS = (
    "Error: tools are no longer available. Give the answer itself, in the form it should have."
)

_STOP_TEXT = "I had to stop here: {reason}."

_TOOL_SETTINGS = ("tools", "tool_choice", "parallel_tool_calls")
"""Model settings that providers reject in a request without tools."""


def request_final_answer(request: ModelRequest[Any], reason: str) -> Flow[ModelResponse]:
    """Ask the model to answer without tools; tool calls in the answer are dropped.

    A structured answer may still be given; `asks_for_retry` tells whether the model must be asked
    once more. The reason is half a sentence: "3 of 3 searches are used up".
    """
    last_request = final_request(request, reason)
    if request.response_format is None:  # otherwise, a call may be the answer
        flow = partial(_with_text, reason)
        last_request = last_request.wrapped(partial(stream_through, flow=flow))
    response: ModelResponse = yield last_request
    return final_response(request, response, reason)


def final_request(request: ModelRequest[Any], reason: str) -> ModelRequest[Any]:
    """The request for an answer without tools."""
    messages = request.messages
    # Not written to the thread. A layer further out may have added the message already.
    if not any(m.additional_kwargs.get("lc_source") == "final_answer" for m in messages):
        text, kwargs = _INSTRUCTION.format(reason=reason), {"lc_source": "final_answer"}
        messages = [*messages, HumanMessage(text, additional_kwargs=kwargs)]
    settings = request.model_settings
    return request.override(
        messages=messages,
        tools=[],
        tool_choice=None,
        model_settings={key: settings[key] for key in settings if key not in _TOOL_SETTINGS},
    )


def _with_text(reason: str) -> Flow[None]:
    """Let an answer pass, and the reason after an answer without a text."""
    text, last, fallback = "", None, _STOP_TEXT.format(reason=reason)
    while (chunk := (yield NextChunk())) is not None:
        text, last = text + chunk.text, chunk
        if not (text or isinstance(chunk, AIMessageChunk)):  # the whole answer
            metadata = {**chunk.response_metadata, NO_ANSWER: True}
            chunk = chunk.model_copy(update={"content": fallback, "response_metadata": metadata})
        yield chunk
    if not text and isinstance(last, AIMessageChunk):
        yield AIMessageChunk(
            content=fallback, id=last.id, chunk_position="last", response_metadata={NO_ANSWER: True}
        )


def final_response(
    request: ModelRequest[Any], response: ModelResponse, reason: str
) -> ModelResponse:
    """The response to a `final_request`, without tool calls; the reason replaces an empty text."""
    # An error result only reports a skipped tool call; the call is dropped as well.
    messages: list[Any] = [
        message
        for message in response.result
        if not isinstance(message, ToolMessage)
        or message.status != "error"
        or _is_about_structured_output(message)
    ]
    answered_ids = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    result = [_without_open_calls(message, answered_ids, reason) for message in messages]
    has_lost_calls = any(map(is_not, messages, result))
    owes_structured = request.response_format is not None and response.structured_response is None
    was_told = any(message.text == _NO_TOOLS for message in request.messages)
    if has_lost_calls and owes_structured and not was_told and not asks_for_retry(response):
        # After a message with this mark, the agent calls the model again.
        result.append(HumanMessage(_NO_TOOLS, additional_kwargs=EXPLANATION_KWARGS))
    return ModelResponse(result, response.structured_response)


def final_message(reason: str, *, source: str = "") -> AIMessage:
    """The message at the end of a run, without another call of the model; `source` marks it."""
    kwargs = {"lc_source": source} if source else {}
    return AIMessage(_STOP_TEXT.format(reason=reason), additional_kwargs=kwargs)


def used_up(
    what: str, thread_count: int, run_count: int, thread_limit: int | None, run_limit: int | None
) -> str:
    """The reached limits, as half a sentence; empty without any."""
    scopes = (("thread", thread_count, thread_limit), ("run", run_count, run_limit))
    return " and ".join(
        f"{count} of {limit} {what} are used up in this {scope}"
        for scope, count, limit in scopes
        if limit is not None and count >= limit
    )


def asks_for_retry(response: ModelResponse) -> bool:
    """Return True if a structured answer was invalid, so that the model will be called again."""
    return any(map(_is_about_structured_output, response.result))


def _is_about_structured_output(message: BaseMessage) -> bool:
    return message.additional_kwargs.get("lc_source") == EXPLANATION


def _without_open_calls(message: BaseMessage, answered_ids: set[str], reason: str) -> BaseMessage:
    """The message without unanswered calls; answered calls belong to a structured answer."""
    if not isinstance(message, AIMessage):
        return message
    calls = [call for call in message.tool_calls if call["id"] in answered_ids]
    invalid = [call for call in message.invalid_tool_calls if call["id"] in answered_ids]
    has_calls = bool(calls or invalid)
    fallback = _STOP_TEXT.format(reason=reason)
    if len(calls) + len(invalid) == len(message.tool_calls) + len(message.invalid_tool_calls):
        if message.content or has_calls:
            return message
        return message.model_copy(update={"content": fallback})
    content: Any = message.content
    if not isinstance(content, str):
        # Only text and the blocks of answered calls stay: providers reject reasoning without
        # the call that follows it.
        content = [
            block
            for block in content
            if isinstance(block, str)
            or block.get("type") == "text"
            or {block.get("id"), block.get("call_id")} & answered_ids
        ]
        if not any(block if isinstance(block, str) else block.get("text") for block in content):
            content = []
    # Not a copy: `additional_kwargs` repeats the calls in the provider's form.
    return AIMessage(
        content or ("" if has_calls else fallback),
        tool_calls=calls,
        invalid_tool_calls=invalid,
        id=message.id,
        name=message.name,
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
    )
