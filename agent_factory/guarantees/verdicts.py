"""Verdicts: whether the clauses of a guarantee hold for a plan, and a counterexample if not.

A sentence is about all runs that the plan allows. A hook may take each jump that it declares, at
each of its visits; before a jump to the tools it may write a call. A hook after the model, or a
layer around it, may answer calls. A tool may end the run.

- A run *passes* a middleware at the nodes of its hooks, at the model for a layer around it, and at
  the tools for a layer around them. One that guards tools is passed where it decides about the
  tool. What a run passes before the loop counts for the whole run.
- A *limit* ends a loop if its middleware stops the run by a hook before the model, by an answer
  without calls in a layer, or by a jump to the end after the model. It counts the calls of this
  agent: those of an agent inside of a tool are the matter of that agent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property, singledispatch
from importlib import import_module
from itertools import dropwhile, islice, pairwise, product
from typing import NamedTuple

from agent_factory.errors import SpecError, did_you_mean
from agent_factory.guarantees.counterexample import Counterexample
from agent_factory.guarantees.paths import Path, PlanGraph, joined
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
from agent_factory.topology.declarations import JOBS, AccessKind, ToolGuard, UsageLimit
from agent_factory.topology.model import END, START, TOOLS, Tool, ToolKind, TopologyData

_OF_TOOLS = ("tool calls", JOBS)
"""Units that only tools use. A refused tool call uses no tool call, so the loop goes on."""


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
    >>> def search(query: str) -> str:
    ...     '''Search.'''
    >>> plan = plan_agent(tools=[search])
    >>> for counterexample in counterexamples(plan, ["at most 5 model calls"]):
    ...     print(counterexample)
    at most 5 model calls: no. No middleware limits model calls a run.
    Add ModelCallLimitMiddleware(run_limit=5).
    """
    graph = PlanGraph(plan)
    return tuple(
        Counterexample(guarantee.text, plan, graph.steps(no.path), no.reason, no.hint, no.tool)
        for text in guarantees
        for guarantee in [text if isinstance(text, Guarantee) else parse(text)]
        for clause in guarantee.clauses
        for no in islice(_noes(clause, graph), 1)
    )


class _No(NamedTuple):
    """A reason why a clause does not hold, and what to write instead."""

    reason: str
    hint: str
    path: Path = ()
    tool: str = ""


@singledispatch
def _noes(clause: Clause, graph: PlanGraph) -> Iterator[_No]:
    """All reasons why a clause does not hold. People read the first one."""
    raise TypeError(clause)


# Paths around members


@_noes.register
def _tool_passes(clause: ToolPasses, graph: PlanGraph) -> Iterator[_No]:
    for tool in _tools(graph.plan, clause.tool):
        members = _Members(graph, clause.members, tool.name)
        if tool.kind is ToolKind.PROVIDER:
            yield _run_by_provider(tool)
        elif tool.kind is ToolKind.INNER:
            yield from _inside(members)
        else:
            # A call that a layer refuses until another tool has run is not the first of its run.
            waits = any(guard.place == "around_tool" for guard in _order_guards(graph, tool))
            path = graph.bypass(members.places, TOOLS, first=not waits)
            yield from _bypassed(members, path, f"the tool {tool.name!r}")


@_noes.register
def _model_passes(clause: ModelPasses, graph: PlanGraph) -> Iterator[_No]:
    members = _Members(graph, clause.members)
    yield from _bypassed(members, graph.bypass(members.places, graph.model), "the model")


@_noes.register
def _path_passes(clause: PathPasses, graph: PlanGraph) -> Iterator[_No]:
    source, target = (_node(graph, name) for name in (clause.source, clause.target))
    members = _Members(graph, clause.members)
    # A member may be a node: "model", "tools".
    nodes = filter(None, map(graph.node_named, clause.members))
    members.nodes.update({node: {node} for node in nodes})
    yield from _bypassed(members, graph.way_past(members.places, source, target), target)


def _bypassed(members: _Members, path: Path, what: str) -> Iterator[_No]:
    """A path around members, with the jump that has to go; nothing without a path."""
    graph, words, tool = members.graph, members.words, members.tool
    if not path:
        return
    guarding = {guard.owner for guard in graph.guards} & members.nodes.keys()
    if not members.nodes:
        reason, hint = _missing(members)
    elif tool and guarding and not members.places:
        names = " or ".join(name for name in members.nodes if name in guarding)
        reason = f"{names} does not decide about {tool!r}."
        hint = f"Add {tool!r} to the tools that it guards."
    else:
        reason = f"A run can reach {what} without {words}."
        hint = f"Let {words} wrap the call in a layer, which no path bypasses."
        for node, following in pairwise(path):
            for jump, target in graph.jumps_from(node).items():
                # The first target of an edge is its default: a run goes there without a jump, too.
                if target == following != graph.edges[node][0]:
                    layer = f"let {words} wrap the call in a layer, which no jump bypasses"
                    hint = f"Remove {jump!r} from can_jump_to of {node}, or {layer}."
    yield _No(reason, hint, path, tool)


def _run_by_provider(tool: Tool) -> _No:
    reason = f"The provider of the model runs {tool.name!r}, and no middleware sees the call."
    return _No(reason, "Give the agent a tool that runs here instead.", (), tool.name)


def _inside(members: _Members) -> Iterator[_No]:
    """The call of a tool by an agent inside, unless one of its guards is meant and decides."""
    graph, words = members.graph, members.words
    prefix, _, name = members.tool.rpartition("/")
    # The plan has the guards of an agent inside, and not its nodes: a layer is certain.
    guards = [g for g in graph.plan.guards if g.place == "around_tool" and g.covers(members.tool)]
    for guard, term in product(guards, members.terms):
        if _decides(guard, term) or fnmatchcase(guard.owner, f"{prefix}/{term}"):
            return
    reason = f"The agent inside of the tool {prefix!r} calls {name!r} without {words}."
    hint = f"Add {words} to the agent inside, or take {name!r} from it."
    reason, hint = _partial_guard(members) or (reason, hint)
    yield _No(reason, hint, graph.shortest_path(START, graph.model, TOOLS), members.tool)


# Loops and limits


@_noes.register
def _loop_passes(clause: LoopPasses, graph: PlanGraph) -> Iterator[_No]:
    is_limited, words = A_LIMIT in clause.members, " or ".join(clause.members)
    places = _Members(graph, [term for term in clause.members if term != A_LIMIT]).places
    limits = [limit for limit in graph.limits if is_limited and limit.unit not in _OF_TOOLS]
    owners = dict.fromkeys(limit.owner for limit in limits)
    # A loop without the model uses nothing. One that is left when all is used up never ends.
    unused = graph.shortest_cycle(graph.edges, {*places, graph.model}) if limits else ()
    cycle = unused or graph.shortest_cycle(graph.used_up(owners), places)
    if not is_limited:
        hint = f"Add {words} to a part of the loop that each turn passes."
    elif not limits:
        hint = "Add ModelCallLimitMiddleware(run_limit=...)."
    elif unused:
        hint = "Remove the jump that closes the loop, or let it pass the model."
    else:
        hint = f"Let {' or '.join(owners)} jump to the end in a hook before the model."
    if cycle:
        path = joined(graph.shortest_path(START, cycle[0]), cycle)
        yield _No(f"A run can go around a loop without {words}.", hint, path)


@_noes.register
def _at_most(clause: AtMost, graph: PlanGraph) -> Iterator[_No]:
    tools = _tools(graph.plan, clause.tool) if clause.tool else []
    tool = tools[0].name if tools else ""
    at = TOOLS if clause.unit in _OF_TOOLS else graph.model
    # What is never called needs no limit, and without a loop the model is called once.
    allows_one = clause.unit == "model calls" and clause.most >= 1
    if not graph.shortest_path(START, at) or (allows_one and not graph.shortest_path(at, at)):
        return
    limits = [limit for limit in graph.limits if _is_about(limit, clause)]
    limits.sort(key=lambda limit: (limit.raisable, limit.most))
    if not limits:
        # Without the middleware that limits them, no tool works in the background.
        if clause.unit != JOBS:
            yield _No(f"No middleware limits {clause.what}.", _limit_hint(clause), (), tool)
        return
    least = limits[0]
    low = [limit for limit in limits if not limit.raisable and limit.most <= clause.most]
    paths = [graph.path_beyond(limit, at) for limit in low]
    if least.raisable:
        reason = f"People may raise the limit of {least.owner}."
        yield _No(reason, "Add a limit that nobody can raise.", (), tool)
    elif not low:
        reason = f"The limit of {least.owner} is {least.most:g}."
        yield _No(reason, f"Lower it to {clause.most:g}.", (), tool)
    # One limit that no path bypasses is enough.
    elif all(paths):
        reason = f"A run can reach the {at} without {least.owner}."
        where = "a layer around the tools" if at == TOOLS else "a layer around the model"
        hint = f"Let {least.owner} count and stop the calls in {where}."
        yield _No(reason, hint, paths[0], tool)


def _is_about(limit: UsageLimit, clause: AtMost) -> bool:
    """Return True if a limit is about what a sentence limits, whatever its number is."""
    # A run is a part of its thread, and of what a ledger counts, so their limits hold for it, too.
    scopes = {"run", "thread", "ledger"} if clause.scope == "run" else {clause.scope}
    # A limit of all tokens is one of those that are read, and of those that are written.
    units = {clause.unit, "tokens"} if clause.unit.endswith("put tokens") else {clause.unit}
    # A limit of all tools together is one of each tool.
    return limit.unit in units and limit.scope in scopes and limit.tool in ("", clause.tool)


def _limit_hint(clause: AtMost) -> str:
    """The hint if no middleware limits what a sentence limits."""
    argument = f"{clause.scope}_limit={clause.most:g}"
    if clause.scope == "ledger":
        return "Add BudgetMiddleware(ledger=Ledger(Limits(...)))."
    if clause.unit == "model calls":
        return f"Add ModelCallLimitMiddleware({argument})."
    if clause.unit == "tool calls":
        tool = f"tool_name={clause.tool!r}, " if clause.tool else ""
        return f"Add ToolCallLimitMiddleware({tool}{argument})."
    return f"Add BudgetMiddleware({clause.scope}=Limits(...))."


# Order


@_noes.register
def _only_after(clause: OnlyAfter, graph: PlanGraph) -> Iterator[_No]:
    _tools(graph.plan, clause.other)  # it exists
    for tool in _tools(graph.plan, clause.tool):
        if _is_named(tool.name, clause.other) and tool.name != clause.tool:
            continue  # a pattern of many tools, among them the one that has to be first
        if tool.kind is ToolKind.PROVIDER:
            yield _run_by_provider(tool)
        guards = [
            guard for guard in _order_guards(graph, tool) if _is_named(guard.after, clause.other)
        ]
        if tool.kind is ToolKind.INNER:
            guards = [guard for guard in guards if guard.place == "around_tool"]
        reason = f"The model may call {tool.name!r} first, and nothing stops the call."
        ways = [_unseen_call(graph, guard, tool) for guard in guards]
        ways = ways or [(reason, graph.shortest_path(START, graph.model, TOOLS))]
        # One guard that sees each call is enough.
        if all(reason for reason, _ in ways):
            reason, path = ways[0]
            hint = (
                f"Refuse it in a layer, and declare ToolGuard({tool.name!r}, 'check', "
                f"after={clause.other!r}) in its `guards`."
            )
            yield _No(reason, hint, path, tool.name)


def _order_guards(graph: PlanGraph, tool: Tool) -> list[ToolGuard]:
    """The guards that let no call of a tool run before another tool has run."""
    guards = graph.plan.guards
    return [g for g in guards if g.after and not g.when and g.covers(tool.name)]


def _unseen_call(graph: PlanGraph, guard: ToolGuard, tool: Tool) -> tuple[str, Path]:
    """A call that comes to the tools past a guard, in words and as a path; empty without one."""
    place = graph.place_of(guard)
    if path := graph.bypass(place, TOOLS):
        return f"A run can reach the tool {tool.name!r} without {guard.owner}.", path
    for node, hook in graph.hooks.items():
        # A guard in a hook sees the calls of an answer, and not those that another hook writes.
        if "tools" in hook.can_jump_to and not place & {node, TOOLS}:
            reason = f"{node} may jump to the tools with a call that {guard.owner} has not seen."
            return reason, graph.shortest_path(START, node, TOOLS)
    return "", ()


@_noes.register
def _sees_last(clause: SeesLast, graph: PlanGraph) -> Iterator[_No]:
    members, what = _Members(graph, [clause.member]), clause.aspect.replace("_", " ")
    names, of_calls = members.nodes.keys(), clause.aspect == "tool_calls"
    # What the first of them sees, and all that see it later.
    views = [*dropwhile(lambda view: view[1] not in names, graph.views(of_calls=of_calls))]
    if not names:
        yield _No(*_missing(members))
    elif not views:
        reason = f"{clause.member} sees no {what}."
        yield _No(reason, "Give it a hook after the model, or a layer around the call.")
    writers = {
        access.owner
        for access in graph.plan.accesses
        if access.kind is AccessKind.WRITES and clause.aspect in access.aspects
    }
    # Calls are over when tools run, and answers when the run ends.
    target = TOOLS if of_calls else END
    later = set[str]()
    # The last writer first: the path to it is the one that people look for.
    for node, owner in reversed(views):
        if owner in names:
            later.add(node)
        # A look at the same node comes later, and one at another node if no path goes around it.
        elif owner in writers and not later & {node, target}:
            first, without = views[0][0], {*later, graph.model}
            turn = graph.shortest_path(*dict.fromkeys((first, node, target)), without=without)
            if path := joined(graph.shortest_path(START, first), turn):
                reason = f"{owner} may change {what} after {clause.member} has seen them."
                hint = (
                    f"Let {clause.member} see them later: hooks after the model run from the end "
                    "of the list to its beginning, then the layers around tools."
                )
                yield _No(reason, hint, path)


# Names


def _tools(plan: TopologyData, pattern: str) -> list[Tool]:
    """The tools of a plan that a pattern means, with those of agents inside of tools."""
    # A call of an output tool is the structured answer, and nothing runs.
    runnable = [tool for tool in plan.tools if tool.kind is not ToolKind.OUTPUT]
    names = [tool.name for tool in runnable]
    tools = [tool for tool in runnable if _is_named(tool.name, pattern)]
    if not tools and not set(pattern) & set("*?["):
        hint = did_you_mean(pattern, names, f"Its tools: {', '.join(names) or 'none'}.", repr)
        raise SpecError(f"tool {pattern}", "is not a tool of this agent.", hint, code="AF128")
    return tools


def _is_named(tool: str, pattern: str) -> bool:
    """Return True if a pattern means a tool, by its whole name or by that in the agent inside."""
    return fnmatchcase(tool, pattern) or fnmatchcase(tool.rpartition("/")[2], pattern)


def _node(graph: PlanGraph, name: str) -> str:
    node = graph.node_named(name)
    if node is None:
        names = ["start", *graph.plan.nodes, "end"]
        hint = did_you_mean(name, names, f"Its nodes: {', '.join(names)}.", repr)
        raise SpecError(name, "is not a node of this agent.", hint, code="AF128")
    return node


# Members


@dataclass(frozen=True)
class _Members:
    """The middleware that a sentence means. A run has to pass one of them.

    Args:
        graph: The plan.
        terms: Names, patterns, "a guard", "a person" or "a limit".
        tool: The tool before which it has to pass them, if the sentence is about one.
    """

    graph: PlanGraph
    terms: Collection[str]
    tool: str = ""

    @property
    def words(self) -> str:
        """What the sentence calls them."""
        return " or ".join(self.terms)

    @property
    def places(self) -> set[str]:
        """The nodes at which a run passes one of them."""
        return set().union(*self.nodes.values())

    @cached_property
    def nodes(self) -> dict[str, set[str]]:
        """Their names, with the nodes at which a run passes each of them."""
        graph, tool = self.graph, self.tool
        nodes = defaultdict[str, set[str]](set)
        for term in self.terms:
            names = graph.members(term)
            if term == A_LIMIT:
                names = [limit.owner for limit in graph.limits if limit.unit != JOBS]
            for name in names:
                # One that guards tools is passed where it decides about this one.
                guards = [guard for guard in graph.guards if tool and guard.owner == name]
                places = [graph.place_of(guard) for guard in guards if guard.covers(tool)]
                nodes[name].update(*(places if guards else [graph.owners[name]]))
            for guard in graph.guards:
                if _decides(guard, term) and (not tool or guard.covers(tool)):
                    nodes[guard.owner] |= graph.place_of(guard)
        return nodes


def _decides(guard: ToolGuard, term: str) -> bool:
    """Return True if a guard decides about all calls of its tools, and a sentence means such."""
    return not guard.when and _is_meant(guard, term)


def _is_meant(guard: ToolGuard, term: str) -> bool:
    return term == A_GUARD or (term == A_PERSON and guard.action == "ask")


def _missing(members: _Members) -> tuple[str, str]:
    """The reason and the hint if a plan has no such middleware."""
    graph, words = members.graph, members.words
    if partial := _partial_guard(members):
        return partial
    if words in (A_GUARD, A_PERSON):
        reason = f"No middleware declares that {words} decides about it."
        return reason, "Add HumanInTheLoopMiddleware, or declare `guards` in your middleware."
    reason = f"{words} is not in the stack."
    if instances := [owner for owner in graph.owners if owner.startswith(f"{words}[")]:
        return reason, f"Did you mean {instances[0]}?"
    # Dynamic: the middleware are built on the package that this module is a part of.
    if words in dir(import_module("agent_factory.middleware")):
        return reason, f"Add {words}(...) to `middleware`."
    # Nearly all names end with this word, which would make any two of them alike.
    stems = {owner.removesuffix("Middleware"): owner for owner in graph.owners}
    close = get_close_matches(words.removesuffix("Middleware"), stems, n=1, cutoff=0.8)
    return reason, f"Did you mean {stems[close[0]]}?" if close else f"Add {words} to `middleware`."


def _partial_guard(members: _Members) -> tuple[str, str] | None:
    """The reason and the hint if a guard or a person decides about some calls of a tool."""
    tool = members.tool
    for guard in members.graph.plan.guards if tool else ():
        if guard.when and guard.covers(tool) and _is_meant(guard, members.words):
            name = guard.owner.rpartition("/")[2]
            hint = (
                f"Write 'tool {tool} passes {name}' if such calls are what you mean, or let it "
                "decide about all calls."
            )
            return f"{name} decides about some calls only: {guard}.", hint
    return None
