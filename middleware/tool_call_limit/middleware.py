"""The middleware: refuses calls over the limit, and ends the run."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Annotated, Any, NotRequired, cast, get_args

from langgraph.channels import BinaryOperatorAggregate, UntrackedValue
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import TypedDict

from agent_factory import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    Ordering,
    PrivateStateAttr,
    ToolCallRecorder,
    ToolCallRequest,
    TurnError,
    hook_config,
)
from agent_factory.middleware._shared.final_answer import (
    asks_for_retry,
    final_message,
    request_final_answer,
)
from agent_factory.middleware._shared.messages import given_up, last_turn, unanswered
from agent_factory.middleware._shared.validation import check_choice, check_count
from agent_factory.middleware.tool_call_limit.limits import (
    REFUSED_BY,
    CallCounts,
    ExitBehavior,
    Limit,
    Refusal,
    RunCounts,
    add_counts,
    calls_in_order,
    counts_of,
    is_counted,
    limits_on,
    refusals,
    with_limit,
    with_update,
)

_STOP = "tool_call_limit_stop"


class _Stop(TypedDict):
    """A limit that was exceeded and ends the run.

    Attributes:
        by: The name of the middleware.
        thread_count: The calls in the thread that it counts.
        run_count: The calls in the run that it counts.
        done: Whether the run has its last message.
    """

    by: str
    thread_count: int
    run_count: int
    done: bool


class ToolCallLimitState(AgentState[Any]):
    """State of an agent with counted tool calls.

    Attributes:
        thread_tool_call_count: Calls in this thread by the name of the tool.
        run_tool_call_count: Calls in this run by the name of the tool. Every `invoke` starts at 0,
            also one that resumes a run.
        tool_call_limit_stop: The limit that ends this run, if there is one.
    """

    thread_tool_call_count: NotRequired[
        Annotated[dict[str, int], BinaryOperatorAggregate(dict, add_counts), PrivateStateAttr]
    ]
    run_tool_call_count: NotRequired[
        Annotated[dict[str, int], RunCounts(dict, guard=False), PrivateStateAttr]
    ]
    tool_call_limit_stop: NotRequired[
        Annotated[_Stop, UntrackedValue(dict, guard=False), PrivateStateAttr]
    ]


class ToolCallLimitExceededError(TurnError):
    """A tool call exceeded a limit with `exit_behavior="error"`. The work so far is kept.

    Attributes:
        thread_count: Calls in this thread that the limit counts.
        run_count: Calls in this run that the limit counts.
        thread_limit: The limit of the thread, or None.
        run_limit: The limit of the run, or None.
        tool_name: The tool it applies to; None for all tools together.
    """

    code = "AF341"

    def __init__(
        self,
        thread_count: int,
        run_count: int,
        thread_limit: int | None,
        run_limit: int | None,
        tool_name: str | None = None,
    ) -> None:
        self.thread_count = thread_count
        self.run_count = run_count
        self.thread_limit = thread_limit
        self.run_limit = run_limit
        self.tool_name = tool_name
        limit = Limit("", tool_name, thread_limit, run_limit, "error")
        super().__init__(
            tool_name or "the tools",
            f"may not be called again: {limit.reason(thread_count, run_count)}.",
            "Raise the limit, or choose exit_behavior='continue', 'answer' or 'end'.",
        )


class ToolCallLimitMiddleware(AgentMiddleware[ToolCallLimitState, Any]):
    """Refuse tool calls over a limit with an error result, and optionally end the run.

    A call counts when a tool has run for it, also if the tool failed. These do not count:
    structured answers, calls that a reviewer, a guard or another limit refused, and calls that the
    provider ran. What other layers do within one call, such as retries, counts as that one call.
    Of parallel calls the first ones run, in the order the model made them.

    Args:
        tool_name: The tool it applies to; None for all tools together.
        thread_limit: The most calls in a thread, over all its runs; needs a checkpointer.
        run_limit: The most calls in a run.
        exit_behavior: What happens after a call over the limit. The call never runs, and the model
            reads an error as its result. After the other calls of its turn have run, "continue"
            continues the run; "answer" calls the model once more, without tools, for an answer
            from the work so far; "end" ends the run with a message that gives the numbers; "error"
            raises ToolCallLimitExceededError.
        name: Distinguishes several instances; default: the class, with the tool if there is one.
            Instances share their counts, and count each call once.

    Raises:
        ValueError: No limit is given, or one is not a whole number of at least 0; `run_limit` is
            above `thread_limit`, so that it could never be reached; `exit_behavior` is unknown;
            `tool_name` is empty.
        TypeError: `tool_name` is not a string.

    >>> searches = ToolCallLimitMiddleware(tool_name="search", run_limit=3)
    >>> searches.name, searches.run_limit
    ('ToolCallLimitMiddleware[search]', 3)
    """

    state_schema = ToolCallLimitState

    ordering = Ordering(before=("ToolErrorMiddleware", "ToolRetryMiddleware"))

    def __init__(
        self,
        *,
        tool_name: str | None = None,
        thread_limit: int | None = None,
        run_limit: int | None = None,
        exit_behavior: ExitBehavior = "continue",
        name: str | None = None,
    ) -> None:
        if tool_name is not None and not isinstance(tool_name, str):
            raise TypeError(
                f"tool_name must be a string or None, got {tool_name!r}. Pass tool_name='search', "
                "or leave it out for all tools."
            )
        if tool_name == "":
            raise ValueError("tool_name must not be empty. Leave it out for all tools.")
        if not name and tool_name is not None:
            # LangGraph reserves "|" and ":" in node names, and names of remote tools contain them.
            name = f"ToolCallLimitMiddleware[{tool_name.replace('|', '_').replace(':', '_')}]"
        super().__init__(name=name)
        if thread_limit is None and run_limit is None:
            raise ValueError(
                "A limit is needed. Pass thread_limit, run_limit or both, such as run_limit=10."
            )
        check_count("thread_limit", thread_limit)
        check_count("run_limit", run_limit)
        if thread_limit is not None and run_limit is not None and run_limit > thread_limit:
            raise ValueError(
                f"run_limit ({run_limit}) must not be above thread_limit ({thread_limit}), because "
                "a run is part of its thread. Lower run_limit, leave it out, or raise thread_limit."
            )
        check_choice("exit_behavior", exit_behavior, get_args(ExitBehavior))
        self.tool_name = tool_name
        self.expected_tools = () if tool_name is None else (tool_name,)
        self.thread_limit = thread_limit
        self.needs_checkpointer = thread_limit is not None
        self.run_limit = run_limit
        self.exit_behavior: ExitBehavior = exit_behavior

    @property
    def _limit(self) -> Limit:
        return Limit(
            self.name, self.tool_name, self.thread_limit, self.run_limit, self.exit_behavior
        )

    @hook_config(can_jump_to=["end"])
    def before_model(
        self, state: ToolCallLimitState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """End the run after a turn that exceeded the limit, even if other hooks jump back.

        Raises:
            ToolCallLimitExceededError: The limit is exceeded, and `exit_behavior` is "error".
        """
        stop = self._own_stop(state)
        if stop is None or (self.exit_behavior == "answer" and not stop["done"]):
            return None  # `around_model` asks for the last answer.
        messages: list[Any] = given_up(state["messages"])
        if not stop["done"]:
            counts = stop["thread_count"], stop["run_count"]
            if self.exit_behavior == "error":
                limits = self.thread_limit, self.run_limit
                raise ToolCallLimitExceededError(*counts, *limits, self.tool_name)
            messages.append(final_message(self._limit.reason(*counts)))
        return {"messages": messages, "jump_to": "end", _STOP: {**stop, "done": True}}

    @hook_config(can_jump_to=["end"])
    async def abefore_model(
        self, state: ToolCallLimitState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Async variant of `before_model`; nothing is awaited."""
        return self.before_model(state, runtime)

    def around_model(
        self, request: ModelRequest[Any]
    ) -> Generator[Any, Any, ModelResponse[Any] | ExtendedModelResponse[Any]]:
        """Ask for the last answer if the run must end; otherwise refuse calls that can't run."""
        stop = self._own_stop(request.state)
        if stop is None:
            return self._without_impossible_calls(request, (yield request))
        reason = self._limit.reason(stop["thread_count"], stop["run_count"])
        response = yield from request_final_answer(request, reason)
        done = not asks_for_retry(response)
        return ExtendedModelResponse(response, Command(update={_STOP: {**stop, "done": done}}))

    def around_tool(self, request: ToolCallRequest) -> Generator[Any, Any, Any]:
        """Run and count the call, or refuse it."""
        call = request.tool_call
        message, tail = last_turn(request.state["messages"])
        limits, counts = limits_on(message, self._limit), CallCounts.from_state(request.state)
        refused: dict[str | None, Refusal] = {}
        # One more than the message has calls, for a call that a layer has replaced.
        most = 1 + (len(message.tool_calls) if message else 0)
        if any(limit.room(counts) < most for limit in limits):
            refused = refusals(calls_in_order(call, message, tail), limits, counts)
        stop = _stop_update(refused)
        if refusal := refused.get(call["id"]):
            return Command(update={"messages": [refusal.result(call)], **stop})
        with ToolCallRecorder() as recorder:
            result = yield request
        # Another limit further in has counted the call, and decided the same.
        if is_counted(result):
            return result
        return with_update(result, {**counts_of(request, result, recorder.names), **stop})

    def _own_stop(self, state: Any) -> _Stop | None:
        """What ends this run, if this middleware has to do it."""
        stop: _Stop | None = state.get(_STOP)
        return stop if stop and stop["by"] == self.name else None

    def _without_impossible_calls(
        self, request: ModelRequest[Any], response: ModelResponse[Any]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """The response with a record of this limit, and with calls refused that can't run anyway.

        So nobody is asked to review them. Whether other calls may run is decided when they run.
        """
        message, tail = last_turn(cast("Any", response.result))
        if message is None or not message.tool_calls:
            return response
        limit, counts = self._limit, CallCounts.from_state(request.state)
        # With room for all calls of the turn, other limits need not know of this one.
        if limit.room(counts) >= len(message.tool_calls):
            return response
        recorded = with_limit(message, limit)
        result: list[Any] = [recorded if m is message else m for m in response.result]
        # What another limit has refused is still a call over this one, and may end the run.
        others = [m for m in tail if REFUSED_BY not in m.response_metadata]
        # Structured answers look like tool calls, but the request does not offer them as tools.
        offered = {getattr(tool, "name", None) for tool in request.tools}
        refused: dict[str | None, Refusal] = {}
        for call in unanswered(message, others):
            if call["name"] in offered and limit.refuses(call["name"], counts):
                refused |= refusals([call], [limit], counts)
        open_calls = unanswered(message, tail)
        result += [refused[c["id"]].result(c) for c in open_calls if c["id"] in refused]
        limited = ModelResponse(result, response.structured_response)
        stop = _stop_update(refused)
        return ExtendedModelResponse(limited, Command(update=stop)) if stop else limited


def _stop_update(refused: Mapping[str | None, Refusal]) -> dict[str, _Stop]:
    """The update that ends the run; empty if every refusal lets it continue."""
    for refusal in refused.values():
        if refusal.limit.exit_behavior != "continue":
            stop = _Stop(
                by=refusal.limit.name,
                thread_count=refusal.thread_count,
                run_count=refusal.run_count,
                done=False,
            )
            return {_STOP: stop}
    return {}
