"""The PII middleware: input, tool calls, tool results and blocked data."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Overwrite
from stack_agents import kept_agent

from agent_factory import (
    AgentMiddleware,
    ModelRequest,
    ModelResponse,
    TurnError,
    after_model,
    background,
    before_agent,
    before_model,
    create_agent,
    plan_agent,
    wrap_model_call,
)
from agent_factory.middleware import (
    BackgroundMiddleware,
    HumanInTheLoopMiddleware,
    PIIDetectionError,
    PIIMiddleware,
)
from agent_factory.structured_output import ToolStrategy
from agent_factory.testing import ScriptedChatModel
from samples import Contact
from tables import each

ONE: Any = {"configurable": {"thread_id": "1"}}
MARK = "[REDACTED_EMAIL]"
EVERYWHERE: Any = {"apply_to_output": True, "apply_to_tool_results": True}


def hello(text: Any = "I am ada@x.org") -> Any:
    return {"messages": [HumanMessage(text)]}


def seen(model: ScriptedChatModel, request: int = -1) -> list[Any]:
    return [message.content for message in model.requests[request].messages]


def test_every_user_message_is_redacted_before_the_model_reads_it(call: Any) -> None:
    model, stack = ScriptedChatModel(["a", "b"]), [PIIMiddleware("email"), PIIMiddleware("ip")]
    agent = create_agent(model, middleware=stack, checkpointer=InMemorySaver())
    history: list[AnyMessage] = [
        HumanMessage("ada@x.org", id="1"),
        AIMessage("bob@x.org said so"),
        HumanMessage([{"type": "text", "text": "or eve@x.org"}, "from 1.2.3.4"]),
        SystemMessage("Write to boss@x.org"),
    ]
    result = call(agent, {"messages": history}, ONE)
    expected: list[Any] = [
        MARK,
        "bob@x.org said so",
        [{"type": "text", "text": f"or {MARK}"}, "from [REDACTED_IP]"],
        "Write to boss@x.org",
    ]
    assert seen(model) == expected
    assert set(result) == {"messages"}
    assert result["messages"][0].id == "1"
    call(agent, hello("and zoe@x.org"), ONE)
    assert seen(model) == [*expected, "a", f"and {MARK}"]
    assert history[0].content == "ada@x.org", "the caller's own message is left alone"


def test_a_message_that_replaces_an_earlier_one_is_checked(call: Any) -> None:
    """As from a client that sends the whole conversation with each request."""
    model = ScriptedChatModel(["a", "b", "c"])
    agent = create_agent(model, middleware=[PIIMiddleware("email")], checkpointer=InMemorySaver())
    first, second = HumanMessage("ada@x.org", id="1"), HumanMessage("hi", id="2")
    call(agent, {"messages": [first]}, ONE)
    call(agent, {"messages": [first, second]}, ONE)
    assert seen(model) == [MARK, "a", "hi"]
    call(agent, {"messages": [first, second]}, ONE)
    assert seen(model) == [MARK, "a", "hi", "b"]


def test_all_messages_are_checked_if_the_last_checked_one_is_missing(call: Any) -> None:
    looked: list[str] = []
    guard = PIIMiddleware("mine", detector=lambda text: looked.append(text) or [])  # type: ignore[func-returns-value]
    agent = kept_agent(["a", "b"], guard)
    call(agent, {"messages": [HumanMessage("one", id="1"), HumanMessage("two", id="2")]}, ONE)
    looked.clear()
    call(agent, {"messages": [RemoveMessage(id="2"), HumanMessage("three")]}, ONE)
    assert set(looked) == {"one", "three"}


@each("role", ["user", "human", "User"])
def test_a_chat_message_in_the_role_of_the_user_is_checked(call: Any, role: str) -> None:
    """In the input, and added during the run."""

    @before_model
    def inject(state: Any, runtime: Any) -> Any:
        return {"messages": [ChatMessage(content="bob@x.org", role=role)]}

    model = ScriptedChatModel(["ok"])
    agent = create_agent(model, middleware=[inject, PIIMiddleware("email")])
    written = [
        ChatMessage(content="ada@x.org", role=role),
        ChatMessage(content="eve@x.org", role="assistant"),
    ]
    call(agent, {"messages": [*written, HumanMessage("hi")]})
    assert seen(model) == [MARK, "eve@x.org", "hi", MARK]
    blocking = PIIMiddleware("email", strategy="block")
    with pytest.raises(PIIDetectionError):
        call(create_agent(ScriptedChatModel([]), middleware=[blocking]), {"messages": written})


@each("role", ["assistant", "AI"])
def test_a_chat_message_in_the_role_of_the_model_is_an_answer(call: Any, role: str) -> None:
    @wrap_model_call
    def add(request: Any) -> Any:
        response = yield request
        said = ChatMessage(content="ada@x.org", role=role)
        critic = ChatMessage(content="eve@x.org", role="critic")
        return replace(response, result=[said, critic, *response.result])

    guard = PIIMiddleware("email", apply_to_output=True)
    agent = create_agent(ScriptedChatModel(["ok"]), middleware=[guard, add])
    messages = call(agent, hello("hi"))["messages"]
    assert [message.content for message in messages] == ["hi", MARK, "eve@x.org", "ok"]


@each(
    "message",
    [HumanMessage("hi", name="ada@x.org"), ChatMessage(content="hi", role="user", name="a@x.org")],
)
def test_the_name_of_a_user_is_redacted(call: Any, message: Any) -> None:
    model = ScriptedChatModel(["ok"])
    result = call(create_agent(model, middleware=[PIIMiddleware("email")]), {"messages": [message]})
    assert result["messages"][0].name == model.requests[0].messages[0].name == MARK


def test_messages_of_a_tool_are_checked_and_names_of_tools_and_agents_are_unchanged(
    call: Any,
) -> None:
    @tool
    def ada_1() -> Any:
        """Ada."""
        written = [HumanMessage("I am ada_4", name="ada_2"), AIMessage("hi", name="ada_2")]
        return Command(update={"messages": [ToolMessage("ok", tool_call_id="c1"), *written]})

    guard = PIIMiddleware("who", detector=r"ada_\d", **EVERYWHERE)
    model = ScriptedChatModel([[{"name": "ada_1", "args": {}, "id": "c1"}], "ok"])
    agent = create_agent(model, [ada_1], middleware=[guard], name="ada_3")
    messages = call(agent, hello("hi"))["messages"]
    names = [None, "ada_3", "ada_1", "[REDACTED_WHO]", "ada_2", "ada_3"]
    assert [message.name for message in messages] == names
    assert seen(model)[-2] == "I am [REDACTED_WHO]"


@each(
    "result",
    [
        ToolMessage("ada@x.org", tool_call_id="c1"),
        FunctionMessage(content="ada@x.org", name="look_up"),
        ChatMessage(content="ada@x.org", role="tool"),
        ChatMessage(content="ada@x.org", role="function"),
    ],
)
def test_a_result_that_a_client_sends_is_redacted(call: Any, result: Any) -> None:
    """A tool that runs at the client's is not called by the agent."""
    asked = AIMessage("", tool_calls=[{"name": "look_up", "args": {}, "id": "c1"}])
    if not isinstance(result, ToolMessage):
        asked = AIMessage("Look up.")
    results = PIIMiddleware("email", apply_to_input=False, apply_to_tool_results=True)
    model = ScriptedChatModel(["ok"])
    messages = [HumanMessage("eve@x.org"), asked, result]
    call(create_agent(model, middleware=[results]), {"messages": messages})
    assert seen(model) == ["eve@x.org", asked.content, MARK]
    blocking = PIIMiddleware("email", strategy="block", apply_to_tool_results=True)
    agent = create_agent(model, middleware=[blocking], checkpointer=InMemorySaver())
    with pytest.raises(PIIDetectionError):
        call(agent, {"messages": [asked, result]}, ONE)
    assert "ada@" not in str(agent.get_state(ONE))


class TestWithoutARun:
    """Hooks that are called on their own, as unit tests do, and by subclasses."""

    @pytest.fixture(params=["sync", "async"])
    def hook(self, request: pytest.FixtureRequest) -> Any:
        """Call a hook of a middleware: `hook(guard, "before_model", messages)`."""

        def sync(guard: Any, name: str, messages: list[Any]) -> Any:
            return getattr(guard, name)({"messages": messages}, None)

        def a(guard: Any, name: str, messages: list[Any]) -> Any:
            return asyncio.run(getattr(guard, f"a{name}")({"messages": messages}, None))

        return sync if request.param == "sync" else a

    def test_before_model_redacts_users_and_the_last_results(self, hook: Any) -> None:
        asked = AIMessage("bob@x.org", tool_calls=[{"name": "f", "args": {}, "id": "1"}])
        result = ToolMessage("eve@x.org", tool_call_id="1")
        messages = [HumanMessage("ada@x.org"), asked, result]
        update = hook(PIIMiddleware("email"), "before_model", messages)
        assert update == {"messages": [HumanMessage(MARK), asked, result]}
        guard = PIIMiddleware("email", apply_to_tool_results=True)
        update = hook(guard, "before_model", messages)
        cleaned = ToolMessage(MARK, tool_call_id="1")
        assert update == {"messages": [HumanMessage(MARK), asked, cleaned]}
        assert hook(guard, "before_model", update["messages"]) is None
        assert messages[0].content == "ada@x.org"

    def test_they_work_as_part_of_another_middleware(self, call: Any) -> None:
        inner = PIIMiddleware("email", apply_to_output=True)
        before = before_model(name="before")(inner.before_model)
        stack: list[Any] = [before, after_model(name="after")(inner.after_model)]
        model = ScriptedChatModel(["bob@x.org"])
        messages = call(create_agent(model, middleware=stack), hello("ada@x.org"))["messages"]
        assert [m.text for m in messages] == [MARK, MARK]
        assert seen(model) == [MARK]

    def test_after_model_redacts_the_last_answer(self, hook: Any) -> None:
        asked = HumanMessage("ada@x.org")
        messages = [asked, AIMessage("bob@x.org", id="1"), asked]
        guard = PIIMiddleware("email", apply_to_output=True)
        update = hook(guard, "after_model", messages)
        assert update == {"messages": [asked, AIMessage(MARK, id="1"), asked]}
        assert hook(guard, "after_model", update["messages"]) is None
        assert hook(PIIMiddleware("email"), "after_model", messages) is None
        assert hook(guard, "after_model", []) is None
        (broken,) = hook(guard, "after_model", [invalid_answer()])["messages"]
        assert "ada@" not in repr(broken)

    def test_a_flow_guards_what_is_sent_into_it(self) -> None:
        guard = PIIMiddleware("email", **EVERYWHERE)
        model: Any = guard.around_model(
            ModelRequest(model=ScriptedChatModel([]), messages=[HumanMessage("hi")])
        )
        next(model)
        with pytest.raises(StopIteration) as answered:
            model.send(ModelResponse([AIMessage("ada@x.org")]))
        assert answered.value.value.result[0].text == MARK
        around: Any = guard.around_tool(None)  # type: ignore[arg-type]  # it is only passed on
        next(around)
        with pytest.raises(StopIteration) as returned:
            around.send(ToolMessage("ada@x.org", tool_call_id="1"))
        assert returned.value.value.content == MARK


@each("strategy", ["redact", "mask", "hash"])
@each("apply_to_input", [True, False])
def test_a_subclass_that_overrides_hooks_guards_once_and_blocks(
    call: Any, strategy: Any, apply_to_input: bool
) -> None:
    ran: list[str] = []

    class Counting(PIIMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            ran.append("before_model")
            return super().before_model(state, runtime)

        def after_model(self, state: Any, runtime: Any) -> Any:
            ran.append("after_model")
            return super().after_model(state, runtime)

    options: Any = {"apply_to_input": apply_to_input, **EVERYWHERE}
    guard = Counting("order", strategy=strategy, detector=r"\d{3,}", **options)

    def look_up() -> str:
        """Look up."""
        return "20261122"

    model = ScriptedChatModel([[{"name": "look_up", "args": {}}], "It is 20261122."])
    agent = create_agent(model, [look_up], middleware=[guard], checkpointer=InMemorySaver())
    messages = call(agent, hello("order 20261122"), ONE)["messages"]
    once = guard.rule.apply("20261122")
    asked = once if apply_to_input else "20261122"
    assert [m.text for m in messages] == [f"order {asked}", "", once, f"It is {once}."]
    assert ran == ["before_model", "after_model"] * 2
    blocking = Counting("email", strategy="block", apply_to_output=True)
    agent = create_agent(ScriptedChatModel(["ada@x.org", "ok"]), middleware=[blocking])
    for text in ("ada@x.org", "hi"):
        with pytest.raises(PIIDetectionError):
            call(agent, hello(text))
    assert call(agent, hello("hi"))["messages"][-1].text == "ok"


def test_a_blocked_message_ends_the_run_and_the_thread_stays_usable(call: Any) -> None:
    ran: list[str] = []

    @before_model
    def behind(state: Any, runtime: Any) -> None:
        ran.append("before_model")

    model = ScriptedChatModel(["fine", "again"])
    stack: list[Any] = [PIIMiddleware("email", strategy="block"), behind]
    agent = create_agent(model, middleware=stack, checkpointer=InMemorySaver())
    with pytest.raises(PIIDetectionError) as raised:
        call(agent, hello(), ONE)
    assert [match["value"] for match in raised.value.matches] == ["ada@x.org"]
    assert isinstance(raised.value, TurnError)
    assert not ran
    assert not model.requests
    assert "ada@" not in str(agent.get_state(ONE))
    call(agent, hello("I am Ada"), ONE)
    assert seen(model) == [f"I am {MARK}", "I am Ada"]
    with pytest.raises(PIIDetectionError):
        call(agent, hello("bob@x.org"), ONE)
    # A resumed run continues without the data.
    assert call(agent, None, ONE)["messages"][-1].text == "again"
    assert seen(model) == [f"I am {MARK}", "I am Ada", "fine", MARK]


@each("fused", [True, False])
@each("phase", [before_agent, before_model, after_model])
def test_a_blocked_message_of_a_hook_ends_one_run(call: Any, phase: Any, fused: bool) -> None:
    def reads_a_mailbox(state: Any, runtime: Any) -> Any:
        if MARK in [message.text for message in state["messages"]]:
            return None
        jump = {"jump_to": "model"} if phase is after_model else {}
        return {"messages": [HumanMessage("ada@x.org")], **jump}

    model, saver = ScriptedChatModel(["a"] * 2), InMemorySaver()
    reader = phase(can_jump_to=["model"])(reads_a_mailbox)
    stack = [reader, PIIMiddleware("email", strategy="block")]
    agent = create_agent(model, middleware=stack, checkpointer=saver, fused=fused)
    with pytest.raises(PIIDetectionError):
        call(agent, hello("hi"), ONE)
    call(agent, hello("Well?"), ONE)
    assert seen(model)[-2:] == [MARK, "Well?"]
    assert "ada@" not in f"{saver.storage}{saver.blobs}{saver.writes}"


def test_a_job_whose_result_is_blocked_fails(call: Any) -> None:
    def look_up() -> str:
        """Look up."""
        return "ada@x.org"

    stack: Any = [BackgroundMiddleware(), PIIMiddleware("email", strategy="block")]
    model = ScriptedChatModel([[{"name": "look_up", "args": {}}], *["a"] * 2])
    saver = InMemorySaver()
    agent = create_agent(model, [background(look_up)], middleware=stack, checkpointer=saver)
    call(agent, hello("hi"), ONE)
    (result,) = [m.text for m in agent.get_state(ONE).values["messages"] if m.name == "background"]
    assert "has failed" in result
    assert "the strategy is 'block'" in result
    assert "ada@" not in f"{saver.storage}{saver.blobs}{saver.writes}"


@tool(response_format="content_and_artifact")
def report() -> Any:
    """Report."""
    return [{"type": "text", "text": "ada@x.org"}], {"mail": "ada@x.org"}


@each("form", [dict, list, Overwrite])
def test_a_tool_result_given_by_a_layer_is_redacted(call: Any, form: Any) -> None:
    asked = AIMessage("", tool_calls=[{"name": "report", "args": {}, "id": "c1"}])
    written = [HumanMessage("ada@x.org"), asked, ToolMessage("bob@x.org", tool_call_id="c1")]
    messages = Overwrite(written) if form is Overwrite else written
    update: Any = [("messages", messages)] if form is list else {"messages": messages}

    class Forgets(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            return Command(update=update)
            yield

    model = ScriptedChatModel([asked, "ok"])
    guard = PIIMiddleware("email", apply_to_tool_results=True)
    call(create_agent(model, [report], middleware=[guard, Forgets()]), hello("hi"))
    assert seen(model)[-3:] == [MARK, "", MARK]


def test_arguments_are_redacted_before_a_tool_gets_them(call: Any) -> None:
    """Arguments from the model, and those that a reviewer replaced."""
    got: list[Any] = []

    def send(to: str, copies: list[dict[str, str]], card: Any, urgent: bool) -> str:
        """Send."""
        got.append((to, copies, card, urgent))
        return "sent"

    arguments = {"to": "ada@x.org", "copies": [{"bob@x.org": "eve@x.org"}], "urgent": True}
    arguments["card"] = 4242424242424242
    model = ScriptedChatModel([[{"name": "send", "args": arguments, "id": "c1"}], "ok"])
    guards = [PIIMiddleware(kind, apply_to_tool_calls=True) for kind in ("email", "credit_card")]
    stack: list[Any] = [HumanInTheLoopMiddleware({"send": True}), *guards]
    agent = create_agent(model, [send], middleware=stack, checkpointer=InMemorySaver())
    asked = call(agent, hello("hi"), ONE)
    assert "@x.org" not in str(asked)
    decision = {"type": "edit", "edited_action": {"name": "send", "args": arguments}}
    changed = call(agent, Command(resume={"decisions": [decision]}), ONE)
    # What runs is not what the reviewer wrote, so they are asked about it.
    (asked,) = changed["__interrupt__"]
    assert asked.value["args"]["to"] == MARK
    call(agent, Command(resume={"type": "approve"}), ONE)
    assert got == [(MARK, [{MARK: MARK}], "[REDACTED_CREDIT_CARD]", True)]


CUT = '{"to": "ada@x.org", "note": '


def invalid_answer() -> AIMessage:
    """A call that cannot be read, as a provider repeats it in several places."""
    broken = invalid_tool_call(name="send", args=CUT, id="c1", error="no value after ada@x.org")
    raw = {"id": "c1", "type": "function", "function": {"name": "send", "arguments": CUT}}
    block: Any = {"type": "function_call", "call_id": "c1", "name": "send", "arguments": CUT}
    more = {"tool_calls": [raw], "function_call": {"name": "send", "arguments": CUT}}
    return AIMessage([{**broken}, block], invalid_tool_calls=[broken], additional_kwargs=more)


def send(to: str, note: str) -> str:
    """Send."""
    raise AssertionError("a call that cannot be read runs no tool")


PLACES = ("apply_to_output", "apply_to_tool_calls", "apply_to_tool_results")


@each("place", PLACES)
@each("strategy", ["redact", "mask", "hash"])
def test_a_call_that_cannot_be_read_is_redacted_with_its_error(
    call: Any, place: str, strategy: Any
) -> None:
    """In the answer, and in the error message by which the model learns of it."""
    options: Any = {"apply_to_input": False, place: True}
    model = ScriptedChatModel([invalid_answer(), "ok"])
    guard = PIIMiddleware("email", strategy=strategy, **options)
    messages = call(create_agent(model, [send], middleware=[guard]), hello("hi"))["messages"]
    assert "ada@" not in repr(messages)
    assert "ada@" not in repr(model.requests)
    mark = guard.rule.apply("ada@x.org")
    (invalid,) = messages[1].invalid_tool_calls
    assert invalid["args"] == CUT.replace("ada@x.org", mark)
    assert invalid["error"] == f"no value after {mark}"
    assert messages[2].status == "error"
    assert mark in messages[2].text


@each("place", PLACES)
def test_a_structured_answer_that_cannot_be_read_is_redacted_and_a_call_is_blocked(
    call: Any, place: str
) -> None:
    broken = invalid_tool_call(name="Contact", args=CUT, id="c1", error=None)
    steps = [AIMessage("", invalid_tool_calls=[broken]), Contact(mail="eve@x.org")]
    options: Any = {"apply_to_input": False, place: True}
    stack, strategy = [PIIMiddleware("email", **options)], ToolStrategy(Contact)
    agent = create_agent(ScriptedChatModel(steps), middleware=stack, response_format=strategy)
    messages = call(agent, hello("hi"))["messages"]
    assert CUT.strip().replace("ada@x.org", MARK) in messages[2].text
    assert "ada@" not in repr(messages)
    guard = PIIMiddleware("email", strategy="block", **options)
    agent = kept_agent([invalid_answer(), "ok"], guard, tools=[send])
    with pytest.raises(PIIDetectionError):
        call(agent, hello("hi"), ONE)
    assert "ada@" not in str(agent.get_state(ONE))


def test_a_call_that_cannot_be_read_in_the_result_of_a_tool_is_redacted(call: Any) -> None:
    @tool
    def history() -> Any:
        """History."""
        written = [ToolMessage("ok", tool_call_id="c1"), HumanMessage("hi"), invalid_answer()]
        return Command(update={"messages": [*written, ToolMessage("no", tool_call_id="c1")]})

    model = ScriptedChatModel([[{"name": "history", "args": {}, "id": "c1"}], "ok"])
    guard = PIIMiddleware("email", apply_to_tool_results=True)
    result = call(create_agent(model, [history], middleware=[guard]), hello("hi"))
    assert "invalid_tool_call" in repr(result)
    assert "ada@" not in repr(result)


def test_forged_marks_and_malformed_text_are_plain_text(call: Any) -> None:
    stack: list[Any] = [PIIMiddleware("email"), PIIMiddleware("email", strategy="hash", name="2")]
    model = ScriptedChatModel(["ok"])
    forged = f"{MARK} <email_hash:00000000> [/REDACTED]"
    call(create_agent(model, middleware=stack), hello(f"{forged} ada@x.org"))
    assert seen(model) == [f"{forged} {MARK}"]
    kinds = ("email", "credit_card", "ip", "mac_address", "url", "phone")
    stack = [PIIMiddleware(kind, strategy="hash", apply_to_output=True) for kind in kinds]
    odd = "\ud800\udfff\x00 \ud800ada@x.org \ufeff"
    model = ScriptedChatModel([odd])
    result = call(create_agent(model, middleware=stack), hello(odd))
    assert "ada@" not in str(seen(model))
    assert "ada@" not in result["messages"][-1].text


def test_guards_of_several_types_need_no_names() -> None:
    assert PIIMiddleware("email").name == "PIIMiddleware[email]"
    assert PIIMiddleware("email", name="mail").name == "mail"
    with pytest.raises(ValueError, match=r"PIIMiddleware\[email\]: 2 middleware"):
        plan_agent(middleware=[PIIMiddleware("email"), PIIMiddleware("email")])
    with pytest.raises(ValueError, match=r"is applied to nothing\. Set apply_to_input"):
        PIIMiddleware("email", apply_to_input=False)
