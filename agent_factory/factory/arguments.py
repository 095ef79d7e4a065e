"""Arguments become an `AgentSpec`: every check that can be made before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import SystemMessage
from langchain_core.runnables import Runnable

from agent_factory.compat.conversion import any_format, init_model, native_schema
from agent_factory.compat.langchain import AnyMiddleware
from agent_factory.decisions.log import decision_log
from agent_factory.errors import ArgumentError, SpecError, describe, raise_all
from agent_factory.factory.validation import (
    UNKNOWN,
    BuildContext,
    doubts,
    jumps_to_nowhere,
    members_of,
    no_common_path,
    unknown_codes,
    unknown_interrupts,
    wrong_types,
)
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.introspection import Bound, hooks_of, layers_of, mistakes_of
from agent_factory.runtime.routing import Rules
from agent_factory.runtime.spec import AgentSpec, needs_tools_node
from agent_factory.state.schema import RETRIES, TOOL_SIGNALS, merge
from agent_factory.structured_output.strategies import AutoStrategy, ResponseFormat, ToolStrategy
from agent_factory.tools.error_handling import DEFAULT_ERRORS, DEFAULT_HANDLER, handler_for
from agent_factory.tools.registry import sort_tools
from agent_factory.topology.model import Call, Hook, Layer, Shape, Tool
from agent_factory.topology.topology import plan
from agent_factory.types import AgentState

T = TypeVar("T")


def make_spec(
    *,
    model: Any = None,
    tools: Sequence[Any] | None = None,
    system_prompt: str | SystemMessage | None = None,
    middleware: Sequence[AnyMiddleware] = (),
    response_format: Any = None,
    state_schema: type[Any] | None = None,
    checkpoints: Any = "full",
    interrupts: Mapping[str, Any] | None = None,
    handle_tool_errors: Any = DEFAULT_ERRORS,
    name: str | None = None,
    checkpointer: Any = UNKNOWN,
    strict: bool = False,
    ignore: Collection[str] = (),
    decisions: Any = None,
) -> AgentSpec:
    """Check and normalise the arguments of an agent.

    Raises:
        SpecError: Something cannot be built; with several mistakes, all of them in `.errors`.
        ImportError: The model is a string and langchain is not installed.
    """
    mistakes = [*wrong_types(tools, system_prompt, interrupts or {}, name), *unknown_codes(ignore)]
    members, wrong = members_of(middleware)
    handler, refused = _attempt(handler_for, handle_tool_errors)
    log, no_log = _attempt(decision_log, decisions)
    raise_all([*mistakes, *wrong, *refused, *no_log])  # nothing below could be read without these
    mistakes = [mistake for m in members for mistake in mistakes_of(m)]
    format_, wrong = _attempt(any_format, response_format)
    toolbox, clashes = sort_tools(_all_tools(tools, members), output_tools(format_))
    hooks = tuple(bound for m in members for bound in hooks_of(m))
    layers = tuple(bound for m in members for bound in layers_of(m))
    has_tools = needs_tools_node(toolbox, layers)
    # A layer may ask for a structured answer too.
    asks = format_ is not None or any(bound.definition.call is Call.MODEL for bound in layers)
    engine = [key for key, needed in ((TOOL_SIGNALS, has_tools), (RETRIES, asks)) if needed]
    schemas, conflicts = merge(_all_schemas(state_schema, members), engine, checkpoints)
    mistakes += [*wrong, *clashes, *conflicts, *no_common_path(hooks, layers)]
    mistakes += jumps_to_nowhere(hooks, has_tools)
    definitions = toolbox.tool_definitions(output_tools(format_))
    topology = plan(_shape(hooks, layers, definitions, has_tools, format_ is not None))
    mistakes += unknown_interrupts(interrupts or {}, topology)
    if not any(isinstance(mistake, ArgumentError) for mistake in mistakes):
        runs_others = any(bound.definition.call is Call.TOOL for bound in layers)
        tells = handler not in (None, DEFAULT_HANDLER) and handler.kinds != ()
        mistakes += doubts(BuildContext(members, topology, runs_others, checkpointer, tells))
    warnings = _refused_or_told(mistakes, strict, ignore)
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
        rules=Rules(toolbox.client, toolbox.direct, output_tools(format_)),
        warnings=warnings,
        decisions=log,
    )


def _refused_or_told(
    found: Sequence[SpecError], strict: bool, ignore: Collection[str]
) -> tuple[SpecError, ...]:
    """What is to be told of a build; what is more than a doubt is raised, with the rest noted."""
    found = [finding for finding in found if finding.code not in ignore]
    refused = [finding for finding in found if strict or finding.severity == "error"]
    told = [finding for finding in found if finding not in refused]
    try:
        raise_all(refused)
    except SpecError as error:
        for finding in told:
            error.add_note(f"Also found: {finding}")
        raise
    return tuple(told)


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


def _shape(
    hooks: tuple[Bound[Hook], ...],
    layers: tuple[Bound[Layer], ...],
    tools: tuple[Tool, ...],
    has_tools: bool,
    structured: bool,
) -> Shape:
    return Shape(
        hooks=tuple(bound.definition for bound in hooks),
        layers=tuple(bound.definition for bound in layers),
        has_tools=has_tools,
        may_skip_tools=structured or any(b.definition.call is Call.MODEL for b in layers),
        retries_output=structured,
        tools=tools,
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
    given = [(member.name, member.state_schema) for member in members]
    given.append(("create_agent", state_schema or AgentState))
    return [(origin, native_schema(schema)) for origin, schema in given]


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
