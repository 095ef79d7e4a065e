"""The reasons why a run may go from a node to the next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from agent_factory.topology.model import (
    TOOLS,
    AgentStyle,
    Call,
    Edge,
    Hook,
    Phase,
    Route,
    ToolKind,
    TopologyData,
)
from agent_factory.topology.planner import jumps_of


class TransitionReason(StrEnum):
    """A kind of reason why a run may take an edge."""

    meaning: str  # a sentence, in which {by} stands for the middleware or the tools

    def __new__(cls, value: str, meaning: str) -> Self:
        """Add the sentence to the value."""
        member = str.__new__(cls, value)
        member._value_, member.meaning = value, meaning
        return member

    NEXT = "next", "It is the next node; nothing decides."
    JUMP = "jump", "{by} declares this jump in can_jump_to."
    CALLS = (
        "pending calls",
        "The model called tools, and the calls have no results yet; each call is run on its own.",
    )
    TOGETHER = (
        "pending calls, together",
        "The model called tools, and the calls have no results yet; they are run together.",
    )
    SEQUENTIAL = (
        "pending calls, one after the other",
        "The model called tools, and the calls have no results yet; each call waits for those "
        "before it.",
    )
    NO_CALLS = "no calls left", "The model called no tools: its message is the answer."
    ONLY_ERRORS = (
        "only errors",
        "Too many turns in a row brought only errors: the model is not asked again.",
    )
    ANSWERED = (
        "calls already answered",
        "A layer around the model call or a hook after it answered the model's calls; the tools "
        "are skipped, and the model continues.",
    )
    STRUCTURED = "structured answer", "The model gave the structured answer."
    RETRY = (
        "asked again",
        "The structured answer was missing or invalid; the model gets the error and is asked "
        "again.",
    )
    RESULTS = "tool results", "The model gets the results of its calls."
    DIRECT = (
        "return_direct",
        "The results of {by} are the answer (return_direct), if all calls of the turn are "
        "such calls and none failed.",
    )
    ANY_DIRECT = (
        "return_direct among the calls",
        "If {by} is among the calls of the turn, its results are the answer (return_direct).",
    )
    STOPPED = (
        "stopped by a tool",
        "A tool may end the run: with jump_to 'end' or Command(goto=END).",
    )


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason why a run may take an edge.

    Args:
        why: The kind of reason.
        by: The middleware or tools behind the reason, in the order of their lists.
    """

    why: TransitionReason
    by: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.why}: {', '.join(self.by)}" if self.by else str(self.why)


@dataclass(frozen=True, slots=True)
class Transition:
    """Edge to a single target, with reasons.

    Args:
        source: The first node.
        target: The second node.
        reasons: Why a run may take the edge; at least one reason.
    """

    source: str
    target: str
    reasons: tuple[Reason, ...]

    @property
    def name(self) -> str:
        """Both nodes: `model -> tools`."""
        return f"{self.source} -> {self.target}"

    @property
    def notes(self) -> list[str]:
        """The reasons as text, without the reason of a next node."""
        return [str(reason) for reason in self.reasons if reason.why is not TransitionReason.NEXT]


def transitions_of(plan: TopologyData) -> tuple[Transition, ...]:
    """Every edge of a plan to every target, with its reasons, in the order of the edges."""
    hooks = {hook.node: hook for hook in plan.hooks}
    return tuple(
        transition(plan, edge, target, hooks.get(edge.source))
        for edge in plan.edges
        for target in edge.targets
    )


def transition(plan: TopologyData, edge: Edge, target: str, hook: Hook | None) -> Transition:
    """Edge of a plan to a target, with reasons; a jump of the hook is a reason, too."""
    return Transition(edge.source, target, tuple(_reasons(plan, edge, target, hook)))


def paths_between(plan: TopologyData, source: str, target: str) -> Iterator[tuple[Transition, ...]]:
    """The paths between two nodes that enter no node twice, the shortest first.

    From a node to itself they lead around the loop.
    """
    edges = transitions_of(plan)
    leading = {target}  # the nodes from which the target can be reached
    # Each round adds nodes a step farther away: no path has more steps than the plan has edges.
    for _ in edges:
        leading |= {edge.source for edge in edges if edge.target in leading}
    # A queue: shorter paths leave it before longer ones.
    waiting = deque[tuple[Transition, ...]]([()])
    while waiting:
        path = waiting.popleft()
        if path and path[-1].target == target:
            yield path
            continue
        node = path[-1].target if path else source
        # The target may be the source: a path around the loop ends where it began.
        visits = {source, *(edge.target for edge in path)} - {target}
        waiting += (
            (*path, edge)
            for edge in edges
            if edge.source == node and edge.target in leading - visits
        )


def _reasons(plan: TopologyData, edge: Edge, target: str, hook: Hook | None) -> Iterator[Reason]:
    match edge.route:
        case Route.AFTER_MODEL:
            yield from _after_model(plan, target)
        case Route.AFTER_TOOLS if target == plan.loop_entry:
            yield Reason(TransitionReason.RESULTS)
        case Route.AFTER_TOOLS:
            any_tool = plan.style.tools_can_end_run
            if direct := tuple(tool.name for tool in plan.tools if tool.return_direct):
                kind = TransitionReason.DIRECT if any_tool else TransitionReason.ANY_DIRECT
                yield Reason(kind, direct)
            if plan.retries_output:
                yield Reason(TransitionReason.STRUCTURED)
            if any_tool:
                yield Reason(TransitionReason.STOPPED)
        case Route.RETRY:
            again = target == plan.loop_entry
            yield Reason(TransitionReason.RETRY if again else TransitionReason.STRUCTURED)
        case _ if target == edge.targets[0]:
            yield Reason(TransitionReason.NEXT)
    # A jump to a target of the route is another reason.
    if hook is not None and target in jumps_of(plan, hook).values():
        yield Reason(TransitionReason.JUMP, (hook.owner,))


def _after_model(plan: TopologyData, target: str) -> Iterator[Reason]:
    outputs = tuple(tool.name for tool in plan.tools if tool.kind is ToolKind.OUTPUT)
    if target == TOOLS:
        calls = TransitionReason.SEQUENTIAL if plan.sequential_calls else TransitionReason.CALLS
        together = plan.style is AgentStyle.REACT_V1
        yield Reason(TransitionReason.TOGETHER if together else calls)
    if target == plan.exit:
        yield Reason(TransitionReason.NO_CALLS)
        if plan.style is AgentStyle.CREATE_AGENT:
            yield Reason(TransitionReason.ONLY_ERRORS)
        if plan.retries_output:
            yield Reason(TransitionReason.STRUCTURED, outputs)
    if target == plan.loop_entry:
        # No name, since any layer or hook may answer: a new layer would change the reason, too.
        if plan.layers_around(Call.MODEL) or plan.run_order(Phase.AFTER_MODEL):
            yield Reason(TransitionReason.ANSWERED)
        if plan.retries_output:
            yield Reason(TransitionReason.RETRY, outputs)
