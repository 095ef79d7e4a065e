"""AgentMiddleware: the names and signatures of hooks, layers and flows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from inspect import Parameter, isgeneratorfunction, signature
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Never, TypeAlias, TypeVar, get_args
from weakref import WeakKeyDictionary

from agent_factory.errors import ArgumentError, describe, raise_all, unknown_argument
from agent_factory.hooks.flows import arun, forms_of, run
from agent_factory.hooks.ordering import Ordering
from agent_factory.types import AgentState, ContextT, JumpTo, ModelRequest, ResponseT, StateT

if TYPE_CHECKING:
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime
    from langgraph.types import Command, TracePolicy

    from agent_factory.errors import SpecError
    from agent_factory.hooks.flows import Flow
    from agent_factory.hooks.guards import MessageGuard
    from agent_factory.topology.declarations import ToolGuard, UsageLimit
    from agent_factory.topology.model import Tool
    from agent_factory.types import ModelCallResult, ModelResponse

    HookResult = dict[str, Any] | Command[Any] | None
    """State update of a hook."""

    HookReturn = HookResult | Flow[HookResult]
    """State update, or a flow whose result is a state update."""

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

NODE_HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
"""Names of the hooks that run as nodes, in the order of a run."""


class AgentMiddleware(Generic[StateT, ContextT, ResponseT]):
    """Base class of middleware. Subclass it and define the hooks, layers or flows you need.

    - Node hooks `before_agent`, `before_model`, `after_model`, `after_agent` take the state and
      the runtime, and return a state update or None.
    - Layers `wrap_model_call`, `wrap_tool_call` take the request and a handler, and decide
      whether, when and with which request to call the handler.
    - Flows `around_model`, `around_tool` are layers that are written once for sync and async runs.
      A node hook that is a generator is a flow, too.
    - The flow `around_stream` changes answers chunk by chunk.
    - The flow `around_agent` is a layer around a whole run.

    Hooks and layers have variants for async runs, whose names begin with `a`. A hook may also take
    `config`, `store` and `writer`, as a LangGraph node may.

    The class of a hook that is a flow has both variants, each of which runs the flow. So callers
    and subclasses use such a hook as any other: `super().before_model(state, runtime)` returns the
    update.

    A subclass may override either form of a layer, and the form of the most derived class runs: an
    override of the sync or the async form replaces both. Where a class defines a flow, its wraps
    run the flow, so a subclass or a test can call `super().wrap_model_call(request, handler)`.

    The type parameters are the state, the context and the structured response; all have defaults.

    The first middleware of a list is the outermost: before hooks run in the order of the list,
    after hooks in reverse.

    Args:
        name: Name of this instance, if a stack has several of a class. Default: the class name. A
            subclass with its own `__init__` need not call `super().__init__`.

    Attributes:
        state_schema: TypedDict that extends AgentState with the keys of this middleware.
        tools: Tools to add to the agent.
        trace_policy: Contents of the middleware's spans; None means the process-wide default.
        transformers: Stream transformers to add to the agent.
        ordering: Position in a stack; checked when an agent is built.
        expected_tools: Names or patterns of tools for which the middleware is configured. A build
            fails if a name is nearly the name of a tool (AF124), and warns of a missing tool
            (AF210).
        guards: Decisions about tool calls before they run, as `ToolGuard`s. The plan shows the
            decisions, and a build checks that no call bypasses them.
        guard_settings: Names of settings that keep data out, let calls run or limit them, such as
            the strategy of a redaction; "policy.judge" names an attribute of an attribute. Each
            plan holds these settings, and further settings on request.
        limits: The most that a run, a thread or a ledger may use, as `UsageLimit`s.
        most_attempts: Most calls inward of its layers for one call, such as for retries. The bounds
            of a plan multiply by this number.
        counts_attempts: Whether its layers run inside of all others, wherever the middleware stands
            in the list: for a limit, since a layer further out may call inward several times.
        needs_checkpointer: Whether the middleware depends on state between the runs of a thread.
        unused: Names of hooks, layers and flows of this class that do nothing as configured. The
            plan leaves them out, because each node costs a step in every run. A class that sets
            `unused` in `__init__` has `unused = ()` in its body: then a method that a subclass
            overrides is used all the same.
        keyed_by_name: Keys of the state with a dict in which each middleware has an entry under its
            name, merged by a function. After `create_agent(moved=...)`, an entry under a former
            name is found under the current name.
        message_guard: Filter of the messages of the agent, and of all output that shows them.
        kept_flows: Names of flows that a wrap of a subclass does not replace: the flow runs outside
            of the wrap. For a class that must not lose its layer, such as a limit.

    >>> class Greeter(AgentMiddleware):
    ...     def before_model(self, state, runtime):
    ...         return None
    >>> Greeter().name
    'Greeter'
    >>> Greeter(name="second").name
    'second'
    """

    state_schema: type[StateT] = AgentState  # type: ignore[assignment]  # the default of StateT
    tools: Sequence[BaseTool | Callable[..., object] | dict[str, Any]] = ()
    trace_policy: TracePolicy | None = None
    transformers: Sequence[Callable[[tuple[str, ...]], object]] = ()
    ordering: Ordering = Ordering()
    expected_tools: Collection[str] = ()
    guards: Sequence[ToolGuard] = ()
    guard_settings: Collection[str] = ()
    limits: Sequence[UsageLimit] = ()
    most_attempts: int = 1
    counts_attempts: bool = False
    needs_checkpointer: bool = False
    unused: Collection[str] = ()
    keyed_by_name: Collection[str] = ()
    kept_flows: Collection[str] = ()
    message_guard: MessageGuard | None = None

    def __init__(self, *, name: str | None = None) -> None:
        if name:
            self.name = str(name)
        if type(self).tools == ():  # instances may add to the list, so no two share a list
            self.tools = []

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for hook in NODE_HOOKS:
            names = (hook, f"a{hook}")
            # A base class need not be a middleware. A build refuses a class with both forms.
            body = next(vars(base) for base in cls.__mro__ if vars(base).keys() & names)
            flow = body.get(hook)
            if isgeneratorfunction(flow) and names[1] not in body:
                for name, form in zip(names, forms_of(flow), strict=True):
                    setattr(cls, name, form)

    # Type checkers read the arguments from `__init__`.
    if not TYPE_CHECKING:

        def __new__(cls, *args, **kwargs):
            if args or kwargs:
                _check_arguments(cls, args, kwargs)
            # A class may also derive from a class whose `__new__` takes the arguments.
            new = super().__new__
            return new(cls) if new is object.__new__ else new(cls, *args, **kwargs)

        __new__.__signature__ = signature(__init__)

        # Middleware of langchain 1.5 are generic, so programs give types to a class without
        # parameters.
        def __class_getitem__(cls, types):
            return super().__class_getitem__(types) if cls.__parameters__ else cls

    # Not set by __init__, which a subclass need not call. An instance can set the name.
    @cached_property
    def name(self) -> str:
        """Name of the nodes and spans of this middleware, unique within an agent."""
        return type(self).__name__

    def build_findings(self, tools: Sequence[Tool]) -> Iterable[SpecError]:
        """Findings of a build about this configuration: a `BuildWarning`, or an error.

        Args:
            tools: The tools in the plan; empty for the plan of a stack, whose agent is not known.
        """
        return ()

    def counted_since(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the update of the state by which a fork of a thread has all counts.

        Args:
            before: The values at the checkpoint from which the run begins.
            now: The values at the end of the thread.
        """
        return {}

    def before_agent(self, state: StateT, runtime: Runtime[ContextT]) -> HookReturn:
        """Run once when a run starts; return a state update or None."""

    async def abefore_agent(self, state: StateT, runtime: Runtime[ContextT]) -> HookResult:
        """`before_agent` for async runs."""

    def before_model(self, state: StateT, runtime: Runtime[ContextT]) -> HookReturn:
        """Run before each model call; return a state update or None."""

    async def abefore_model(self, state: StateT, runtime: Runtime[ContextT]) -> HookResult:
        """`before_model` for async runs."""

    def after_model(self, state: StateT, runtime: Runtime[ContextT]) -> HookReturn:
        """Run after each model call, before its tool calls; return a state update or None."""

    async def aafter_model(self, state: StateT, runtime: Runtime[ContextT]) -> HookResult:
        """`after_model` for async runs."""

    def after_agent(self, state: StateT, runtime: Runtime[ContextT]) -> HookReturn:
        """Run once when a run ends; return a state update or None."""

    async def aafter_agent(self, state: StateT, runtime: Runtime[ContextT]) -> HookResult:
        """`after_agent` for async runs."""

    def wrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], ModelResponse[ResponseT]],
    ) -> ModelCallResult[ResponseT]:
        """Wrap each model call; call `handler(request)` never, once or several times.

        `except Exception` around the handler also catches LangGraph's control flow, because an
        interrupt is an Exception. Re-raise `langgraph.errors.GraphBubbleUp`, or write a flow,
        into which control flow is never thrown.
        """
        # A flow of `kept_flows` runs as a layer around the wrap of a subclass, and would run twice
        # through `super()`.
        if self._has_wrap_inside("model"):
            return handler(request)
        return run(self.around_model(request), handler)

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]],
    ) -> ModelCallResult[ResponseT]:
        """`wrap_model_call` for async runs; await the handler."""
        if self._has_wrap_inside("model"):
            return await handler(request)
        return await arun(self.around_model(request), handler)

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Wrap each tool call; `request.tool` is None for a tool that is not registered."""
        if self._has_wrap_inside("tool"):
            return handler(request)
        return run(self.around_tool(request), handler)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """`wrap_tool_call` for async runs; await the handler."""
        if self._has_wrap_inside("tool"):
            return await handler(request)
        return await arun(self.around_tool(request), handler)

    def around_model(self, request: ModelRequest[ContextT]) -> Flow[ModelCallResult[ResponseT]]:
        """Wrap each model call; `response = yield request` calls the inner layer.

        The flow serves sync and async runs, and may also yield `Sleep(seconds)` and
        `Invoke(runnable, input)`.
        """
        raise self._not_implemented("model")

    def around_tool(self, request: ToolCallRequest) -> Flow[ToolMessage | Command[Any]]:
        """Wrap each tool call; `message = yield request` calls the inner layer."""
        raise self._not_implemented("tool")

    def around_stream(self, request: ModelRequest[ContextT]) -> Flow[None]:
        """Change the answer of a model, chunk by chunk, before anybody sees the answer.

        `chunk = yield NextChunk()` receives the next chunk, an `AIMessageChunk`, and None at the
        end; `yield chunk` lets a chunk pass. Chunks that pass are streamed and kept. An answer that
        does not stream arrives whole, as an `AIMessage`, and a message must pass. The flow may also
        yield `Sleep`, `Invoke` and `Together`. Models use no cache of LangChain then.
        """
        raise NotImplementedError(f"{type(self).__name__} has no flow of chunks.")

    def around_agent(self, state: StateT, *_: Any, **injected: Any) -> Flow[dict[str, Any] | None]:
        """Wrap a whole run, from the input to the end or to the next pause.

        `result = yield state` runs the agent, once, and returns the final state. At a start,
        `state` is the input of the run, with its messages as objects; when the run goes on after a
        pause, the stored state. The flow may pass on `{**state, "key": value}`, and returns None,
        the state, or an update that is written to the state last.

        - An exception of the run is raised at the `yield`. A flow that handles the exception and
          returns ends the run with its result.
        - At a pause, `RunPaused` is raised there: `finally` and `with` release resources while a
          person decides. When the run goes on, a new call of the method begins.
        - A cancellation, and the end of a stream that is not read to its end, are raised there
          too. No flow can suppress a cancellation or a pause.

        The flow may also take `runtime`, `config`, `store` and `resumed` by name; `resumed` is
        whether the run goes on in the middle of a thread. The flow may also yield `Sleep(seconds)`,
        `Invoke(runnable, input)` and `Task(name, function)`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no layer around a run.")

    def _has_wrap_inside(self, call: str) -> bool:
        """Return True if the agent runs the flow outside of a subclass's wrap."""
        wraps = (f"wrap_{call}_call", f"awrap_{call}_call")
        return f"around_{call}" in self.kept_flows and any(
            getattr(type(self), name) is not getattr(AgentMiddleware, name) for name in wraps
        )

    def _not_implemented(self, call: str) -> NotImplementedError:
        return NotImplementedError(
            f"{type(self).__name__} has no layer of this form around {call} calls. Define "
            f"around_{call}, or both wrap_{call}_call and awrap_{call}_call."
        )


class _Parameters(NamedTuple):
    """Parameters of a constructor, without the objects of a signature, which a cache would keep."""

    names: tuple[str, ...]  # parameters with a name, those by position first
    positions: int
    any_name: bool
    any_position: bool


_parameters: WeakKeyDictionary[Callable[..., None], _Parameters] = WeakKeyDictionary()
"""Parameters by constructor: to read a signature takes longer than most constructors."""


def _check_arguments(cls: type[object], args: Sequence[object], names: Collection[str]) -> None:
    """Raise an ArgumentError for an argument that the constructor of a middleware does not take.

    Python's TypeError would not say how to correct the call.
    """
    constructor: Callable[..., None] = cls.__init__
    if (parameters := _parameters.get(constructor)) is None:
        kinds = {p.name: p.kind for p in [*signature(constructor).parameters.values()][1:]}
        by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        parameters = _parameters[constructor] = _Parameters(
            tuple(name for name, kind in kinds.items() if kind in by_name),
            sum(kind <= Parameter.POSITIONAL_OR_KEYWORD for kind in kinds.values()),
            Parameter.VAR_KEYWORD in kinds.values(),
            Parameter.VAR_POSITIONAL in kinds.values(),
        )
    if not parameters.any_name:
        unknown_names = [name for name in names if name not in parameters.names]
        raise_all([unknown_argument(n, cls.__name__, parameters.names) for n in unknown_names])
    if len(args) > parameters.positions and not parameters.any_position:
        argument = args[parameters.positions]
        left = [n for n in parameters.names[parameters.positions :] if n not in names]
        reason = f"takes no argument {parameters.positions + 1} by position, got "
        hint = f"Write {left[0]}=..., if that is meant." if left else ""
        raise ArgumentError(cls.__name__, f"{reason}{describe(argument)}.", hint)


Middleware: TypeAlias = AgentMiddleware[Any, Any]
"""Middleware for any state and any context."""


class FunctionMiddleware(AgentMiddleware[Any, Any]):
    """Middleware made of a function by a decorator."""


def jumps_among(value: Any) -> list[str]:
    """Return the jump targets in a value; empty if the value has something else."""
    targets = list(value) if isinstance(value, list | tuple | set) else [value]
    return targets if all(target in get_args(JumpTo) for target in targets) else []


def hook_config(
    *misplaced: Never, can_jump_to: Sequence[JumpTo] | None = None
) -> Callable[[FunctionT], FunctionT]:
    """Declare the jumps of a hook, so that the graph gets an edge for each.

    Args:
        misplaced: Nothing may be given by position.
        can_jump_to: Any of "tools", "model" and "end".

    Raises:
        ArgumentError: `can_jump_to` is given without its name, or the decorated object is not a
            function.

    >>> class Stopper(AgentMiddleware):
    ...     @hook_config(can_jump_to=["end"])
    ...     def before_model(self, state, runtime):
    ...         return {"jump_to": "end"} if len(state["messages"]) > 100 else None
    """

    # `@hook_config(["end"])` would be a TypeError of Python, without the correct call.
    if misplaced:
        argument: object = misplaced[0]
        reason = f"must be given by name, got {describe(argument)}."
        hint = f"Write `@hook_config(can_jump_to={jumps_among(argument) or ['end']})`."
        raise ArgumentError("can_jump_to", reason, hint)

    def declare(function: FunctionT) -> FunctionT:
        # Jumps are read from methods: on a class or on a middleware nothing would read them.
        if isinstance(function, type) or not callable(function):
            targets = list(can_jump_to or ["end"])
            hook = next((h for h in NODE_HOOKS if {h, f"a{h}"} & vars(type(function)).keys()), None)
            reason = f"must decorate a function or a method, got {describe(function)}."
            hint = "Write it above the method that jumps."
            if hook is not None:  # of a decorator, which has made a middleware of the function
                hint = f"Write `@{hook}(can_jump_to={targets})`, without hook_config."
            raise ArgumentError("hook_config", reason, hint)
        # LangChain's hook_config sets the same attribute, so its hooks are read in the same way.
        function.__can_jump_to__ = can_jump_to or ()  # type: ignore[attr-defined]
        return function

    return declare
