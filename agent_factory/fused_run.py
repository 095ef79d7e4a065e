"""What a fused run keeps beside the state, and how one step leaves something to another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.errors import (
    ErrorCode,
    GraphInterrupt,
    GraphRecursionError,
    create_error_message,
)
from langgraph.types import Interrupt, interrupt

RUN = "__agent_factory_run"
"""Under this key a fused run lies in `configurable`. What starts so is in no metadata."""

ANSWERED = "answered"
"""Under this key a tool call says whether the run has its structured answer already."""


@dataclass(slots=True)
class Run:
    """What a fused run keeps beside the state, from one step to the next.

    Args:
        depth: How many graphs lie around it.
        resumed: An answer may wait for the next node: it takes a step of its own.
        sent_again: The calls of a turn were sent again, each to a task of its own.
        whole: Nothing is kept between its steps, and nobody can look in there: it takes but one.
        spared: How many steps it did not take for that, which count all the same.
        kept: Channels of messages, to be used again.
    """

    depth: int = 0
    resumed: bool = False
    sent_again: bool = False
    whole: bool = False
    spared: int = 0
    kept: dict[str, Any] = field(default_factory=dict)
    _acts: dict[str, Callable[[], Any]] = field(default_factory=dict)

    def hand_over(self, name: str, act: Callable[[], Any]) -> None:
        """Let a node, or a tool call, do in its own step what came of it in another's."""
        self._acts[name] = act

    def handed(self, name: str) -> Callable[[], Any] | None:
        """What was handed over to a node, or to a tool call; once."""
        return self._acts.pop(name, None)

    def takes_one(self) -> bool:
        """Whether the next node takes a step of its own."""
        resumed, self.resumed = self.resumed, False
        return resumed

    def was_sent_again(self) -> bool:
        """Whether the task that ends has sent its calls again."""
        sent_again, self.sent_again = self.sent_again, False
        return sent_again

    def check_limit(self, config: RunnableConfig, begun: int = 1) -> None:
        """See whether the run may take one more step.

        Args:
            config: The config of the step at hand.
            begun: 1 if it is about to end, 0 if it is about to begin.

        Raises:
            GraphRecursionError: It may not.
        """
        taken = config["metadata"]["langgraph_step"] + self.spared + begun - 1
        limit = config["recursion_limit"]
        if taken >= limit:
            said = (
                f"Recursion limit of {limit} reached, and the run is not at its end. Set a higher "
                "`recursion_limit` in the config of the call, or find out what keeps it going."
            )
            code = ErrorCode.GRAPH_RECURSION_LIMIT
            raise GraphRecursionError(create_error_message(message=said, error_code=code))


def run_of(config: RunnableConfig | None) -> Run:
    """The run a config belongs to; a new one outside of fused runs."""
    run: Run | None = (config or {}).get("configurable", {}).get(RUN)
    return run or Run()


def again(error: Exception, config: RunnableConfig | None) -> Callable[[], Any] | None:
    """What raises the same in another step; None where what raised it has to run again.

    Args:
        error: What was raised.
        config: The config of the step that raised it.
    """
    if not isinstance(error, GraphInterrupt):
        return lambda: _raise(error)
    questions: tuple[Interrupt[Any], ...] = (*error.args, ())[0]
    namespace = (config or {}).get("configurable", {}).get("checkpoint_ns", "")
    if [question.id for question in questions] != [Interrupt.from_ns(None, namespace).id]:
        # A graph inside it waits, under the name of that step. What nothing keeps goes on nowhere.
        return (lambda: _raise(error)) if run_of(config).whole else None
    asked = questions[0]
    return lambda: interrupt(asked.value, response_schema=asked.response_schema)


def _raise(error: Exception) -> Any:
    raise error
