"""Tool calls and their results in a history, content blocks, and names of tools."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.messages.tool import ToolCall
from langchain_core.tools import BaseTool
from langgraph.types import Command

from agent_factory import ModelRequest
from agent_factory.review.records import caller_of as caller_of
from agent_factory.review.records import last_turn as last_turn
from agent_factory.review.records import messages_in, repair, unanswered_calls

CALL_BLOCKS = frozenset(
    {"tool_call", "tool_call_chunk", "invalid_tool_call"}  # LangChain's types
    | {"tool_use", "function_call", "input_json_delta"}  # types of providers
)
"""Types of content blocks that repeat the tool calls of a message."""

INPUT_KEYS = frozenset({"args", "arguments", "input", "partial_json"})
"""Keys of a call, in any form, that hold its arguments."""

_CLEARED_BY = "context_editing"

REMARKS = "remarks"
"""Key in the response metadata of a result: the remarks of middleware at the end, in order."""

MessageT = TypeVar("MessageT", bound=BaseMessage)


Call = ToolCall | InvalidToolCall


def calls_of_results(messages: Sequence[AnyMessage]) -> dict[int, tuple[int, Call]]:
    """For the index of each result: the index of the message with the call, and the call."""
    # Ids may recur in a thread: the nearest call before the result counts.
    calls: dict[str | None, tuple[int, Call]] = {}
    results: dict[int, tuple[int, Call]] = {}
    for index, message in enumerate(messages):
        if isinstance(message, AIMessage):
            all_calls: list[Call] = [*message.tool_calls, *message.invalid_tool_calls]
            calls.update((call["id"], (index, call)) for call in all_calls)
        elif isinstance(message, ToolMessage) and message.tool_call_id in calls:
            results[index] = calls[message.tool_call_id]
    return results


def mark_in(message: BaseMessage, key: str) -> dict[str, Any] | None:
    """The mark of a middleware in the metadata of a message; None for anything else."""
    mark = message.response_metadata.get(key)  # a caller may have written the mark
    return mark if isinstance(mark, dict) else None


def is_cleared(message: ToolMessage) -> bool:
    """Return True if the result was cleared before."""
    return bool((mark_in(message, _CLEARED_BY) or {}).get("cleared"))


def without_result(message: ToolMessage, placeholder: str) -> ToolMessage:
    """The result with a placeholder as content; everything else stays, the artifact too."""
    metadata = {**message.response_metadata, _CLEARED_BY: {"cleared": True}}
    return message.model_copy(update={"content": placeholder, "response_metadata": metadata})


def without_calls(message: AIMessage, text: str) -> AIMessage:
    """The message with a text as content and without calls, wherever the message repeats them."""
    # OpenAI's integration repeats the calls in `additional_kwargs`.
    call_keys = ("tool_calls", "function_call")
    kwargs = {k: v for k, v in message.additional_kwargs.items() if k not in call_keys}
    calls: dict[str, object] = {"tool_calls": [], "invalid_tool_calls": []}
    return message.model_copy(update={**calls, "content": text, "additional_kwargs": kwargs})


def without_inputs(message: AIMessage, ids: Collection[str | None]) -> AIMessage:
    """The message with empty arguments for some calls, wherever the message repeats them."""

    def emptied(block: Any) -> Any:
        """A call in a provider's form, without the input."""
        if not isinstance(block, dict) or (block.get("call_id") or block.get("id")) not in ids:
            return block
        block = _without_input(block)
        if isinstance(block.get("function"), dict):
            block["function"] = _without_input(block["function"])
        return block

    calls = [{**call, "args": {}} if call["id"] in ids else call for call in message.tool_calls]
    content = message.content
    if isinstance(content, list):
        content = [emptied(block) for block in content]
    raw = message.additional_kwargs
    # OpenAI's integration keeps the calls here as the provider has sent them.
    if isinstance(raw.get("tool_calls"), list):
        raw = {**raw, "tool_calls": [emptied(call) for call in raw["tool_calls"]]}
    update = {"tool_calls": calls, "content": content, "additional_kwargs": raw}
    return message.model_copy(update=update)


def _without_input(call: dict[str, object]) -> dict[str, object]:
    # Arguments come as a dict, or as JSON.
    keys = INPUT_KEYS & call.keys()
    return {**call, **{key: "{}" if isinstance(call[key], str) else {} for key in keys}}


def tool_names(
    tools: Iterable[str | BaseTool] | None, argument: str = "tools"
) -> frozenset[str] | None:
    """The names of tools from an `argument` of the user; None stands for all tools."""
    if tools is None:
        return None
    # All three can be iterated, and none of them is a list of tools.
    if isinstance(tools, str | BaseTool | dict) or not isinstance(tools, Iterable):
        raise TypeError(f"{argument} must be a list, got {tools!r}: write {argument}=['search'].")
    names: set[str] = set()
    for tool in tools:
        name: object = tool.name if isinstance(tool, BaseTool) else tool
        if not isinstance(name, str) or not name:
            raise TypeError(
                f"{argument} must hold names of tools, or BaseTool instances, got {tool!r}. A "
                "function becomes a tool with the function's name: write "
                f"{argument}=['search'] for `def search(...)`."
            )
        names.add(name)
    if not names:
        raise ValueError(
            f"{argument} is empty, so no call would be covered. Leave it out for all tools."
        )
    return frozenset(names)


def error_result(call: Call, content: str | list[Any], **more: Any) -> ToolMessage:
    """The result of a failed or skipped call, for the model to read."""
    return ToolMessage(content, tool_call_id=call["id"], name=call["name"], status="error", **more)


def with_remark(messages: Sequence[AnyMessage], remark: str, source: str) -> list[AnyMessage]:
    """The messages with a remark to the model at the end; `source` marks an added message.

    The remark is part of a last result: some providers reject a message of the user
    after a result, and models then tend to answer instead of going on.
    """
    last = messages[-1] if messages else None
    if not isinstance(last, ToolMessage):
        return [*messages, HumanMessage(remark, additional_kwargs={"lc_source": source})]
    return [*messages[:-1], with_text(last, remark)]


def with_kept_remark(
    request: ModelRequest[Any], remark: str, source: str, marks: Mapping[str, object]
) -> tuple[ModelRequest[Any], dict[str, object]]:
    """The request with a remark, as `with_remark`, and the update that keeps it in the thread.

    The next requests then begin with this request, as the provider's cache and signed thoughts
    need. Only a remark on a result of the thread stays, with these `marks` in the metadata.
    """
    messages = with_remark(request.messages, remark, source)
    result = (request.state.get("messages") or messages)[-1]
    if type(result) is not ToolMessage or (messages[-1].id or "") != result.id:
        return request.override(messages=messages), {}
    # Of the thread's message: a layer further out may have changed the request's.
    remarks = [*result.response_metadata.get(REMARKS, ()), remark]
    metadata = {**result.response_metadata, **marks, REMARKS: remarks}
    kept = with_text(result, remark).model_copy(update={"response_metadata": metadata})
    if request.messages[-1] is result:
        messages[-1] = kept
    return request.override(messages=messages), {"messages": [kept]}


def with_text(message: MessageT, text: str) -> MessageT:
    """A copy of a message with a text at its end."""
    old = message.content
    content: object = f"{old}\n\n{text}" if old else text
    if isinstance(old, list):
        content = [*old, {"type": "text", "text": text}]
    return message.model_copy(update={"content": content})


def last_user_message(messages: Sequence[AnyMessage]) -> int | None:
    """The index of the last message of the user; None without one."""
    # Middleware that writes as the user, a summary for instance, marks the messages.
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if type(message) in (AIMessage, ToolMessage):  # a run adds only these
            continue
        if isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs:
            return index
    return None


def unanswered(message: AIMessage | None, tail: Sequence[AnyMessage]) -> list[ToolCall]:
    """The calls of a message without a result in `tail`."""
    answered = {m.tool_call_id for m in tail if isinstance(m, ToolMessage)}
    return [call for call in (message.tool_calls if message else ()) if call["id"] not in answered]


def follows_up(state: Mapping[str, Any]) -> bool:
    """Return True if a run begins with results of background calls, and with no other message.

    Such a run goes on with the counts of the run of these calls.
    """
    _, tail = last_turn(state["messages"])
    sources = {m.additional_kwargs.get("lc_source") for m in tail if not isinstance(m, ToolMessage)}
    return sources == {"background"}


def messages_of(result: object) -> list[Any]:
    """The messages in the result of a tool layer: a message, a Command, or a list of these."""
    messages: list[Any] = []
    for part in result if isinstance(result, list) else [result]:
        messages += messages_in(part.update) if isinstance(part, Command) else [part]
    try:
        return convert_to_messages(messages)
    except (KeyError, NotImplementedError, TypeError, ValueError):
        return []  # not messages: the run itself says so


def ends_run(state: Mapping[str, Any]) -> bool:
    """Return True if the run ends after the last answer of the model."""
    message, tail = last_turn(state["messages"])
    if message is None or unanswered(message, tail):
        return False
    if message.tool_calls:
        return state.get("structured_response") is not None
    # A message after an answer without calls asks the model again, as after an invalid answer.
    return not message.invalid_tool_calls and not tail


def answers_to_open_calls(messages: Sequence[AnyMessage]) -> list[Any]:
    """Return the update that answers the open calls of the last turn, as the run ends.

    Providers refuse a history in which a call has no result right behind. A new message may
    stand there, in a fork.
    """
    repaired = repair(messages) if unanswered_calls(*last_turn(messages)) else None
    return repaired.update if repaired else []
