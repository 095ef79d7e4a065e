"""Spans of telemetry, as tests read them, and agents that make some.

Test files import it as `spans`: pytest puts this folder on the path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessage
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from agent_factory import AgentMiddleware
from agent_factory.telemetry import Telemetry
from agent_factory.testing import ScriptedChatModel
from samples import PassingFlows

ASK: Any = {"messages": [("user", "2 + 3?")]}
CALL: Any = [{"name": "add", "args": {"a": 2, "b": 3}, "id": "one"}]


class Spans(SpanProcessor):
    """All spans that started, in this order, and the names of those that ended."""

    def __init__(self) -> None:
        self.started: list[ReadableSpan] = []
        self.ended: list[str] = []
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(self)

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.started.append(span)

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span.name)

    def of(self, name: str) -> ReadableSpan:
        """The only span of a name."""
        (found,) = [span for span in self.started if span.name == name]
        return found

    def says(self, name: str) -> dict[str, Any]:
        """The attributes of the only span of a name."""
        return dict(self.of(name).attributes or {})

    def tree(self) -> list[Any]:
        """The spans by name, each with those inside of it."""

        def inside(parent: int | None) -> Iterator[Any]:
            span: Any
            for span in self.started:
                if (span.parent.span_id if span.parent else None) == parent:
                    children = list(inside(span.context.span_id))
                    yield (span.name, children) if children else span.name

        return list(inside(None))

    def check(self) -> None:
        """Every span has ended, and each is inside of a span that was under way."""
        assert sorted(self.ended) == sorted(span.name for span in self.started)
        known: dict[int, Any] = {}
        for span in self.started:
            if span.parent is not None:
                parent = known[span.parent.span_id]
                assert parent.start_time <= span.start_time
                assert span.end_time <= parent.end_time
                assert span.context.trace_id == parent.context.trace_id
            known[span.context.span_id] = span


def watched(spans: Spans, **options: Any) -> Any:
    """A config with the handler."""
    metadata = options.pop("metadata", {})
    configurable = {"thread_id": "t-17"}
    handler = Telemetry(spans.provider, **options)
    return {"callbacks": [handler], "configurable": configurable, "metadata": metadata}


def adding(*steps: Any) -> ScriptedChatModel:
    return ScriptedChatModel([CALL, *(steps or ["Five."])])


class Flows(PassingFlows, AgentMiddleware):
    def before_model(self, state: Any, runtime: Any) -> None:
        return None


class Named(ScriptedChatModel):
    """A model as a provider's package has it."""

    def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
        own = {"ls_provider": "azure", "ls_model_name": "gpt-9", "ls_temperature": 0.5}
        return {**super()._get_ls_params(stop=stop, **kwargs), **own}


ANSWER = AIMessage(
    "Hi.",
    usage_metadata={
        "input_tokens": 7,
        "output_tokens": 2,
        "total_tokens": 9,
        "input_token_details": {"cache_read": 4},
        "output_token_details": {"reasoning": 1},
    },
    response_metadata={"model_name": "gpt-9-may", "finish_reason": "stop", "id": "r-1"},
)


class Broken(RuntimeError):
    pass
