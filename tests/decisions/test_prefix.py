"""The decision log: who changed the prefix of requests, and what the provider's cache held."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import ModelRequest, agent_tool, create_agent, dynamic_prompt, wrap_model_call
from agent_factory.decisions import Decision, DecisionLog, Outcome
from agent_factory.decisions.prefix.change import PARTS, change_of
from agent_factory.decisions.prefix.digest import (
    BLOCK,
    Prefix,
    PrefixReader,
    digest_of,
    digests_among,
)
from agent_factory.decisions.prefix.tracker import PrefixTracker, SentRequest
from agent_factory.testing import Reply, ScriptedChatModel
from agent_factory.testing.strategies import messages
from samples import add
from tables import each

LONG = "You answer questions about orders. " * 20
CALL: Any = [{"name": "add", "args": {"a": 2, "b": 3}, "id": "1"}]


def dated() -> Any:
    """A prompt that is another one in each call, behind a long text."""
    minutes = count()

    @dynamic_prompt
    def clock(request: Any) -> str:
        return f"{LONG}It is minute {next(minutes)}. Do not guess."

    return clock


def thread(name: str = "one") -> Any:
    return {"configurable": {"thread_id": name}}


def logged(*middleware: Any, steps: Any = None, contents: bool = False, **options: Any) -> Any:
    """An agent, and its decisions about the cache."""
    found: list[Decision] = []

    def sink(decision: Decision) -> None:
        if decision.outcome in (Outcome.CHANGED_PREFIX, Outcome.USED_CACHE):
            found.append(decision)

    options = {"checkpointer": InMemorySaver(), **options}
    model = ScriptedChatModel(steps or ["Yes."] * 20)
    log = DecisionLog(sink, contents=contents)
    return create_agent(model, [add], middleware=list(middleware), decisions=log, **options), found


def ask(agent: Any, call: Any, *names: str) -> None:
    for name in names or ("one", "one"):
        call(agent, {"messages": ["How are you?"]}, thread(name))


def test_a_change_is_a_decision_of_the_layer_that_made_it(call: Any) -> None:
    agent, found = logged(dated(), steps=["Yes.", CALL, "Done."])
    ask(agent, call)
    one, two = found
    assert (one.middleware, one.hook, one.thread) == ("clock", "around_model", "one")
    at = (len(LONG) + len("It is minute ")) // BLOCK * BLOCK
    assert one.detail.startswith(f"changes the system prompt at about byte {at}; about ")
    # Four characters are a token; the prompt, and the two messages of the first turn.
    schema = one.tokens["cached"] - one.tokens["lost"] - at // 4
    assert schema > 10
    rest = len(LONG) + len("It is minute 0. Do not guess.") + len("How are you?") - at
    assert one.tokens["lost"] == round(rest / 4)
    assert two.tokens["cached"] > one.tokens["cached"]


def test_tokens_follow_what_the_provider_reports(call: Any) -> None:
    replies = [Reply("Yes.", usage=(1000, 5)), Reply("No.", usage=(1200, 5))]
    agent, found = logged(dated(), steps=replies)
    ask(agent, call)
    (change,) = found
    assert change.tokens["cached"] == 1000
    assert "of 1,000 cached tokens are lost" in change.detail


def test_a_provider_s_report_of_its_cache_is_a_decision(call: Any) -> None:
    usage: Any = {"input_tokens": 4100, "output_tokens": 9}
    details = [{"cache_read": 3900, "cache_creation": 150}, {"cache_read": 0}, {"audio": 5}]
    steps = [Reply("Yes.", usage={**usage, "input_token_details": one}) for one in details]
    agent, found = logged(steps=steps)
    ask(agent, call, "1", "2", "3")
    assert [str(decision) for decision in found] == [
        "model used cache: 3,900 of 4,100 input tokens read, 150 written",
        "model used cache: 0 of 4,100 input tokens read",
    ]
    tokens = {"input": 4100, "cache_read": 3900, "cache_creation": 150}
    assert found[0].to_data()["tokens"] == tokens


def test_a_subagent_is_compared_within_each_of_its_runs(call: Any) -> None:
    inner, found = logged(dated(), steps=["a", "b", CALL, "c"], checkpointer=None)
    tool = agent_tool(inner, name="helper", description="Helps.")
    calls: list[Any] = [[{"name": "helper", "args": {"request": f"Do {n}."}}] for n in range(3)]
    outer = create_agent(ScriptedChatModel([*calls, "Done."]), [tool], checkpointer=InMemorySaver())
    call(outer, {"messages": ["Go."]}, thread())
    (change,) = found  # of the third run, which calls the model twice
    assert change.thread == "one"


def test_a_failed_call_is_not_a_request_to_compare_with(call: Any) -> None:
    agent, found = logged(dated(), steps=["Yes.", ConnectionError("down"), "No."])
    ask(agent, call, "one")
    with pytest.raises(ConnectionError):
        ask(agent, call, "one")
    assert found == []
    ask(agent, call, "one")
    assert len(found) == 1


def test_a_context_of_another_call_is_not_taken_for_this_one(call: Any) -> None:
    """A layer whose thread keeps the context of the first call."""
    contexts: list[Any] = []

    @wrap_model_call
    def worker(request: Any, handler: Any) -> Any:
        contexts.append(copy_context())
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(contexts[0].run, handler, request).result()

    prompts = count()

    @wrap_model_call
    def outer(request: Any, handler: Any) -> Any:
        text = "Same." if next(prompts) < 2 else "Other."
        return handler(request.override(system_prompt=text))

    agent, found = logged(outer, worker)
    for _ in range(4):
        agent.invoke({"messages": ["How are you?"]}, thread())
    assert found == []


MODEL = ScriptedChatModel()
RUNTIME: Any = SimpleNamespace(execution_info=None, control="run")


def answered(tracker: PrefixTracker, history: list[Any], *, goes_on: bool) -> Any:
    """What a tracker finds of a request that no layer has changed."""
    request: Any = ModelRequest(model=MODEL, messages=history, runtime=RUNTIME)
    answer = AIMessage("", tool_calls=CALL if goes_on else [])
    return tracker.answered(SentRequest(history, (request,), None, history), answer, {})


def test_what_was_read_is_a_copy() -> None:
    """A list of messages may grow in place before the next call."""
    tracker = PrefixTracker(exact=False)
    history: list[Any] = [HumanMessage("Hi")]
    for goes_on in (True, True, True, False):
        assert answered(tracker, history, goes_on=goes_on) == []
        history += [AIMessage("", tool_calls=CALL), ToolMessage("5", tool_call_id="1")]
    (known,) = tracker._threads.values()
    assert known.places[-1].messages == tuple(map(digest_of, history[:7]))
    assert not tracker._read


def test_threads_that_were_not_used_for_long_are_forgotten(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrefixTracker, "THREADS", 2)
    agent, found = logged(dated())
    ask(agent, call, "1", "2", "3", "1")  # of the three, the first is forgotten
    assert found == []
    ask(agent, call, "3", "1")
    assert [change.thread for change in found] == ["3", "1"]
    ask(agent, call, "3", "2", "3")  # the one that was used last is kept
    assert [change.thread for change in found] == ["3", "1", "3", "3"]


def test_messages_are_kept_of_few_runs_and_until_they_end(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrefixTracker, "RUNS", 2)
    steps = [CALL, CALL, CALL, *["Done."] * 3]
    agent, _ = logged(steps=steps, interrupt_before=["tools"])
    ask(agent, call, "1", "2", "3")
    kept = agent.builder.nodes["model"].runnable._recorder._prefixes._read
    assert [key[0] for key in kept] == ["2", "3"]
    for name in ("1", "2", "3"):
        call(agent, None, thread(name))
    assert len(kept) == 0


def reachable(start: Any) -> list[str]:
    """Every text that an object leads to, other than by its class and the models and tools."""
    texts, seen, left = [], set(), [start]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen.add(id(one))
        if isinstance(one, str | bytes):
            texts.append(str(one))
        elif isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set) or type(one).__name__ in ("deque", "odict_values"):
            left += list(one)
        else:
            left += [getattr(one, n) for n in getattr(type(one), "__slots__", ()) if n[0] != "_"]
    return texts


@each("contents", [False, True])
def test_what_is_remembered_is_no_text_and_a_log_with_contents_knows_the_byte(
    call: Any, contents: bool
) -> None:
    agent, found = logged(dated(), steps=["A secret.", "Another."], contents=contents)
    recorder = agent.builder.nodes["model"].runnable._recorder
    for _ in range(2):
        call(agent, {"messages": ["My secret question"]}, thread())
    assert (f"at byte {len(LONG) + len('It is minute ')};" in found[0].detail) == contents
    texts = " ".join(reachable(recorder._prefixes._threads))
    assert "add" in texts  # the name of a tool: the walk reaches what is remembered
    assert "secret" not in texts
    assert ("Do not guess" in texts) == contents  # for the very byte, the prompt is needed


@pytest.mark.long
def test_parallel_runs_of_threads_do_not_mix() -> None:
    agent, found = logged(steps=[f"{n}" for n in range(400)])

    def talk(name: str) -> None:
        for turn in range(20):
            agent.invoke({"messages": [f"{name}, turn {turn}"]}, thread(name))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(talk, [f"thread {n}" for n in range(8)]))
    finally:
        sys.setswitchinterval(before)
    assert found == []


def test_parallel_calls_of_a_layer_are_each_read_as_they_were_sent() -> None:
    """Both pass another layer before either is answered."""

    @wrap_model_call
    async def hedges(request: Any, handler: Any) -> Any:
        first, _ = await asyncio.gather(handler(request), handler(request))
        return first

    @wrap_model_call
    async def waits(request: Any, handler: Any) -> Any:
        await asyncio.sleep(0)
        return await handler(request)

    agent, found = logged(hedges, waits)
    for _ in range(3):
        asyncio.run(agent.ainvoke({"messages": ["How are you?"]}, thread()))
    assert found == []


def prefix(history: list[AnyMessage], prompt: str = "") -> Prefix:
    system = SystemMessage(prompt) if prompt else None
    request = ModelRequest(model=MODEL, messages=history, system_message=system)
    return PrefixReader(exact=True).read(request, tuple(map(digest_of, history)))


@given(messages(), messages())
def test_a_history_that_goes_on_is_not_a_change(history: Any, more: Any) -> None:
    before, after = prefix(history), prefix([*history, *more])
    assert [change_of(part, before, after) for part in PARTS] == [None] * len(PARTS)


@given(messages(), st.data())
def test_the_first_message_that_is_another_one_is_found(history: Any, data: Any) -> None:
    at = data.draw(st.integers(0, len(history) - 1))
    new = history[at].model_copy(update={"content": f"{history[at].content}!"})
    found = change_of("messages", prefix(history), prefix([*history[:at], new, *history[at + 1 :]]))
    assert found is not None
    assert (found.at, found.text) == (at, f"edits messages[{at}]")


@given(messages(max_turns=3), st.data())
def test_removed_and_inserted_messages_are_counted(history: Any, data: Any) -> None:
    history = [m.model_copy(update={"content": f"{i}"}) for i, m in enumerate(history)]
    first = data.draw(st.integers(0, len(history) - 1))
    last = data.draw(st.integers(first + 1, len(history)))
    shorter = [*history[:first], *history[last:], HumanMessage("more")]
    removed = change_of("messages", prefix(history), prefix(shorter))
    assert removed is not None
    assert removed.at == first
    if last < len(history):
        until = "" if last == first + 1 else f" to messages[{last - 1}]"
        assert removed.text == f"removes messages[{first}]{until}"
        inserted = change_of("messages", prefix(shorter[:-1]), prefix(history))
        number = last - first
        assert inserted is not None
        assert inserted.text == f"inserts {number} message{'s' * (number > 1)} at messages[{first}]"


@given(st.text(min_size=1), st.text(min_size=1))
def test_the_byte_of_a_change_is_where_the_texts_part(one: str, other: str) -> None:
    change = change_of("system_prompt", prefix([], one), prefix([], other))
    a, b = one.encode(errors="replace"), other.encode(errors="replace")
    if a == b:
        assert change is None
        return
    assert change is not None
    assert a[: change.at] == b[: change.at]
    assert a[change.at : change.at + 1] != b[change.at : change.at + 1]


@given(messages(), messages(), st.data())
def test_digests_of_known_messages_are_those_of_the_messages(
    history: Any, others: Any, data: Any
) -> None:
    """However a list was made of another one."""
    digests = tuple(map(digest_of, history))
    mixed = data.draw(st.lists(st.sampled_from([*history, *others]), max_size=12))
    for made in (mixed, [*history, *mixed], [*mixed, *history], [m.model_copy() for m in history]):
        assert digests_among(made, history, digests) == tuple(map(digest_of, made))


def test_a_digest_holds_what_a_provider_reads_and_nothing_else() -> None:
    call: Any = {"name": "find", "args": {"q": "a"}, "id": "1"}
    text: Any = [{"type": "text", "text": "Hi"}]
    marked: Any = [{**text[0], "cache_control": {"type": "ephemeral"}}]
    assert digest_of(HumanMessage("Hi", id="1")) == digest_of(HumanMessage("Hi", id="2"))
    point: Any = ["Hi", {"cachePoint": {"type": "default"}}]
    for content in (text, marked, point):
        assert digest_of(HumanMessage(content)) == digest_of(HumanMessage("Hi"))
    assert digest_of(AIMessage("Hi", response_metadata={"a": 1})) == digest_of(AIMessage("Hi"))
    made = [
        HumanMessage("Hi"),
        AIMessage("Hi"),
        SystemMessage("Hi"),
        HumanMessage("Hi", name="Ada"),
        HumanMessage(["Hi", "Hi"]),
        AIMessage("Hi", tool_calls=[call]),
        AIMessage("Hi", tool_calls=[{**call, "args": {"q": "b"}}]),
        AIMessage("Hi", tool_calls=[{**call, "id": "2"}]),
        ToolMessage("Hi", tool_call_id="1"),
        ToolMessage("Hi", tool_call_id="2"),
        ToolMessage("Hi", tool_call_id="1", status="error"),
    ]
    assert len({digest_of(message)[0] for message in made}) == len(made)


def test_a_layer_may_send_what_is_not_a_message(call: Any) -> None:
    @wrap_model_call
    def pairs(request: Any) -> Any:
        return (yield request.override(messages=[("user", m.text) for m in request.messages]))

    agent, found = logged(pairs)
    ask(agent, call, "one", "one", "one")
    assert found == []
