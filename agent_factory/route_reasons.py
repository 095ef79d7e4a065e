"""Why a run took a route: of all the reasons a plan has for it, the one that held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langgraph.types import Command

from agent_factory.history import answers_of, call_ids, last_turn
from agent_factory.routing import DIRECT, Rules, State
from agent_factory.schema import RELAY
from agent_factory.structured_output import is_explanation
from agent_factory.topology import TOOLS, Edge, Route, Topology
from agent_factory.ways import Reason, Why

Telling = Callable[[State, str, str], str]
"""The state at the end of a node, the node that was chosen, and what is known of a jump become a
reason."""

HANDED_OVER = "handed over to the parent graph"


def reason_for(edge: Edge, plan: Topology, rules: Rules) -> Telling:
    """What tells why a route was taken."""
    if edge.route is Route.AFTER_TOOLS:
        return lambda state, target, _: _after_tools(state, target, plan, rules)

    def why(state: State, target: str, known: str) -> str:
        if jump := _jump(state, edge, plan):
            return known or f"jump to {jump}"
        if edge.route is Route.AFTER_MODEL:
            return str(_after_model(state, target, plan, rules))
        return str(_after_answer(state, target, plan) if edge.route is Route.RETRY else Why.NEXT)

    return why


def _jump(state: State, edge: Edge, plan: Topology) -> str | None:
    """The jump that led the route; one that leads where it already is leads nowhere."""
    jump: str | None = state.get("jump_to")
    return None if jump == "model" and edge.source == plan.loop_entry else jump


def _after_model(state: State, target: str, plan: Topology, rules: Rules) -> Reason:
    if target == TOOLS:
        return Reason(Why.CALLS)
    message, tail = last_turn(state["messages"])
    if target == plan.exit and _has_answer(state):
        return Reason(Why.STRUCTURED, _answering(tail, rules))
    if target != plan.exit and any(map(is_explanation, tail)):
        return Reason(Why.RETRY)
    if message is None or not call_ids(message):
        return Reason(Why.NO_CALLS)
    return Reason(Why.ANSWERED)


def _answering(tail: list[Any], rules: Rules) -> tuple[str, ...]:
    names = (answer.name or "" for answer in answers_of(tail).values())
    return tuple(name for name in names if name in rules.output)


def _after_answer(state: State, target: str, plan: Topology) -> Reason:
    if target == plan.loop_entry:
        return Reason(Why.RETRY)
    return Reason(Why.STRUCTURED if _has_answer(state) else Why.NO_CALLS)


def _after_tools(state: State, target: str, plan: Topology, rules: Rules) -> str:
    if any(signal != DIRECT for signal in state.get(RELAY) or ()):
        return ended_by_tools(state, rules)
    if target == plan.exit or state.get("jump_to") == "end":
        return ended_by_tools(state, rules)
    return str(Why.RESULTS)


def ended_by_tools(state: State, rules: Rules) -> str:
    """Why a run ends after its tools."""
    if any(isinstance(signal, Command) for signal in state.get(RELAY) or ()):
        return HANDED_OVER
    if _has_answer(state):
        return str(Why.STRUCTURED)
    message, tail = last_turn(state["messages"])
    if message is not None and rules.returns(message, tail):
        names = (answer.name or "" for answer in answers_of(tail).values())
        return str(Reason(Why.DIRECT, tuple(dict.fromkeys(names))))
    return str(Why.STOPPED)


def _has_answer(state: State) -> bool:
    return state.get("structured_response") is not None
