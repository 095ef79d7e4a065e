"""The checks of a build: what cannot be built, and what can be and is likely wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from langchain_core.messages import SystemMessage
from langchain_core.tools import BaseTool

from agent_factory.compat.langchain import (
    LangChainAdapter,
    from_langchain_middleware,
    langchain_base,
)
from agent_factory.errors import (
    BUILD_CODES,
    ArgumentError,
    BuildWarning,
    DuplicateMiddleware,
    SpecError,
    describe,
)
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.introspection import Bound
from agent_factory.hooks.ordering import check_order, stack_positions
from agent_factory.topology.model import Hook, Layer, Phase, ToolKind
from agent_factory.topology.topology import Topology

RESERVED = ("|", ":")
"""Characters LangGraph keeps for itself in node names."""

UNKNOWN: Any = object()
"""Stands for a checkpointer of which nothing is known: a plan may be made without one."""


def wrong_types(
    tools: Any, system_prompt: Any, interrupts: Mapping[str, Any], name: Any
) -> Iterator[SpecError]:
    """Arguments of a type that nothing can be read from."""
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


def members_of(
    middleware: Any,
) -> tuple[tuple[AgentMiddleware[Any, Any], ...], list[SpecError]]:
    """The middleware of a stack, and what keeps it from being one."""
    if not _is_list(middleware):
        hint = "Give a list, even of one."
        return (), [
            ArgumentError("middleware", f"{describe(middleware)} is no list.", hint, code="AF102")
        ]
    members = tuple(map(from_langchain_middleware, middleware))
    mistakes = [*_strangers(members)]
    if not mistakes:
        mistakes += [*_same_names(members), *_bad_names(members)]
    return members, mistakes


def _strangers(members: Sequence[Any]) -> Iterator[SpecError]:
    for index, member in enumerate(members):
        if _is_middleware_class(member):
            yield ArgumentError(
                f"middleware[{index}]",
                f"{member.__name__} is a class.",
                f"Give an instance: {member.__name__}(...).",
                code="AF102",
            )
        elif not isinstance(member, AgentMiddleware):
            yield ArgumentError(
                f"middleware[{index}]",
                f"{describe(member)} is no middleware.",
                "Give an AgentMiddleware, or decorate a function with before_model and the like.",
                code="AF102",
            )
        elif not isinstance(member.name, str):
            yield SpecError(
                f"middleware[{index}]",
                f"its name is {describe(member.name)}.",
                "Give a text.",
                code="AF104",
            )


def _is_middleware_class(member: Any) -> bool:
    if not isinstance(member, type):
        return False
    return issubclass(member, AgentMiddleware) or langchain_base(member) is not None


def _same_names(members: Sequence[AgentMiddleware[Any, Any]]) -> Iterator[SpecError]:
    for name, times in Counter(member.name for member in members).items():
        if times > 1:
            yield DuplicateMiddleware(
                name,
                f"{times} middleware have this name. Please remove duplicate middleware instances.",
                f"Or tell them apart: {_apart(name, members)}",
            )


def _apart(name: str, members: Sequence[AgentMiddleware[Any, Any]]) -> str:
    if any(isinstance(member, LangChainAdapter) and member.name == name for member in members):
        return f"class First{name}({name}): ..."  # theirs have a name that cannot be set
    return f"{name}(..., name='first'), or set instance.name = 'first'."


def _bad_names(members: Sequence[AgentMiddleware[Any, Any]]) -> Iterator[SpecError]:
    for member in members:
        if any(sign in member.name for sign in RESERVED) or not member.name:
            yield SpecError(
                repr(member.name),
                f"cannot name a node: {' and '.join(RESERVED)} are reserved.",
                "Give the middleware another name.",
                code="AF104",
            )


def no_common_path(
    hooks: Sequence[Bound[Hook]], layers: Sequence[Bound[Layer]]
) -> Iterator[SpecError]:
    """Layers and hooks that no run could use together."""
    everything: list[Bound[Any]] = [*hooks, *layers]
    only_async = [bound for bound in everything if bound.func is None]
    # A synchronous node hook runs in a thread of an asynchronous run; a layer cannot.
    only_sync = [bound for bound in layers if bound.afunc is None]
    if only_async and only_sync:
        yield SpecError(
            f"{_method(only_sync[0])} and {_method(only_async[0])}",
            "one is synchronous only, the other asynchronous only: no run could use both.",
            "Write a layer as a flow, around_model or around_tool, which serves both.",
            code="AF109",
        )


def _method(bound: Bound[Any]) -> str:
    fact = bound.definition
    name = fact.phase if isinstance(fact, Hook) else fact.method
    return f"{fact.owner}.{name if bound.func else f'a{name}'}"


def jumps_to_nowhere(hooks: Iterable[Bound[Hook]], has_tools: bool) -> Iterator[SpecError]:
    """Declared jumps to tools where there are none."""
    for bound in hooks:
        if "tools" in bound.definition.can_jump_to and not has_tools:
            yield SpecError(
                bound.definition.node,
                "may jump to tools, and this agent has none.",
                "Give the agent a tool, or take 'tools' out of can_jump_to.",
                code="AF111",
            )


def unknown_interrupts(interrupts: Mapping[str, Any], topology: Topology) -> Iterator[SpecError]:
    """Interrupts before or after nodes that do not exist."""
    for argument, names in interrupts.items():
        for name in () if names in (None, "*") else names:
            if name not in topology.nodes:
                yield SpecError(
                    f"{argument}: {name!r}",
                    "is no node of this agent.",
                    f"Its nodes are {', '.join(topology.nodes)}.",
                    code="AF116",
                )


@dataclass(frozen=True, slots=True)
class BuildContext:
    """What the doubts of a build look at.

    Args:
        members: The middleware, in order.
        topology: The plan.
        runs_unknown_tools: A layer may run tools that are known only at run time.
        checkpointer: What keeps the threads; None for nothing, UNKNOWN where nobody said.
        tells_errors: Exceptions of tools become messages before a layer sees them.
    """

    members: Sequence[AgentMiddleware[Any, Any]]
    topology: Topology
    runs_unknown_tools: bool
    checkpointer: Any
    tells_errors: bool


def doubts(suspect: BuildContext) -> Iterator[SpecError]:
    """What can be built and is likely wrong, and what the middleware declare of their order."""
    hooks = suspect.topology.hooks
    early = {h.owner for h in hooks if h.phase in (Phase.BEFORE_AGENT, Phase.BEFORE_MODEL)}
    late = {h.owner for h in hooks if h.phase is Phase.AFTER_MODEL}
    yield from check_order(stack_positions(suspect.members, early, late))
    yield from _odd_jumps(suspect.topology)
    yield from _shadowed(suspect.topology)
    yield from _tools_not_found(suspect)
    if suspect.tells_errors:
        yield from _errors_hidden(suspect.members)
    if suspect.checkpointer is None:
        yield from _nothing_kept(suspect.members)


def _odd_jumps(plan: Topology) -> Iterator[SpecError]:
    for hook in plan.hooks:
        if "model" in hook.can_jump_to and hook.node == plan.loop_entry:
            yield BuildWarning(
                hook.node,
                "may jump to the model's turn, which begins with this very hook: it goes on as "
                "without the jump.",
                "Take 'model' out of can_jump_to.",
                code="AF201",
            )
        elif "model" in hook.can_jump_to and hook.phase is Phase.BEFORE_MODEL:
            yield BuildWarning(
                hook.node,
                f"may jump back to {plan.loop_entry}, and is then run again on the same state: for "
                "ever, unless something changed.",
                "Return None to go on to the model, or make sure that it jumps only once.",
                code="AF202",
            )


def _shadowed(plan: Topology) -> Iterator[SpecError]:
    others = {tool.name for tool in plan.tools if tool.kind is not ToolKind.PROVIDER}
    for tool in plan.tools:
        if tool.kind is ToolKind.PROVIDER and tool.name in others:
            yield BuildWarning(
                tool.name,
                "is a tool of the provider and one of the agent: the model cannot tell them apart.",
                "Rename the agent's tool.",
                code="AF203",
            )


def _tools_not_found(suspect: BuildContext) -> Iterator[SpecError]:
    known = {tool.name for tool in suspect.topology.tools}
    for member in suspect.members:
        for name in sorted(set(member.expected_tools) - known):
            close = get_close_matches(name, known, n=1)
            there = f"Its tools are: {', '.join(sorted(known)) or 'none'}."
            late = " A layer may add it at run time." if suspect.runs_unknown_tools else ""
            yield BuildWarning(
                member.name,
                f"is set up for the tool {name!r}, and the agent has no such tool.{late}",
                f"Did you mean {close[0]!r}?" if close else there,
                code="AF210",
            )


def _errors_hidden(members: Sequence[AgentMiddleware[Any, Any]]) -> Iterator[SpecError]:
    for member in members:
        if "tool_errors" in member.ordering.reads:
            yield BuildWarning(
                member.name,
                "handles exceptions of tools, and handle_tool_errors makes messages of them first.",
                "Leave handle_tool_errors out, or take the middleware out.",
                code="AF207",
            )


def _nothing_kept(members: Sequence[AgentMiddleware[Any, Any]]) -> Iterator[SpecError]:
    for member in members:
        if member.needs_checkpointer:
            yield BuildWarning(
                member.name,
                "needs a checkpointer, and the agent has none of its own.",
                "Give one: create_agent(..., checkpointer=InMemorySaver()). An agent inside a "
                "graph that has one can ignore this.",
                code="AF211",
            )


def unknown_codes(ignore: Any) -> Iterator[SpecError]:
    """What is wrong with the codes to ignore."""
    if isinstance(ignore, str) or not isinstance(ignore, Collection):
        yield ArgumentError(
            "ignore", f"{describe(ignore)} is no list of codes.", 'Give a list: ["AF204"].'
        )
        return
    for code in ignore:
        entry = BUILD_CODES.get(code) if isinstance(code, str) else None
        if entry is None:
            yield ArgumentError(
                "ignore", f"{describe(code)} is not a known code.", "Pass codes like 'AF204'."
            )
        elif not entry.ignorable:
            yield ArgumentError(
                "ignore", f"{code} cannot be ignored: nothing could be built.", "Fix it instead."
            )
