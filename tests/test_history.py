"""Invalid histories are repaired, with the smallest change (wanted 3)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.graph.message import add_messages

from agent_factory.state.history import (
    UNANSWERED,
    ValidatedPrefix,
    answers_of,
    call_ids,
    is_valid,
    last_turn,
    repair,
)
from tables import each


def ai(*ids: str, bad: tuple[str, ...] = ()) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[{"name": f"tool_{id}", "args": {}, "id": id} for id in ids],
        invalid_tool_calls=[
            {
                "name": f"tool_{id}",
                "args": "{",
                "id": id,
                "error": None,
                "type": "invalid_tool_call",
            }
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


VALID: list[list[AnyMessage]] = [
    [],
    [user()],
    [SystemMessage("s"), user(), AIMessage("hi"), user()],
    [user(), ai("a"), result("a"), AIMessage("done")],
    [ai("a", "b"), result("b"), result("a")],
    [ai("a", bad=("b",)), result("a"), result("b")],
    [ai("a"), result("a"), ai("a"), result("a")],
    [ai("a", "a"), result("a")],
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


@each("messages", VALID, ids=lambda m: "-".join(shown(m)) or "empty")
def test_a_valid_history_is_left_alone(messages: list[AnyMessage]) -> None:
    assert is_valid(messages)
    assert repair(messages) is None


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


def test_of_two_answers_the_first_is_kept() -> None:
    first = result("a", "first")
    assert repaired_of([ai("a"), first, result("a", "second")]).messages[1] is first


def test_what_is_missing_at_the_end_is_only_added() -> None:
    """The thread is not rewritten for it."""
    repaired = repaired_of(with_ids([user(), ai("a"), result("a"), ai("b")]))
    assert shown(repaired.update) == ["tool b !"]


def test_what_is_too_much_is_only_removed() -> None:
    messages = with_ids([user(), ai("a"), result("a"), result("x"), user()])
    update = repaired_of(messages).update
    assert [(m.type, m.id) for m in update] == [("remove", messages[3].id)]


def test_calls_without_an_id_cannot_be_answered_and_count_for_nothing() -> None:
    nameless: Any = {"name": "x", "args": {}, "id": None}
    assert repair([AIMessage("", tool_calls=[nameless]), user()]) is None


def test_the_ids_of_a_message_are_those_that_need_an_answer() -> None:
    assert call_ids(ai("a", bad=("b",))) == ["a", "b"]
    assert call_ids(AIMessage("text")) == []


def test_the_last_turn_is_the_last_ai_message_and_what_follows() -> None:
    """A22."""
    last, answer = ai("b"), result("b")
    assert last_turn([ai("a"), result("a"), last, answer, user("u")])[0] is last
    assert last_turn([ai("a"), last, answer])[1] == [answer]
    assert last_turn([user()]) == (None, [])
    assert last_turn([]) == (None, [])


def test_answers_are_found_by_the_call_they_answer() -> None:
    one, other = result("a"), result("b")
    assert answers_of([one, user(), other]) == {"a": one, "b": other}


# --- laws -----------------------------------------------------------------------------------------

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
def test_a_repaired_history_is_valid_and_is_not_repaired_again(messages: list[AnyMessage]) -> None:
    repaired = repair(messages)
    valid = messages if repaired is None else repaired.messages
    assert a_model_may_see(valid)
    assert repair(valid) is None


@given(histories)
def test_messages_other_than_answers_stay_as_they_are(messages: list[AnyMessage]) -> None:
    if repaired := repair(messages):
        before = [m for m in messages if not isinstance(m, ToolMessage)]
        after = [m for m in repaired.messages if not isinstance(m, ToolMessage)]
        assert len(before) == len(after)
        assert all(one is other for one, other in zip(before, after, strict=True))


@given(histories)
def test_an_answer_is_kept_or_dropped_and_never_made_up(messages: list[AnyMessage]) -> None:
    if repaired := repair(messages):
        known = {id(m) for m in messages}
        kept = [m for m in repaired.messages if isinstance(m, ToolMessage) and id(m) in known]
        new = [m for m in repaired.messages if id(m) not in known]
        assert len({id(m) for m in kept}) == len(kept)
        assert all(m.text == UNANSWERED for m in new)


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


@given(histories)
def test_the_update_makes_the_thread_what_the_model_saw(messages: list[AnyMessage]) -> None:
    held = with_ids(messages)
    if repaired := repair(held):
        written: Any = add_messages(held, repaired.update)  # type: ignore[arg-type]
        assert list(written) == repaired.messages


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


# --- what a run remembers -------------------------------------------------------------------------


def test_a_run_remembers_how_far_it_alone_has_looked() -> None:
    seen, run = ValidatedPrefix(), object()
    messages = with_ids([user(), AIMessage("hi")])
    assert seen.of(run, messages) == 0
    seen.remember(run, messages)
    assert seen.of(run, messages) == 2
    assert seen.of(run, [*messages, user()]) == 2
    assert seen.of(object(), messages) == 0


def test_a_history_that_changed_is_looked_at_again() -> None:
    seen, run = ValidatedPrefix(), object()
    messages = with_ids([user(), ai("a"), result("a")])
    seen.remember(run, messages)
    assert seen.of(run, messages[:2]) == 0
    assert seen.of(run, with_ids([user(), ai("a"), result("a")])) == 0


def test_a_message_changed_in_place_is_looked_at_again() -> None:
    """The same id does not make it the same message."""
    seen, run = ValidatedPrefix(), object()
    messages = with_ids([user(), ai("a"), result("a"), AIMessage("done")])
    seen.remember(run, messages)
    changed = [messages[0], AIMessage("no calls", id=messages[1].id), *messages[2:]]
    assert repair(changed, seen.of(run, changed)) is not None


def test_without_a_run_or_messages_nothing_is_remembered() -> None:
    seen = ValidatedPrefix()
    seen.remember(None, with_ids([user()]))
    seen.remember(run := object(), [])
    assert seen.of(None, with_ids([user()])) == 0
    assert seen.of(run, []) == 0


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


def test_a_run_that_ended_is_forgotten() -> None:
    seen, run, other = ValidatedPrefix(), object(), object()
    messages = with_ids([user()])
    seen.remember(run, messages)
    seen.remember(other, messages)
    seen.forget(run)
    assert (seen.of(run, messages), seen.of(other, messages)) == (0, 1)


def test_only_the_latest_runs_are_remembered() -> None:
    seen = ValidatedPrefix()
    runs = [object() for _ in range(ValidatedPrefix.SIZE + 10)]
    messages = with_ids([user()])
    for run in runs:
        seen.remember(run, messages)
    assert all(seen.of(run, messages) for run in runs[-ValidatedPrefix.SIZE :])
    assert seen.of(runs[0], messages) == 0
