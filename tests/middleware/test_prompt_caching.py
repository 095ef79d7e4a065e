"""Requests are marked where the provider should cache them, and threads and tools are not."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from bound_models import Bound, ChatAnthropic, ChatOpenAI
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import create_agent, dynamic_prompt, wrap_model_call
from agent_factory.middleware import PromptCachingMiddleware, TodoListMiddleware
from agent_factory.testing import assert_stable_prefix
from busy_agents import find_tool as find
from samples import THREAD, cancel, look
from tables import each

Run = Callable[..., Any]
MARK = {"type": "ephemeral"}
LONG = "You answer questions about orders. " * 200


CALL: Any = [{"name": "find", "args": {"query": "A1"}}]


def made(steps: Any = None, kind: Any = ChatAnthropic) -> Any:
    return kind(steps or ["Yes."] * 20)


def agent_of(model: Any, *stack: Any, **options: Any) -> Any:
    caching = PromptCachingMiddleware(**options.pop("caching", {}))
    options = {"tools": [find, cancel], "system_prompt": LONG, **options}
    saver = options.pop("checkpointer", InMemorySaver())
    return create_agent(model, middleware=[*stack, caching], checkpointer=saver, **options)


def talk(call: Run, agent: Any, *texts: str) -> Any:
    for text in texts or ("Where is A1?",):
        result = call(agent, {"messages": [text]}, THREAD)
    return result


def marked(model: Any, number: int = -1) -> list[Any]:
    """What is marked in a request: names of tools, "system", and indices of messages."""
    *_, request = model.requests[: number + 1] if number >= 0 else model.requests
    found: list[Any] = [
        t["name"] if isinstance(t, dict) else t.name
        for t in model.sent[number]
        if "cache_control" in (t if isinstance(t, dict) else t.extras or {})
    ]
    index = -1
    for message in request.messages:
        is_system = isinstance(message, SystemMessage)
        index += not is_system
        for block in message.content if isinstance(message.content, list) else ():
            if "cache_control" in block:
                found.append("system" if is_system else index)
    return found


def test_the_tools_the_prompt_and_the_newest_messages_are_marked_in_the_request_alone(
    call: Run,
) -> None:
    """A later request is read where the one before it ended; the tools are bound once."""
    model = made([CALL, "There.", "Yes."])
    agent = agent_of(model, caching={"min_tokens": 10})
    talk(call, agent, "Where is A1?", "And now?")
    assert [marked(model, n) for n in range(3)] == [
        ["cancel", "system", 0],
        ["cancel", "system", 0, 2],
        ["cancel", "system", 2, 4],
    ]
    system, message = model.requests[0].messages
    assert system.content == [{"type": "text", "text": LONG, "cache_control": MARK}]
    assert message.content == [{"type": "text", "text": "Where is A1?", "cache_control": MARK}]
    state = agent.get_state(THREAD).values["messages"]
    assert [m.content for m in state[:4]] == ["Where is A1?", "", "found A1", "There."]
    assert (find.extras, cancel.extras) == (None, None)
    assert len(model.bound) == 1


def test_of_blocks_those_are_marked_that_stay(call: Run) -> None:
    minutes = count()

    @dynamic_prompt
    def dated(request: Any) -> SystemMessage:
        parts = [LONG, "Be brief.", f"It is minute {next(minutes)}."]
        return SystemMessage([{"type": "text", "text": part} for part in parts])

    model = made()
    talk(call, agent_of(model, dated), "a", "b", "c")
    where = [
        [n for n, block in enumerate(r.messages[0].content) if "cache_control" in block]
        for r in model.requests
    ]
    assert where == [[2], [1], [1]]


@each("least, expected", [(0, ["cancel", "system", 0]), (1000, ["system", 0]), (5000, [])])
def test_what_is_too_short_is_not_marked(call: Run, least: int, expected: list[Any]) -> None:
    model = made()
    talk(call, agent_of(model, caching={"min_tokens": least, "ttl": "1h"}))
    assert marked(model) == expected
    if "system" in expected:
        assert model.requests[0].messages[0].content[0]["cache_control"] == {**MARK, "ttl": "1h"}


OWN = find.model_copy(update={"extras": {"cache_control": MARK}})
DEFERRED = cancel.model_copy(update={"extras": {"defer_loading": True}})
FUNCTION = {"type": "function", "function": {"name": "f", "description": "F.", "parameters": {}}}
WEB_SEARCH = {"type": "web_search_20250305", "name": "web_search"}


def test_own_marks_stay_and_count(call: Run) -> None:
    block = {"type": "text", "text": LONG, "cache_control": MARK}
    model = made([CALL, "There.", "Yes."])
    prompt = SystemMessage([block, block, {**block}])
    talk(call, agent_of(model, tools=[OWN, cancel], system_prompt=prompt))
    assert marked(model, 1) == ["find", "system", "system", "system"]
    # Automatic caching takes a mark.
    model = made([CALL, "There."])
    talk(call, agent_of(model.bind(cache_control=MARK), caching={"min_tokens": 10}))
    assert marked(model, 1) == ["system", 0, 2]


@each("name, kept", [("us.anthropic.claude-opus-5-5", {"cache_control": MARK}), ("llama", {})])
def test_models_of_bedrock_that_cache_get_the_setting(call: Run, name: str, kept: Any) -> None:
    """langchain-aws makes the points of the cache of it."""
    fields: Any = {"__module__": __name__, "__annotations__": {"model_id": str}, "model_id": name}
    model = type("ChatBedrockConverse", (Bound,), fields)(["Yes."])
    talk(call, agent_of(model))
    assert (marked(model), model.requests[0].kwargs) == ([], kept)


@each(
    "tools, more, first",
    [
        ([OWN, cancel], [], "find"),  # a tool has a mark
        ([find, DEFERRED], [FUNCTION], "find"),  # deferred, and of another provider
        ([find, WEB_SEARCH], [], "web_search"),  # in its own form
    ],
)
def test_the_last_tool_that_can_be_marked_is_marked(
    call: Run, tools: Any, more: Any, first: str
) -> None:
    @wrap_model_call
    def offers(request: Any) -> Any:
        return (yield request.override(tools=[*request.tools, *more]))

    model = made()
    talk(call, agent_of(model, offers, tools=tools, caching={"min_tokens": 0}))
    assert marked(model) == [first, "system", 0]
    assert "cache_control" not in WEB_SEARCH


def test_messages_without_text_are_passed_over_and_a_bound_subclass_is_known(call: Run) -> None:
    class Mine(ChatAnthropic):
        pass

    image = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    model = made(kind=Mine)
    agent = agent_of(model.bind(temperature=0))
    call(agent, {"messages": [HumanMessage("Look."), HumanMessage([image])]}, THREAD)
    assert marked(model) == ["system", 0]


@each("kind", [ChatOpenAI, Bound])
def test_requests_to_other_models_pass_as_they_are(call: Run, kind: Any) -> None:
    seen: list[Any] = []

    def look(request: Any) -> Any:
        seen.append(request)
        return (yield request)

    outer, inner = (wrap_model_call(name=name)(look) for name in ("outer", "inner"))
    stack: list[Any] = [outer, PromptCachingMiddleware(min_tokens=0), inner]
    call(create_agent(made(kind=kind), [find], middleware=stack), {"messages": ["Hi"]}, THREAD)
    assert seen[0] is seen[1]


def test_a_plain_function_that_a_layer_offers_is_not_marked(call: Run) -> None:
    @wrap_model_call
    def offers(request: Any) -> Any:
        return (yield request.override(tools=[*request.tools[:-1], look]))

    model = made()
    talk(call, agent_of(model, offers, tools=[find, look], caching={"min_tokens": 0}))
    assert [request.tools for request in model.requests] == [["find", "look"]]


def test_a_key_for_the_thread_leads_requests_to_one_cache(call: Run) -> None:
    """A key of the request is kept, and a run without a thread has none."""

    @wrap_model_call
    def keyed(request: Any) -> Any:
        return (yield request.override(model_settings={"prompt_cache_key": "mine"}))

    model = made(kind=ChatOpenAI)
    options = {"openai_cache_key": True}
    agent = agent_of(model, caching=options)
    for name in ("one", "one", "two"):
        call(agent, {"messages": ["Hi"]}, {"configurable": {"thread_id": name}})
    talk(call, agent_of(model, keyed, caching=options))
    call(agent_of(model, caching=options, checkpointer=None), {"messages": ["Hi"]})
    one, again, two, mine, none = (r.kwargs.get("prompt_cache_key") for r in model.requests)
    assert one == again != two
    assert len(one) == 32
    assert "one" not in one
    assert (mine, none) == ("mine", None)


# What a provider makes of the marks


class Cache:
    """Anthropic's cache, as its documentation describes it: entries at marks, 20 blocks back."""

    def __init__(self) -> None:
        self.entries: set[tuple[str, ...]] = set()

    def reads(self, blocks: list[tuple[str, bool]]) -> int:
        """How many blocks of a request are read; what is marked is written."""
        texts = [text for text, _ in blocks]
        marks = [index + 1 for index, (_, is_marked) in enumerate(blocks) if is_marked]
        assert len(marks) <= 4
        found = [
            at
            for mark in marks
            for at in range(mark, max(0, mark - 20), -1)
            if tuple(texts[:at]) in self.entries
        ]
        self.entries |= {tuple(texts[:mark]) for mark in marks}
        return max(found, default=0)


def blocks_of(tools: list[Any], messages: list[BaseMessage]) -> list[tuple[str, bool]]:
    """A request as blocks in the provider's order, each with whether it is marked."""
    client = [tool for tool in tools if isinstance(tool, BaseTool)]
    blocks = [(tool.name, "cache_control" in (tool.extras or {})) for tool in client]
    for message in messages:
        content = message.content if isinstance(message.content, list) else [message.content]
        for block in content:
            text = block if isinstance(block, str) else block["text"]
            blocks.append((f"{message.type} {text}", "cache_control" in block))
        blocks += [(json.dumps(c["args"]), False) for c in getattr(message, "tool_calls", ())]
    return blocks


FINDS = [{"name": "find", "args": {"query": f"A{n}"}} for n in range(30)]
STEPS = st.lists(
    st.just("Fine.") | st.integers(1, 30).map(lambda number: FINDS[:number]), min_size=1, max_size=6
)


def requests_of(steps: list[Any], *stack: Any) -> list[list[tuple[str, bool]]]:
    """The blocks of each request of four runs."""
    model = made([*steps, *["Done."] * 10])
    agent = agent_of(model, *stack, caching={"min_tokens": 0})
    for turn in range(4):
        agent.invoke({"messages": [f"Question {turn}"]}, THREAD)
    return [blocks_of(model.sent[n], r.messages) for n, r in enumerate(model.requests)]


@pytest.mark.long
@settings.get_profile("costly")
@given(STEPS)
def test_each_request_reads_all_that_the_one_before_it_sent(steps: list[Any]) -> None:
    """Also where one turn adds more blocks than a provider looks back."""
    cache, before = Cache(), 0
    for blocks in requests_of(steps):
        assert cache.reads(blocks) >= before
        before = len(blocks)


@settings.get_profile("costly")
@given(STEPS)
def test_what_changes_in_the_last_message_costs_no_more_than_that_message(steps: list[Any]) -> None:
    """Each request reads all that the one before the last one sent, except for its last message."""

    @wrap_model_call
    def clock(request: Any) -> Any:
        *before, last = request.messages
        shown = last.model_copy(update={"content": f"{last.text}, {len(before)} o'clock"})
        return (yield request.override(messages=[*before, shown]))

    cache, sent = Cache(), [0, 0]
    for blocks in requests_of([step[:15] for step in steps], clock):
        assert cache.reads(blocks) >= sent[-2]
        sent.append(len(blocks) - 1)


def test_marked_requests_keep_their_prefix() -> None:
    model = made([CALL, *["Yes."] * 10])
    agent = agent_of(model, TodoListMiddleware(), caching={"min_tokens": 0})
    assert_stable_prefix(agent, ["a", "b", "c"])
