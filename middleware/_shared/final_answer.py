"""One more call of the model, which may call no tool, for an answer from the work so far."""

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
from agent_factory.structured_output.strategies import (
    EXPLANATION,
    EXPLANATION_KWARGS,
    ToolStrategy,
    strategy_for,
)

from .messages import with_remark
from .models import no_call_choice

NO_ANSWER = "lc_no_answer"
"""Key in the metadata of a text that stands for an empty last answer: a guard may ask again."""

_ENDING = "Say what you found, and say plainly what is missing or was not done.]"
_INSTRUCTION = (
    "[No tool can be called any more: {reason}. Answer now with what you have. " + _ENDING
)

_NO_TOOLS = (
    "Error: tools are no longer available. Give the answer itself, in the form it should have."
)

_STOP_TEXT = "I had to stop here: {reason}."

_TOOL_SETTINGS = ("tools", "tool_choice", "parallel_tool_calls")
"""Model settings that providers reject in a request without tools."""


def request_final_answer(request: ModelRequest[Any], reason: str) -> Flow[ModelResponse]:
    """Ask the model to answer without calls; tool calls in the answer are dropped.

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
    """The request for an answer without calls.

    The tools stay where the provider takes "none" as the choice of a tool: so the beginning of the
    request stays as it was, which caches and signed thoughts need. A call may be the answer itself.
    """
    messages = request.messages
    # Not written to the thread. A layer further out may have added the instruction already.
    if not any(message.text.endswith(_ENDING) for message in messages):
        messages = with_remark(messages, _INSTRUCTION.format(reason=reason), "final_answer")
    strategy = strategy_for(request.response_format, request.model, with_tools=bool(request.tools))
    choice = no_call_choice(request.model)
    if not request.tools or isinstance(strategy, ToolStrategy):
        choice = None
    # langchain-anthropic writes the last setting into the choice, where the API refuses it.
    dropped = _TOOL_SETTINGS if choice is None else _TOOL_SETTINGS[1:]
    settings = {key: v for key, v in request.model_settings.items() if key not in dropped}
    return request.override(
        messages=messages,
        tools=[] if choice is None else request.tools,
        tool_choice=choice,
        model_settings=settings,
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
        # the call that follows it, and OpenAI the id of a text without its reasoning.
        blocks: list[Any] = []
        for block in content:
            if isinstance(block, str) and blocks and blocks[-1].keys() == {"type", "text"}:
                blocks[-1] = {"type": "text", "text": blocks[-1]["text"] + block}
            else:
                blocks.append({"type": "text", "text": block} if isinstance(block, str) else block)
        content = [
            {key: v for key, v in block.items() if key != "id"} if block.get("text") else block
            for block in blocks
            if {block.get("id"), block.get("call_id")} & answered_ids
            or (block.get("type") == "text" and block["text"])
        ]
    # Not a copy: `additional_kwargs` repeats the calls in the provider's form.
    return AIMessage(
        content or ("" if has_calls else fallback),
        tool_calls=calls,
        invalid_tool_calls=invalid,
        id=message.id,
        name=message.name,
        usage_metadata=message.usage_metadata,
        # OpenAI would look for the result of the call in a response that the next request names.
        response_metadata={k: v for k, v in message.response_metadata.items() if k != "id"},
    )
