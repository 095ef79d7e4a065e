"""The decision log: where decisions go, and that no word of a run goes with them unasked."""

from __future__ import annotations

import gc
import json
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NotRequired

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Decision,
    DecisionFile,
    DecisionLog,
    DecisionSpanEvents,
    ExtendedModelResponse,
    Jump,
    Outcome,
    SpecError,
    create_agent,
    hook_config,
    set_reason,
    topology_of,
    with_decisions,
)
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, Answer, add_tool
from tables import each

ASK: Any = {"messages": [("user", "2 + 3?")]}
CALL: Any = [{"name": "add", "args": {"a": 2, "b": 3}, "id": "1"}]
ONE = Decision("run", "one", 1, "A", "before_model", Outcome.PASSED)


def failing() -> str:
    """Fail."""
    raise OSError("no")


class Idle(AgentMiddleware):
    def before_model(self, state: Any, runtime: Any) -> None:
        set_reason("nothing to do")

    def around_tool(self, request: Any) -> Any:
        return (yield request)


def agent(decisions: Any, **options: Any) -> Any:
    model = ScriptedChatModel([CALL, "Five."])
    return create_agent(model, [add_tool], middleware=[Idle()], decisions=decisions, **options)


RUN = ["before_model", "model", "around_tool", "tools", "before_model", "model"]
"""What is recorded of a run of that agent, by hooks and nodes."""


def raises(decision: Decision) -> None:
    raise OSError("disk full")


def asks(decision: Decision) -> None:
    interrupt("May I log?")


@each("broken", [raises, asks])
def test_a_failing_sink_warns_once_and_the_run_continues(call: Any, broken: Any) -> None:
    log: list[Decision] = []
    built = agent([broken, log.append], checkpointer=InMemorySaver())
    with pytest.warns(RuntimeWarning, match="sink of the decision log raised") as caught:
        done = call(built, ASK, {"configurable": {"thread_id": "one"}})
    assert len(caught) == 1
    assert done["messages"][-1].text == "Five."
    assert [decision.hook for decision in log] == RUN


@each("decisions", [True, DecisionLog()])
def test_decisions_are_custom_stream_events(collect: Any, decisions: Any) -> None:
    events = collect(agent(decisions), ASK, stream_mode="custom")
    assert [event["decision"]["hook"] for event in events] == RUN
    assert json.loads(json.dumps(events)) == events


def test_decisions_come_between_the_other_modes_and_in_no_other(collect: Any) -> None:
    chunks = collect(agent(True), ASK, stream_mode=["updates", "custom"])
    order = [
        part["decision"]["hook"] if mode == "custom" else next(iter(part)) for mode, part in chunks
    ]
    assert order[:4] == ["before_model", "Idle.before_model", "model", "model"]
    assert [hook for hook in order if hook in RUN and hook != "tools"].count("around_tool") == 1
    alone = collect(agent(True), ASK, stream_mode="updates")
    assert [next(iter(chunk)) for chunk in alone][:2] == ["Idle.before_model", "model"]


def test_a_file_has_a_canonical_line_for_each_decision(call: Any, tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    log: list[Decision] = []
    with DecisionFile(path) as file:
        call(agent([file, log.append]), ASK)
        lines = path.read_text().splitlines()  # flushed, though the file is open
    assert [json.loads(line) for line in lines] == [decision.to_data() for decision in log]
    assert lines == [
        json.dumps(json.loads(line), sort_keys=True, separators=(",", ":")) for line in lines
    ]


def test_a_file_is_appended_to_and_takes_any_text(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    odd = Decision("r", None, 1, "A", "h", Outcome.PASSED, reason="ö\n\u2028\ud800")
    for decision in (ONE, odd):
        with DecisionFile(str(path)) as file:
            file(decision)
    first, second = path.read_text().splitlines()
    assert json.loads(first)["run"] == "run"
    assert json.loads(second)["reason"] == odd.reason


def test_a_file_is_shared_by_threads(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    with DecisionFile(path) as file, ThreadPoolExecutor(8) as pool:
        list(pool.map(file, [ONE] * 400))
    assert [json.loads(line)["run"] for line in path.read_text().splitlines()] == ["run"] * 400


@pytest.mark.usefixtures("quick_gc")
def test_a_file_that_nobody_closes_is_closed_without_a_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DecisionFile(tmp_path / "decisions.jsonl")(ONE)
        gc.collect()


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "where.jsonl", 3.5):
        with pytest.raises(SpecError, match="path: cannot be opened for writing"):
            DecisionFile(path)  # type: ignore[arg-type]  # bad on purpose


def test_a_decision_after_the_end_is_lost_with_a_warning(call: Any, tmp_path: Path) -> None:
    with DecisionFile(tmp_path / "decisions.jsonl") as file:
        built = agent(file)
    with pytest.warns(RuntimeWarning, match="closed file"):
        assert call(built, ASK)["messages"][-1].text == "Five."


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A tracer, and what it has exported."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("test"), exporter
    provider.shutdown()


def test_decisions_are_events_of_the_current_span(call: Any, exported: Any) -> None:
    tracer, exporter = exported
    built = agent(DecisionSpanEvents(), name="adder", checkpointer=InMemorySaver())
    with tracer.start_as_current_span("request"):
        call(built, ASK, {"configurable": {"thread_id": "one"}})
    (span,) = exporter.get_finished_spans()
    assert {event.name for event in span.events} == {"agent_factory.decision"}
    found = [dict(event.attributes) for event in span.events]
    assert [attributes["agent_factory.hook"] for attributes in found] == RUN
    tool = next(a for a in found if a["agent_factory.hook"] == "around_tool")
    assert tool.pop("agent_factory.seconds") >= 0
    assert tool.pop("agent_factory.run")
    assert tool == {
        "gen_ai.agent.name": "adder",
        "gen_ai.conversation.id": "one",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.id": "1",
        "agent_factory.step": 3,
        "agent_factory.middleware": "Idle",
        "agent_factory.hook": "around_tool",
        "agent_factory.outcome": "passed",
    }
    assert found[0]["agent_factory.reason"] == "nothing to do"


def test_an_exception_has_its_conventional_name_too(call: Any, exported: Any) -> None:
    tracer, exporter = exported
    model = ScriptedChatModel([[{"name": "failing", "args": {}}], "Sorry."])
    built = create_agent(model, [failing], decisions=DecisionSpanEvents(), handle_tool_errors=True)
    with tracer.start_as_current_span("request"):
        call(built, ASK)
    (span,) = exporter.get_finished_spans()
    errors = [event.attributes.get("error.type") for event in span.events]
    assert [error for error in errors if error] == ["OSError"]


def test_the_names_are_those_of_the_conventions_that_are_installed() -> None:
    attributes = pytest.importorskip(
        "opentelemetry.semconv._incubating.attributes.gen_ai_attributes",
        reason="this version of the conventions keeps them elsewhere",
    )
    from agent_factory.decisions.sinks import _CONVENTIONAL

    known = {value for value in vars(attributes).values() if isinstance(value, str)}
    assert set(_CONVENTIONAL.values()) <= known


def test_without_a_span_nothing_happens(call: Any) -> None:
    assert not trace.get_current_span().is_recording()
    assert call(agent(DecisionSpanEvents()), ASK)["messages"][-1].text == "Five."


def test_without_opentelemetry_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(ImportError, match="the extra `otel`"):
        DecisionSpanEvents()


def test_a_copy_keeps_the_sinks_and_the_settings_of_an_agent_and_records_alone() -> None:
    kept: list[Decision] = []
    added: list[Decision] = []
    options: dict[str, Any] = {"name": "desk", "checkpointer": InMemorySaver()}
    made = agent(kept.append, interrupt_before=["tools"], **options)
    copy = with_decisions(made, [added.append, kept.append])
    copy.invoke(ASK, {"configurable": {"thread_id": "1"}})
    assert [one.hook for one in kept] == [one.hook for one in added] == RUN[:2]
    made.invoke(ASK, {"configurable": {"thread_id": "2"}})
    assert [one.hook for one in kept] == RUN[:2] * 2
    assert [one.hook for one in added] == RUN[:2]
    assert copy.get_state({"configurable": {"thread_id": "1"}}).next == ("tools",)
    for name in ("name", "config", "checkpointer"):
        assert getattr(copy, name) == getattr(made, name)
    assert topology_of(copy) == topology_of(made)
    assert type(copy) is type(made)


def test_a_route_that_is_taken_outside_of_a_run_goes_to_no_stream() -> None:
    made = agent(True, checkpointer=InMemorySaver())
    made.invoke(ASK, THREAD)
    made.update_state(THREAD, {"messages": [("ai", "Six.")]}, "model")  # warnings are errors
    assert made.get_state(THREAD).values["messages"][-1].text == "Six."


SECRET = "S3CR3T"
SECRETS: Any = {
    "messages": [
        AIMessage(SECRET, tool_calls=[{"name": "add", "args": {"a": SECRET}, "id": "0"}]),
        HumanMessage(SECRET),
    ]
}


class Kept(AgentState):
    kept: NotRequired[Any]


class Busy(AgentMiddleware):
    """Goes every way a hook and a layer can go, with a secret in its hands."""

    state_schema = Kept

    def before_agent(self, state: Any, runtime: Any) -> Any:
        return {"kept": SECRET, "messages": [HumanMessage(SECRET)], "reason": "author's words"}

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> Any:
        if any(message.text == f"{SECRET} once" for message in state["messages"][-2:]):
            return Jump("model", reason="once more", messages=[HumanMessage(SECRET)], kept=SECRET)
        return Command(update={"kept": [SECRET]})

    def after_agent(self, state: Any, runtime: Any) -> Any:
        interrupt(SECRET)

    def around_model(self, request: Any) -> Any:
        try:
            response = yield request.override(system_prompt=SECRET, messages=request.messages[-1:])
        except OSError:
            response = yield request
        return ExtendedModelResponse(response, Command(update={"kept": SECRET}))

    def around_tool(self, request: Any) -> Any:
        call = {**request.tool_call, "args": {**request.tool_call["args"], "more": SECRET}}
        response = yield request.override(tool_call=call)
        if request.tool_call["name"] == "add":
            return ToolMessage(SECRET, tool_call_id=request.tool_call["id"])
        return response


def add(a: str, more: str = "") -> str:
    """Add."""
    return SECRET


def fail(a: str, more: str = "") -> str:
    """Fail."""
    raise ValueError(SECRET)


def calls(*names: str) -> list[Any]:
    return [{"name": name, "args": {"a": SECRET}} for name in names]


STEPS: list[Any] = [
    OSError(SECRET),
    calls("add", "fail", "unknown"),
    lambda messages: AIMessage(
        SECRET, invalid_tool_calls=[{"name": "add", "args": SECRET, "id": "9", "error": SECRET}]
    ),
    f"{SECRET} once",
    [{"name": "Answer", "args": {"number": SECRET}}],
    f"in prose: {SECRET}",
    [{"name": "Answer", "args": {"number": 5}}],
]


def run(call: Any, decisions: Any) -> None:
    agent = create_agent(
        ScriptedChatModel(STEPS),
        [add, fail],
        system_prompt=SECRET,
        middleware=[Busy()],
        response_format=Answer,
        handle_tool_errors=True,
        checkpointer=InMemorySaver(),
        decisions=decisions,
        ignore=["AF201"],
    )
    call(agent, SECRETS, THREAD)
    call(agent, Command(resume=SECRET), THREAD)


def test_no_text_of_prompts_answers_arguments_errors_or_state_is_recorded(call: Any) -> None:
    log: list[Decision] = []
    run(call, log.append)
    verdicts = {str(decision.outcome) for decision in log}
    assert verdicts >= {
        *("wrote", "jumped", "changed request", "repeated", "routed", "reported error"),
        *("repaired", "explained", "interrupted"),
    }
    assert {"author's words", "once more"} <= {decision.reason for decision in log}
    for decision in log:
        assert SECRET not in f"{decision!r} {decision} {json.dumps(decision.to_data())}"
        assert "contents" not in decision.to_data()


def test_contents_are_recorded_on_request(call: Any) -> None:
    log: list[Decision] = []
    run(call, DecisionLog(log.append, contents=True))
    wrote = next(decision for decision in log if decision.hook == "before_agent")
    assert wrote.contents["kept"] == SECRET
    assert SECRET in json.dumps(wrote.to_data())
    raised = [d.contents for d in log if d.outcome == "interrupted"]
    assert SECRET in repr(raised)


@each("update", [{SECRET: 1}, {"jump_to": SECRET}, SECRET, {"jump_to": [SECRET]}])
def test_a_refused_result_is_recorded_by_its_kind_only(call: Any, update: Any) -> None:
    class Wrong(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            return update

    log: list[Decision] = []
    agent = create_agent(ScriptedChatModel([]), middleware=[Wrong()], decisions=log.append)
    with pytest.raises(Exception, match="Wrong"):
        call(agent, SECRETS)
    assert SECRET not in repr(log)
    assert [decision.outcome for decision in log] == ["raised"]
