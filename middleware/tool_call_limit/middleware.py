"""A limit on the calls of tools, of one or of all, in a run and in a thread.

What counts is what has run, so the count is kept around the tool: there it is known which calls
of a turn people, guards and other limits have let through, and no jump leads past it. What a limit
leads to is decided before the next call of the model, when every call of the turn has its answer.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Annotated, Any, NotRequired, cast, get_args

from langchain_core.messages import AIMessage
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
from agent_factory.middleware._shared.final_answer import asks_again, last_answer
from agent_factory.middleware._shared.messages import given_up, last_turn, unanswered
from agent_factory.middleware._shared.validation import check_choice, check_count
from agent_factory.middleware.tool_call_limit.limits import (
    REFUSED_BY,
    ExitBehavior,
    Limit,
    Refusal,
    RunCount,
    Used,
    added,
    counts_of,
    in_turn,
    is_counted,
    limits_on,
    refusals,
    with_limit,
    with_update,
)

__all__ = ["ToolCallLimitExceededError", "ToolCallLimitMiddleware", "ToolCallLimitState"]

_STOP = "tool_call_limit_stop"


class _Stop(TypedDict):
    """A limit was met that does more than refuse a call.

    Attributes:
        by: The name of the middleware.
        thread_count: The calls in the thread that fall under it.
        run_count: Those of this run.
        done: Whether the run has its last message.
    """

    by: str
    thread_count: int
    run_count: int
    done: bool


class ToolCallLimitState(AgentState[Any]):
    """The state of an agent with the calls of its tools counted, by the name of the tool.

    Attributes:
        thread_tool_call_count: Calls in this thread; kept with it.
        run_tool_call_count: Calls in this run; every invoke starts at 0, a resumed one too.
        tool_call_limit_stop: The limit that ends this run, once there is one.
    """

    thread_tool_call_count: NotRequired[
        Annotated[dict[str, int], BinaryOperatorAggregate(dict, added), PrivateStateAttr]
    ]
    run_tool_call_count: NotRequired[
        Annotated[dict[str, int], RunCount(dict, guard=False), PrivateStateAttr]
    ]
    tool_call_limit_stop: NotRequired[
        Annotated[_Stop, UntrackedValue(dict, guard=False), PrivateStateAttr]
    ]


class ToolCallLimitExceededError(TurnError):
    """A tool was called once too often and the middleware should raise. The work is kept.

    Attributes:
        thread_count: Calls in this thread that fall under the limit.
        run_count: Those of this run.
        thread_limit: The limit of the thread, or None.
        run_limit: The limit of the run, or None.
        tool_name: The tool it holds for; None for all together.
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
    """Answers tool calls instead of running them more often than they may, and may end the run.

    A call counts when a tool has run for it, also where the tool failed. So neither a structured
    answer counts, nor a call that people, a guard or another limit refused, nor one that the
    provider ran. What other layers do within one call, such as retrying it, counts as that one.
    Of parallel calls the first ones run, in the order the model made them.

    Args:
        tool_name: The tool it holds for; None for all of them together.
        thread_limit: The most calls in a thread, over all its runs; needs a checkpointer.
        run_limit: The most calls in a run.
        exit_behavior: What a call over the limit leads to. It never runs, and the model is told
            so in the place of a result. Then, when the other calls of its turn have run:
            "continue" lets the run go on; "answer" calls the model once more, without tools,
            for an answer from the work so far; "end" ends the run with a message that gives the
            numbers; "error" raises ToolCallLimitExceededError.
        name: Tells several instances apart; default: the class with the tool, if there is one.
            They share their counts, and count each call once.

    Raises:
        ValueError: No limit is given, or one is no whole number of at least 0; `run_limit` is
            above `thread_limit`, so that it could never be reached; `exit_behavior` is unknown;
            `tool_name` is empty.
        TypeError: `tool_name` is no string.

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
        _check_tool_name(tool_name)
        super().__init__(name=name or _named_after(tool_name))
        if thread_limit is None and run_limit is None:
            raise ValueError("Give a thread_limit, a run_limit or both: without one, all may run.")
        check_count("thread_limit", thread_limit)
        check_count("run_limit", run_limit)
        if thread_limit is not None and run_limit is not None and run_limit > thread_limit:
            raise ValueError(
                f"run_limit ({run_limit}) is above thread_limit ({thread_limit}), and a run is "
                "part of its thread. Lower run_limit or leave it out, or raise thread_limit."
            )
        check_choice("exit_behavior", exit_behavior, get_args(ExitBehavior))
        self.tool_name = tool_name
        self.expected_tools = () if tool_name is None else (tool_name,)
        self.thread_limit = thread_limit
        self.needs_checkpointer = thread_limit is not None
        self.run_limit = run_limit
        self.exit_behavior: ExitBehavior = exit_behavior

    @hook_config(can_jump_to=["end"])
    def before_model(
        self, state: ToolCallLimitState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Ends the run after a turn that broke the limit, past hooks that might send it back."""
        stop = self._stop(state)
        if stop is None or self._owes_answer(stop):
            return None
        last_word = [] if stop["done"] else [self._last_word(stop)]
        messages = [*given_up(state["messages"]), *last_word]
        return {"messages": messages, "jump_to": "end", _STOP: {**stop, "done": True}}

    @hook_config(can_jump_to=["end"])
    async def abefore_model(
        self, state: ToolCallLimitState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """As `before_model`; there is nothing to wait for."""
        return self.before_model(state, runtime)

    def around_model(
        self, request: ModelRequest[Any]
    ) -> Generator[Any, Any, ModelResponse[Any] | ExtendedModelResponse[Any]]:
        """Asks for the last answer; otherwise refuses calls for which there is no place at all."""
        stop = self._stop(request.state)
        if stop is None:
            return self._without_hopeless(request, (yield request))
        response = yield from last_answer(request, self._reason(stop))
        done = not asks_again(response)
        return ExtendedModelResponse(response, Command(update={_STOP: {**stop, "done": done}}))

    def around_tool(self, request: ToolCallRequest) -> Generator[Any, Any, Any]:
        """Runs and counts the call, or refuses it."""
        call = request.tool_call
        refused = self._refused(request)
        stop = _stop_of(refused)
        if refusal := refused.get(call["id"]):
            return Command(update={"messages": [refusal.answer(call)], **stop})
        with ToolCallRecorder() as starts:
            result = yield request
        # Another limit further in has counted it, and decided alike.
        if is_counted(result):
            return result
        return with_update(result, {**counts_of(request, result, starts.names), **stop})

    def _refused(self, request: ToolCallRequest) -> dict[str | None, Refusal]:
        """The calls of this turn that may not run, whichever task asks."""
        message, tail = last_turn(request.state["messages"])
        limits, used = limits_on(message, self._limit), Used.of(request.state)
        # With one that a layer has turned into another.
        most = 1 + (len(message.tool_calls) if message else 0)
        if all(limit.room(used) >= most for limit in limits):
            return {}
        return refusals(in_turn(request.tool_call, message, tail), limits, used)

    @property
    def _limit(self) -> Limit:
        return Limit(
            self.name, self.tool_name, self.thread_limit, self.run_limit, self.exit_behavior
        )

    def _stop(self, state: Any) -> _Stop | None:
        """What ends this run, where this middleware has to see to it."""
        stop: _Stop | None = state.get(_STOP)
        return stop if stop and stop["by"] == self.name else None

    def _owes_answer(self, stop: _Stop) -> bool:
        return self.exit_behavior == "answer" and not stop["done"]

    def _reason(self, stop: _Stop) -> str:
        return self._limit.reason(stop["thread_count"], stop["run_count"])

    def _last_word(self, stop: _Stop) -> AIMessage:
        """What the run ends with.

        Raises:
            ToolCallLimitExceededError: The run should not end with words.
        """
        if self.exit_behavior == "error":
            raise ToolCallLimitExceededError(
                stop["thread_count"],
                stop["run_count"],
                self.thread_limit,
                self.run_limit,
                self.tool_name,
            )
        return AIMessage(f"I had to stop here: {self._reason(stop)}.")

    def _without_hopeless(
        self, request: ModelRequest[Any], response: ModelResponse[Any]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """The response with a note of this limit; calls that can't run are refused at once.

        So nobody is asked to review them. Whether the others can run is known when they are run.
        Where there is room for all calls of the turn, no other limit need know of this one.
        """
        message, tail = last_turn(cast("Any", response.result))
        if message is None or not message.tool_calls:
            return response
        limit, used = self._limit, Used.of(request.state)
        if limit.room(used) >= len(message.tool_calls):
            return response
        noted = with_limit(message, limit)
        result = [noted if m is message else m for m in response.result]
        told = ModelResponse(result, response.structured_response)
        refused = _hopeless(limit, used, request, message, tail)
        if not refused:
            return told
        waiting = unanswered(message, tail)
        told.result += [refused[c["id"]].answer(c) for c in waiting if c["id"] in refused]
        stop = _stop_of(refused)
        return ExtendedModelResponse(told, Command(update=stop)) if stop else told


def _hopeless(
    limit: Limit, used: Used, request: ModelRequest[Any], message: AIMessage, tail: Sequence[Any]
) -> dict[str | None, Refusal]:
    """The calls for which the limit has no place, however many of the others run."""
    # What another limit has refused breaks this one all the same.
    by_others = [m for m in tail if REFUSED_BY not in m.response_metadata]
    hopeless = [c for c in unanswered(message, by_others) if limit.refuses(c["name"], used)]
    if not hopeless:
        return {}
    # Only what the agent itself would run: structured answers are none of its tools.
    offered = {getattr(tool, "name", None) for tool in request.tools}
    found: dict[str | None, Refusal] = {}
    for call in hopeless:
        if call["name"] in offered:
            found |= refusals([call], [limit], used)
    return found


def _check_tool_name(tool_name: Any) -> None:
    if tool_name is not None and not isinstance(tool_name, str):
        raise TypeError(
            f"tool_name must be the name of a tool, such as 'search', or None for all tools; got "
            f"{tool_name!r}."
        )
    if tool_name == "":
        raise ValueError("tool_name must be the name of a tool, or None for all; it is empty.")


def _named_after(tool_name: str | None) -> str | None:
    if tool_name is None:
        return None
    # LangGraph keeps these two to itself, and names of remote tools have them.
    return f"ToolCallLimitMiddleware[{tool_name.translate({ord('|'): '_', ord(':'): '_'})}]"


def _stop_of(refused: Mapping[str | None, Refusal]) -> dict[str, _Stop]:
    """The update that ends the run; empty where a refusal is all that follows."""
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
