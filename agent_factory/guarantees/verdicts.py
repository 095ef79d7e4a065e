"""Verdicts: whether the clauses of a guarantee hold for a plan, and a counterexample if not.

A sentence is about all runs of the plan. A hook may take each of its declared jumps at each visit.
A hook after the model, or a layer around the model, may answer calls. A tool may end the run.

- A *call* has an origin (`PlanGraph.origins`): the input, the model, a layer that answers in place
  of the model, a declared writer, a hook before a jump to the tools. On its path to the tool, a
  call passes a guard where the guard decides about the tool, and other middleware where they see
  calls. Middleware that see no calls are passed in each turn, or before the loop for the whole run.
- With *conditions*, the guards on each path have to decide about all arguments together.
- A *limit* ends a loop if its middleware stops the run by a hook before the model, by an answer
  without calls in a layer, or by a jump to the end after the model. Numbers are bounds of the plan.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property, partial, singledispatch
from importlib import import_module
from itertools import islice, pairwise
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple

from agent_factory.errors import SpecError, did_you_mean
from agent_factory.guarantees.counterexample import Counterexample
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
from agent_factory.topology.bounds import Bound, rows_of
from agent_factory.topology.conditions import (
    Case,
    Condition,
    Fact,
    UndecidableError,
    counterexample_case,
    misfit,
    parse_condition,
    values_of,
)
from agent_factory.topology.declarations import JOBS, AccessKind, ToolGuard
from agent_factory.topology.model import END, START, TOOLS, Call, Tool, ToolKind, TopologyData
from agent_factory.topology.paths import RUN, Origin, Path, PlanGraph, Position, Ways, joined


def counterexamples(
    plan: TopologyData,
    guarantees: Iterable[str | Guarantee],
    schemas: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> tuple[Counterexample, ...]:
    """Return a counterexample for each guarantee that does not hold for a plan.

    Args:
        plan: The plan, of `plan_agent`, `topology_of` or `load_topology`.
        guarantees: Sentences; `agent_factory.guarantees.sentences` lists their forms.
        schemas: JSON schemas of the arguments of tools by name, to check conditions against.
            A plan does not have them.

    Raises:
        GuaranteeSyntaxError: A text is not a sentence.
        SpecError: The plan does not have a tool or a node of a sentence, or a condition does not
            fit the tool, or cannot be decided.

    >>> from agent_factory import plan_agent
    >>> def search(query: str) -> str:
    ...     '''Search.'''
    >>> plan = plan_agent(tools=[search])
    >>> for counterexample in counterexamples(plan, ["at most 5 model calls"]):
    ...     print(counterexample)
    at most 5 model calls: no. No middleware limits model calls a run.
    Add ModelCallLimitMiddleware(run_limit=5).
    """
    graph = PlanGraph(plan, schemas)
    return tuple(
        Counterexample(guarantee.text, plan, graph.steps(no.path), no.reason, no.hint, *no[3:])
        for text in guarantees
        for guarantee in [text if isinstance(text, Guarantee) else parse(text)]
        for clause in guarantee.clauses
        for no in islice(_noes(clause, graph), 1)
    )


def undecided_calls(plan: TopologyData) -> tuple[str, ...]:
    """Return the calls that may run without a decision of a person, a judge, or code.

    A name stands for each call of a tool, and a name with arguments for similar calls: a guard
    decides about the rest.

    >>> from agent_factory import ToolGuard
    >>> from agent_factory.topology.model import Call, Layer, Shape, Tool
    >>> from agent_factory.topology.topology import plan
    >>> review = ToolGuard("refund", "ask", when="euros > 50", owner="Review")
    >>> layer = Layer("Review", Call.TOOL, "around_tool")
    >>> tools = Tool("refund"), Tool("search")
    >>> undecided_calls(plan(Shape(layers=(layer,), has_tools=True, tools=tools, guards=(review,))))
    ('refund(euros=49)', 'search')
    """
    graph, calls = PlanGraph(plan), list[str]()
    for tool in plan.tools:
        if tool.kind is not ToolKind.OUTPUT:
            pattern = tool.name if tool.kind is ToolKind.INNER else f"/{tool.name}"
            for no in islice(_noes(ToolPasses(pattern, (A_GUARD,)), graph), 1):
                calls.append(_call_text(tool.name, no.case))
    return tuple(calls)


def _call_text(tool: str, case: Case) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in case.items())
    return f"{tool}({arguments})" if arguments else tool


class _No(NamedTuple):
    """A reason why a clause does not hold; its fields are those of a counterexample."""

    reason: str
    hint: str
    path: Path = ()
    tool: str = ""
    case: Case = MappingProxyType({})
    origin: str = ""


@singledispatch
def _noes(clause: Clause, graph: PlanGraph) -> Iterator[_No]:
    """All reasons why a clause does not hold. People read the first one."""
    raise TypeError(clause)


# Calls and the members on their paths


@_noes.register
def _tool_passes(clause: ToolPasses, graph: PlanGraph) -> Iterator[_No]:
    tools = _tools(graph.plan, clause.tool, if_any=clause.if_any)
    names = [tool.name for tool in tools if clause.wanted and tool.name in graph.schemas]
    misfits = {n: misfit(clause.wanted or Condition(()), graph.schemas[n]) for n in names}
    for tool in tools:
        wanted = clause.wanted
        # Of several tools, those without the argument have unknown calls: others, after `unless`.
        if wanted and misfits.get(tool.name) and not all(misfits.values()):
            unchecked = graph.schemas[tool.name].get("unchecked")  # a call has any arguments
            if not (unchecked or wanted.holds(lambda _: None)):
                continue
            wanted = None
        if wanted:
            _check_condition(wanted, tool, graph.schemas.get(tool.name))
        yield from _around(_Members(graph, clause.members, tool, wanted), tool)


def _around(members: _Members, tool: Tool) -> Iterator[_No]:
    """Calls of a tool that do not pass the members."""
    if tool.kind is ToolKind.PROVIDER:
        reason = f"The provider of the model runs {tool.name!r}, and no middleware sees the call."
        yield _No(reason, "Give the agent a tool that runs here instead.", (), tool.name)
    elif tool.kind is ToolKind.INNER:
        yield from _inside(members)
    else:
        yield from _unpassed(members, RUN)


def _check_condition(wanted: Condition, tool: Tool, schema: Mapping[str, Any] | None) -> None:
    """Raise a SpecError for a condition that does not fit a tool, or is undecidable."""
    subject = f"tool {tool.name}"
    if schema and (problem := misfit(wanted, schema)):
        hint = "Write a condition on its arguments, of their types."
        raise SpecError(subject, f"{problem}.", hint, code="AF128")
    names: set[Any] = {getattr(leaf, "name", None) for leaf in wanted.leaves}
    if changed := names.intersection((schema or {}).get("changed", ())):
        reason = f"may change {min(changed)} before it runs: the call does not say the new value."
        hint = "Give the argument a type such as str, float or Literal, without a validator."
        raise SpecError(subject, reason, hint, code="AF128")
    if undecided := wanted.undecided:
        hint = "Compare texts by ==, !=, in, or like with a pattern of * and ?."
        raise SpecError(subject, f"cannot be decided for {undecided}.", hint, code="AF128")
    if counterexample_case(wanted, [], lambda _: None, values_of(schema or {})) is None:
        reason = f"has no calls with {wanted}: the sentence would hold for nothing."
        raise SpecError(subject, reason, "Compare with values that calls have.", code="AF128")


def _unpassed(members: _Members, target: Position) -> Iterator[_No]:
    """Find calls or answers around the members, between origin and target."""
    graph, coverage = members.graph, members.coverage
    reach = graph.reached(coverage.before) if coverage.before else None
    without = coverage.before | coverage.always
    all_ways = graph.ways_to(target, without)
    for origin in graph.origins(answers=members.answers):
        position, ways = origin.position, all_ways
        # A call has passed a member that changes the call: an edit of a person is a decision.
        is_passed = position in coverage.edits and not origin.jumps
        if origin.owner and not is_passed and position in coverage.denials:
            # A refusing member may write such calls itself.
            ways = graph.ways_to(target, without - {position})
        if is_passed or position not in ways or (reach is not None and position not in reach):
            continue
        if slip := _slip(members, position, target, ways, without):
            yield _escape(members, origin, slip)


class _Slip(NamedTuple):
    """Path past the members, and arguments about which no guard on the path decides."""

    ways: Ways
    case: Case
    guards: list[ToolGuard]


def _slip(
    members: _Members, source: Position, target: Position, ways: Ways, without: Set[Position]
) -> _Slip | None:
    """Find a path past the members, with arguments that the guards on it leave undecided."""
    on_way, position = set[Position](), ways[source]
    while position is not None:
        on_way.add(position)
        position = ways[position]
    guards = [each for each in members.coverage.some if not each.positions.isdisjoint(on_way)]
    case = members.case_of([each.condition for each in guards])
    if case is not None:
        return _Slip(ways, case, [each.guard for each in guards])
    # Guards decide about all arguments on this path, so another path has to avoid a guard.
    for each in guards:
        without_guard = without | each.positions
        other_ways = members.graph.ways_to(target, without_guard)
        if source in other_ways and (
            slip := _slip(members, source, target, other_ways, without_guard)
        ):
            return slip
    return None


def _escape(members: _Members, origin: Origin, slip: _Slip) -> _No:
    """The no about a call that escapes members, with the jump or the order to remove."""
    graph, words, tool = members.graph, members.words, members.name
    before = {position.node for position in members.coverage.before}
    path = graph.path_of(origin.position, slip.ways, before)
    no = partial(_No, path=path, tool=tool, case=slip.case, origin=origin.name)
    if absence := members.absence():
        return no(*absence)
    if slip.guards:
        return no(*members.partly(slip.guards, slip.case))
    if members.answers:
        where, what, jump = "the end", "answers", "end the run with an answer"
    else:
        where = f"the tool {tool!r}" if tool else "the tools"
        what, jump = "tool calls", "jump to the tools with a call"
    reason = f"A run can reach {where} without {words}."
    hint = _hint(graph, path, words)
    if origin.jumps and origin.position.node not in members.places:
        reason = f"{origin.position.node} may {jump} that {words} has not seen."
    elif origin.owner and not origin.jumps:
        reason = f"{origin.owner} may change {what} after {words} has seen them."
        hint = (
            f"Let {words} see them later: hooks after the model run from the end of the list to "
            "its beginning, then the layers around tools."
        )
    return no(reason, hint)


def _hint(graph: PlanGraph, path: Path, words: str) -> str:
    """Advice against a path around members: remove its jump, or use a layer."""
    for node, following in pairwise(path):
        for jump, target in graph.jumps_from(node).items():
            # The first target of an edge is its default: a run goes there without a jump, too.
            if target == following != graph.edges[node][0]:
                layer = f"let {words} wrap the call in a layer, which no jump bypasses"
                return f"Remove {jump!r} from can_jump_to of {node}, or {layer}."
    return f"Let {words} wrap the call in a layer, which no path bypasses."


def _inside(members: _Members) -> Iterator[_No]:
    """The call of a tool by an agent inside, unless a guard of the sentence decides."""
    graph, words = members.graph, members.words
    prefix, _, name = members.name.rpartition("/")
    changing = {
        access.owner
        for access in graph.plan.accesses
        if access.kind in (AccessKind.WRITES, AccessKind.SANITIZES)
        and "tool_calls" in access.aspects
        and access.owner.rpartition("/")[0] == prefix
    }
    # The plan has the guards of an agent inside, but not its nodes: a layer is certain; if a member
    # in there changes calls, only a layer that decides again is.
    guards = [
        guard
        for guard in members.guards
        if guard.place == "around_tool" and (guard.decides_again or not changing - {guard.owner})
    ]
    conditions = [members.condition_of(guard) for guard in guards]
    case = members.case_of([condition for condition in conditions if condition is not None])
    if None in conditions or case is None:
        return
    path = graph.shortest_path(START, graph.model, TOOLS)
    if guards:
        yield _No(*members.partly(guards, case), path, members.name, case)
    else:
        reason = f"The agent inside of the tool {prefix!r} calls {name!r} without {words}."
        hint = f"Add {words} to the agent inside, or take {name!r} from it."
        if doubtful := [guard.owner for guard in members.guards]:
            others = ", ".join(sorted(changing - {*doubtful})) or "a jump"
            reason = f"In the agent inside, {others} may bypass {', '.join(doubtful)}."
        yield _No(reason, hint, path, members.name, case)


# Paths around members


@_noes.register
def _model_passes(clause: ModelPasses, graph: PlanGraph) -> Iterator[_No]:
    members = _Members(graph, clause.members)
    yield from _bypassed(members, graph.bypass(members.places_on_paths), "the model")


@_noes.register
def _path_passes(clause: PathPasses, graph: PlanGraph) -> Iterator[_No]:
    source, target = (_node(graph, name) for name in (clause.source, clause.target))
    members = _Members(graph, clause.members)
    # A member may be a node: "model", "tools".
    nodes = {*filter(None, map(graph.node_named, clause.members))}
    places = members.places_on_paths | nodes
    around_run = [layer.owner for layer in graph.plan.layers_around(Call.AGENT)]
    if (source, target) == (START, END) and around_run and not places & {START, END}:
        reason = f"A layer around the run may end it without {members.words}."
        hint = f"Remove the layer {around_run[0]}.around_agent, or name it after `unless`."
        yield _No(reason, hint)
    path = graph.way_past(places, source, target)
    yield from _bypassed(members, path, target, is_node=bool(nodes))


def _bypassed(members: _Members, path: Path, what: str, *, is_node: bool = False) -> Iterator[_No]:
    """A path around members, with the jump to remove; nothing without a path."""
    graph, words = members.graph, members.words
    if not path:
        return
    if not members.owners and not is_node:
        yield _No(*members.missing(), path)
        return
    yield _No(f"A run can reach {what} without {words}.", _hint(graph, path, words), path)


# Loops and limits


@_noes.register
def _loop_passes(clause: LoopPasses, graph: PlanGraph) -> Iterator[_No]:
    is_limited, words = A_LIMIT in clause.members, " or ".join(clause.members)
    places = _Members(graph, [term for term in clause.members if term != A_LIMIT]).places_on_paths
    cycle = graph.endless(places, is_limited=is_limited)
    owners = [owner for owner, ends in graph.ending.items() if ends]
    if not is_limited:
        hint = f"Add {words} to a part of the loop that each turn passes."
    elif not graph.ending:
        hint = "Add ModelCallLimitMiddleware(run_limit=...)."
    elif graph.model not in cycle:
        hint = "Remove the jump that closes the loop, or let it pass the model."
    elif not owners:
        hint = "Let a limit count turns in a hook: a layer around it may answer with calls."
    else:
        hint = f"Let {' or '.join(owners)} jump to the end in a hook before the model."
    if cycle:
        path = joined(graph.shortest_path(START, cycle[0]), cycle)
        yield _No(f"A run can go around a loop without {words}.", hint, path)
    for tool in graph.plan.tools if is_limited else ():
        if tool.agent is True:
            reason = f"The agent inside of {tool.name!r} can go around a loop without a limit."
            hint = "Build it by create_agent, with ModelCallLimitMiddleware(run_limit=...) and "
            hint += "guarantees=['every loop passes a limit']."
            yield _No(reason, hint, (), tool.name)


@_noes.register
def _at_most(clause: AtMost, graph: PlanGraph) -> Iterator[_No]:
    tools = _tools(graph.plan, clause.tool) if clause.tool else []
    # The tools with calls that run.
    names = [
        tool.name
        for tool in tools
        if tool.kind is not ToolKind.CLIENT or any(_unpassed(_Members(graph, (), tool), RUN))
    ]
    if clause.unit == JOBS:
        # Without the middleware that limits them, no tool works in the background.
        limits = [limit for limit in graph.plan.limits if limit.unit == JOBS]
        if inside := next((limit.owner for limit in limits if "/" in limit.owner), ""):
            reason = f"Each run of an agent inside has its own jobs: {inside}."
            yield _No(reason, "Start them in the agent itself.")
        elif limits and clause.scope == "ledger":
            yield _No(f"The limit of {limits[0].owner} is one of a thread.", "Write 'a thread'.")
        elif limits and (most := sum(limit.most for limit in limits)) > clause.most:
            reason = f"The limit of {limits[0].owner} is {most:g}."
            yield _No(reason, f"Lower it to {clause.most:g}.")
        return
    for tool in tools:
        if tool.kind is ToolKind.PROVIDER:
            yield from _around(_Members(graph, (), tool), tool)
    if tools and not names:
        return
    name = names[0] if names else ""
    rows = _rows_of(clause, graph, names)
    if sum(inf if row.most is None else row.most for row in rows) <= clause.most:
        return
    for row in rows:
        if not row.agent and (row.most is None or row.most > clause.most):
            yield from _over_limit(clause, graph, name, row)
        elif row.agent:
            number = "any number" if row.most is None else f"up to {row.most:g}"
            reason = f"The agent inside of {row.agent!r} uses {number} of {row.what}."
            hint = f"Limit them in the agent {row.agent!r}, and its calls."
            yield _No(reason, hint, (), name)


def _rows_of(clause: AtMost, graph: PlanGraph, names: Sequence[str]) -> list[Bound]:
    """The bounds whose sum a sentence of number is about; bounds of calls count attempts."""
    rows = []
    for row in rows_of(graph, {}, clause.scope, is_certain=True):
        # The time of an agent inside is a part of the time of its tool, and a ledger counts alone.
        if row.agent and (clause.unit == "seconds" or clause.scope == "ledger"):
            continue
        tool = f"{row.agent}/".lstrip("/") + row.what.removeprefix("calls of ")
        if tool in names if names else row.what == clause.unit:
            is_calls = clause.unit in ("model calls", "tool calls")
            rows.append(replace(row, most=row.attempts) if is_calls else row)
    return rows


def _over_limit(clause: AtMost, graph: PlanGraph, tool: str, row: Bound) -> Iterator[_No]:
    """The reason why an agent itself may use more than a sentence allows."""
    at = TOOLS if clause.unit == "tool calls" else graph.model
    # A run is a part of its thread and of its ledger, so their limits hold for the run, too.
    scopes = {"run", "thread", "ledger"} if clause.scope == "run" else {clause.scope}
    # A limit of all tokens is also a limit of input tokens, and of output tokens.
    units = {clause.unit, "tokens"} if clause.unit.endswith("put tokens") else {clause.unit}
    # A limit of all tools together is also a limit of each tool.
    about = [x for x in graph.limits if x.unit in units and x.tool in ("", clause.tool)]
    limits = [limit for limit in about if limit.scope in scopes or not limit.most]
    limits.sort(key=lambda limit: (limit.raisable, limit.most))
    if not limits:
        yield _No(f"No middleware limits {clause.what}.", _limit_hint(clause), (), tool)
        return
    least = limits[0]
    low = [limit for limit in limits if not limit.raisable and limit.most <= clause.most]
    paths = [graph.path_beyond(limit) for limit in low]
    if least.raisable:
        reason = f"People may raise the limit of {least.owner}."
        yield _No(reason, "Add a limit that nobody can raise.", (), tool)
    elif not low:
        reason = f"The limit of {least.owner} is {least.most:g}."
        yield _No(reason, f"Lower it to {clause.most:g}.", (), tool)
    # A single limit without a path around is enough.
    elif all(paths):
        reason = f"A run can reach the {at} without {least.owner}."
        where = "a layer around the tools" if at == TOOLS else "a layer around the model"
        hint = f"Let {least.owner} count and stop the calls in {where}."
        yield _No(reason, hint, paths[0], tool)
    else:
        reason = f"The limit of {least.owner} is not one of attempts. {' '.join(row.notes)}"
        yield _No(reason, f"Put {least.owner} further in: later in the list.", (), tool)


def _limit_hint(clause: AtMost) -> str:
    """The hint if no middleware has the limit of a sentence."""
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
    tools = _tools(graph.plan, clause.tool)
    others = {tool.name for tool in _tools(graph.plan, clause.other)}
    # Of a pattern of many tools, the tools that have to be first come after nothing.
    later = [tool for tool in tools if tool.name not in others or tool.name == clause.tool]
    if tools and not later:
        reason = f"would hold for nothing: each tool of {clause.tool!r} is one of {clause.other!r}."
        raise SpecError(f"tool {clause.tool}", reason, "Name the tools one by one.", code="AF128")
    for tool in later:
        yield from _around(_Members(graph, (), tool, after=clause.other), tool)


@_noes.register
def _sees_last(clause: SeesLast, graph: PlanGraph) -> Iterator[_No]:
    answers, what = clause.aspect == "answers", clause.aspect.replace("_", " ")
    members = _Members(graph, [clause.member], answers=answers)
    if not members.owners:
        yield _No(*members.missing())
    elif not members.coverage.always:
        reason = f"{clause.member} sees no {what}."
        yield _No(reason, "Give it a hook after the model, or a layer around the call.")
    else:
        yield from _unpassed(members, graph.end if answers else RUN)


# Names


def _tools(plan: TopologyData, pattern: str, *, if_any: bool = False) -> list[Tool]:
    """The tools of a plan that match a pattern, with the tools of agents inside of tools.

    "/refund" is the tool of the agent itself alone.
    """
    # A call of an output tool is the structured answer, and nothing runs.
    runnable = [tool for tool in plan.tools if tool.kind is not ToolKind.OUTPUT]
    tools = [tool for tool in runnable if _is_named(tool.name, pattern)]
    if not tools and not if_any:
        names = [tool.name for tool in runnable]
        hint = did_you_mean(pattern, names, f"Its tools: {', '.join(names) or 'none'}.", repr)
        if _is_pattern(pattern):
            hint += " Write 'if any' at the end of the sentence if there may be none."
        reason = "matches no tool" if _is_pattern(pattern) else "is not a tool"
        raise SpecError(f"tool {pattern}", f"{reason} of this agent.", hint, code="AF128")
    return tools


def _is_pattern(text: str) -> bool:
    return not {*"*?["}.isdisjoint(text)


def _is_named(tool: str, pattern: str) -> bool:
    """Return True if a pattern means a tool, by its whole name or its name in the agent inside."""
    if pattern.startswith("/"):
        return "/" not in tool and fnmatchcase(tool, pattern[1:])
    return fnmatchcase(tool, pattern) or fnmatchcase(tool.rpartition("/")[2], pattern)


def _node(graph: PlanGraph, name: str) -> str:
    node = graph.node_named(name)
    if node is None:
        names = ["start", *graph.plan.nodes, "end"]
        hint = did_you_mean(name, names, f"Its nodes: {', '.join(names)}.", repr)
        raise SpecError(name, "is not a node of this agent.", hint, code="AF128")
    return node


# Members


class _Partial(NamedTuple):
    """A guard that decides about some calls, and the positions of the decision."""

    guard: ToolGuard
    condition: Condition
    positions: frozenset[Position]


@dataclass(slots=True)
class _Coverage:
    """Positions at which a run passes the members of a sentence.

    Attributes:
        before: Positions before a call is made. They count for the calls of their turn.
        always: Positions on the path of a call after its origin.
        some: Guards of some calls.
        edits: Positions at which guards change calls themselves.
        denials: Positions at which guards refuse calls.
    """

    before: set[Position] = field(default_factory=set)
    always: set[Position] = field(default_factory=set)
    some: list[_Partial] = field(default_factory=list)
    edits: set[Position] = field(default_factory=set)
    denials: set[Position] = field(default_factory=set)


@dataclass(frozen=True)
class _Members:
    """The middleware of a sentence. A run has to pass any of them.

    Args:
        graph: The plan.
        terms: Names, patterns, "a guard", "a person" or "a limit".
        tool: The tool before which a run has to pass them, if the sentence is about a tool.
        wanted: The calls of the tool in the sentence; None for all of them.
        after: In place of terms, the tool to run first.
        answers: Answers pass them, and not calls.
    """

    graph: PlanGraph
    terms: Collection[str]
    tool: Tool | None = None
    wanted: Condition | None = None
    after: str = ""
    answers: bool = False

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.tool.name if self.tool else ""

    @property
    def words(self) -> str:
        """Their names in the sentence."""
        if self.after:
            owners = dict.fromkeys(guard.owner for guard in self.guards)
            return " or ".join(owners) or f"a guard that asks for {self.after!r} first"
        return " or ".join(self.terms)

    @cached_property
    def owners(self) -> list[str]:
        """The middleware of the agent itself that the terms name."""
        graph, names = self.graph, list[str]()
        for term in self.terms:
            if term == A_LIMIT:
                names += [limit.owner for limit in graph.limits if limit.unit != JOBS]
            elif term in (A_GUARD, A_PERSON):
                names += [guard.owner for guard in graph.guards if _is_meant(guard, term)]
            else:
                names += graph.members(term)
        return list(dict.fromkeys(names))

    @property
    def places(self) -> set[str]:
        """The nodes at which a run passes any of them."""
        return set().union(*(self.graph.owners[owner] for owner in self.owners))

    @property
    def places_on_paths(self) -> set[str]:
        """The nodes at which a run passes any of them, whichever tools it calls."""
        for term in {A_GUARD, A_PERSON} & {*self.terms}:
            reason = "decides about calls of tools, and a sentence about paths names none."
            hint = f"Write 'tool * passes {term}', or name a middleware."
            raise SpecError(term, reason, hint, code="AF128")
        return self.places

    @cached_property
    def guards(self) -> list[ToolGuard]:
        """The guards of the tool that the sentence means, and all guards that never let it run."""
        guards = [guard for guard in self.graph.plan.guards if guard.covers(self.name)]
        if self.after:
            return [g for g in guards if g.after and not g.when and _is_named(g.after, self.after)]
        terms, names = self.terms, self._names
        return [g for g in guards if g.action == "deny" or any(names(g, term) for term in terms)]

    def _names(self, guard: ToolGuard, term: str) -> bool:
        if term in (A_GUARD, A_PERSON, A_LIMIT):
            return _is_meant(guard, term)
        agent, _, name = guard.owner.rpartition("/")
        # "clerk/Review": in a sentence about "clerk/refund", the name is of the agent inside.
        return fnmatchcase(name, term) if agent else guard.owner in self.graph.members(term)

    def condition_of(self, guard: ToolGuard) -> Condition | None:
        """The calls of a guard; None for all calls of the sentence."""
        is_named = not any(_is_meant(guard, term) for term in self.terms) and guard.action != "deny"
        # "passes Review": a review of some calls is enough, unless the sentence says which calls.
        if not guard.when or (is_named and self.wanted is None):
            return None
        return parse_condition(guard.when).decidable

    @cached_property
    def coverage(self) -> _Coverage:
        """The positions at which a run passes them."""
        coverage, graph = _Coverage(), self.graph
        guards = {guard.owner for guard in graph.guards} | {*graph.plan.idle_guards}
        for owner in self.owners:
            if self.tool and (owner in guards or owner not in graph.positions):
                continue  # a run passes it where it decides
            for position in graph.positions[owner]:
                sees = graph.sees(position, answers=self.answers)
                (coverage.always if sees else coverage.before).add(position)
        for guard in self.guards if self.tool else ():
            positions = frozenset(graph.positions_of(guard))
            condition = self.condition_of(guard)
            (coverage.denials if guard.action == "deny" else coverage.edits).update(positions)
            if guard.decides_again and guard.action != "deny":  # a denial may be another member's
                coverage.edits |= graph.positions.get(guard.owner, set())
            if condition is None:
                coverage.always |= positions
            else:
                coverage.some.append(_Partial(guard, condition, positions))
        if not self.tool:
            coverage.before.clear()
        return coverage

    def case_of(self, conditions: Sequence[Condition]) -> Case | None:
        """Arguments of a call about which none of some conditions decides."""
        wanted, schema = self.wanted or Condition(()), self.graph.schemas.get(self.name, {})
        try:
            values, sure = values_of(schema), schema.get("sure", ())
            return counterexample_case(wanted, conditions, self._fact, values, sure)
        except UndecidableError as error:
            hint = "Compare with other values, or ask about all calls."
            raise SpecError(
                f"tool {self.name}", f"cannot be decided: {error}.", hint, code="AF128"
            ) from None

    def _fact(self, text: str) -> bool | None:
        """Return True if a fact of a condition holds for the tool; None if unknown."""
        assert self.tool is not None
        if text == "labeled outside":
            return "outside" in self.tool.labels
        # A policy names the tools of an earlier rule by their pattern, and no other fact is a word.
        is_name = _is_pattern(text) and {" ", "("}.isdisjoint(text)
        return fnmatchcase(self.name.rpartition("/")[2], text) if is_name else None

    def absence(self) -> tuple[str, str] | None:
        """The reason and the hint if no middleware of a sentence decides or is passed."""
        coverage = self.coverage
        if self.after and not coverage.always:
            reason = f"The model may call {self.name!r} first, and nothing stops the call."
            guard = f"ToolGuard({self.name!r}, 'check', after={self.after!r})"
            return reason, f"Refuse it in a layer, and declare {guard} in its `guards`."
        if coverage.before or coverage.always or coverage.some:
            return None
        if self.owners and self.words not in (A_GUARD, A_PERSON):
            reason = f"{' or '.join(self.owners)} does not decide about {self.name!r}."
            return reason, f"Add {self.name!r} to the tools that it guards."
        return self.missing()

    def missing(self) -> tuple[str, str]:
        """The reason and the hint if a plan has no such middleware."""
        words, owners = self.words, self.graph.owners
        if words in (A_GUARD, A_PERSON):
            reason = f"No middleware declares that {words} decides about {self.name!r}."
            return reason, "Add HumanInTheLoopMiddleware, or declare `guards` in your middleware."
        reason = f"{words} is not in the stack."
        if instances := [owner for owner in owners if owner.startswith(f"{words}[")]:
            return reason, f"Did you mean {instances[0]}?"
        # Dynamic: the middleware are built on the package that this module is a part of.
        if words in dir(import_module("agent_factory.middleware")):
            return reason, f"Add {words}(...) to `middleware`."
        # Nearly all names end with this word, which would make any two of them alike.
        stems = {name.removesuffix("Middleware"): name for name in (*owners, A_PERSON, A_GUARD)}
        close = get_close_matches(words.removesuffix("Middleware"), stems, n=1, cutoff=0.8)
        hint = f"Did you mean {stems[close[0]]}?" if close else f"Add {words} to `middleware`."
        return reason, hint

    def partly(self, guards: Sequence[ToolGuard], case: Case) -> tuple[str, str]:
        """The reason and the hint if guards decide about some calls of a tool."""
        guard, tool = guards[0], self.name.rpartition("/")[2]
        name = guard.owner.rpartition("/")[2]
        reason = f"{name} decides about some calls only: {guard}."
        if case:
            reason = f"{_call_text(tool, case)} runs without {self.words}. {reason}"
        # A sentence may be about arguments and labels seen, and not about functions or words.
        parts = [p for p in parse_condition(guard.when).parts if str(p) != "labeled outside"]
        facts = {str(leaf) for leaf in Condition((*parts,)).leaves if isinstance(leaf, Fact)}
        if any(not fact.startswith("seen ") for fact in facts):
            return reason, "Let it decide about all calls."
        if self.wanted and parse_condition(guard.when).unsure - {*case}:
            return reason, (
                "Put its rule before the rule of the judge: the first of them also decides about "
                "calls with missing arguments, or of other types."
            )
        return reason, (
            f"Write 'tool {self.name} passes {self.words} when {Condition((*parts,))}' if such "
            "calls are what you mean, or let it decide about all calls."
        )


def _is_meant(guard: ToolGuard, term: str) -> bool:
    """Return True if a sentence means a guard by its action."""
    return term == A_GUARD or (term == A_PERSON and guard.action == "ask")
