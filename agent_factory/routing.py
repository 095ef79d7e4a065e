"""Pure decisions: the state of a run says where it goes next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.types import Send

from agent_factory.errors import JumpWithoutCalls, UndeclaredJump
from agent_factory.history import answers_of, call_ids, last_turn
from agent_factory.schema import RELAY
from agent_factory.structured_output import is_explanation
from agent_factory.topology import TOOLS, Edge, Topology, jump_targets

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
        said = state.get(RELAY) or ()
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
