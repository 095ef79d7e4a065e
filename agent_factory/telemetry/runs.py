"""Runs under way, and the current span of each."""

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
    """A run, from start to end.

    Args:
        span: The span of the run.
        name: The name, without the operation.
        attributes: Attributes of the span and of metrics, without contents.
        parent: The run around, if this handler has seen its start.
        agent: Name of the agent around, from the metadata.
        task: Namespace of the task around, in a graph.
        before: The context at the start.
        context: The context for inner calls.
        inside: Inner runs under way.
        started: Time of the start, by `perf_counter`.
        is_streaming: Whether the model has sent a chunk.
        has_ended: Whether the span has ended.
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
        """Return True if this run is the other run, or inside."""
        run: Run | None = self
        while run is not None and run is not other:
            run = run.parent
        return run is not None


class CurrentSpan(Span):
    """The span of a run, and after the run the span that was current before.

    LangChain (langchain-core 1.7) reports the end of an async run in another task, where the
    context of the run cannot be restored. Later code, such as the rest of a layer after an answer
    of the model, has this span as the current span.
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    @property
    def _span(self) -> Span:
        return get_current_span(self.run.before) if self.run.has_ended else self.run.span

    def __getattr__(self, name: str) -> Any:
        return getattr(self._span, name)  # attributes of the SDK's spans beyond the interface

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
        """Do nothing: the span ends with the run."""
