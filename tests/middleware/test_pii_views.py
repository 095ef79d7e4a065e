"""What a guard removes is in no view: the input, old threads, what tools show, services."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langchain_core.tracers.context import collect_runs
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Overwrite, interrupt
from stack_agents import agent_of, kept_agent

from agent_factory import AgentMiddleware, ToolRuntime, agent_tool, before_agent, create_agent
from agent_factory.decisions import DecisionLog
from agent_factory.errors import ArgumentError
from agent_factory.middleware import HumanInTheLoopMiddleware, PIIDetectionError, PIIMiddleware
from agent_factory.service import Service
from agent_factory.testing import Reply, ScriptedChatModel
from samples import THREAD, Contact
from tables import each

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")

MARK = "[REDACTED_EMAIL]"
EVERYWHERE: Any = {"apply_to_output": True, "apply_to_tool_results": True}
HI: Any = {"messages": [("user", "hi")]}


def asks(name: str, **args: Any) -> list[Any]:
    return [{"name": name, "args": args, "id": "c1"}]


def old_history() -> list[Any]:
    return [
        HumanMessage("I am ada@x.org", id="1"),
        AIMessage("for ada@x.org", tool_calls=asks("look", who="ada@x.org"), id="2"),
        ToolMessage("found ada@x.org", tool_call_id="c1", id="3"),
        AIMessage("so ada@x.org", id="4"),
    ]


def look(who: str) -> str:
    """Look up."""
    return f"found {who}"


# What comes with the input, and what was stored before


@each(
    "update",
    [
        lambda messages: messages,
        Overwrite,
        lambda messages: {"__overwrite__": messages},
        lambda messages: [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages],
    ],
)
@each("asynchronous", [False, True])
def test_a_state_from_outside_is_guarded_or_refused(update: Any, asynchronous: bool) -> None:
    model, saver = ScriptedChatModel(["ok"]), InMemorySaver()
    guard = PIIMiddleware("email", **EVERYWHERE, apply_to_tool_calls=True)
    agent = create_agent(model, [look], middleware=[guard], checkpointer=saver)
    state = {"messages": update(old_history())}
    if asynchronous:
        asyncio.run(agent.aupdate_state(THREAD, state))
    else:
        agent.update_state(THREAD, state)
    assert "ada@" not in str(list(saver.list(None)))
    assert str(agent.get_state(THREAD).values).count(MARK) == 5
    agent.invoke({"messages": [("user", "go on")]}, THREAD)
    assert "ada@" not in str(model.requests)
    stack, saver = [PIIMiddleware("email", strategy="block")], InMemorySaver()
    blocking = create_agent(ScriptedChatModel([]), middleware=stack, checkpointer=saver)
    with pytest.raises(PIIDetectionError):
        blocking.update_state(THREAD, {"messages": [HumanMessage("ada@x.org")]})
    assert blocking.get_state(THREAD).values == {}


def test_a_thread_that_was_stored_and_paused_before_it_had_the_guard_is_guarded(call: Any) -> None:
    saver, review = InMemorySaver(), HumanInTheLoopMiddleware({"look": True})
    before = agent_of([asks("look", who="Eve")], review, tools=[look], checkpointer=saver)
    call(before, {"messages": old_history()}, THREAD)
    model = ScriptedChatModel(["ok", "ok"])
    stack: list[Any] = [PIIMiddleware("email", **EVERYWHERE), review]
    agent = create_agent(model, [look], middleware=stack, checkpointer=saver)
    call(agent, Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    result = call(agent, {"messages": [("user", "go on")]}, THREAD)
    assert "ada@" not in str([message.text for message in result["messages"]])
    assert "ada@" not in str([m.text for request in model.requests for m in request.messages])


def test_each_text_is_searched_once(call: Any) -> None:
    texts: list[str] = []

    def search(text: str) -> list[Any]:
        texts.append(text)
        return [{"start": at, "end": at + 1} for at, char in enumerate(text) if char == "7"]

    def tell() -> str:
        """Tell."""
        return "result 7"

    guard = PIIMiddleware("seven", detector=search, **EVERYWHERE)
    steps: list[Any] = [asks("tell"), "answer 7", asks("tell"), "answer 8"]
    agent = kept_agent(ScriptedChatModel(steps), guard, tools=[tell])
    call(agent, {"messages": [("user", "hello 7")]}, THREAD)
    assert sorted(filter(None, texts)) == ["answer 7", "hello 7", "result 7"]
    texts.clear()
    call(agent, {"messages": [("user", "hello 8")]}, THREAD)
    assert sorted(filter(None, texts)) == ["answer 8", "hello 8", "result 7"]


# A blocked input


def test_a_blocked_input_is_in_no_event_and_the_run_ends_at_its_first_node(call: Any) -> None:
    ran: list[str] = []

    @before_agent
    def first(state: Any, runtime: Any) -> None:
        ran.append("before_agent")

    saver, model = InMemorySaver(), ScriptedChatModel(["fine"])
    stack: list[Any] = [first, PIIMiddleware("email", strategy="block")]
    agent = create_agent(model, middleware=stack, checkpointer=saver)
    events: list[Any] = []

    async def watch() -> None:
        async for event in agent.astream_events({"messages": [("user", "ada@x.org")]}, THREAD):
            events.append(event)

    with pytest.raises(PIIDetectionError) as raised:
        asyncio.run(watch())
    assert [match["value"] for match in raised.value.matches] == ["ada@x.org"]
    assert "ada@" not in repr(events)
    assert "ada@" not in repr(list(saver.list(None)))
    assert ran == []
    assert call(agent, None, THREAD)["messages"][-1].text == "fine"
    assert model.requests[0].messages[0].text == MARK


def test_a_layer_around_the_run_reads_and_passes_on_what_is_guarded(call: Any) -> None:
    states: list[Any] = []

    class Around(AgentMiddleware):
        def around_agent(self, state: Any, *_: Any, **__: Any) -> Any:
            states.append(state)
            added = [*state["messages"], HumanMessage("and eve@x.org")]
            result = yield {**state, "messages": added}
            return {"messages": [*result["messages"], HumanMessage("or bob@x.org")]}

    saver, model = InMemorySaver(), ScriptedChatModel(["fine"])
    stack: list[Any] = [Around(), PIIMiddleware("email")]
    log: Any = DecisionLog(states.append, contents=True)
    agent = create_agent(model, middleware=stack, checkpointer=saver, decisions=log)
    result = call(agent, {"messages": [("user", "ada@x.org")]}, THREAD)
    assert "@x.org" not in repr([result, states, list(saver.list(None)), model.requests])
    assert result["messages"][-1].text == f"or {MARK}"


# What tools show


class Recorder(BaseCallbackHandler):
    raise_error = True

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def on_tool_start(self, serialized: Any, input_str: str, **kwargs: Any) -> None:
        self.events.append(("start", (input_str, kwargs["inputs"])))

    def on_tool_end(self, output: Any, **kwargs: Any) -> None:
        self.events.append(("end", output))

    def on_tool_error(self, error: BaseException, **kwargs: Any) -> None:
        self.events.append(("error", error))


@each("form", [lambda to: {"to": to}, lambda to: {to}, str.encode, lambda to: Contact(mail=to)])
def test_a_tool_works_with_the_data_and_shows_none(call: Any, form: Any) -> None:
    got: list[str] = []

    @tool(response_format="content_and_artifact")
    def send(to: str, runtime: ToolRuntime) -> Any:
        """Send."""
        got.append(to)
        return f"sent to {to}", form(to)

    handler = Recorder()
    model = ScriptedChatModel([asks("send", to="ada@x.org"), "ok"])
    agent = create_agent(model, [send], middleware=[PIIMiddleware("email", **EVERYWHERE)])
    messages = call(agent, HI, {"callbacks": [handler]})["messages"]
    assert got == ["ada@x.org"]
    (_, (text, inputs)), (_, output) = handler.events
    assert inputs == {"to": MARK}
    assert "ada@" not in text
    assert (output.content, output.artifact) == (f"sent to {MARK}", form(MARK))
    assert messages[2].content == f"sent to {MARK}"
    assert messages[2].artifact == form("ada@x.org"), "no model reads an artifact"


class Missing(Exception):
    def __init__(self, who: str) -> None:
        super().__init__(who)
        self.who = who

    def __str__(self) -> str:
        return f"{self.who} is missing"


@each(
    "error, expected",
    [
        (ValueError("no ada@x.org"), f"ValueError('no {MARK}')"),
        (Missing("ada@x.org"), f"RuntimeError('Missing: {MARK} is missing')"),
        (KeyError("x"), "KeyError('x')"),
    ],
)
def test_the_error_of_a_tool_is_shown_without_the_data(
    call: Any, error: Exception, expected: str
) -> None:
    def fails() -> str:
        """Fail."""
        try:
            raise OSError("eve@x.org")
        except OSError as cause:
            raise error from cause

    handler = Recorder()
    model = ScriptedChatModel([asks("fails"), "ok"])
    agent = create_agent(
        model, [fails], middleware=[PIIMiddleware("email", **EVERYWHERE)], handle_tool_errors=True
    )
    call(agent, HI, {"callbacks": [handler]})
    shown = handler.events[1][1]
    assert repr(shown) == expected
    assert shown.__cause__ is shown.__context__ is shown.__traceback__ is None
    assert "eve@" in str(error.__cause__), "the error itself is as it was"


def test_an_interrupt_of_a_tool_is_shown_as_it_is(call: Any) -> None:
    def ask() -> str:
        """Ask."""
        return str(interrupt("which?"))

    handler = Recorder()
    model = ScriptedChatModel([asks("ask"), "ok"])
    guard = PIIMiddleware("email", **EVERYWHERE)
    agent = create_agent(model, [ask], middleware=[guard], checkpointer=InMemorySaver())
    config = {**THREAD, "callbacks": [handler]}
    assert call(agent, HI, config)["__interrupt__"][0].value == "which?"
    assert call(agent, Command(resume="this"), config)["messages"][-2].text == "this"
    assert [kind for kind, _ in handler.events] == ["start", "error", "start", "end"]


def test_tokens_of_a_subagent_are_streamed_word_by_word(collect: Any) -> None:
    steps = [Reply(chunks=["Ask ", "ada", "@x.org", " or ", "Bob", " today."])]
    clerk = create_agent(ScriptedChatModel(steps), name="clerk")
    model = ScriptedChatModel([asks("clerk", request="who?"), "ok"])
    guard = PIIMiddleware("email", **EVERYWHERE)
    agent = create_agent(model, [agent_tool(clerk, description="d")], middleware=[guard])
    options: Any = {"stream_mode": "messages", "subgraphs": True}
    with collect_runs() as runs:
        parts = collect(agent, HI, **options)
    assert "ada@" not in repr([run.child_runs for run in runs.traced_runs])
    chunks = [chunk for namespace, (chunk, _) in parts if namespace]
    tokens = [chunk.text for chunk in chunks if isinstance(chunk, AIMessageChunk)]
    assert "".join(tokens) == f"Ask {MARK} or Bob today."
    assert len([token for token in tokens if token]) >= 4


def test_usage_of_a_model_and_of_another_in_a_tool_is_counted_once(call: Any) -> None:
    """By a handler of the context, which LangChain adds to each call that does not have it."""

    def saying(name: str) -> AIMessage:
        usage: Any = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
        return AIMessage("so", usage_metadata=usage, response_metadata={"model_name": name})

    def think() -> str:
        """Think."""
        return ScriptedChatModel([saying("inner")]).invoke("hi").text

    model = ScriptedChatModel([asks("think"), saying("outer")])
    agent = create_agent(model, [think], middleware=[PIIMiddleware("email", **EVERYWHERE)])
    with get_usage_metadata_callback() as counted:
        call(agent, HI)
    totals = {name: usage["total_tokens"] for name, usage in counted.usage_metadata.items()}
    assert totals == {"inner": 7, "outer": 7}


def test_what_is_remembered_of_texts_is_bounded() -> None:
    rule = PIIMiddleware("email").message_guard._rule
    for number in range(30):
        rule.apply(f"{number} " + "x" * 100_000)
    assert rule._size == sum(map(len, rule._texts)) <= 1_000_000


# Services


@pytest.fixture
def service(tmp_path: Any) -> Iterator[Service]:
    service = Service(f"sqlite:///{tmp_path}/service.db")
    yield service
    service.close()


def test_a_service_stores_and_shows_only_what_is_guarded(service: Service, tmp_path: Any) -> None:
    guard = PIIMiddleware("email", **EVERYWHERE)
    service.add("desk", agent_of([asks("look", who="Eve"), "so eve@x.org"], guard, tools=[look]))
    run = service.submit("desk", thread="t", message="I am ada@x.org")
    assert [message.text for message in run.messages] == [f"I am {MARK}"]
    assert "ada@" not in repr(service.threads.search())
    service.start()
    parts = list(run.stream())
    assert run.result(30.0)["messages"][-1].text == f"so {MARK}"
    assert "@x.org" not in repr(parts)
    service.stop()
    service.close()
    for file in tmp_path.iterdir():
        assert b"@x.org" not in file.read_bytes()


def test_a_service_refuses_a_message_that_is_blocked(service: Service) -> None:
    guard = PIIMiddleware("email", strategy="block")
    service.add("desk", create_agent(ScriptedChatModel([]), middleware=[guard]))
    with pytest.raises(ArgumentError, match="is refused by the agent"):
        service.submit("desk", thread="t", message="I am ada@x.org")
    assert list(service.threads.search()) == []
