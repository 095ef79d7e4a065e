"""Run a tool again after a failure.

The middleware is a layer around single calls: parallel calls go on, and nothing of a failed attempt
reaches the thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

from agent_factory import AgentMiddleware, AgentState, Flow, Ordering, ToolCallRequest

from ._shared.messages import error_result, tool_names
from ._shared.retry import OnFailure, Retries, RetryOn

__all__ = ["ToolRetryMiddleware"]

_ADVICE = "It may be unavailable for a while: go on without it, or say what could not be done."


class ToolRetryMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Runs a tool again if a call raises, with growing waits.

    Use it only for tools that may run twice: a failed attempt may have done half of its work.

    Only an exception that reaches this layer is retried. A ToolMessage with status "error" is a
    result, whether the tool, a layer further in or `handle_tool_errors` made it. So leave
    `handle_tool_errors` at its default, or at a value that does not cover the exceptions to retry.

    Interrupts, handoffs, cancellation and KeyboardInterrupt are never retried. Arguments that do
    not fit (`ToolInvocationError`) and this library's own errors (`AgentFactoryError`) would be
    raised again, so `Exception` does not cover them. They are retried if `retry_on` names one of
    their classes, or is a predicate.

    Args:
        max_retries: Attempts after the first; with 0, a failure only becomes `on_failure`.
        tools: The tools whose calls are retried, as names or BaseTool instances; None: all.
        retry_on: The exceptions that are retried: a type, a tuple of types, or a function of the
            exception. Any other exception is raised at once.
        on_failure: What the last failure leads to. "continue": the model receives a result with
            status "error" that says what failed and how often. "error": the exception is raised,
            with a note of the attempts, and is handled as without this layer. A function of the
            exception: the model receives the text that it returns.
        backoff_factor: How much longer each wait is than the one before; 0 keeps all waits the
            same.
        initial_delay: The first wait in seconds.
        max_delay: The longest wait in seconds, jitter included.
        jitter: Draw each wait from between half of it and all of it, so that calls which failed
            together do not retry together.
        name: The name of this instance, if a stack has several.

    Raises:
        ValueError: An argument has an unusable value.
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
        waits = (backoff_factor, initial_delay, max_delay, jitter)
        self._retries = Retries(self.name, max_retries, retry_on, on_failure, *waits)

    def around_tool(self, request: ToolCallRequest) -> Flow[ToolMessage | Command[Any]]:
        """Run the call until it returns a result, or no attempt is left."""
        call = request.tool_call
        if self.tool_names is not None and call["name"] not in self.tool_names:
            result: ToolMessage | Command[Any] = yield request
            return result

        def failed(error: Exception) -> ToolMessage:
            text = self._retries.failure_text(error, call["name"], _ADVICE)
            return error_result(call, text)

        return (yield from self._retries.around(request, failed))
