"""Pure decisions: the state of a run says where it goes next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.types import Command, Send

from agent_factory.errors import JumpWithoutCalls, UndeclaredJump
from agent_factory.state.history import answers_of, call_ids, last_turn
from agent_factory.state.schema import TOOL_SIGNALS
from agent_factory.structured_output.strategies import is_explanation
from agent_factory.topology.model import TOOLS, Edge, Route
from agent_factory.topology.planner import jump_targets
from agent_factory.topology.topology import Topology
from agent_factory.topology.transitions import Reason, TransitionReason

State = Mapping[str, Any]
Choice = Callable[[State], str | list[Send]]

INVALID_CALL = "invalid_tool_call"
"""The `type` of a call whose arguments the model wrote in a way that cannot be read."""

CALL_BESIDE = "tool_call_beside"
"""The `type` of a call whose result, with those of the calls beside it, may end the run."""


def _resolve_jump(
    jump_to: str | None, *, model_destination: str, end_destination: str
) -> str | None:
    """The node a jump leads to; None for no jump and for an unknown one."""
    targets = {"model": model_destination, "end": end_destination, "tools": TOOLS}
    return targets.get(jump_to or "")


def pending_calls(
    message: AIMessage, tail: Sequence[AnyMessage], output_tools: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The tool calls of a message that nothing after it answers.

    Args:
        message: The last AI message.
        tail: The messages after it.
        output_tools: Tools that stand for a structured answer; they are never run.
    """
    answered = answers_of(tail)
    calls = [
        *({**call, "type": "tool_call"} for call in message.tool_calls),
        *({**call, "type": INVALID_CALL} for call in message.invalid_tool_calls if call["id"]),
    ]
    return [c for c in calls if c["id"] not in answered and c["name"] not in output_tools]


DIRECT = "direct"
"""Marks, in the private channel, a result that may be the answer, with those beside it."""

WRITTEN = "written"
"""Marks, in the private channel, a structured answer that a tool itself has written."""


class Rules:
    """What routing knows of an agent beside its plan.

    Args:
        known: The names in the tool node's table.
        direct: Those of them whose result ends the run.
        output: Tools that stand for a structured answer.
    """

    def __init__(
        self,
        known: Collection[str] = (),
        direct: Collection[str] = (),
        output: Collection[str] = (),
    ) -> None:
        self.known = frozenset(known)
        self.direct = frozenset(direct)
        self.output = frozenset(output)

    def sends(
        self, message: AIMessage, tail: Sequence[AnyMessage], state: State
    ) -> str | list[Send]:
        """One task for each pending call."""
        calls = pending_calls(message, tail, self.output)
        if len(calls) > 1 and self.direct:
            # Whether the run ends depends on all their results, and a task sees only its own.
            calls = [
                {**call, "type": CALL_BESIDE} if call["type"] == "tool_call" else call
                for call in calls
            ]
        return [Send(TOOLS, [call]) for call in calls]

    def answered(self, state: State) -> bool:
        """Whether the structured answer is there, so that the run leaves the loop."""
        return state.get("structured_response") is not None

    def leaves(self, state: State, tail: Sequence[AnyMessage]) -> bool:
        """Whether a turn whose calls are all answered is the last one.

        Args:
            state: The state.
            tail: The messages after the model's.
        """
        return self.answered(state)

    def all_direct(self, names: Sequence[str]) -> bool:
        """Whether there are tools among the names that can run, and all of them end the run."""
        runnable = [name for name in names if name in self.known]
        return bool(runnable) and self.direct.issuperset(runnable)

    def returns(self, message: AIMessage, tail: Sequence[AnyMessage]) -> bool:
        """Whether the results of a message's calls are the answer of the run."""
        answers = answers_of(tail)
        if not answers.keys() >= set(call_ids(message)):
            return False  # calls beside this one are still to be answered
        failed = {answer.name for answer in answers.values() if answer.status == "error"}
        # A name the model made up has an error as its answer, and does not count either way.
        if failed & (self.known | self.output) or message.invalid_tool_calls:
            return False
        # A reviewer may have sent a call to another tool: the answer's name is what ran.
        return self.all_direct(
            [
                (answers[call["id"]].name or call["name"])
                for call in message.tool_calls
                if call["id"]
            ]
        )


def _make_jump_edge(edge: Edge, plan: Topology, rules: Rules, *, leaving: bool) -> Choice:
    """A node hook's own edge: its jump, or the default."""
    follow = _make_follow(edge, plan, rules, leaving=leaving)
    return lambda state: follow(state) or edge.targets[0]


def _make_model_to_tools_edge(edge: Edge, plan: Topology, rules: Rules) -> Choice:
    """The end of a turn: jump, leave, run the pending calls, or ask the model again."""
    follow = _make_follow(edge, plan, rules)
    # With nothing that could answer in the tools' place there is no way back but through them.
    again = plan.loop_entry if plan.loop_entry in edge.targets else plan.exit

    def choose(state: State) -> str | list[Send]:
        if jump := follow(state):
            return jump
        message, tail = last_turn(state["messages"])
        if message is None:
            return plan.exit
        if not call_ids(message):
            return again if _asked_again(tail) else plan.exit
        if sends := rules.sends(message, tail, state):
            return sends
        return plan.exit if rules.leaves(state, tail) else again

    return choose


def _make_tools_to_model_edge(plan: Topology, rules: Rules) -> Choice:
    """After tools: out where one of them stops the run or its result is the answer."""
    out = plan.edge_from(TOOLS).targets[-1]

    def choose(state: State) -> str:
        said = state.get(TOOL_SIGNALS) or ()
        if any(signal != DIRECT for signal in said):
            return plan.loop_entry  # tasks beside this one know nothing of it, and go there
        if rules.answered(state):
            return out
        if said:
            return plan.loop_entry
        message, tail = last_turn(state["messages"])
        if state.get("jump_to") == "end":
            # Tasks beside this one leave for the loop's entry. So does this one then, and the
            # jump is passed on from there: the exit must not be entered twice.
            beside = message is not None and pending_calls(message, tail, rules.output)
            return plan.loop_entry if beside else out
        if message is not None and rules.returns(message, tail):
            return out
        return plan.loop_entry

    return choose


def _make_model_to_model_edge(edge: Edge, plan: Topology, rules: Rules) -> Choice:
    """No tools, but a structured answer: ask again until there is one."""
    follow = _make_follow(edge, plan, rules)

    def choose(state: State) -> str | list[Send]:
        if jump := follow(state):
            return jump
        _, tail = last_turn(state["messages"])
        explained = any(is_explanation(message) for message in tail)
        return plan.loop_entry if explained and not rules.answered(state) else plan.exit

    return choose


def _make_follow(
    edge: Edge, plan: Topology, rules: Rules, *, leaving: bool = False
) -> Callable[[State], str | list[Send] | None]:
    """Where the state's jump leads; None without one, or where it leads back to its own node."""
    targets = jump_targets(plan, leaving=leaving)

    def follow(state: State) -> str | list[Send] | None:
        target = _resolve_jump(
            state.get("jump_to"),
            model_destination=targets["model"],
            end_destination=targets["end"],
        )
        if target is None or target == edge.source:
            return None
        if target not in edge.targets:
            if state.get("jump_to") == "end":
                return None  # a tool's: it is passed on to a node that may leave
            raise UndeclaredJump(
                edge.source,
                f"has no edge to {target}, and the state's jump leads there.",
                "Declare the jump with hook_config(can_jump_to=[...]) on a hook of this node.",
            )
        return _pending_or_refuse(edge, rules, state) if target == TOOLS else target

    return follow


def _pending_or_refuse(edge: Edge, rules: Rules, state: State) -> str | list[Send]:
    message, tail = last_turn(state["messages"])
    sends = rules.sends(message, tail, state) if message is not None else []
    if not sends:
        raise JumpWithoutCalls(
            edge.source,
            "jumped to tools, and no tool call waits for an answer.",
            "Jump there only after the model has asked for a tool.",
        )
    return sends


def _asked_again(tail: Sequence[AnyMessage]) -> bool:
    return any(isinstance(m, HumanMessage) and is_explanation(m) for m in tail)


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
        return str(
            _after_answer(state, target, plan)
            if edge.route is Route.RETRY
            else TransitionReason.NEXT
        )

    return why


def _jump(state: State, edge: Edge, plan: Topology) -> str | None:
    """The jump that led the route; one that leads where it already is leads nowhere."""
    jump: str | None = state.get("jump_to")
    return None if jump == "model" and edge.source == plan.loop_entry else jump


def _after_model(state: State, target: str, plan: Topology, rules: Rules) -> Reason:
    if target == TOOLS:
        return Reason(TransitionReason.CALLS)
    message, tail = last_turn(state["messages"])
    if target == plan.exit and _has_answer(state):
        return Reason(TransitionReason.STRUCTURED, _answering(tail, rules))
    if target != plan.exit and any(map(is_explanation, tail)):
        return Reason(TransitionReason.RETRY)
    if message is None or not call_ids(message):
        return Reason(TransitionReason.NO_CALLS)
    return Reason(TransitionReason.ANSWERED)


def _answering(tail: list[Any], rules: Rules) -> tuple[str, ...]:
    names = (answer.name or "" for answer in answers_of(tail).values())
    return tuple(name for name in names if name in rules.output)


def _after_answer(state: State, target: str, plan: Topology) -> Reason:
    if target == plan.loop_entry:
        return Reason(TransitionReason.RETRY)
    return Reason(TransitionReason.STRUCTURED if _has_answer(state) else TransitionReason.NO_CALLS)


def _after_tools(state: State, target: str, plan: Topology, rules: Rules) -> str:
    if any(signal != DIRECT for signal in state.get(TOOL_SIGNALS) or ()):
        return ended_by_tools(state, rules)
    if target == plan.exit or state.get("jump_to") == "end":
        return ended_by_tools(state, rules)
    return str(TransitionReason.RESULTS)


def ended_by_tools(state: State, rules: Rules) -> str:
    """Why a run ends after its tools."""
    if any(isinstance(signal, Command) for signal in state.get(TOOL_SIGNALS) or ()):
        return HANDED_OVER
    if _has_answer(state):
        return str(TransitionReason.STRUCTURED)
    message, tail = last_turn(state["messages"])
    if message is not None and rules.returns(message, tail):
        names = (answer.name or "" for answer in answers_of(tail).values())
        return str(Reason(TransitionReason.DIRECT, tuple(dict.fromkeys(names))))
    return str(TransitionReason.STOPPED)


def _has_answer(state: State) -> bool:
    return state.get("structured_response") is not None


class Path(Runnable[Any, Any]):
    """A decision of `routing` as LangGraph wants it: in both colours, and not traced."""

    def __init__(self, choose: Choice, name: str) -> None:
        self.name = name
        self._choose = choose

    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **_: Any
    ) -> str | list[Send]:
        """Decide."""
        return self._choose(input)

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **_: Any
    ) -> str | list[Send]:
        """Decide."""
        return self._choose(input)


class WatchedPath(Runnable[Any, Any]):
    """A decision that is recorded, as LangGraph wants it."""

    def __init__(self, route: Callable[[State, Any], str | list[Send]], name: str) -> None:
        self.name = name
        self._route = route

    def invoke(
        self, input: Any, config: RunnableConfig | None = None, **_: Any
    ) -> str | list[Send]:
        """Decide."""
        return self._route(input, config)

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **_: Any
    ) -> str | list[Send]:
        """Decide."""
        return self._route(input, config)
