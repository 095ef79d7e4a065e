"""A limit on the calls of the model, in a run and in a thread."""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.messages import AIMessage
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.runtime import Runtime
from langgraph.types import Command

from agent_factory import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    PrivateStateAttr,
    TurnError,
    hook_config,
)
from agent_factory.middleware._shared.final_answer import last_answer
from agent_factory.middleware._shared.messages import given_up
from agent_factory.middleware._shared.validation import check_choice, check_count

__all__ = ["ModelCallLimitExceededError", "ModelCallLimitMiddleware", "ModelCallLimitState"]


class ModelCallLimitState(AgentState[Any]):
    """The state of an agent with the calls of its model counted.

    Attributes:
        thread_model_call_count: Calls in this thread; kept with it.
        run_model_call_count: Calls in this run; every invoke starts at 0, a resumed one too.
    """

    thread_model_call_count: NotRequired[Annotated[int, PrivateStateAttr]]
    run_model_call_count: NotRequired[
        Annotated[int, UntrackedValue(int, guard=False), PrivateStateAttr]
    ]


class ModelCallLimitExceededError(TurnError):
    """A limit was reached and the middleware should raise. What the run did so far is kept.

    Attributes:
        thread_count: Calls of the model in this thread.
        run_count: Calls of the model in this run.
        thread_limit: The limit of the thread, or None.
        run_limit: The limit of the run, or None.
    """

    code = "AF340"

    def __init__(
        self,
        thread_count: int,
        run_count: int,
        thread_limit: int | None,
        run_limit: int | None,
    ) -> None:
        self.thread_count = thread_count
        self.run_count = run_count
        self.thread_limit = thread_limit
        self.needs_checkpointer = thread_limit is not None
        self.run_limit = run_limit
        reached = _reached(thread_count, run_count, thread_limit, run_limit)
        super().__init__(
            "the model",
            f"may not be called again: {reached}.",
            "Raise the limit, or choose exit_behavior='answer' or 'end'.",
        )


class ModelCallLimitMiddleware(AgentMiddleware[ModelCallLimitState, Any]):
    """Ends a run, or raises, instead of calling the model more often than it may be.

    The limit is checked before each turn, where the run can still end well, and once more around
    the call itself, so that no way to the model leads past it. A call counts when it has
    answered. What other layers do within one call, such as retrying it, counts as that one call.

    Args:
        thread_limit: The most calls in a thread, over all its runs; needs a checkpointer.
        run_limit: The most calls in a run.
        exit_behavior: "end" ends the run with a message that gives the numbers; "answer" makes
            the last call that is allowed without tools, for an answer from the work so far, and
            a call beyond it as "end"; "error" raises ModelCallLimitExceededError.
        name: Tells several instances apart. They share their counts, and count each call once.

    Raises:
        ValueError: No limit is given, or one is no whole number of at least 0, or
            `exit_behavior` is unknown, or "answer" and a limit is 0.

    >>> ModelCallLimitMiddleware(run_limit=10).run_limit
    10
    """

    state_schema = ModelCallLimitState

    def __init__(
        self,
        *,
        thread_limit: int | None = None,
        run_limit: int | None = None,
        exit_behavior: Literal["end", "error", "answer"] = "end",
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if thread_limit is None and run_limit is None:
            raise ValueError("Give a thread_limit, a run_limit or both: without one, all may pass.")
        check_count("thread_limit", thread_limit)
        check_count("run_limit", run_limit)
        check_choice("exit_behavior", exit_behavior, ("end", "error", "answer"))
        if exit_behavior == "answer" and 0 in (thread_limit, run_limit):
            raise ValueError(
                "exit_behavior='answer' needs a call to answer with: give a limit of at least 1, "
                "or choose 'end'."
            )
        self.thread_limit = thread_limit
        self.run_limit = run_limit
        self.exit_behavior = exit_behavior

    @hook_config(can_jump_to=["end"])
    def before_model(
        self, state: ModelCallLimitState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """Ends the run where a limit is reached, past the hooks that might send it back."""
        last_word = self._last_word(*_counts(state))
        if last_word is None:
            return None
        return {"messages": [*given_up(state["messages"]), last_word], "jump_to": "end"}

    @hook_config(can_jump_to=["end"])
    async def abefore_model(
        self, state: ModelCallLimitState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """As `before_model`; there is nothing to wait for."""
        return self.before_model(state, runtime)

    def around_model(
        self, request: ModelRequest[Any]
    ) -> Generator[Any, Any, AIMessage | ExtendedModelResponse[Any]]:
        """Counts the call; one that came past `before_model` is not made at the limit."""
        thread, run = _counts(request.state)
        if last_word := self._last_word(thread, run):
            return last_word
        if why := self._last(thread + 1, run + 1):
            response = yield from last_answer(request, why)
        else:
            response = yield request
        counted = {"thread_model_call_count": thread + 1, "run_model_call_count": run + 1}
        return ExtendedModelResponse(response, Command(update=counted))

    def _last(self, thread_count: int, run_count: int) -> str:
        """Why a call with these counts is to be the last; empty where it is a call like others."""
        if self.exit_behavior != "answer":
            return ""
        return _reached(thread_count, run_count, self.thread_limit, self.run_limit)

    def _last_word(self, thread_count: int, run_count: int) -> AIMessage | None:
        """What the run ends with; None while the model may still be called.

        Raises:
            ModelCallLimitExceededError: A limit is reached, and the run should not end with words.
        """
        numbers = (thread_count, run_count, self.thread_limit, self.run_limit)
        reached = _reached(*numbers)
        if not reached:
            return None
        if self.exit_behavior == "error":
            raise ModelCallLimitExceededError(*numbers)
        return AIMessage(f"I had to stop here: {reached}.")


def _counts(state: Any) -> tuple[int, int]:
    return state.get("thread_model_call_count", 0), state.get("run_model_call_count", 0)


def _reached(
    thread_count: int, run_count: int, thread_limit: int | None, run_limit: int | None
) -> str:
    """The limits that are reached, in words; empty while there is none."""
    scopes = (("thread", thread_count, thread_limit), ("run", run_count, run_limit))
    reached = [
        f"{count} of {limit} model calls are used up in this {scope}"
        for scope, count, limit in scopes
        if limit is not None and count >= limit
    ]
    return " and ".join(reached)
