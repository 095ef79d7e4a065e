"""The recursion limit of a run: are there steps left for the calls of a turn and for an answer?

LangGraph ends a run without further steps with a GraphRecursionError, in the middle. An agent ends
earlier, with a message, if its model makes calls and could not read their results any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from agent_factory.decisions.recorder import Recorder
from agent_factory.runtime.routing import pending_calls
from agent_factory.runtime.spec import AgentSpec
from agent_factory.runtime.step import Successors
from agent_factory.state.history import error_result, last_turn
from agent_factory.topology.model import END, TOOLS
from agent_factory.types import ModelResponse

LIMIT_KWARGS = {"lc_source": "recursion_limit"}
"""`additional_kwargs` of the last messages of a run at its recursion limit."""


class RecursionLimit:
    """Counts the steps after calls of the model, and ends a run without enough steps."""

    def __init__(
        self,
        spec: AgentSpec,
        recorder: Recorder,
        successors: Callable[[], Mapping[str, Successors]],
    ) -> None:
        self._spec = spec
        self._order = [node for node in spec.topology.nodes if node != TOOLS]
        self._recorder = recorder
        self._refuse = recorder.refusing(unrun, spec.topology.style.model, "recursion limit")
        self._successors = successors

    def applied(
        self, response: ModelResponse[Any], left: int, limit: int, *, fused: bool
    ) -> ModelResponse[Any]:
        """Return a response; without enough steps, calls get answers and a message ends the run."""
        message, tail = last_turn(response.result)  # type: ignore[arg-type]  # messages, all
        rules, plan = self._spec.rules, self._spec.topology
        calls = pending_calls(message, tail, rules.output) if message else []
        order = self._order
        turn = order[order.index(plan.loop_entry) : order.index(plan.loop_exit) + 1]
        # Of several calls, no task sees whether their results are the answer: the entry does.
        is_answer = len(calls) == 1 and calls[0]["name"] in rules.direct
        needed = self.steps([TOOLS] if is_answer else [TOOLS, *turn], fused=fused)
        # Without steps for an end either, LangGraph's error leaves the calls to the next run.
        if not calls or not self.steps([], fused=fused) <= left < needed:
            return response
        names = ", ".join(dict.fromkeys(str(call["name"]) for call in calls))
        why = f"its recursion limit of {limit} leaves too few steps for the calls of {names}"
        self._recorder.ended(why)
        text, name = f"The run ended: {why}.", self._spec.name
        end = AIMessage(text, name=name, additional_kwargs=LIMIT_KWARGS)
        return replace(response, result=[*response.result, *map(self._refuse, calls), end])

    def steps(self, between: Sequence[str], *, fused: bool) -> int:
        """Return the steps from the model's to the end of the run, with nodes in between."""
        plan, order = self._spec.topology, self._order
        turn = order[order.index(plan.style.model) : order.index(plan.loop_exit) + 1]
        leaving = [] if plan.exit == END else order[order.index(plan.exit) :]
        path = pairwise([*turn, *between, *leaving])
        # A write of a hook before the model, or after, may end a step there.
        successors = self._successors() if fused else {}
        return 1 + sum(not fused or after not in successors[node].always for node, after in path)


def unrun(call: Mapping[str, Any]) -> ToolMessage:
    """Return the answer to a call without steps left in the run."""
    text = "Error: the run ended at its recursion limit, so this call did not run."
    return error_result(call, text, additional_kwargs=LIMIT_KWARGS)
