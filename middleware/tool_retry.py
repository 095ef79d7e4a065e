"""Run a tool again after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import wait
from functools import partial
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

from agent_factory import Flow, Ordering, ToolCallRequest

from ._shared.effects import on_unknown
from ._shared.errors import record_failure
from ._shared.invocable import in_thread, tool_calling
from ._shared.messages import error_result, tool_names
from ._shared.retry import OnFailure, RetryMiddleware, RetryOn, default_retry_on
from ._shared.validation import check_number

__all__ = ["ToolRetryMiddleware"]

_ADVICE = "It may be unavailable for a while: go on without it, or say what could not be done."


class ToolRetryMiddleware(RetryMiddleware):
    """Runs a tool again if a call raises, with growing waits.

    Use it only for tools that may run twice: a failed attempt may have done half of its work.

    Nobody knows whether a call that timed out has run. So the call is not repeated, and the model
    reads that its outcome is unknown, unless `retry_on` names the type of the timeout
    (`TimeoutError`, `httpx.ReadTimeout`), `retry_on` is a predicate, or `idempotent_tools` names
    the tool. A call that could not connect (`ConnectionRefusedError`, `httpx.ConnectTimeout`) did
    not run, and is repeated.

    Only an exception that reaches this layer is retried. A ToolMessage with status "error" is a
    result, whether of the tool, a layer further in or `handle_tool_errors`. So leave
    `handle_tool_errors` at its default, or at a value that does not cover the exceptions to retry.

    Args:
        max_retries: As in `ModelRetryMiddleware`.
        tools: The tools whose calls are retried, as names or BaseTool instances; None: all.
        retry_on: As in `ModelRetryMiddleware`.
        on_failure: The result of the last failure. "continue": the model receives a result with
            status "error", with the failure and the number of attempts. "error": the exception is
            raised, with a note of the attempts, and is handled as without this layer. A function of
            the exception: the model receives the function's text.
        backoff_factor: As in `ModelRetryMiddleware`.
        initial_delay: The first wait in seconds.
        max_delay: The longest wait in seconds, jitter included. A wait is at least as long as the
            server's `Retry-After`. If the server asks for more than `max_delay`, the call is not
            made again.
        jitter: As in `ModelRetryMiddleware`.
        idempotent_tools: The tools that may run twice with the same arguments, as names or BaseTool
            instances. Their calls are also repeated after a timeout.
        timeout: The longest time of an attempt, in seconds; None for no limit. Then `TimeoutError`
            is raised. An async tool is cancelled. A sync tool cannot be stopped: it runs on in its
            thread, and its result is dropped.
        name: The name of this instance, if a stack has several.

    Raises:
        ValueError: An argument has an unusable value.
        TypeError: `tools` or `idempotent_tools` holds something that is neither a name nor a tool.

    >>> ToolRetryMiddleware(tools=["search"], retry_on=(ConnectionError, TimeoutError)).tool_names
    frozenset({'search'})
    """

    guard_settings = ("tools", "retry_on", "idempotent_tools", "timeout")
    ordering = Ordering(reads=("tool_errors",))

    def __init__(
        self,
        *,
        max_retries: int = 2,
        tools: Sequence[str | BaseTool] | None = None,
        retry_on: RetryOn = default_retry_on,
        on_failure: OnFailure = "continue",
        backoff_factor: float = 2.0,
        initial_delay: float = 1.0,
        max_delay: float = 60.0,
        jitter: bool = True,
        idempotent_tools: Sequence[str | BaseTool] | None = None,
        timeout: float | None = None,
        name: str | None = None,
    ) -> None:
        waits = (backoff_factor, initial_delay, max_delay, jitter)
        super().__init__(max_retries, retry_on, on_failure, *waits, name)
        check_number("timeout", timeout, unit="seconds")
        if timeout == 0:
            raise ValueError("timeout must be more than 0, got 0. Leave it out for no timeout.")
        self.tool_names = tool_names(tools)
        self.idempotent_tools = tool_names(idempotent_tools, "idempotent_tools") or frozenset()
        self.expected_tools = (self.tool_names or frozenset()) | self.idempotent_tools
        self.timeout = timeout
        self._copies: dict[str, tuple[BaseTool, BaseTool]] = {}

    def around_tool(self, request: ToolCallRequest) -> Flow[ToolMessage | Command[Any]]:
        """Run the call until there is a result, or no attempt is left."""
        call = request.tool_call
        if self.tool_names is not None and call["name"] not in self.tool_names:
            result: ToolMessage | Command[Any] = yield request
            return result

        def reported(error: Exception, attempts: int, text: str) -> ToolMessage:
            if self.on_failure == "continue":
                record_failure(call["id"], error)
            return error_result(call, text)

        # Inside of a OnceMiddleware, which would not see a repeated call, its policy holds.
        policy = on_unknown(request.runtime)
        idempotent = call["name"] in self.idempotent_tools if policy is None else policy == "rerun"
        if self.timeout is not None and isinstance(tool := request.tool, BaseTool):
            previous = self._copies.get(tool.name)
            # A layer may bring another tool of the same name with each request. A copy is kept,
            # because reading signatures is slow.
            if previous is None or previous[0] is not tool:
                previous = self._copies[tool.name] = tool, _limited(tool, self.timeout)
            request = request.override(tool=previous[1])
        once = {"idempotent": idempotent, "is_once": policy is not None}
        return (yield from self._retry(request, call["name"], _ADVICE, reported, **once))


def _limited(tool: BaseTool, seconds: float) -> BaseTool:
    """A copy of a tool that raises TimeoutError if there is no result in time."""
    too_late = f"no result after {seconds:g} seconds"

    def invoke(*args: Any, **kwargs: Any) -> Any:
        # A call that takes too long runs on in its thread.
        future = in_thread(partial(tool.invoke, *args, **kwargs), f"{tool.name} with a timeout")
        if wait([future], seconds).not_done:
            raise TimeoutError(too_late)
        return future.result()

    async def ainvoke(*args: Any, **kwargs: Any) -> Any:
        try:
            async with asyncio.timeout(seconds) as limit:
                return await tool.ainvoke(*args, **kwargs)
        except TimeoutError:
            # The tool itself may raise a TimeoutError, too.
            if not limit.expired():
                raise
            raise TimeoutError(too_late) from None

    return tool_calling(tool, invoke, ainvoke)
