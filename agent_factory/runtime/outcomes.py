"""Outcomes of nodes that ran ahead, repeated in the step of the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt, interrupt

from agent_factory.upstream import interrupts_here


class Result(NamedTuple):
    """Result of a node in the middle of a step, to be taken in a separate step."""

    value: Any
    outcomes: Mapping[str, Any] = {}  # results of reducers for the value, by key


Outcome = Exception | Interrupt[Any] | Result
"""Error, interrupt or result of a node."""


def outcome_of(
    error: Exception, config: RunnableConfig | None, single_step: bool
) -> Outcome | None:
    """Return the outcome for another step, or None if the node has to run again."""
    if not isinstance(error, GraphInterrupt):
        # The frames of this step would stand between the frames of the step that raises again.
        while (trace := error.__traceback__) and trace.tb_frame.f_globals["__name__"] in _FRAMES:
            error.__traceback__ = trace.tb_next
        return error
    interrupts: tuple[Interrupt[Any], ...] = (*error.args, ())[0]
    if interrupts_here(interrupts, config):
        return interrupts[0]
    # A subgraph waits, in a checkpoint namespace of the step that called it. A run without a
    # checkpointer cannot be resumed, so there the namespace does not matter.
    return error if single_step else None


_FRAMES = [f"agent_factory.runtime.{name}" for name in ("step", "watching", "tools_node", "turn")]
"""Modules through which a step calls a node."""


def repeat(outcome: Interrupt[Any] | Result) -> Any:
    """Ask the question of a node again, or return its result."""
    if isinstance(outcome, Interrupt):
        return interrupt(outcome.value, response_schema=outcome.response_schema)
    return outcome.value
