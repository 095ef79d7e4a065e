"""Folders of recorded runs, replayed with an agent as it is now: which pass, which change."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from html import unescape
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from agent_factory import AgentMiddleware, create_agent, hook_config, review, tools_of, with_model
from agent_factory import middleware as m
from agent_factory.errors import ArgumentError, ReviewError
from agent_factory.factory.agent import model_of
from agent_factory.prebuilt import ToolRuntime, create_react_agent
from agent_factory.testing import (
    PatternError,
    ReplayUsage,
    ReplayVerdict,
    Reply,
    ScriptedChatModel,
    areplay_folder,
    areplay_recording,
    assert_trajectory,
    each_recording,
    record,
    record_agent,
    recordings_in,
    replay,
    replay_folder,
    replay_recording,
    strategies,
)
from samples import THREAD, edit
from tables import each

ASK: Any = {"messages": [("user", "My lamp A1 is broken.")]}

ran: list[str] = []
"""The tools that really ran."""


def find_order(order: str) -> str:
    """Find an order."""
    ran.append("find_order")
    return f"{order} was delivered on Monday."


def refund(order: str, euros: int) -> str:
    """Pay money back."""
    ran.append("refund")
    return f"{euros} euros were paid back."


TOOLS: list[Any] = [find_order, refund]


def build(model: Any, *stack: Any, **options: Any) -> Any:
    return create_agent(model, TOOLS, middleware=stack, **options)


def steps() -> list[Any]:
    return [
        Reply(calls=[{"name": "find_order", "args": {"order": "A1"}}], usage=(100, 10)),
        Reply(calls=[{"name": "refund", "args": {"order": "A1", "euros": 90}}], usage=(200, 10)),
        Reply("You get 90 euros back.", usage=(300, 20)),
    ]


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@pytest.fixture
def replay_one(sync_or_async: Any) -> Any:
    """Replays one recording, sync or async."""
    return partial(sync_or_async.call, replay_recording, areplay_recording)


def recorded(path: Path, script: list[Any] | None = None, *stack: Any, **options: Any) -> Path:
    """Record a run of the agent."""
    build(record(ScriptedChatModel(script or steps()), path, **options), *stack).invoke(ASK)
    ran.clear()
    return path


class NoRefunds(AgentMiddleware):
    """Ends the run before a refund."""

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        names = [call["name"] for call in state["messages"][-1].tool_calls]
        return {"jump_to": "end"} if "refund" in names else None


class Half(AgentMiddleware):
    """Pays half of a refund."""

    def around_tool(self, request: Any) -> Any:
        call = request.tool_call
        if call["name"] == "refund":
            args = {**call["args"], "euros": call["args"]["euros"] // 2}
            request = request.override(tool_call={**call, "args": args})
        return (yield request)


def test_the_same_agent_passes_and_runs_no_tool(tmp_path: Path, replay_one: Any) -> None:
    done = replay_one(build, recorded(tmp_path / "a.jsonl"))
    assert (done.verdict, done.reason) == (ReplayVerdict.PASSED, "")
    assert (done.request, done.step, done.tool) == (None, None, "")
    assert done.recorded == done.replayed == ReplayUsage(3, 2, 600, 40)
    assert [step.name for step in done.trajectory.steps if step.kind == "tool"] == [
        "find_order",
        "refund",
    ]
    assert ran == []
    done.assert_passed()


def test_an_agent_that_is_built_gets_the_model_of_the_recording(
    tmp_path: Path, replay_one: Any
) -> None:
    class Remembers(AgentMiddleware):
        def before_agent(self, state: Any, runtime: Any) -> None:
            runtime.store.put(("lamps",), "A1", {"is": "broken"})
            seen.append(runtime.context)

    seen: list[Any] = []
    saver, store = InMemorySaver(), InMemoryStore()
    own = build(ScriptedChatModel([]), Remembers(), checkpointer=saver, store=store)
    options: Any = {"context": {"user": "Ada"}, "config": {"tags": ["x"]}}
    assert replay_one(own, recorded(tmp_path / "a.jsonl"), **options).verdict == "passed"
    assert seen == [{"user": "Ada"}]
    assert list(saver.list(None)) == []
    assert store.search(("lamps",)) == []


def test_another_request_is_changed_and_the_run_goes_on(tmp_path: Path, replay_one: Any) -> None:
    path = recorded(tmp_path / "a.jsonl")
    done = replay_one(lambda model: build(model, system_prompt="Be kind. " * 50), path)
    assert done.verdict is ReplayVerdict.CHANGED
    assert done.request == 1
    assert done.reason.startswith("request 1 differs: messages[0].content: ")
    assert done.step is None
    assert done.replayed.model_calls == 3
    assert done.replayed.tool_calls == 2
    # The requests are longer, and so are the estimated tokens.
    assert done.replayed.input_tokens > 2 * done.recorded.input_tokens
    assert done.replayed.output_tokens == done.recorded.output_tokens


def test_a_call_that_is_not_made_any_more_is_named(tmp_path: Path, replay_one: Any) -> None:
    done = replay_one(lambda model: build(model, NoRefunds()), recorded(tmp_path / "a.jsonl"))
    assert done.verdict is ReplayVerdict.CHANGED
    assert (done.request, done.step, done.tool) == (None, 5, "refund")
    assert done.reason == (
        "1 of 3 recorded answers were not requested. Step 5: refund(order='A1', euros=90) -> ok "
        "was recorded, and now refund(order='A1', euros=90) -> pending."
    )
    assert (done.replayed.model_calls, done.replayed.tool_calls) == (2, 1)
    with pytest.raises(AssertionError, match="a: changed") as caught:
        done.assert_passed()
    assert "> 5  refund(order='A1', euros=90) -> pending" in str(caught.value)
    done.assert_passed(allow_changes=True)


def test_a_call_whose_result_was_not_recorded_ends_the_run(tmp_path: Path, replay_one: Any) -> None:
    stack: list[Any] = [m.ToolErrorMiddleware(), m.ModelRetryMiddleware(), Half()]
    done = replay_one(lambda model: build(model, *stack), recorded(tmp_path / "a.jsonl"))
    assert done.verdict is ReplayVerdict.CHANGED
    assert done.reason.startswith("refund(order='A1', euros=45) was not recorded.")
    assert done.step == 5
    assert ran == []


def test_tools_run_if_they_are_named_and_exist(tmp_path: Path, replay_one: Any) -> None:
    path = recorded(tmp_path / "a.jsonl")
    assert replay_one(build, path, run_tools=["find_order"]).verdict == "passed"
    assert ran == ["find_order"]
    ran.clear()
    done = replay_one(lambda model: build(model, Half()), path, run_tools=True)
    assert ran == ["find_order", "refund"]
    assert done.verdict is ReplayVerdict.CHANGED
    assert done.request == 3
    assert "45 euros" in done.reason

    with pytest.raises(ArgumentError, match=r"no tool 'refnud'. Did you mean refund\?"):
        replay_one(build, path, run_tools=["refnud"])
    with pytest.raises(ArgumentError, match="It has find_order, refund"):
        replay_one(build, path, run_tools=["x"])


def test_tools_of_middleware_run(tmp_path: Path, replay_one: Any) -> None:
    kept: list[Any] = []

    class Looks(AgentMiddleware):
        def after_agent(self, state: Any, runtime: Any) -> None:
            kept.append(state["todos"])

    todos = {"todos": [{"content": "Refund", "status": "pending"}]}
    script = [[{"name": "write_todos", "args": todos}], "Done."]
    path = recorded(tmp_path / "a.jsonl", script, m.TodoListMiddleware())
    done = replay_one(lambda model: build(model, m.TodoListMiddleware(), Looks()), path)
    assert done.verdict is ReplayVerdict.PASSED, done.reason
    assert kept == [todos["todos"]]


def test_one_more_request_ends_the_run_and_reaches_no_other_model(
    tmp_path: Path, replay_one: Any
) -> None:
    class Again(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            yield request
            return (yield request)

    real = ScriptedChatModel(["I am real."])
    stack: list[Any] = [m.ModelFallbackMiddleware(real), m.ModelRetryMiddleware(), Again()]
    done = replay_one(lambda model: build(model, *stack), recorded(tmp_path / "a.jsonl"))
    assert done.verdict is ReplayVerdict.CHANGED
    assert "request 2 differs" in done.reason
    assert real.requests == []
    done = replay_one(lambda m: build(m, *stack), recorded(tmp_path / "b.jsonl", ["Hello."]))
    assert done.reason.startswith("all answers were given, and one more request came.")
    assert real.requests == []


def test_a_summary_is_replayed_as_it_was_recorded_and_gets_no_answer_of_a_turn(
    tmp_path: Path, replay_one: Any
) -> None:
    def summarizing(model: Any, trigger: int = 5) -> Any:
        limits: Any = {"trigger": ("messages", trigger), "keep": ("messages", 2)}
        return build(model, m.SummarizationMiddleware(model, **limits))

    script = [*steps()[:2], "He has a lamp.", "You get 90 euros back."]
    path = tmp_path / "a.jsonl"
    record_agent(summarizing, path, model=ScriptedChatModel(script)).invoke(ASK)
    done = replay_one(summarizing, path)
    assert done.verdict is ReplayVerdict.PASSED, done.reason
    assert done.replayed.model_calls == 4
    done = replay_one(lambda model: summarizing(model, 3), recorded(tmp_path / "b.jsonl"))
    assert (done.verdict, done.request) == (ReplayVerdict.CHANGED, 2)
    assert done.replayed.model_calls == 1


def test_a_recorded_agent_is_built_or_is_built_with_a_model(tmp_path: Path) -> None:
    path, model = tmp_path / "a.jsonl", ScriptedChatModel([])
    with pytest.raises(ArgumentError, match="model: is required if `agent` is a function"):
        record_agent(build, path)
    with pytest.raises(ArgumentError, match="model: must be left out"):
        record_agent(build(model), path, model=model)
    with pytest.raises(ArgumentError, match="must be an agent built by create_agent"):
        record_agent(lambda model: model, path, model=model)
    with pytest.raises(ArgumentError, match="must be an agent built by create_agent"):
        record_agent(5, path)  # type: ignore[arg-type]


def test_whether_the_last_calls_ran_is_not_known_of_a_recording(
    tmp_path: Path, replay_one: Any
) -> None:
    def direct(model: Any, **options: Any) -> Any:
        return create_agent(model, [tool(return_direct=True)(refund)], **options)

    path = tmp_path / "a.jsonl"
    direct(record(ScriptedChatModel(steps()[1:2]), path)).invoke(ASK)
    assert replay_one(direct, path).verdict == "passed"
    done = replay_one(lambda model: direct(model, system_prompt="Be kind."), path)
    assert (done.verdict, done.request, done.step) == (ReplayVerdict.CHANGED, 1, None)
    assert done.trajectory.steps[-1].text == "(not recorded)"


# Several runs, reviews, inputs


def reviewing(model: Any, mode: Any = "batched") -> Any:
    asks = m.HumanInTheLoopMiddleware({"refund": True}, interrupt_mode=mode)
    return build(model, asks, checkpointer=InMemorySaver())


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize(
    ("decision", "ran"),
    [
        ({"type": "approve"}, "refund(order='A1', euros=90) -> ok"),
        ({"type": "reject", "message": "No."}, "refund(order='A1', euros=90) -> error"),
        (edit("refund", order="A1", euros=45), "refund(order='A1', euros=45) -> ok"),
    ],
    ids=["approve", "reject", "edit"],
)
def test_a_decision_is_recorded_as_it_is_made_with_the_call_that_ran(
    tmp_path: Path, replay_one: Any, decision: Any, ran: str, mode: Any
) -> None:
    def asking(model: Any) -> Any:
        return reviewing(model, mode)

    path = tmp_path / "a.jsonl"
    script = ScriptedChatModel([*steps(), "Bye."])
    agent = record_agent(asking(script), path, expect="find_order, user{2}")
    agent.invoke(ASK, THREAD)
    with pytest.raises(ReviewError):
        agent.invoke(Command(resume={"decisions": []}), THREAD)
    review.decide(agent, THREAD, {review.pending(agent, THREAD).calls[0].id: decision})
    agent.invoke({"messages": [("user", "Thanks.")]}, THREAD)
    done = replay_one(asking, path)
    assert (done.verdict, done.reason) == (ReplayVerdict.PASSED, "")
    assert done.trajectory.steps[-1].text == "Bye."
    assert done.recorded == done.replayed
    assert [step for step in map(str, done.trajectory.steps) if step.startswith(ran)]
    # The pattern does not ask for the review, and the run has changed without it.
    without = replay_one(build, path)
    assert without.verdict is (
        ReplayVerdict.CHANGED if decision["type"] == "approve" else ReplayVerdict.FAILED
    )
    assert f"{GONE} any more." in without.reason


GONE = "Nobody is asked about refund(order='A1', euros=90)"


def test_a_run_that_waits_passes_while_it_waits(tmp_path: Path, replay_one: Any) -> None:
    path = tmp_path / "a.jsonl"
    agent = record_agent(reviewing(ScriptedChatModel(steps())), path, expect="review")
    agent.invoke(ASK, THREAD)
    done = replay_one(reviewing, path)
    assert (done.verdict, done.reason) == (ReplayVerdict.PASSED, "")
    assert done.recorded == done.replayed == ReplayUsage(2, 1, 300, 20)
    done = replay_one(build, path)
    assert done.verdict is ReplayVerdict.FAILED
    assert f"{GONE} any more. refund(order='A1', euros=90) was not recorded." in done.reason


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_calls_of_one_turn_keep_their_decisions(tmp_path: Path, replay_one: Any, mode: Any) -> None:
    def asking(*tools: str) -> Any:
        def build_reviewed(model: Any) -> Any:
            asks = m.HumanInTheLoopMiddleware(dict.fromkeys(tools, True), interrupt_mode=mode)
            return build(model, asks, checkpointer=InMemorySaver())

        return build_reviewed

    script = [[*steps()[0].calls, *steps()[1].calls], "Done."]
    path = tmp_path / "a.jsonl"
    both = asking("refund", "find_order")
    agent: Any = record_agent(both(ScriptedChatModel(script)), path)
    agent.invoke(ASK, THREAD)
    order, money = review.pending(agent, THREAD).calls
    review.decide(agent, THREAD, {order.id: {"type": "approve"}, money.id: {"type": "reject"}})
    assert replay_one(both, path).verdict == "passed"
    done = replay_one(asking("refund"), path)
    assert done.verdict is ReplayVerdict.CHANGED
    # The other call still has its decision.
    assert done.reason == "Nobody is asked about find_order(order='A1') any more."
    agent = record_agent(asking("refund")(ScriptedChatModel(script)), path)
    agent.invoke(ASK, THREAD)
    review.reject(agent, THREAD)
    done = replay_one(both, path)
    assert done.reason.startswith(
        "A person is asked about find_order(order='A1') now, and was not before."
    )


def test_a_recording_without_what_was_asked_says_what_it_knows(
    tmp_path: Path, replay_one: Any
) -> None:
    resume: Any = Command(resume={"decisions": [{"type": "approve"}]})
    for name, inputs in {"with": [ASK, resume], "two": [ASK, resume.resume], "without": []}.items():
        if name == "two":
            inputs[1] = Command(resume={"decisions": [{"type": "approve"}] * 2})
        model = record(ScriptedChatModel(steps()), tmp_path / f"{name}.jsonl", inputs=inputs)
        agent = reviewing(model)
        agent.invoke(ASK, THREAD)
        agent.invoke(resume, THREAD)
    assert replay_one(reviewing, tmp_path / "with.jsonl").verdict == "passed"
    assert replay_one(build, tmp_path / "with.jsonl").reason == (
        "Nobody is asked any more: nothing waits for the answer "
        '{"decisions": [{"type": "approve"}]}.'
    )
    assert replay_one(reviewing, tmp_path / "two.jsonl").reason.startswith(
        "2 calls were decided about, and 1 wait now: refund(order='A1', euros=90)."
    )
    done = replay_one(reviewing, tmp_path / "without.jsonl")
    assert done.verdict is ReplayVerdict.CHANGED
    assert "who is asked about refund(order='A1', euros=90)" in done.reason
    assert 'Command(resume={"decisions": [{"type": "approve"}]})' in done.reason


def test_what_a_tool_asks_is_recorded_with_its_answer(tmp_path: Path, replay_one: Any) -> None:
    def refund(order: str, euros: int) -> str:
        """Pay money back."""
        return f"{interrupt('How much?')} euros were paid back."

    def asking(model: Any) -> Any:
        return create_agent(model, [find_order, refund], checkpointer=InMemorySaver())

    path = tmp_path / "a.jsonl"
    agent = record_agent(asking(ScriptedChatModel(steps())), path)
    agent.invoke(ASK, THREAD)
    agent.invoke(Command(resume=45), THREAD)
    assert replay_recording(asking, path, run_tools=["refund"]).verdict == "passed"
    # The result was recorded, so the tool does not ask.
    done = replay_one(asking, path)
    assert done.reason == "Nobody is asked about interrupt(value='How much?') any more."


def test_inputs_are_what_the_agent_got_and_not_what_its_model_saw(
    tmp_path: Path, replay_one: Any
) -> None:
    class Shouting(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
            last = state["messages"][-1]
            if not isinstance(last, HumanMessage) or last.text.isupper():
                return None
            return {"messages": [HumanMessage(last.text.upper(), id=last.id)]}

    def shouting(model: Any) -> Any:
        return build(model, Shouting())

    asked = {"messages": [HumanMessage("Quiet.")]}
    path = tmp_path / "a.jsonl"
    shouting(record(ScriptedChatModel(["Yes."]), path, inputs=[asked])).invoke(asked)
    assert replay_one(shouting, path).verdict == "passed"
    assert "'QUIET.' was recorded, 'Quiet.' is asked now" in replay_one(build, path).reason


def test_an_input_is_a_state_or_a_resume(tmp_path: Path) -> None:
    for wrong in ("Hi", ["Hi"], {"resume": 1}, Command(goto="model")):
        with pytest.raises(ArgumentError, match=r"must be states or Command\(resume=...\)"):
            record(ScriptedChatModel([]), tmp_path / "a.jsonl", inputs=[wrong])


# Results of tools


def test_a_tool_that_failed_fails_again_as_often(tmp_path: Path, replay_one: Any) -> None:
    line = iter([ConnectionError("busy"), ConnectionError("late"), "A1 is here."])

    def find_order(order: str) -> str:
        """Find an order."""
        ran.append("find_order")
        found: Any = next(line)
        if isinstance(found, Exception):
            raise found
        return str(found)

    def patient(model: Any) -> Any:
        retry = m.ToolRetryMiddleware(max_retries=3, initial_delay=0)
        return create_agent(model, [find_order], middleware=[retry])

    path = tmp_path / "a.jsonl"
    record_agent(patient(ScriptedChatModel([steps()[0], "Here."])), path).invoke(ASK)
    assert len(ran) == 3
    done = replay_one(patient, path)
    assert (done.verdict, done.reason) == (ReplayVerdict.PASSED, "")
    assert len(ran) == 3

    def impatient(model: Any) -> Any:
        return create_agent(model, [find_order])

    done = replay_one(impatient, path)
    assert done.verdict is ReplayVerdict.ERROR
    assert done.reason.startswith("raised ConnectionError: busy")


class SecondFirst(AgentMiddleware):
    """Lets the second of two calls run first, as threads may do."""

    def __init__(self) -> None:
        super().__init__()
        self.second = Event()

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        ids = [call["id"] for call in request.state["messages"][-1].tool_calls]
        if request.tool_call["id"] == ids[0] and len(ids) == 2:
            assert self.second.wait(60)
        result = handler(request)
        if request.tool_call["id"] == ids[-1]:
            self.second.set()
        return result


@each("returns", ["text", "command"])
def test_equal_calls_get_their_results_in_order_whichever_runs_first(
    tmp_path: Path, returns: str
) -> None:
    count = iter(range(10))

    def find_order(order: str, runtime: ToolRuntime) -> Any:
        """Find an order."""
        text = f"{next(count)} minutes left."
        message = ToolMessage(text, tool_call_id=runtime.tool_call_id)
        return text if returns == "text" else Command(update={"messages": [message]})

    def asking(model: Any) -> Any:
        return create_agent(model, [find_order], middleware=[SecondFirst()])

    path = tmp_path / "a.jsonl"
    takes: list[Any] = [record_agent]
    if returns == "text":
        takes.append(lambda agent, path: with_model(agent, record(model_of(agent), path)))
    for take in takes:
        script = [[*steps()[0].calls, *steps()[0].calls], steps()[0], "Soon."]
        take(asking(ScriptedChatModel(script)), path).invoke(ASK)
        report = replay_recording(asking, path)
        assert (report.verdict, report.reason) == (ReplayVerdict.PASSED, "")


def test_results_and_arguments_are_redacted(tmp_path: Path, replay_one: Any) -> None:
    def find_order(order: str, password: str) -> str:
        """Find an order."""
        return "Use sk-1234567890abcdefghij."

    def secret(model: Any) -> Any:
        return create_agent(model, [find_order])

    script = [[{"name": "find_order", "args": {"order": "A1", "password": "lamp"}}], "Here."]
    path = tmp_path / "a.jsonl"
    record_agent(secret(ScriptedChatModel(script)), path).invoke(ASK)
    text = path.read_text()
    assert "sk-1234567890" not in text
    assert '"lamp"' not in text
    assert replay_one(secret, path).verdict == "passed"


def test_a_recording_of_an_agent_is_replayed_as_any_other(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    record_agent(build(ScriptedChatModel(steps())), path).invoke(ASK)
    with replay(path) as model:
        build(model).invoke(ASK)
    assert_trajectory(path, "find_order < refund")
    kinds = [next(iter(json.loads(line))) for line in path.read_text().splitlines()[1:]]
    assert kinds == ["answer", "tool", "answer", "tool", "answer"]
    assert json.loads(path.read_text().splitlines()[0])["version"] == 3
    ids = [json.loads(line).get("id") for line in path.read_text().splitlines()]
    assert ids == [None, None, "call_1_1", None, "call_2_1", None]


# Errors


def test_a_run_that_raises_is_an_error(tmp_path: Path, replay_one: Any) -> None:
    class Broken(AgentMiddleware):
        def after_model(self, state: Any, runtime: Any) -> None:
            raise KeyError("lamp")

    done = replay_one(lambda model: build(model, Broken()), recorded(tmp_path / "a.jsonl"))
    assert done.verdict is ReplayVerdict.ERROR
    assert done.reason.startswith("raised KeyError: 'lamp'")
    assert [step.kind for step in done.trajectory.steps] == ["user", "model", "tool"]


def test_an_error_that_was_recorded_passes_if_it_is_raised_again(
    tmp_path: Path, replay_one: Any
) -> None:
    path = tmp_path / "a.jsonl"
    with pytest.raises(ConnectionError):
        recorded(path, [steps()[0], ConnectionError("down")])
    assert replay_one(build, path).verdict == "passed"
    retrying = replay_one(lambda model: build(model, m.ModelRetryMiddleware(initial_delay=0)), path)
    assert retrying.verdict is ReplayVerdict.CHANGED


def test_a_redacted_recording_needs_its_function(tmp_path: Path, replay_one: Any) -> None:
    def no_lamps(text: str) -> str:
        return text.replace("lamp", "thing")

    path = recorded(tmp_path / "a.jsonl", redact=no_lamps)
    assert "Pass it here too" in replay_one(build, path).reason
    assert replay_one(build, path, redact=no_lamps).verdict == "passed"


def test_a_react_agent_is_replayed_by_its_function_and_what_is_not_an_agent_is_refused(
    tmp_path: Path, replay_one: Any
) -> None:
    path = tmp_path / "a.jsonl"
    create_react_agent(record(ScriptedChatModel(steps()), path), TOOLS).invoke(ASK)
    ran.clear()
    assert replay_one(lambda model: create_react_agent(model, TOOLS), path).verdict == "passed"
    assert ran == []
    with pytest.raises(ArgumentError, match="create_react_agent, whose model cannot be replaced"):
        replay_one(create_react_agent(ScriptedChatModel([]), TOOLS), path)
    for wrong in (None, "shop:agent", lambda model: model):
        with pytest.raises(ArgumentError, match="agent"):
            replay_one(wrong, path)


# What is to hold of a run


def test_a_run_that_breaks_its_pattern_has_failed(tmp_path: Path, replay_one: Any) -> None:
    path = recorded(tmp_path / "a.jsonl", expect="find_order+ < refund -> ok")
    assert replay_one(build, path).verdict == "passed"
    done = replay_one(lambda model: build(model, NoRefunds()), path)
    assert done.verdict is ReplayVerdict.FAILED
    assert done.step == 5
    assert "its result is pending" in done.reason
    with pytest.raises(AssertionError):
        done.assert_passed(allow_changes=True)
    with pytest.raises(PatternError, match="column 5"):  # before it is recorded
        record_agent(build(ScriptedChatModel([])), tmp_path / "b.jsonl", expect="a < ")


def test_a_file_of_the_same_name_has_the_pattern(tmp_path: Path, replay_one: Any) -> None:
    path = recorded(tmp_path / "a.jsonl", expect="find_order")
    (tmp_path / "a.trajectory").write_text("find_order,\nnever refund\n")
    done = replay_one(build, path)
    assert (done.verdict, done.step) == (ReplayVerdict.FAILED, 5)
    (tmp_path / "a.trajectory").write_text("find_order <")
    done = replay_one(build, path)
    assert done.verdict is ReplayVerdict.ERROR
    assert "cannot be compared with its pattern: column 13" in done.reason


# Folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    recorded(tmp_path / "lamp.jsonl")
    recorded(tmp_path / "late" / "hello.jsonl", ["Hello."])
    recorded(tmp_path / "strict.jsonl", expect="refund -> ok")
    (tmp_path / "torn.jsonl").write_text("{")
    return tmp_path


def test_a_folder_gives_a_table_with_its_costs(folder: Path) -> None:
    def price(name: str, usage: Any) -> float | None:
        return float(usage["input_tokens"] / 1000)

    report = replay_folder(lambda model: build(model, NoRefunds()), folder, price=price)
    assert [(one.name, str(one.verdict)) for one in report.runs] == [
        ("lamp", "changed"),
        ("late/hello", "passed"),
        ("strict", "failed"),
        ("torn", "error"),
    ]
    assert not report.passed
    assert report.summary == "4 runs: 1 error, 1 failed, 1 changed, 1 passed"
    lines = str(report).splitlines()
    assert " ".join(lines[0].split()) == "recording verdict model calls tool calls tokens USD"
    cells = r"lamp +changed +3 -> 2 +2 -> 1 +640 -> 320 +0\.6000 -> 0\.3000"
    assert re.fullmatch(cells, lines[1])
    assert lines[2].startswith("  1 of 3 recorded answers were not requested.")
    assert lines[-1] == report.summary
    assert report.recorded.usd == pytest.approx(1.2)
    assert report.replayed.usd == pytest.approx(0.6)
    data = json.loads(json.dumps(report.to_data()))
    assert (data["passed"], data["changed"], data["failed"], data["error"]) == (1, 1, 1, 1)
    assert data["runs"][0]["replayed"]["model_calls"] == 2
    assert data["runs"][0]["trajectory"][1] == "model: calls find_order"
    assert replay_folder(build, folder, price=lambda *_: None).recorded.usd is None


async def test_a_folder_is_replayed_in_async_runs(folder: Path) -> None:
    (folder / "torn.jsonl").unlink()
    report = await areplay_folder(build, folder)
    assert report.passed
    assert report.recorded == report.replayed


def test_a_folder_without_recordings_is_refused(tmp_path: Path) -> None:
    for wrong, why in ((tmp_path, "holds no recordings"), (tmp_path / "x", "does not exist")):
        for take in (recordings_in, each_recording, lambda f: replay_folder(build, f)):
            with pytest.raises(ArgumentError, match=why):
                take(wrong)


def test_each_recording_is_a_test_of_its_name(folder: Path) -> None:
    mark = each_recording(folder)
    assert mark.name == "parametrize"
    assert mark.args == ("recording", recordings_in(folder))
    assert mark.kwargs == {"ids": ["lamp", "late/hello", "strict", "torn"]}


@each_recording(Path(__file__).parents[2] / "examples" / "product" / "tests" / "cassettes")
def test_a_recorded_run_of_the_product_is_read(recording: Path) -> None:
    assert_trajectory(recording, "refund(euros>100) -> error < answer, never find_order")


def test_the_page_needs_nothing_from_elsewhere_and_shows_all(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    script = [[{"name": "find_order", "args": {"order": name}}], "Done."]
    recorded(tmp_path / "evil.jsonl", script, expect="refund")
    page = replay_folder(build, tmp_path).to_html()
    assert not re.search("<script|<[^>]*(src|href)=", page)
    assert page.count("<tr") == 3
    assert f"find_order(order='{name}') -> ok" in unescape(page)
    assert "expects refund" in unescape(page)
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page


# with_model


def test_with_model_asks_another_model_and_leaves_the_agent_as_it_is(call: Any) -> None:
    one, other = ScriptedChatModel(["One."] * 2), ScriptedChatModel(["Other."])
    agent = build(one, m.ModelRetryMiddleware(), name="desk")
    copy = with_model(agent, other)
    assert call(copy, ASK)["messages"][-1].text == "Other."
    assert call(agent, ASK)["messages"][-1].text == "One."
    assert (copy.name, tools_of(copy).keys()) == ("desk", tools_of(agent).keys())
    with pytest.raises(ArgumentError, match="must be a chat model"):
        with_model(agent, 5)  # type: ignore[arg-type]


# The law: what was recorded with an agent passes with that agent

_CALLS = st.sampled_from(
    [
        {"name": "find_order", "args": {"order": "A1"}},
        {"name": "find_order", "args": {"order": "B2"}},
        {"name": "refund", "args": {"order": "A1", "euros": 90}},
        {"name": "unknown", "args": {}},
        {"name": "refund", "args": {"euros": "many"}},
    ]
)
_TURNS = st.lists(st.lists(_CALLS, min_size=1, max_size=3), max_size=3)


@pytest.mark.long
@settings(settings.get_profile("costly"))
@given(
    st.lists(_TURNS, min_size=1, max_size=3),
    strategies.stacks(),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_what_was_recorded_passes_with_the_same_agent(
    tmp_path_factory: pytest.TempPathFactory,
    runs: list[list[list[dict[str, Any]]]],
    stack: list[Any],
    with_results: bool,
    asynchronous: bool,
    random: Any,
) -> None:
    def find_order(order: str) -> str:
        """Find an order."""
        if with_results and random.random() < 0.3:
            raise ConnectionError("busy")
        return f"{order}: {random.random() if with_results else 1}"

    retry = m.ToolRetryMiddleware(tools=["find_order"], max_retries=1, initial_delay=0)
    middleware = [m.ToolErrorMiddleware(), retry, *stack]

    def build(model: Any) -> Any:
        return create_agent(model, [find_order, refund], middleware=middleware)

    path = tmp_path_factory.mktemp("law") / "run.jsonl"
    model = ScriptedChatModel([step for turns in runs for step in (*turns, "Done.")])
    agent = record_agent(build(model), path) if with_results else build(record(model, path))
    state: dict[str, Any] = {"messages": []}
    for number in range(len(runs)):
        question = HumanMessage(f"Question {number}")
        state = agent.invoke({"messages": [*state["messages"], question]})
    if asynchronous:
        done = asyncio.run(areplay_recording(build, path))
    else:
        done = replay_recording(build, path)
    assert (done.verdict, done.reason) == (ReplayVerdict.PASSED, "")
    names = [step.name for step in done.trajectory.steps if step.kind == "tool"]
    assert names == [call["name"] for turns in runs for turn in turns for call in turn]
