"""Tracers of others see our runs as langchain's: the names, kinds, states and parents of spans."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from tempfile import mkdtemp
from typing import Any

import mlflow
import pytest
from langchain.agents.middleware import ModelCallLimitMiddleware, ModelRetryMiddleware
from langchain_core.tracers import LangChainTracer
from langfuse import Langfuse
from langfuse.langchain import CallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from langsmith import Client
from mlflow.entities.trace_location import MlflowExperimentLocation
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from watching import EVENTS, STREAMS

from agent_factory.service import Service
from agent_factory.telemetry import Telemetry
from agent_factory.testing import ScriptedChatModel
from foreign.stories import THREAD, Library, calls, libraries

ASK: Any = {"messages": [("user", "Hi")]}
NOWHERE = "http://127.0.0.1:9"
KINDS = ("openinference.span.kind", "langfuse.observation.type", "langsmith.span.kind")


def openinference(provider: TracerProvider, request: pytest.FixtureRequest) -> list[Any]:
    LangChainInstrumentor().instrument(tracer_provider=provider)
    request.addfinalizer(LangChainInstrumentor().uninstrument)
    return []


def langfuse(provider: TracerProvider, request: pytest.FixtureRequest) -> list[Any]:
    options: Any = {"tracer_provider": provider, "span_exporter": InMemorySpanExporter()}
    Langfuse(public_key="pk-lf-1", secret_key="sk-lf-1", base_url=NOWHERE, **options)
    return [CallbackHandler(public_key="pk-lf-1")]


def langsmith(provider: TracerProvider, request: pytest.FixtureRequest) -> list[Any]:
    options: Any = {"tracing_mode": "otel", "otel_tracer_provider": provider}
    return [LangChainTracer(client=Client(NOWHERE, api_key="1", **options))]


def telemetry(provider: TracerProvider, request: pytest.FixtureRequest) -> list[Any]:
    return [Telemetry(provider)]


def desk(library: Library, **options: Any) -> Any:
    """An agent with hooks and a layer, whose tools ask another agent and a person."""

    def consult() -> str:
        """Ask another agent."""
        expert = library.create_agent(ScriptedChatModel(["Inside."]), name="expert")
        return str(expert.invoke(ASK)["messages"][-1].text)

    def ask() -> str:
        """Ask a person."""
        return f"They said {interrupt('?')}." if options else "They are away."

    model = ScriptedChatModel([calls(("consult", {})), calls(("ask", {})), "Done."])
    stack = [ModelCallLimitMiddleware(run_limit=9), ModelRetryMiddleware()]
    tools = [consult, ask]
    return library.create_agent(model, tools, middleware=stack, name="desk", **options)


def runs(library: Library, callbacks: list[Any]) -> Iterator[str]:
    """Run agents in every way, and yield the name of each."""
    config: Any = {"callbacks": callbacks}

    async def read(events: Any) -> None:
        async for _ in events:
            pass

    yield f"invoke {len(desk(library).invoke(ASK, config))}"
    yield f"ainvoke {len(asyncio.run(desk(library).ainvoke(ASK, config)))}"
    for form in (*STREAMS, EVENTS[0]):
        if form.watch:
            yield f"{form} {bool([*form.watch(desk(library), ASK, config)])}"
        asyncio.run(read(form.awatch and form.awatch(desk(library), ASK, config)))
        yield f"{form}, async"
    agent, config = desk(library, checkpointer=InMemorySaver()), {**THREAD, **config}
    yield f"review {agent.invoke(ASK, config)['__interrupt__'][0].value}"
    yield agent.invoke(Command(resume="yes"), config)["messages"][-1].text
    with Service(f"sqlite:///{mkdtemp()}/service.db", callbacks=callbacks) as service:
        service.add("desk", desk(library))
        run = service.submit("desk", thread="1", message="Hi")
        yield f"service {run.result(timeout=60)['messages'][-1].text}"


def forest(spans: list[Any]) -> list[Any]:
    """The spans as trees, in the order of their starts, with the calls of a layer in its place."""
    ids = {id for _, id, *_ in spans}

    def inside(around: Any) -> list[Any]:
        trees: list[Any] = []
        for _, id, parent, name, *more in sorted(spans, key=lambda span: span[:1]):
            if (parent if parent in ids else None) == around:
                layer = "Retry" in name
                trees += inside(id) if layer else [(name, more, inside(id))]
        return trees

    return inside(None)


def compare(callbacks: list[Any], take: Callable[[], list[Any]]) -> None:
    """Run agents of langchain and ours, and compare what each run has left to take."""
    theirs, *ours = (
        {way: forest(take()) for way in runs(library, callbacks)} for library in libraries()
    )
    assert all(len(trees) == 1 for trees in theirs.values())
    assert ours == [theirs, theirs]


@pytest.mark.parametrize("tracer", [openinference, langfuse, langsmith, telemetry])
def test_a_tracer_sees_the_runs_of_langchains_agent(
    tracer: Any, request: pytest.FixtureRequest
) -> None:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def take() -> list[Any]:
        for handler in callbacks:
            getattr(getattr(handler, "client", None), "flush", lambda: None)()
        spans: Any = exporter.get_finished_spans()
        exporter.clear()
        return [
            (s.start_time, s.context.span_id, s.parent and s.parent.span_id, s.name, kind)
            for s in spans
            for kind in [(s.status.status_code.name, *map(s.attributes.get, KINDS))]
        ]

    callbacks = tracer(provider, request)
    compare(callbacks, take)


def test_mlflow_sees_the_runs_of_langchains_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    spans: list[Any] = []

    def take() -> list[Any]:
        finished, spans[:] = [*spans], []
        return [
            (s.start_time_ns, s.span_id, s.parent_id, s.name, s.span_type, s.status.status_code)
            for s in finished
        ]

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{mkdtemp()}")
    mlflow.tracing.set_destination(MlflowExperimentLocation("1"))
    mlflow.tracing.configure(span_processors=[spans.append])
    mlflow.langchain.autolog()
    compare([], take)
    mlflow.langchain.autolog(disable=True)
