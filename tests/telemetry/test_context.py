"""Telemetry: the current span while a run is under way, and the trace that it belongs to."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from langchain_core.tools import tool
from opentelemetry import baggage, trace
from opentelemetry import context as contexts
from opentelemetry.propagate import inject
from opentelemetry.trace import StatusCode
from spans import ASK, CALL, Flows, Spans, adding, watched

from agent_factory import AgentMiddleware, DecisionSpanEvents, create_agent
from agent_factory.telemetry import Telemetry
from agent_factory.telemetry.runs import Run
from agent_factory.testing import ScriptedChatModel
from samples import add
from tables import each

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


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


async def test_a_span_that_a_layer_starts_after_a_model_call_is_around_what_it_calls(
    spans: Spans,
) -> None:
    tracer, aside = spans.provider.get_tracer("app"), ScriptedChatModel(["No."])

    class Asks(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            response = await handler(request)
            with tracer.start_as_current_span("judge"):
                await aside.ainvoke("Is it good?")
            return response

    agent: Any = create_agent(ScriptedChatModel(["Hi."]), middleware=[Asks()], name="desk")
    await agent.ainvoke(ASK, watched(spans))
    chat = "chat ScriptedChatModel"
    layer = ("Asks.awrap_model_call", [chat, ("judge", [chat])])
    ((_, ((_, (found,)),)),) = spans.tree()
    assert found in (layer, ("Asks.wrap_model_call", layer[1]))


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


async def test_a_reader_of_a_stream_keeps_the_current_span(spans: Spans) -> None:
    agent = create_agent(adding("Five.", CALL, "Five."), [add], middleware=[Flows()])
    for _ in agent.stream(ASK, watched(spans), stream_mode=["updates", "messages"]):
        assert trace.get_current_span() is trace.INVALID_SPAN
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


@pytest.mark.usefixtures("quick_gc")
def test_a_long_run_keeps_no_ended_runs(spans: Spans) -> None:
    ended: list[list[Run]] = []

    def look() -> str:
        """Look."""
        kept = [one for one in gc.get_objects() if type(one) is Run and one.has_ended]
        ended.append([one for one in kept if one.span in [*spans.started]])  # type: ignore[comparison-overlap]
        return ""

    asked: Any = [[{"name": "look", "args": {}}] for _ in range(3)]
    model = ScriptedChatModel([*asked, "Done."])
    create_agent(model, [look], middleware=[Flows()]).invoke(ASK, watched(spans))
    assert ended == [[]] * 3


@pytest.mark.usefixtures("quick_gc")
async def test_a_task_that_calls_models_again_and_again_keeps_no_ended_runs(spans: Spans) -> None:
    model, handler = ScriptedChatModel(["Hi."] * 5), Telemetry(spans.provider)
    for _ in range(5):
        await model.ainvoke("Hi", {"callbacks": [handler]})
        assert not trace.get_current_span().is_recording()
    kept: list[Any] = [one.span for one in gc.get_objects() if type(one) is Run]
    assert len([span for span in kept if span in spans.started]) == 1
    assert [span.parent for span in spans.started] == [None] * 5


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


@each("own", [False, True])
def test_with_a_current_span_another_trace_in_the_metadata_is_a_link(own: bool) -> None:
    spans, metadata = Spans(), {"traceparent": TRACEPARENT}
    with spans.provider.get_tracer("app").start_as_current_span("worker"):
        if own:
            inject(metadata)
        agent = create_agent(ScriptedChatModel(["Hi."]), name="desk")
        agent.invoke(ASK, watched(spans, metadata=metadata))
    span = spans.of("invoke_agent desk")
    assert span.parent == spans.of("worker").context
    linked = [f"{link.context.span_id:x}" for link in span.links]
    assert linked == ([] if own else ["b7ad6b7169203331"])


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
