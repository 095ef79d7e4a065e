"""Telemetry: which spans a run makes, what they say, and that every span ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import aclosing, closing
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from langchain_core.messages import AIMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from opentelemetry import context as contexts
from opentelemetry.trace import SpanKind, StatusCode
from random_stacks import ACTS, Case, Mode, Trial, cases
from spans import ANSWER, ASK, Broken, Flows, Named, Spans, adding, watched

from agent_factory import AgentMiddleware, Invoke, create_agent
from agent_factory.prebuilt import agent_tool
from agent_factory.telemetry import Telemetry
from agent_factory.testing import ScriptedChatModel
from reviews import ask
from samples import add

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
    agents = [create_agent(adding(), [add], name=f"desk{number}") for number in range(4)]
    await asyncio.gather(*(agent.ainvoke(ASK, {"callbacks": [handler]}) for agent in agents))
    inside = [("model", ["chat ScriptedChatModel"])]
    inside = [*inside, ("tools", ["execute_tool add"]), *inside]
    assert spans.tree() == [(f"invoke_agent desk{number}", inside) for number in range(4)]


def test_two_handlers_make_a_tree_each(call: Any, spans: Spans) -> None:
    other = Spans()
    config = {"callbacks": [Telemetry(spans.provider), Telemetry(other.provider)]}
    call(create_agent(ScriptedChatModel(["Hi."]), middleware=[Flows()]), ASK, config)
    expected = ["invoke_agent LangGraph", "Flows.before_model", "model", "Flows.around_model"]
    for one in (spans, other):
        assert [span.name for span in one.started] == [*expected, "chat ScriptedChatModel"]


# What spans say


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


def test_a_model_may_be_traced_without_an_agent(call: Any, spans: Spans) -> None:
    call(ScriptedChatModel(["Hi."]), "Hello", {"callbacks": [Telemetry(spans.provider)]})
    assert spans.says("chat ScriptedChatModel") == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scriptedchatmodel",
    }


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
    config = watched(spans, metadata={"agent_factory_run": UUID(int=5)})
    call(create_agent(ScriptedChatModel(["Hi."]), name="desk"), ASK, config)
    assert spans.says("invoke_agent desk") == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "desk",
        "gen_ai.conversation.id": "t-17",
        "agent_factory.run.id": str(UUID(int=5)),
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


def test_an_error_marks_every_span_that_it_passes(call: Any, spans: Spans) -> None:
    agent = create_agent(ScriptedChatModel([Broken("a secret")]), middleware=[Flows()])
    with pytest.raises(Broken):
        call(agent, ASK, watched(spans))
    passed = [span for span in spans.started if span.name != "Flows.before_model"]
    assert len(passed) == 4
    for span in passed:
        assert span.status.status_code is StatusCode.ERROR
        assert dict(span.attributes or {})["error.type"] == "spans.Broken"
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
        await asyncio.Event().wait()
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
    limits: list[asyncio.Timeout] = []

    class Slow(ScriptedChatModel):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
            limits[0].reschedule(0)  # the limit is over once the model works
            await asyncio.Event().wait()

    class Patience(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            try:
                async with asyncio.timeout(None) as limit:
                    limits.append(limit)
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
    assert "needs the extra `otel`" in done.stderr


# Whatever a stack does


class Traced(Trial):
    """A trial whose runs are traced."""

    def __init__(self, spans: Spans, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.handler = Telemetry(spans.provider, contents=True)
        self.handler.raise_error = True
        self.config = {**self.config, "callbacks": [self.handler]}


@pytest.mark.long
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
        for doing, is_watched in (("ask", False), *case.doings):
            trial.do(doing, is_watched)
            assert not trial.handler._runs
        spans.check()
        assert all(span.parent or span.name.startswith("invoke_agent") for span in spans.started)
        assert contexts.get_current() == before

    check()
