"""Threads that keep every message, while the model sees summaries and cleared results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise
from types import new_class
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import (
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from agent_factory import AgentMiddleware, ModelRequest, create_agent
from agent_factory import middleware as m
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, AddsContext, Asks, Naming
from stack_tools import look
from tables import each

HEADING = "Summary of the conversation so far:\n\n"


def texts(messages: Sequence[Any]) -> list[str]:
    return [str(message.text).removeprefix(HEADING) for message in messages]


def summary(*writes: Any, **settings: Any) -> m.SummarizationMiddleware:
    defaults: dict[str, Any] = {"trigger": ("messages", 5), "keep": ("messages", 2)}
    return m.SummarizationMiddleware(ScriptedChatModel(writes), **{**defaults, **settings})


def say(call: Any, agent: Any, *lines: str, config: Any = THREAD) -> Any:
    for line in lines:
        result = call(agent, {"messages": [("user", line)]}, config)
    return result


def seen(model: ScriptedChatModel) -> list[list[str]]:
    return [texts(record.messages) for record in model.requests]


def agent_of(model: Any, *stack: Any, **options: Any) -> Any:
    """An agent that keeps its threads, of a model or its steps."""
    model = ScriptedChatModel(model) if isinstance(model, list) else model
    options = {"checkpointer": InMemorySaver(), **options}
    return create_agent(model, [look], middleware=stack, **options)


def summarized(call: Any) -> tuple[Any, list[Any]]:
    """A saver with a thread of six messages whose first three are summarized, and they."""
    saver = InMemorySaver()
    result = say(call, agent_of([*"bdf"], summary("S"), checkpointer=saver), *"ace")
    return saver, result["messages"]


LATER = {"trigger": ("messages", 99)}
"""Settings of a summary that is not due."""


def test_the_model_sees_a_summary_and_the_thread_keeps_everything(call: Any) -> None:
    """Later requests begin like this one, until the next summary is due."""
    model = ScriptedChatModel([*"bdfhjl"])
    middleware = summary("S", "T", trigger=("messages", 6))
    result = say(call, agent_of(model, middleware), *"acegik")
    assert texts(result["messages"]) == list("abcdefghijkl")
    assert seen(model)[2:] == [list("abcde"), list("Sfg"), list("Sfghi"), list("Tjk")]
    shown = model.requests[3].messages[0]
    assert isinstance(shown, HumanMessage)
    assert shown.additional_kwargs == {"lc_source": "summarization"}
    # The next summary is made of this one and of what followed.
    writer: Any = middleware.model
    asked = writer.requests[1].messages[0].text
    begin = asked.index("<conversation>\n") + 15
    assert asked[begin:].startswith(f"{HEADING}S\n\nWhat followed:\n\nAssistant: f\nUser: g\n")


def looking(*words: str) -> list[dict[str, Any]]:
    return [{"name": "look", "args": {"word": word}, "id": word} for word in words]


def clearing(**settings: Any) -> m.ContextEditingMiddleware:
    edit = m.ClearToolUsesEdit(**{"trigger": 250, "keep": 1, **settings})
    return m.ContextEditingMiddleware(edits=[edit])


def results(messages: Sequence[Any]) -> list[str]:
    return [m.text.partition(":")[0] for m in messages if isinstance(m, ToolMessage)]


def test_the_model_sees_cleared_results_and_the_thread_keeps_them(call: Any) -> None:
    steps = [looking("a"), looking("b"), looking("c"), "done", "more", "end"]
    model = ScriptedChatModel(steps)
    result = say(call, agent_of(model, clearing()), "go", "and?", "so?")
    assert results(result["messages"]) == ["a", "b", "c"]
    shown = [results(record.messages) for record in model.requests]
    assert shown[2:] == [["a", "b"], *[["[cleared]", "[cleared]", "c"]] * 3]
    for one, other in pairwise(model.requests[3:]):
        assert texts(other.messages)[: len(one.messages)] == texts(one.messages)


def test_a_custom_edit_is_made_again_in_later_requests_without_being_asked(call: Any) -> None:
    asked: list[int] = []

    class Once:
        """Drops greetings and says less, the third time."""

        def apply(self, messages: list[AnyMessage], *, count_tokens: Any) -> list[AnyMessage]:
            asked.append(len(messages))
            if len(asked) != 3:
                return messages
            short = {m.id: m.model_copy(update={"content": m.text[:4]}) for m in messages}
            shown = [short[m.id] if isinstance(m, ToolMessage) else m for m in messages]
            return [m for m in shown if m.text != "Hello"]

    model = ScriptedChatModel(["Hi.", looking("a"), "done", "more"])
    edits = m.ContextEditingMiddleware(edits=[Once()])
    result = say(call, agent_of(model, edits), "Hello", "go", "and?")
    assert texts(model.requests[3].messages) == ["Hi.", "go", "", "a: l", "done", "and?"]
    assert texts(result["messages"])[:2] == ["Hello", "Hi."]
    assert len(result["messages"][4].text) == len(look("a"))
    assert asked == [1, 3, 5, 6]


def test_a_failing_call_stores_nothing(call: Any) -> None:
    steps = [looking("a"), looking("b"), RuntimeError("down"), "done"]
    agent = agent_of(steps, clearing(trigger=100, keep=0), summary("S", "T"))
    with pytest.raises(RuntimeError, match="down"):
        say(call, agent, "go")
    values = agent.get_state(THREAD).values
    assert not values.get("summaries")
    assert not values.get("context_edits")
    assert texts(call(agent, None, THREAD)["messages"])[-1] == "done"
    assert list(agent.get_state(THREAD).values["summaries"]) == ["SummarizationMiddleware"]


@each("asks", [False, True])
def test_a_summary_survives_a_process_and_an_interrupt(call: Any, asks: bool) -> None:
    saver, _ = summarized(call)
    model = ScriptedChatModel(["h"])
    stack = [Asks()] if asks else []
    later = agent_of(model, *stack, summary(**LATER), checkpointer=saver)
    result = say(call, later, "g")
    if asks:
        assert "__interrupt__" in result
        result = call(later, Command(resume="yes"), THREAD)
    assert seen(model) == [list("Sdefg")]
    assert texts(result["messages"]) == list("abcdefgh")


def test_a_summary_and_what_was_cleared_survive_a_new_name(call: Any) -> None:
    saver = InMemorySaver()
    stack: list[Any] = [clearing(trigger=100, keep=0), summary("S")]
    first = agent_of([looking("a"), "b", "d"], *stack, checkpointer=saver)
    say(call, first, "go", "c")
    assert first.get_state(THREAD).values["summaries"]["SummarizationMiddleware"]["text"] == "S"
    model = ScriptedChatModel(["f"])
    renamed = m.ContextEditingMiddleware(name="edits"), summary(**LATER, name="short")
    moved = {"SummarizationMiddleware": "short", "ContextEditingMiddleware": "edits"}
    agent = agent_of(model, *renamed, checkpointer=saver, moved=moved)
    say(call, agent, "e")
    assert seen(model) == [["S", "b", "c", "d", "e"]]
    assert agent.get_state(THREAD).values["summaries"].keys() == {"short"}


def test_two_instances_continue_each_others_summaries(call: Any) -> None:
    outer = summary("A", "B", trigger=("tokens", 500), keep=("messages", 1), name="outer")
    inner = summary("x", "y", name="inner")
    model = ScriptedChatModel([*"bdfhjln"])
    agent = agent_of(model, outer, inner)
    long = "long " * 500
    result = say(call, agent, *"ace", long, *"ikm")
    assert texts(result["messages"]) == [*"abcdef", long, *"hijklmn"]
    assert seen(model)[2:] == [list("xde"), ["A", long], list("Bi"), list("Bijk"), list("ylm")]
    stored = agent.get_state(THREAD).values["summaries"]
    assert {name: entry["text"] for name, entry in stored.items()} == {"outer": "B", "inner": "y"}
    writers: Any = outer.model, inner.model
    first, last = (writer.requests[at].messages[0].text for at, writer in enumerate(writers))
    assert f"{HEADING}x\n\nWhat followed:\n\nAssistant: d" in first
    assert f"{HEADING}B\n\nWhat followed:\n\nUser: i" in last


def test_a_summary_goes_with_the_messages_that_it_stands_for(call: Any) -> None:
    saver, messages = summarized(call)
    model = ScriptedChatModel([*"hj"])
    later = agent_of(model, summary(**LATER), checkpointer=saver)
    # Without the last of them, the one before it still says where the summary ends.
    later.update_state(THREAD, {"messages": [RemoveMessage(id=messages[2].id)]})
    say(call, later, "g")
    assert seen(model) == [list("Sdefg")]
    later.update_state(THREAD, {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]})
    say(call, later, "i")
    assert seen(model)[1] == ["i"]


def test_what_another_layer_adds_is_neither_summarized_nor_hidden(call: Any) -> None:
    middleware = summary("S", "T", trigger=("messages", 6))
    model = ScriptedChatModel([*"bdfh"])
    say(call, agent_of(model, AddsContext(), middleware), *"aceg")
    shown = [["only for this call", *letters] for letters in ("abc", "Sde", "Tfg")]
    assert seen(model)[1:] == shown
    writer: Any = middleware.model
    assert "only for this call" not in writer.requests[0].messages[0].text


def test_system_messages_among_the_messages_stay(call: Any) -> None:
    history = [SystemMessage("rules"), ("user", "1"), ("ai", "2"), SystemMessage("more")]
    model = ScriptedChatModel(["5", "7"])
    agent = agent_of(model, summary("S", "T", trigger=("messages", 6)))
    call(agent, {"messages": [*history, ("user", "3"), ("ai", "4")]}, THREAD)
    say(call, agent, "6")
    shown = [["rules", "S", "more", "3", "4"], ["rules", "T", "more", "5", "6"]]
    assert seen(model) == shown


def test_a_thread_may_change_from_one_mode_to_the_other_and_back(call: Any) -> None:
    saver = InMemorySaver()

    def turn(line: str, answer: str, *writes: str, keep_thread: bool) -> tuple[Any, Any]:
        model = ScriptedChatModel([answer])
        middleware = summary(*writes, keep_thread=keep_thread)
        result = say(call, agent_of(model, middleware, checkpointer=saver), line)
        return seen(model)[0], texts(result["messages"])

    turn("a", "b", keep_thread=True)
    turn("c", "d", keep_thread=True)
    assert turn("e", "f", "S", keep_thread=True) == (list("Sde"), list("abcdef"))
    assert turn("g", "h", "T", keep_thread=False) == (list("Tfg"), list("Tfgh"))
    assert turn("i", "j", "U", keep_thread=True) == (list("Uhi"), list("Tfghij"))
    assert turn("k", "l", "V", keep_thread=False) == (list("Vjk"), list("Vjkl"))


@each(
    "built_in, arguments",
    [
        (m.SummarizationMiddleware, [ScriptedChatModel()]),
        (m.ContextEditingMiddleware, []),
        (m.ToolResultOffloadMiddleware, []),
    ],
)
def test_a_subclass_with_another_state_schema_has_to_extend_it(
    built_in: Any, arguments: list[Any]
) -> None:
    schema = built_in.state_schema
    wrong = type("Mine", (built_in,), {"state_schema": Naming})
    with pytest.raises(TypeError, match=f"Mine.state_schema must extend {schema.__name__}, got"):
        wrong(*arguments)
    extended = new_class("Extended", (schema, Naming))
    assert type("Mine", (built_in,), {"state_schema": extended})(*arguments).name == "Mine"


@st.composite
def conversations(draw: st.DrawFn) -> list[list[Any]]:
    """For each turn of the user, what the model says: calls of tools, and a text at the end."""
    turns = []
    for number in range(draw(st.integers(1, 5))):
        steps: list[Any] = []
        for at in range(draw(st.integers(0, 3))):
            count = draw(st.integers(1, 2))
            steps.append(looking(*(f"{number}.{at}.{n}" for n in range(count))))
        turns.append([*steps, f"answer {number}"])
    return turns


def gist(messages: list[AnyMessage]) -> str:
    return f"{len(messages)} of {hash(tuple(texts(messages))) % 1000}"


sizes = st.tuples(st.integers(2, 9), st.integers(1, 4))
clears = st.tuples(st.integers(0, 400), st.integers(0, 3), st.booleans())


def shortening(size: Any, clear: Any, **settings: Any) -> list[Any]:
    """Middleware that clear results and summarize messages."""
    trigger, keep, inputs = clear
    edit = m.ClearToolUsesEdit(trigger=trigger, keep=keep, clear_tool_inputs=inputs)
    sizes: Any = {"trigger": ("messages", size[0]), "keep": ("messages", size[1])}
    summarizer = settings.pop("summarizer", gist)
    return [
        m.ContextEditingMiddleware(edits=[edit], **settings),
        m.SummarizationMiddleware(ScriptedChatModel(), summarizer=summarizer, **sizes, **settings),
    ]


@pytest.mark.long
@settings.get_profile("costly")
@given(turns=conversations(), size=sizes, clear=clears)
def test_the_model_sees_the_same_whether_the_thread_is_kept_or_not(
    turns: list[list[Any]], size: Any, clear: Any
) -> None:
    shown = []
    for keep_thread in (True, False):
        model = ScriptedChatModel([step for turn in turns for step in turn])
        agent = agent_of(model, *shortening(size, clear, keep_thread=keep_thread))
        for number, _ in enumerate(turns):
            result = agent.invoke({"messages": [("user", f"question {number}")]}, THREAD)
        shown.append(
            [
                [(m.type, m.text, getattr(m, "tool_calls", [])) for m in record.messages]
                for record in model.requests
            ]
        )
        if keep_thread:
            kept = [m for m in result["messages"] if isinstance(m, ToolMessage)]
            assert [m.text for m in kept] == [look(m.tool_call_id) for m in kept]
            assert len(result["messages"]) == sum(
                2 + sum(1 + len(step) for step in turn[:-1]) for turn in turns
            )
    assert shown[0] == shown[1]


@pytest.mark.long
@settings.get_profile("costly")
@given(turns=conversations(), size=sizes, clear=clears)
def test_requests_continue_each_other_until_something_is_summarized_or_cleared(
    turns: list[list[Any]], size: Any, clear: Any
) -> None:
    model = ScriptedChatModel([step for turn in turns for step in turn])
    stored: list[Any] = []

    def note(state: Any) -> None:
        stored.append((dict(state.get("summaries") or {}), dict(state.get("context_edits") or {})))

    class Notes(AgentMiddleware[Any, Any]):
        def around_model(self, request: ModelRequest[Any]) -> Any:
            note(request.state)
            return (yield request)

    agent = agent_of(model, Notes(), *shortening(size, clear))
    for number, _ in enumerate(turns):
        agent.invoke({"messages": [("user", f"question {number}")]}, THREAD)
    note(agent.get_state(THREAD).values)
    changes = sum(one != other for one, other in pairwise(stored))
    shown = [texts(record.messages) for record in model.requests]
    broken = sum(other[: len(one)] != one for one, other in pairwise(shown))
    assert broken <= changes


Turn = tuple[str, str, list[tuple[str, int]], int]
"""What happens, a text, the results of the tool, and to which moment a fork returns."""


@st.composite
def stories(draw: st.DrawFn) -> list[Turn]:
    kinds = st.sampled_from(["turn", "turn", "fork", "overflow", "summarizer overflow"])
    marks = st.text(min_size=1, max_size=9)
    found = []
    for kind in draw(st.lists(kinds, min_size=1, max_size=7)):
        contents = st.lists(st.tuples(marks, st.sampled_from([1, 60, 4000])), max_size=3)
        found.append((kind, draw(marks), draw(contents), draw(st.integers(0, 6))))
    return found


class Watch(AgentMiddleware[Any, Any]):
    """Notes each message as it is when it is first seen."""

    def __init__(self, noted: dict[str, Any]) -> None:
        super().__init__()
        self.noted = noted

    def around_model(self, request: ModelRequest[Any]) -> Any:
        self.note(request.state["messages"])
        return (yield request)

    def note(self, messages: Sequence[Any]) -> None:
        for message in messages:
            calls = getattr(message, "tool_calls", None)
            form = {"content": message.content, "tool_calls": calls} if calls else message.content
            self.noted.setdefault(message.id, form)


def fetch(text: str, size: int) -> Any:
    """Fetch a text, or blocks of it."""
    whole = text * size
    return whole if len(text) % 2 else [{"type": "text", "text": whole}]


def fails_to_sum_up(messages: list[AnyMessage]) -> str:
    raise ContextOverflowError("too long for a summary")


@pytest.mark.long
@settings.get_profile("costly")
@given(
    story=stories(),
    size=sizes,
    clear=clears,
    place=st.sampled_from(["thread", "store", "folder"]),
    mode=st.sampled_from(["sync", "async"]),
)
def test_every_message_ever_in_a_thread_comes_back_character_for_character(
    tmp_path_factory: pytest.TempPathFactory,
    story: list[Turn],
    size: Any,
    clear: Any,
    place: str,
    mode: str,
) -> None:
    folder = tmp_path_factory.mktemp("results")
    saver, store = InMemorySaver(), InMemoryStore()

    def agent_for(steps: Sequence[Any], noted: dict[str, Any], fails: bool = False) -> Any:
        where: Any = folder if place == "folder" else place
        stack: list[Any] = [
            Watch(noted),
            m.ToolResultOffloadMiddleware(threshold=1000, place=where),
            *shortening(size, clear, summarizer=fails_to_sum_up if fails else gist),
        ]
        model = ScriptedChatModel(steps)
        return create_agent(model, [fetch], middleware=stack, checkpointer=saver, store=store)

    def run_of(agent: Any, given_: Any, config: Any) -> Any:
        if mode == "sync":
            return agent.invoke(given_, config)
        return asyncio.run(agent.ainvoke(given_, config))

    moments: list[tuple[Any, dict[str, Any]]] = [(THREAD, {})]
    for number, (kind, text, contents, moment) in enumerate(story):
        forks = kind == "fork" and moments[1:]  # a thread has no moment before its first run
        config, noted = forks[moment % len(forks)] if forks else moments[-1]
        noted = dict(noted)
        calls = [
            {"name": "fetch", "args": {"text": t, "size": n}, "id": f"{number}.{at}"}
            for at, (t, n) in enumerate(contents)
        ]
        steps: list[Any] = [*([calls] if calls else []), f"answer {text}"]
        failing = [ContextOverflowError("too long")] if "overflow" in kind else []
        agent = agent_for([*failing, *steps], noted, kind == "summarizer overflow")
        try:
            run_of(agent, {"messages": [("user", text)]}, config)
        except ContextOverflowError:  # there was nothing to free
            agent = agent_for(steps, noted)
            run_of(agent, None, THREAD)
        state = agent.get_state(THREAD)
        Watch(noted).note(state.values["messages"])
        moments.append((state.config, noted))

    for config, noted in moments[1:]:
        forms = {id_: form if isinstance(form, str) else None for id_, form in noted.items()}
        lengths = {
            id_: len(text if text is not None else json.dumps(noted[id_], ensure_ascii=False))
            for id_, text in forms.items()
        }
        pages = [
            {"name": "recall", "args": {"id": id_, "start": start, "length": 20_000}, "id": name}
            for id_, length in lengths.items()
            for start in range(0, max(1, length), 20_000)
            for name in [f"{id_}/{start}"]
        ]
        agent = agent_for([pages, "done"], {})
        result = run_of(agent, {"messages": [("user", "What was it all?")]}, config)
        found = dict.fromkeys(noted, "")
        for message in result["messages"]:
            if isinstance(message, ToolMessage) and message.name == "recall":
                assert message.status == "success", message.text
                page = message.artifact
                found[page["id"]] += message.text[: page["end"] - page["start"]]
        for id_, form in noted.items():
            assert (found[id_] if isinstance(form, str) else json.loads(found[id_])) == form
