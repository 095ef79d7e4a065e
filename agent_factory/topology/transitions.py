"""Why a run may go from one node to another: the reasons that lie behind each edge of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from agent_factory.topology.model import (
    END,
    JUMPS,
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


class TransitionReason(StrEnum):
    """A kind of reason."""

    NEXT = "next"
    """It comes next."""
    JUMP = "jump"
    """A hook may jump there."""
    CALLS = "pending calls"
    """The model asked for tools; each call is sent on its own."""
    TOGETHER = "pending calls, together"
    """The model asked for tools; all calls are run together."""
    NO_CALLS = "no calls left"
    """The model asked for no tools: it has answered."""
    ANSWERED = "calls already answered"
    """Something answered the model's calls in the tools' place."""
    STRUCTURED = "structured answer"
    """The structured answer is there."""
    RETRY = "asked again"
    """The structured answer was missing or invalid."""
    RESULTS = "tool results"
    """The model is to see the results of its calls."""
    DIRECT = "return_direct"
    """The results of these tools are the answer of the run."""
    ANY_DIRECT = "return_direct among the calls"
    """One of these tools was called: the results of the turn are the answer of the run."""
    STOPPED = "stopped by a tool"
    """A tool ended the run."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a way may be taken.

    Args:
        why: The kind of reason.
        by: The middleware or tools it is due to, in the order of their lists.
    """

    why: TransitionReason
    by: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.why}: {', '.join(self.by)}" if self.by else str(self.why)


@dataclass(frozen=True, slots=True)
class Transition:
    """A step a run may take.

    Args:
        source: The node it leaves.
        target: The node it reaches.
        reasons: Why it may be taken; one at least.
    """

    source: str
    target: str
    reasons: tuple[Reason, ...]


def transitions_of(plan: TopologyData) -> tuple[Transition, ...]:
    """Every step of a plan, in the order of its edges and of their targets."""
    return tuple(
        Transition(edge.source, target, tuple(_reasons(plan, edge, target)))
        for edge in plan.edges
        for target in edge.targets
    )


def _reasons(plan: TopologyData, edge: Edge, target: str) -> Iterator[Reason]:
    match edge.route:
        case Route.AFTER_MODEL:
            yield from _after_model(plan, target)
        case Route.AFTER_TOOLS:
            yield from _after_tools(plan, target)
        case Route.RETRY if target == plan.loop_entry:
            yield Reason(TransitionReason.RETRY)
        case Route.RETRY:
            yield Reason(TransitionReason.STRUCTURED)
        case _ if target == edge.targets[0]:
            yield Reason(TransitionReason.NEXT)
    yield from _jumps(plan, edge, target)


def _jumps(plan: TopologyData, edge: Edge, target: str) -> Iterator[Reason]:
    for hook in plan.hooks:
        if hook.node == edge.source and any(
            _lands(plan, hook, jump) == target for jump in JUMPS if jump in hook.can_jump_to
        ):
            yield Reason(TransitionReason.JUMP, (hook.owner,))


def _lands(plan: TopologyData, hook: Hook, jump: str) -> str:
    if jump == "end":
        return END if hook.phase is Phase.AFTER_AGENT else plan.exit
    return {"tools": TOOLS, "model": plan.loop_entry}[jump]


def _after_model(plan: TopologyData, target: str) -> Iterator[Reason]:
    outputs = tuple(tool.name for tool in plan.tools if tool.kind is ToolKind.OUTPUT)
    if target == TOOLS:
        together = plan.style is AgentStyle.REACT_V1
        yield Reason(TransitionReason.TOGETHER if together else TransitionReason.CALLS)
    if target == plan.exit:
        yield Reason(TransitionReason.NO_CALLS)
        if plan.retries_output:
            yield Reason(TransitionReason.STRUCTURED, outputs)
    if target == plan.loop_entry:
        if answering := _may_answer(plan):
            yield Reason(TransitionReason.ANSWERED, answering)
        if plan.retries_output:
            yield Reason(TransitionReason.RETRY, outputs)


def _may_answer(plan: TopologyData) -> tuple[str, ...]:
    """Who may answer calls before the tools node sees them."""
    layers = [layer.owner for layer in plan.layers if layer.call is Call.MODEL]
    hooks = [hook.owner for hook in plan.hooks if hook.phase is Phase.AFTER_MODEL]
    return tuple(dict.fromkeys([*layers, *hooks]))


def _after_tools(plan: TopologyData, target: str) -> Iterator[Reason]:
    if target == plan.loop_entry:
        yield Reason(TransitionReason.RESULTS)
        return
    direct = tuple(tool.name for tool in plan.tools if tool.return_direct)
    if direct:
        yield Reason(
            TransitionReason.DIRECT
            if plan.style.tools_can_end_run
            else TransitionReason.ANY_DIRECT,
            direct,
        )
    if plan.retries_output:
        yield Reason(TransitionReason.STRUCTURED)
    if plan.style.tools_can_end_run:
        yield Reason(TransitionReason.STOPPED)
