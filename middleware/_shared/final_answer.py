"""A graceful end: one more call of the model, without tools, told why it is the last."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from agent_factory import Flow, ModelRequest, ModelResponse

_TOLD = (
    "[No tool can be called any more: {reason}. Answer now with what you have. Say what you found, "
    "and say plainly what is missing or was not done.]"
)

_NO_TOOLS = (
    "Error: there are no tools any more. Give the answer itself, in the form it should have."
)

_MARKED = {"lc_source": "last_answer"}

_ASKS_AGAIN = {"lc_source": "structured_output"}
"""Marks what tells the model to give its structured answer again; the engine then asks again."""

_ABOUT_TOOLS = ("tools", "tool_choice", "parallel_tool_calls")
"""Settings that providers refuse where there are no tools."""


def last_answer(request: ModelRequest[Any], reason: str) -> Flow[ModelResponse[Any]]:
    """Ask for an answer from the work so far; calls the model makes all the same are dropped.

    What the model is told is not written to the thread. A structured answer may still be given,
    and `asks_again` says whether the model has to be asked for it once more.

    Args:
        request: The call as it would have been made.
        reason: Why it ends here, as half a sentence: "3 of 3 searches are used up".
    """
    told = HumanMessage(_TOLD.format(reason=reason), additional_kwargs=_MARKED)
    # A layer further out may have asked for the last answer too: once is enough.
    is_told = any(m.additional_kwargs.get("lc_source") == "last_answer" for m in request.messages)
    response: ModelResponse[Any] = yield request.override(
        messages=request.messages if is_told else [*request.messages, told],
        tools=[],
        tool_choice=None,
        model_settings={
            key: value for key, value in request.model_settings.items() if key not in _ABOUT_TOOLS
        },
    )
    kept = [message for message in response.result if not _refuses(message)]
    answered = {message.tool_call_id for message in kept if isinstance(message, ToolMessage)}
    result = [_without_calls(message, answered, reason) for message in kept]
    dropped = any(after is not before for before, after in zip(kept, result, strict=True))
    if dropped and _lacks_form(request, response):
        result.append(HumanMessage(_NO_TOOLS, additional_kwargs=_ASKS_AGAIN))
    return ModelResponse(result, response.structured_response)


def asks_again(response: ModelResponse[Any]) -> bool:
    """Whether a structured answer could not be used, and the model is told why."""
    return any(map(_explains, response.result))


def _explains(message: BaseMessage) -> bool:
    return message.additional_kwargs.get("lc_source") == _ASKS_AGAIN["lc_source"]


def _refuses(message: BaseMessage) -> bool:
    """Whether it only says that a call of a tool did not run; there was nothing to call."""
    is_error = isinstance(message, ToolMessage) and message.status == "error"
    return is_error and not _explains(message)


def _lacks_form(request: ModelRequest[Any], response: ModelResponse[Any]) -> bool:
    """Whether a structured answer is owed, and the model was not yet told that tools are gone."""
    if request.response_format is None or response.structured_response is not None:
        return False
    told = any(message.text == _NO_TOOLS for message in request.messages)
    return not told and not asks_again(response)


def _without_calls(message: BaseMessage, answered: set[str], reason: str) -> BaseMessage:
    """The message without calls that nothing has answered: those of a structured answer stay."""
    if not isinstance(message, AIMessage):
        return message
    calls = [call for call in message.tool_calls if call["id"] in answered]
    unread = [call for call in message.invalid_tool_calls if call["id"] in answered]
    if len(calls) + len(unread) == len(message.tool_calls) + len(message.invalid_tool_calls):
        return message if message.content or calls or unread else _saying(message, reason)
    return AIMessage(
        _content(message, answered) or ("" if calls or unread else _stopped(reason)),
        tool_calls=calls,
        invalid_tool_calls=unread,
        id=message.id,
        name=message.name,
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
    )


def _saying(message: AIMessage, reason: str) -> AIMessage:
    return message.model_copy(update={"content": _stopped(reason)})


def _stopped(reason: str) -> str:
    return f"I had to stop here: {reason}."


def _content(message: AIMessage, answered: set[str]) -> Any:
    """The words of a message, with those of its blocks that belong to answered calls.

    Other blocks go: providers refuse reasoning that the call it led to does not follow.
    """
    if isinstance(message.content, str):
        return message.content
    kept = [block for block in message.content if _stays(block, answered)]
    return kept if any(map(_has_words, kept)) else []


def _stays(block: Any, answered: set[str]) -> bool:
    if isinstance(block, str) or block.get("type") == "text":
        return True
    return bool({block.get("id"), block.get("call_id")} & answered)


def _has_words(block: Any) -> bool:
    return bool(block if isinstance(block, str) else block.get("text"))
