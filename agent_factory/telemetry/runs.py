"""Runs under way, and the current span of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any
from uuid import UUID

from opentelemetry.context import Context
from opentelemetry.trace import Span, get_current_span

from agent_factory.telemetry.attributes import Attributes


# By identity: comparing fields would lead through all parents and their spans.
@dataclass(slots=True, eq=False)
class Run:
    """A run, from start to end.

    Args:
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


def _of_span(name: str) -> Callable[..., Any]:
    """A method of `CurrentSpan` that is the method of the span."""

    def method(self: CurrentSpan, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._span, name)(*args, **kwargs)

    return method


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

    get_span_context: Any = _of_span("get_span_context")
    is_recording: Any = _of_span("is_recording")
    set_attribute: Any = _of_span("set_attribute")
    set_attributes: Any = _of_span("set_attributes")
    add_event: Any = _of_span("add_event")
    add_link: Any = _of_span("add_link")
    record_exception: Any = _of_span("record_exception")
    update_name: Any = _of_span("update_name")
    set_status: Any = _of_span("set_status")

    def end(self, end_time: int | None = None) -> None:
        """Do nothing: the span ends with the run."""
