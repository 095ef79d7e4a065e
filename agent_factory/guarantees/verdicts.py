"""Verdicts: whether the clauses of a guarantee hold for a plan, and a counterexample if not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import NamedTuple

from agent_factory.errors import SpecError
from agent_factory.guarantees.counterexample import Counterexample
from agent_factory.guarantees.paths import (
    Path,
    edges_of,
    members_of,
    node_named,
    places_of,
    shortest_cycle,
    shortest_path,
    steps_of,
)
from agent_factory.guarantees.sentences import (
    A_GUARD,
    A_LIMIT,
    A_PERSON,
    AtMost,
    Clause,
    Guarantee,
    LoopPasses,
    ModelPasses,
    OnlyAfter,
    PathPasses,
    SeesLast,
    ToolPasses,
    parse,
)
from agent_factory.topology.declarations import AccessKind, ToolGuard
from agent_factory.topology.model import START, TOOLS, Call, Phase, Tool, ToolKind, TopologyData

_ENDS_A_LOOP = {"model calls", "tokens", "input tokens", "output tokens", "USD", "seconds"}
"""What each call of the model uses. A refused tool call uses no tool call, so the loop goes on."""


def counterexamples(
    plan: TopologyData, guarantees: Iterable[str | Guarantee]
) -> tuple[Counterexample, ...]:
    """Return a counterexample for each guarantee that does not hold for a plan.

    Args:
        plan: The plan, of `plan_agent`, `topology_of` or `load_topology`.
        guarantees: Sentences; `agent_factory.guarantees.sentences` lists their forms.

    Raises:
        GuaranteeSyntaxError: A text is not a sentence.
        SpecError: A sentence names a tool or a node that the plan does not have.

    >>> from agent_factory import plan_agent
    >>> for counterexample in counterexamples(plan_agent(), ["at most 5 model calls"]):
    ...     print(counterexample)
    at most 5 model calls: no. No middleware limits model calls a run.
    Add ModelCallLimitMiddleware(run_limit=5).
    """
    return tuple(
        counterexample
        for text in guarantees
        for guarantee in [text if isinstance(text, Guarantee) else parse(text)]
        for clause in guarantee.clauses
        if (counterexample := _counterexample(plan, guarantee.text, clause)) is not None
    )


class _No(NamedTuple):
    """A clause does not hold."""

    reason: str
    hint: str
    path: Path = ()
    tool: str = ""


def _counterexample(plan: TopologyData, text: str, clause: Clause) -> Counterexample | None:
    match clause:
        case ToolPasses():
            no = _tool_passes(plan, clause)
        case ModelPasses():
            model = plan.style.model
            no = _around(plan, clause.members, [START, model], model, "the model")
        case LoopPasses():
            no = _loop_passes(plan, clause)
        case PathPasses():
            no = _path_passes(plan, clause)
        case SeesLast():
            no = _sees_last(plan, clause)
        case OnlyAfter():
            no = _only_after(plan, clause)
        case AtMost():
            no = _at_most(plan, clause)
    if no is None:
        return None
    return Counterexample(text, plan, steps_of(plan, no.path), no.reason, no.hint, no.tool)


# Paths


def _tool_passes(plan: TopologyData, clause: ToolPasses) -> _No | None:
    for tool in _tools(plan, clause.tool):
        if (no := _call_passes(plan, tool, clause.members)) is not None:
            return no
    return None


def _call_passes(plan: TopologyData, tool: Tool, members: Collection[str]) -> _No | None:
    names = _named(plan, members, tool.name)
    words = " or ".join(members)
    if tool.kind is ToolKind.PROVIDER:
        reason = f"The provider of the model runs {tool.name!r}, and no middleware sees the call."
        return _No(reason, "Give the agent a tool that runs here instead.", (), tool.name)
    if tool.kind is ToolKind.INNER:
        # The plan has the guards of an agent inside of a tool, and not its nodes.
        prefix, _, name = tool.name.rpartition("/")
        inner = [f"{prefix}/{member}" for member in names or members]
        if any(
            guard.covers(tool.name) and any(fnmatchcase(guard.owner, each) for each in inner)
            for guard in plan.guards
            if guard.place == "around_tool"
        ):
            return None
        reason = f"The agent inside of the tool {prefix!r} calls {name!r} without {words}."
        hint = f"Add {words} to the agent inside, or take {name!r} from it."
        return _No(reason, hint, _to_tools(plan), tool.name)
    no = _around(plan, members, [START, TOOLS], TOOLS, f"the tool {tool.name!r}", names)
    return None if no is None else no._replace(tool=tool.name)


def _to_tools(plan: TopologyData) -> Path:
    """The path on which the model calls a tool."""
    edges, model = edges_of(plan), plan.style.model
    before, after = shortest_path(edges, START, model), shortest_path(edges, model, TOOLS)
    return (*before, *after[1:]) if before and after else ()


def _around(
    plan: TopologyData,
    members: Collection[str],
    sources: Collection[str],
    target: str,
    what: str,
    names: Collection[str] | None = None,
) -> _No | None:
    """A path to a node that passes none of some middleware after the last of its sources."""
    names = _named(plan, members) if names is None else names
    words = " or ".join(members)
    edges = edges_of(plan)
    once, each_turn = places_of(plan, names)
    if START in once or not edges:
        return None
    start = shortest_path(edges, START, target, once | each_turn)
    if start is not None:
        return _bypassed(plan, start, what, words, missing=not names)
    for source in sources:
        if source == START:
            continue
        # Up to the source, only what is passed once counts; from there on, what each turn passes.
        before = shortest_path(edges, START, source, once)
        after = shortest_path(edges, source, target, once | each_turn)
        if before is not None and after is not None:
            return _bypassed(plan, (*before, *after[1:]), what, words, missing=not names)
    return None


def _bypassed(plan: TopologyData, path: Path, what: str, words: str, *, missing: bool) -> _No:
    if missing:
        reason = f"{words} is not in the stack."
        close = get_close_matches(words, _owners(plan), n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Add {words} to `middleware`."
        if words in (A_GUARD, A_PERSON):
            reason = f"No middleware declares that {words[2:]} decides about it."
            hint = "Add HumanInTheLoopMiddleware, or declare `guards` in your middleware."
        return _No(reason, hint, path)
    opened = [
        (hook, jump)
        for node, following in pairwise(path)
        if (hook := plan.hook_at(node)) and hook.can_jump_to
        for jump in sorted(hook.can_jump_to)
        if following in (TOOLS, plan.loop_entry, plan.exit)
        and {"tools": TOOLS, "model": plan.loop_entry, "end": plan.exit}[jump] == following
    ]
    reason = f"A run can reach {what} without {words}."
    hint = f"Let {words} wrap the call in a layer, which no path bypasses."
    if opened:
        hook, jump = opened[-1]
        hint = (
            f"Remove {jump!r} from can_jump_to of {hook.node}, or let {words} wrap the call in a "
            "layer, which no jump bypasses."
        )
    return _No(reason, hint, path)


def _loop_passes(plan: TopologyData, clause: LoopPasses) -> _No | None:
    places = set[str]()
    for member in clause.members:
        if member == A_LIMIT:
            places |= {plan.style.model} if _ending_limits(plan) else set()
        else:
            once, each_turn = places_of(plan, _named(plan, [member]))
            places |= once | each_turn
    edges = edges_of(plan)
    cycle = shortest_cycle(edges, places)
    if cycle is None:
        return None
    entry = shortest_path(edges, START, cycle[0]) or (START,)
    words = " or ".join(clause.members)
    hint = "Add ModelCallLimitMiddleware(run_limit=...)."
    if _ending_limits(plan) or A_LIMIT not in clause.members:
        hint = "Remove the jump that closes the loop, or let it pass the model."
        if A_LIMIT not in clause.members:
            hint = f"Add {words} to a part of the loop that each turn passes."
    return _No(f"A run can go around a loop without {words}.", hint, (*entry, *cycle[1:]))


def _ending_limits(plan: TopologyData) -> bool:
    return any(limit.unit in _ENDS_A_LOOP and "/" not in limit.owner for limit in plan.limits)


def _path_passes(plan: TopologyData, clause: PathPasses) -> _No | None:
    source, target = (_node(plan, name) for name in (clause.source, clause.target))
    names = _named(plan, clause.members)
    once, each_turn = places_of(plan, names)
    # A member may be a node: "model", "tools".
    nodes = {node for name in clause.members if (node := node_named(plan, name))}
    avoided = once | each_turn | nodes
    if source in avoided:
        return None
    edges = edges_of(plan)
    path = shortest_path(edges, source, target, avoided)
    if path is None:
        return None
    before = shortest_path(edges, START, source) if source != START else (START,)
    if before is None:
        return None  # no run reaches the source
    words = " or ".join(clause.members)
    no = _bypassed(plan, path, target, words, missing=not (names or nodes))
    return no._replace(path=(*before, *path[1:]))


# Order, and numbers


def _sees_last(plan: TopologyData, clause: SeesLast) -> _No | None:
    (member,) = _named(plan, [clause.member])[:1] or [clause.member]
    positions = _positions(plan, clause.aspect)
    if member not in positions:
        reason = f"{clause.member} sees no {clause.aspect.replace('_', ' ')}."
        return _No(reason, "Give it a hook after the model, or a layer around the call.")
    writers = {
        access.owner
        for access in plan.accesses
        if access.kind is AccessKind.WRITES and clause.aspect in access.aspects
    }
    later = [
        owner
        for owner, position in positions.items()
        if owner in writers - {member} and position > positions[member]
    ]
    if not later:
        return None
    what = clause.aspect.replace("_", " ")
    reason = f"{later[-1]} may change {what} after {member} has seen them."
    hint = f"Let {member} see them later: hooks after the model run from the end of the list to "
    return _No(reason, f"{hint}its beginning, then the layers around tools.")


def _positions(plan: TopologyData, aspect: str) -> dict[str, int]:
    """The last place of each middleware in the order in which it sees answers or calls."""
    # A layer sees a response after those inside of it, and a tool call before them.
    owners = [layer.owner for layer in reversed(plan.layers_around(Call.MODEL))]
    owners += [hook.owner for hook in plan.run_order(Phase.AFTER_MODEL)]
    if aspect == "tool_calls":
        owners += [layer.owner for layer in plan.layers_around(Call.TOOL)]
    return {owner: place for place, owner in enumerate(owners)}


def _only_after(plan: TopologyData, clause: OnlyAfter) -> _No | None:
    for tool in _tools(plan, clause.tool):
        guards = [
            guard
            for guard in plan.guards
            if guard.covers(tool.name)
            and guard.after
            and not guard.when
            and fnmatchcase(guard.after, clause.other)
        ]
        if any(_call_passes(plan, tool, [guard.owner]) is None for guard in guards):
            continue
        reason = f"The model may call {tool.name!r} first, and nothing stops the call."
        hint = (
            f"Refuse it in a layer, and declare ToolGuard({tool.name!r}, 'check', "
            f"after={clause.other!r}) in its `guards`."
        )
        return _No(reason, hint, _to_tools(plan), tool.name)
    return None


def _at_most(plan: TopologyData, clause: AtMost) -> _No | None:
    scopes = {"run", "thread"} if clause.scope == "run" else {clause.scope}
    units = {clause.unit, "tokens"} if clause.unit.endswith("put tokens") else {clause.unit}
    limits = [
        limit
        for limit in plan.limits
        if limit.unit in units and limit.scope in scopes and "/" not in limit.owner
        # A limit of all tools together is one of each tool.
        if limit.tool in ("", clause.tool)
    ]
    what = f"calls of {clause.tool}" if clause.tool else clause.unit
    number = f"{clause.most:g}"
    if not limits:
        reason = f"No middleware limits {what} a {clause.scope}."
        hint = f"Add BudgetMiddleware({clause.scope}=Limits(...))."
        if clause.unit == "model calls":
            hint = f"Add ModelCallLimitMiddleware({clause.scope}_limit={number})."
        if clause.unit == "tool calls":
            name = f"tool_name={clause.tool!r}, " if clause.tool else ""
            hint = f"Add ToolCallLimitMiddleware({name}{clause.scope}_limit={number})."
        return _No(reason, hint, (), clause.tool)
    least = min(limits, key=lambda limit: limit.most)
    if least.most > clause.most:
        reason = f"The limit of {least.owner} is {least.most:g}."
        return _No(reason, f"Lower it to {number}.", (), clause.tool)
    at = TOOLS if least.unit == "tool calls" else plan.style.model
    return _around(plan, [least.owner], [START, at], at, what)


# Names


def _tools(plan: TopologyData, pattern: str) -> Iterator[Tool]:
    """The tools of a plan that a pattern means, with those of agents inside of tools."""
    runnable = [tool for tool in plan.tools if tool.kind is not ToolKind.OUTPUT]
    names = [tool.name for tool in runnable]
    tools = [
        tool
        for tool in runnable
        if fnmatchcase(tool.name, pattern) or fnmatchcase(tool.name.rpartition("/")[2], pattern)
    ]
    if not tools and not set(pattern) & set("*?["):
        close = get_close_matches(pattern, names, n=1)
        hint = (
            f"Did you mean {close[0]!r}?" if close else f"Its tools: {', '.join(names) or 'none'}."
        )
        raise SpecError(f"tool {pattern}", "is not a tool of this agent.", hint, code="AF128")
    yield from tools


def _node(plan: TopologyData, name: str) -> str:
    node = node_named(plan, name)
    if node is None:
        hint = f"Its nodes: start, {', '.join(plan.nodes)}, end."
        raise SpecError(name, "is not a node of this agent.", hint, code="AF128")
    return node


def _named(plan: TopologyData, members: Collection[str], tool: str = "") -> list[str]:
    """The middleware that a sentence means; those that decide about a tool, for "a guard"."""
    names: list[str] = []
    for member in members:
        if member in (A_GUARD, A_PERSON):
            guards = [guard for guard in plan.guards if _decides(guard, tool)]
            if member == A_PERSON:
                guards = [guard for guard in guards if guard.action == "ask"]
            names += [guard.owner.rpartition("/")[2] for guard in guards]
        elif member == A_LIMIT:
            names += [limit.owner for limit in plan.limits if "/" not in limit.owner]
        else:
            names += members_of(plan, member)
    return list(dict.fromkeys(names))


def _decides(guard: ToolGuard, tool: str) -> bool:
    """Return True if a guard decides about all calls of a tool."""
    return guard.covers(tool) and not guard.when


def _owners(plan: TopologyData) -> list[str]:
    return members_of(plan, "*")
