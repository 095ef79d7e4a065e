"""A graceful end: one more call of the model, without tools, told why it is the last."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from agent_factory import Flow, ModelRequest, ModelResponse

_TOLD = (
    "[No tool can be called any more: {reason}. Answer now with what you have. Say what you found, "
    "and say plainly what is missing or was not done.]"
)


def last_answer(request: ModelRequest[Any], reason: str) -> Flow[ModelResponse[Any]]:
    """Ask for an answer from the work so far; calls the model makes all the same are dropped.

    What the model is told is not written to the thread. A structured answer may still be given.

    Args:
        request: The call as it would have been made.
        reason: Why it ends here, as half a sentence: "3 of 3 searches are used up".
    """
    told = HumanMessage(_TOLD.format(reason=reason))
    response: ModelResponse[Any] = yield request.override(
        messages=[*request.messages, told], tools=[], tool_choice=None
    )
    answered = {getattr(message, "tool_call_id", None) for message in response.result}
    result = [_without_calls(message, answered, reason) for message in response.result]
    return ModelResponse(result, response.structured_response)


def _without_calls(message: BaseMessage, answered: set[Any], reason: str) -> BaseMessage:
    """The message without calls that nothing has answered: those of a structured answer stay."""
    if not isinstance(message, AIMessage):
        return message
    calls = [call for call in message.tool_calls if call["id"] in answered]
    if len(calls) == len(message.tool_calls) and not message.invalid_tool_calls:
        return message
    text = message.text or f"I had to stop here: {reason}."
    return AIMessage(
        text,
        tool_calls=calls,
        id=message.id,
        name=message.name,
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
    )
