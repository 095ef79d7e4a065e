"""Runs that have not ended, and the span that is current while they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from uuid import UUID

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext, get_current_span
from opentelemetry.util.types import AttributeValue

from agent_factory.telemetry.attributes import Attributes


# By identity: comparing fields would lead through all parents and their spans.
@dataclass(slots=True, eq=False)
class Run:
    """A run, from its start to its end.

    Args:
        span: Its span.
        name: Its name, without the operation.
        attributes: Attributes of its span and of its metrics, without contents.
        parent: The run around it, if this handler has seen that one start.
        agent: Name of the agent that it is a part of, as its metadata says.
        task: Namespace of the task of a graph that it is a part of.
        before: The context in which it started.
        context: The context of what it calls.
        inside: Runs inside of it that have not ended.
        started: When it started, by `perf_counter`.
        is_streaming: Whether its model has sent a chunk.
        has_ended: Whether its span has ended.
    """

    span: Span
    name: str
    attributes: Attributes
    parent: Run | None
    agent: str | None
    task: str | None
    before: Context
    context: Context
    inside: dict[UUID, Run] = field(default_factory=dict)
    started: float = field(default_factory=perf_counter)
    is_streaming: bool = False
    has_ended: bool = False

    def is_within(self, other: Run) -> bool:
        """Return True if this run is the other one, or inside of it."""
        run: Run | None = self
        while run is not None and run is not other:
            run = run.parent
        return run is not None


class CurrentSpan(Span):
    """The span of a run while it runs, and then the one that was current before.

    LangChain (langchain-core 1.7) reports the end of an async run in another task, where the
    context of the run cannot be restored. The code that follows, such as that of a layer after the
    model has answered, has this span as its current one.
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    @property
    def _span(self) -> Span:
        return get_current_span(self.run.before) if self.run.has_ended else self.run.span

    def __getattr__(self, name: str) -> Any:
        return getattr(self._span, name)  # what the SDK's spans have beyond the interface

    def get_span_context(self) -> SpanContext:
        """Return the identity of the span."""
        return self._span.get_span_context()

    def is_recording(self) -> bool:
        """Return True if the span takes attributes and events."""
        return self._span.is_recording()

    def set_attribute(self, key: str, value: AttributeValue) -> None:
        """Set an attribute."""
        self._span.set_attribute(key, value)

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        """Set attributes."""
        self._span.set_attributes(attributes)

    def add_event(self, *args: Any, **kwargs: Any) -> None:
        """Add an event."""
        self._span.add_event(*args, **kwargs)

    def add_link(self, *args: Any, **kwargs: Any) -> None:
        """Add a link."""
        self._span.add_link(*args, **kwargs)

    def record_exception(self, *args: Any, **kwargs: Any) -> None:
        """Record an exception as an event."""
        self._span.record_exception(*args, **kwargs)

    def update_name(self, name: str) -> None:
        """Change the name."""
        self._span.update_name(name)

    def set_status(self, *args: Any, **kwargs: Any) -> None:
        """Set the status."""
        self._span.set_status(*args, **kwargs)

    def end(self, end_time: int | None = None) -> None:
        """Do nothing: the span ends with its run."""
