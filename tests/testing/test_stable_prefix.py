"""Who changed the prefix of a request: causes of every kind, each found at its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from agent_factory import (
    ExtendedModelResponse,
    after_model,
    before_agent,
    before_model,
    create_agent,
    dynamic_prompt,
    wrap_model_call,
)
from agent_factory.errors import ArgumentError
from agent_factory.middleware import SummarizationMiddleware, TodoListMiddleware
from agent_factory.structured_output import ToolStrategy
from agent_factory.testing import (
    PrefixChanged,
    ScriptedChatModel,
    aassert_stable_prefix,
    assert_stable_prefix,
)
from busy_agents import find_tool as find
from samples import Answer, cancel
from tables import each

LONG = "You answer questions about orders. " * 20
TURNS = ["Where is order A1?", "And order A2?", "Thank you."]


class Verdict(BaseModel):
    """A verdict."""

    good: bool


@tool
def forget(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Forget how the conversation began."""
    removed = RemoveMessage(id="first")
    return Command(update={"messages": [removed, ToolMessage("Done.", tool_call_id=call_id)]})


CALL: Any = [{"name": "find", "args": {"query": "A1"}, "id": "c1"}]


class Named(ScriptedChatModel):
    """A model with a name, so that it is known which one was called."""

    model: str = "large"


def answers(number: int = 20) -> list[Any]:
    return [f"Answer {index}." for index in range(number)]


def built(*middleware: Any, steps: Any = None, **options: Any) -> Any:
    options = {"tools": [find, cancel], "system_prompt": LONG, **options}
    if "checkpointer" not in options:
        options["checkpointer"] = InMemorySaver()
    return create_agent(Named(steps=steps or answers()), middleware=list(middleware), **options)


@pytest.fixture
def check(sync_or_async: Any) -> Callable[..., None]:
    """Call `assert_stable_prefix`, or `aassert_stable_prefix`."""
    return partial(sync_or_async.call, assert_stable_prefix, aassert_stable_prefix)


def changes(check: Any, agent: Any, turns: Iterable[Any] = TURNS, **options: Any) -> list[str]:
    """Every change of a conversation, without the tokens."""
    with pytest.raises(PrefixChanged) as caught:
        check(agent, list(turns), **options)
    *found, hint = str(caught.value).splitlines()
    assert hint.startswith("Put what changes behind what stays")
    return [line.partition(";")[0] for line in found]


def layer(name: str, change: Callable[[Any, int], dict[str, Any]]) -> Any:
    """A layer that changes each request, by the request and the number of the call."""
    numbers = count()

    @wrap_model_call(name=name)
    def layer(request: Any) -> Any:
        return (yield request.override(**change(request, next(numbers))))

    return layer


def says(name: str, text: Callable[[int], str]) -> Any:
    """A layer that adds to the system prompt."""
    return layer(name, lambda request, n: {"system_prompt": f"{request.system_prompt} {text(n)}"})


def clock() -> Any:
    """A layer that shows the number of the call at the end of the last message."""

    def show(request: Any, number: int) -> dict[str, Any]:
        *before, last = request.messages
        shown = last.model_copy(update={"content": f"{last.text} {number}"})
        return {"messages": [*before, shown]}

    return layer("clock", show)


def remember(request: Any, number: int) -> dict[str, Any]:
    memory = HumanMessage(f"You know {number} facts about the user.")
    return {"messages": [memory, *request.messages]}


# Causes in layers


def test_the_layer_that_changes_is_named_and_not_those_around_it(check: Any) -> None:
    """What the others add behind the change would be cached if the order were the other one."""
    stack = [says("one", lambda _: "1"), says("two", str), *(says(n, lambda _: "") for n in "34")]
    assert changes(check, built(*stack)) == [
        f"turn {turn}: two.around_model changes the system prompt at byte {len(LONG) + 3}, before "
        "what 3, 4 adds"
        for turn in (2, 3)
    ]


@each("changed, expected", [({2}, 2), ({0, 1}, 1), ({1, 3}, 3), (set(), 0)])
def test_a_layer_that_changes_some_calls_of_a_run(
    check: Any, changed: set[int], expected: int
) -> None:
    prompt = {"system_prompt": "Something else."}
    sometimes = layer("sometimes", lambda _, number: prompt if number in changed else {})
    agent = built(sometimes, steps=[CALL, CALL, CALL, "Done."])
    found = changes(check, agent, TURNS[:1]) if expected else check(agent, TURNS[:1]) or []
    assert (
        found == ["turn 1: sometimes.around_model changes the system prompt at byte 0"] * expected
    )


def describe(request: Any, number: int) -> dict[str, Any]:
    first, *others = request.tools
    described = first.model_copy(update={"description": f"Used {number} times."})
    return {"tools": [described, *others]}


def think(_: Any, number: int) -> dict[str, Any]:
    settings = {"thinking": {"budget": number}, "temperature": number / 10}
    return {"model_settings": settings, "tool_choice": "find" if number else None}


def route(_: Any, number: int) -> dict[str, Any]:
    """The cache of another model is another one, so nothing else matters."""
    name = ("large", "small")[number % 2]
    return {"model": Named(steps=answers(), model=name), "system_prompt": f"You are {name}."}


@each(
    "change, expected",
    [
        (
            lambda request, number: {"tools": request.tools[:: (-1) ** number]},
            "changes the order of the tools from cancel on",
        ),
        (
            lambda request, number: {"tools": [request.tools[number]]},
            "adds the tool cancel and removes the tool find",
        ),
        (describe, "changes the schema of the tool find"),
        (remember, "edits messages[0]"),
        (think, "changes thinking, tool_choice"),
        (lambda _, number: {"tool_choice": ("find", "cancel")[number % 2]}, "changes tool_choice"),
        (route, "calls small in place of large"),
    ],
)
def test_what_a_layer_changes_is_named(check: Any, change: Any, expected: str) -> None:
    found = changes(check, built(layer("cause", change)), TURNS[:2])
    assert found == [f"turn 2: cause.around_model {expected}"]


def test_a_memory_in_the_last_message_that_the_next_request_lacks(check: Any) -> None:
    """It is in the message of the user, and two messages follow in the same turn."""

    def show(request: Any, _: int) -> dict[str, Any]:
        place = max(i for i, m in enumerate(request.messages) if m.type == "human")
        shown = request.messages[place].model_copy(update={"content": "A memory, and a question."})
        return {"messages": [*request.messages[:place], shown, *request.messages[place + 1 :]]}

    agent = built(layer("remember", show), steps=[CALL, *answers()])
    assert changes(check, agent, TURNS[:2]) == ["turn 2: remember.around_model edits messages[0]"]


def test_a_response_format(check: Any) -> None:
    formats: Any = [ToolStrategy(Answer), ToolStrategy(Verdict)]
    asks_for = layer("asks_for", lambda _, number: {"response_format": formats[number]})
    agent = built(asks_for, steps=[Answer(number=5), Verdict(good=True)])
    assert changes(check, agent, TURNS[:2]) == [
        "turn 2: asks_for.around_model changes the response format"
    ]


def test_a_summary_that_is_not_announced(check: Any) -> None:
    def summarizing() -> Any:
        model = ScriptedChatModel(["In short."] * 5)
        return built(SummarizationMiddleware(model, trigger=("messages", 5), keep=("messages", 3)))

    assert changes(check, summarizing()) == [
        "turn 3: SummarizationMiddleware.around_model replaces messages[0] to messages[1] by 1 "
        "message"
    ]
    check(summarizing(), TURNS, allow={"SummarizationMiddleware"})


# Causes in the thread


def test_a_hook_that_edits_a_message(check: Any) -> None:
    @before_model
    def edit(state: Any, runtime: Any) -> Any:
        first = state["messages"][0]
        text = f"{first.text}!" if len(state["messages"]) > 1 else first.text
        return {"messages": [HumanMessage(text, id=first.id)]}

    @before_model
    def appends(state: Any, runtime: Any) -> Any:
        return {"messages": [HumanMessage("Be brief.")]}

    assert changes(check, built(appends, edit, appends_after()), TURNS[:2]) == [
        "turn 2: edit.before_model edits messages[0]"
    ]


def appends_after() -> Any:
    @after_model(name="notes")
    def notes(state: Any, runtime: Any) -> Any:
        return {"messages": [HumanMessage("Noted.")]}

    return notes


def test_a_hook_that_removes_messages(check: Any) -> None:
    @before_agent
    def shorten(state: Any, runtime: Any) -> Any:
        return {"messages": [RemoveMessage(id=m.id) for m in state["messages"][:-3]]}

    assert changes(check, built(shorten)) == [
        "turn 3: shorten.before_agent removes messages[0] to messages[1]"
    ]


def test_a_hook_that_starts_over(check: Any) -> None:
    @after_model
    def rewrite(state: Any, runtime: Any) -> Any:
        first, *others = state["messages"]
        kept = [first.model_copy(update={"content": f"{first.text}?", "id": None}), *others]
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *kept]}

    steps = [CALL, "Found.", "Fine."]
    assert changes(check, built(rewrite, steps=steps), TURNS[:2]) == [
        f"turn {turn}: rewrite.after_model edits messages[0]" for turn in (1, 2)
    ]


def test_a_tool_and_a_caller_that_change_the_thread_are_named_and_may_be_allowed(
    check: Any,
) -> None:
    def forgetful() -> Any:
        return built(steps=[[{"name": "forget", "args": {}, "id": "1"}], "Done."], tools=[forget])

    given = [{"messages": [HumanMessage("Hi", id="first"), "Well?"]}]
    assert changes(check, forgetful(), given) == ["turn 1: the tool forget removes messages[0]"]
    check(forgetful(), given, allow={"forget"})
    turns = [HumanMessage("Hi", id="1"), {"messages": [HumanMessage("Hello", id="1"), "And?"]}]
    assert changes(check, built(), turns) == ["turn 2: the input of the run edits messages[0]"]
    check(built(), turns, allow=["input"])


def test_a_command_of_a_layer_that_edits_the_thread_later(check: Any) -> None:
    @wrap_model_call
    def edits(request: Any) -> Any:
        response = yield request
        first = request.messages[0].model_copy(update={"content": "Something else."})
        return ExtendedModelResponse(response, Command(update={"messages": [first]}))

    agent = built(edits, steps=[CALL, "Done."])
    assert changes(check, agent, TURNS[:1]) == ["turn 1: edits.around_model edits messages[0]"]


def test_a_repaired_history(check: Any) -> None:
    """Without a thread, a result that comes late takes the place of the one that was made up."""
    asked = AIMessage("", tool_calls=CALL, id="2")
    given: list[AnyMessage] = [HumanMessage("Hi", id="1"), asked, HumanMessage("Well?", id="3")]
    late = ToolMessage("found A1", tool_call_id="c1", name="find", id="4")
    turns = [{"messages": given}, {"messages": [*given, late, HumanMessage("And?", id="5")]}]
    assert changes(check, built(checkpointer=None), turns) == [
        "turn 2: the repair of the history edits messages[2]"
    ]


def test_a_repair_of_what_a_layer_sends(check: Any) -> None:
    """The layer drops old results; the model node makes others up, so that the call has one."""

    def drop(request: Any, _: int) -> dict[str, Any]:
        old = len(request.messages) >= 6
        return {"messages": [m for m in request.messages if m.type != "tool" or not old]}

    agent = built(layer("drops", drop), steps=[CALL, *answers()])
    assert changes(check, agent) == ["turn 3: drops.around_model edits messages[2]"]


def test_a_change_is_not_blamed_on_what_another_place_changes_elsewhere(check: Any) -> None:
    """A hook edits a message that is not the one at which the requests part."""

    @before_agent
    def edits(state: Any, runtime: Any) -> Any:
        late = state["messages"][-2:-1]
        return {"messages": [m.model_copy(update={"content": f"{m.text}!"}) for m in late]}

    window = layer("window", lambda request, _: {"messages": request.messages[-4:]})
    found = changes(check, built(edits, window, steps=[CALL, *answers()]), [*TURNS, "Bye."])
    assert {line.partition(": ")[2].partition(" ")[0] for line in found[-2:]} == {
        "window.around_model"
    }


def test_a_layer_that_shows_something_at_the_end_is_not_blamed_for_another(check: Any) -> None:
    def edit(request: Any, number: int) -> dict[str, Any]:
        first, *others = request.messages
        return {"messages": [first.model_copy(update={"content": f"Edit {number}"}), *others]}

    assert changes(check, built(clock(), layer("remember", remember)), TURNS[:2]) == [
        "turn 2: remember.around_model changes all messages from messages[0] on"
    ]
    found = changes(check, built(clock(), layer("edits", edit)))  # which moves no message
    assert found[-1] == "turn 3: edits.around_model edits messages[0]"


def caller_edits() -> list[Any]:
    """Turns of which the third changes the first message of the thread."""
    edited = {"messages": [HumanMessage("Hello", id="1"), "And?"]}
    return [HumanMessage("Hi", id="1"), "Well?", edited]


def test_an_edit_before_the_last_request_is_not_blamed_for_one_after_it(check: Any) -> None:
    """The hook shortens its first answer before the model is called with it."""

    @before_agent
    def shorten(state: Any, runtime: Any) -> Any:
        if len(state["messages"]) != 3:
            return None
        return {"messages": [state["messages"][0].model_copy(update={"content": "H."})]}

    assert changes(check, built(shorten), caller_edits()) == [
        "turn 2: shorten.before_agent edits messages[0]",
        "turn 3: the input of the run edits messages[0]",
    ]


@pytest.mark.parametrize("everything", [False, True])
def test_who_writes_what_is_there_already_is_not_blamed(check: Any, everything: bool) -> None:
    @before_model
    def same(state: Any, runtime: Any) -> Any:
        copies = [message.model_copy() for message in state["messages"]]
        more = [HumanMessage("Go on.")] if everything else []
        start = [RemoveMessage(id=REMOVE_ALL_MESSAGES)] if everything else []
        return {"messages": [*start, *copies, *more]}

    assert changes(check, built(same), caller_edits())[-1] == (
        "turn 3: the input of the run edits messages[0]"
    )


# What is not a change


def test_what_is_shown_in_the_last_message_only_is_not_a_change(check: Any) -> None:
    todos: Any = [
        {"name": "write_todos", "args": {"todos": [{"content": "x", "status": "pending"}]}}
    ]
    check(built(TodoListMiddleware(), steps=[todos, CALL, *answers()]), TURNS)


def test_sampling_settings_and_equal_objects_are_not_a_change(check: Any) -> None:
    def copy(request: Any, number: int) -> dict[str, Any]:
        return {
            "model_settings": {"temperature": number / 10},
            "system_prompt": str(request.system_prompt),
            "tools": [tool.model_copy() for tool in request.tools],
            "messages": [m.model_copy() for m in request.messages],
            "response_format": ToolStrategy(Answer),
        }

    check(built(layer("copies", copy), steps=[CALL, *[Answer(number=5)] * 3]), TURNS)


def test_a_repeated_call_and_a_review_that_resumes_are_not_a_change(check: Any) -> None:
    @wrap_model_call
    def twice(request: Any) -> Any:
        yield request
        return (yield request)

    check(built(twice), TURNS)

    @before_model
    def asks(state: Any, runtime: Any) -> None:
        if len(state["messages"]) == 3:
            interrupt("Go on?")

    check(built(asks), [TURNS[0], TURNS[1], Command(resume="yes")])


def test_a_layer_that_runs_another_agent_sees_its_own_requests(check: Any) -> None:
    inner = create_agent(ScriptedChatModel(answers()), system_prompt="Other.", decisions=print)

    @wrap_model_call
    def asks_another(request: Any, handler: Any) -> Any:
        inner.invoke({"messages": ["Quite another conversation."]})
        return handler(request)

    assert_stable_prefix(built(asks_another, steps=[CALL, *answers()]), TURNS)


# The assertion itself


def test_a_message_counts_the_tokens_and_says_what_to_do(check: Any) -> None:
    minutes = count()

    @dynamic_prompt
    def dated(request: Any) -> str:
        return f"{LONG}It is minute {next(minutes)}."

    with pytest.raises(PrefixChanged) as caught:
        check(built(dated, tools=[]), TURNS[:2])
    # Four characters are a token: of the prompt, and of the only message.
    prompt, message = len(f"{LONG}It is minute 0."), len(TURNS[0])
    at = len(LONG) + len("It is minute ")
    lost, cached = round((prompt - at + message) / 4), round((prompt + message) / 4)
    assert str(caught.value) == (
        f"turn 2: dated.around_model changes the system prompt at byte {at}; about {lost} of "
        f"{cached} cached tokens are lost.\n"
        "Put what changes behind what stays: at the end of the last message, or of the system "
        "prompt. If it is meant to change, pass allow={'dated'}."
    )
    ((turn, change),) = caught.value.changes
    assert (turn, change.tokens) == (2, {"lost": lost, "cached": cached})


@pytest.mark.parametrize("checkpointer", [None, InMemorySaver()])
def test_a_conversation_has_the_turns_before_it_the_context_and_the_config(
    check: Any, checkpointer: Any
) -> None:
    seen: list[Any] = []

    @before_model
    def look(state: Any, runtime: Any, config: Any) -> None:
        seen.append((runtime.context, config["metadata"]["ticket"], config["configurable"]["user"]))

    agent = built(look, checkpointer=checkpointer, steps=["Where?", CALL, "There.", "Bye."])
    config: Any = {"metadata": {"ticket": 7}, "configurable": {"user": "ada"}}
    check(agent, TURNS, context={"team": "sales"}, config=config)
    assert seen == [({"team": "sales"}, 7, "ada")] * 4
    (*_, last) = agent.builder.spec.model.requests
    texts = [message.text for message in last.messages]
    assert texts == [LONG, TURNS[0], "Where?", TURNS[1], "", "found A1", "There.", TURNS[2]]


def test_an_agent_with_a_log_keeps_it_and_another_graph_is_refused(check: Any) -> None:
    found: list[Any] = []
    check(built(decisions=found.append), TURNS)
    assert {str(one) for one in found} >= {"model routed: __end__ [no calls left]"}
    with pytest.raises(ArgumentError, match="agent: must be an agent built by create_agent"):
        check(print, TURNS)


@each(
    "turns, options, message",
    [
        ("Hi", {}, r"\[AF101\] conversation: must be a list of turns, got str \('Hi'\)\."),
        ([], {}, r"conversation: must be a list of turns, got list \(\[\]\)\. Pass \["),
        (
            TURNS,
            {"allow": "find"},
            r"allow: must be names of middleware or tools of the agent, got",
        ),
        (TURNS, {"allow": {"TodoList"}}, "Did you mean 'TodoListMiddleware'"),
        (TURNS, {"allow": {"xyz"}}, "It has TodoListMiddleware, cancel, find, input, model, write"),
    ],
)
def test_wrong_arguments_are_named(check: Any, turns: Any, options: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        check(built(TodoListMiddleware()), turns, **options)
