"""Layer flow: the flow of one layer in one run, and the control flow that passes through."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from langgraph.errors import GraphBubbleUp, GraphDrained, GraphInterrupt, is_invalid_resume

from agent_factory.errors import BadReturn
from agent_factory.hooks.flows import RunPaused, is_signal
from agent_factory.hooks.introspection import Bound
from agent_factory.topology.model import Layer

logger = logging.getLogger("agent_factory")


class Signal(BaseException):
    """Control flow on the way out through the layers. No flow can stop a signal.

    Args:
        thrown: The exception for each flow.
        error: The exception for the caller of the agent; None at a pause, which ends the stream.
    """

    def __init__(self, exception: BaseException, error: BaseException | None) -> None:
        self.thrown, self.error = exception, error


def signal_of(error: BaseException) -> Signal | None:
    """Return the signal of an exception that is control flow; None for an error.

    An interrupt is an `Exception` in LangGraph, and `except Exception` in a flow would catch it.
    """
    if not is_signal(error):
        return None
    exception = error
    if isinstance(error, GraphInterrupt):
        exception = RunPaused(error.args[0] if error.args else ())
    elif isinstance(error, GraphDrained) or is_invalid_resume(error):
        exception = RunPaused()
    elif isinstance(error, GraphBubbleUp):  # the run hands over to a graph around the agent
        exception = GeneratorExit()
    return Signal(exception, error)


class LayerFlow:
    """The flow of one layer in one run, and its course so far."""

    def __init__(
        self, bound: Bound[Layer], state: Mapping[str, object], arguments: Mapping[str, object]
    ) -> None:
        self.definition = bound.definition
        self.name = bound.definition.name
        self.state = dict(state)
        flow = bound.func(dict(state), **arguments)  # type: ignore[misc]  # a flow has both functions
        self.send, self.throw, self.generator = flow.send, flow.throw, flow
        self.refusals = 0  # how many times the flow has caught a BadReturn
        # The state with which the flow ran the agent.
        self.passed: Mapping[str, object] | None = None
        self.result: Mapping[str, object] = {}  # the final state of the run
        self.caught: Exception | None = None  # the error of the run
        self.returned: Any = None
        self.error: Exception | None = None  # the error that leaves the flow
        self.signal: Signal | None = None  # the signal that leaves the flow in any case

    def receive(self, error: BaseException) -> BaseException:
        """Return the exception for the flow, from an exception further in."""
        signal = error if isinstance(error, Signal) else signal_of(error)
        self.refusals += isinstance(error, BadReturn)
        if signal is None:
            return error
        self.signal = signal
        return signal.thrown

    def fail(self, error: BaseException) -> None:
        """Note the exception of the flow. An error cannot replace a signal."""
        if (signal := signal_of(error)) is not None:
            # A flow that raises the thrown exception lets the first signal pass.
            if self.signal is None or error is not self.signal.thrown:
                self.signal = signal
        elif self.signal is None:
            assert isinstance(error, Exception)  # all other exceptions are signals
            self.error = error
        elif self.signal.error is None:
            logger.error("%s failed while it was closed.", self.name, exc_info=error)
        else:
            self.signal.error.add_note(f"While {self.name} was closed: {error!r}")

    def leave(self) -> None:
        """Raise the signal or the error that leaves the flow, if any."""
        if self.signal is not None:
            raise self.signal
        if self.error is not None:
            raise self.error
