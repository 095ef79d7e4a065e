"""Conversations that are too long for the model: what is made smaller, at the cost of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from typing import Any

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import AgentMiddleware, ModelRequest, create_agent, warnings_of
from agent_factory import middleware as m
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, AddsContext, last_text
from tables import each

TOO_LONG = ContextOverflowError("the prompt is too long")


class ProviderError(ValueError):
    """As clients raise it that do not know LangChain's class."""

    status_code = 400
    code = "context_length_exceeded"


def texts(messages: Sequence[Any]) -> list[str]:
    return [str(m.text).removeprefix("Summary of the conversation so far:\n\n") for m in messages]


class Window(ScriptedChatModel):
    """A model that reads so many characters, and no more."""

    window: int = 2_000

    def _respond(self, messages: Any, stop: Any, kwargs: Any) -> Any:
        response = super()._respond(messages, stop, kwargs)
        if sum(len(message.text) for message in messages) > self.window:
            self._position -= 1
            raise ProviderError(f"more than {self.window} characters")
        return response


def fetch(word: str, size: int = 900) -> str:
    """Fetch a text."""
    return f"{word} " + "x" * size


def fetching(*words: str, **args: Any) -> list[Any]:
    return [{"name": "fetch", "args": {"word": w, **args}, "id": w} for w in words]


clears = m.ContextEditingMiddleware


offloads = partial(m.ToolResultOffloadMiddleware, preview=100)


def summarizes(*writes: Any, **settings: Any) -> m.SummarizationMiddleware:
    return m.SummarizationMiddleware(ScriptedChatModel(writes or ["S"] * 9), **settings)


def agent_of(model: Any, stack: Sequence[Any], **options: Any) -> Any:
    return create_agent(model, [fetch], middleware=stack, checkpointer=InMemorySaver(), **options)


def logged(stack: Sequence[Any], *steps: Any, window: int = 2_000) -> tuple[Any, Any, list[str]]:
    """An agent, its model, and the reasons in its decision log that speak of an overflow."""
    reasons: list[str] = []
    model = Window(steps=list(steps), window=window)

    def sink(decision: Any) -> None:
        if decision.reason.startswith("overflow"):
            reasons.append(decision.reason.removeprefix("overflow: "))

    return agent_of(model, stack, decisions=sink), model, reasons


def test_old_results_are_cleared_first(call: Any) -> None:
    steps = [fetching("a"), fetching("b"), fetching("c"), "done"]
    agent, model, reasons = logged([offloads(), clears(), summarizes()], *steps)
    result = call(agent, {"messages": "go"}, THREAD)
    assert last_text(result) == "done"
    assert len(model.requests) == len(steps) + 1
    assert reasons == ["cleared 2 tool results"]
    assert [m.text.split()[0] for m in model.requests[-1].messages if m.type == "tool"] == [
        "[cleared]",
        "[cleared]",
        "c",
    ]
    assert [m.text.split()[0] for m in result["messages"] if m.type == "tool"] == ["a", "b", "c"]


def test_results_are_offloaded_if_clearing_is_not_enough(call: Any) -> None:
    agent, model, reasons = logged(
        [offloads(), clears(), summarizes()], fetching("a", size=5_000), "done", "more"
    )
    result = call(agent, {"messages": "go"}, THREAD)
    assert (len(model.requests), reasons) == (3, ["offloaded 1 tool result"])
    shown = model.requests[-1].messages[-1].text
    assert "This is the beginning of a result of 5,002 characters" in shown
    # Later requests have it from the start.
    call(agent, {"messages": "and?"}, THREAD)
    assert len(model.requests) == 4
    assert model.requests[-1].messages[2].text == shown
    assert len(result["messages"][2].text) == 5_002


def test_messages_are_summarized_if_nothing_can_be_cleared_or_offloaded(call: Any) -> None:
    agent, model, reasons = logged(
        [offloads(), clears(), summarizes()], "b" * 700, "d" * 700, "f", "h"
    )
    call(agent, {"messages": "a" * 300}, THREAD)
    result = call(agent, {"messages": "c" * 300}, THREAD)
    result = call(agent, {"messages": "e" * 300}, THREAD)
    assert (len(model.requests), reasons) == (4, ["summarized 4 messages"])
    note = '\n\n[The messages up to here are kept: recall(id="#1") to recall(id="#4") return them, '
    assert texts(model.requests[-1].messages) == [
        f'S{note}recall(id="list") lists them.]',
        "e" * 300,
    ]
    assert len(result["messages"]) == 6
    call(agent, {"messages": "g"}, THREAD)
    assert len(model.requests) == 5


def test_a_summary_that_is_itself_too_long_ends_in_an_error(call: Any) -> None:
    long = "S" * 3_000
    agent, model, reasons = logged([summarizes(long, "T")], "b", "d", "f")
    call(agent, {"messages": "a" * 900}, THREAD)
    call(agent, {"messages": "c" * 900}, THREAD)
    with pytest.raises(ProviderError) as caught:
        call(agent, {"messages": "e" * 900}, THREAD)
    (note,) = (n for n in caught.value.__notes__ if "too long" in n)
    assert "nothing is left to free: summarized" in note
    assert len(reasons) == 1
    assert len(model.requests) == 4


def test_a_summarizer_that_returns_nothing_leads_to_a_cut(call: Any) -> None:
    agent, model, reasons = logged([offloads(), summarizes("")], "b" * 900, "d", "f")
    call(agent, {"messages": "a" * 900}, THREAD)
    result = call(agent, {"messages": "c" * 900}, THREAD)
    assert (len(model.requests), reasons) == (3, ["left out 2 messages"])
    assert texts(model.requests[-1].messages) == [
        "[Left out here, because they are too long for a summary: #1 to #2. The messages up to "
        'here are kept: recall(id="#1") to recall(id="#2") return them, recall(id="list") lists '
        "them.]",
        "c" * 900,
    ]
    assert texts(result["messages"]) == ["a" * 900, "b" * 900, "c" * 900, "d"]
    call(agent, {"messages": "e"}, THREAD)
    assert len(model.requests) == 4


def test_the_window_of_the_model_says_how_much_has_to_go(call: Any) -> None:
    """Clearing frees a third of the request, and the window is a tenth of it."""
    reasons: list[str] = []
    model = ScriptedChatModel(
        [fetching("a", size=2_000), fetching("b"), TOO_LONG, "done"],
        profile={"max_input_tokens": 500},
    )
    agent = agent_of(
        model, [clears(), summarizes()], decisions=lambda decision: reasons.append(decision.reason)
    )
    call(agent, {"messages": "q" * 3_000}, THREAD)
    assert "overflow: cleared 1 tool result, summarized 1 message" in reasons
    assert len(model.requests) == 4


CONTEXT: list[Any] = [
    *(HumanMessage("before") if at % 2 == 0 else AIMessage("x" * 400) for at in range(8))
]
TEN: list[Any] = [*(fetching(f"w{at}") for at in range(9)), "done"]
"""A run of ten calls of the model."""


STACKS: list[Callable[[], list[Any]]] = [
    lambda: [clears(), summarizes()],
    lambda: [offloads(), summarizes()],
    lambda: [summarizes()],
    lambda: [offloads(), clears(), summarizes(), m.TodoListMiddleware(), m.ModelRetryMiddleware()],
]


@each("point, number", [*zip(range(10), cycle(range(4)), strict=False), (0, 1), (0, 2), (9, 3)])
def test_an_overflow_at_any_of_ten_points_costs_one_more_call(
    call: Any, point: int, number: int
) -> None:
    model = ScriptedChatModel([*TEN[:point], TOO_LONG, *TEN[point:]])
    result = call(agent_of(model, STACKS[number]()), {"messages": CONTEXT}, THREAD)
    assert last_text(result) == "done"
    assert len(model.requests) == 11
    failed, again = model.requests[point : point + 2]
    sizes = [sum(len(m.text) for m in record.messages) for record in (failed, again)]
    assert sizes[1] < sizes[0]
    # Nothing has left the thread.
    assert [m.text for m in result["messages"] if m.type == "tool"] == [
        fetch(f"w{at}") for at in range(9)
    ]
    assert len(result["messages"]) == 8 + 9 * 2 + 1


def test_an_overflow_inside_of_a_subagent_is_its_own(call: Any) -> None:
    """The agent around it has nothing to do with the conversation of the other."""
    inner = create_agent(ScriptedChatModel([TOO_LONG]), middleware=[clears()])

    class Consults(AgentMiddleware[Any, Any]):
        def around_model(self, request: ModelRequest[Any]) -> Any:
            with pytest.raises(ContextOverflowError) as caught:
                inner.invoke({"messages": CONTEXT})
            assert "nothing could be cleared" in caught.value.__notes__[0]
            return (yield request)

    model = ScriptedChatModel(["done"])
    middleware = summarizes()
    agent = agent_of(model, [middleware, Consults()])
    assert last_text(call(agent, {"messages": CONTEXT}, THREAD)) == "done"
    assert middleware.model.requests == []


def test_retries_and_fallbacks_leave_an_overflow_to_the_layers_outside(call: Any) -> None:
    model, other = ScriptedChatModel([TOO_LONG, "done"]), ScriptedChatModel([])
    retry = m.ModelRetryMiddleware(retry_on=lambda error: True, initial_delay=0)
    agent = agent_of(model, [summarizes(), m.ModelFallbackMiddleware(other), retry])
    assert not warnings_of(agent)
    assert last_text(call(agent, {"messages": CONTEXT}, THREAD)) == "done"
    assert (len(model.requests), len(other.requests)) == (2, 0)
    assert texts(model.requests[1].messages)[0] == "S"
    for inner in (summarizes(), clears(), offloads()):
        assert [w.code for w in warnings_of(agent_of(model, [retry, inner]))] == ["AF204"]


@each(
    "outer, context, settings, asked",
    [
        ([summarizes()], "short", {}, 2),  # nothing can be freed
        ([summarizes()], CONTEXT, {"handle": (ContextOverflowError, ConnectionError)}, 1),
        ([], CONTEXT, {}, 1),
    ],
)
def test_another_model_is_asked_if_nothing_can_be_freed_or_that_is_said(
    call: Any, outer: Any, context: Any, settings: Any, asked: int
) -> None:
    model, other = ScriptedChatModel([TOO_LONG] * asked), ScriptedChatModel(["I read more."])
    agent = agent_of(model, [*outer, m.ModelFallbackMiddleware(other, **settings)])
    assert last_text(call(agent, {"messages": context}, THREAD)) == "I read more."
    assert (len(model.requests), len(other.requests)) == (asked, 1)


def test_an_error_says_that_nothing_could_be_freed(call: Any) -> None:
    model = ScriptedChatModel([TOO_LONG])
    agent = agent_of(model, [offloads(), clears(), summarizes()])
    with pytest.raises(ContextOverflowError, match="the prompt is too long") as caught:
        call(agent, {"messages": "short"}, THREAD)
    assert len(model.requests) == 1
    assert [note for note in caught.value.__notes__ if "nothing is left" in note] == [
        "The conversation is too long for the model, and nothing is left to free: nothing could be "
        "cleared, offloaded, summarized or cut."
    ]


def test_a_model_that_always_fails_is_asked_five_times_at_most(call: Any) -> None:
    def fails(_: Any) -> Any:
        raise ContextOverflowError("never short enough")

    model = ScriptedChatModel([fails] * 99)
    history = [HumanMessage("x" * 100) if at % 2 == 0 else AIMessage("y") for at in range(400)]
    agent = agent_of(model, [summarizes()])
    with pytest.raises(ContextOverflowError) as caught:
        call(agent, {"messages": [*history, HumanMessage("?")]}, THREAD)
    assert len(model.requests) == 5
    (note,) = (n for n in caught.value.__notes__ if "nothing is left" in n)
    assert note.count("summarized") == 4
    # Nothing of it is stored.
    assert not agent.get_state(THREAD).values.get("summaries")


def test_other_errors_of_the_summary_model_are_raised(call: Any) -> None:
    model = ScriptedChatModel([TOO_LONG])
    agent = agent_of(model, [summarizes(RuntimeError("summary model is down"))])
    with pytest.raises(RuntimeError, match="summary model is down"):
        call(agent, {"messages": CONTEXT}, THREAD)


def test_custom_edits_are_not_forced(call: Any) -> None:
    class Own:
        asked = 0

        def apply(self, messages: list[AnyMessage], *, count_tokens: Any) -> None:
            Own.asked += 1

    edits = m.ContextEditingMiddleware(edits=[Own()])
    agent = agent_of(ScriptedChatModel([TOO_LONG]), [edits])
    with pytest.raises(ContextOverflowError):
        call(agent, {"messages": CONTEXT}, THREAD)
    assert Own.asked == 1


def test_the_newest_results_are_cleared_only_if_there_are_no_others(call: Any) -> None:
    edits = m.ContextEditingMiddleware(edits=[m.ClearToolUsesEdit(keep=2)])
    steps = [fetching("a"), fetching("b"), fetching("c"), TOO_LONG, fetching("d"), TOO_LONG]
    model = ScriptedChatModel([*steps, TOO_LONG, "done"])
    call(agent_of(model, [edits]), {"messages": "go"}, THREAD)
    shown = [[m.text[0] for m in r.messages if m.type == "tool"] for r in model.requests]
    assert shown[3:] == [[*"abc"], [*"[bc"], [*"[bcd"], [*"[[cd"], [*"[[[d"]]


def test_a_thread_that_is_not_kept_is_changed(call: Any) -> None:
    edits = m.ContextEditingMiddleware(keep_thread=False)
    model = ScriptedChatModel([fetching("a"), fetching("b"), TOO_LONG, "done"])
    result = call(agent_of(model, [edits]), {"messages": "go"}, THREAD)
    assert [m.text[0] for m in result["messages"] if m.type == "tool"] == ["[", "b"]
    agent = agent_of(ScriptedChatModel([TOO_LONG, "done"]), [summarizes(keep_thread=False)])
    result = call(agent, {"messages": CONTEXT}, THREAD)
    assert texts(result["messages"]) == ["S", *texts(CONTEXT[6:]), "done"]


def paged(limit: int) -> tuple[Any, list[int]]:
    """A summary model that reads so many characters, and the lengths it was sent."""
    sent: list[int] = []

    def write(messages: list[Any]) -> Any:
        length = len(messages[0].text)
        sent.append(length)
        if length > limit:
            raise ProviderError("too long to summarize")
        return f"summary {len(sent)}"

    return ScriptedChatModel([write] * 99), sent


LONG: list[Any] = [
    HumanMessage(f"{at:03} " * 250) if at % 2 == 0 else AIMessage("y") for at in range(20)
]


@each("trim", [None, 1_000_000])
def test_a_summary_model_with_a_small_window_gets_smaller_pages(
    call: Any, trim: int | None
) -> None:
    writer, sent = paged(5_000)
    middleware = m.SummarizationMiddleware(
        writer,
        trigger=("messages", 21),
        keep=("messages", 1),
        summary_prompt="Sum up: {messages}",
        trim_tokens_to_summarize=trim,
    )
    model = ScriptedChatModel(["done"])
    call(agent_of(model, [middleware]), {"messages": [*LONG, HumanMessage("?")]}, THREAD)
    assert sum(length > 5_000 for length in sent) <= 3
    # Everything was read, and the last page continues the summary before it.
    read = "".join(r.messages[0].text for r in writer.requests if len(r.messages[0].text) <= 5_020)
    assert all(f"{at:03} " in read for at in range(0, 20, 2))
    assert texts(model.requests[0].messages) == [f"summary {len(sent)}", "?"]


def test_what_is_too_long_for_a_summary_is_left_out_with_a_remark(call: Any) -> None:
    """The summary model reads two pages, and then nothing any more."""
    writer = ScriptedChatModel(["one", "two", *[TOO_LONG] * 99])
    middleware = m.SummarizationMiddleware(
        writer, trigger=("messages", 21), keep=("messages", 1), trim_tokens_to_summarize=600
    )
    model = ScriptedChatModel(["done", "more"])
    agent = agent_of(model, [offloads(), middleware])
    result = call(agent, {"messages": [*LONG, HumanMessage("?")]}, THREAD)
    assert texts(model.requests[0].messages) == [
        "two\n\n[Left out here, because they are too long for a summary: #9 to #20. The messages "
        'up to here are kept: recall(id="#1") to recall(id="#20") return them, recall(id="list") '
        "lists them.]",
        "?",
    ]
    assert len(writer.requests) == 4  # the third page was too long, and so was half of it
    assert texts(result["messages"])[:-1] == [*texts(LONG), "?"]
    call(agent, {"messages": "on"}, THREAD)
    assert len(writer.requests) == 4
    assert texts(model.requests[1].messages)[1:] == ["?", "done", "on"]


def test_nothing_is_removed_from_a_thread_that_no_summary_includes(call: Any) -> None:
    writer = ScriptedChatModel(["one", *[TOO_LONG] * 9, "next"])
    middleware = m.SummarizationMiddleware(
        writer,
        trigger=[("messages", 21)],
        keep=("messages", 1),
        trim_tokens_to_summarize=600,
        keep_thread=False,
    )
    model = ScriptedChatModel(["done"])
    result = call(agent_of(model, [middleware]), {"messages": [*LONG, HumanMessage("?")]}, THREAD)
    assert texts(result["messages"]) == [*texts(LONG), "?", "done"]
    assert texts(model.requests[0].messages)[0].startswith("one\n\n[Left out here")


def cannot(_: Any) -> str:
    """A summarizer of nothing."""
    raise ContextOverflowError("too long for me")


def test_a_function_that_cannot_summarize_leads_to_a_cut(call: Any) -> None:
    middleware = summarizes(trigger=("messages", 8), keep=("messages", 2), summarizer=cannot)
    model = ScriptedChatModel(["done", "more"])
    result = call(agent_of(model, [middleware]), {"messages": CONTEXT}, THREAD)
    (first, *_) = texts(model.requests[0].messages)
    assert first.startswith("[Left out here")
    assert "#1 to #6" in first
    assert len(result["messages"]) == 9


def test_a_cut_of_what_only_a_layer_knows_is_not_empty(call: Any) -> None:
    """Providers refuse a message without text."""
    small: Any = {"trigger": ("messages", 2), "keep": ("messages", 1), "keep_thread": False}
    model = ScriptedChatModel(["done"])
    stack = [AddsContext(), summarizes(summarizer=cannot, **small)]
    call(agent_of(model, stack), {"messages": "?"}, THREAD)
    assert texts(model.requests[0].messages) == ["[Earlier messages are left out here.]", "?"]


def test_a_call_outside_of_an_agent_leaves_out_nothing_that_is_not_summarized() -> None:
    middleware = summarizes(
        TOO_LONG, trigger=("messages", 3), keep=("messages", 1), trim_tokens_to_summarize=300
    )
    state = {"messages": [HumanMessage("a"), AIMessage("b"), HumanMessage("c")]}
    assert middleware.before_model(state) is None


def test_a_result_keeps_its_call_whatever_is_cut(call: Any) -> None:
    model = ScriptedChatModel([fetching("a", "b"), TOO_LONG, fetching("c"), TOO_LONG, "done"])
    call(agent_of(model, [summarizes(*[""] * 9)]), {"messages": "go"}, THREAD)
    for record in model.requests:
        called = {c["id"] for m in record.messages for c in getattr(m, "tool_calls", ())}
        answered = {m.tool_call_id for m in record.messages if isinstance(m, ToolMessage)}
        assert called == answered
