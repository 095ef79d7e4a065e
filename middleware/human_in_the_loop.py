"""Let people decide about tool calls before they run: approve, edit, reject or respond.

Requests and decisions are plain dicts that can be sent as JSON. An answer is validated against what
was asked before LangGraph stores it, so an invalid one can be given again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import Any, Final, Literal, cast

from langchain_core.messages import ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.runnables.config import ensure_config
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import TypedDict

from agent_factory import AgentMiddleware, AgentState, Flow, Ordering, ToolCallRequest
from agent_factory.review.records import (
    original_of,
    split_decisions,
    was_decided,
    with_distinct_ids,
    with_notice,
    with_review,
    write_notice,
)

from ._shared.interrupts import answer_model, ask
from ._shared.messages import last_turn, unanswered
from ._shared.reviews import (
    DECISIONS,
    Action,
    ActionRequest,
    ApproveDecision,
    Decision,
    DecisionType,
    EditDecision,
    HITLRequest,
    HITLResponse,
    RejectDecision,
    RespondDecision,
    ReviewConfig,
    ToolApprovalRequest,
    answer_schema,
)
from ._shared.validation import check_choice

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


class InterruptOnConfig(TypedDict, total=False):
    """How the calls of one tool are reviewed.

    Attributes:
        allowed_decisions: The decisions that may be made; default: all four.
        description: What the reviewer should know: a string, or a function of the call, the state
            and the runtime. Default: the tool and its arguments.
        args_schema: A JSON schema of the arguments, passed to the reviewer for a form.
        when: Whether a call needs a review, a function of the ToolCallRequest. In batched mode no
            tool is looked up yet: `request.tool` is None. It is called again when a run is
            resumed, so it must depend only on the call and the state.
    """

    allowed_decisions: list[DecisionType]
    description: str | Callable[[ToolCall, AgentState[Any], Any], str]
    args_schema: dict[str, Any]
    when: Callable[[ToolCallRequest], bool]


class HumanInTheLoopMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Interrupt the run when the model calls certain tools, until people have decided.

    It needs a checkpointer. Approved calls run. An edited call runs as edited; the thread then
    holds the edited call, and its result reports the edit to the model. A rejected call gets an
    error as its result, and a call that a reviewer responds to gets their text; neither runs.
    Calls that another middleware has already answered are not asked about.

    An invalid answer (a missing decision, an unknown type, one that is not allowed) raises
    `pydantic.ValidationError`, a ValueError, and the interrupt can be answered again.

    In both modes no call of a reviewed tool runs without a decision: a call that bypasses the
    hook, by a jump to the tools, is asked about separately. A subclass that overrides
    `after_model` decides itself, in batched mode, which calls are reviewed. Put it first among the
    layers around tools: a layer further out, such as a retry, would ask again at each attempt.

    Args:
        interrupt_on: For each tool, True to review its calls with all four decisions allowed,
            False not to review them, or an `InterruptOnConfig`. Other tools are not reviewed.
        description_prefix: First line of the description of a call without a `description`.
        edit_notice: What the model reads with the result of an edited call; None for nothing.
            `{original_name}`, `{original_args}`, `{name}` and `{args}` in it are filled in.
        interrupt_mode: "batched": one interrupt for all calls of a turn, a `HITLRequest`, resumed
            with a `HITLResponse`, before any of them runs. "per_call": an interrupt for each call,
            a `ToolApprovalRequest`, resumed with a `Decision` by interrupt id, in any order, while
            the other calls run; the model's message then keeps the original call.
        name: Distinguishes several instances.

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
    unused: Collection[str] = ()

    def __init__(
        self,
        interrupt_on: Mapping[str, bool | InterruptOnConfig],
        *,
        description_prefix: str = "Tool execution requires approval",
        edit_notice: str | None = DEFAULT_EDIT_NOTICE,
        interrupt_mode: Literal["batched", "per_call"] = "batched",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if not isinstance(interrupt_on, Mapping):
            raise ValueError(
                f"interrupt_on must be a dict with names of tools as keys, got {interrupt_on!r}. "
                "Pass {'send_email': True}."
            )
        if not isinstance(description_prefix, str):
            raise ValueError(f"description_prefix must be a string, got {description_prefix!r}.")
        if edit_notice is not None and not isinstance(edit_notice, str):
            raise ValueError(
                f"edit_notice must be a string or None, got {edit_notice!r}. Pass None to report "
                "no edits to the model."
            )
        check_choice("interrupt_mode", interrupt_mode, ("batched", "per_call"))
        self.interrupt_on = {
            tool: validated_config(tool, config)
            for tool, config in interrupt_on.items()
            if config is not False
        }
        self.expected_tools = tuple(self.interrupt_on)
        self.description_prefix = description_prefix
        self.edit_notice = edit_notice
        self.interrupt_mode = interrupt_mode
        ordering = self.ordering
        if any("edit" in config["allowed_decisions"] for config in self.interrupt_on.values()):
            ordering = replace(ordering, writes=(*ordering.writes, "tool_calls"))
        hooks = {type(self).after_model, type(self).aafter_model}
        base = HumanInTheLoopMiddleware
        self._chooses_calls = hooks != {base.after_model, base.aafter_model}
        if interrupt_mode == "per_call":
            # A limit further in would refuse calls after people have decided about them.
            ordering = replace(ordering, after=(*ordering.after, "ToolCallLimitMiddleware"))
            self.unused = ("after_model",)
        self.ordering = ordering

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """In batched mode: ask about all calls of the turn at once, and apply the decisions."""
        if self.interrupt_mode != "batched":
            return None
        message, tail = last_turn(state["messages"])
        # A hook may have written calls that share an id: each needs its own decision.
        message = message and with_distinct_ids(message)
        runtime = runtime or Runtime()  # a test may call this hook without one
        requests = []
        for call in unanswered(message, tail):
            if call["name"] not in self.interrupt_on:
                continue
            tool_runtime: ToolRuntime[Any, Any] = ToolRuntime(
                state=state,
                context=runtime.context,
                config=ensure_config(),
                stream_writer=runtime.stream_writer,
                tool_call_id=call["id"],
                store=runtime.store,
            )
            # As a tool layer would get it, except that no tool is looked up.
            request = ToolCallRequest(call, tool=None, state=state, runtime=tool_runtime)
            if self._needs_review(request):
                requests.append(request)
        if message is None or not requests:
            return None
        answer = _ask_reviewer(
            HITLRequest(
                action_requests=[self._action_request(request) for request in requests],
                review_configs=[self._review_config(request) for request in requests],
            )
        )
        calls = [request.tool_call for request in requests]
        edits, results = split_decisions(zip(calls, answer["decisions"], strict=True))
        reviewed = [call["id"] for call in calls]
        return {"messages": [with_review(message, self.name, reviewed, edits), *results]}

    async def aafter_model(
        self, state: AgentState[Any], runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Async variant of `after_model`; it interrupts and awaits nothing."""
        return self.after_model(state, runtime)

    def around_tool(self, request: ToolCallRequest) -> Flow[ToolMessage | Command[Any]]:
        """Ask about a call without a decision; report an edit to the model."""
        call, messages = request.tool_call, request.state["messages"]
        original = original_of(call, messages)
        # In per_call mode each decision is made here, so that none can be on record.
        decided = self.interrupt_mode == "batched" and (
            self._chooses_calls or was_decided(call, messages, self.name)
        )
        if not decided and self._needs_review(request):
            decision = _ask_reviewer(
                ToolApprovalRequest(
                    tool_call_id=call["id"],
                    action_request=self._action_request(request),
                    review_config=self._review_config(request),
                )
            )
            edits, results = split_decisions([(call, decision)])
            if results:
                return results[0]
            if edits:
                edit, original = edits[call["id"]], original or call
                tools = {tool.name: tool for tool in request.runtime.tools}
                if request.tool is not None:
                    tools[request.tool.name] = request.tool
                request = replace(request, tool_call=edit, tool=tools.get(edit["name"]))
        result: ToolMessage | Command[Any] = yield request
        if original is not None and self.edit_notice is not None:
            notice = write_notice(self.edit_notice, original, request.tool_call)
            result = with_notice(result, call["id"], notice)
        return result

    def _needs_review(self, request: ToolCallRequest) -> bool:
        config = self.interrupt_on.get(request.tool_call["name"])
        return config is not None and ("when" not in config or bool(config["when"](request)))

    def _action_request(self, request: ToolCallRequest) -> ActionRequest:
        call = request.tool_call
        description = self.interrupt_on[call["name"]].get("description")
        if description is None:
            args = json.dumps(call["args"], default=str, ensure_ascii=False)
            description = f"{self.description_prefix}\n\nTool: {call['name']}\nArgs: {args}"
        elif not isinstance(description, str):
            description = description(call, request.state, request.runtime)
        return ActionRequest(
            name=call["name"],
            args=call["args"],
            description=description,
            tool_call_id=call["id"],
        )

    def _review_config(self, request: ToolCallRequest) -> ReviewConfig:
        name = request.tool_call["name"]
        config = self.interrupt_on[name]
        review = ReviewConfig(action_name=name, allowed_decisions=config["allowed_decisions"])
        if "args_schema" in config:
            review["args_schema"] = config["args_schema"]
        return review


def interrupt(request: HITLRequest | ToolApprovalRequest) -> Any:
    """Interrupt the run with a request, and return the answer. Tests may patch this function."""
    schema, title = answer_schema(request)
    return ask(request, schema, title=title)


def _ask_reviewer(request: HITLRequest | ToolApprovalRequest) -> Any:
    return answer_model(*answer_schema(request)).model_validate(interrupt(request)).root


def validated_config(tool: Any, config: Any) -> InterruptOnConfig:
    """The review configuration of a tool, with its defaults."""
    if not isinstance(tool, str):
        raise ValueError(f"interrupt_on must be a dict with names of tools as keys, got {tool!r}.")
    if config is True:
        config = {}
    if not isinstance(config, Mapping):
        raise ValueError(
            f"interrupt_on[{tool!r}] must be True, False or an InterruptOnConfig, got {config!r}."
        )
    keys = InterruptOnConfig.__annotations__
    if unknown := config.keys() - keys:
        raise ValueError(
            f"interrupt_on[{tool!r}] has unknown keys {', '.join(map(repr, unknown))}. Use "
            f"{', '.join(keys)}."
        )
    for key, value in config.items():
        is_valid, expected = _VALUES[key]
        if not is_valid(value):
            raise ValueError(f"interrupt_on[{tool!r}][{key!r}] must be {expected}, got {value!r}.")
    allowed = list(config.get("allowed_decisions", DECISIONS))
    return cast("InterruptOnConfig", {**config, "allowed_decisions": allowed})


def _is_plain_function(value: Any) -> bool:
    return callable(value) and not iscoroutinefunction(value)


_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "allowed_decisions": (
        lambda value: (
            isinstance(value, list | tuple) and bool(value) and all(v in DECISIONS for v in value)
        ),
        f"a list of some of {', '.join(DECISIONS)}",
    ),
    "description": (
        lambda value: isinstance(value, str) or _is_plain_function(value),
        "a string or a plain function",
    ),
    "args_schema": (lambda value: isinstance(value, Mapping), "a JSON schema, a dict"),
    "when": (_is_plain_function, "a plain function of the ToolCallRequest"),
}
"""For each key of an InterruptOnConfig: whether a value is valid, and what is expected."""
