"""Arguments become an `AgentSpec`: every check that can be made before anything runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import SystemMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from agent_factory.base import AgentMiddleware
from agent_factory.errors import (
    ArgumentError,
    DuplicateMiddleware,
    InvalidName,
    JumpToNowhere,
    NoCommonPath,
    NotMiddleware,
    SpecError,
    UnknownNode,
    describe,
    raise_all,
)
from agent_factory.introspect import Bound, hooks_of, layers_of, mistakes_of
from agent_factory.models import init_model
from agent_factory.schema import RELAY, RETRIES, Schemas, merge
from agent_factory.structured_output import (
    AutoStrategy,
    ResponseFormat,
    ToolStrategy,
    as_response_format,
)
from agent_factory.tool_errors import DEFAULT_ERRORS, Handler, handler_for
from agent_factory.toolbox import Toolbox, sort_tools
from agent_factory.topology import Call, Hook, Layer, Shape, Tool, Topology, plan
from agent_factory.types import AgentState

T = TypeVar("T")

RESERVED = ("|", ":")
"""Characters LangGraph keeps for itself in node names."""


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """Everything that was decided about an agent before it is wired.

    Args:
        model: The default model; None in a plan that was made without one.
        system_message: What it is told first.
        hooks: The node hooks, in the order of the middleware.
        layers: The layers, outermost first.
        toolbox: The tools, sorted.
        response_format: How a structured answer is asked for, or None.
        schemas: The merged state.
        topology: The plan.
        handle_tool_errors: What a failing tool leads to; None for ToolNode's own default.
        name: The agent's name, written on what it says.
        middleware: The stack it was made from.
    """

    model: Any
    system_message: SystemMessage | None
    hooks: tuple[Bound[Hook], ...]
    layers: tuple[Bound[Layer], ...]
    toolbox: Toolbox
    response_format: ResponseFormat[Any] | None
    schemas: Schemas
    topology: Topology
    handle_tool_errors: Handler | None
    name: str | None
    middleware: tuple[AgentMiddleware[Any, Any], ...]

    @property
    def has_tools(self) -> bool:
        """Whether there is a tools node."""
        return _has_tools(self.toolbox, self.layers)

    def layers_around(self, call: Call) -> list[Bound[Layer]]:
        """The layers around one kind of call, outermost first."""
        return [bound for bound in self.layers if bound.fact.call is call]


def make_spec(
    *,
    model: Any = None,
    tools: Sequence[Any] | None = None,
    system_prompt: str | SystemMessage | None = None,
    middleware: Sequence[AgentMiddleware[Any, Any]] = (),
    response_format: Any = None,
    state_schema: type[Any] | None = None,
    interrupts: Mapping[str, Any] | None = None,
    handle_tool_errors: Any = DEFAULT_ERRORS,
    name: str | None = None,
) -> AgentSpec:
    """Check and normalise the arguments of an agent.

    Raises:
        SpecError: Something cannot be built; with several mistakes, all of them in `.errors`.
        ImportError: The model is a string and langchain is not installed.
    """
    mistakes = [*_wrong_types(tools, system_prompt, interrupts or {}, name)]
    members, wrong = _members(middleware)
    handler, refused = _attempt(handler_for, handle_tool_errors)
    raise_all([*mistakes, *wrong, *refused])  # nothing below could be read without these
    mistakes = [mistake for m in members for mistake in mistakes_of(m)]
    format_, wrong = _attempt(as_response_format, response_format)
    toolbox, clashes = sort_tools(_all_tools(tools, members), output_tools(format_))
    hooks = tuple(bound for m in members for bound in hooks_of(m))
    layers = tuple(bound for m in members for bound in layers_of(m))
    has_tools = _has_tools(toolbox, layers)
    # A layer may ask for a structured answer too.
    asks = format_ is not None or any(bound.fact.call is Call.MODEL for bound in layers)
    engine = [key for key, needed in ((RELAY, has_tools), (RETRIES, asks)) if needed]
    schemas, conflicts = merge(_all_schemas(state_schema, members), engine)
    mistakes += [*wrong, *clashes, *conflicts, *_colours(hooks, layers)]
    mistakes += _jumps_to_nowhere(hooks, has_tools)
    facts = toolbox.facts(output_tools(format_))
    topology = plan(_shape(hooks, layers, facts, has_tools, format_ is not None))
    mistakes += _unknown_interrupts(interrupts or {}, topology)
    raise_all(mistakes)
    return AgentSpec(
        model=_model(model),
        system_message=_system_message(system_prompt),
        hooks=hooks,
        layers=layers,
        toolbox=toolbox,
        response_format=format_,
        schemas=schemas,
        topology=topology,
        handle_tool_errors=handler,
        name=name,
        middleware=members,
    )


def _attempt(make: Callable[[Any], T], value: Any) -> tuple[T | None, list[SpecError]]:
    """What is made of an argument, or the mistake that it is."""
    try:
        return make(value), []
    except SpecError as error:
        return None, [error]


def output_tools(response_format: ResponseFormat[Any] | None) -> list[str]:
    """The names of the tools that stand for a structured answer."""
    match response_format:
        case ToolStrategy():
            return list(response_format.bindings)
        case AutoStrategy():
            return list(response_format.by_tool.bindings)
        case _:
            return []


def _has_tools(toolbox: Toolbox, layers: Iterable[Bound[Layer]]) -> bool:
    # Layers around tool calls may run tools that are known only at run time.
    return bool(toolbox.client) or any(b.fact.call is Call.TOOL for b in layers)


def _shape(
    hooks: tuple[Bound[Hook], ...],
    layers: tuple[Bound[Layer], ...],
    tools: tuple[Tool, ...],
    has_tools: bool,
    structured: bool,
) -> Shape:
    return Shape(
        hooks=tuple(bound.fact for bound in hooks),
        layers=tuple(bound.fact for bound in layers),
        has_tools=has_tools,
        may_skip_tools=structured or any(b.fact.call is Call.MODEL for b in layers),
        retries_output=structured,
        tools=tools,
    )


def _wrong_types(
    tools: Any, system_prompt: Any, interrupts: Mapping[str, Any], name: Any
) -> Iterator[SpecError]:
    if tools is not None and not _is_list(tools):
        yield ArgumentError("tools", f"{describe(tools)} is no list of tools.", "Give a list.")
    if not isinstance(system_prompt, str | SystemMessage | None):
        yield ArgumentError(
            "system_prompt", f"{describe(system_prompt)} is no prompt.", "Give a text."
        )
    if not isinstance(name, str | None):
        yield ArgumentError("name", f"{describe(name)} is no name.", "Give a text.")
    for argument, nodes in interrupts.items():
        if nodes not in (None, "*") and not _is_list(nodes):
            yield ArgumentError(
                argument, f"{describe(nodes)} is no list of nodes.", "Give a list of names, or '*'."
            )


def _is_list(value: Any) -> bool:
    """Whether a value holds several: a text, a mapping or one tool object does not."""
    single = isinstance(value, str | bytes | Mapping | BaseTool | type)
    return hasattr(value, "__iter__") and not single


def _members(
    middleware: Any,
) -> tuple[tuple[AgentMiddleware[Any, Any], ...], list[SpecError]]:
    if not _is_list(middleware):
        remedy = "Give a list, even of one."
        return (), [NotMiddleware("middleware", f"{describe(middleware)} is no list.", remedy)]
    members = tuple(middleware)
    mistakes = [*_strangers(members)]
    if not mistakes:
        mistakes += [*_same_names(members), *_bad_names(members)]
    return members, mistakes


def _strangers(members: Sequence[Any]) -> Iterator[SpecError]:
    for index, member in enumerate(members):
        if isinstance(member, type) and issubclass(member, AgentMiddleware):
            yield NotMiddleware(
                f"middleware[{index}]",
                f"{member.__name__} is a class.",
                f"Give an instance: {member.__name__}(...).",
            )
        elif not isinstance(member, AgentMiddleware):
            yield NotMiddleware(
                f"middleware[{index}]",
                f"{describe(member)} is no middleware.",
                "Give an AgentMiddleware, or decorate a function with before_model and the like.",
            )
        elif not isinstance(member.name, str):
            yield InvalidName(
                f"middleware[{index}]", f"its name is {describe(member.name)}.", "Give a text."
            )


def _same_names(members: Sequence[AgentMiddleware[Any, Any]]) -> Iterator[SpecError]:
    for name, times in Counter(member.name for member in members).items():
        if times > 1:
            yield DuplicateMiddleware(
                name,
                f"{times} middleware have this name. Please remove duplicate middleware instances.",
                f"Or tell them apart: {name}(..., name='first'), or set instance.name = 'first'.",
            )


def _bad_names(members: Sequence[AgentMiddleware[Any, Any]]) -> Iterator[SpecError]:
    for member in members:
        if any(sign in member.name for sign in RESERVED) or not member.name:
            yield InvalidName(
                repr(member.name),
                f"cannot name a node: {' and '.join(RESERVED)} are reserved.",
                "Give the middleware another name.",
            )


def _all_tools(
    tools: Sequence[Any] | None, members: Sequence[AgentMiddleware[Any, Any]]
) -> Iterator[tuple[str | None, Any]]:
    yield from ((None, tool) for tool in tools or ())
    for member in members:
        yield from ((member.name, tool) for tool in member.tools or ())


def _all_schemas(
    state_schema: type[Any] | None, members: Sequence[AgentMiddleware[Any, Any]]
) -> list[tuple[str, type[Any]]]:
    own = ("create_agent", state_schema or AgentState)
    return [*((member.name, member.state_schema) for member in members), own]


def _model(model: Any) -> Any:
    if model is None or isinstance(model, str | BaseChatModel):
        return init_model(model) if model is not None else None
    if isinstance(model, Runnable) and callable(getattr(model, "bind_tools", None)):
        return model
    raise ArgumentError(
        "model", f"{describe(model)} is no chat model.", "Give a chat model or 'provider:name'."
    )


def _system_message(prompt: str | SystemMessage | None) -> SystemMessage | None:
    return SystemMessage(prompt) if isinstance(prompt, str) else prompt


def _colours(hooks: Sequence[Bound[Hook]], layers: Sequence[Bound[Layer]]) -> Iterator[SpecError]:
    everything: list[Bound[Any]] = [*hooks, *layers]
    only_async = [bound for bound in everything if bound.sync is None]
    # A synchronous node hook runs in a thread of an asynchronous run; a layer cannot.
    only_sync = [bound for bound in layers if bound.a is None]
    if only_async and only_sync:
        yield NoCommonPath(
            f"{_method(only_sync[0])} and {_method(only_async[0])}",
            "one is synchronous only, the other asynchronous only: no run could use both.",
            "Write a layer as a flow, around_model or around_tool, which serves both.",
        )


def _method(bound: Bound[Any]) -> str:
    fact = bound.fact
    name = fact.phase if isinstance(fact, Hook) else fact.method
    return f"{fact.owner}.{name if bound.sync else f'a{name}'}"


def _jumps_to_nowhere(hooks: Iterable[Bound[Hook]], has_tools: bool) -> Iterator[SpecError]:
    for bound in hooks:
        if "tools" in bound.fact.can_jump_to and not has_tools:
            yield JumpToNowhere(
                bound.fact.node,
                "may jump to tools, and this agent has none.",
                "Give the agent a tool, or take 'tools' out of can_jump_to.",
            )


def _unknown_interrupts(interrupts: Mapping[str, Any], topology: Topology) -> Iterator[SpecError]:
    for argument, names in interrupts.items():
        for name in () if names in (None, "*") else names:
            if name not in topology.nodes:
                yield UnknownNode(
                    f"{argument}: {name!r}",
                    "is no node of this agent.",
                    f"Its nodes are {', '.join(topology.nodes)}.",
                )
