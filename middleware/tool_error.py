"""Report the exception of a tool to the model, instead of ending the run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

from agent_factory import (
    AgentFactoryError,
    AgentState,
    Flow,
    Invoke,
    Ordering,
    ToolCallRequest,
    TurnError,
)
from agent_factory.errors import sentence

from ._shared.errors import (
    UNKNOWN_ADVICE,
    UNKNOWN_OUTCOME,
    checked_text,
    format_error,
    is_async,
    outcome_unknown,
    record_failure,
    recorded_failures,
)
from ._shared.invocable import Called
from ._shared.messages import error_result, tool_names
from ._shared.payload_free import PayloadFree
from ._shared.validation import check_value

__all__ = ["ToolErrorMiddleware"]

Result = ToolMessage | Command[Any]
Answer = str | list[str | dict[str, Any]] | ToolMessage | None
OnError = Callable[[Exception, ToolCallRequest], Answer]
AOnError = Callable[[Exception, ToolCallRequest], Awaitable[Answer]]


class ToolErrorMiddleware(PayloadFree[AgentState]):
    """Turns the exception of a tool into a result with status "error" for the model.

    Outside of a ToolRetryMiddleware, it handles the last failure, also with `on_failure="continue"`
    of the retries. Without a handler, or if the handler lets the failure propagate, the report of
    the retries is the result.

    Interrupts, handoffs, cancellation and KeyboardInterrupt propagate. So do this library's own
    errors (`AgentFactoryError`), such as a limit that should end the run or a layer that returned
    an invalid value: no tool raised them, and no model could correct them.

    Args:
        on_error: A function of the exception and the request that returns the result for the model:
            a string, a list of content blocks, or a ToolMessage, which keeps its status and becomes
            the result of this call. The function returns None, or raises the exception again, to
            let it propagate. An asynchronous run calls the function in a thread. Default: the type
            and text of the exception, without a traceback, and advice to the model; for a timeout,
            that the call may have run.
        aon_error: The same as a coroutine function, for asynchronous runs. With `aon_error` alone,
            the agent can only run asynchronously.
        tools: The tools whose exceptions are handled, as names or BaseTool instances; None: all.
        name: The name of this instance, if a stack has several.

    Raises:
        ValueError: `on_error` is not a plain function, or `aon_error` not a coroutine function.
        TypeError: `tools` holds something that is neither a name nor a tool.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> def divide(a: float, b: float) -> float:
    ...     "Divide a by b."
    ...     return a / b
    >>> call = [{"name": "divide", "args": {"a": 1, "b": 0}}]
    >>> agent = create_agent(
    ...     ScriptedChatModel([call, "It has no answer."]),
    ...     [divide],
    ...     middleware=[ToolErrorMiddleware(lambda error, request: f"No: {error}.")],
    ... )
    >>> agent.invoke({"messages": "1 / 0?"})["messages"][2].text
    'No: float division by zero.'
    """

    ordering = Ordering(before=("ToolRetryMiddleware",), reads=("tool_errors",))

    def __init__(
        self,
        on_error: OnError | None = None,
        *,
        aon_error: AOnError | None = None,
        tools: Sequence[str | BaseTool] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        arguments = (("on_error", on_error, False), ("aon_error", aon_error, True))
        for argument, handler, is_coroutine in arguments:
            is_function = callable(handler) and not isinstance(handler, type)
            fits = handler is None or (is_function and is_async(handler) == is_coroutine)
            kind = "an `async def` function" if is_coroutine else "a plain function"
            hint = "Pass a plain function as on_error, a coroutine function as aon_error."
            expected = f"{kind} of the exception and the request"
            check_value(argument, handler, fits, expected, hint)
        self.tool_names = tool_names(tools)
        self.expected_tools = self.tool_names or ()
        self.on_error, self.aon_error = on_error, aon_error

    def around_tool(self, request: ToolCallRequest) -> Flow[Result]:
        """Run the call, and turn an exception into its result."""
        call = request.tool_call
        if self.tool_names is not None and call["name"] not in self.tool_names:
            return cast("Result", (yield request))
        if self.on_error is None and self.aon_error is not None:
            # Refuses a synchronous run before the first tool call, not only after a failure.
            yield Invoke(Called(self._refuse_sync, async_form=_allow_async), ())
        try:
            with recorded_failures() as failures:
                result: Result = yield request
        # Errors of this library are about the run, such as a limit, and not about the tool.
        except AgentFactoryError:
            raise
        except Exception as error:
            return (yield from self._handled(error, request))
        # A ToolRetryMiddleware further in reports its last failure to the model.
        failure = failures.get(call["id"])
        is_report = isinstance(result, ToolMessage) and result.status == "error"
        # The default text would say less than the report, which counts the attempts.
        has_handler = self.on_error is not None or self.aon_error is not None
        if failure is None or not is_report or not has_handler:
            return result
        try:
            return (yield from self._handled(failure, request))
        except Exception as error:
            # If the handler raises the failure itself, the report of the retry stands.
            if error is not failure:
                raise
            record_failure(call["id"], failure)  # for a layer further out
            return result

    def _handled(self, error: Exception, request: ToolCallRequest) -> Flow[Result]:
        call = request.tool_call
        function = self.on_error or self.aon_error or _default_text
        answer = yield Invoke(Called(function, async_form=self.aon_error), (error, request))
        if answer is None:
            raise error
        if isinstance(answer, ToolMessage):
            fields = {"tool_call_id": call["id"], "name": answer.name or call["name"]}
            return answer.model_copy(update=fields)
        if not isinstance(answer, list):
            answer = checked_text(self.name, "on_error", answer)
        return error_result(call, answer)

    def _refuse_sync(self) -> None:
        raise TurnError(
            self.name,
            "has an aon_error and no on_error, so a synchronous run could not report the error of "
            "a tool.",
            "Pass on_error as well, or run the agent with ainvoke or astream.",
        )


async def _allow_async() -> None:
    pass


def _default_text(error: Exception, request: ToolCallRequest) -> str:
    failed = sentence(f"{request.tool_call['name']} failed with {format_error(error)}")
    advice = (
        "If the arguments are the cause, correct them and call it again; otherwise try another "
        "way, or say what could not be done."
    )
    if outcome_unknown(error):
        advice = f"{UNKNOWN_OUTCOME} {UNKNOWN_ADVICE}"
    return f"{failed}\n{advice}"
