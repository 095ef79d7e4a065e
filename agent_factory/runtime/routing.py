"""Routing: functions of the state that return the next node of a run, and the reasons."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.types import Command, Send

from agent_factory.errors import JumpWithoutCalls, UndeclaredJump
from agent_factory.runtime.limits import ENDED_KWARGS
from agent_factory.runtime.order import Order
from agent_factory.state.history import answers_of, call_ids, is_explanation, last_turn
from agent_factory.state.schema import ANSWER, TOOL_SIGNALS
from agent_factory.topology.model import TOOLS, Edge, Phase, Route
from agent_factory.topology.planner import jump_targets
from agent_factory.topology.topology import Topology
from agent_factory.topology.transitions import Reason, TransitionReason

State = Mapping[str, Any]
Target = str | list[Send]
Choice = Callable[..., Target]
"""Function of the state, and optionally the config, that returns the next node of a run."""

INVALID_CALL = "invalid_tool_call"
"""The `type` of a call with invalid JSON arguments."""

PARALLEL_CALL = "parallel_tool_call"
"""The `type` of a call that is one of several whose results together may end the run."""

DIRECT = "direct"
"""Signal, in the private channel, of a tool whose result may be the answer of the run."""

HELD = "held"
"""Signal, in the private channel, of a tools node after which more calls of the turn come."""

WRITTEN = "written"
"""Signal, in the private channel, of a tool that wrote the structured answer itself."""


def pending_calls(
    message: AIMessage, tail: Sequence[AnyMessage], output_tools: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the tool calls of a message without an answer in a later message."""
    answers = answers_of(tail)
    calls = [
        *({**call, "type": "tool_call"} for call in message.tool_calls),
        *({**call, "type": INVALID_CALL} for call in message.invalid_tool_calls if call["id"]),
    ]
    return [c for c in calls if c["id"] not in answers and c["name"] not in output_tools]


def why_not_taken(message: AIMessage, tail: Sequence[AnyMessage]) -> str | None:
    """Return the reason why an answer next to other calls is not final; None if it is final."""
    results = answers_of(tail)
    names = {c["id"]: c["name"] for c in (*message.tool_calls, *message.invalid_tool_calls)}
    failed = [names.get(id) for id, result in results.items() if result.status == "error"]
    if failed := failed or [name for id, name in names.items() if id not in results]:
        return f"{', '.join(dict.fromkeys(map(str, failed)))} did not succeed"
    return None


def taken_answer(state: State) -> dict[str, Any] | None:
    """Return the update by which the waiting answer becomes final; None without an answer."""
    waiting: Any = state.get(ANSWER)
    message, tail = last_turn(state["messages"]) if waiting else (None, [])
    results = answers_of(tail)
    if message is None or waiting["call"] not in results or why_not_taken(message, tail):
        return None
    if len(results) < len(tail):  # a message of a user or a hook changes the question
        return None
    reply = results[waiting["call"]].model_copy(update={"content": waiting["content"]})
    return {"structured_response": waiting["answer"], "messages": [reply], ANSWER: None}


@dataclass(eq=False)
class Rules:
    """Names of an agent's tools, which routing needs in addition to the plan."""

    known: Set[str] = frozenset()  # tools that the tools node runs
    direct: Set[str] = frozenset()  # known tools with `return_direct`
    output: Set[str] = frozenset()  # tools that stand for a structured answer
    order: Order | None = None  # the order of calls; None if all run side by side

    def sends(
        self, message: AIMessage, tail: Sequence[AnyMessage], state: State
    ) -> str | list[Send]:
        """Return a task for each pending call; a single task if a call waits for another."""
        calls = pending_calls(message, tail, self.output)
        if len(calls) > 1 and self.direct:
            # The results together decide about the end, and a task sees only its own result.
            calls = [
                {**call, "type": PARALLEL_CALL} if call["type"] == "tool_call" else call
                for call in calls
            ]
        if self.order is not None and self.order.applies(calls):
            return [Send(TOOLS, calls)]
        return [Send(TOOLS, [call]) for call in calls]

    def answered(self, state: State) -> bool:
        """Return True if the state has a structured answer, which ends the loop."""
        return state.get("structured_response") is not None

    def leaves(self, state: State, tail: Sequence[AnyMessage]) -> bool:
        """Return True if a turn with an answer to each call is the last turn."""
        return self.answered(state)

    def returns(self, message: AIMessage, tail: Sequence[AnyMessage]) -> bool:
        """Return True if the results of a message's calls are the answer of the run."""
        answers = answers_of(tail)
        if not answers.keys() >= set(call_ids(message)):
            return False  # parallel calls are still running
        failed = {answer.name for answer in answers.values() if answer.status == "error"}
        # The call of an unknown tool has an error as its result, and is ignored.
        if failed & (self.known | self.output) or message.invalid_tool_calls:
            return False
        # A reviewer may have redirected a call to another tool: the result has the name of the
        # tool.
        names = {answers[c["id"]].name or c["name"] for c in message.tool_calls if c["id"]}
        ran = names & self.known
        return bool(ran) and ran <= self.direct


def jump_route(edge: Edge, plan: Topology, rules: Rules) -> Choice:
    """Return the route after a hook that may jump: the jump, or the next node."""
    follow = _follow_jump(edge, plan, rules)
    return lambda state, _=None: follow(state) or edge.targets[0]


def _make_model_to_tools_edge(edge: Edge, plan: Topology, rules: Rules) -> Choice:
    """Return the route at the end of a turn: a jump, the tools, the model again, or the exit."""
    follow = _follow_jump(edge, plan, rules)
    # If nothing but the tools can answer calls, the loop's entry is not among the targets.
    again = plan.loop_entry if plan.loop_entry in edge.targets else plan.exit

    def choose(state: State, _: RunnableConfig | None = None) -> Target:
        if jump := follow(state):
            return jump
        message, tail = last_turn(state["messages"])
        if message is None:
            return plan.exit
        if not call_ids(message):
            has_explanation = any(isinstance(m, HumanMessage) and is_explanation(m) for m in tail)
            return again if has_explanation else plan.exit
        if sends := rules.sends(message, tail, state):
            return sends
        return plan.exit if rules.leaves(state, tail) else again

    return choose


def _make_tools_to_model_edge(edge: Edge, plan: Topology, rules: Rules) -> Choice:
    """Return the route after tools: the exit if a tool ends the run, else the loop's entry."""
    out = edge.targets[-1]

    def choose(state: State, _: RunnableConfig | None = None) -> Target:
        signals = state.get(TOOL_SIGNALS) or ()
        # Parallel tasks do not see a signal, and go to the entry. The entry sees all results.
        if any(signal != DIRECT for signal in signals) or state.get(ANSWER) is not None:
            return plan.loop_entry
        if rules.answered(state):
            return out
        if signals:
            return plan.loop_entry
        message, tail = last_turn(state["messages"])
        if state.get("jump_to") == "end":
            # Parallel tasks go to the loop's entry. So must this task, which passes the jump on:
            # otherwise the exit would run twice.
            parallel = message is not None and pending_calls(message, tail, rules.output)
            return plan.loop_entry if parallel else out
        if message is not None and rules.returns(message, tail):
            return out
        return plan.loop_entry

    return choose


def unless_held(choose: Choice) -> Choice:
    """Return a route after tools that leads nowhere as long as calls of the turn are to come."""

    def route(state: State, config: RunnableConfig | None = None) -> Target:
        return [] if HELD in (state.get(TOOL_SIGNALS) or ()) else choose(state, config)

    return route


def retry_route(edge: Edge, plan: Topology, rules: Rules) -> Choice:
    """Return the route of an agent with an output schema and no tools: until a valid answer."""
    follow = _follow_jump(edge, plan, rules)

    def choose(state: State, _: RunnableConfig | None = None) -> Target:
        if jump := follow(state):
            return jump
        _message, tail = last_turn(state["messages"])
        has_explanation = any(is_explanation(message) for message in tail)
        return plan.loop_entry if has_explanation and not rules.answered(state) else plan.exit

    return choose


ROUTES: dict[Route, Callable[[Edge, Topology, Rules], Choice]] = {
    Route.JUMP: jump_route,
    Route.AFTER_MODEL: _make_model_to_tools_edge,
    Route.AFTER_TOOLS: _make_tools_to_model_edge,
    Route.RETRY: retry_route,
}
"""Functions that make the function for an edge: the choice of its target."""


def _follow_jump(edge: Edge, plan: Topology, rules: Rules) -> Callable[[State], Target | None]:
    """Return a function from the state to the target of the state's jump, or None."""
    leaving = {hook.node for hook in plan.hooks if hook.phase is Phase.AFTER_AGENT}
    # "end" means the exit, the first after_agent hook: from an after_agent hook, a circle.
    targets = jump_targets(plan, leaving=edge.source in leaving)

    def follow(state: State) -> Target | None:
        jump = state.get("jump_to")
        # Hooks and tools refuse another value when they write the jump.
        target = targets.get(jump or "")
        if target is None or target == edge.source:
            return None
        if target not in edge.targets:
            if jump == "end":
                return None  # set by a tool: a later node that may leave the loop follows the jump
            raise UndeclaredJump(
                edge.source,
                f"has no edge to {target}, where the state's jump leads.",
                "Declare the jump with hook_config(can_jump_to=[...]) on a hook of this node.",
            )
        if target != TOOLS:
            return target
        message, tail = last_turn(state["messages"])
        sends = rules.sends(message, tail, state) if message is not None else []
        if not sends:
            raise JumpWithoutCalls(
                edge.source,
                "jumped to tools, but no tool call is pending.",
                "Jump to tools only after the model has called one.",
            )
        return sends

    return follow


def reason_for(edge: Edge, plan: Topology, rules: Rules) -> Callable[[State, str, str], str]:
    """Return a function for the reason of a route.

    The arguments of the function are the state, the chosen node, and the reason of a pending jump.
    """

    def why(state: State, target: str, known_jump: str) -> str:
        jump = state.get("jump_to")
        if edge.route is Route.AFTER_TOOLS:
            signals = state.get(TOOL_SIGNALS) or ()
            leaves = target == plan.exit or jump == "end"
            if leaves or any(signal != DIRECT for signal in signals):
                return ended_by_tools(state, rules)
            return str(TransitionReason.RESULTS)
        # A jump to the model from the loop's entry has no effect.
        if jump and not (jump == "model" and edge.source == plan.loop_entry):
            return known_jump or f"jump to {jump}"
        if edge.route is Route.AFTER_MODEL:
            return str(_reason_after_model(state, target, plan, rules))
        if edge.route is not Route.RETRY:
            return str(TransitionReason.NEXT)
        if target == plan.loop_entry:
            return str(TransitionReason.RETRY)
        has_answer = rules.answered(state)
        return str(TransitionReason.STRUCTURED if has_answer else TransitionReason.NO_CALLS)

    return why


def _reason_after_model(state: State, target: str, plan: Topology, rules: Rules) -> Reason:
    if target == TOOLS:
        is_ordered = plan.sequential_calls
        return Reason(TransitionReason.SEQUENTIAL if is_ordered else TransitionReason.CALLS)
    message, tail = last_turn(state["messages"])
    if target == plan.exit and rules.answered(state):
        names = (answer.name or "" for answer in answers_of(tail).values())
        by = tuple(name for name in names if name in rules.output)
        return Reason(TransitionReason.STRUCTURED, by)
    if target != plan.exit and any(map(is_explanation, tail)):
        return Reason(TransitionReason.RETRY)
    if message is not None and message.additional_kwargs == ENDED_KWARGS:
        return Reason(TransitionReason.ONLY_ERRORS)
    if message is None or not call_ids(message):
        return Reason(TransitionReason.NO_CALLS)
    return Reason(TransitionReason.ANSWERED)


def ended_by_tools(state: State, rules: Rules) -> str:
    """Return the reason why a run ends after its tools."""
    if any(isinstance(signal, Command) for signal in state.get(TOOL_SIGNALS) or ()):
        return "handed over to the parent graph"
    if rules.answered(state) or taken_answer(state):
        return str(TransitionReason.STRUCTURED)
    message, tail = last_turn(state["messages"])
    if message is not None and rules.returns(message, tail):
        names = (answer.name or "" for answer in answers_of(tail).values())
        return str(Reason(TransitionReason.DIRECT, tuple(dict.fromkeys(names))))
    return str(TransitionReason.STOPPED)


class InstantRunnable(Runnable[Any, Any]):
    """Runnable that waits for nothing, so that its async form calls the sync form."""

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        return self.invoke(input, config)


@dataclass(eq=False, repr=False)
class Path(InstantRunnable):
    """Conditional edge: a route as a runnable for LangGraph, sync and async.

    LangGraph would wrap a plain function in a runnable that tracers show as a run.
    """

    choose: Choice
    name: str

    def invoke(self, input: object, config: RunnableConfig | None = None, **_: object) -> Target:
        return self.choose(input, config)
