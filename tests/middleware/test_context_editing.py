"""ContextEditingMiddleware: what is cleared and when, and a thread that is not kept.

What a kept thread holds, and that the model sees the same then, is in `test_kept_threads.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import stack_agents
from bound_models import made
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import create_agent, wrap_model_call
from agent_factory import middleware as m
from agent_factory.testing import ScriptedChatModel
from stack_tools import look
from tables import each

CLEARED = "[cleared]"
ONE: Any = {"configurable": {"thread_id": "1"}}


def calls(*words: str, tool: str = "look") -> list[dict[str, Any]]:
    return [{"name": tool, "args": {"word": word}, "id": word} for word in words]


def turn(
    word: str, result: Any = "long " * 40, tool: str = "look", **more: Any
) -> list[AnyMessage]:
    """A call and its result, as a thread holds them."""
    made: Any = calls(word, tool=tool)
    answer = ToolMessage(result, tool_call_id=word, name=tool, id=f"r-{word}", **more)
    return [AIMessage("", tool_calls=made, id=f"c-{word}"), answer]


def results(messages: Sequence[Any]) -> list[str]:
    """The tool results, cut short."""
    return [m.text.partition(":")[0][:9].strip() for m in messages if isinstance(m, ToolMessage)]


def clearing(**settings: Any) -> m.ContextEditingMiddleware:
    return shortening(edits=[m.ClearToolUsesEdit(**{"trigger": 10, **settings})])


# Middleware that edits the thread, and middleware that replaces its messages
shortening = partial(m.ContextEditingMiddleware, keep_thread=False)
summarizing = partial(m.SummarizationMiddleware, keep_thread=False)


def edited(edit: m.ClearToolUsesEdit, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    return edit.apply(list(messages), count_tokens=lambda some: sum(len(m.text) for m in some))


agent_of = partial(stack_agents.agent_of, tools=[look])


def test_nothing_is_cleared_at_the_trigger_or_for_too_little_and_else_everything() -> None:
    both: Any = calls("a", "b")
    results_of_both = [turn("a", "x" * 60)[1], turn("b", "y" * 40)[1]]
    history = [AIMessage("", tool_calls=both), *results_of_both, AIMessage("")]
    freed = 100 - 2 * len(CLEARED)
    for trigger, least, expected in (
        (100, 0, ["x" * 9, "y" * 9]),
        (99, 0, [CLEARED, CLEARED]),
        (99, freed + 1, ["x" * 9, "y" * 9]),
        (99, freed, [CLEARED, CLEARED]),
    ):
        edit = m.ClearToolUsesEdit(trigger=trigger, keep=0, clear_at_least=least)
        assert results(edited(edit, history)) == expected
    assert edited(m.ClearToolUsesEdit(trigger=1, keep=0), turn("a", "x")) == turn("a", "x")


def test_the_system_prompt_and_the_tool_schemas_count(send: Any) -> None:
    def elaborate(x: int) -> int:
        """Do it."""
        return x

    elaborate.__doc__ = "word " * 500
    history = [HumanMessage("go"), *turn("a"), AIMessage("so"), HumanMessage("and?")]
    for options, expected in (
        ({"tools": [look]}, "long long"),
        ({"tools": [look], "system_prompt": "word " * 500}, CLEARED),
        ({"tools": [look, elaborate]}, CLEARED),
    ):
        stack = [clearing(trigger=400, keep=0)]
        agent = create_agent(ScriptedChatModel(["ok"]), middleware=stack, **options)
        assert results(send(agent, history)["messages"]) == [expected]


def test_results_that_the_model_has_not_read_always_stay(send: Any) -> None:
    model = ScriptedChatModel([calls("a"), calls("b", "c"), "done"])
    result = send(agent_of(model, clearing(keep=0)), [HumanMessage("go")])
    assert results(model.requests[1].messages) == ["a"]
    assert results(model.requests[2].messages) == [CLEARED, "b", "c"]
    assert results(result["messages"]) == [CLEARED, "b", "c"]


def test_a_cleared_result_keeps_everything_but_its_content() -> None:
    picture: Any = [{"type": "image", "base64": "A" * 100, "mime_type": "image/png"}]
    history: list[Any] = [
        *turn("a", picture, status="error", artifact={"rows": 3}),
        AIMessage("so"),
    ]
    before = history[1].model_copy(deep=True)
    made = m.ClearToolUsesEdit(trigger=0, keep=0).apply(list(history), count_tokens=len)
    assert made[1].content == CLEARED
    assert made[1].model_copy(update={"content": picture, "response_metadata": {}}) == before
    assert history[1] == before
    assert made[0] is history[0]


def test_a_result_that_equals_the_placeholder_does_not_count_as_cleared() -> None:
    history = [*turn("a", "[gone]"), *turn("b", "x" * 90), AIMessage("")]
    once = edited(m.ClearToolUsesEdit(trigger=0, keep=0, placeholder="[gone]"), history)
    assert [m.response_metadata != {} for m in once if isinstance(m, ToolMessage)] == [True, True]
    assert edited(m.ClearToolUsesEdit(trigger=0, keep=0, placeholder="other"), once) == once


def test_results_of_excluded_tools_stay_under_either_name() -> None:
    asked = turn("c")
    asked[1] = ToolMessage("sent elsewhere " * 9, tool_call_id="c", name="note")
    redirected = turn("d", "as if " * 9, tool="note")
    redirected[1].name = "look"
    history = [*turn("a"), *turn("b", tool="note"), *asked, *redirected, *turn("e"), AIMessage("")]
    edit = m.ClearToolUsesEdit(trigger=0, keep=1, exclude_tools=("note",))
    spared = ["long long", "sent else", "as if as", "long long"]
    assert results(edited(edit, history)) == [CLEARED, *spared]


def test_the_inputs_of_cleared_calls_are_removed_wherever_a_provider_repeats_them() -> None:
    long: Any = {"word": "x" * 100}
    one: Any = {"name": "look", "args": long, "id": "1", "type": "tool_call"}
    two = {**one, "id": "2"}
    raw = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{...}"}}
    content: Any = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "tool_use", "id": "1", "name": "look", "input": long, "partial_json": "{..."},
        {"type": "function_call", "call_id": "1", "id": "fc", "name": "look", "arguments": "{..."},
        {"type": "tool_use", "id": "2", "name": "look", "input": long},
        "bare",
    ]
    said = AIMessage(
        content, tool_calls=[one, two], id="c", additional_kwargs={"tool_calls": [raw], "x": 1}
    )
    history: list[Any] = [
        said,
        ToolMessage("first " * 9, tool_call_id="1"),
        ToolMessage("second", tool_call_id="2"),
        AIMessage("so"),
    ]
    made: Any = edited(m.ClearToolUsesEdit(trigger=0, keep=1, clear_tool_inputs=True), history)[0]
    assert [call["args"] for call in made.tool_calls] == [{}, long]
    assert made.content == [
        content[0],
        {"type": "tool_use", "id": "1", "name": "look", "input": {}, "partial_json": "{}"},
        {"type": "function_call", "call_id": "1", "id": "fc", "name": "look", "arguments": "{}"},
        *content[3:],
    ]
    function = {"name": "look", "arguments": "{}"}
    assert made.additional_kwargs == {"tool_calls": [{**raw, "function": function}], "x": 1}
    assert said.tool_calls[0]["args"] == long
    assert said.content == content


def test_messages_of_another_layer_are_cleared_but_stay_out_of_the_thread(send: Any) -> None:
    @wrap_model_call
    def adds(request: Any) -> Any:
        extra = [*turn("extra"), HumanMessage("only for this call")]
        return (yield request.override(messages=[*extra, *request.messages]))

    model = ScriptedChatModel(["ok"])
    agent = create_agent(model, middleware=[adds, clearing(keep=0)])
    result = send(agent, [*turn("a"), AIMessage("so"), HumanMessage("and?")])
    assert results(model.requests[0].messages) == [CLEARED, CLEARED]
    assert [m.type for m in result["messages"]] == ["ai", "tool", "ai", "human", "ai"]
    assert results(result["messages"]) == [CLEARED]


class CountingModel(ScriptedChatModel):
    def get_num_tokens_from_messages(self, messages: list[Any], tools: Any = None) -> int:
        return 1000 * len(messages)


@each(
    "settings", [{"token_count_method": "model"}, {"token_counter": lambda some: 1000 * len(some)}]
)
def test_the_model_or_a_function_may_count(send: Any, settings: dict[str, Any]) -> None:
    history = [*turn("a"), AIMessage("so"), HumanMessage("and?")]
    for trigger, expected in ((4000, ["long long"]), (3999, [CLEARED])):
        counting = shortening(edits=[m.ClearToolUsesEdit(trigger=trigger, keep=0)], **settings)
        agent = agent_of(CountingModel(steps=["ok"]), counting, tools=())
        assert results(send(agent, history)["messages"]) == expected


class DropOldest:
    """An edit that changes the list it was given, and parts a result from its call."""

    def apply(self, messages: list[AnyMessage], *, count_tokens: Any) -> None:
        del messages[:2]


def test_a_history_that_an_edit_breaks_is_repaired_before_the_model_sees_it(send: Any) -> None:
    model = ScriptedChatModel(["one", "two"])
    agent = agent_of(model, shortening(edits=[DropOldest()]), checkpointer=InMemorySaver())
    result = send(agent, [HumanMessage("go"), *turn("a"), HumanMessage("and?")], ONE)
    assert [m.type for m in model.requests[0].messages] == ["human"]
    assert [m.type for m in result["messages"]] == ["tool", "human", "ai"]
    result = send(agent, [HumanMessage("x"), HumanMessage("y")], ONE)
    assert [m.text for m in model.requests[1].messages] == ["x", "y"]
    assert [m.text for m in result["messages"]] == ["x", "y", "two"]


@each("given", ["text", [1], {"messages": []}, 7])
def test_an_edit_that_returns_no_messages_raises(send: Any, given: Any) -> None:
    class Odd:
        def apply(self, messages: list[AnyMessage], *, count_tokens: Any) -> Any:
            return given

    with pytest.raises(TypeError, match=r"Odd\.apply must return messages"):
        send(agent_of(["ok"], shortening(edits=[Odd()])), [HumanMessage("go")])


def test_a_summary_that_an_edit_inside_drops_is_not_written(send: Any) -> None:
    history = [HumanMessage(text) for text in "abcdefgh"]
    size: Any = {"trigger": ("messages", 8), "keep": ("messages", 3)}
    stack = [summarizing(ScriptedChatModel(["S"]), **size), shortening(edits=[DropOldest()])]
    model = ScriptedChatModel(["ok"])
    result = send(agent_of(model, *stack), history)["messages"]
    assert [m.text for m in model.requests[0].messages] == ["g", "h"]
    assert [m.text for m in result] == ["g", "h", "ok"]


@st.composite
def histories(draw: st.DrawFn) -> list[AnyMessage]:
    """Valid conversations, in which ids of calls may recur."""
    messages: list[AnyMessage] = []
    for number in range(draw(st.integers(0, 8))):
        if draw(st.booleans()):
            messages.append(HumanMessage("q" * draw(st.integers(0, 20)), id=f"q{number}"))
        tools = draw(st.lists(st.sampled_from(["look", "note"]), max_size=3))
        made: Any = [
            {"name": tool, "args": {"word": "w" * 9}, "id": f"{tool}{at}", "type": "tool_call"}
            for at, tool in enumerate(tools)
        ]
        messages.append(AIMessage("", tool_calls=made, id=f"c{number}"))
        for at, asked in enumerate(made):
            text = draw(st.sampled_from([CLEARED, "", "short", "long " * 20]))
            answer = ToolMessage(text, tool_call_id=asked["id"], name=asked["name"])
            messages.append(answer.model_copy(update={"id": f"r{number}.{at}"}))
    return messages


def answered(messages: Sequence[AnyMessage]) -> list[Any]:
    """Who speaks under which id, and which call is made or answered."""
    return [
        (m.id, m.type, [c["id"] for c in getattr(m, "tool_calls", ())], getattr(m, "status", ""))
        for m in messages
    ]


@given(
    histories(),
    st.integers(0, 300),
    st.integers(0, 200),
    st.integers(0, 6),
    st.booleans(),
    st.sets(st.sampled_from(["look", "note"])),
)
def test_an_edit_keeps_calls_paired_keeps_excluded_results_and_is_made_once(
    messages: list[AnyMessage],
    trigger: int,
    least: int,
    keep: int,
    inputs: bool,
    excluded: set[str],
) -> None:
    edit = m.ClearToolUsesEdit(trigger, least, keep, inputs, tuple(excluded))
    before = [message.model_copy(deep=True) for message in messages]
    once = edited(edit, messages)
    assert messages == before
    assert answered(once) == answered(before)
    found = [index for index, m in enumerate(messages) if isinstance(m, ToolMessage)]
    spared = {*(found[-keep:] if keep else ()), *(i for i in found if messages[i].name in excluded)}
    assert all(once[index] is messages[index] for index in spared)
    assert all(a is b for a, b in zip(once, edited(edit, once), strict=True))


@given(histories(), st.integers(0, 3), st.booleans(), st.booleans())
def test_what_is_written_makes_the_thread_what_the_model_saw(
    messages: list[AnyMessage], keep: int, inputs: bool, cleared_first: bool
) -> None:
    stack: list[Any] = [
        clearing(trigger=0, keep=keep, clear_tool_inputs=inputs),
        summarizing(
            FakeListChatModel(responses=[]),
            trigger=("messages", 4),
            keep=("messages", 2),
            summarizer=lambda some: "S",
        ),
    ]
    model = ScriptedChatModel(["ok"])
    agent = create_agent(model, middleware=stack if cleared_first else stack[::-1])
    result = agent.invoke({"messages": [*messages, HumanMessage("?", id="last")]})
    assert result["messages"][:-1] == model.requests[0].messages


def calls_of_the_model(messages: Sequence[AnyMessage]) -> list[int]:
    """How much of a conversation each of its calls of the model was given, and the next one."""
    return [i for i, m in enumerate(messages) if isinstance(m, AIMessage)] + [len(messages)]


edits = st.builds(
    m.ClearToolUsesEdit,
    trigger=st.integers(0, 300),
    clear_at_least=st.integers(0, 60),
    keep=st.integers(0, 3),
    clear_tool_inputs=st.booleans(),
    exclude_tools=st.sampled_from([(), ("look",)]),
)


@given(histories(), edits)
def test_the_beginning_of_a_prompt_changes_only_above_the_trigger(
    messages: list[AnyMessage], edit: m.ClearToolUsesEdit
) -> None:
    ends = calls_of_the_model(messages)
    prompts = [edited(edit, messages[:end]) for end in ends]
    for (start, before), (end, prompt) in pairwise(zip(ends, prompts, strict=True)):
        unchanged = [*before, *messages[start:end]]
        if sum(len(m.text) for m in unchanged) <= edit.trigger:
            assert prompt == unchanged


@given(histories(), edits)
def test_a_thread_and_a_history_that_is_sent_again_are_cleared_at_the_same_places(
    messages: list[AnyMessage], edit: m.ClearToolUsesEdit
) -> None:
    thread: list[AnyMessage] = []
    written = 0
    for end in calls_of_the_model(messages):
        thread = edited(edit, [*thread, *messages[written:end]])
        written = end
        assert thread == edited(edit, messages[:end])


def test_a_conversation_that_stays_above_the_trigger_is_cleared_in_steps(send: Any) -> None:
    model = ScriptedChatModel([*(calls(word) for word in "abcdefghijkl"), "done"])
    send(agent_of(model, clearing(trigger=600, keep=1)), [HumanMessage("talk " * 1000)])
    cleared = [results(record.messages).count(CLEARED) for record in model.requests]
    assert cleared == [0, 0, 1, 1, 1, 1, 5, 5, 5, 5, 9, 9, 9]


class Chained(ScriptedChatModel):
    """Goes on from the last response at the provider, as OpenAI's Responses API can."""

    use_previous_response_id: bool = True


def test_a_conversation_at_the_provider_is_sent_again_when_it_is_cleared(send: Any) -> None:
    """The provider would otherwise go on from the whole conversation."""
    steps = [
        AIMessage("", tool_calls=calls(f"w{n}"), response_metadata={"id": f"resp_{n}"})
        for n in range(3)
    ]
    for kind, last_id in ((Chained, None), (ScriptedChatModel, "resp_2")):
        model = made(kind, [*steps, "Done."])
        send(create_agent(model, [look], middleware=[clearing(trigger=150, keep=1)]))
        answers = [m for m in model.requests[-1].messages if m.type == "ai"]
        assert answers[-1].response_metadata["id"] == last_id
        answers = [m for m in model.requests[1].messages if m.type == "ai"]
        assert answers[-1].response_metadata["id"] == "resp_0"  # nothing was cleared
