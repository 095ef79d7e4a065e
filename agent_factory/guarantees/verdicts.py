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

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from importlib import import_module
from itertools import chain, pairwise
from typing import NamedTuple, get_args

from agent_factory.errors import SpecError, did_you_mean
from agent_factory.guarantees.counterexample import Counterexample
from agent_factory.guarantees.paths import Path, Places, PlanGraph, shortest_path, union
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
from agent_factory.topology.declarations import JOBS, AccessKind, LimitUnit, ToolGuard, UsageLimit
from agent_factory.topology.model import (
    END,
    START,
    TOOLS,
    Call,
    Phase,
    Route,
    Tool,
    ToolKind,
    TopologyData,
)

_GUARDS = (A_GUARD, A_PERSON)

_ALIKE = 0.8
"""Least likeness of a misspelt name to the right one."""

_OF_THE_MODEL = frozenset(get_args(LimitUnit)) - {"tool calls", JOBS}
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
        counterexample
        for text in guarantees
        for guarantee in [text if isinstance(text, Guarantee) else parse(text)]
        for clause in guarantee.clauses
        if (counterexample := _counterexample(graph, guarantee.text, clause)) is not None
    )


class _No(NamedTuple):
    """A clause does not hold."""

    reason: str
    hint: str
    path: Path = ()
    tool: str = ""


def _counterexample(graph: PlanGraph, text: str, clause: Clause) -> Counterexample | None:
    match clause:
        case ToolPasses():
            no = _tool_passes(graph, clause)
        case ModelPasses():
            no = _around(graph, clause.members, graph.model, "the model")
        case LoopPasses():
            no = _loop_passes(graph, clause)
        case PathPasses():
            no = _path_passes(graph, clause)
        case SeesLast():
            no = _sees_last(graph, clause)
        case OnlyAfter():
            no = _only_after(graph, clause)
        case AtMost():
            no = _at_most(graph, clause)
    if no is None:
        return None
    return Counterexample(text, graph.plan, graph.steps(no.path), no.reason, no.hint, no.tool)


# Paths


def _tool_passes(graph: PlanGraph, clause: ToolPasses) -> _No | None:
    for tool in _tools(graph.plan, clause.tool):
        if tool.kind is ToolKind.PROVIDER:
            return _run_by_provider(tool)
        if tool.kind is ToolKind.INNER:
            no = _inside(graph, clause.members, tool)
        else:
            no = _around(graph, clause.members, TOOLS, f"the tool {tool.name!r}", tool.name)
        if no is not None:
            return no
    return None


def _run_by_provider(tool: Tool) -> _No:
    reason = f"The provider of the model runs {tool.name!r}, and no middleware sees the call."
    return _No(reason, "Give the agent a tool that runs here instead.", (), tool.name)


def _inside(graph: PlanGraph, members: Collection[str], tool: Tool) -> _No | None:
    """The call of a tool by an agent inside, unless one of its guards is meant and decides."""
    prefix, _, name = tool.name.rpartition("/")
    for guard in graph.plan.guards:
        agent, _, owner = guard.owner.rpartition("/")
        # The plan has the guards of an agent inside, and not its nodes: a layer is certain.
        if guard.place == "around_tool" and guard.covers(tool.name):
            for member in members:
                is_named = agent == prefix and fnmatchcase(owner, member)
                if _decides(guard, member) if member in _GUARDS else is_named:
                    return None
    words = " or ".join(members)
    reason = f"The agent inside of the tool {prefix!r} calls {name!r} without {words}."
    hint = f"Add {words} to the agent inside, or take {name!r} from it."
    reason, hint = _partial_guard(graph, tool.name, words) or (reason, hint)
    return _No(reason, hint, _to_tools(graph), tool.name)


def _to_tools(graph: PlanGraph) -> Path:
    """The path on which the model calls a tool."""
    return _joined(graph.shortest_path(START, graph.model), graph.shortest_path(graph.model, TOOLS))


def _joined(first: Path, *others: Path) -> Path:
    """Paths one after the other; empty if one of them is missing."""
    # Each path begins with the node at which the one before it ends.
    steps = chain(first, *(path[1:] for path in others))
    return tuple(steps) if all((first, *others)) else ()


def _around(
    graph: PlanGraph, terms: Collection[str], target: str, what: str, tool: str = ""
) -> _No | None:
    """A path on which a run reaches a node and has passed no member since it was there before."""
    members = _Members(graph, terms, tool)
    # A call that a layer refuses until another tool has run is not the first one of its run.
    waits = any(
        guard.after and not guard.when and guard.place == "around_tool" and guard.covers(tool)
        for guard in (graph.guards if tool else ())
    )
    path = _bypass(graph, members.places, target, first=not waits)
    return _bypassed(members, path, what) if path else None


def _bypass(graph: PlanGraph, places: Places, target: str, *, first: bool = True) -> Path:
    """A path that passes none of some places before a node, at the first visit or at a later one.

    Without `first`, what happens at the first visit does not count.
    """
    # A layer around the run is passed before all else, and covers each path.
    if START in places.once:
        return ()
    if first and (start := graph.shortest_path(START, target, places.all)):
        return start
    # Up to the first visit, only what is passed once counts; from there on, what each turn passes.
    before = graph.shortest_path(START, target, places.once)
    return _joined(before, graph.shortest_path(target, target, places.all))


def _bypassed(members: _Members, path: Path, what: str, nodes: Collection[str] = ()) -> _No:
    """A path around members, and around nodes that are named as members."""
    graph, words, tool = members.graph, members.words, members.tool
    if not members.names and not nodes:
        return _No(*_missing(members), path, tool)
    guards = {guard.owner for guard in graph.guards}
    if tool and not members.places.all and (guarding := [n for n in members.names if n in guards]):
        reason = f"{' or '.join(guarding)} does not decide about {tool!r}."
        return _No(reason, f"Add {tool!r} to the tools that it guards.", path, tool)
    hint = f"Let {words} wrap the call in a layer, which no path bypasses."
    for node, following in pairwise(path):
        # The first target of an edge is its default: a run goes there without a jump, too.
        jumps = {} if graph.edges[node][0] == following else graph.jumps_from(node)
        if jump := next((jump for jump, target in jumps.items() if target == following), None):
            hint = (
                f"Remove {jump!r} from can_jump_to of {node}, or let {words} wrap the call in a "
                "layer, which no jump bypasses."
            )
    return _No(f"A run can reach {what} without {words}.", hint, path, tool)


def _missing(members: _Members) -> tuple[str, str]:
    """The reason and the hint if a plan has no such middleware."""
    graph, words, tool = members.graph, members.words, members.tool
    if tool and (partial := _partial_guard(graph, tool, words)):
        return partial
    if words in _GUARDS:
        reason = f"No middleware declares that {words} decides about it."
        return reason, "Add HumanInTheLoopMiddleware, or declare `guards` in your middleware."
    reason = f"{words} is not in the stack."
    instances = [owner for owner in graph.owners if owner.startswith(f"{words}[")]
    # Dynamic: the middleware are built on the package that this module is a part of.
    is_built_in = words in dir(import_module("agent_factory.middleware"))
    if is_built_in and not instances:
        return reason, f"Add {words}(...) to `middleware`."
    # Nearly all names end with this word, which would make any two of them alike.
    stems = {owner.removesuffix("Middleware"): owner for owner in graph.owners}
    close = get_close_matches(words.removesuffix("Middleware"), stems, n=1, cutoff=_ALIKE)
    similar = instances or [stems[stem] for stem in close]
    hint = f"Did you mean {similar[0]}?" if similar else f"Add {words} to `middleware`."
    return reason, hint


def _partial_guard(graph: PlanGraph, tool: str, words: str) -> tuple[str, str] | None:
    """The reason and the hint if a guard or a person decides about some calls of a tool."""
    for guard in graph.plan.guards if words in _GUARDS else ():
        if guard.when and guard.covers(tool) and _decides(replace(guard, when=""), words):
            name = guard.owner.rpartition("/")[2]
            hint = (
                f"Write 'tool {tool} passes {name}' if such calls are what you mean, or let it "
                "decide about all calls."
            )
            return f"{name} decides about some calls only: {guard}.", hint
    return None


def _path_passes(graph: PlanGraph, clause: PathPasses) -> _No | None:
    source, target = (_node(graph, name) for name in (clause.source, clause.target))
    members = _Members(graph, clause.members)
    # A member may be a node: "model", "tools".
    nodes = {node for name in clause.members if (node := graph.node_named(name))}
    avoided = members.places.all | nodes
    before = (START,) if source == START else graph.shortest_path(START, source)
    path = _joined(before, graph.shortest_path(source, target, avoided))
    # A run at the member has passed it, and no run comes to a node that nothing leads to.
    if source in avoided or not path:
        return None
    return _bypassed(members, path, target, nodes)


# Loops and limits


def _loop_passes(graph: PlanGraph, clause: LoopPasses) -> _No | None:
    others = [member for member in clause.members if member != A_LIMIT]
    places = _Members(graph, others).places.all
    cycle = graph.shortest_cycle(graph.edges, places)
    limits: list[UsageLimit] = []
    if A_LIMIT in clause.members and cycle:
        limits = [limit for limit in graph.limits if limit.unit in _OF_THE_MODEL]
        # A loop without the model uses nothing. One that is left when all is used up never ends.
        left = _used_up(graph, {limit.owner for limit in limits})
        cycle = graph.shortest_cycle(graph.edges, {*places, graph.model}) if limits else cycle
        cycle = cycle or graph.shortest_cycle(left, places)
    if not cycle:
        return None
    words = " or ".join(clause.members)
    hint = f"Add {words} to a part of the loop that each turn passes."
    if A_LIMIT in clause.members:
        hint = "Add ModelCallLimitMiddleware(run_limit=...)."
    if limits:
        hint = "Remove the jump that closes the loop, or let it pass the model."
        if graph.model in cycle:
            owners = " or ".join(dict.fromkeys(limit.owner for limit in limits))
            hint = f"Let {owners} jump to the end in a hook before the model."
    path = _joined(graph.shortest_path(START, cycle[0]), cycle)
    return _No(f"A run can go around a loop without {words}.", hint, path)


def _used_up(graph: PlanGraph, owners: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The edges that are left when the limits of some middleware are used up."""
    edges = dict(graph.edges)
    for owner in owners:
        before = graph.node_of(owner, Phase.BEFORE_MODEL)
        hooks = [node for node in (before, graph.node_of(owner, Phase.AFTER_MODEL)) if node]
        jumping = [node for node in hooks if "end" in graph.hooks[node].can_jump_to]
        has_layer = graph.has_layer(owner, Call.MODEL)
        if jumping and (before in jumping or not has_layer):
            edges[jumping[0]] = (graph.plan.exit,)
        elif has_layer and graph.plan.edge_from(graph.plan.loop_exit).route is Route.AFTER_MODEL:
            # Without calls, the end of a turn leads out of the loop, or where a hook jumps.
            last = graph.plan.loop_exit
            targets = {graph.plan.exit, *graph.jumps_from(last).values()}
            edges[last] = tuple(node for node in edges[last] if node in targets)
        elif hooks and not has_layer:
            edges[hooks[0]] = ()  # all it can do is to raise
    return edges


def _at_most(graph: PlanGraph, clause: AtMost) -> _No | None:
    name = next((tool.name for tool in _tools(graph.plan, clause.tool)), "") if clause.tool else ""
    of_tools = clause.unit in ("tool calls", JOBS)
    at = TOOLS if of_tools else graph.model
    # What is never called needs no limit, and without a loop the model is called once.
    if not graph.shortest_path(START, at):
        return None
    if clause.unit == "model calls" and clause.most >= 1 and not graph.shortest_path(at, at):
        return None
    # A run is a part of its thread, and of what a ledger counts, so their limits hold for it, too.
    scopes = {"run", "thread", "ledger"} if clause.scope == "run" else {clause.scope}
    # A limit of all tokens is one of those that are read, and of those that are written.
    units = {clause.unit, "tokens"} if clause.unit.endswith("put tokens") else {clause.unit}
    limits = [
        limit
        for limit in graph.limits
        if limit.unit in units and limit.scope in scopes
        # A limit of all tools together is one of each tool.
        if limit.tool in ("", clause.tool)
    ]
    number = f"{clause.most:g}"
    if not limits and clause.unit == JOBS:
        return None  # without the middleware that limits them, no tool works in the background
    if not limits:
        what = f"calls of {clause.tool}" if clause.tool else clause.unit
        reason = f"No middleware limits {what} a {clause.scope}."
        hint = f"Add BudgetMiddleware({clause.scope}=Limits(...))."
        if clause.scope == "ledger":
            hint = "Add BudgetMiddleware(ledger=Ledger(Limits(...)))."
        elif clause.unit == "model calls":
            hint = f"Add ModelCallLimitMiddleware({clause.scope}_limit={number})."
        elif of_tools:
            tool = f"tool_name={clause.tool!r}, " if clause.tool else ""
            hint = f"Add ToolCallLimitMiddleware({tool}{clause.scope}_limit={number})."
        return _No(reason, hint, (), name)
    fixed = sorted((x for x in limits if not x.raisable), key=lambda limit: limit.most)
    least = fixed[0] if fixed else min(limits, key=lambda limit: limit.most)
    if not fixed:
        reason = f"People may raise the limit of {least.owner}."
        return _No(reason, "Add a limit that nobody can raise.", (), name)
    if least.most > clause.most:
        reason = f"The limit of {least.owner} is {least.most:g}."
        return _No(reason, f"Lower it to {number}.", (), name)
    paths = [_beyond(graph, limit, at) for limit in fixed if limit.most <= clause.most]
    # One limit that no path bypasses is enough.
    if () in paths:
        return None
    reason = f"A run can reach the {at} without {least.owner}."
    where = "a layer around the tools" if of_tools else "a layer around the model"
    return _No(reason, f"Let {least.owner} count and stop the calls in {where}.", paths[0], name)


def _beyond(graph: PlanGraph, limit: UsageLimit, at: str) -> Path:
    """A path on which a call is made that a limit does not allow; empty if there is none."""
    owner, model = limit.owner, graph.model
    after = graph.node_of(owner, Phase.AFTER_MODEL)
    if at == TOOLS:
        layer = TOOLS if graph.has_layer(owner, Call.TOOL) else None
        return _bypass(graph, Places.in_each_turn(layer, after), at)
    # No run reaches the model around a hook before it: the last of them leads there.
    if graph.has_layer(owner, Call.MODEL) or graph.node_of(owner, Phase.BEFORE_MODEL):
        return ()
    start = graph.shortest_path(START, model)
    # With a limit of 0 the first call is one too many already.
    if limit.most < 1:
        return start
    return _joined(start, shortest_path(_used_up(graph, [owner]), model, model))


# Order


def _only_after(graph: PlanGraph, clause: OnlyAfter) -> _No | None:
    list(_tools(graph.plan, clause.other))  # it exists
    for tool in _tools(graph.plan, clause.tool):
        if _is_named(tool.name, clause.other) and tool.name != clause.tool:
            continue  # a pattern of many tools, among them the one that has to be first
        if tool.kind is ToolKind.PROVIDER:
            return _run_by_provider(tool)
        guards = [
            guard
            for guard in graph.plan.guards
            if guard.covers(tool.name) and guard.after and not guard.when
            if _is_named(guard.after, clause.other)
        ]
        if any(guard.place == "around_tool" for guard in guards):
            continue
        # A guard in a hook sees the calls of an answer, and not those that a later hook writes.
        ways = [_unseen_call(graph, guard, tool) for guard in guards]
        if not guards or tool.kind is ToolKind.INNER:
            reason = f"The model may call {tool.name!r} first, and nothing stops the call."
            ways = [(reason, _to_tools(graph))]
        if (way := ways[0]) and None not in ways:
            reason, path = way
            hint = (
                f"Refuse it in a layer, and declare ToolGuard({tool.name!r}, 'check', "
                f"after={clause.other!r}) in its `guards`."
            )
            return _No(reason, hint, path, tool.name)
    return None


def _unseen_call(graph: PlanGraph, guard: ToolGuard, tool: Tool) -> tuple[str, Path] | None:
    """A jump to the tools, around a guard after the model or with a call that it has not seen."""
    node = graph.node_of(guard.owner, Phase.AFTER_MODEL)
    if path := _bypass(graph, Places.in_each_turn(node), TOOLS):
        return f"A run can reach the tool {tool.name!r} without {guard.owner}.", path
    if node is None:
        return None
    for other in graph.hooks:
        if other == node or "tools" not in graph.hooks[other].can_jump_to:
            continue
        # On the way from the guard to the jump, no tools run: they would end the turn.
        between = graph.shortest_path(node, other, [TOOLS])
        if path := _joined(graph.shortest_path(START, node), between, (other, TOOLS)):
            reason = f"{other} may jump to the tools with a call that {guard.owner} has not seen."
            return reason, path
    return None


def _sees_last(graph: PlanGraph, clause: SeesLast) -> _No | None:
    members = _Members(graph, [clause.member])
    plan, names = graph.plan, members.names
    what = clause.aspect.replace("_", " ")
    # The nodes and the middleware that see an answer or a call there, in their order: a layer sees
    # a response after those inside of it, and a tool call before them.
    views = [(graph.model, layer.owner) for layer in reversed(plan.layers_around(Call.MODEL))]
    views += [(hook.node, hook.owner) for hook in plan.run_order(Phase.AFTER_MODEL)]
    if clause.aspect == "tool_calls":
        views += [(TOOLS, layer.owner) for layer in plan.layers_around(Call.TOOL)]
    if not names:
        return _No(*_missing(members))
    if not any(owner in names for _, owner in views):
        reason = f"{clause.member} sees no {what}."
        return _No(reason, "Give it a hook after the model, or a layer around the call.")
    writers = {
        access.owner
        for access in plan.accesses
        if access.kind is AccessKind.WRITES and clause.aspect in access.aspects
    }
    # Calls are over when tools run, and answers when the run ends.
    target = TOOLS if clause.aspect == "tool_calls" else END
    # The last writer first: the path to it is the one that people look for.
    for index, (node, owner) in reversed([*enumerate(views)]):
        first = next((n for n, other in views[:index] if other in names), None)
        if owner not in writers or owner in names or first is None:
            continue
        # Those that see it later at the same node, and those whose node a path may go around.
        later = {n for n, other in views[index + 1 :] if other in names}
        if node in later or target in later:
            continue
        path = _joined(
            graph.shortest_path(START, first),
            (node,) if first == node else graph.shortest_path(first, node, [graph.model]),
            (node,) if node == target else graph.shortest_path(node, target, {*later, graph.model}),
        )
        if path:
            reason = f"{owner} may change {what} after {clause.member} has seen them."
            hint = f"Let {clause.member} see them later: hooks after the model run from the end of "
            return _No(
                reason, f"{hint}the list to its beginning, then the layers around tools.", path
            )
    return None


# Names


def _tools(plan: TopologyData, pattern: str) -> Iterator[Tool]:
    """The tools of a plan that a pattern means, with those of agents inside of tools."""
    # A call of an output tool is the structured answer, and nothing runs.
    runnable = [tool for tool in plan.tools if tool.kind is not ToolKind.OUTPUT]
    names = [tool.name for tool in runnable]
    tools = [tool for tool in runnable if _is_named(tool.name, pattern)]
    if not tools and not set(pattern) & set("*?["):
        hint = did_you_mean(pattern, names, f"Its tools: {', '.join(names) or 'none'}.", repr)
        raise SpecError(f"tool {pattern}", "is not a tool of this agent.", hint, code="AF128")
    yield from tools


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

    @cached_property
    def names(self) -> list[str]:
        """Their names."""
        return list(dict.fromkeys(name for term in self.terms for name in self._named(term)))

    @cached_property
    def places(self) -> Places:
        """The places at which a run passes them."""
        graph, places = self.graph, list[Places]()
        for term in self.terms:
            guards = self._deciding(term)
            if term not in _GUARDS:
                names = self._named(term)
                guards = [guard for guard in graph.guards if self.tool and guard.owner in names]
                # A member that guards nothing is passed at each of its nodes.
                guarding = {guard.owner for guard in guards}
                places += [graph.owners[name] for name in names if name not in guarding]
                guards = [guard for guard in guards if guard.covers(self.tool)]
            for guard in guards:
                node = graph.node_of(guard.owner, Phase.AFTER_MODEL)
                node = TOOLS if guard.place == "around_tool" else node
                places.append(Places.in_each_turn(node))
        return union(places)

    def _named(self, term: str) -> list[str]:
        if term in _GUARDS:
            return [guard.owner for guard in self._deciding(term)]
        if term == A_LIMIT:
            return [limit.owner for limit in self.graph.limits if limit.unit != JOBS]
        return self.graph.members(term)

    def _deciding(self, term: str) -> list[ToolGuard]:
        """The guards that decide about all calls of the tool, or of any tool if none is named."""
        guards = [guard for guard in self.graph.guards if _decides(guard, term)]
        return [guard for guard in guards if not self.tool or guard.covers(self.tool)]


def _decides(guard: ToolGuard, member: str) -> bool:
    """Return True if a guard decides about all calls of its tools, or a person if that is meant."""
    return not guard.when and (guard.action == "ask" or member != A_PERSON)
