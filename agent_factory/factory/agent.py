"""create_agent and plan_agent: arguments in, a compiled graph or a plan out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import is_dataclass, replace
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Never, TypedDict, Unpack, cast, overload

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.cache.base import BaseCache
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolCallTransformer
from langgraph.store.base import BaseStore
from pydantic import BaseModel

from agent_factory.decisions.log import DecisionLog, decision_log
from agent_factory.errors import ArgumentError, SpecError, raise_all
from agent_factory.factory.argument_names import by_name, misplaced_arguments, unknown_arguments
from agent_factory.factory.arguments import (
    UNKNOWN,
    Arguments,
    chat_model_of,
    make_spec,
    wrong_type,
)
from agent_factory.factory.fusion import plan_fusion
from agent_factory.factory.settings import plan_of
from agent_factory.factory.wiring import AgentGraph, wire
from agent_factory.runtime.spec import AgentSpec
from agent_factory.tools.error_handling import DEFAULT_ERRORS
from agent_factory.topology.model import AgentStyle
from agent_factory.topology.topology import Topology
from agent_factory.types import Graph
from agent_factory.upstream import SubagentTransformer

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import SystemMessage
    from langchain_core.tools import BaseTool
    from langgraph.types import Checkpointer

    from agent_factory.compat.langchain import AnyMiddleware, LangChainMiddleware
    from agent_factory.hooks.base import AgentMiddleware, Middleware
    from agent_factory.structured_output.strategies import ResponseFormat
    from agent_factory.types import (
        AgentState,
        Checkpoints,
        ContextT,
        InputAgentState,
        NodePolicy,
        OutputAgentState,
        ResponseT,
    )

    StackMember = (
        AgentMiddleware[Any, ContextT, Any] | AgentMiddleware[Any, None, Any] | LangChainMiddleware
    )
    """A middleware for the context of the agent, or without a declared context."""

CONFIG: RunnableConfig = {
    # High, so that limits with a clear message, such as ModelCallLimitMiddleware, apply before
    # LangGraph's limit. The number is langchain's.
    "recursion_limit": 9_999,
    # LangSmith shows this key as the integration. The key also saves time: without any metadata,
    # LangGraph walks a chain of empty maps for every task.
    "metadata": {"ls_integration": "agent_factory"},
}
"""Default config of the runs of an agent."""

PROJECTIONS = (ToolCallTransformer, SubagentTransformer)
"""Stream transformers of every agent: `tool_calls` and `subagents` in the event protocol."""

_SERVICES: dict[str, tuple[type[object], ...]] = {
    # In a subgraph, True and False say whether to use the checkpointer of its parent.
    "checkpointer": (BaseCheckpointSaver, bool),
    "store": (BaseStore,),
    "cache": (BaseCache,),
    "transformers": (Sequence,),
}


class AgentOptions(TypedDict, total=False):
    """Options of `create_agent` on which the type of the agent does not depend."""

    system_prompt: str | SystemMessage | None
    state_schema: type[AgentState] | None
    checkpointer: Checkpointer
    store: BaseStore | None
    interrupt_before: Sequence[str] | Literal["*"] | None
    interrupt_after: Sequence[str] | Literal["*"] | None
    debug: bool
    name: str | None
    cache: BaseCache[Any] | None
    transformers: Sequence[Callable[[tuple[str, ...]], object]] | None
    node_policies: Mapping[str, NodePolicy] | None
    handle_tool_errors: object
    sequential_tool_calls: bool
    run_cut_calls: bool
    strict: bool
    ignore: Collection[str]
    decisions: object
    checkpoints: Checkpoints
    fused: bool | Literal["turn"]
    moved: Mapping[str, str] | None
    guarantees: Sequence[str]


@overload
def create_agent(
    model: str | BaseChatModel,
    tools: Sequence[BaseTool | Callable[..., object] | dict[str, Any]] | None = None,
    *,
    middleware: Sequence[StackMember[ContextT]] = (),
    response_format: dict[str, Any] | UnionType | None = None,
    context_schema: type[ContextT] | None = None,
    **options: Unpack[AgentOptions],
) -> CompiledStateGraph[AgentState[Any], ContextT, InputAgentState, OutputAgentState[Any]]: ...
@overload
def create_agent(
    model: str | BaseChatModel,
    tools: Sequence[BaseTool | Callable[..., object] | dict[str, Any]] | None = None,
    *,
    middleware: Sequence[StackMember[ContextT]] = (),
    response_format: ResponseFormat[ResponseT] | type[ResponseT],
    context_schema: type[ContextT] | None = None,
    **options: Unpack[AgentOptions],
) -> CompiledStateGraph[
    AgentState[ResponseT], ContextT, InputAgentState, OutputAgentState[ResponseT]
]: ...
@by_name
def create_agent(
    model: str | BaseChatModel,
    tools: Sequence[BaseTool | Callable[..., object] | dict[str, Any]] | None = None,
    *misplaced: Never,
    system_prompt: str | SystemMessage | None = None,
    middleware: Sequence[AnyMiddleware] = (),
    response_format: object = None,
    state_schema: type[AgentState] | None = None,
    context_schema: type[object] | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    interrupt_before: Sequence[str] | Literal["*"] | None = None,
    interrupt_after: Sequence[str] | Literal["*"] | None = None,
    debug: bool = False,
    name: str | None = None,
    cache: BaseCache[Any] | None = None,
    transformers: Sequence[Callable[[tuple[str, ...]], object]] | None = None,
    node_policies: Mapping[str, NodePolicy] | None = None,
    handle_tool_errors: object = DEFAULT_ERRORS,
    sequential_tool_calls: bool = False,
    run_cut_calls: bool = False,
    strict: bool = False,
    ignore: Collection[str] = (),
    decisions: object = None,
    checkpoints: Checkpoints = "auto",
    fused: bool | Literal["turn"] = True,
    moved: Mapping[str, str] | None = None,
    guarantees: Sequence[str] = (),
    **unknown: Never,
) -> Any:
    """Build an agent: a model in a loop with tools, with a stack of middleware around it.

    Args:
        model: A chat model, or "provider:name" if langchain is installed.
        tools: Functions with a docstring, BaseTools, or provider tools as dicts.
        system_prompt: The system message of every model call.
        middleware: The stack of middleware; the first is the outermost.
        response_format: A schema or a strategy; the answer arrives in `structured_response`.
        state_schema: A TypedDict that extends AgentState with more keys. Where schemas of
            middleware disagree about a key of this schema, this schema decides.
        context_schema: The type of `context`, the data of one run (a user's id, for example).
        checkpointer: Stores threads. Reviews, and limits for a thread, need a checkpointer.
        store: Stores data across threads.
        interrupt_before: Nodes before which a run pauses, or "*" for all.
        interrupt_after: Nodes after which a run pauses, or "*" for all.
        debug: Log every step.
        name: The agent's name, in its messages, and in the metadata of its runs as `lc_agent_name`.
        cache: Stores results of nodes with a cache policy.
        transformers: Stream transformers; the transformers of every agent (`tool_calls`,
            `subagents`) and of the middleware come before these.
        node_policies: Retries, timeouts and caches of nodes, by the names of the nodes.
        handle_tool_errors: The reaction to the failure of a tool, in the forms of ToolNode. By
            default, the model gets an error as the result of a call with invalid arguments, and a
            tool that raises ends the run. True reports every error to the model, and the run
            continues.
        sequential_tool_calls: Run the calls of a turn one after the other, in the order of the
            message. By default calls run side by side, except calls that `touches` keeps in order.
        run_cut_calls: Run the calls of an answer that ended at a limit of output tokens. By default
            the model gets an error as their result, because arguments may lack their end.
        strict: Raise warnings of the build as errors.
        ignore: Codes of warnings to suppress, such as ["AF204"]. docs/checks.md lists them.
        decisions: Records the decisions of hooks, layers and routes. True sends custom stream
            events, a function gets each `Decision`, and a list or a `DecisionLog` holds several
            functions.
        checkpoints: The messages in a checkpoint: "full", all messages, or "delta", the messages
            since the checkpoint before. "auto" is "delta" with LangGraph's savers in memory, for
            SQLite and for Postgres, and "full" with others, their wrappers and subclasses. See
            docs/checkpoints.md.
        fused: How many hooks share a step, which makes runs with many middleware several times
            faster. True stores the writes of hooks before the model before the model is called, and
            the model's answer before the hooks after the model run. "turn" stores a whole turn of
            the model at once. False gives each hook its own step and checkpoint. See
            docs/performance.md.
        moved: The names of middleware when threads were stored, each with the current name:
            {"OldName": "NewName"}. Threads that wait at a hook of the old name go on, and data
            stored by the old name are found. See docs/howto/changing_stacks.md.
        guarantees: Sentences that must hold on every path, such as "tool refund passes
            HumanInTheLoopMiddleware". See docs/guarantees.md.

    Returns:
        A compiled LangGraph graph: invoke, stream and inspect it like any other graph.

    Raises:
        SpecError: The agent cannot be built; with several mistakes, `.errors` holds each of them.
        ImportError: The model is a string and langchain is not installed.

    Warns:
        AgentFactoryWarning: The agent is built but likely wrong; `warnings` holds each warning.

    >>> from agent_factory.testing import ScriptedChatModel
    >>> def add(a: int, b: int) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> model = ScriptedChatModel([[{"name": "add", "args": {"a": 2, "b": 3}}], "It is 5."])
    >>> agent = create_agent(model, [add])
    >>> agent.invoke({"messages": [("user", "2 + 3?")]})["messages"][-1].text
    'It is 5.'
    """
    values = {**locals()}
    arguments = Arguments.of(values)
    # `*misplaced` and `**unknown` let the error name the right call; type checkers refuse `Never`.
    if misplaced or unknown:
        raise_all([*misplaced_arguments(misplaced), *unknown_arguments(create_agent, unknown)])
    services: dict[str, Any] = {service: values[service] for service in _SERVICES}
    check_services(model, services, context_schema)
    fusion = None
    if fused is not False:
        fusion = plan_fusion(fused, interrupt_before, interrupt_after, node_policies)
    spec = make_spec(arguments)
    stream_transformers = [
        transformer for member in spec.middleware for transformer in member.transformers
    ]
    stream_transformers += transformers or ()
    services["transformers"] = [
        *(transformer for transformer in PROJECTIONS if transformer not in stream_transformers),
        *stream_transformers,
    ]
    agent = wire(spec, context_schema, fusion).compile(
        **services,
        interrupt_before=node_names(interrupt_before),
        interrupt_after=node_names(interrupt_after, spec.topology.former_nodes),
        debug=debug,
        name=name,
    )
    # The key by which LangGraph's streams and front ends know the agents of LangChain.
    metadata = {} if name is None else {"lc_agent_name": name}
    # `with_config` would construct the agent once more.
    agent.config = merge_configs(CONFIG, {"metadata": metadata})
    return agent


def check_services(
    model: object, services: Mapping[str, object], context_schema: object = None
) -> None:
    """Check the model, the services and the type of the context of an agent."""
    mistakes = []
    if model is None:
        reason = "is required, got None."
        mistakes.append(ArgumentError("model", reason, "Pass a chat model or 'provider:name'."))
    for name, kinds in _SERVICES.items():
        if (value := services[name]) is None or isinstance(value, kinds):
            continue
        kind = kinds[0].__name__
        # `SqliteSaver.from_conn_string(...)` and the like are generators with @contextmanager.
        enter = "with" if hasattr(value, "__enter__") else "async with"
        is_class = isinstance(value, type)
        if not is_class and (enter == "with" or hasattr(value, "__aenter__")):
            # The object of a function with @contextmanager has the function as `func`.
            constructor = getattr(getattr(value, "func", None), "__qualname__", None)
            constructor = "..." if constructor is None else f"{constructor}(...)"
            hint = f"Write `{enter} {constructor} as {name}:`, and build the agent inside."
            reason = f"must be a {kind}, got a context manager."
            mistakes.append(ArgumentError(name, reason, hint))
        else:
            expected, hint = f"a {kind} or None", f"Pass a {kind}."
            mistakes.append(wrong_type(name, expected, value, hint, kinds=kinds))
    # An instance has the fields of its class, and LangGraph takes an instance without an error.
    is_instance = is_dataclass(context_schema) and not isinstance(context_schema, type)
    if is_instance or isinstance(context_schema, BaseModel | Mapping):
        hint = "Pass the class, and its instance to the run: agent.invoke(..., context=...)."
        mistakes.append(wrong_type("context_schema", "a class", context_schema, hint))
    if mistakes:
        raise_all(mistakes)


def node_names(
    names: Sequence[str] | Literal["*"] | None, former: Mapping[str, str] | None = None
) -> list[str] | Literal["*"] | None:
    """Return the nodes to pause at in the form that LangGraph takes, with their former names.

    A run only begins at a node of a former name, and LangGraph does not pause before the first
    node.
    """
    if names is None or names == "*":
        return names
    return [*names, *(old for old, now in (former or {}).items() if now in names)]


@by_name
def plan_agent(
    model: object = None,
    tools: Sequence[object] | None = None,
    *misplaced: Never,
    system_prompt: str | SystemMessage | None = None,
    middleware: Sequence[AnyMiddleware] = (),
    response_format: object = None,
    state_schema: type[object] | None = None,
    context_schema: type[object] | None = None,
    checkpointer: Checkpointer = UNKNOWN,
    store: BaseStore | None = None,
    interrupt_before: Sequence[str] | Literal["*"] | None = None,
    interrupt_after: Sequence[str] | Literal["*"] | None = None,
    debug: bool = False,
    name: str | None = None,
    cache: BaseCache[Any] | None = None,
    transformers: Sequence[object] | None = None,
    node_policies: Mapping[str, NodePolicy] | None = None,
    handle_tool_errors: object = DEFAULT_ERRORS,
    sequential_tool_calls: bool = False,
    run_cut_calls: bool = False,
    strict: bool = False,
    ignore: Collection[str] = (),
    decisions: object = None,
    checkpoints: Checkpoints = "auto",
    fused: bool | Literal["turn"] = True,
    moved: Mapping[str, str] | None = None,
    guarantees: Sequence[str] = (),
    settings: bool = False,
    **unknown: Never,
) -> Topology:
    """Return the plan of the agent that `create_agent` would build from these arguments.

    The checks are the same. Checks that need a checkpointer are made if `checkpointer` is given.
    The model may be left out, because a plan does not depend on it, nor on `fused`.

    Args:
        settings: Add the settings of the middleware to the plan: see `topology_of`.

    Raises:
        SpecError: As `create_agent`.

    Warns:
        AgentFactoryWarning: As `create_agent`.

    >>> plan_agent().nodes
    ('model',)
    """
    arguments = Arguments.of(locals())
    if misplaced or unknown:
        raise_all([*misplaced_arguments(misplaced), *unknown_arguments(plan_agent, unknown)])
    # A plan holds no model, and the package of the provider need not be installed.
    spec = make_spec(replace(arguments, model=None) if isinstance(model, str) else arguments)
    return plan_of(spec, settings=settings)


def topology_of(agent: Graph, *, settings: bool = False) -> Topology:
    """Return the plan of an agent.

    Args:
        agent: An agent from `create_agent`.
        settings: Add the settings of the middleware to the plan: each parameter of a constructor
            with a public attribute of its name. Values named like secrets, and values without a
            plain form, are shown by their type.

    Raises:
        ArgumentError: The graph was not built by `create_agent`.

    >>> from agent_factory.middleware import ModelCallLimitMiddleware
    >>> plan = plan_agent(middleware=[ModelCallLimitMiddleware(run_limit=5)], settings=True)
    >>> print(plan.settings[1].name, plan.settings[1].value)
    run_limit 5
    """
    graph = _graph_of(agent)
    return plan_of(graph.spec, settings=True) if settings else graph.plan


def middleware_of(
    agent: Graph,
) -> tuple[Middleware, ...]:
    """Return the middleware of an agent, in order.

    Args:
        agent: An agent from `create_agent`.

    Raises:
        ArgumentError: The graph was not built by `create_agent`.

    >>> from agent_factory.middleware import TodoListMiddleware
    >>> from agent_factory.testing import ScriptedChatModel
    >>> agent = create_agent(ScriptedChatModel([]), middleware=[TodoListMiddleware()])
    >>> [middleware.name for middleware in middleware_of(agent)]
    ['TodoListMiddleware']
    """
    return _spec_of(agent).middleware


def tools_of(agent: Graph) -> dict[str, BaseTool]:
    """Return the tools that an agent runs, by name, with the tools of its middleware.

    Args:
        agent: An agent from `create_agent`.

    Raises:
        ArgumentError: The graph was not built by `create_agent`.

    >>> from agent_factory.testing import ScriptedChatModel
    >>> [*tools_of(create_agent(ScriptedChatModel([]), [print]))]
    ['print']
    """
    return dict(_spec_of(agent).toolbox.client)


def path_of(agent: Graph) -> Literal["sync", "async"] | None:
    """Return the only mode in which an agent can be run; None if both `invoke` and `ainvoke` run.

    An agent is async only with a tool that has only a coroutine function, like the tools of MCP, or
    with a middleware that defines only async methods. An agent is sync only with a layer without an
    async form. Agents inside of a graph count.

    Args:
        agent: An agent from `create_agent`, or any compiled graph.

    Raises:
        ArgumentError: One part is sync only and another part async only, so that no run could use
            both.

    >>> from langchain_core.tools import StructuredTool
    >>> from agent_factory.testing import ScriptedChatModel
    >>> async def weather(city: str) -> str:
    ...     "Look the weather up."
    ...     return "sunny"
    >>> tool = StructuredTool.from_function(coroutine=weather)
    >>> path_of(create_agent(ScriptedChatModel([]), [tool]))
    'async'
    """
    only_sync: list[str] = []
    only_async: list[str] = []
    for graph in (agent, *(inside for _, inside in agent.get_subgraphs(recurse=True))):
        builder = getattr(graph, "builder", None)
        if not isinstance(builder, AgentGraph):
            continue
        spec = builder.spec
        layers = [*spec.model_layers, *spec.tool_layers]
        only_sync += [bound.definition.owner for bound in layers if bound.afunc is None]
        only_async += [bound.definition.owner for bound in layers if bound.func is None]
        only_async += [bound.definition.owner for bound in spec.hooks if bound.func is None]
        tools = spec.toolbox.client.items()
        only_async += [name for name, tool in tools if getattr(tool, "func", tool) is None]
    if only_sync and only_async:
        raise ArgumentError(
            "agent",
            f"{only_sync[0]} is sync only and {only_async[0]} async only, so no run can use both.",
            "Give one of them the other form, too: a layer as a flow (around_model, around_tool), "
            "a tool a sync function.",
        )
    return "sync" if only_sync else "async" if only_async else None


def with_decisions(agent: Graph, decisions: object = True) -> Graph:
    """Return a copy of an agent that also records its decisions.

    Args:
        agent: An agent from `create_agent`.
        decisions: The sinks, as `create_agent` takes them. Sinks of the agent stay.

    Raises:
        ArgumentError: The graph was not built by `create_agent`, or a sink cannot be called.

    >>> from agent_factory.testing import ScriptedChatModel
    >>> agent = with_decisions(create_agent(ScriptedChatModel(["Hi."]), [print]), print)
    >>> _ = agent.invoke({"messages": [("user", "Hello")]})
    model routed: __end__ [no calls left]
    """
    previous, log = _spec_of(agent).decisions, decision_log(decisions)
    # A sink of both gets each decision once, and contents that either log asks for stay.
    if previous is not None and log is not None:
        sinks = dict.fromkeys([*previous.sinks, *log.sinks])
        log = DecisionLog(*sinks, contents=previous.contents or log.contents)
    return rewired(agent, decisions=log or previous)


def with_model(agent: Graph, model: str | BaseChatModel) -> Graph:
    """Return a copy of an agent that asks another model, for example one that follows a script.

    Models of its middleware stay.

    Args:
        agent: An agent from `create_agent`.
        model: The model, as `create_agent` takes it.

    Raises:
        ArgumentError: The graph was not built by `create_agent`, or the model is not a chat model.

    >>> from agent_factory.testing import ScriptedChatModel
    >>> agent = create_agent(ScriptedChatModel(["Hi."]))
    >>> other = with_model(agent, ScriptedChatModel(["Good morning."]))
    >>> other.invoke({"messages": [("user", "Hello")]})["messages"][-1].text
    'Good morning.'
    """
    model_of(agent)  # for its error: an agent of create_react_agent calls its model elsewhere
    return rewired(agent, model=chat_model_of(model))


def model_of(agent: Graph) -> Any:
    """Return the model of an agent.

    Raises:
        ArgumentError: The graph was not built by `create_agent`.
    """
    spec = _spec_of(agent)
    if spec.topology.style is not AgentStyle.CREATE_AGENT:
        raise ArgumentError(
            "agent",
            "was built by create_react_agent, whose model cannot be replaced.",
            "Build another agent with the other model.",
        )
    return spec.model


def rewired(
    agent: Graph,
    *,
    services: Mapping[str, object] | None = None,
    **changes: Any,
) -> Graph:
    """Return a copy of an agent with other fields of its spec, and with other services."""
    graph = cast("AgentGraph", agent.builder)
    # A new graph: nodes hold the recorder, the model and the channels of their agent, and a
    # compiled graph cannot get others.
    builder = wire(replace(_spec_of(agent), **changes), agent.context_schema, graph.fusion_plan)
    backends = {name: getattr(agent, name) for name in ("checkpointer", "store", "cache")}
    copy = builder.compile(**{**graph.options, **backends, **(services or {})})
    copy.config = agent.config  # `compile` sets none, and callers may have used `with_config`
    return copy


def with_checkpoints_of(agent: Graph, checkpointer: object) -> Graph:
    """Return an agent whose checkpoints have the form for another saver.

    `checkpoints="auto"` decides by the saver; another choice stays. A graph that `create_agent` has
    not built is returned unchanged.

    Args:
        agent: A compiled graph.
        checkpointer: The saver for the next runs. The agent does not get the saver.
    """
    graph = getattr(agent, "builder", None)
    if not isinstance(graph, AgentGraph) or graph.spec.merged is None:
        return agent
    schemas, _ = graph.spec.merged(checkpointer)
    # Agents with the same schemas share them.
    return agent if schemas is graph.spec.schemas else rewired(agent, schemas=schemas)


def warnings_of(agent: Graph) -> tuple[SpecError, ...]:
    """Return the warnings of an agent's build, except for ignored ones.

    Raises:
        ArgumentError: The graph was not built by `create_agent`.
    """
    if isinstance(agent, Topology):
        hint = "plan_agent warns with an AgentFactoryWarning, which has them as `.warnings`; with "
        hint += "strict=True it raises them."
        raise wrong_type("agent", "an agent built by create_agent", agent, hint)
    return _spec_of(agent).warnings


def _graph_of(agent: object) -> AgentGraph:
    graph = getattr(agent, "builder", None)
    if not isinstance(graph, AgentGraph):
        expected = "an agent built by create_agent"
        raise wrong_type("agent", expected, agent, "Pass what create_agent returned.")
    return graph


def _spec_of(agent: object) -> AgentSpec:
    return _graph_of(agent).spec
