"""Check that the results of tool calls have the ids of their calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from langchain_core.messages import ToolCall, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from agent_factory.errors import BadReturn, WrongToolCallId, describe
from agent_factory.state.history import messages_in, new_results

TOOL_HINT = (
    "Return the content alone, or take `tool_call_id: Annotated[str, InjectedToolCallId]` and "
    "write tool_call_id=tool_call_id."
)
LAYER_HINT = "Write tool_call_id=request.tool_call['id']."


def bad_request(name: str, request: object, expected: type[object]) -> BadReturn:
    """Return the error for a value that a layer has passed to its handler as a request."""
    return BadReturn(
        name,
        f"must call its handler with a {expected.__name__}, got {describe(request)}.",
        "Pass the request on, or `request.override(...)`.",
    )


def named_by_tool(request: ToolCallRequest) -> ToolCallRequest:
    """Return a request whose call has the name of the tool that will run.

    A layer may put another tool into a request. Reviews, policies and limits further in, and guards
    of a second decision, read the name of the call.
    """
    tool, call = request.tool, request.tool_call
    if tool is None or tool.name == call["name"]:
        return request
    return request.override(tool_call={**call, "name": tool.name})


def check_results(
    name: str, calls: Sequence[ToolCall], results: object, state: object, hint: str = TOOL_HINT
) -> None:
    """Check that results answer these calls and no others.

    A history in a command, and calls in a command, keep their results. The results are a message,
    a command, an update, or a list of them. `name` is the tool or the layer with the results; empty
    for the tool of the call.

    Raises:
        WrongToolCallId: A message has the id of another call.
    """
    parts = results if isinstance(results, list) else [results]
    if len(parts) == len(calls) > 1 and not any(getattr(part, "graph", None) for part in parts):
        # In the order of the calls. LangGraph's ToolNode puts commands to a parent at the end.
        for call, part in zip(calls, parts, strict=True):
            check_results(name, [call], part, state, hint)
        return
    messages: list[object] = []
    for part in parts:
        update = part.update if isinstance(part, Command) else part
        messages += [part] if isinstance(part, ToolMessage) else messages_in(update)
    # A ToolNode outside of an agent may get a list, or a model, as its state.
    history = state.get("messages") or () if isinstance(state, Mapping) else ()
    ids, result_ids = [call["id"] for call in calls], new_results(messages, history)
    missing = [call for call in calls if call["id"] not in result_ids]
    wrong = [id for id in result_ids if id not in ids]
    # A repeated result may stand in for a missing result.
    if missing and len(calls) > 1:
        wrong += [id for id in result_ids if result_ids.count(id) > 1]
    if wrong:
        call = (missing or calls)[0]
        raise WrongToolCallId(
            name or call["name"],
            f"returned a result with the tool_call_id of another call: expected {call['id']!r}, "
            f"got {wrong[0]!r}. The call may have run.",
            hint,
        )
