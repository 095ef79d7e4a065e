"""All runs of an agent whose members choose at each visit, and what they show.

A run is driven through the real agent. What it does next depends on the point at which a member is
asked, the pending call, the calls of the model so far (up to the limits) and the tools that a
guard waits for. So each choice is tried once in each of these situations; a choice that is tried
again has to lead to the same next situation, or the exploration fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, NamedTuple

from guarantees.stack_draws import (
    INNER,
    INNER_GUARD,
    INNER_TOOL,
    MemberSpec,
    StackSpec,
    Stage,
    agent_of,
    plan_tools,
)

Event = tuple[str, ...]
LONGEST_RUN = 60
"""Choices of one run."""

MOST_CALLS = 8
"""Calls of the model in one run: after ten turns that bring only errors, a run ends."""

WALKS = 3
"""Runs at random after all choices were tried."""


class Situation(NamedTuple):
    """All that decides how a run may go on."""

    point: str
    pending: str
    calls: int
    ran: bool


class Step(NamedTuple):
    """What happens after a choice, up to the next one; `then` is None at the end of the run."""

    events: tuple[Event, ...]
    then: Situation | None


class _Stop(Exception):
    """A run has shown what it can."""


@dataclass
class Evidence:
    """Steps of runs."""

    first: Step | None = None
    steps: dict[Situation, list[Step | None]] = field(default_factory=dict)

    def all_steps(self) -> Iterator[tuple[Situation | None, Step]]:
        """Each step with the situation it leaves; None for the start."""
        assert self.first is not None
        yield None, self.first
        for situation, steps in self.steps.items():
            for step in steps:
                assert step is not None
                yield situation, step


class Exploration(Evidence):
    """The steps that runs of an agent have shown, by situation and choice."""

    def __init__(self, spec: StackSpec) -> None:
        super().__init__()
        self.runs = 0
        limits = [member.limit[0] for member in spec.members if member.limit]
        self.most_calls = max(limits, default=0)
        self.awaited = {m.guard.after for m in spec.members if m.guard} - {""}
        stage = Stage()
        agent = agent_of(spec, stage)
        while self.first is None or self.way(self.first.then) is not None:
            self._run(agent, stage, _ExploringRun(self))
        # Runs at random come to situations in other ways: what follows must be the same.
        for seed in range(WALKS):
            self._run(agent, stage, _ExploringRun(self, Random(seed)))

    def _run(self, agent: Any, stage: Stage, run: _ExploringRun) -> None:
        stage.run = run
        self.runs += 1
        with suppress(_Stop):
            agent.invoke({"messages": stage.input()})
            run.report("enter", "end")
            run.close(None)

    def way(self, source: Situation | None) -> list[int] | None:
        """The choices that lead to one that was not tried; None if all were."""
        previous: dict[Situation, tuple[Situation, int]] = {}
        waiting = deque([source] if source else [])
        while waiting:
            situation = waiting.popleft()
            for choice, step in enumerate(self.steps[situation]):
                if step is None:
                    way = [choice]
                    while situation != source:
                        situation, before = previous[situation]
                        way.append(before)
                    return way[::-1]
                if step.then and step.then != source and step.then not in previous:
                    previous[step.then] = (situation, choice)
                    waiting.append(step.then)
        return None


class _ExploringRun:
    """A run that goes where no run has been, or at random."""

    def __init__(self, exploration: Exploration, random: Random | None = None) -> None:
        self.exploration = exploration
        self.random = random
        self.events: list[Event] = []
        self.place: tuple[Situation, int] | None = None
        self.way: list[int] = []
        self.choices = self.calls = 0
        self.ran: set[str] = set()

    def report(self, *event: str) -> None:
        self.events.append(event)
        self.calls += event == ("asked",)
        if event[0] in ("ran", "ran before"):
            self.ran.add(event[1])

    def choose(self, point: str, pending: str, options: int) -> int:
        if options == 1:
            return 0
        exploration = self.exploration
        calls = min(self.calls, exploration.most_calls)
        situation = Situation(point, pending, calls, bool(self.ran & exploration.awaited))
        self.close(situation)
        steps = exploration.steps.setdefault(situation, [None] * options)
        assert len(steps) == options, situation
        self.choices += 1
        if self.random:
            self.way = [self.random.randrange(options)]
        elif not self.way:
            self.way = exploration.way(situation) or []
        if not self.way or self.choices > LONGEST_RUN or self.calls > MOST_CALLS:
            raise _Stop
        self.place = (situation, choice) = situation, self.way.pop(0)
        return choice

    def close(self, then: Situation | None) -> None:
        """Note the step that ends here."""
        step = Step(tuple(self.events), then)
        self.events.clear()
        if self.place is None:
            before, self.exploration.first = self.exploration.first, step
        else:
            situation, choice = self.place
            steps = self.exploration.steps[situation]
            before, steps[choice] = steps[choice], step
        assert before in (None, step), (self.place, before, step)


# What the runs show

State = Hashable
VIOLATED = "violated"
Monitor = Callable[[Any, Event], State]
"""A function of what has happened so far and an event."""


def is_shown(evidence: Evidence, initial: State, monitor: Monitor) -> bool:
    """Whether a run gets a monitor to report a violation."""
    assert evidence.first is not None
    waiting: list[tuple[Step, State]] = [(evidence.first, initial)]
    seen = set[tuple[Situation, State]]()
    while waiting:
        step, state = waiting.pop()
        for event in step.events:
            state = monitor(state, event)
            if state == VIOLATED:
                return True
        if step.then and (step.then, state) not in seen:
            seen.add((step.then, state))
            waiting += [(each, state) for each in evidence.steps[step.then] if each]
    return False


class Points(NamedTuple):
    """Events by which a run passes members: before the loop, in each turn, and with a call."""

    once: frozenset[Event]
    each_turn: frozenset[Event]
    names: frozenset[str] = frozenset()
    """Members whose changes of a call do not count as changes by others."""
    seen: frozenset[Event] = frozenset()
    places: frozenset[str] = frozenset(["after_model", "model"])
    """Hooks whose own calls count as seen."""
    early: frozenset[str] = frozenset()
    """Members that decide before the tools."""


NODES = {"model": "model", "tool": "tools"}
"""The nodes of layers."""


def points_of(members: Sequence[MemberSpec], tool: str = "", call: str = "") -> Points:
    """Where a run passes members.

    A call of a tool passes those that guard tools where they guard this one, and others where they
    see it. A layer is passed at its node, where another one may answer before it; around the call
    in question, it has to run.
    """
    once, each_turn, seen = set[Event](), set[Event](), set[Event]()
    members = [m for m in members if not (tool and m.guard) or m.guard.tool in ("*", tool)]
    for member in members:
        guard = member.guard
        if tool and guard:
            hook = ("enter", f"{member.name}.after_model")
            layer = ("layer", member.name, "tool")
            seen.add(layer if guard.place == "around_tool" else hook)
            continue
        for phase in member.hooks:
            if not (tool and phase == "after_model"):
                place = once if phase == "before_agent" else each_turn
                place.add(("enter", f"{member.name}.{phase}"))
        if tool:
            seen.add(("see", member.name))
            continue
        each_turn |= {
            ("layer", member.name, layer) if layer == call else ("enter", NODES[layer])
            for layer in member.layers
        }
    names = frozenset(member.name for member in members)
    in_layers = tool and any(m.guard and m.guard.place == "around_tool" for m in members)
    in_hooks = tool and any(m.guard for m in members)
    places = frozenset(["after_model"] * (not in_layers) + ["model"] * (not in_hooks))
    early = frozenset(
        m.name for m in members if tool and m.guard and m.guard.place != "around_tool"
    )
    return Points(frozenset(once), frozenset(each_turn), names, frozenset(seen), places, early)


def tool_runs_without(evidence: Evidence, tool: str, points: Points) -> bool:
    """Whether the tool runs though its call, as it is, has passed nothing."""

    def monitor(state: tuple[bool, bool, bool, bool], event: Event) -> State:
        once, passed, at_tools, seen = state
        if event[0] == "enter":
            # What was passed in a turn counts until the run leaves the tools.
            passed = passed and not at_tools
            at_tools = event[1] == "tools"
        if event[0] == "asked" or (event[0] in ("call", "change") and event[1] not in points.names):
            seen = False
        elif event[0] == "change" and event[1] in points.early and at_tools:
            seen = False  # a guard in a hook, whose layer changes the call afterwards
        elif event[0] == "call":  # its author knows it, and a guard decides at its place
            seen = event[2] in points.places
        once, passed = once or event in points.once, passed or event in points.each_turn
        seen = seen or event in points.seen
        if event[0] == "ran" and tool in ("", event[1]) and not (once or passed or seen):
            return VIOLATED
        return once, passed, at_tools, seen

    return is_shown(evidence, (False, False, False, False), monitor)


def model_runs_without(evidence: Evidence, points: Points) -> bool:
    """Whether the model is called, and nothing was passed since it was called before."""
    return is_shown(evidence, (False, False, False), _around(("asked",), "model", points))


def _around(target: Event, node: str, points: Points) -> Monitor:
    def monitor(state: tuple[bool, bool, bool], event: Event) -> State:
        once, passed, at_node = state
        if event[0] == "enter":
            # What was passed counts until the run leaves the node.
            passed = passed and not at_node
            at_node = event[1] == node
        once = once or event in points.once
        passed = passed or event in points.each_turn
        if event == target and not (once or passed):
            return VIOLATED
        return once, passed, at_node

    return monitor


def goes_without(evidence: Evidence, source: str, target: str, nodes: frozenset[str]) -> bool:
    """Whether a run goes from one node to another and enters none of some nodes in between."""

    def monitor(active: bool, event: Event) -> State:
        if event[0] != "enter":
            return active
        active = active and event[1] not in nodes
        if active and event[1] == target:
            return VIOLATED
        return active or event[1] == source

    return source not in nodes and is_shown(evidence, source == "start", monitor)


def loops_without(evidence: Evidence, points: Points) -> bool:
    """Whether a run comes to a node again and has passed nothing since."""
    events = [event for _, step in evidence.all_steps() for event in step.events]
    return any(
        is_shown(evidence, False, _again(node, points.once | points.each_turn))
        for node in {event for event in events if event[0] == "enter"}
    )


def _again(node: Event, points: frozenset[Event]) -> Monitor:
    def monitor(active: bool, event: Event) -> State:
        if event in points:
            return False
        if active and event == node:
            return VIOLATED
        return active or event == node

    return monitor


def never_ends(evidence: Evidence) -> bool:
    """Whether a run may go on for ever: whether situations follow each other in a loop."""
    follow: dict[Situation, set[Situation]] = {}
    for situation, step in evidence.all_steps():
        if situation and step.then:
            follow.setdefault(situation, set()).add(step.then)
    # A situation from which none follows is in no loop. Take such ones out until none is left.
    while ends := {s for s in follow if not follow[s] & follow.keys()}:
        for situation in ends:
            del follow[situation]
    return bool(follow)


def calls_more_often(evidence: Evidence, most: int) -> bool:
    """Whether a run calls the model more often."""

    def monitor(calls: int, event: Event) -> State:
        calls += event == ("asked",)
        return VIOLATED if calls > most else calls

    return is_shown(evidence, 0, monitor)


def runs_unseen(evidence: Evidence, member: str) -> bool:
    """Whether a call runs that a member has not seen as it is, or whether it sees none at all."""
    see = frozenset([("see", member)])
    points = Points(frozenset(), frozenset(), frozenset([member]), see)
    sees = any(("see", member) in step.events for _, step in evidence.all_steps())
    return not sees or tool_runs_without(evidence, "", points)


def runs_first(evidence: Evidence, points: Points) -> bool:
    """Whether "pay" may run before "look": a guard of the order has not seen its call as it is."""

    def monitor(may_run: bool, event: Event) -> State:
        if event == ("ran", "pay") and not may_run:
            return VIOLATED
        return may_run or event in (("ran", "look"), ("ran before", "look"))

    unseen = bool(points.seen) and tool_runs_without(evidence, "pay", points)
    return unseen or is_shown(evidence, False, monitor)


# Sentences about a stack, with what runs show about them


@dataclass(frozen=True)
class Claim:
    """A sentence, and whether runs show that it does not hold."""

    sentence: str
    is_refuted: Callable[[Evidence], bool]
    is_refuted_once: Callable[[Evidence], bool] | None = None
    """The same for a single run that ends, if that is another question."""


def claims_of(spec: StackSpec) -> Iterator[Claim]:
    """The sentences that are checked for a stack."""
    members = {member.name: member for member in spec.members}
    tools = plan_tools(spec)
    for name, member in members.items():
        for tool in tools:
            yield _tool_claim(f"tool {tool} passes {name}", [tool], [member])
        points = points_of([member], call="model")
        yield Claim(f"model passes {name}", partial(model_runs_without, points=points))
        points = points_of([member])
        yield Claim(f"every loop passes {name}", partial(loops_without, points=points))
        if tools:
            sentence = f"{name} sees tool_calls last"
            yield Claim(sentence, partial(runs_unseen, member=name))
    if tools and not spec.inner:
        yield _tool_claim("tool * passes A", tools, [members["A"]])
    for tool in tools:
        guards = [m for m in members.values() if m.guard and m.guard.tool in ("*", tool)]
        yield _tool_claim(f"tool {tool} passes a guard", [tool], guards)
    if len(members) > 1:
        several = [members["A"], members["B"]]
        points = points_of(several, call="model")
        yield Claim("model passes A unless B", partial(model_runs_without, points=points))
        for tool in tools[:1]:
            yield _tool_claim(f"tool {tool} passes A unless B", [tool], several)
    if spec.inner:
        layer = frozenset([("layer", INNER_GUARD, "tool")])
        inside = Points(frozenset(), frozenset(), seen=layer)
        refunds = partial(tool_runs_without, tool=INNER_TOOL, points=inside)
        for words in ("Inner", "a guard"):
            yield Claim(f"tool {INNER_TOOL} passes {words}", refunds)
    nothing = Points(frozenset(), frozenset())
    # A layer that answers in place of the model, with calls, may do so for ever, and so may the
    # model of the agent inside.
    is_endless = tools and any("model" in member.layers for member in members.values())
    if not (is_endless or spec.inner):
        loops = partial(loops_without, points=nothing)
        yield Claim("every loop passes a limit", never_ends, loops)
    if len(spec.tools) > 1:
        orders = [m for m in members.values() if m.guard and m.guard.after]
        points = points_of(orders, "pay")
        yield Claim("tool pay only after tool look", partial(runs_first, points=points))
    for most in () if spec.inner else range(5):  # that of the agent inside has no limit
        yield Claim(f"at most {most} model calls", partial(calls_more_often, most=most))
    yield from _path_claims(spec)


def _tool_claim(sentence: str, tools: Sequence[str], members: Sequence[MemberSpec]) -> Claim:
    points = {tool: points_of(members, tool, "tool") for tool in tools}
    return Claim(
        sentence, lambda e: any(tool_runs_without(e, tool, p) for tool, p in points.items())
    )


def _path_claims(spec: StackSpec) -> Iterator[Claim]:
    hooks = [f"{member.name}.{phase}" for member in spec.members for phase in member.hooks]
    has_tools = plan_tools(spec) or any("tool" in member.layers for member in spec.members)
    nodes = ["model", *(["tools"] if has_tools else []), *hooks]
    through = {
        member.name: frozenset(
            [f"{member.name}.{phase}" for phase in member.hooks]
            + [NODES[layer] for layer in member.layers]
        )
        for member in spec.members
    }
    through |= {node: frozenset([node]) for node in nodes if node in NODES.values()}
    for source in ["start", *nodes]:
        for target in [*nodes, "end"]:
            for words, avoided in through.items():
                goes = partial(goes_without, source=source, target=target, nodes=avoided)
                yield Claim(f"no path from {source} to {target} skips {words}", goes)


# A single run


def evidence_of(
    spec: StackSpec, visits: Sequence[str], tools: Sequence[str], origin: str = ""
) -> Evidence:
    """What one run has shown, by the nodes and layers that it visited and the tools that ran.

    At its origin, a hook writes the call.
    """
    owners = {f"{m.name}.{phase}": m.name for m in spec.members for phase in m.hooks}
    turns: list[tuple[str, list[str]]] = []
    for visit in visits:
        if visit in owners or visit in NODES.values():
            turns.append((visit, []))
        else:
            turns[-1][1].append(visit.partition(".")[0])
    writers = {member.name for member in spec.members if member.writes}
    left = list(tools)
    events: list[Event] = []
    for node, layers in turns:
        events.append(("enter", node))
        seers = list(layers)
        if node == "model":
            events += [("layer", name, "model") for name in layers]
            owner, _, layer = origin.partition(".")
            is_alone = layer == "around_model" and seers[-1:] == [owner]
            events += [("call", owner, "model")] if is_alone else [("asked",), ("call", "", "")]
            seers = seers[::-1][is_alone:]  # those outside of it see its answer
        elif node == "tools":
            events += [("layer", name, "tool") for name in layers]
        else:
            seers = [owners[node]] if node.endswith("after_model") else []
        for name in seers:
            events.append(("see", name))
            events += [("change", name)] if name in writers else []
        if node == origin and node in owners:
            events.append(("call", owners[node], node.rpartition(".")[2]))
        if node == "tools" and left:
            name = left.pop(0)
            events += [("ran", INNER)] if name == INNER_TOOL else []
            events.append(("ran", name))
    return Evidence(Step((*events, ("enter", "end")), None))
