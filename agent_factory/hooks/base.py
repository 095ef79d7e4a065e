"""AgentMiddleware: the names and signatures of hooks, layers and flows. No logic lives here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from agent_factory.hooks.ordering import Ordering
from agent_factory.types import (
    AgentState,
    ContextT,
    ExtendedModelResponse,
    JumpTo,
    ModelRequest,
    ModelResponse,
    StateT,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.tools import BaseTool
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime
    from langgraph.types import Command, TracePolicy

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class AgentMiddleware(Generic[StateT, ContextT]):
    """One concern of an agent. Subclass it and write the hooks, layers or flows you need.

    Node hooks `before_agent`, `before_model`, `after_model`, `after_agent` take the state and the
    runtime and return a state update or None. Layers `wrap_model_call`, `wrap_tool_call` take the
    request and a handler and decide whether, when and with what to call it. Each has an `a` twin
    for asynchronous runs. A flow, `around_model` or `around_tool`, is a layer written once for
    both.

    The first middleware of a list is the outermost: before hooks run in the order of the list,
    after hooks in reverse.

    Args:
        name: Tells several instances of one class apart. Default: the class name. A subclass
            with an `__init__` of its own need not call this one.

    Attributes:
        state_schema: A TypedDict that extends AgentState with the keys this middleware uses.
        tools: Tools it brings along.
        trace_policy: How its spans are recorded; None takes the process-wide default.
        transformers: Stream transformers it brings along.
        ordering: Where it belongs in a stack; checked when an agent is built.
        expected_tools: Names of tools it is set up for; one that the agent lacks is a finding.
        needs_checkpointer: It keeps or waits for something between runs of a thread.
        unused: Names of its own hooks, layers and flows that have nothing to do as it is set up.
            They are left out of the plan: each node costs a step of every run.

    >>> class Greeter(AgentMiddleware):
    ...     def before_model(self, state, runtime):
    ...         return None
    >>> Greeter().name
    'Greeter'
    >>> Greeter(name="second").name
    'second'
    """

    state_schema: type[StateT] = AgentState  # type: ignore[assignment]  # the default of StateT
    tools: Sequence[BaseTool | Callable[..., Any] | dict[str, Any]] = ()
    trace_policy: TracePolicy | None = None
    transformers: Sequence[Callable[[tuple[str, ...]], Any]] = ()
    ordering: Ordering = Ordering()
    expected_tools: Collection[str] = ()
    needs_checkpointer: bool = False
    unused: Collection[str] = ()

    def __init__(self, *, name: str | None = None) -> None:
        if name:
            self.name = str(name)

    @cached_property
    def name(self) -> str:
        """The name its nodes and spans carry: unique within an agent."""
        return type(self).__name__

    def before_agent(
        self, state: StateT, runtime: Runtime[ContextT]
    ) -> dict[str, Any] | Command[Any] | None:
        """Runs once, when a run starts. Returns a state update or None."""

    async def abefore_agent(
        self, state: StateT, runtime: Runtime[ContextT]
    ) -> dict[str, Any] | Command[Any] | None:
        """`before_agent` in an asynchronous run."""

    def before_model(
        self, state: StateT, runtime: Runtime[ContextT]
    ) -> dict[str, Any] | Command[Any] | None:
        """Runs before each call of the model. Returns a state update or None."""

    async def abefore_model(
        self, state: StateT, runtime: Runtime[ContextT]
    ) -> dict[str, Any] | Command[Any] | None:
        """`before_model` in an asynchronous run."""

    def after_model(
        self, state: StateT, runtime: Runtime[ContextT]
    ) -> dict[str, Any] | Command[Any] | None:
        """Runs after each call of the model, before its tool calls. Returns an update or None."""

    async def aafter_model(
        self, state: StateT, runtime: Runtime[ContextT]
    ) -> dict[str, Any] | Command[Any] | None:
        """`after_model` in an asynchronous run."""

    def after_agent(
        self, state: StateT, runtime: Runtime[ContextT]
    ) -> dict[str, Any] | Command[Any] | None:
        """Runs once, when a run ends. Returns a state update or None."""

    async def aafter_agent(
        self, state: StateT, runtime: Runtime[ContextT]
    ) -> dict[str, Any] | Command[Any] | None:
        """`after_agent` in an asynchronous run."""

    def wrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], ModelResponse[Any]],
    ) -> ModelResponse[Any] | AIMessage | ExtendedModelResponse[Any]:
        """Wraps each call of the model; call `handler(request)` never, once or several times.

        `except Exception` around the handler also catches LangGraph's control flow (an interrupt
        is an Exception): let `langgraph.errors.GraphBubbleUp` pass, or write a flow, which never
        sees it.
        """
        raise NotImplementedError

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | AIMessage | ExtendedModelResponse[Any]:
        """`wrap_model_call` in an asynchronous run; await the handler."""
        raise NotImplementedError

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Wraps each tool call; `request.tool` is None for a tool known only at run time."""
        raise NotImplementedError

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """`wrap_tool_call` in an asynchronous run; await the handler."""
        raise NotImplementedError

    def around_model(
        self, request: ModelRequest[ContextT]
    ) -> Generator[Any, Any, ModelResponse[Any] | AIMessage | ExtendedModelResponse[Any]]:
        """A model layer for sync and async runs: `response = yield request` calls inward.

        It may also yield `Sleep(seconds)` and `Invoke(runnable, input)`.
        """
        raise NotImplementedError

    def around_tool(
        self, request: ToolCallRequest
    ) -> Generator[Any, Any, ToolMessage | Command[Any]]:
        """A tool layer for sync and async runs: `message = yield request` calls inward."""
        raise NotImplementedError


def hook_config(*, can_jump_to: Sequence[JumpTo] | None = None) -> Callable[[FunctionT], FunctionT]:
    """Declare where a hook may jump, so that the plan has an edge for it.

    Args:
        can_jump_to: Any of "tools", "model" and "end".

    >>> class Stopper(AgentMiddleware):
    ...     @hook_config(can_jump_to=["end"])
    ...     def before_model(self, state, runtime):
    ...         return {"jump_to": "end"} if len(state["messages"]) > 100 else None
    """

    def declare(function: FunctionT) -> FunctionT:
        function.__can_jump_to__ = can_jump_to or ()  # type: ignore[attr-defined]
        return function

    return declare
