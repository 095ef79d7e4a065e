"""Run a tool again when its call raised.

A layer around single calls: those beside it go on, and neither they nor the thread hear of failed
attempts.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.messages.tool import ToolCall
from langchain_core.tools import BaseTool
from langgraph.types import Command

from agent_factory import AgentMiddleware, AgentState, Ordering, ToolCallRequest
from agent_factory.middleware._shared.messages import tool_names
from agent_factory.middleware._shared.retry import Backoff, OnFailure, Retries, RetryOn

__all__ = ["ToolRetryMiddleware"]

_ADVICE = "It may be out of order for a while: go on without it, or say what could not be done."


class ToolRetryMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Runs a tool again when its call raised, with growing waits.

    Only for tools that may run twice: an attempt that failed may have done half of its work.

    What is retried is an exception that reaches this layer. Results that say that something went
    wrong (a ToolMessage with status "error") are results: those of the tool itself, of layers
    further in, and those that `handle_tool_errors` has made of an exception. So leave that switch
    alone, or at forms that do not cover what is to be retried.

    Interrupts, handoffs, cancellation and KeyboardInterrupt are never retried. Arguments that do
    not fit (`ToolInvocationError`) and errors that this library names (`AgentFactoryError`) would
    come again, so `Exception` does not mean them; they are retried where `retry_on` names one of
    their classes, or is a predicate.

    Args:
        max_retries: Attempts after the first; 0 only turns the failure into `on_failure`.
        tools: The tools whose calls are retried, as names or BaseTool instances; None: all.
        retry_on: The exceptions that are retried: a type, a tuple of them, or a function of the
            exception. Any other is raised at once, as it is.
        on_failure: What the last failure leads to. "continue": the model reads as the result, with
            status "error", what failed and how often; "error": its exception is raised, with a
            note of the attempts, and leads to what it would have led to without this layer; a
            function of the exception: the model reads the text it returns.
        backoff_factor: How much longer each wait is than the one before; 0 keeps them the same.
        initial_delay: The first wait, in seconds.
        max_delay: The longest wait, in seconds, jitter included.
        jitter: Draw each wait from between its half and its whole, so that calls which failed
            together do not come back together.
        name: Tells several instances apart.

    Raises:
        ValueError: An argument that is none of these; the message says what to write.
        TypeError: `tools` holds something that is neither a name nor a tool.

    >>> ToolRetryMiddleware(tools=["search"], retry_on=(ConnectionError, TimeoutError)).tool_names
    frozenset({'search'})
    """

    ordering = Ordering(reads=("tool_errors",))

    def __init__(
        self,
        *,
        max_retries: int = 2,
        tools: Sequence[str | BaseTool] | None = None,
        retry_on: RetryOn = (Exception,),
        on_failure: OnFailure = "continue",
        backoff_factor: float = 2.0,
        initial_delay: float = 1.0,
        max_delay: float = 60.0,
        jitter: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        self.tool_names = tool_names(tools)
        self.expected_tools = self.tool_names or ()
        self.max_retries = max_retries
        backoff = Backoff(backoff_factor, initial_delay, max_delay, jitter)
        self._retries = Retries(self.name, max_retries, retry_on, on_failure, backoff)

    def around_tool(
        self, request: ToolCallRequest
    ) -> Generator[Any, Any, ToolMessage | Command[Any]]:
        """Runs the call until it gives a result, or no attempt is left."""
        result: ToolMessage | Command[Any]
        call = request.tool_call
        if self.tool_names is not None and call["name"] not in self.tool_names:
            result = yield request
        else:
            result = yield from self._retries.around(request, partial(self._failed, call))
        return result

    def _failed(self, call: ToolCall, error: Exception) -> ToolMessage:
        text = self._retries.last_words(error, call["name"], _ADVICE)
        return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")
