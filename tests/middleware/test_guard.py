"""GuardMiddleware: checks during and before calls, and what they hold back."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from functools import partialmethod
from itertools import count, cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.chat_models import agenerate_from_stream, generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.tracers.run_collector import RunCollectorCallbackHandler
from langgraph.config import get_stream_writer
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command
from pydantic import Field
from stack_agents import kept_agent

from agent_factory import (
    AgentMiddleware,
    Flow,
    ModelRequest,
    NextChunk,
    background,
    create_agent,
    warnings_of,
    wrap_model_call,
)
from agent_factory import middleware as m
from agent_factory.structured_output import ToolStrategy
from agent_factory.testing import ScriptedChatModel
from samples import Answer, OwnModel, call_of, last_text, look
from tables import each
from waiting import VirtualLoop, auntil, until

ASK: Any = {"messages": [("user", "How?")]}
NO = "I cannot help with that."
TOKENS: Any = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}


class Order:
    """The order in which a model and a check go on in two threads.

    Args:
        leads: For each call of the model, how many chunks come before the verdict.
    """

    def __init__(self, *leads: int) -> None:
        self._leads, self._chunks, self._verdicts = leads, Counter[int](), Counter[int]()
        self._changed = threading.Condition()

    def before_chunk(self, call: int, at: int) -> None:
        """Wait for the verdict, unless the chunk comes before it."""
        with self._changed:
            is_next = lambda: at < self._leads[call] or self._verdicts[call] > 0  # noqa: E731
            assert self._changed.wait_for(is_next, 60)

    def after_chunk(self, call: int) -> None:
        with self._changed:
            self._chunks[call] += 1
            self._changed.notify_all()

    @contextmanager
    def verdict(self, call: int) -> Iterator[None]:
        """Wait for the chunks before the verdict; it is given when the block ends."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._chunks[call] >= self._leads[call], 60)
        try:
            yield
        finally:
            with self._changed:
                self._verdicts[call] += 1
                self._changed.notify_all()


class TimedModel(OwnModel):
    """Model whose chunks take some time in async runs, and have an order in sync runs."""

    answers: list[Any]
    waits: list[float] = Field(default_factory=lambda: [0.0])
    order: Any = Field(default_factory=lambda: Order(9, 9))
    fails_first: bool = False
    asked: int = 0

    def _next(self) -> list[AIMessageChunk]:
        self.asked += 1
        if self.fails_first and self.asked == 1:
            raise ConnectionError("no connection")
        answer = self.answers[min(self.asked - 1 - self.fails_first, len(self.answers) - 1)]
        if isinstance(answer, str):
            return [AIMessageChunk(content=word) for word in answer.split(" ")]
        call: Any = {**answer, "args": "{}", "index": 0, "type": "tool_call_chunk"}
        return [
            AIMessageChunk(content="wait"),
            AIMessageChunk(content="", tool_call_chunks=[call], usage_metadata=TOKENS),
        ]

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        for at, chunk in enumerate(self._next()):
            self.order.before_chunk(self.asked - 1, at)
            self.order.after_chunk(self.asked - 1)
            yield ChatGenerationChunk(message=chunk)

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for at, chunk in enumerate(self._next()):
            await asyncio.sleep(self.waits[at % len(self.waits)])  # waits: in a virtual loop
            self.order.after_chunk(self.asked - 1)
            yield ChatGenerationChunk(message=chunk)

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        return generate_from_stream(self._stream())

    async def _agenerate(self, *_: Any, **__: Any) -> ChatResult:
        return await agenerate_from_stream(self._astream())


class Watcher(BaseCallbackHandler):
    """Notes what handlers see of answers, and when tools start."""

    run_inline = True  # in a thread, the clock of VirtualLoop would not wait for it

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    def _note(self, what: str, *_: Any, **__: Any) -> None:
        self.seen.append(what)

    on_llm_new_token: Any = partialmethod(_note, "token")
    on_llm_end: Any = partialmethod(_note, "answer")
    on_tool_start: Any = partialmethod(_note, "tool")


class Check(list[str]):
    """Objects to what is bad, and lists the texts that it got."""

    def __call__(self, message: BaseMessage) -> str | None:
        self.append(message.text)
        return "It is bad." if "bad" in message.text else None


SECONDS = st.floats(0, 0.004).map(lambda value: round(value, 4))
VERDICTS = st.sampled_from(["pass", "object", "raise", "too late"])
TIMINGS = st.lists(SECONDS, min_size=1, max_size=3)


def give(verdict: str, seen: list[str]) -> str | None:
    """Note a verdict, and give it."""
    seen.append("verdict")
    if verdict == "raise":
        raise LookupError("no list")
    return "It is bad." if verdict == "object" else None


def agent_of(model: TimedModel, check: Any, timeout: float | None) -> Any:
    return create_agent(model, [look], middleware=[m.GuardMiddleware(check, timeout=timeout)])


def answer_in(part: Any, seen: list[str]) -> str:
    """The answer in a part of a stream; empty without one. A part of an answer is noted."""
    mode, value = part
    if mode == "messages" and value[0].text and value[0].text not in (NO, "a tree"):
        seen.append("part")
    return value["model"]["messages"][-1].text if mode == "updates" and "model" in value else ""


def assert_held(seen: list[str], verdicts: Sequence[str], answer: str) -> None:
    """Each verdict comes before all that its model call shows; after an objection nothing does."""
    calls = -1
    for what in seen:
        if what == "verdict":
            calls += 1
        else:
            assert calls >= 0, seen
            assert verdicts[calls % len(verdicts)] == "pass", seen
    objects = any(verdicts[call % len(verdicts)] != "pass" for call in range(2))
    assert (answer == NO) == objects, seen


@pytest.mark.law
@given(TIMINGS, TIMINGS, st.lists(VERDICTS, min_size=1, max_size=2), st.booleans())
def test_nothing_leaves_before_the_verdict_of_an_async_run(
    model_waits: list[float], check_waits: list[float], verdicts: list[str], streams: bool
) -> None:
    seen: list[str] = []
    steps = zip(cycle(check_waits), cycle(verdicts), strict=False)

    async def check(messages: Any) -> str | None:
        seconds, verdict = next(steps)
        await asyncio.sleep(1 if verdict == "too late" else seconds)  # waits: in a virtual loop
        return give(verdict, seen)

    model = TimedModel(answers=[call_of("look"), "All is well."], waits=model_waits)
    agent = agent_of(model, check, 0.5)
    config: Any = {"callbacks": [Watcher(seen)]}

    async def main() -> str:
        if not streams:
            return last_text(await agent.ainvoke(ASK, config))
        answer = ""
        async for part in agent.astream(ASK, config, stream_mode=["messages", "updates"]):
            answer = answer_in(part, seen) or answer
        return answer

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        answer = runner.run(main())
        loop: Any = runner.get_loop()
        # No longer than the slower of the two in each call, also if the check is too late.
        waits = [0.5 if v == "too late" else 0.004 for v in (verdicts * 2)[:2]]
        assert loop.now <= sum(max(wait, 3 * 0.004) for wait in waits) + 1e-6
        assert not asyncio.all_tasks(loop)
    assert_held(seen, verdicts, answer)


@pytest.mark.law
@given(
    st.tuples(st.integers(0, 2), st.integers(0, 3)),  # as many chunks as the two answers have
    st.lists(st.sampled_from(["pass", "object", "raise"]), min_size=2, max_size=2),
    st.booleans(),
)
def test_nothing_leaves_before_the_verdict_of_a_sync_run(
    leads: tuple[int, int], verdicts: list[str], streams: bool
) -> None:
    seen: list[str] = []
    order, calls = Order(*leads), count()

    def check(messages: Any) -> str | None:
        call = next(calls)
        with order.verdict(call):
            return give(verdicts[call], seen)

    model = TimedModel(answers=[call_of("look"), "All is well."], order=order)
    agent = agent_of(model, check, None)
    config: Any = {"callbacks": [Watcher(seen)]}
    threads = threading.active_count()
    if streams:
        answer = ""
        for part in agent.stream(ASK, config, stream_mode=["messages", "updates"]):
            answer = answer_in(part, seen) or answer
    else:
        answer = last_text(agent.invoke(ASK, config))
    assert_held(seen, verdicts, answer)
    # No thread lives on; LangGraph's own may end a little later.
    until(lambda: threading.active_count() <= threads + 1)


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
@each("listener", ["v2", "v3", "tracer"])
def test_no_listener_sees_a_word_that_is_stopped(listener: str) -> None:
    async def check(_: Any) -> str:
        await auntil(lambda: model.asked)
        return "It is bad."

    model = TimedModel(answers=["All is well."])
    agent: Any = create_agent(model, middleware=[m.GuardMiddleware(check)])
    collector = RunCollectorCallbackHandler()
    seen: list[Any] = []

    async def main() -> None:
        if listener == "tracer":
            await agent.ainvoke(ASK, {"callbacks": [collector]})
            return
        events = agent.astream_events(ASK, version=listener)
        async for event in (await events) if listener == "v3" else events:
            seen.append(event)

    asyncio.run(main())
    seen += [run.model_dump() for run in collector.traced_runs]
    text = repr(seen)
    assert [word in text for word in (NO, "All", "well")] == [True, False, False]


def test_an_answer_without_chunks_waits_for_the_verdict_too(collect: Any) -> None:
    class Silent(AgentMiddleware):
        def around_stream(self, request: ModelRequest[Any]) -> Flow[None]:
            while (yield NextChunk()) is not None:
                pass

    async def check(_: Any) -> None:
        await asyncio.sleep(0)
        verdicts.append("pass")

    verdicts: list[str] = []
    stack: list[AgentMiddleware] = [m.GuardMiddleware(check), Silent()]
    agent = create_agent(TimedModel(answers=["All is well."]), middleware=stack)
    with pytest.raises(ValueError, match="No generation"):
        collect(agent, ASK, stream_mode="messages")
    assert verdicts == ["pass"]


# What a check may be


def test_messages_are_those_that_were_not_checked(call: Any) -> None:
    checked: list[list[str]] = []

    def check(messages: list[BaseMessage]) -> None:
        checked.append([message.text for message in messages])

    model = ScriptedChatModel([[call_of("look")], "Well."])
    agent = create_agent(model, [look], middleware=[m.GuardMiddleware(check)])
    history = [HumanMessage("Hi"), AIMessage("Hello"), HumanMessage("How?")]
    call(agent, {"messages": history})
    assert checked == [["Hi", "Hello", "How?"], ["a tree"]]


def last_of(call: Any, guard: m.GuardMiddleware) -> Any:
    """The last message of an agent with a guard."""
    agent = create_agent(ScriptedChatModel(["Well."]), middleware=[guard])
    return call(agent, ASK)["messages"][-1]


@each("when", ["beside", "before"])
def test_an_objection_ends_the_run_with_the_answer(call: Any, when: Any) -> None:
    guard = m.GuardMiddleware(lambda _: "It is bad.", when=when, answer="No: {reason} {x}")
    model = ScriptedChatModel(["Well."])
    last = call(create_agent(model, middleware=[guard]), ASK)["messages"][-1]
    assert (last.text, last.response_metadata["reason"]) == ("No: It is bad. {x}", "It is bad.")
    assert last.additional_kwargs["lc_source"] == "guard"
    assert not (model.requests and when == "before")


@each("value", [True, False, "", 1, LookupError("no list")], ids=repr)
def test_a_check_that_raises_or_returns_something_else_objects(call: Any, value: Any) -> None:
    def check(_: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    last = last_of(call, m.GuardMiddleware(check))
    returns = f"returned {value!r}, and must return None"
    reason = "LookupError: no list" if isinstance(value, Exception) else returns
    assert (last.text, reason in last.response_metadata["reason"]) == (NO, True)


def test_a_check_that_takes_too_long_objects(call: Any) -> None:
    go_on = threading.Event()
    check: Any = lambda _: go_on.wait(60)  # noqa: E731
    try:
        last = last_of(call, m.GuardMiddleware(check, timeout=0))
    finally:
        go_on.set()
    assert last.response_metadata["reason"] == "the check took longer than 0 seconds."


@each(
    "answer, text",
    [
        ('{"reason": "It is bad.", "probability": 0.9}', NO),
        ('{"reason": "It is bad.", "probability": 0.1}', "Well."),
        ("Perhaps.", NO),
    ],
)
def test_a_model_judges(call: Any, answer: str, text: str) -> None:
    """Without a probability, it objects."""
    judge = ScriptedChatModel([answer])
    guard = m.GuardMiddleware(judge, instructions="Stop what is bad.")
    assert last_of(call, guard).text == text
    texts = zip(("Stop what is bad.", "How?"), judge.requests[0].messages, strict=True)
    assert all(text in message.text for text, message in texts)


# Answers


def test_an_answer_is_checked_before_it_streams(collect: Any) -> None:
    for answer, shown in (("This is bad indeed", NO), ("All is well", "All is well")):
        guard = m.GuardMiddleware(Check(), on="answer")
        agent = create_agent(TimedModel(answers=[answer]), middleware=[guard])
        parts = collect(agent, ASK, stream_mode=["messages", "values"])
        chunks = [part[0] for mode, part in parts if mode == "messages"]
        last = [part for mode, part in parts if mode == "values"][-1]["messages"][-1]
        # TimedModel has no spaces in its chunks.
        assert "".join(chunk.text for chunk in chunks).replace(" ", "") == shown.replace(" ", "")
        assert {chunk.id for chunk in chunks} == {last.id}


def test_the_words_of_a_refusal_are_checked_in_each_form(call: Any) -> None:
    words = {"refusal": "This is bad"}
    forms: Any = [{"content": "", "additional_kwargs": words}]
    forms.append({"content": [{"type": "refusal", **words}]})
    for form in forms:
        guard = m.GuardMiddleware(Check(), on="answer")
        agent = create_agent(ScriptedChatModel([AIMessage(**form)]), middleware=[guard])
        assert last_text(call(agent, ASK)) == NO


def test_calls_of_an_answer_that_is_stopped_do_not_run_and_its_usage_is_kept(call: Any) -> None:
    guard = m.GuardMiddleware(lambda answer: "It pays." if answer.tool_calls else None, on="answer")
    pays: Any = {"tool_calls": [call_of("look")], "usage_metadata": TOKENS}
    agent = create_agent(ScriptedChatModel([AIMessage("", **pays)]), [look], middleware=[guard])
    _, last = call(agent, ASK)["messages"]
    assert last.text == NO
    [record] = last.response_metadata["failed_answers"]
    assert (record["fault"], record["usage_metadata"]["total_tokens"]) == ("blocked", 15)


def test_the_answer_that_leaves_is_checked_once_whatever_layers_make_of_it(call: Any) -> None:
    def cached(request: ModelRequest[Any]) -> Flow[Any]:
        yield from ()
        return AIMessage("bad")

    def signed(request: ModelRequest[Any]) -> Flow[Any]:
        response = yield request
        return AIMessage(f"{response.result[0].text}d")

    joined: Any = m.AnswerGuardMiddleware(on_cut="continue")
    cut = AIMessage("ba", response_metadata={"finish_reason": "length"}, usage_metadata=TOKENS)
    for inner, checks, text in (
        (wrap_model_call(cached), ["bad"], NO),
        (wrap_model_call(signed), ["ba", "bad"], NO),
        (joined, ["ba", "d", "bad"], NO),
        (m.ModelRetryMiddleware(), ["ba"], "ba"),
    ):
        check, model = Check(), ScriptedChatModel([cut, "d"])
        guard = m.GuardMiddleware(check, on="answer")
        agent = create_agent(model, middleware=[guard, inner], name="clerk", strict=True)
        assert (last_text(call(agent, ASK)), check) == (text, checks)
    agent = create_agent(model, middleware=[joined, guard, m.PIIMiddleware("email")])
    assert [warning.code for warning in warnings_of(agent)] == ["AF204", "AF204"]


@each("on", ["messages", "answer"])
def test_a_structured_answer_that_is_stopped_ends_the_run(call: Any, on: Any) -> None:
    guard = m.GuardMiddleware(lambda _: "It is bad.", on=on)
    model = ScriptedChatModel([[call_of("Answer", number=1)]] * 3)
    agent = create_agent(model, middleware=[guard], response_format=ToolStrategy(Answer))
    result = call(agent, ASK)
    assert last_text(result) == NO
    assert result.get("structured_response") is None


# Calls and results


@each("when", ["beside", "before"])
def test_a_call_is_checked(call: Any, when: Any) -> None:
    ran: list[str] = []

    def delete(path: str) -> str:
        """Delete."""
        ran.append(path)
        return "deleted"

    def check(tool_call: Any) -> str | None:
        return "It is not yours." if tool_call["args"]["path"] == "/etc" else None

    paths = ([call_of("delete", path=path)] for path in ("/etc", "/tmp"))
    model = ScriptedChatModel([*paths, [call_of("look")], "Done."])
    guard = m.GuardMiddleware(check, on="call", when=when, tools=["delete"])
    result = call(create_agent(model, [delete, look], middleware=[guard]), ASK)
    first, second, other = (m for m in result["messages"] if m.type == "tool")
    assert (first.status, second.text, other.text) == ("error", "deleted", "a tree")
    assert "the call of delete was blocked: It is not yours." in first.text
    assert when == "beside" or ran == ["/tmp"]


# With other middleware


def test_each_new_message_of_an_update_is_checked_before_the_thread_has_it(call: Any) -> None:
    check, result = Check(), {"role": "tool", "content": "bad", "tool_call_id": "call_1"}
    first = {"role": "remove", "content": "", "id": REMOVE_ALL_MESSAGES}

    def fetch(runtime: ToolRuntime) -> Any:
        """Fetch."""
        messages = [first, *runtime.state["messages"], ("user", "good"), result]
        return Command(update={"messages": messages}, goto="__end__")

    model = ScriptedChatModel([[call_of("fetch")], lambda messages: messages[-1].text])
    guard = m.GuardMiddleware(check, on="result")
    text = last_text(call(create_agent(model, [fetch], middleware=[guard]), ASK))
    assert (text[:38], check) == ("Error: the result of fetch was blocked", ["good", "bad"])


def test_the_progress_of_a_background_tool_is_checked_as_its_result(call: Any) -> None:
    written, asked = threading.Event(), threading.Event()

    def fetch() -> None:
        """Fetch."""
        get_stream_writer()("bad")
        written.set()
        assert asked.wait(60)

    def asks(messages: Sequence[BaseMessage]) -> Any:
        assert written.wait(60)
        return [call_of("check_background", 2, id=messages[-1].text.split("as ")[1][:8])]

    def reads(messages: Sequence[BaseMessage]) -> str:
        asked.set()
        return messages[-1].text

    guard: Any = m.GuardMiddleware(Check(), on="result", tools=["fetch"])
    stack = [m.BackgroundMiddleware(wait=False), guard]
    agent = kept_agent([[call_of("fetch")], asks, reads], *stack, tools=[background(fetch)])
    text = last_text(call(agent, ASK, {"configurable": {"thread_id": "1"}}))
    assert text.startswith("Error: the result of check_background was blocked: It is bad.")


def test_retries_and_fallbacks_stay_inside_of_the_guard(call: Any) -> None:
    checks: list[int] = []
    model = TimedModel(answers=["Well."], fails_first=True)
    stack = [m.GuardMiddleware(lambda _: checks.append(1)), m.ModelRetryMiddleware(initial_delay=0)]
    assert last_text(call(create_agent(model, middleware=stack), ASK)) == "Well."
    assert checks == [1]
    fallback = m.ModelFallbackMiddleware(TimedModel(answers=["Fallback."]))
    model = TimedModel(answers=["Well."], fails_first=True)
    stack = [m.GuardMiddleware(lambda _: "It is bad."), fallback]
    assert last_text(call(create_agent(model, middleware=stack), ASK)) == NO


def test_the_cost_of_a_call_that_was_ended_is_counted(call: Any) -> None:
    order = Order(1)
    # In an async run, the last chunks come after an hour: the call is ended before.
    model = TimedModel(answers=["All is well."], waits=[0, 3600], order=order)

    def check(_: Any) -> str:
        with order.verdict(0):
            return "It is bad."

    ledger = m.Ledger(m.Limits(input_tokens=10_000))
    stack: Any = [m.GuardMiddleware(check), m.BudgetMiddleware(ledger=ledger)]
    assert last_text(call(create_agent(model, middleware=stack), ASK)) == NO
    assert (ledger.spent.turns, ledger.reserved) == (1, m.Spent())
    assert ledger.spent.input_tokens > 0
