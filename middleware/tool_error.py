"""Tell the model of a tool that raised, in words of one's own, instead of ending the run.

The handler may exist in both colours. The flow asks it as it would ask a model, by `Invoke`, so
that the driver of the run picks the colour and the layer is still written once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, cast

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

from agent_factory import (
    AgentFactoryError,
    AgentMiddleware,
    AgentState,
    Invoke,
    Ordering,
    ToolCallRequest,
    TurnError,
)
from agent_factory.middleware._shared.errors import checked_text, format_error, is_async
from agent_factory.middleware._shared.messages import tool_names

__all__ = ["ToolErrorMiddleware"]

Result = ToolMessage | Command[Any]
Told = str | ToolMessage
OnError = Callable[[Exception, ToolCallRequest], Told]
AOnError = Callable[[Exception, ToolCallRequest], Awaitable[Told]]


class ToolErrorMiddleware(AgentMiddleware[AgentState[Any], Any]):
    """Turns the exception of a tool into a result that the model reads, with status "error".

    Interrupts, handoffs, cancellation and KeyboardInterrupt pass, and so do the errors that this
    library names (`AgentFactoryError`): a limit that should end the run, a layer that returned
    junk. They are no tool's errors, and no model could mend them.

    Args:
        on_error: What the model is told: a function of the exception and the request that returns
            a text, or a ToolMessage (taken as it is, status included, as the result of this call).
            It may raise the exception again to let it pass. In an asynchronous run it is called
            in a thread. Default: the exception's type and message, without a traceback, and what
            the model can do.
        aon_error: The same as a coroutine, for asynchronous runs. Without an `on_error` beside it
            the agent can only run asynchronously.
        tools: The tools it is about, as names or BaseTool instances; None: all.
        name: Tells several instances apart.

    Raises:
        ValueError: A handler that is no function, or of the other colour.
        TypeError: `tools` holds something that is neither a name nor a tool.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> def divide(a: float, b: float) -> float:
    ...     "Divide a by b."
    ...     return a / b
    >>> call = [{"name": "divide", "args": {"a": 1, "b": 0}}]
    >>> agent = create_agent(
    ...     ScriptedChatModel([call, "There is no answer."]),
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
        _check_handlers(on_error, aon_error)
        self.tool_names = tool_names(tools)
        self.expected_tools = self.tool_names or ()
        if aon_error is None:
            on_error = on_error or _tell
        self._handler = _Handler(on_error, aon_error)

    def around_tool(self, request: ToolCallRequest) -> Generator[Any, Any, Result]:
        """Runs the call; what it raises becomes its result."""
        if self.tool_names is not None and request.tool_call["name"] not in self.tool_names:
            return cast("Result", (yield request))
        if self._handler.sync is None:
            yield Invoke(_OnlyAsync(self.name), None)
        try:
            return cast("Result", (yield request))
        except AgentFactoryError:
            raise
        except Exception as error:
            told = yield Invoke(self._handler, (error, request))
            return self._as_message(told, request)

    def _as_message(self, told: Any, request: ToolCallRequest) -> ToolMessage:
        call = request.tool_call
        if isinstance(told, ToolMessage):
            own = {"tool_call_id": call["id"], "name": told.name or call["name"]}
            return told.model_copy(update=own)
        text = checked_text(self.name, "on_error", told)
        return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")


class _Handler:
    """Both colours of a handler, to be asked by `Invoke`.

    Args:
        sync: The plain function; None where there is only the other.
        a: The coroutine function, if there is one.
    """

    def __init__(self, sync: OnError | None, a: AOnError | None) -> None:
        self.sync = sync
        self.a = a

    def invoke(self, input: tuple[Exception, ToolCallRequest], config: Any = None) -> Any:
        assert self.sync  # without it, a synchronous run was refused before the tool was called
        return self.sync(*input)

    async def ainvoke(self, input: tuple[Exception, ToolCallRequest], config: Any = None) -> Any:
        if self.a is not None:
            return await self.a(*input)
        assert self.sync  # there is always one of the two
        return await asyncio.to_thread(self.sync, *input)


class _OnlyAsync:
    """Refuses a synchronous run before the first tool, not only once one has failed."""

    def __init__(self, owner: str) -> None:
        self.owner = owner

    def invoke(self, input: None, config: Any = None) -> None:
        raise TurnError(
            self.owner,
            "has an aon_error and no on_error, so no error of a tool could be told in a "
            "synchronous run.",
            "Give on_error as well, or run the agent with ainvoke or astream.",
        )

    async def ainvoke(self, input: None, config: Any = None) -> None:
        """An asynchronous run may go on."""


def _tell(error: Exception, request: ToolCallRequest) -> str:
    return (
        f"{request.tool_call['name']} failed with {format_error(error)}\nIf the arguments are the "
        "cause, correct them and call it again; else try another way, or say what could not be "
        "done."
    )


def _check_handlers(on_error: Any, aon_error: Any) -> None:
    for name, handler, wanted in (("on_error", on_error, False), ("aon_error", aon_error, True)):
        if handler is None:
            continue
        if not callable(handler) or isinstance(handler, type) or is_async(handler) != wanted:
            kind = "an `async def` function" if wanted else "a plain function"
            raise ValueError(
                f"{name} must be {kind} of the exception and the request, not {handler!r}. "
                "A plain function goes to on_error, a coroutine to aon_error."
            )
