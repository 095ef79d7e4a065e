"""Limit the calls of one tool or of all tools, in a run and in a thread.

The calls of a turn run as parallel tasks, and no task sees the rest. So each task decides for the
whole turn, from the same facts: the calls in the order of the model, the counts before the turn,
and all limits. A call refused by a limit must not use up another limit, so each limit that may
refuse a call records its name in the response metadata of the message with the calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NotRequired, get_args

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.messages.tool import ToolCall
from langgraph.channels import BinaryOperatorAggregate
from langgraph.runtime import Runtime
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Flow,
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
    ToolCallRecorder,
    ToolCallRequest,
    TurnError,
    UsageLimit,
    hook_config,
)
from agent_factory.counts import count, counted_keys

from ._shared.counting import tool_attempt
from ._shared.declarations import usage_limits
from ._shared.final_answer import asks_for_retry, final_message, request_final_answer, used_up
from ._shared.invocable import Update, plain_hook
from ._shared.messages import (
    answers_to_open_calls,
    error_result,
    follows_up,
    last_turn,
    messages_of,
    unanswered,
)
from ._shared.models import with_update
from ._shared.validation import check_choice, check_limits, check_value

__all__ = ["ToolCallLimitExceededError", "ToolCallLimitMiddleware", "ToolCallLimitState"]

ExitBehavior = Literal["continue", "end", "error", "answer"]

_STOP = "tool_call_limit_stop"
_THREAD_COUNTS, _RUN_COUNTS = "thread_tool_call_count", "run_tool_call_count"
counted_keys.update((_STOP, _THREAD_COUNTS, _RUN_COUNTS))

_LIMITS = "tool_call_limits"
"""Metadata key of the message with the calls: the limits on them, innermost first."""

_REFUSED_BY = "tool_call_limit"
"""Metadata key of a refused call's result: the name of the limit."""

Counts = Mapping[str, Any]
"""A state, of which only the two counts are read."""


def add_counts(counts: Mapping[str, int], more: Mapping[str, int] | None) -> dict[str, int]:
    """State reducer: adds the counts of a task; None starts at 0."""
    if more is None:
        return {}
    # A copy: LangGraph passes the state itself to a reducer.
    total = dict(counts)
    for name in more:
        total[name] = total[name] + more[name] if name in total else more[name]
    return total


class _Stop(TypedDict):
    """A limit that was exceeded and ends the run."""

    by: str  # the name of the middleware
    thread_count: int
    run_count: int
    done: bool  # the run has its last message


def last_stop(stop: _Stop | None, new: _Stop | None) -> _Stop | None:
    """State reducer: the last write, as parallel tasks decide the same."""
    return new


class ToolCallLimitState(AgentState):
    """State of an agent with counted tool calls.

    Attributes:
        thread_tool_call_count: Calls in this thread by the name of the tool.
        run_tool_call_count: Calls in this run by the name of the tool. A resumed run
            continues with the counts.
        tool_call_limit_stop: The limit that ends this run, or None.
    """

    thread_tool_call_count: NotRequired[
        Annotated[dict[str, int], BinaryOperatorAggregate(dict, add_counts), PrivateStateAttr]
    ]
    run_tool_call_count: NotRequired[
        Annotated[dict[str, int], BinaryOperatorAggregate(dict, add_counts), PrivateStateAttr]
    ]
    tool_call_limit_stop: NotRequired[Annotated[_Stop | None, last_stop, PrivateStateAttr]]


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of a middleware, in the form for records in messages."""

    name: str
    tool_name: str | None
    thread_limit: int | None
    run_limit: int | None
    exit_behavior: ExitBehavior

    def used(self, counts: Counts) -> tuple[int, int]:
        """The calls in the thread and in the run that this limit counts."""
        thread, run = (counts.get(key) or {} for key in (_THREAD_COUNTS, _RUN_COUNTS))
        if self.tool_name is None:
            return sum(thread.values()), sum(run.values())
        return thread.get(self.tool_name, 0), run.get(self.tool_name, 0)

    def has_room(self, counts: Counts, calls: int = 1) -> bool:
        """Return True if so many more calls may run."""
        thread, run = self.used(counts)
        fits_thread = self.thread_limit is None or thread + calls <= self.thread_limit
        return fits_thread and (self.run_limit is None or run + calls <= self.run_limit)

    def refuses(self, tool: str, counts: Counts) -> bool:
        """Return True if one more call of the tool would exceed the limit."""
        return self.tool_name in (None, tool) and not self.has_room(counts)

    def reason(self, thread_count: int, run_count: int) -> str:
        """Describe a limit that is used up, as half a sentence; empty without any."""
        what = "tool calls" if self.tool_name is None else f"calls of {self.tool_name}"
        return used_up(what, thread_count, run_count, self.thread_limit, self.run_limit)

    def refusal(self, call: ToolCall, counts: tuple[int, int], before: str = "") -> ToolMessage:
        """The error for the model as the result of a refused call."""
        return error_result(
            call,
            f"Limit reached: {self.reason(*counts)}. This call of {call['name']} did not run"
            f"{' again' if before else ''}.{before} "
            f"Do not call {self.tool_name or 'any tool'} again; go on with what you have.",
            response_metadata={_REFUSED_BY: self.name},
        )


# Metadata of a message come back from a checkpoint as plain dicts.
_LIMIT_RECORDS = TypeAdapter(dict[str, Limit])

Refusals = dict[str | None, tuple[Limit, tuple[int, int]]]
"""By the id of a refused call: the limit that refuses it, and the counts it had reached."""


class ToolCallLimitExceededError(TurnError):
    """A tool call exceeded a limit with `exit_behavior="error"`. The work so far is kept.

    Attributes:
        thread_count: Counted calls in this thread.
        run_count: Counted calls in this run.
        thread_limit: The limit of the thread, or None.
        run_limit: The limit of the run, or None.
        tool_name: The tool of the limit; None for all tools together.
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
        self.thread_count, self.run_count = thread_count, run_count
        self.thread_limit, self.run_limit, self.tool_name = thread_limit, run_limit, tool_name
        limit = Limit("", tool_name, thread_limit, run_limit, "error")
        super().__init__(
            tool_name or "the tools",
            f"may not be called again: {limit.reason(thread_count, run_count)}.",
            "Raise the limit, or choose exit_behavior='continue', 'answer' or 'end'.",
        )


class ToolCallLimitMiddleware(AgentMiddleware[ToolCallLimitState, Any]):
    """Refuse tool calls over a limit with an error result, and optionally end the run.

    A call counts when a tool has run for it, also if the tool failed or a guard blocks its result.
    Each attempt of a retry counts, at any position of the limit in the list. Structured answers do
    not count, nor do calls refused by a reviewer, a guard or another limit, and calls at the
    provider. Of parallel calls the first run, in the order of the model, and no call is tried again
    if another call of its turn needs the place.

    Args:
        tool_name: The tool of the limit; None for all tools together.
        thread_limit: The most calls in a thread, over all its runs; needs a checkpointer.
        run_limit: The most calls in a run, which begins as in `ModelCallLimitMiddleware`.
        exit_behavior: The effect of a call over the limit. The call never runs, and the model reads
            an error as its result. After the other calls of its turn have run, "continue" continues
            the run; "answer" calls the model once more, without tools, for an answer from the work
            so far; "end" ends the run with a message with the numbers; "error" raises
            ToolCallLimitExceededError.
        name: Distinguishes several instances; default: the class, with the tool if there is one.
            Instances share their counts, and count each call once.

    Raises:
        ValueError: No limit is given; a limit is not a whole number of at least 0; `run_limit` is
            above `thread_limit`, and could never be reached; `exit_behavior` is unknown;
            `tool_name` is empty.
        TypeError: `tool_name` is not a string.

    >>> searches = ToolCallLimitMiddleware(tool_name="search", run_limit=3)
    >>> searches.name, searches.run_limit
    ('ToolCallLimitMiddleware[search]', 3)
    """

    state_schema = ToolCallLimitState
    kept_flows = ("around_model", "around_tool")
    counts_attempts = True
    guard_settings = ("exit_behavior",)

    def __init__(
        self,
        *,
        tool_name: str | None = None,
        thread_limit: int | None = None,
        run_limit: int | None = None,
        exit_behavior: ExitBehavior = "continue",
        name: str | None = None,
    ) -> None:
        is_name = isinstance(tool_name, str | None)
        hint = "Pass tool_name='search', or leave it out for all tools."
        check_value("tool_name", tool_name, is_name, "a string or None", hint, TypeError)
        if tool_name == "":
            raise ValueError("tool_name must not be empty. Leave it out for all tools.")
        super().__init__(name=name)
        check_limits(thread_limit, run_limit)
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

    @cached_property
    def name(self) -> str:
        """The class, with the tool if there is one."""
        if self.tool_name is None:
            return type(self).__name__
        # LangGraph reserves "|" and ":" in node names, and names of remote tools contain them.
        return f"{type(self).__name__}[{self.tool_name.replace('|', '_').replace(':', '_')}]"

    @property
    def limits(self) -> Sequence[UsageLimit]:  # type: ignore[override]
        """Limits, as the plan shows them."""
        limits = {"run": self.run_limit, "thread": self.thread_limit}
        return usage_limits("tool calls", limits, self.tool_name or "")

    @property
    def _limit(self) -> Limit:
        return Limit(
            self.name, self.tool_name, self.thread_limit, self.run_limit, self.exit_behavior
        )

    def counted_since(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
        """The calls in the thread since a checkpoint."""
        earlier, counts = (values.get(_THREAD_COUNTS, {}) for values in (before, now))
        new = {tool: counts[tool] - earlier.get(tool, 0) for tool in counts}
        return {_THREAD_COUNTS: {tool: number for tool, number in new.items() if number}}

    @plain_hook
    def before_agent(self, state: ToolCallLimitState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Start the count of a new run, unless the input is results of background calls."""
        return {_STOP: None} if follows_up(state) else {_RUN_COUNTS: None, _STOP: None}

    @plain_hook
    @hook_config(can_jump_to=["end"])
    def before_model(self, state: ToolCallLimitState, runtime: Runtime[Any]) -> Update:
        """End the run after a turn that exceeded the limit, even if other hooks jump back."""
        stop = self._own_stop(state)
        if stop is None or (self.exit_behavior == "answer" and not stop["done"]):
            return None  # `around_model` asks for the last answer.
        messages: list[Any] = [*answers_to_open_calls(state["messages"])]
        if not stop["done"]:
            counts = stop["thread_count"], stop["run_count"]
            if self.exit_behavior == "error":
                limits = self.thread_limit, self.run_limit
                raise ToolCallLimitExceededError(*counts, *limits, self.tool_name)
            messages.append(final_message(self._limit.reason(*counts)))
        return {"messages": messages, "jump_to": "end", _STOP: {**stop, "done": True}}

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelCallResult]:
        """Ask for the last answer if the run must end; otherwise refuse calls that can't run."""
        stop = self._own_stop(request.state)
        if stop is None:
            response: ModelResponse = yield request
            answers = [m for m in response.result if isinstance(m, AIMessage)]
            calls = answers[-1].tool_calls if answers else []
            # With room for all calls of the turn, other limits need not know of this limit.
            if not calls or self._limit.has_room(request.state, len(calls)):
                return response
            return self._without_impossible_calls(request, response)
        reason = self._limit.reason(stop["thread_count"], stop["run_count"])
        response = yield from request_final_answer(request, reason)
        is_done = not asks_for_retry(response)
        return with_update(request, response, {_STOP: {**stop, "done": is_done}})

    def around_tool(self, request: ToolCallRequest) -> Flow[Any]:
        """Run and count an attempt of the call, or refuse it."""
        call, counts = request.tool_call, request.state
        message, tail = last_turn(counts["messages"])
        with tool_attempt(request, message) as notes, ToolCallRecorder() as recorder:
            again: list[ToolCall] = notes["again"]
            refusals_now: Refusals = {}
            # One more than the calls of the message, for a call that a layer has replaced.
            most = 1 + (len(message.tool_calls) if message else 0) + len(again)
            limits = limits_on(message, self._limit)
            if not all(limit.has_room(counts, most) for limit in limits):
                calls = calls_in_order(call, message, tail)
                ids = {c["id"] for c in calls}
                calls += [c for c in again if c["id"] in ids]
                refusals_now = refusals(calls, limits, counts)
            if stop := _stop_of(refusals_now):
                count(_STOP, stop, last_stop)
            if call["id"] in refusals_now:
                limit, counts_then = refusals_now[call["id"]]
                return limit.refusal(call, counts_then, notes["before"])
            is_counted, notes["counted"] = "counted" in notes, True
            has_run = False
            try:
                result = yield request
                # No tool has started if the call was refused further in, or a tool ran without
                # LangChain callbacks; then a result other than an error counts.
                has_run = bool(recorder.names) or not any(
                    m.type == "tool" and (m.tool_call_id, m.status) == (call["id"], "error")
                    for m in messages_of(result)
                )
                return result
            except Exception:
                has_run = bool(recorder.names)
                raise
            finally:  # control flow ends here too: a waiting call has not run
                if has_run:
                    notes["has_run"] = True
                    for key in () if is_counted else (_THREAD_COUNTS, _RUN_COUNTS):
                        count(key, {call["name"]: 1}, add_counts)

    def _own_stop(self, state: Any) -> _Stop | None:
        """Return the stop of this run, if this middleware has to make a stop."""
        stop: _Stop | None = state.get(_STOP)
        return stop if stop and stop["by"] == self.name else None

    def _without_impossible_calls(
        self, request: ModelRequest[Any], response: ModelResponse
    ) -> ModelCallResult:
        """The response with a record of this limit; calls that can't run need no review."""
        result: list[Any] = response.result
        message, tail = last_turn(result)
        assert message is not None
        limit, counts = self._limit, request.state
        metadata = message.response_metadata
        metadata = {**metadata, _LIMITS: {**metadata.get(_LIMITS, {}), limit.name: asdict(limit)}}
        message_with_record = message.model_copy(update={"response_metadata": metadata})
        result = [message_with_record if m is message else m for m in result]
        # A call refused by another limit is still over this limit, and may end the run.
        others = [m for m in tail if _REFUSED_BY not in m.response_metadata]
        # Structured answers look like tool calls, but the request does not offer them as tools.
        tool_names = {getattr(tool, "name", None) for tool in request.tools}
        refusals_now: Refusals = {
            call["id"]: (limit, limit.used(counts))
            for call in unanswered(message, others)
            if call["name"] in tool_names and limit.refuses(call["name"], counts)
        }
        open_calls = [call for call in unanswered(message, tail) if call["id"] in refusals_now]
        result += [limit.refusal(call, limit.used(counts)) for call in open_calls]
        last_response = ModelResponse(result, response.structured_response)
        stop = _stop_of(refusals_now)
        return with_update(request, last_response, {} if stop is None else {_STOP: stop})


def _stop_of(refusals_now: Refusals) -> _Stop | None:
    """The stop that ends the run; None if every refusal lets it continue."""
    for limit, (thread, run) in refusals_now.values():
        if limit.exit_behavior != "continue":
            return _Stop(by=limit.name, thread_count=thread, run_count=run, done=False)
    return None


def limits_on(message: AIMessage | None, limit_of_caller: Limit) -> list[Limit]:
    """All limits on the calls of a message, outermost first; with the limit of the caller."""
    records = message.response_metadata.get(_LIMITS) if message else None
    if not records or (isinstance(records, Mapping) and records.keys() <= {limit_of_caller.name}):
        return [limit_of_caller]
    try:
        limits: dict[str, Limit] = _LIMIT_RECORDS.validate_python(records)
    except ValidationError:  # somebody else's metadata under our key
        limits = {}
    return list(reversed({**limits, limit_of_caller.name: limit_of_caller}.values()))


def calls_in_order(
    call: ToolCall, message: AIMessage | None, tail: Sequence[AnyMessage]
) -> list[ToolCall]:
    """The open calls of a turn, in the order in which they use up limits, as a task sees them.

    If a layer has replaced a call, the new `call` is last, because the tasks of the other calls do
    not know of the replacement. The same call may have replaced earlier calls, unknown to
    this task; so earlier calls count as if replaced.
    """
    open_calls = unanswered(message, tail)
    if any((c["id"], c["name"]) == (call["id"], call["name"]) for c in open_calls):
        return open_calls
    ids = [c["id"] for c in open_calls]
    position = ids.index(call["id"]) if call["id"] in ids else len(ids)
    maybe_same = [ToolCall(**{**c, "name": call["name"]}) for c in open_calls[:position]]
    return [*maybe_same, *open_calls[position + 1 :], call]


def refusals(calls: Sequence[ToolCall], limits: Sequence[Limit], counts: Counts) -> Refusals:
    """The calls of a turn that may not run. Earlier calls use up the limits before later ones."""
    # Whether the run ends must not depend on the order of the limits.
    limits_in_order = sorted(limits, key=lambda limit: limit.exit_behavior == "continue")
    result: Refusals = {}
    for call in calls:
        for limit in limits_in_order:
            if limit.refuses(call["name"], counts):
                result[call["id"]] = limit, limit.used(counts)
                break
        else:
            new, keys = {call["name"]: 1}, (_THREAD_COUNTS, _RUN_COUNTS)
            counts = {key: add_counts(counts.get(key) or {}, new) for key in keys}
    return result
