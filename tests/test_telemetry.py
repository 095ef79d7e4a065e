"""Telemetry: which spans and metrics a run makes, what they say, and that every span ends."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing, closing
from typing import Annotated, Any, NotRequired

import pytest
from hypothesis import given, settings
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from opentelemetry import baggage, trace
from opentelemetry import context as contexts
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from random_stacks import ACTS, Case, Mode, Trial, cases

from agent_factory import (
    AgentMiddleware,
    AgentState,
    DecisionSpanEvents,
    Invoke,
    PrivateStateAttr,
    create_agent,
)
from agent_factory.prebuilt import InjectedState, agent_tool
from agent_factory.telemetry import Telemetry, meter
from agent_factory.telemetry.runs import Run
from agent_factory.testing import ScriptedChatModel
from samples import add

ASK: Any = {"messages": [("user", "2 + 3?")]}
CALL: Any = [{"name": "add", "args": {"a": 2, "b": 3}, "id": "one"}]
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


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


@pytest.fixture
def spans(caplog: pytest.LogCaptureFixture) -> Iterator[Spans]:
    """Spans of a run, which all end, and leave the context as it was."""
    spans, before = Spans(), contexts.get_current()
    yield spans
    assert not caplog.records, "LangChain logs what a handler raises"
    spans.check()
    assert contexts.get_current() == before


def watched(spans: Spans, **options: Any) -> Any:
    """A config with the handler."""
    metadata = options.pop("metadata", {})
    configurable = {"thread_id": "t-17"}
    handler = Telemetry(spans.provider, **options)
    return {"callbacks": [handler], "configurable": configurable, "metadata": metadata}


def adding(*steps: Any) -> ScriptedChatModel:
    return ScriptedChatModel([CALL, *(steps or ["Five."])])


class Flows(AgentMiddleware):
    def before_model(self, state: Any, runtime: Any) -> None:
        return None

    def around_model(self, request: Any) -> Any:
        return (yield request)

    def around_tool(self, request: Any) -> Any:
        return (yield request)


# The tree

MODEL = ("model", [("Flows.around_model", ["chat ScriptedChatModel"])])


@pytest.mark.parametrize("fused", [True, "turn", False])
def test_a_run_is_a_tree_of_spans(call: Any, spans: Spans, fused: Any) -> None:
    agent = create_agent(adding(), [add], middleware=[Flows()], name="desk", fused=fused)
    call(agent, ASK, watched(spans))
    tools = ("tools", [("Flows.around_tool", ["execute_tool add"])])
    hook = "Flows.before_model"
    assert spans.tree() == [("invoke_agent desk", [hook, MODEL, tools, hook, MODEL])]


def test_streams_have_the_spans_of_runs(collect: Any, spans: Spans) -> None:
    agent = create_agent(adding(), [add], name="desk")
    model = ("model", ["chat ScriptedChatModel"])
    expected = [("invoke_agent desk", [model, ("tools", ["execute_tool add"]), model])]
    for mode in ("updates", "messages", ["values", "custom"]):
        agent = create_agent(adding(), [add], name="desk")
        collect(agent, ASK, watched(spans), stream_mode=mode)
        assert spans.tree() == expected
        spans.check()
        spans.started.clear()
        spans.ended.clear()


async def test_streams_of_events_have_the_spans_of_runs(spans: Spans) -> None:
    agent = create_agent(ScriptedChatModel(["Hi."]), name="desk")
    async for _ in agent.astream_events(ASK, watched(spans), version="v2"):
        pass
    assert spans.tree() == [("invoke_agent desk", [("model", ["chat ScriptedChatModel"])])]


def test_a_handler_may_be_bound_to_an_agent(call: Any, spans: Spans) -> None:
    agent: Any = create_agent(ScriptedChatModel(["Hi."]), name="desk")
    call(agent.with_config(callbacks=[Telemetry(spans.provider)]), ASK)
    assert spans.tree() == [("invoke_agent desk", [("model", ["chat ScriptedChatModel"])])]


def test_an_agent_that_a_tool_calls_is_inside_of_the_call(call: Any, spans: Spans) -> None:
    helper = create_agent(ScriptedChatModel(["Five."]))
    asked: Any = [{"name": "helper", "args": {"request": "2 + 3?"}}]
    tools = [agent_tool(helper, name="helper", description="Helps.")]
    call(create_agent(ScriptedChatModel([asked, "It is five."]), tools), ASK, watched(spans))
    model = ("model", ["chat ScriptedChatModel"])
    helped = ("execute_tool helper", [("invoke_agent helper", [model])])
    assert spans.tree() == [("invoke_agent LangGraph", [model, ("tools", [helped]), model])]
    assert spans.says("invoke_agent helper")["gen_ai.agent.name"] == "helper"


def test_graphs_that_are_not_agents_are_traced_too(call: Any, spans: Spans) -> None:
    inner: Any = StateGraph(MessagesState).add_node("b", lambda state: {}).add_edge(START, "b")
    graph: Any = StateGraph(MessagesState)
    graph.add_node("a.x", lambda state: {})
    graph.add_node("nested", inner.compile(name="inner"))
    graph.add_edge(START, "a.x").add_edge("a.x", "nested")
    call(graph.compile(name="outer"), ASK, watched(spans))
    nested = ("nested", [("invoke_agent inner", ["b"])])
    assert spans.tree() == [("invoke_agent outer", ["a.x", nested])]
    assert spans.says("a.x") == {}
    assert spans.says("invoke_agent inner")["gen_ai.agent.name"] == "inner"


def test_a_model_that_a_layer_asks_is_inside_of_the_layer(call: Any, spans: Spans) -> None:
    class Asking(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            yield Invoke(ScriptedChatModel(["Aside."]), "?")
            return (yield request)

    call(create_agent(ScriptedChatModel(["Hi."]), middleware=[Asking()]), ASK, watched(spans))
    asked = ("Asking.around_model", ["chat ScriptedChatModel"] * 2)
    assert spans.tree() == [("invoke_agent LangGraph", [("model", [asked])])]


async def test_runs_side_by_side_do_not_mix(spans: Spans) -> None:
    handler = Telemetry(spans.provider)
    agents = [create_agent(adding(), [add], name=f"desk {number}") for number in range(4)]
    await asyncio.gather(*(agent.ainvoke(ASK, {"callbacks": [handler]}) for agent in agents))
    inside = [("model", ["chat ScriptedChatModel"])]
    inside = [*inside, ("tools", ["execute_tool add"]), *inside]
    assert spans.tree() == [(f"invoke_agent desk {number}", inside) for number in range(4)]


def test_two_handlers_make_a_tree_each(call: Any, spans: Spans) -> None:
    other = Spans()
    config = {"callbacks": [Telemetry(spans.provider), Telemetry(other.provider)]}
    call(create_agent(ScriptedChatModel(["Hi."]), middleware=[Flows()]), ASK, config)
    expected = ["invoke_agent LangGraph", "Flows.before_model", "model", "Flows.around_model"]
    for one in (spans, other):
        assert [span.name for span in one.started] == [*expected, "chat ScriptedChatModel"]


# What spans say


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


def test_the_span_of_a_model_call_says_what_was_asked_and_what_it_took(
    call: Any, spans: Spans
) -> None:
    call(create_agent(Named(steps=[ANSWER]), name="desk"), ASK, watched(spans))
    assert spans.says("chat gpt-9") == {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": "desk",
        "gen_ai.conversation.id": "t-17",
        "gen_ai.provider.name": "azure.ai.openai",
        "gen_ai.request.model": "gpt-9",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.model": "gpt-9-may",
        "gen_ai.response.id": "r-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 1,
    }
    assert spans.of("chat gpt-9").kind is SpanKind.CLIENT


def test_the_span_of_a_tool_call_names_the_tool_and_the_call(call: Any, spans: Spans) -> None:
    call(create_agent(adding(), [add], name="desk"), ASK, watched(spans))
    assert spans.says("execute_tool add") == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.agent.name": "desk",
        "gen_ai.conversation.id": "t-17",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.id": "one",
        "gen_ai.tool.type": "function",
    }


def test_the_span_of_a_run_names_the_agent_the_thread_and_the_run(call: Any, spans: Spans) -> None:
    config = watched(spans, metadata={"agent_factory_run": "r-5"})
    call(create_agent(ScriptedChatModel(["Hi."]), name="desk"), ASK, config)
    assert spans.says("invoke_agent desk") == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "desk",
        "gen_ai.conversation.id": "t-17",
        "agent_factory.run.id": "r-5",
    }


def test_the_name_of_a_run_is_not_the_name_of_its_agent(call: Any, spans: Spans) -> None:
    config = {**watched(spans), "run_name": "nightly"}
    call(create_agent(ScriptedChatModel(["Hi."]), name="desk"), ASK, config)
    assert spans.started[0].name == "invoke_agent desk"


def test_spans_of_hooks_and_layers_name_the_middleware_and_the_method(
    call: Any, spans: Spans
) -> None:
    class Asks(Flows):
        def before_agent(self, state: Any, runtime: Any) -> None:
            RunnableLambda(str).with_config(run_name="not.a_hook").invoke("")

    call(
        create_agent(ScriptedChatModel(["Hi."]), middleware=[Asks(name="My.own")]),
        ASK,
        watched(spans),
    )
    for hook in ("before_model", "around_model"):
        assert spans.says(f"My.own.{hook}") == {
            "agent_factory.middleware": "My.own",
            "agent_factory.hook": hook,
        }
    assert spans.says("model") == {"agent_factory.hook": "model"}
    assert spans.says("not.a_hook") == {}


def test_the_span_of_a_streaming_model_says_when_its_first_chunk_came(
    collect: Any, spans: Spans
) -> None:
    agent = create_agent(ScriptedChatModel(["Hi there."]))
    collect(agent, ASK, watched(spans), stream_mode="messages")
    said = spans.says("chat ScriptedChatModel")
    assert said["gen_ai.request.stream"] is True
    assert 0 < said["gen_ai.response.time_to_first_chunk"] < 60


def test_a_search_for_documents_is_a_span(call: Any, spans: Spans) -> None:
    class Search(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
            if query == "fail":
                raise LookupError("no")
            return []

    for query in ("rules", "fail"):
        try:
            call(Search(), query, watched(spans, contents=True))
        except LookupError:
            assert query == "fail"
    done, failed = spans.started
    assert (done.name, failed.name) == ("retrieval Search",) * 2
    assert dict(done.attributes or {})["gen_ai.retrieval.query.text"] == "rules"
    assert dict(failed.attributes or {})["error.type"] == "LookupError"


# How spans end


class Broken(RuntimeError):
    pass


def test_an_error_marks_every_span_that_it_passes(call: Any, spans: Spans) -> None:
    agent = create_agent(ScriptedChatModel([Broken("a secret")]), middleware=[Flows()])
    with pytest.raises(Broken):
        call(agent, ASK, watched(spans))
    passed = [span for span in spans.started if span.name != "Flows.before_model"]
    assert len(passed) == 4
    for span in passed:
        assert span.status.status_code is StatusCode.ERROR
        assert dict(span.attributes or {})["error.type"] == f"{__name__}.Broken"
        assert "secret" not in span.to_json()


def test_the_error_of_a_tool_that_the_model_reads_is_the_errors_of_that_call(
    call: Any, spans: Spans
) -> None:
    def divide(a: int, b: int) -> float:
        """Divide."""
        return a / b

    asked: Any = [{"name": "divide", "args": {"a": 1, "b": 0}}]
    agent = create_agent(
        ScriptedChatModel([asked, "No."]), [divide], name="desk", handle_tool_errors=True
    )
    call(agent, ASK, watched(spans))
    assert spans.says("execute_tool divide")["error.type"] == "ZeroDivisionError"
    assert spans.of("invoke_agent desk").status.status_code is StatusCode.UNSET


@tool
def ask(question: str) -> str:
    """Ask a person."""
    return str(interrupt(question))


def pausing(**options: Any) -> Any:
    asked: Any = [{"name": "ask", "args": {"question": "Well?"}}]
    model = ScriptedChatModel([asked, "Good."])
    return create_agent(model, [ask], name="desk", checkpointer=InMemorySaver(), **options)


@pytest.mark.parametrize("fused", [True, "turn", False])
def test_an_interrupt_is_not_an_error(call: Any, spans: Spans, fused: Any) -> None:
    agent = pausing(middleware=[Flows()], fused=fused)
    call(agent, ASK, watched(spans))
    paused = {"invoke_agent desk", "tools", "Flows.around_tool", "execute_tool ask"}
    for span in spans.started:
        assert span.status.status_code is StatusCode.UNSET
        outcome = dict(span.attributes or {}).get("agent_factory.outcome")
        assert outcome == ("interrupted" if span.name in paused else None)


def test_a_run_that_continues_another_is_marked(call: Any, spans: Spans) -> None:
    agent, config = pausing(), watched(spans)
    call(agent, ASK, config)
    call(agent, Command(resume="Fine."), config)
    first, second = (span for span in spans.started if span.parent is None)
    assert dict(first.attributes or {})["agent_factory.outcome"] == "interrupted"
    assert dict(second.attributes or {})["agent_factory.resumed"] is True
    assert "agent_factory.outcome" not in dict(second.attributes or {})
    assert first.context.trace_id != second.context.trace_id


def test_a_run_that_stops_before_a_node_is_marked(call: Any, spans: Spans) -> None:
    call(pausing(interrupt_before=["tools"]), ASK, watched(spans))
    assert spans.says("invoke_agent desk")["agent_factory.outcome"] == "interrupted"


def test_a_handover_to_the_graph_around_is_not_an_error(call: Any, spans: Spans) -> None:
    @tool
    def leave() -> Any:
        """Hand over."""
        return Command(goto="next", graph=Command.PARENT)

    model = ScriptedChatModel([[{"name": "leave", "args": {}}]])
    graph: Any = StateGraph(MessagesState).add_node("next", lambda state: {})
    graph.add_node("desk", create_agent(model, [leave], name="desk"), destinations=("next",))
    call(graph.add_edge(START, "desk").compile(), ASK, watched(spans))
    assert spans.says("invoke_agent desk")["agent_factory.outcome"] == "handed over"
    assert {span.status.status_code for span in spans.started} == {StatusCode.UNSET}


@pytest.mark.parametrize("fused", [True, False])
async def test_a_cancelled_run_ends_its_spans(spans: Spans, fused: Any) -> None:
    async def wait() -> str:
        """Wait for long."""
        reached.set()
        await asyncio.sleep(60)
        return ""

    reached = asyncio.Event()
    model = ScriptedChatModel([[{"name": "wait", "args": {}}]])
    agent: Any = create_agent(model, [wait], middleware=[Flows()], name="desk", fused=fused)
    run = asyncio.create_task(agent.ainvoke(ASK, watched(spans)))
    await reached.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    for name in ("invoke_agent desk", "tools", "Flows.around_tool", "execute_tool wait"):
        assert spans.says(name)["agent_factory.outcome"] == "cancelled", name
        assert spans.of(name).status.status_code is StatusCode.UNSET


async def test_a_model_call_that_ran_out_of_time_ends_with_the_layer_that_gave_it_up(
    spans: Spans,
) -> None:
    class Slow(ScriptedChatModel):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(60)

    class Patience(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            try:
                async with asyncio.timeout(0.01):
                    return await handler(request)
            except TimeoutError:
                return AIMessage("Too slow.")

    agent: Any = create_agent(Slow(), middleware=[Patience()], name="desk")
    await agent.ainvoke(ASK, watched(spans))
    assert spans.says("chat Slow")["agent_factory.outcome"] == "cancelled"
    assert spans.ended[0] == "chat Slow"
    assert "agent_factory.outcome" not in spans.says("invoke_agent desk")


@pytest.mark.parametrize("mode", ["updates", "messages"])
def test_a_stream_that_is_abandoned_ends_its_spans(mode: Any, spans: Spans) -> None:
    agent = create_agent(adding(), [add], name="desk")
    with closing(agent.stream(ASK, watched(spans), stream_mode=mode)) as stream:  # type: ignore[type-var]
        next(stream)
    assert spans.says("invoke_agent desk")["agent_factory.outcome"] == "cancelled"


@pytest.mark.parametrize("mode", ["updates", "messages"])
async def test_an_async_stream_that_is_abandoned_ends_its_spans(mode: Any, spans: Spans) -> None:
    agent = create_agent(adding(), [add], name="desk")
    async with aclosing(agent.astream(ASK, watched(spans), stream_mode=mode)) as stream:  # type: ignore[type-var]
        await anext(stream)
    assert spans.says("invoke_agent desk")["agent_factory.outcome"] == "cancelled"


# The current span


def test_spans_that_hooks_layers_models_and_tools_start_are_inside_of_theirs(
    call: Any, spans: Spans
) -> None:
    tracer = spans.provider.get_tracer("app")

    def mark(name: str) -> None:
        tracer.start_span(name).end()

    class Marks(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> None:
            mark("in the hook")

        def around_model(self, request: Any) -> Any:
            mark("before the model")
            response = yield request
            mark("after the model")
            return response

        def around_tool(self, request: Any) -> Any:
            result = yield request
            mark("after the tool")
            return result

    class Marking(ScriptedChatModel):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            mark("in the model")
            return super()._generate(*args, **kwargs)

        async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
            mark("in the model")
            return await super()._agenerate(*args, **kwargs)

    helper = create_agent(ScriptedChatModel(["Hi."]), name="helper")

    def work() -> str:
        """Work."""
        with tracer.start_as_current_span("in the tool"):
            return str(helper.invoke(ASK)["messages"][-1].text)

    async def awork() -> str:
        """Work."""
        with tracer.start_as_current_span("in the tool"):
            return str((await helper.ainvoke(ASK))["messages"][-1].text)

    asked: Any = [{"name": "work", "args": {}}]
    tools = [tool("work")(work)]
    tools[0].coroutine = awork
    agent = create_agent(Marking(steps=[asked, "Done."]), tools, middleware=[Marks()], name="desk")
    call(agent, ASK, watched(spans))
    model = ("chat Marking", ["in the model"])
    around = ("Marks.around_model", ["before the model", model, "after the model"])
    helped = ("invoke_agent helper", [("model", ["chat ScriptedChatModel"])])
    worked = ("execute_tool work", [("in the tool", [helped])])
    turn = [("Marks.before_model", ["in the hook"]), ("model", [around])]
    tool_turn = ("tools", [("Marks.around_tool", [worked, "after the tool"])])
    assert spans.tree() == [("invoke_agent desk", [*turn, tool_turn, *turn])]


def test_a_run_is_inside_of_the_current_span_and_sees_its_baggage(call: Any, spans: Spans) -> None:
    seen = []

    def look() -> str:
        """Look."""
        seen.append(baggage.get_baggage("user"))
        return ""

    agent = create_agent(ScriptedChatModel([[{"name": "look", "args": {}}], "Done."]), [look])
    token = contexts.attach(baggage.set_baggage("user", "ann"))
    with spans.provider.get_tracer("app").start_as_current_span("request"):
        call(agent, ASK, watched(spans))
    contexts.detach(token)
    ((name, _inside),) = spans.tree()
    assert name == "request"
    assert seen == ["ann"]


def test_whoever_reads_a_stream_keeps_the_current_span(spans: Spans) -> None:
    agent = create_agent(adding(), [add], middleware=[Flows()])
    for _ in agent.stream(ASK, watched(spans), stream_mode=["updates", "messages"]):
        assert trace.get_current_span() is trace.INVALID_SPAN


async def test_whoever_reads_an_async_stream_keeps_the_current_span(spans: Spans) -> None:
    agent = create_agent(adding(), [add], middleware=[Flows()])
    async for _ in agent.astream(ASK, watched(spans), stream_mode=["updates", "messages"]):
        assert trace.get_current_span() is trace.INVALID_SPAN


def test_the_current_span_takes_what_a_span_takes(call: Any, spans: Spans) -> None:
    def note() -> str:
        """Take a note."""
        span: Any = trace.get_current_span()
        span.set_attribute("one", 1)
        span.set_attributes({"two": 2})
        span.add_event("noted")
        span.add_link(trace.INVALID_SPAN_CONTEXT, {"why": "test"})
        span.record_exception(ValueError("minor"))
        span.set_status(StatusCode.OK)
        span.update_name(f"{span.name}!")
        span.end()
        assert span.is_recording()
        return ""

    agent = create_agent(ScriptedChatModel([[{"name": "note", "args": {}}], "Done."]), [note])
    call(agent, ASK, watched(spans))
    span = spans.of("execute_tool note!")
    said = dict(span.attributes or {})
    assert (said["one"], said["two"]) == (1, 2)
    assert [event.name for event in span.events] == ["noted", "exception"]
    assert len(span.links) == 1
    assert span.status.status_code is StatusCode.OK


@pytest.mark.parametrize("fused", [True, False])
def test_decisions_are_events_of_the_spans_of_hooks_and_layers(
    call: Any, spans: Spans, fused: Any
) -> None:
    decisions = DecisionSpanEvents()
    agent = create_agent(adding(), [add], middleware=[Flows()], decisions=decisions, fused=fused)
    call(agent, ASK, watched(spans))
    for name in ("Flows.before_model", "Flows.around_model", "Flows.around_tool"):
        for span in (span for span in spans.started if span.name == name):
            hooks = [dict(event.attributes or {})["agent_factory.hook"] for event in span.events]
            assert name.removeprefix("Flows.") in hooks


# From another process


def test_a_run_continues_the_trace_that_its_metadata_names(call: Any, spans: Spans) -> None:
    config = watched(spans, metadata={"traceparent": TRACEPARENT})
    call(create_agent(ScriptedChatModel(["Hi."]), name="desk"), ASK, config)
    outermost = spans.started.pop(0)
    spans.ended.remove(outermost.name)
    assert outermost.parent is not None
    assert outermost.parent.is_remote
    assert f"{outermost.parent.span_id:x}" == "b7ad6b7169203331"
    assert {f"{span.context.trace_id:032x}" for span in [outermost, *spans.started]} == {
        "0af7651916cd43dd8448eb211c80319c"
    }
    for span in spans.started[:1]:
        assert span.parent == outermost.context
        span._parent = None  # `check` knows no spans of others


def test_with_a_current_span_the_trace_in_the_metadata_is_a_link(call: Any, spans: Spans) -> None:
    config = watched(spans, metadata={"traceparent": TRACEPARENT})
    with spans.provider.get_tracer("app").start_as_current_span("worker"):
        call(create_agent(ScriptedChatModel(["Hi."]), name="desk"), ASK, config)
    span = spans.of("invoke_agent desk")
    assert span.parent == spans.of("worker").context
    assert [f"{link.context.span_id:x}" for link in span.links] == ["b7ad6b7169203331"]


@pytest.mark.parametrize("broken", ["", "00-0-0-01", "secret", 5])
def test_a_traceparent_that_cannot_be_read_is_left_out(
    call: Any, spans: Spans, broken: Any
) -> None:
    config = watched(spans, metadata={"traceparent": broken})
    call(create_agent(ScriptedChatModel(["Hi."]), name="desk"), ASK, config)
    with spans.provider.get_tracer("app").start_as_current_span("worker"):
        call(create_agent(ScriptedChatModel(["Hi."]), name="desk"), ASK, config)
    alone, inside = (span for span in spans.started if span.name == "invoke_agent desk")
    assert alone.parent is None
    assert inside.parent == spans.of("worker").context
    assert not [*alone.links, *inside.links]


# Contents


class Secret(AgentState[Any]):
    pin: NotRequired[Annotated[str, PrivateStateAttr]]


class KeepsPin(AgentMiddleware):
    state_schema = Secret

    def before_model(self, state: Any, runtime: Any) -> Any:
        return {"pin": "PIN 4711"}


def mailing() -> Any:
    def read_mail(folder: str, state: Annotated[dict[str, Any], InjectedState]) -> Any:
        """Read mail."""
        found = ToolMessage("two letters", tool_call_id="c-1")
        return Command(update={"messages": [found], "pin": "PIN 4712"})

    asked: Any = [{"name": "read_mail", "args": {"folder": "inbox"}, "id": "c-1"}]
    return create_agent(
        ScriptedChatModel([asked, "You have two."]),
        [read_mail],
        middleware=[KeepsPin(), Flows()],
        system_prompt="Be brief.",
        name="desk",
    )


TEXTS = ("2 + 3?", "inbox", "two letters", "You have two.", "Be brief.")


def test_without_contents_no_text_is_in_the_spans(call: Any, spans: Spans) -> None:
    call(mailing(), ASK, watched(spans))
    recorded = "".join(span.to_json() for span in spans.started)
    assert not [text for text in (*TEXTS, "PIN") if text in recorded]


def test_with_contents_spans_hold_messages_arguments_and_results(call: Any, spans: Spans) -> None:
    call(mailing(), ASK, watched(spans, contents=True))
    second: Any = [dict(span.attributes or {}) for span in spans.started if "chat" in span.name][1]
    assert json.loads(second["gen_ai.system_instructions"]) == [
        {"type": "text", "content": "Be brief."}
    ]
    asked = {"id": "c-1", "name": "read_mail", "arguments": {"folder": "inbox"}}
    read = {"id": "c-1", "response": "two letters"}
    question = {"role": "user", "parts": [{"type": "text", "content": "2 + 3?"}]}
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": "You have two."}]}]
    assert json.loads(second["gen_ai.input.messages"]) == [
        question,
        {"role": "assistant", "parts": [{"type": "tool_call", **asked}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", **read}]},
    ]
    assert json.loads(second["gen_ai.output.messages"]) == answer
    run = spans.says("invoke_agent desk")
    assert json.loads(run["gen_ai.input.messages"]) == [question]
    assert json.loads(run["gen_ai.output.messages"]) == answer
    of_tool = spans.says("execute_tool read_mail")
    assert json.loads(of_tool["gen_ai.tool.call.arguments"]) == {"folder": "inbox"}
    assert json.loads(of_tool["gen_ai.tool.call.result"]) == ["two letters"]


def test_state_is_never_in_the_spans(call: Any, spans: Spans) -> None:
    call(mailing(), ASK, watched(spans, contents=True))
    recorded = "".join(span.to_json() for span in spans.started)
    assert [text for text in TEXTS if text not in recorded] == []
    assert "PIN" not in recorded


def test_with_contents_the_exception_is_an_event(call: Any, spans: Spans) -> None:
    with pytest.raises(Broken):
        call(create_agent(ScriptedChatModel([Broken("why")])), ASK, watched(spans, contents=True))
    (event,) = spans.of("chat ScriptedChatModel").events
    assert (event.attributes or {})["exception.message"] == "why"


@pytest.mark.parametrize("given", [{"messages": 5}, {"messages": [object()]}, {"messages": "Hi"}])
def test_contents_of_any_input_do_not_disturb_the_run(call: Any, spans: Spans, given: Any) -> None:
    outcomes = []
    config: Any
    for config in ({}, watched(spans, contents=True)):
        try:
            done = call(create_agent(ScriptedChatModel(["Hi."])), given, config)
            outcomes.append(done["messages"][-1].text)
        except Exception as error:
            outcomes.append(str(error)[:50])
    assert outcomes[0] == outcomes[1]


def test_a_run_that_pauses_after_its_tools_has_no_answer(call: Any, spans: Spans) -> None:
    config = watched(spans, contents=True)
    options: Any = {"checkpointer": InMemorySaver(), "interrupt_after": ["tools"]}
    call(create_agent(adding(), [add], name="desk", **options), ASK, config)
    assert "gen_ai.output.messages" not in spans.says("invoke_agent desk")


def test_of_images_only_the_type_is_recorded(call: Any, spans: Spans) -> None:
    image = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    asked: Any = {"messages": [("user", [{"type": "text", "text": "What?"}, image])]}
    call(create_agent(ScriptedChatModel(["A cat."])), asked, watched(spans, contents=True))
    said = spans.says("chat ScriptedChatModel")["gen_ai.input.messages"]
    parts = [{"type": "text", "content": "What?"}, {"type": "image_url"}]
    assert json.loads(said) == [{"role": "user", "parts": parts}]


# Metrics


def points(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], Any]]]:
    """The points of each metric: attributes, and the number of values and their sum."""
    data: Any = reader.get_metrics_data()
    (scope,) = data.resource_metrics[0].scope_metrics
    assert scope.scope.name == "agent_factory"
    return {
        metric.name: [(dict(point.attributes), point) for point in metric.data.data_points]
        for metric in scope.metrics
    }


def test_tokens_and_durations_are_measured(call: Any, spans: Spans) -> None:
    reader = InMemoryMetricReader()
    config = watched(spans, meter_provider=MeterProvider([reader], shutdown_on_exit=False))
    agent = create_agent(Named(steps=[CALL, ANSWER]), [add], name="desk")
    call(agent, ASK, config)
    found = points(reader)
    asked = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "azure.ai.openai",
        "gen_ai.request.model": "gpt-9",
    }
    answered = {**asked, "gen_ai.response.model": "gpt-9-may"}
    tokens = [(said, point.sum) for said, point in found["gen_ai.client.token.usage"]]
    assert tokens == [
        ({**answered, "gen_ai.token.type": "input"}, 7),
        ({**answered, "gen_ai.token.type": "output"}, 2),
    ]
    durations = {
        "gen_ai.client.operation.duration": [asked, answered],
        "gen_ai.execute_tool.duration": [{"gen_ai.tool.name": "add", "gen_ai.agent.name": "desk"}],
        "gen_ai.invoke_agent.duration": [{"gen_ai.agent.name": "desk"}],
    }
    for name, expected in durations.items():
        assert [said for said, _ in found[name]] == expected
        assert all(point.count == 1 and 0 < point.sum < 60 for _, point in found[name])
    assert found["gen_ai.invoke_agent.duration"][0][1].explicit_bounds[0] == 0.1


def test_failures_are_measured_by_their_type(call: Any, spans: Spans) -> None:
    reader = InMemoryMetricReader()
    config = watched(spans, meter_provider=MeterProvider([reader], shutdown_on_exit=False))
    with pytest.raises(Broken):
        call(create_agent(Named(steps=[Broken()])), ASK, config)
    for name in ("gen_ai.client.operation.duration", "gen_ai.invoke_agent.duration"):
        ((said, _),) = points(reader)[name]
        assert said["error.type"] == f"{__name__}.Broken"


def test_the_first_chunk_of_a_stream_is_measured(collect: Any, spans: Spans) -> None:
    reader = InMemoryMetricReader()
    config = watched(spans, meter_provider=MeterProvider([reader], shutdown_on_exit=False))
    collect(create_agent(Named(steps=["Hi there."])), ASK, config, stream_mode="messages")
    ((said, point),) = points(reader)["gen_ai.client.operation.time_to_first_chunk"]
    assert said["gen_ai.request.model"] == "gpt-9"
    assert point.count == 1


def test_runs_that_are_not_sampled_are_measured(call: Any) -> None:
    reader = InMemoryMetricReader()
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    handler = Telemetry(provider, MeterProvider([reader], shutdown_on_exit=False), contents=True)
    call(create_agent(adding(), [add], name="desk"), ASK, {"callbacks": [handler]})
    assert points(reader)["gen_ai.invoke_agent.duration"][0][1].count == 1


def test_the_meter_is_that_of_the_library() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    meter(provider).create_counter("shop.orders").add(2)
    assert points(reader)["shop.orders"][0][1].value == 2


async def test_a_task_that_calls_models_again_and_again_keeps_no_ended_runs(spans: Spans) -> None:
    model, handler = ScriptedChatModel(["Hi."] * 5), Telemetry(spans.provider)
    for _ in range(5):
        await model.ainvoke("Hi", {"callbacks": [handler]})
        assert not trace.get_current_span().is_recording()
    kept: list[Any] = [one.span for one in gc.get_objects() if type(one) is Run]
    assert len([span for span in kept if span in spans.started]) == 1
    assert [span.parent for span in spans.started] == [None] * 5


# Where nothing is installed


def test_without_an_sdk_a_run_is_as_it_was(call: Any) -> None:
    agent = create_agent(adding(), [add], middleware=[Flows()])
    assert call(agent, ASK, {"callbacks": [Telemetry()]})["messages"][-1].text == "Five."


def test_without_opentelemetry_the_import_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import agent_factory\n"
        "import agent_factory.telemetry"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "needs opentelemetry-api: pip install 'agent-factory[otel]'" in done.stderr


# Whatever a stack does


class Traced(Trial):
    """A trial whose runs are traced."""

    def __init__(self, spans: Spans, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.handler = Telemetry(spans.provider, contents=True)
        self.handler.raise_error = True
        self.config = {**self.config, "callbacks": [self.handler]}


@pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_spans_form_a_tree_and_every_one_ends(fused: Any, mode: Mode) -> None:
    """With hooks and models that raise, interrupts, jumps, nested agents, and stops."""

    @settings(settings.get_profile("costly"))
    @given(cases(list(ACTS)))
    def check(case: Case) -> None:
        spans, before = Spans(), contexts.get_current()
        trial = Traced(spans, case, fused, mode)
        for doing, watched in (("ask", False), *case.doings):
            trial.do(doing, watched)
            assert not trial.handler._runs
        spans.check()
        assert all(span.parent or span.name.startswith("invoke_agent") for span in spans.started)
        assert contexts.get_current() == before

    check()
