"""Telemetry: the callback handler for spans and metrics of runs."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from time import perf_counter
from typing import Any
from uuid import UUID

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.outputs import LLMResult
from langgraph.callbacks import GraphCallbackHandler, GraphInterruptEvent, GraphResumeEvent
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, SpanKind, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from agent_factory.telemetry.attributes import (
    AGENT,
    Attributes,
    as_json,
    error_type,
    generated,
    given,
    input_messages,
    messages_in,
    of_model,
    of_operation,
    of_response,
    output_messages,
    tool_result,
)
from agent_factory.telemetry.metrics import NAME, SCHEMA, VERSION, Instruments, meter
from agent_factory.telemetry.runs import CurrentSpan, Run
from agent_factory.upstream import task_namespace

_LAYERS = frozenset(
    {"around_model", "around_tool", "wrap_model_call", "wrap_tool_call"}
    | {"awrap_model_call", "awrap_tool_call"}
)
_OUTCOME = "agent_factory.outcome"


class Telemetry(GraphCallbackHandler):
    """Callback handler for OpenTelemetry spans and metrics of runs.

    A handler serves any number of runs at once, sync and async, of agents of this library and of
    other LangGraph graphs. Pass it in a config, or bind it: `agent.with_config(callbacks=[...])`.
    Subagents and all inner runs are traced with the run.

    A run has the span `invoke_agent {agent}`, a model call `chat {model}`, a tool call
    `execute_tool {tool}`; hooks and layers have spans of their names. While a hook, a
    layer, a model or a tool runs, its span is current, so spans of HTTP clients and
    the like are inside.

    The names follow version 1.41 of the semantic conventions, where all of `gen_ai` has the
    status Development: https://opentelemetry.io/docs/specs/semconv/gen-ai/

    Args:
        tracer_provider: Where spans go; None for OpenTelemetry's global provider.
        meter_provider: Where metrics go; None for OpenTelemetry's global provider.
        contents: Whether spans hold messages, the arguments and results of tools, and texts of
            exceptions. They may be personal data. State is never recorded, except messages.

    >>> from opentelemetry.sdk.trace import TracerProvider
    >>> from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    >>> from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> exporter, provider = InMemorySpanExporter(), TracerProvider()
    >>> provider.add_span_processor(SimpleSpanProcessor(exporter))
    >>> agent = create_agent(ScriptedChatModel(["Hi."]), name="desk")
    >>> telemetry = Telemetry(provider)
    >>> _ = agent.invoke({"messages": [("user", "Hello")]}, {"callbacks": [telemetry]})
    >>> [span.name for span in exporter.get_finished_spans()]
    ['chat ScriptedChatModel', 'model', 'invoke_agent desk']
    """

    run_inline = True
    """In async runs, LangChain calls handlers without this in threads, with other contexts."""

    traces_layers = True
    """Layers of agents are runs too; only tracers and handlers with this attribute see them."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        contents: bool = False,
    ) -> None:
        self._tracer = trace.get_tracer(NAME, VERSION, tracer_provider, SCHEMA)
        self._instruments = Instruments(meter(meter_provider))
        self._contents = contents
        # No run has the key None, so a run without a parent finds none.
        self._runs: dict[UUID | None, Run] = {}
        # Key of contexts: the run of the current span, or around.
        self._key = contexts.create_key("agent_factory.run")

    # Agents, nodes, layers and other runnables

    def on_chain_start(
        self,
        serialized: object,
        inputs: object,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, object] | None = None,
        name: str | None = None,
        **_: object,
    ) -> None:
        """Start the span of a graph, a node, a layer or another runnable."""
        metadata, name = metadata or {}, name or "runnable"
        parent = self._runs.get(parent_run_id)
        # All runs inside of a node have the node's metadata too. The node is the first
        # run with the namespace of the task.
        is_node = metadata.get("langgraph_node") == name and (
            parent is None or task_namespace(metadata) != parent.task
        )
        agent = metadata.get("lc_agent_name")
        # All runs of an agent have the agent's name in their metadata. A new name begins
        # an agent.
        is_named = bool(agent) and (parent is None or agent != parent.agent)
        if not is_node and (parent is None or is_named):
            name = str(agent) if is_named else name
            attributes = of_operation(AGENT, metadata, name)
            run = self._start(run_id, parent, metadata, name, attributes)
            if self._contents and run.span.is_recording():
                run.span.set_attributes(input_messages(messages_in(inputs)))
            return
        if is_node and parent is not None and not parent.attributes.get("gen_ai.operation.name"):
            # Only graphs have nodes, so the run around is a graph's.
            parent.attributes = of_operation(AGENT, metadata, parent.name)
            parent.span.update_name(f"{AGENT} {parent.name}")
            parent.span.set_attributes(parent.attributes)
        middleware, _dot, method = name.rpartition(".")
        is_ours = metadata.get("ls_integration") == "agent_factory"
        hook = {"agent_factory.middleware": middleware, "agent_factory.hook": method}
        is_hook = is_ours and (is_node or method in _LAYERS)
        self._start(run_id, parent, metadata, name, given(hook) if is_hook else {})

    def on_chain_end(self, outputs: object, *, run_id: UUID, **_: object) -> None:
        """End the span of a runnable."""

        def answer(run: Run) -> Attributes:
            is_agent = run.attributes.get("gen_ai.operation.name") == AGENT
            last = messages_in(outputs)[-1:] if is_agent else []
            return output_messages(last) if last and last[0].type == "ai" else {}

        self._end(run_id, contents=answer)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: object) -> None:
        """End the span of a failed runnable."""
        self._end(run_id, error)

    on_llm_error = on_tool_error = on_retriever_error = on_chain_error

    def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """Mark the span of a pausing run."""
        if run := self._runs.get(event.run_id):
            run.span.set_attribute(_OUTCOME, "interrupted")

    def on_resume(self, event: GraphResumeEvent) -> None:
        """Mark the span of a run after a pause."""
        if run := self._runs.get(event.run_id):
            run.span.set_attribute("agent_factory.resumed", True)

    # Models

    def on_chat_model_start(
        self, serialized: dict[str, object], messages: list[list[BaseMessage]], **kwargs: Any
    ) -> None:
        """Start the span of a call of a chat model."""
        self._start_model("chat", serialized, chain.from_iterable(messages), **kwargs)

    def on_llm_start(
        self, serialized: dict[str, object], prompts: list[str], **kwargs: Any
    ) -> None:
        """Start the span of a completion of text."""
        self._start_model("text_completion", serialized, map(HumanMessage, prompts), **kwargs)

    def _start_model(
        self,
        operation: str,
        serialized: Mapping[str, Any] | None,
        messages: Iterable[BaseMessage],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: Mapping[str, Any] | None = None,
        invocation_params: Mapping[str, Any] | None = None,
        **_: object,
    ) -> None:
        metadata, parent = metadata or {}, self._runs.get(parent_run_id)
        model = of_model(metadata, invocation_params or {})
        attributes = {**of_operation(operation, metadata), **model}
        name = model.get("gen_ai.request.model") or (serialized or {}).get("name") or ""
        run = self._start(run_id, parent, metadata, name, attributes, SpanKind.CLIENT)
        if self._contents and run.span.is_recording():
            run.span.set_attributes(input_messages(messages))

    def on_llm_new_token(self, token: object, *, run_id: UUID, **_: object) -> None:
        """Measure the time to the first chunk."""
        run = self._runs.get(run_id)
        if run is None or run.is_streaming:
            return
        run.is_streaming = True
        seconds = perf_counter() - run.started
        run.span.set_attribute("gen_ai.request.stream", True)
        run.span.set_attribute("gen_ai.response.time_to_first_chunk", seconds)
        self._instruments.record_first_chunk(run.attributes, seconds, run.context)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: object) -> None:
        """End the span of a model call, and count the tokens."""
        self._end(run_id, None, of_response(response), lambda _: generated(response))

    # Tools and retrievers

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, object] | None = None,
        inputs: dict[str, object] | None = None,
        tool_call_id: str | None = None,
        **_: object,
    ) -> None:
        """Start the span of a tool call."""
        metadata, name = metadata or {}, (serialized or {}).get("name") or "tool"
        attributes = {
            **of_operation("execute_tool", metadata),
            **given({"gen_ai.tool.name": name, "gen_ai.tool.call.id": tool_call_id}),
            "gen_ai.tool.type": "function",
        }
        run = self._start(run_id, self._runs.get(parent_run_id), metadata, name, attributes)
        if self._contents and run.span.is_recording():
            arguments = input_str if inputs is None else as_json(inputs)
            run.span.set_attribute("gen_ai.tool.call.arguments", arguments)

    def on_tool_end(self, output: object, *, run_id: UUID, **_: object) -> None:
        """End the span of a tool call."""

        def result(_: Run) -> Attributes:
            return {"gen_ai.tool.call.result": as_json(tool_result(output))}

        self._end(run_id, contents=result)

    def on_retriever_start(
        self,
        serialized: dict[str, Any],
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        name: str | None = None,
        **_: object,
    ) -> None:
        """Start the span of a search for documents."""
        metadata, name = metadata or {}, name or (serialized or {}).get("name") or ""
        attributes = of_operation("retrieval", metadata)
        run = self._start(run_id, self._runs.get(parent_run_id), metadata, name, attributes)
        if self._contents and run.span.is_recording():
            run.span.set_attribute("gen_ai.retrieval.query.text", query)

    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **_: object) -> None:
        """End the span of a search for documents."""
        self._end(run_id)

    # Spans

    def _start(
        self,
        run_id: UUID,
        parent: Run | None,
        metadata: Mapping[str, Any],
        name: str,
        attributes: Attributes,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Run:
        """Start the span of a run; it becomes current, unless the run is an agent's."""
        before, around = self._current()
        links: list[Link] = []
        if parent is None:
            outer, links = _outer_context(before, metadata)
        elif around is not None and around.is_within(parent):
            # There may be layers in between, unknown to LangChain as parents of a tool,
            # and spans by a hook or a tool itself.
            outer, parent = before, around
        else:
            outer = parent.context
        operation = attributes.get("gen_ai.operation.name")
        title = f"{operation} {name}".rstrip() if operation else name
        span = self._tracer.start_span(title, outer, kind, attributes, links)
        agent, task = metadata.get("lc_agent_name"), task_namespace(metadata)
        run = Run(span, name, attributes, parent, agent, task, before, outer)
        context = trace.set_span_in_context(CurrentSpan(run), outer)
        run.context = contexts.set_value(self._key, run, context)
        if operation != AGENT:  # an agent's run may be a generator, with the context of the caller
            contexts.attach(run.context)
        self._runs[run_id] = run
        if parent is not None:
            parent.inside[run_id] = run
        return run

    def _current(self) -> tuple[Context, Run | None]:
        """Return the current context, and the innermost run around and under way.

        The context of an ended run is passed over: see `CurrentSpan`.
        """
        current = contexts.get_current()
        run: Any = contexts.get_value(self._key, current)
        while run is not None and run.has_ended:
            span = trace.get_current_span(current)
            if isinstance(span, CurrentSpan) and span.run is run:
                current = run.before
                run = contexts.get_value(self._key, current)
            else:
                run = run.parent
        return current, run

    def _end(
        self,
        run_id: UUID,
        error: BaseException | None = None,
        attributes: Attributes | None = None,
        contents: Callable[[Run], Attributes] | None = None,
    ) -> None:
        """End the span of a run, and the spans of inner runs without an end."""
        # A handler from the middle of a run has not seen the start.
        run = self._runs.pop(run_id, None)
        if run is None:
            return
        # A copy: each end removes a run from the dict.
        for inner in list(run.inside):
            self._end(inner, GeneratorExit())
        if run.parent is not None:
            run.parent.inside.pop(run_id, None)
        # Only if a span of this run is current here. In an async run the end may be reported in
        # another task, whose context is not ours to change: see `CurrentSpan`.
        around: Any = contexts.get_value(self._key)
        if around is not None and around.is_within(run):
            contexts.attach(run.before)  # `detach` fails in the context of another task
        try:
            if attributes:
                run.attributes |= attributes
                run.span.set_attributes(attributes)
            if isinstance(error, GraphBubbleUp):
                outcome = "interrupted" if isinstance(error, GraphInterrupt) else "handed over"
                run.span.set_attribute(_OUTCOME, outcome)
            elif isinstance(error, CancelledError | GeneratorExit):
                run.span.set_attribute(_OUTCOME, "cancelled")
            elif error is not None:
                run.attributes["error.type"] = error_type(error)
                run.span.set_attribute("error.type", error_type(error))
                run.span.set_status(StatusCode.ERROR)
                if self._contents:
                    run.span.record_exception(error)
            if self._contents and contents is not None and run.span.is_recording():
                run.span.set_attributes(contents(run))
        finally:
            # After any failure above: a span without an end is never exported.
            seconds = perf_counter() - run.started
            self._instruments.record_end(run.attributes, seconds, run.context)
            run.span.end()
            run.has_ended = True
            run.context = run.before  # the own context refers to the run, and would keep it


def _outer_context(current: Context, metadata: Mapping[str, object]) -> tuple[Context, list[Link]]:
    """Return the context of the outermost span of a run, and its links.

    The `traceparent` in the metadata is the parent, or a link if a span is current.
    """
    # Only strings: the metadata may hold anything, and the propagator fails for other values.
    carrier = {
        key: metadata[key]
        for key in ("traceparent", "tracestate")
        if isinstance(metadata.get(key), str)
    }
    remote_context = TraceContextTextMapPropagator().extract(carrier, Context())
    remote = trace.get_current_span(remote_context).get_span_context()
    local = trace.get_current_span(current).get_span_context()
    # In the same trace, the current span is the nearer parent.
    if not remote.is_valid or remote.trace_id == local.trace_id:
        return current, []
    if local.is_valid:
        return current, [Link(remote)]
    return trace.set_span_in_context(trace.get_current_span(remote_context), current), []
