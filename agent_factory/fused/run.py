"""Run: what a fused run remembers from one step to the next, in addition to the state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.errors import ErrorCode, GraphRecursionError, create_error_message

from agent_factory.fused.events import Event, Events
from agent_factory.state.channels import random_id
from agent_factory.topology.model import TOOLS
from agent_factory.upstream import at_node, at_step, super_step

RUN = "__agent_factory_run"
"""Key of `configurable` that holds the `Run`. Keys that start with "__" stay out of metadata."""

Action = Callable[[], Any]


@dataclass(slots=True)
class Run:
    """A fused run. A run hook by hook has none."""

    id: str = field(default_factory=random_id)
    depth: int = 0  # how many graphs are around it
    entered: bool = False  # the graph has it; before that it is on its way from `invoke`
    resumed: bool = False  # the next node may wait for an answer, so it needs a step to itself
    resent: bool = False  # the calls of a turn were sent again, each to its own task
    answered: bool | None = None  # whether the run already has its structured answer, if known
    # Nothing is stored between the steps and no caller observes them, so the run takes one step.
    single_step: bool = False
    skipped_steps: int = 0  # how many steps that saved; they count towards the recursion limit
    ahead: int = 0  # how many steps more it would have taken hook by hook so far
    traced: bool = False  # callbacks listen to nodes, so each node is a traced run
    messages: bool = False  # LangGraph streams the messages that nodes return
    named: bool = False  # callbacks or streams show under which node something happens
    events: Events | None = None  # what the caller of a stream sees of nodes
    shows_steps: bool = False  # the caller sees the events of a step when it is over
    runner: Any = None  # the StepRunner of the step under way
    cached_channels: dict[str, Any] = field(default_factory=dict)  # of messages, to use again
    # What a node or a tool call does in its own step, in place of its work, by its name or id.
    deferred: dict[str, Action] = field(default_factory=dict)
    _ids: int = 0  # how many were made

    @property
    def watched(self) -> bool:
        """Whether somebody observes single nodes."""
        return self.traced or self.messages or self.events is not None

    def emit(self, event: Event) -> None:
        """Show an event to the caller of the stream."""
        assert self.events is not None  # a run without a stream makes no events
        self.events.emit(event)

    async def aemit(self, event: Event) -> None:
        """Show an event, and wait until it has been seen if the stream asks for that."""
        assert self.events is not None
        shown = self.events.emit(event)
        if self.events.awaits:
            await shown

    def check_limit(self, config: RunnableConfig, begun: int = 1) -> None:
        """Raise an error if the run may take no more step; `begun` is 0 before the current one."""
        limit = config["recursion_limit"]
        if super_step(config) + self.skipped_steps + begun - 1 >= limit:
            message = (
                f"Recursion limit of {limit} reached, but the run has not ended. Set a higher "
                "`recursion_limit` in the config of the call, or find out what keeps the run going."
            )
            code = ErrorCode.GRAPH_RECURSION_LIMIT
            raise GraphRecursionError(create_error_message(message=message, error_code=code))

    def first_config(self, config: RunnableConfig, *, traced: bool) -> RunnableConfig:
        """Return the config of the node that a step begins with, as it would be hook by hook."""
        run_id = None if traced else UUID(self.new_id())
        return at_step(config, super_step(config) + self.ahead, run_id)

    def later_config(self, config: RunnableConfig, node: str) -> RunnableConfig:
        """Return the config of another node of a step, as it would be hook by hook."""
        step, sent = super_step(config) + self.ahead, node == TOOLS
        run_id = None if self.traced else UUID(self.new_id())
        return at_node(config, step, node, self.new_id(), run_id, sent=sent)

    def new_id(self) -> str:
        """Return an id in the form of a UUID, without the time that it takes to make one."""
        self._ids += 1
        return f"{self.id[:-12]}{self._ids:012x}"


def run_of(config: RunnableConfig | None) -> Run | None:
    """Return the run of a config; None in a run hook by hook."""
    run: Run | None = (config or {}).get("configurable", {}).get(RUN)
    return run
