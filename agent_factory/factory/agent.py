"""create_agent: arguments in, a compiled graph out. The rooms below do the work."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, overload

from langchain_core.runnables import RunnableConfig
from langgraph.cache.base import BaseCache
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore

from agent_factory.errors import AgentFactoryWarning, ArgumentError, SpecError, describe, raise_all
from agent_factory.factory.arguments import make_spec
from agent_factory.factory.validation import UNKNOWN
from agent_factory.factory.wiring import AgentGraph, wire
from agent_factory.fused.agent import FusedAgent
from agent_factory.fused.planning import plan_fusion
from agent_factory.runtime.spec import AgentSpec
from agent_factory.tools.error_handling import DEFAULT_ERRORS
from agent_factory.topology.topology import Topology

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import SystemMessage
    from langchain_core.tools import BaseTool
    from langgraph.types import Checkpointer

    from agent_factory.compat.langchain import AnyMiddleware
    from agent_factory.structured_output.strategies import ResponseFormat
    from agent_factory.types import (
        AgentState,
        Checkpoints,
        ContextT,
        InputAgentState,
        OutputAgentState,
        ResponseT,
    )

RECURSION_LIMIT = 9_999
"""Super-steps a run may take. High on purpose: a run should meet limits that explain themselves,
such as ModelCallLimitMiddleware, and not LangGraph's. The number is langchain's."""

# Says in traces who built the agent, under the key LangSmith has for it. It also spares time:
# without any metadata LangGraph walks a chain of empty maps at every task.
_METADATA = {"ls_integration": "agent_factory"}

CONFIG: RunnableConfig = {"recursion_limit": RECURSION_LIMIT, "metadata": _METADATA}
"""What runs of an agent are given where their caller gives nothing else."""


_SERVICES: dict[str, tuple[type[Any], ...]] = {
    # True and False are a subgraph's word on its parent's checkpointer.
    "checkpointer": (BaseCheckpointSaver, bool),
    "store": (BaseStore,),
    "cache": (BaseCache,),
    "transformers": (Sequence,),
}


@overload
def create_agent(
    model: str | BaseChatModel,
    tools: Sequence[BaseTool | Callable[..., Any] | dict[str, Any]] | None = None,
    *,
    system_prompt: str | SystemMessage | None = None,
    middleware: Sequence[AnyMiddleware] = (),
    response_format: None = None,
    state_schema: type[AgentState[Any]] | None = None,
    context_schema: type[ContextT] | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    interrupt_before: Sequence[str] | Literal["*"] | None = None,
    interrupt_after: Sequence[str] | Literal["*"] | None = None,
    debug: bool = False,
    name: str | None = None,
    cache: BaseCache[Any] | None = None,
    transformers: Sequence[Callable[[tuple[str, ...]], Any]] | None = None,
    handle_tool_errors: Any = DEFAULT_ERRORS,
    strict: bool = False,
    ignore: Collection[str] = (),
    decisions: Any = None,
    checkpoints: Checkpoints = "full",
    fused: bool | Literal["turn"] = False,
) -> CompiledStateGraph[AgentState[Any], ContextT, InputAgentState, OutputAgentState[Any]]: ...
@overload
def create_agent(
    model: str | BaseChatModel,
    tools: Sequence[BaseTool | Callable[..., Any] | dict[str, Any]] | None = None,
    *,
    system_prompt: str | SystemMessage | None = None,
    middleware: Sequence[AnyMiddleware] = (),
    response_format: ResponseFormat[ResponseT] | type[ResponseT],
    state_schema: type[AgentState[Any]] | None = None,
    context_schema: type[ContextT] | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    interrupt_before: Sequence[str] | Literal["*"] | None = None,
    interrupt_after: Sequence[str] | Literal["*"] | None = None,
    debug: bool = False,
    name: str | None = None,
    cache: BaseCache[Any] | None = None,
    transformers: Sequence[Callable[[tuple[str, ...]], Any]] | None = None,
    handle_tool_errors: Any = DEFAULT_ERRORS,
    strict: bool = False,
    ignore: Collection[str] = (),
    decisions: Any = None,
    checkpoints: Checkpoints = "full",
    fused: bool | Literal["turn"] = False,
) -> CompiledStateGraph[
    AgentState[ResponseT], ContextT, InputAgentState, OutputAgentState[ResponseT]
]: ...
@overload
def create_agent(
    model: str | BaseChatModel,
    tools: Sequence[BaseTool | Callable[..., Any] | dict[str, Any]] | None = None,
    *,
    system_prompt: str | SystemMessage | None = None,
    middleware: Sequence[AnyMiddleware] = (),
    response_format: dict[str, Any] | UnionType,
    state_schema: type[AgentState[Any]] | None = None,
    context_schema: type[ContextT] | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    interrupt_before: Sequence[str] | Literal["*"] | None = None,
    interrupt_after: Sequence[str] | Literal["*"] | None = None,
    debug: bool = False,
    name: str | None = None,
    cache: BaseCache[Any] | None = None,
    transformers: Sequence[Callable[[tuple[str, ...]], Any]] | None = None,
    handle_tool_errors: Any = DEFAULT_ERRORS,
    strict: bool = False,
    ignore: Collection[str] = (),
    decisions: Any = None,
    checkpoints: Checkpoints = "full",
    fused: bool | Literal["turn"] = False,
) -> CompiledStateGraph[AgentState[Any], ContextT, InputAgentState, OutputAgentState[Any]]: ...
def create_agent(
    model: str | BaseChatModel,
    tools: Sequence[BaseTool | Callable[..., Any] | dict[str, Any]] | None = None,
    *,
    system_prompt: str | SystemMessage | None = None,
    middleware: Sequence[AnyMiddleware] = (),
    response_format: Any = None,
    state_schema: type[AgentState[Any]] | None = None,
    context_schema: type[Any] | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    interrupt_before: Sequence[str] | Literal["*"] | None = None,
    interrupt_after: Sequence[str] | Literal["*"] | None = None,
    debug: bool = False,
    name: str | None = None,
    cache: BaseCache[Any] | None = None,
    transformers: Sequence[Callable[[tuple[str, ...]], Any]] | None = None,
    handle_tool_errors: Any = DEFAULT_ERRORS,
    strict: bool = False,
    ignore: Collection[str] = (),
    decisions: Any = None,
    checkpoints: Checkpoints = "full",
    fused: bool | Literal["turn"] = False,
) -> Any:
    """Build an agent: a model in a loop with tools, and a stack of middleware around it.

    Args:
        model: A chat model, or "provider:name" where langchain is installed.
        tools: Functions with a docstring, BaseTools, or provider tools as dicts.
        system_prompt: What the model is told first.
        middleware: The stack; the first is the outermost.
        response_format: A schema or a strategy; the answer arrives in `structured_response`.
        state_schema: A TypedDict that extends AgentState with keys of your own.
        context_schema: The type of `context`, the data of one run (a user's id, say).
        checkpointer: Keeps threads. Reviews and limits for a thread need one.
        store: Keeps data across threads.
        interrupt_before: Nodes before which a run pauses, or "*" for all.
        interrupt_after: Nodes after which a run pauses, or "*" for all.
        debug: Log every step.
        name: The agent's name, written on what it says.
        cache: Keeps results of nodes that have a cache policy.
        transformers: Stream transformers; those of the middleware come before them.
        handle_tool_errors: What a failing tool leads to, in ToolNode's forms. Default: bad
            arguments are told to the model, a tool that raises ends the run. True tells the model
            of every error, so that the run goes on.
        strict: Raise what is only likely wrong, too, instead of warning of it.
        ignore: Codes of findings to leave unsaid, such as ["AF204"]. docs/checks.md lists them.
        decisions: Records what hooks, layers and routes decide: True sends custom stream events, a
            function takes each `Decision`, and a list or a `DecisionLog` several do.
        checkpoints: What a checkpoint holds of the messages: "full", all of them, or "delta", what
            was written since the one before. Long threads want "delta": see docs/checkpoints.md.
        fused: Take the hooks before the model in one step, and those after it in another, where
            nobody watches the run: with many middleware that is several times as quick. "turn"
            takes the model's call with them. Without a checkpointer all of a run is one step. See
            docs/fused.md.

    Returns:
        A compiled LangGraph graph: invoke, stream and inspect it like any other.

    Raises:
        SpecError: Something cannot be built; with several mistakes, all of them in `.errors`.
        ImportError: The model is a string and langchain is not installed.

    Warns:
        AgentFactoryWarning: The stack can be built and is likely wrong; `warnings` says how.

    >>> from agent_factory.testing import ScriptedChatModel
    >>> def add(a: int, b: int) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> model = ScriptedChatModel([[{"name": "add", "args": {"a": 2, "b": 3}}], "It is 5."])
    >>> agent = create_agent(model, [add])
    >>> agent.invoke({"messages": [("user", "2 + 3?")]})["messages"][-1].text
    'It is 5.'
    """
    services = {
        "checkpointer": checkpointer,
        "store": store,
        "cache": cache,
        "transformers": transformers,
    }
    check_services(model, services)
    how = plan_fusion(fused, interrupt_before, interrupt_after)
    spec = make_spec(
        model=model,
        tools=tools,
        system_prompt=system_prompt,
        middleware=middleware,
        response_format=response_format,
        state_schema=state_schema,
        interrupts={"interrupt_before": interrupt_before, "interrupt_after": interrupt_after},
        handle_tool_errors=handle_tool_errors,
        name=name,
        checkpointer=checkpointer,
        strict=strict,
        ignore=ignore,
        decisions=decisions,
        checkpoints=checkpoints,
    )
    _tell(spec)
    brought = [transformer for member in spec.middleware for transformer in member.transformers]
    compiled: dict[str, Any] = {
        **services,
        "interrupt_before": node_names(interrupt_before),
        "interrupt_after": node_names(interrupt_after),
        "debug": debug,
        "name": name,
        "transformers": [*brought, *(transformers or ())],
    }
    agent = wire(spec, context_schema, how).compile(**compiled)
    if how is not None:
        quick = wire(spec, context_schema, how, quick=True).compile(**compiled)
        agent = FusedAgent.of(agent, quick)
    return agent.with_config(CONFIG)


def _tell(spec: AgentSpec) -> None:
    if spec.warnings:
        # Past this function and the one that builds, to the line of the user.
        warnings.warn(AgentFactoryWarning(spec.warnings), stacklevel=3)


def check_services(model: Any, services: Mapping[str, Any]) -> None:
    """Refuse services that are none.

    Raises:
        ArgumentError: One is of another kind, or there is no model.
    """
    wrong = [
        ArgumentError(name, f"{describe(value)} is no {kinds[0].__name__}.", "Give one, or None.")
        for name, kinds in _SERVICES.items()
        if (value := services[name]) is not None and not isinstance(value, kinds)
    ]
    if model is None:
        wrong.insert(0, ArgumentError("model", "None is no chat model.", "Give one."))
    raise_all(wrong)


def node_names(names: Sequence[str] | Literal["*"] | None) -> list[str] | Literal["*"] | None:
    """The nodes to pause at, as LangGraph takes them."""
    return names if names is None or names == "*" else list(names)


def plan_agent(
    tools: Sequence[Any] | None = None,
    *,
    system_prompt: str | SystemMessage | None = None,
    middleware: Sequence[AnyMiddleware] = (),
    response_format: Any = None,
    state_schema: type[Any] | None = None,
    context_schema: type[Any] | None = None,
    checkpointer: Checkpointer = UNKNOWN,
    store: BaseStore | None = None,
    interrupt_before: Sequence[str] | Literal["*"] | None = None,
    interrupt_after: Sequence[str] | Literal["*"] | None = None,
    debug: bool = False,
    name: str | None = None,
    cache: BaseCache[Any] | None = None,
    transformers: Sequence[Any] | None = None,
    handle_tool_errors: Any = DEFAULT_ERRORS,
    strict: bool = False,
    ignore: Collection[str] = (),
    decisions: Any = None,
    checkpoints: Checkpoints = "full",
    fused: bool | Literal["turn"] = False,
) -> Topology:
    """The plan of the agent that `create_agent` would build from these arguments and a model.

    Everything is checked as there; whether threads are kept, only where `checkpointer` is given.

    Raises:
        SpecError: As `create_agent`.

    Warns:
        AgentFactoryWarning: As `create_agent`.

    >>> plan_agent().nodes
    ('model',)
    """
    spec = make_spec(
        tools=tools,
        system_prompt=system_prompt,
        middleware=middleware,
        response_format=response_format,
        state_schema=state_schema,
        interrupts={"interrupt_before": interrupt_before, "interrupt_after": interrupt_after},
        handle_tool_errors=handle_tool_errors,
        name=name,
        checkpointer=checkpointer,
        strict=strict,
        ignore=ignore,
        decisions=decisions,
        checkpoints=checkpoints,
    )
    _tell(spec)
    return spec.topology


def topology_of(agent: CompiledStateGraph[Any, Any, Any, Any]) -> Topology:
    """The plan a built agent follows.

    Raises:
        ArgumentError: The graph was not built by `create_agent`.
    """
    return _spec_of(agent).topology


def warnings_of(agent: CompiledStateGraph[Any, Any, Any, Any]) -> tuple[SpecError, ...]:
    """What was found likely wrong when an agent was built, and was not silenced.

    Raises:
        ArgumentError: The graph was not built by `create_agent`.
    """
    return _spec_of(agent).warnings


def _spec_of(agent: Any) -> AgentSpec:
    graph = getattr(agent, "builder", None)
    if not isinstance(graph, AgentGraph):
        raise ArgumentError(
            "agent", f"{describe(agent)} was not built by create_agent.", "Pass such an agent."
        )
    return graph.spec
