"""Telemetry: which spans a run makes, what they say, what is measured, and that spans end."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import aclosing, closing
from typing import Annotated, Any, NotRequired
from uuid import UUID

import pytest
from hypothesis import given, settings
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from opentelemetry import context as contexts
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from random_stacks import ACTS, Case, Mode, Trial, cases
from spans import ANSWER, ASK, CALL, Broken, Flows, Named, Spans, adding, watched
from stack_agents import agent_of

from agent_factory import AgentMiddleware, AgentState, PrivateStateAttr, create_agent
from agent_factory.prebuilt import InjectedState, agent_tool
from agent_factory.telemetry import Telemetry, meter
from agent_factory.testing import ScriptedChatModel
from reviews import ask
from samples import add
from tables import each
from waiting import cancel

# The tree

MODEL = ("model", [("Flows.around_model", ["chat ScriptedChatModel"])])


@pytest.mark.parametrize("fused", [True, "turn", False])
def test_a_run_is_a_tree_of_spans(call: Any, spans: Spans, fused: Any) -> None:
    agent = create_agent(adding(), [add], middleware=[Flows()], name="desk", fused=fused)
    call(agent, ASK, watched(spans))
    tools = ("tools", [("Flows.around_tool", ["execute_tool add"])])
    hook = "Flows.before_model"
    assert spans.tree() == [("invoke_agent desk", [hook, MODEL, tools, hook, MODEL])]


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


def test_the_spans_of_a_run_and_of_a_tool_call_name_the_agent_the_thread_and_the_call(
    call: Any, spans: Spans
) -> None:
    config = watched(spans, metadata={"agent_factory_run": UUID(int=5)})
    call(create_agent(adding(), [add], name="desk"), ASK, {**config, "run_name": "nightly"})
    assert spans.started[0].name == "invoke_agent desk"
    known = {"gen_ai.agent.name": "desk", "gen_ai.conversation.id": "t-17"}
    assert spans.says("invoke_agent desk") == {
        **known,
        "gen_ai.operation.name": "invoke_agent",
        "agent_factory.run.id": str(UUID(int=5)),
    }
    assert spans.says("execute_tool add") == {
        **known,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.id": "one",
        "gen_ai.tool.type": "function",
    }


def test_spans_of_hooks_and_layers_name_the_middleware_and_the_method(
    call: Any, spans: Spans
) -> None:
    class Asks(Flows):
        def before_agent(self, state: Any, runtime: Any) -> None:
            RunnableLambda(str).with_config(run_name="not.a_hook").invoke("")

    agent = create_agent(ScriptedChatModel(["Hi."]), middleware=[Asks(name="My.own")])
    call(agent, ASK, watched(spans))
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
    agent = agent_of([asked, "No."], tools=[divide], name="desk", handle_tool_errors=True)
    call(agent, ASK, watched(spans))
    assert spans.says("execute_tool divide")["error.type"] == "ZeroDivisionError"
    assert spans.of("invoke_agent desk").status.status_code is StatusCode.UNSET


def pausing(**options: Any) -> Any:
    asked: Any = [{"name": "ask", "args": {"question": "Well?"}}]
    model = ScriptedChatModel([asked, "Good."])
    return create_agent(model, [ask], name="desk", checkpointer=InMemorySaver(), **options)


@pytest.mark.parametrize("fused", [True, "turn", False])
def test_an_interrupt_is_not_an_error(call: Any, spans: Spans, fused: Any) -> None:
    call(pausing(middleware=[Flows()], fused=fused), ASK, watched(spans))
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
    await cancel(run)
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


@each("mode", ["updates", "messages"])
def test_a_stream_that_is_abandoned_ends_its_spans(mode: Any) -> None:
    spans = Spans()
    agent: Any = create_agent(adding("5", CALL), [add], name="desk")
    options: Any = {"config": watched(spans), "stream_mode": mode}

    async def abandon() -> None:
        async with aclosing(agent.astream(ASK, **options)) as stream:
            await anext(stream)

    with closing(agent.stream(ASK, **options)) as stream:
        next(stream)
    asyncio.run(abandon())
    runs = [span.attributes for span in spans.started if span.name == "invoke_agent desk"]
    assert [(run or {})["agent_factory.outcome"] for run in runs] == ["cancelled"] * 2


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
    recorded = "".join(span.to_json() for span in spans.started)
    assert [text for text in TEXTS if text not in recorded] == []
    assert "PIN" not in recorded, "state is never in the spans"


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


def test_what_nodes_write_is_not_recorded(call: Any, spans: Spans) -> None:
    graph: Any = StateGraph(MessagesState).add_node("b", lambda _: {"messages": [("ai", "Hi.")]})
    call(graph.add_edge(START, "b").compile(name="desk"), ASK, watched(spans, contents=True))
    assert spans.says("b") == {}
    assert "Hi." in spans.says("invoke_agent desk")["gen_ai.output.messages"]


def test_of_images_only_the_type_is_recorded(call: Any, spans: Spans) -> None:
    image = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    asked: Any = {"messages": [("user", [{"type": "text", "text": "What?"}, image])]}
    call(create_agent(ScriptedChatModel(["A cat."])), asked, watched(spans, contents=True))
    said = spans.says("chat ScriptedChatModel")["gen_ai.input.messages"]
    parts = [{"type": "text", "content": "What?"}, {"type": "image_url"}]
    assert json.loads(said) == [{"role": "user", "parts": parts}]


@each(
    "metadata, reasons",
    [
        ({"stopReason": "guardrail_intervened"}, ("guardrail_intervened",)),  # Bedrock
        ({"incomplete_details": {"reason": "max_output_tokens"}}, ("max_output_tokens",)),
        ({"finish_reason": "STOP", "prompt_feedback": {"block_reason": 0}}, ("STOP",)),  # Gemini
        ({"incomplete_details": None, "prompt_feedback": {"block_reason": 0}}, None),
    ],
)
def test_the_reason_of_the_end_is_recorded_for_each_provider(metadata: Any, reasons: Any) -> None:
    spans, answer = Spans(), AIMessage("Half", response_metadata=metadata)
    create_agent(ScriptedChatModel([answer])).invoke(ASK, watched(spans))
    said = spans.says("chat ScriptedChatModel")
    assert said.get("gen_ai.response.finish_reasons") == reasons


@each(
    "form",
    [
        {"content": "", "additional_kwargs": {"refusal": "I cannot."}},
        {"content": [{"type": "refusal", "refusal": "I cannot."}]},
    ],
)
def test_the_words_of_a_refusal_are_recorded_once(form: Any) -> None:
    spans = Spans()
    agent = create_agent(ScriptedChatModel([AIMessage(**form)]))
    agent.invoke(ASK, watched(spans, contents=True))
    ((answer,),) = [json.loads(spans.says("chat ScriptedChatModel")["gen_ai.output.messages"])]
    assert answer["parts"] == [{"type": "refusal", "content": "I cannot."}]


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


def measured(spans: Spans) -> tuple[InMemoryMetricReader, Any]:
    """A reader of metrics, and a config whose runs are measured."""
    reader = InMemoryMetricReader()
    return reader, watched(spans, meter_provider=MeterProvider([reader], shutdown_on_exit=False))


def test_tokens_and_durations_are_measured(call: Any, spans: Spans) -> None:
    reader, config = measured(spans)
    call(create_agent(Named(steps=[CALL, ANSWER]), [add], name="desk"), ASK, config)
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
    (exemplar,) = found["gen_ai.execute_tool.duration"][0][1].exemplars
    assert exemplar.span_id == spans.of("execute_tool add").context.span_id
    assert found["gen_ai.invoke_agent.duration"][0][1].explicit_bounds[0] == 0.1


def test_failures_are_measured_by_their_type(call: Any, spans: Spans) -> None:
    reader, config = measured(spans)
    with pytest.raises(Broken):
        call(create_agent(Named(steps=[Broken()])), ASK, config)
    for name in ("gen_ai.client.operation.duration", "gen_ai.invoke_agent.duration"):
        ((said, _),) = points(reader)[name]
        assert said["error.type"] == "spans.Broken"


def test_the_first_chunk_of_a_stream_is_measured(collect: Any, spans: Spans) -> None:
    reader, config = measured(spans)
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
