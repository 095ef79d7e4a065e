"""Invalid histories are repaired with the smallest change, in threads and for models (wanted 3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from agent_factory import before_model, create_agent, wrap_model_call
from agent_factory.state import history
from agent_factory.state.history import UNANSWERED, ValidatedPrefix, call_ids, is_valid, repair
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, add, tool_call
from tables import each
from waiting import cancel


def ai(*ids: str, bad: tuple[str, ...] = ()) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[tool_call(f"tool_{id}", id) for id in ids],
        invalid_tool_calls=[
            {**tool_call(f"tool_{id}", id), "args": "{", "error": None, "type": "invalid_tool_call"}
            for id in bad
        ],
    )


def result(id: str, text: str = "result") -> ToolMessage:
    return ToolMessage(text, tool_call_id=id)


def user(text: str = "more") -> HumanMessage:
    return HumanMessage(text)


def shown(messages: Any) -> list[str]:
    """Messages as short words: the type, and what a tool message answers."""
    return [
        f"tool {m.tool_call_id}{' !' * (m.text == UNANSWERED)}" if m.type == "tool" else m.type
        for m in messages
    ]


BROKEN: list[tuple[str, list[AnyMessage], list[str]]] = [
    ("a call left open", [user(), ai("a")], ["human", "ai", "tool a !"]),
    ("one of two left open", [ai("a", "b"), result("b")], ["ai", "tool b", "tool a !"]),
    ("an unreadable call left open", [ai(bad=("a",)), user()], ["ai", "tool a !", "human"]),
    ("a new question in between", [ai("a"), user()], ["ai", "tool a !", "human"]),
    ("an answer after it", [ai("a"), user(), result("a")], ["ai", "tool a", "human"]),
    ("an answer to nothing", [user(), result("x")], ["human"]),
    ("an answer before any call", [result("x"), user()], ["human"]),
    ("a second answer", [ai("a"), result("a", "1"), result("a", "2")], ["ai", "tool a"]),
    ("an id used again", [ai("a"), ai("a"), result("a")], ["ai", "tool a !", "ai", "tool a"]),
    (
        "an answer to a later call stays there",
        [ai("a"), result("a"), ai("a")],
        ["ai", "tool a", "ai", "tool a !"],
    ),
    (
        "an answer between two speakers",
        [ai("a"), AIMessage("x"), result("a")],
        ["ai", "tool a", "ai"],
    ),
]


@each("messages, valid", [case[1:] for case in BROKEN])
def test_an_invalid_history_is_repaired(messages: list[AnyMessage], valid: list[str]) -> None:
    assert not is_valid(messages)
    assert shown(repaired_of(messages).messages) == valid


def repaired_of(messages: list[AnyMessage]) -> Any:
    repaired = repair(messages)
    assert repaired is not None
    return repaired


def test_a_call_left_open_is_answered_with_an_error_that_names_its_tool() -> None:
    added = repaired_of([ai("a")]).messages[-1]
    assert (added.tool_call_id, added.name, added.status) == ("a", "tool_a", "error")
    assert added.id is not None


def test_what_is_missing_at_the_end_is_only_added_and_what_is_too_much_only_removed() -> None:
    """The thread is not rewritten for it."""
    repaired = repaired_of(with_ids([user(), ai("a"), result("a"), ai("b")]))
    assert shown(repaired.update) == ["tool b !"]
    messages = with_ids([user(), ai("a"), result("a"), result("x"), user()])
    update = repaired_of(messages).update
    assert [(m.type, m.id) for m in update] == [("remove", messages[3].id)]


def test_calls_without_an_id_cannot_be_answered_and_count_for_nothing() -> None:
    nameless: Any = {"name": "x", "args": {}, "id": None}
    assert repair([AIMessage("", tool_calls=[nameless]), user()]) is None


ids = st.sampled_from("abc")
messages_of_any_kind = st.one_of(
    st.builds(user, st.just("u")),
    st.builds(lambda: SystemMessage("s")),
    st.builds(lambda: AIMessage("words")),
    st.builds(
        lambda calls, bad: ai(*calls, bad=tuple(bad)),
        st.lists(ids, max_size=3),
        st.lists(ids, max_size=1),
    ),
    st.builds(result, st.sampled_from("abcx"), st.sampled_from(["1", "2"])),
)
histories = st.lists(messages_of_any_kind, max_size=12)


def with_ids(messages: list[AnyMessage]) -> list[AnyMessage]:
    """The messages as the thread holds them."""
    held: Any = add_messages([], list(messages))  # type: ignore[arg-type]
    return list(held)


def a_model_may_see(messages: list[AnyMessage]) -> bool:
    """What providers ask for, said in another way: the answers of a message follow it at once."""
    position = 0
    while position < len(messages):
        message = messages[position]
        position += 1
        if isinstance(message, ToolMessage):
            return False
        if isinstance(message, AIMessage):
            answered = []
            while position < len(messages) and isinstance(messages[position], ToolMessage):
                answered.append(getattr(messages[position], "tool_call_id", None))
                position += 1
            if sorted(map(str, answered)) != sorted(set(call_ids(message))):
                return False
    return True


@given(histories)
def test_what_providers_ask_for_is_valid_and_is_left_alone(messages: list[AnyMessage]) -> None:
    before = list(messages)
    assert is_valid(messages) is (repair(messages) is None) is a_model_may_see(messages)
    assert list(map(id, messages)) == list(map(id, before)), "the list itself never changes"


@given(histories)
def test_a_repaired_history_is_valid_and_becomes_that_of_the_thread(
    messages: list[AnyMessage],
) -> None:
    held = with_ids(messages)
    repaired = repair(held)
    valid = held if repaired is None else repaired.messages
    assert a_model_may_see(valid)
    assert repair(valid) is None
    if repaired:
        written: Any = add_messages(held, repaired.update)  # type: ignore[arg-type]
        assert list(written) == valid


@given(histories)
def test_other_messages_stay_as_they_are_and_no_answer_is_made_up(
    messages: list[AnyMessage],
) -> None:
    if repaired := repair(messages):
        before = [id(m) for m in messages if not isinstance(m, ToolMessage)]
        assert before == [id(m) for m in repaired.messages if not isinstance(m, ToolMessage)]
        known = {id(m) for m in messages}
        kept = [id(m) for m in repaired.messages if id(m) in known]
        assert len(set(kept)) == len(kept)
        assert all(m.text == UNANSWERED for m in repaired.messages if id(m) not in known)


@given(histories)
def test_an_answer_that_stands_right_stays(messages: list[AnyMessage]) -> None:
    """Minimal: only what is missing, doubled, misplaced or unasked for is touched."""
    repaired = repair(messages)
    valid = messages if repaired is None else repaired.messages
    kept = {id(m) for m in valid}
    for index, message in enumerate(messages):
        if not isinstance(message, AIMessage):
            continue
        seen: set[str] = set()
        for answer in messages[index + 1 :]:
            if not isinstance(answer, ToolMessage):
                break
            if answer.tool_call_id in call_ids(message) and answer.tool_call_id not in seen:
                seen.add(answer.tool_call_id)
                assert id(answer) in kept


@given(histories, histories)
def test_valid_messages_are_not_read_again(first: list[AnyMessage], rest: list[AnyMessage]) -> None:
    valid = repair(first)
    known = first if valid is None else valid.messages
    whole = [*known, *rest]
    assert is_valid(whole, len(known)) is is_valid(whole)
    looked_at_all, spared = repair(whole), repair(whole, len(known))
    assert (looked_at_all is None) is (spared is None)
    if looked_at_all and spared:
        assert shown(spared.messages) == shown(looked_at_all.messages)


def test_a_run_remembers_how_far_it_alone_has_looked_unless_the_history_changes() -> None:
    """The same id does not make it the same message."""
    seen, run = ValidatedPrefix(), object()
    messages = with_ids([user(), ai("a"), result("a")])
    assert seen.of(run, messages) == 0
    seen.remember(run, messages)
    assert seen.of(run, messages) == seen.of(run, [*messages, user()]) == 3
    assert seen.of(object(), messages) == 0
    assert seen.of(run, messages[:2]) == 0
    assert seen.of(run, with_ids([user(), ai("a"), result("a")])) == 0
    changed = [messages[0], AIMessage("no calls", id=messages[1].id), messages[2]]
    assert repair(changed, seen.of(run, changed)) is not None


def test_what_another_node_of_the_run_remembers_meanwhile_does_not_count() -> None:
    seen, run = ValidatedPrefix(), object()
    messages = with_ids([user()])
    seen.remember(run, messages)

    class Meanwhile(list[Any]):
        """A history during whose comparison a parallel node validates a longer one."""

        def __getitem__(self, at: Any) -> Any:
            seen.remember(run, [*messages, user(), user()])
            return super().__getitem__(at)

    assert seen.of(run, Meanwhile([*messages, ai("a")])) == 1


def test_runs_that_ended_and_all_but_the_latest_are_forgotten() -> None:
    seen, run, other = ValidatedPrefix(), object(), object()
    messages = with_ids([user()])
    seen.remember(run, messages)
    seen.remember(other, messages)
    seen.forget(run)
    assert (seen.of(run, messages), seen.of(other, messages)) == (0, 1)
    later = [object() for _ in range(ValidatedPrefix.SIZE)]
    for run in later:
        seen.remember(run, messages)
    assert all(seen.of(run, messages) for run in later)
    assert seen.of(other, messages) == 0


def ask(text: str = "2 + 3?") -> Any:
    return {"messages": [("user", text)]}


def calls(*ids: str, name: str = "add") -> list[dict[str, Any]]:
    return [{"name": name, "args": {"a": 2, "b": 3}, "id": id} for id in ids]


def kinds(messages: Any) -> list[str]:
    return [m.type for m in messages]


def careful(*steps: Any) -> ScriptedChatModel:
    """A model that refuses what a provider would refuse."""

    def checked(step: Any) -> Any:
        def answer(messages: Any) -> Any:
            assert is_valid(messages), kinds(messages)
            return step

        return answer

    return ScriptedChatModel([checked(step) for step in steps])


async def test_a_new_question_after_a_cancelled_run() -> None:
    started = asyncio.Event()

    @tool("add")
    async def slow(a: int, b: int) -> int:
        """Add two numbers."""
        started.set()
        await asyncio.Event().wait()
        return a + b

    model = careful(calls("a"), "Here.")
    agent = create_agent(model, [slow], checkpointer=InMemorySaver())
    task = asyncio.create_task(agent.ainvoke(ask(), THREAD))
    await asyncio.wait_for(started.wait(), timeout=60)
    await cancel(task)
    result = await agent.ainvoke(ask("Are you there?"), THREAD)
    assert kinds(result["messages"]) == ["human", "ai", "tool", "human", "ai"]


def test_a_call_that_a_repair_answered_is_not_sent_to_the_tool_again(call: Any) -> None:
    ran: list[str] = []

    @tool("add")
    def counted(a: int, b: int) -> int:
        """Add two numbers."""
        ran.append("add")
        return a + b

    agent = create_agent(careful("Fine."), [counted])
    asked: Any = calls("a")
    call(agent, {"messages": [HumanMessage("q"), AIMessage("", tool_calls=asked)]})
    assert ran == []


@each("keep", range(1, 6))
def test_a_layer_may_cut_the_history_anywhere(call: Any, keep: int) -> None:
    """And the thread keeps all of it."""

    @wrap_model_call
    def short(request: Any) -> Any:
        return (yield request.override(messages=request.messages[-keep:]))

    model = careful(calls("a", "b"), calls("c"), "Done.")
    result = call(create_agent(model, [add], middleware=[short], system_prompt="Sum."), ask())
    assert kinds(result["messages"]) == ["human", "ai", "tool", "tool", "ai", "tool", "ai"]
    assert UNANSWERED not in [m.text for m in result["messages"]]


@each("keep", range(1, 6))
def test_a_hook_may_cut_the_history_anywhere(call: Any, keep: int) -> None:
    @before_model
    def short(state: Any, runtime: Any) -> Any:
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *state["messages"][-keep:]]}

    model = careful(calls("a", "b"), calls("c"), "Done.")
    result = call(create_agent(model, [add], middleware=[short], system_prompt="Sum."), ask())
    assert is_valid(result["messages"])
    model.assert_done()


def test_an_answer_given_for_a_pending_call_is_kept(call: Any) -> None:
    """A person answers in the tool's place, and asks on."""
    model = careful(calls("a"), "Fine.")
    agent = create_agent(model, [add], checkpointer=InMemorySaver(), interrupt_before=["tools"])
    call(agent, ask(), THREAD)
    answer = ToolMessage("It is 5, I know.", tool_call_id="a")
    result = call(agent, {"messages": [answer, HumanMessage("Go on.")]}, THREAD)
    assert kinds(result["messages"]) == ["human", "ai", "tool", "human", "ai"]
    assert result["messages"][2].text == "It is 5, I know."


def test_a_long_run_validates_each_message_once(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """wanted 12: what one turn has looked at is not looked at again by the next."""
    looked: list[int] = []
    really = history.is_valid

    def counting(messages: Any, start: int = 0) -> bool:
        looked.append(len(messages) - start)
        return really(messages, start)

    monkeypatch.setattr(history, "is_valid", counting)
    model = careful(*(calls(f"c{n}") for n in range(20)), "Done.")
    result = call(create_agent(model, [add]), ask())
    assert sum(looked) <= len(result["messages"])


any_id = st.sampled_from("abc")
any_history = st.lists(
    st.one_of(
        st.builds(lambda: HumanMessage("u")),
        st.builds(lambda: SystemMessage("s")),
        st.builds(lambda ids: AIMessage("", tool_calls=calls(*ids)), st.lists(any_id, max_size=2)),
        st.builds(lambda id: ToolMessage("r", tool_call_id=id), any_id),
    ),
    min_size=1,
    max_size=8,
)


@given(first=any_history, second=any_history)
def test_any_messages_lead_to_a_valid_thread(
    first: list[AnyMessage], second: list[AnyMessage]
) -> None:
    model = careful("One.", "Two.")
    agent: Any = create_agent(model, [add], checkpointer=InMemorySaver(), system_prompt="s")
    for number, messages in enumerate((first, second)):
        result = agent.invoke({"messages": messages}, THREAD)
        assert result["messages"][:-1] == model.requests[number].messages[1:]
        assert is_valid(result["messages"])
    assert agent.get_state(THREAD).values["messages"] == result["messages"]
