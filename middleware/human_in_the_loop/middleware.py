"""People decide about tool calls before they run: approve, edit, reject, or answer themselves."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.runnables.config import ensure_config
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from langgraph.types import Command

from agent_factory import AgentMiddleware, AgentState, Ordering, ToolCallRequest
from agent_factory.middleware._shared.messages import last_turn, unanswered
from agent_factory.middleware.human_in_the_loop.requests import (
    Action,
    ActionRequest,
    ApproveDecision,
    Decision,
    DecisionType,
    EditDecision,
    HITLRequest,
    HITLResponse,
    InterruptOnConfig,
    RejectDecision,
    RespondDecision,
    ReviewConfig,
    ToolApprovalRequest,
    ask_about_all,
    ask_about_one,
    checked,
)
from agent_factory.review.records import (
    original_of,
    was_decided,
    with_notice,
    with_review,
    write_notice,
)

__all__ = [
    "DEFAULT_EDIT_NOTICE",
    "Action",
    "ActionRequest",
    "ApproveDecision",
    "Decision",
    "DecisionType",
    "EditDecision",
    "HITLRequest",
    "HITLResponse",
    "HumanInTheLoopMiddleware",
    "InterruptOnConfig",
    "RejectDecision",
    "RespondDecision",
    "ReviewConfig",
    "ToolApprovalRequest",
]

DEFAULT_EDIT_NOTICE: Final = (
    "[A reviewer changed this call before it ran. You asked for {original_name} with "
    "{original_args}; {name} ran with {args} instead, and this is its result. Go on from what "
    "really ran, and do not repeat the original call.]"
)

REJECTED = (
    "A reviewer rejected this call of {name}, so it did not run. Do not make it again unless the "
    "user asks for it; find another way, or ask what they want instead."
)


class HumanInTheLoopMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Interrupts the run when the model wants to call certain tools, until people have decided.

    Needs a checkpointer. Approved calls run. An edited call runs as edited; the thread then holds
    what ran, and the model is told in the result. A rejected call is answered with an error, and
    a call that a reviewer responds to with their text as the result of the tool; neither runs.
    Calls that another middleware has already answered are not asked about.

    An answer that does not fit (a decision too few, an unknown type, one that is not allowed) is
    refused with `pydantic.ValidationError`, a ValueError, and the thread can still be answered.

    In either mode no call of a reviewed tool runs undecided: one that comes past the hook, by a
    jump to the tools, is asked about on its own. Put it first among the layers around tools: a
    layer further out, such as a retry, would ask anew at each attempt.

    Args:
        interrupt_on: For each tool: True reviews its calls with all four decisions allowed, False
            does not review them, an `InterruptOnConfig` says more. Other tools are not reviewed.
        description_prefix: First line of the description of a call that has none of its own.
        edit_notice: What the model is told with the result of an edited call.
            `{original_name}`, `{original_args}`, `{name}` and `{args}` in it are filled in.
        interrupt_mode: "batched": one interrupt for all calls of a turn, a `HITLRequest`, resumed
            with a `HITLResponse`, before any of them runs. "per_call": an interrupt for each, a
            `ToolApprovalRequest`, resumed with a `Decision` by interrupt id, in any order, while
            the other calls run; the model's message then keeps the call as the model made it.
        name: Tells several instances apart.

    Raises:
        ValueError: A configuration that cannot work; the message names the tool and the key.

    >>> middleware = HumanInTheLoopMiddleware(
    ...     {"send_email": {"allowed_decisions": ["approve", "reject"]}, "search": False}
    ... )
    >>> sorted(middleware.interrupt_on)
    ['send_email']
    """

    ordering = Ordering(before=("ToolRetryMiddleware",), reads=("tool_calls",))
    needs_checkpointer = True

    def __init__(
        self,
        interrupt_on: Mapping[str, bool | InterruptOnConfig],
        *,
        description_prefix: str = "Tool execution requires approval",
        edit_notice: str = DEFAULT_EDIT_NOTICE,
        interrupt_mode: Literal["batched", "per_call"] = "batched",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if not isinstance(interrupt_on, Mapping):
            raise ValueError(
                f"interrupt_on must be a dict of tool names, such as {{'send_email': True}}; got "
                f"{interrupt_on!r}."
            )
        if not isinstance(description_prefix, str) or not isinstance(edit_notice, str):
            raise ValueError("description_prefix and edit_notice must be strings.")
        if interrupt_mode not in ("batched", "per_call"):
            raise ValueError(
                f"interrupt_mode must be 'batched' or 'per_call', not {interrupt_mode!r}."
            )
        self.interrupt_on = {
            tool: checked(tool, config)
            for tool, config in interrupt_on.items()
            if config is not False
        }
        self.expected_tools = tuple(self.interrupt_on)
        self.description_prefix = description_prefix
        self.edit_notice = edit_notice
        self.interrupt_mode = interrupt_mode

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """In batched mode: asks about all calls of the turn at once, and carries out the answer."""
        if self.interrupt_mode != "batched":
            return None
        message, tail = last_turn(state["messages"])
        if message is None or not any(c["name"] in self.interrupt_on for c in message.tool_calls):
            return None
        waiting = [call for call in unanswered(message, tail) if call["name"] in self.interrupt_on]
        requests = [_as_request(call, state, runtime) for call in waiting]
        requests = [request for request in requests if self._is_reviewed(request)]
        if not requests:
            return None
        decisions = ask_about_all(
            HITLRequest(
                action_requests=[self._action_request(r) for r in requests],
                review_configs=[self._review_config(r) for r in requests],
            )
        )
        calls = [request.tool_call for request in requests]
        return {"messages": list(_carried_out(message, self.name, calls, decisions))}

    async def aafter_model(
        self, state: AgentState[Any], runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """As `after_model`; it pauses the run and does not wait."""
        return self.after_model(state, runtime)

    def around_tool(
        self, request: ToolCallRequest
    ) -> Generator[Any, Any, ToolMessage | Command[Any]]:
        """Asks about a call that nobody has decided about; tells the model what an edit changed."""
        call, messages = request.tool_call, request.state["messages"]
        original = original_of(call, messages)
        known = call["name"] in self.interrupt_on
        if known and not was_decided(call, messages, self.name) and self._is_reviewed(request):
            decision = self._ask_about(request)
            if answer := _answer(call, decision):
                return answer
            if edit := _edit(call, decision):
                original = original or call
                request = _redirected(request, edit)
        result: ToolMessage | Command[Any] = yield request
        if original is None:
            return result
        notice = write_notice(self.edit_notice, original, request.tool_call)
        told: ToolMessage | Command[Any] = with_notice(result, request.tool_call["id"], notice)
        return told

    def _ask_about(self, request: ToolCallRequest) -> Decision:
        return ask_about_one(
            ToolApprovalRequest(
                tool_call_id=request.tool_call["id"],
                action_request=self._action_request(request),
                review_config=self._review_config(request),
            )
        )

    def _is_reviewed(self, request: ToolCallRequest) -> bool:
        config = self.interrupt_on.get(request.tool_call["name"])
        if config is None:
            return False
        return bool(config["when"](request)) if "when" in config else True

    def _action_request(self, request: ToolCallRequest) -> ActionRequest:
        call = request.tool_call
        return ActionRequest(
            name=call["name"], args=call["args"], description=self._description(request)
        )

    def _description(self, request: ToolCallRequest) -> str:
        call = request.tool_call
        description = self.interrupt_on[call["name"]].get("description")
        if description is None:
            args = json.dumps(call["args"], default=str, ensure_ascii=False)
            return f"{self.description_prefix}\n\nTool: {call['name']}\nArgs: {args}"
        if isinstance(description, str):
            return description
        return description(call, request.state, request.runtime)

    def _review_config(self, request: ToolCallRequest) -> ReviewConfig:
        name = request.tool_call["name"]
        config = self.interrupt_on[name]
        review = ReviewConfig(action_name=name, allowed_decisions=config["allowed_decisions"])
        if "args_schema" in config:
            review["args_schema"] = config["args_schema"]
        return review


def _as_request(call: ToolCall, state: AgentState[Any], runtime: Runtime[Any]) -> ToolCallRequest:
    """A call as a tool layer would see it, before any tool is looked up."""
    tool_runtime: ToolRuntime[Any, Any] = ToolRuntime(
        state=state,
        context=runtime.context,
        config=ensure_config(),
        stream_writer=runtime.stream_writer,
        tool_call_id=call["id"],
        store=runtime.store,
    )
    return ToolCallRequest(tool_call=call, tool=None, state=state, runtime=tool_runtime)


def _carried_out(
    message: AIMessage, reviewer: str, calls: Sequence[ToolCall], decisions: Sequence[Decision]
) -> Iterator[AnyMessage]:
    """What the decisions write to the thread: a note of them, edits, and results."""
    decided = list(zip(calls, decisions, strict=True))
    edits = {call["id"]: edit for call, d in decided if (edit := _edit(call, d))}
    yield with_review(message, reviewer, [call["id"] for call in calls], edits)
    yield from (answer for call, d in decided if (answer := _answer(call, d)))


def _answer(call: ToolCall, decision: Decision) -> ToolMessage | None:
    """The result of a call that does not run; None for one that does."""
    if decision["type"] == "reject":
        text = decision.get("message") or REJECTED.format(name=call["name"])
        return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")
    if decision["type"] == "respond":
        return ToolMessage(decision["message"], tool_call_id=call["id"], name=call["name"])
    return None


def _edit(call: ToolCall, decision: Decision) -> ToolCall | None:
    """The call that replaces another; None where nothing was changed."""
    if decision["type"] != "edit":
        return None
    action = decision["edited_action"]
    if (action["name"], action["args"]) == (call["name"], call["args"]):
        return None
    return ToolCall(type="tool_call", name=action["name"], args=action["args"], id=call["id"])


def _redirected(request: ToolCallRequest, edit: ToolCall) -> ToolCallRequest:
    tools = {tool.name: tool for tool in request.runtime.tools}
    if request.tool is not None:
        tools[request.tool.name] = request.tool
    return replace(request, tool_call=edit, tool=tools.get(edit["name"]))
