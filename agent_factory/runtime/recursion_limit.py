"""The recursion limit of a run: are there steps left for the calls of a turn and for an answer?

LangGraph ends a run that is out of steps with a GraphRecursionError, wherever it is. An agent ends
before that, with a message, if its model makes calls whose results it could not read any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from agent_factory.decisions.recorder import Recorder
from agent_factory.runtime.routing import pending_calls
from agent_factory.runtime.spec import AgentSpec
from agent_factory.runtime.step import Run, Successors, run_of
from agent_factory.state.history import call_ids, last_turn
from agent_factory.topology.model import END, TOOLS
from agent_factory.types import ModelResponse
from agent_factory.upstream import remaining_steps

LIMIT_KWARGS = {"lc_source": "recursion_limit"}
"""`additional_kwargs` of the messages with which a run ends at its recursion limit."""


class RecursionLimit:
    """Counts the steps that an agent needs after calls of its model, and ends a run without them.

    Args:
        spec: The agent.
        recorder: Records that a run ended, and its calls.
        successors: Nodes that may follow each node in a step of a fused run.
    """

    def __init__(
        self,
        spec: AgentSpec,
        recorder: Recorder,
        successors: Mapping[str, Successors],
    ) -> None:
        self._spec = spec
        self._recorder = recorder
        self._refuse = recorder.refusing(_unrun, spec.topology.style.model, "recursion limit")
        self._always = {node: following.always for node, following in successors.items()}

    def applied(self, response: ModelResponse[Any], config: RunnableConfig) -> ModelResponse[Any]:
        """Return a response; if steps are missing, its calls are answered and a message ends it."""
        message, tail = last_turn(response.result)  # type: ignore[arg-type]  # messages, all
        if message is None or not call_ids(message):
            return response
        run = run_of(config)
        left = remaining_steps(config) - (run.skipped_steps if run else 0)
        calls = pending_calls(message, tail, self._spec.rules.output)
        # Without steps for an end either, LangGraph's error leaves the calls to the next run.
        if not calls or not self._steps([], run) <= left < self._steps_after(calls, run):
            return response
        names = ", ".join(dict.fromkeys(str(call["name"]) for call in calls))
        why = (
            f"its recursion limit of {config['recursion_limit']} leaves too few steps for the "
            f"calls of {names}"
        )
        self._recorder.ended(why)
        end = AIMessage(
            f"The run ended: {why}.", name=self._spec.name, additional_kwargs=LIMIT_KWARGS
        )
        return replace(response, result=[*response.result, *map(self._refuse, calls), end])

    def _steps_after(self, calls: Sequence[Mapping[str, Any]], run: Run | None) -> int:
        """Return the steps that run these calls and end the run, the model's included."""
        plan, order = self._spec.topology, self._order
        # Of several calls, no task sees whether their results are the answer: the entry does.
        is_answer = len(calls) == 1 and calls[0]["name"] in self._spec.rules.direct
        turn = order[order.index(plan.loop_entry) : order.index(plan.loop_exit) + 1]
        return self._steps([TOOLS] if is_answer else [TOOLS, *turn], run)

    def _steps(self, between: Sequence[str], run: Run | None) -> int:
        """Return the steps from the model's to the end of the run, with nodes in between."""
        plan, order = self._spec.topology, self._order
        turn = order[order.index(plan.style.model) : order.index(plan.loop_exit) + 1]
        leaving = [] if plan.exit == END else order[order.index(plan.exit) :]
        path = pairwise([*turn, *between, *leaving])
        if run is None:
            return 1 + len([*path])
        # What a hook writes before the model, or after it, may end a step there.
        return 1 + sum(next_node not in self._always[node] for node, next_node in path)

    @cached_property
    def _order(self) -> list[str]:
        return [node for node in self._spec.topology.nodes if node != TOOLS]


def _unrun(call: Mapping[str, Any]) -> ToolMessage:
    """Return the answer to a call that the run had no steps for."""
    return ToolMessage(
        "Error: the run ended at its recursion limit, so this call did not run.",
        tool_call_id=str(call["id"]),
        name=call["name"],
        status="error",
        additional_kwargs=LIMIT_KWARGS,
    )
