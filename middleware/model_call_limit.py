"""Limit the calls of the model, in a run and in a thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime
from langgraph.types import Command

from agent_factory import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    Flow,
    ModelCallResult,
    ModelRequest,
    PrivateStateAttr,
    TurnError,
    UsageLimit,
    hook_config,
)
from agent_factory.counts import COUNTS, count, counted_keys

from ._shared.counting import attempt
from ._shared.declarations import usage_limits
from ._shared.final_answer import final_message, request_final_answer, used_up
from ._shared.invocable import Update, plain_hook
from ._shared.messages import answers_to_open_calls, follows_up
from ._shared.validation import check_choice, check_limits

__all__ = ["ModelCallLimitExceededError", "ModelCallLimitMiddleware", "ModelCallLimitState"]

_THREAD_COUNT, _RUN_COUNT = "thread_model_call_count", "run_model_call_count"
counted_keys.update((_THREAD_COUNT, _RUN_COUNT))


def add_calls(calls: int, more: int | None) -> int:
    """State reducer: adds calls; None starts at 0."""
    return 0 if more is None else calls + more


class ModelCallLimitState(AgentState):
    """State of an agent with counted model calls.

    Attributes:
        thread_model_call_count: Calls in this thread.
        run_model_call_count: Calls in this run. A resumed run continues with its count.
    """

    thread_model_call_count: NotRequired[Annotated[int, add_calls, PrivateStateAttr]]
    run_model_call_count: NotRequired[Annotated[int, add_calls, PrivateStateAttr]]


class ModelCallLimitExceededError(TurnError):
    """A limit was reached with `exit_behavior="error"`. The work so far is kept.

    Attributes:
        thread_count: Calls of the model in this thread.
        run_count: Calls of the model in this run.
        thread_limit: The limit of the thread, or None.
        run_limit: The limit of the run, or None.
    """

    code = "AF340"

    def __init__(
        self, thread_count: int, run_count: int, thread_limit: int | None, run_limit: int | None
    ) -> None:
        self.thread_count, self.run_count = thread_count, run_count
        self.thread_limit, self.run_limit = thread_limit, run_limit
        reason = used_up("model calls", thread_count, run_count, thread_limit, run_limit)
        super().__init__(
            "the model",
            f"may not be called again: {reason}.",
            "Raise the limit, or choose exit_behavior='answer' or 'end'.",
        )


class ModelCallLimitMiddleware(AgentMiddleware[ModelCallLimitState, Any]):
    """End a run, or raise, instead of calling the model more often than allowed.

    The limit is checked before each turn, where the run can still end well, and again around the
    call itself, so no jump bypasses the limit. Each attempt counts, at any position of the limit in
    the list: attempts of retries and fallbacks, failures, and answers discarded by a guard. Calls
    made by middleware and tools do not count.

    Args:
        thread_limit: The most calls in a thread, over all its runs; needs a checkpointer.
        run_limit: The most calls in a run. A run resumed after an interrupt or a failure continues
            with its count, and so does a run with results of background calls as its input; a new
            message starts a new run.
        exit_behavior: "end" ends the run with a message that gives the numbers; "answer" makes
            the last allowed call, in which no tool is called, for an answer from the work so far,
            and then ends as "end" does; "error" raises ModelCallLimitExceededError.
        name: Distinguishes several instances. They share their counts, and count each call once.

    Raises:
        ValueError: No limit is given, or a limit is not a whole number of at least 0;
            `exit_behavior` is unknown, or is "answer" with a limit of 0.

    >>> ModelCallLimitMiddleware(run_limit=10).run_limit
    10
    """

    state_schema = ModelCallLimitState
    kept_flows = ("around_model",)
    counts_attempts = True
    guard_settings = ("exit_behavior",)

    def __init__(
        self,
        *,
        thread_limit: int | None = None,
        run_limit: int | None = None,
        exit_behavior: Literal["end", "error", "answer"] = "end",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        check_limits(thread_limit, run_limit)
        check_choice("exit_behavior", exit_behavior, ("end", "error", "answer"))
        if exit_behavior == "answer" and 0 in (thread_limit, run_limit):
            raise ValueError(
                "exit_behavior='answer' needs at least one call. Pass a limit of at least 1, or "
                "exit_behavior='end'."
            )
        self.thread_limit = thread_limit
        self.needs_checkpointer = thread_limit is not None
        self.run_limit, self.exit_behavior = run_limit, exit_behavior

    @property
    def limits(self) -> Sequence[UsageLimit]:  # type: ignore[override]
        """Limits, as the plan shows them."""
        limits = {"run": self.run_limit, "thread": self.thread_limit}
        return usage_limits("model calls", limits)

    def counted_since(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
        """The calls in the thread since a checkpoint."""
        return {_THREAD_COUNT: now.get(_THREAD_COUNT, 0) - before.get(_THREAD_COUNT, 0)}

    @plain_hook
    def before_agent(self, state: ModelCallLimitState, runtime: Runtime[Any]) -> Update:
        """Start the count of a new run, unless the input is results of background calls."""
        return None if follows_up(state) else {_RUN_COUNT: None}

    @plain_hook
    @hook_config(can_jump_to=["end"])
    def before_model(self, state: ModelCallLimitState, runtime: Runtime[Any]) -> Update:
        """End the run if a limit is reached, even if other hooks jump back."""
        thread, run = state.get("thread_model_call_count", 0), state.get("run_model_call_count", 0)
        if (message := self._final_message(thread, run)) is None:
            return None
        messages = [*answers_to_open_calls(state["messages"]), message]
        return {"messages": messages, "jump_to": "end"}

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelCallResult]:
        """Count and make the call; a call at the limit that bypassed `before_model` is not made."""
        state: Any = request.state
        own = COUNTS.get() or {}  # of earlier attempts in this node
        with attempt(request.runtime) as notes:
            counts = [state.get(key, 0) + own.get(key, 0) for key in (_THREAD_COUNT, _RUN_COUNT)]
            thread, run = notes.setdefault("before", counts)
            if message := self._final_message(thread, run):
                return message
            update = {} if "counted" in notes else dict.fromkeys((_THREAD_COUNT, _RUN_COUNT), 1)
            notes["counted"] = True
            is_kept = all(count(key, 1, add_calls) for key in update)
            # A call that reaches a limit is the last, and gets no tools.
            limits = self.thread_limit, self.run_limit
            reason = used_up("model calls", thread + 1, run + 1, *limits)
            if reason and self.exit_behavior == "answer":
                response = yield from request_final_answer(request, reason)
            else:
                response = yield request
        # A layer may call inward in a thread without knowledge of the node.
        return response if is_kept else ExtendedModelResponse(response, Command(update=update))

    def _final_message(self, thread: int, run: int) -> AIMessage | None:
        limits = self.thread_limit, self.run_limit
        if not (reason := used_up("model calls", thread, run, *limits)):
            return None
        if self.exit_behavior == "error":
            raise ModelCallLimitExceededError(thread, run, *limits)
        return final_message(reason)
