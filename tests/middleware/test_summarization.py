"""SummarizationMiddleware: when it summarizes, what, and what a thread holds that is not kept.

What a kept thread holds, and that the model sees the same then, is in `test_kept_threads.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import ModelRequest, create_agent, run
from agent_factory.middleware import SummarizationMiddleware
from agent_factory.middleware._shared.transcript import links_of, pages, render
from agent_factory.middleware.summarization import cut_by_count, cut_by_tokens, safe_cuts
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, AddsContext, message_count
from tables import each

Ask = Callable[..., Any]


def chat(*texts: str) -> list[AnyMessage]:
    """A user and an assistant in turn."""
    kinds = (HumanMessage, AIMessage)
    return [kinds[index % 2](text) for index, text in enumerate(texts)]


def texts(messages: list[Any]) -> list[str]:
    return [str(message.text) for message in messages]


def summarizing(*summaries: Any, **settings: Any) -> tuple[ScriptedChatModel, Any]:
    model = ScriptedChatModel(summaries)
    defaults: dict[str, Any] = {"trigger": ("messages", 5), "keep": ("messages", 2)}
    return model, shortening(model, **{**defaults, **settings})


def shortening(model: Any, **settings: Any) -> SummarizationMiddleware:
    """Middleware that replaces the messages in the thread too."""
    return SummarizationMiddleware(model, **settings, keep_thread=False)


SUMMARY = "Summary of the conversation so far:\n\n"
FIVE = chat("1", "2", "3", "4", "5")


def agent_of(*stack: Any, steps: Any = ("ok",), **options: Any) -> Any:
    """An agent without tools, whose model answers."""
    return create_agent(ScriptedChatModel(list(steps)), middleware=stack, **options)


def test_older_messages_are_replaced_by_a_summary(send: Ask) -> None:
    """Each message keeps its id, and the summary that of the first."""
    writer, middleware = summarizing("They counted.")
    model = ScriptedChatModel(["six"])
    history = chat("one", "two", "three", "four", "5")
    history[0].id, history[4].id = "first", "last"
    found = send(create_agent(model, [], middleware=[middleware]), history)["messages"]
    assert texts(found) == [f"{SUMMARY}They counted.", "four", "5", "six"]
    assert texts(model.requests[0].messages) == [f"{SUMMARY}They counted.", "four", "5"]
    assert (found[0].type, found[0].id, found[2].id) == ("human", "first", "last")
    assert found[0].additional_kwargs == {"lc_source": "summarization"}
    asked = writer.requests[0].messages[0].text
    assert "User: one\nAssistant: two\nUser: three\n" in asked
    assert "four" not in asked


def test_a_later_summary_includes_the_earlier_one(send: Ask) -> None:
    writer, middleware = summarizing("First.", "First and second.")
    agent = agent_of(middleware, steps="fhj", checkpointer=InMemorySaver())
    send(agent, chat("a", "b", "c", "d", "e"), THREAD)
    result = send(agent, chat("g"), THREAD)
    assert texts(result["messages"]) == [f"{SUMMARY}First and second.", "f", "g", "h"]
    _, asked = (record.messages[0].text for record in writer.requests)
    assert asked.count("First.") == 1
    assert "User: e" in asked
    sources = [m.additional_kwargs.get("lc_source") for m in result["messages"]]
    assert sources.count("summarization") == 1


def lookup(word: str) -> str:
    """Look a word up."""
    return word.upper()


def test_the_system_prompt_and_the_tool_schemas_count_on_the_very_first_call(send: Ask) -> None:
    def elaborate(x: int) -> int:
        """Do it."""
        return x

    elaborate.__doc__ = "word " * 500
    counted: list[Any] = [{"system_prompt": "word " * 500}, {"tools": [elaborate]}]
    for options in [{}, *counted]:
        _, middleware = summarizing("S", trigger=("tokens", 500), keep=("messages", 1))
        messages = send(agent_of(middleware, **options), chat("a", "b", "c"))["messages"]
        assert texts(messages) == ([f"{SUMMARY}S", "c", "ok"] if options else ["a", "b", "c", "ok"])


@each(
    "trigger, due",
    [
        (("messages", 3), True),
        (("messages", 4), False),
        ({"messages": 3, "tokens": 1000}, False),
        ({"messages": 3, "tokens": 5}, True),
        ([("messages", 4), {"tokens": 5}], True),
        ([("messages", 4), {"messages": 3, "tokens": 1000}], False),
        ([{"fraction": 0.9}, ("fraction", 0.01)], True),
        (None, False),
        ([], False),
    ],
)
def test_a_clause_needs_all_its_thresholds_and_a_list_any_of_its_clauses(
    send: Ask, trigger: Any, due: bool
) -> None:
    writer = ScriptedChatModel(["S"], profile={"max_input_tokens": 200})
    middleware = SummarizationMiddleware(writer, trigger=trigger, keep=("messages", 1))
    send(create_agent(ScriptedChatModel(["ok"]), middleware=[middleware]), chat("a", "b", "c"))
    assert len(writer.requests) == due


@each(
    "name, value, hint, new",
    [
        ("max_tokens_before_summary", 500, r"trigger=\('tokens', 500\)", "trigger"),
        ("messages_to_keep", 7, r"keep=\('messages', 7\)", "keep"),
        ("summary_prefix", "Then:", "leave it out", None),
    ],
)
def test_a_deprecated_argument_is_taken_with_a_warning_at_the_line_that_passes_it(
    name: str, value: Any, hint: str, new: str | None
) -> None:
    """The new argument takes precedence."""
    model = ScriptedChatModel([])
    with pytest.warns(DeprecationWarning, match=f"`{name}` .*{hint}") as warned:
        old = SummarizationMiddleware(model, **{name: value})
    assert [warning.filename for warning in warned] == [__file__]
    if new is not None:
        assert getattr(old, new) == ("messages" if new == "keep" else "tokens", value)
        with pytest.warns(DeprecationWarning, match="is deprecated"):
            both = SummarizationMiddleware(model, **{name: value, new: ("messages", 9)})
        assert getattr(both, new) == ("messages", 9)


def test_the_error_of_either_model_is_raised_and_the_thread_stays(
    send: Ask, call: Callable[..., Any]
) -> None:
    _, middleware = summarizing(RuntimeError("summary model is down"), "S", "S")
    steps = [RuntimeError("model is down"), "ok"]
    agent = agent_of(middleware, steps=steps, checkpointer=InMemorySaver())
    for problem in ("summary model is down", "^model is down"):
        with pytest.raises(RuntimeError, match=problem):
            send(agent, FIVE, THREAD) if problem[0] == "s" else call(agent, None, THREAD)
        assert texts(agent.get_state(THREAD).values["messages"]) == ["1", "2", "3", "4", "5"]
    assert texts(call(agent, None, THREAD)["messages"]) == [f"{SUMMARY}S", "4", "5", "ok"]


@each("empty", ["", "  \n", AIMessage([{"type": "thinking", "thinking": "?"}])])
def test_an_empty_summary_leaves_the_history_unchanged(send: Ask, empty: Any) -> None:
    _, middleware = summarizing(empty)
    assert texts(send(agent_of(middleware, steps="6"), FIVE)["messages"]) == list("123456")


def test_a_long_part_is_read_in_several_prompts_and_none_of_it_is_dropped(send: Ask) -> None:
    numbers = [f"number-{n:03}" for n in range(200)]
    summaries = [f"summary-{n}" for n in range(99)]
    writer, middleware = summarizing(*summaries, trim_tokens_to_summarize=100)
    history = [*chat(*numbers[:100]), HumanMessage(" ".join(numbers[100:])), *chat("b", "c")]
    result = send(agent_of(middleware), history)
    asked = [record.messages[0].text for record in writer.requests]
    assert len(asked) > 5
    everything = "".join(asked)
    assert all(number in everything for number in numbers[:100])
    assert sum(number in everything for number in numbers) >= 190  # the rest lies across two pages
    assert all(f"summary-{n}" in asked[n + 1] for n in range(len(asked) - 1))
    assert texts(result["messages"])[0] == f"{SUMMARY}summary-{len(asked) - 1}"


PART = "User: {messages}\nAssistant: b\nUser: c"


@each(
    "prompt, asked",
    [
        ('{"keys": {x}} {messages} {0}', f'{{"keys": {{x}}}} {PART} {{0}}'),
        ("Sum up.", f"Sum up.\n\n{PART}"),
    ],
)
def test_a_summary_prompt_keeps_its_braces_and_may_have_no_placeholder(
    send: Ask, prompt: str, asked: str
) -> None:
    writer, middleware = summarizing("S", summary_prompt=prompt)
    send(agent_of(middleware), chat("{messages}", "b", "c", "d", "e"))
    assert writer.requests[0].messages[0].text == asked


@each("summarizer", [message_count, RunnableLambda(message_count)])
def test_a_function_or_a_chain_may_summarize(send: Ask, summarizer: Any) -> None:
    writer, middleware = summarizing(summarizer=summarizer)
    assert texts(send(agent_of(middleware), FIVE)["messages"])[0] == f"{SUMMARY}3 messages"
    assert writer.requests == []


async def test_a_coroutine_function_may_summarize_in_an_async_run() -> None:
    async def acount_them(messages: list[AnyMessage]) -> AIMessage:
        return AIMessage(f"{len(messages)} messages")

    _, middleware = summarizing(summarizer=acount_them)
    agent = agent_of(middleware)
    result = await agent.ainvoke({"messages": FIVE})
    assert texts(result["messages"])[0] == f"{SUMMARY}3 messages"
    with pytest.raises(TypeError, match="coroutine function, and this run is synchronous"):
        agent.invoke({"messages": FIVE})


def test_a_function_that_returns_an_earlier_summary_does_not_repeat_its_heading(send: Ask) -> None:
    _, middleware = summarizing(summarizer=lambda messages: "\n".join(texts(messages)))
    agent = agent_of(middleware, steps="fh", checkpointer=InMemorySaver())
    send(agent, chat("a", "b", "c", "d", "e"), THREAD)
    result = send(agent, chat("g"), THREAD)
    assert texts(result["messages"]) == [f"{SUMMARY}a\nb\nc\nd\ne", "f", "g", "h"]


def test_a_model_with_fallbacks_is_given_the_prompt_and_another_type_raises(send: Ask) -> None:
    spare = ScriptedChatModel(["spare"])
    broken = ScriptedChatModel([RuntimeError("down")])
    _, middleware = summarizing(summarizer=broken.with_fallbacks([spare]).with_retry())
    assert texts(send(agent_of(middleware), FIVE)["messages"])[0] == f"{SUMMARY}spare"
    assert "<conversation>" in spare.requests[0].messages[0].text
    _, middleware = summarizing(summarizer=lambda messages: 42)
    with pytest.raises(TypeError, match="must return a string or a message, got 42"):
        send(agent_of(middleware), FIVE)


def test_two_instances_on_one_agent_lose_nothing(send: Ask) -> None:
    first = shortening(
        ScriptedChatModel(["one", "two"]), trigger=("messages", 5), keep=("messages", 4), name="a"
    )
    second, inner = summarizing("three", name="b", trigger=("messages", 4))
    agent = agent_of(first, inner, steps="fh", checkpointer=InMemorySaver())
    result = send(agent, chat("a", "b", "c", "d", "e"), THREAD)
    assert texts(result["messages"]) == [f"{SUMMARY}one", "b", "c", "d", "e", "f"]
    assert second.requests == []
    result = send(agent, chat("g"), THREAD)
    assert texts(result["messages"]) == [f"{SUMMARY}two", "d", "e", "f", "g", "h"]


def test_messages_of_another_layer_stay_out_of_the_thread(send: Ask) -> None:
    writer, middleware = summarizing("S")
    model = ScriptedChatModel(["6"])
    result = send(create_agent(model, middleware=[AddsContext(), middleware]), FIVE)
    assert texts(model.requests[0].messages) == [f"{SUMMARY}S", "4", "5"]
    assert texts(result["messages"]) == [f"{SUMMARY}S", "4", "5", "6"]
    assert "only for this call" in writer.requests[0].messages[0].text


def rendered_lines(writer: ScriptedChatModel) -> list[str]:
    """The lines of the conversation that the summary model was given."""
    asked = writer.requests[0].messages[0].text
    return asked.partition("<conversation>\n")[2].partition("\n</conversation>")[0].split("\n")


def test_content_blocks_are_rendered_without_their_data(send: Ask) -> None:
    writer, middleware = summarizing("S")
    picture = {"type": "image", "base64": "A" * 1000, "mime_type": "image/png"}
    odd = AIMessage(
        [
            {"type": "thinking", "thinking": "secret"},
            {"type": "text", "text": "I see"},
            {"type": "tool_use", "id": "1", "name": "lookup", "input": {"word": "x"}},
            {"type": "novelty", "value": 7},
            {"no": "type"},
            "bare",
        ],
        tool_calls=[{"name": "lookup", "args": {"word": "x"}, "id": "1"}],
        invalid_tool_calls=[invalid_tool_call(name="lookup", args="{wor", id="2")],
    )
    history = [
        HumanMessage([{"type": "text", "text": "what is this?"}, picture]),
        odd,
        ToolMessage("X", name="lookup", tool_call_id="1"),
        ToolMessage([picture], tool_call_id="2", status="error"),
        *chat("4", "5"),
    ]
    send(agent_of(middleware), history)
    assert rendered_lines(writer) == [
        "User: what is this? [image]",
        'Assistant: I see {"type": "novelty", "value": 7} {"no": "type"} bare',
        'Assistant called lookup with {"word": "x"}',
        "Assistant called lookup with {wor",
        "Tool lookup: X",
        "Tool 2 failed: [image]",
    ]


def test_summary_tokens_are_not_streamed(collect: Ask) -> None:
    _, middleware = summarizing("secret summary words")
    agent = agent_of(middleware, steps=["an answer"])
    parts = collect(agent, {"messages": FIVE}, stream_mode="messages")
    streamed = [message for message, _ in parts]
    assert "".join(texts(streamed)) == "an answer"
    assert all(isinstance(message, AIMessageChunk) for message in streamed)


@each("window, kept", [(100, "Scde"), (140, "Sbcde"), (200, "01abcde"), (None, "Se")])
def test_a_fraction_refers_to_the_window_of_the_model_that_is_called(
    send: Ask, window: int | None, kept: str
) -> None:
    """The summary model's own window counts only where that of the called model is unknown."""
    writer = ScriptedChatModel(["S"], profile={"max_input_tokens": 30})
    sizes: Any = {"trigger": ("fraction", 0.5), "keep": ("fraction", 0.3)}
    middleware = shortening(writer, **sizes)
    assert middleware.token_counter is count_tokens_approximately  # as a stack in a file has it
    middleware.token_counter = lambda messages: 10 * len(messages)  # also after it was made
    profile: Any = {"max_input_tokens": window} if window else {}
    model = ScriptedChatModel(["ok"], profile=profile)
    result = send(create_agent(model, middleware=[middleware]), chat(*"01abcde"))
    expected = [f"{SUMMARY}S" if text == "S" else text for text in kept]
    assert texts(result["messages"]) == [*expected, "ok"]


def thought(kind: str, call: str = "") -> AIMessage:
    """What a provider says with its reasoning, and perhaps a call repeated among the blocks."""
    blocks: dict[str, dict[str, Any]] = {
        "thinking": {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        "redacted_thinking": {"type": "redacted_thinking", "data": "c2ln"},
        "reasoning": {"type": "reasoning", "summary": [], "encrypted_content": "c2ln"},
        "reasoning_content": {
            "type": "reasoning_content",
            "reasoning_content": {"text": "hm", "signature": "c2ln"},
        },
    }
    blocks["non_standard"] = {"type": "non_standard", "value": blocks["redacted_thinking"]}
    content: list[Any] = [blocks[kind], {"type": "text", "text": "I look."}]
    if not call:
        return AIMessage(content)
    use = {"type": "tool_use", "id": call, "name": "lookup", "input": {"word": call}}
    made: Any = {"name": "lookup", "args": {"word": call}, "id": call}
    return AIMessage([*content, use], tool_calls=[made])


THOUGHTS = ["thinking", "redacted_thinking", "reasoning", "reasoning_content", "non_standard"]


@each("kind", THOUGHTS)
def test_reasoning_is_not_summarized_and_is_kept_in_messages_that_stay(
    send: Ask, kind: str
) -> None:
    """The call with its thoughts and results stays whole, however little is to be kept."""
    writer, middleware = summarizing("S", trigger=("messages", 4), keep=("messages", 1))
    said = thought(kind, "b")
    history = [
        HumanMessage("q"),
        thought(kind, "a"),
        ToolMessage("A", name="lookup", tool_call_id="a"),
        said,
        ToolMessage("B", name="lookup", tool_call_id="b"),
    ]
    model = ScriptedChatModel(["ok"])
    send(create_agent(model, [lookup], middleware=[middleware]), history)
    assert rendered_lines(writer) == [
        "User: q",
        "Assistant: I look.",
        'Assistant called lookup with {"word": "a"}',
        "Tool lookup: A",
    ]
    sent = model.requests[0].messages
    assert [m.type for m in sent] == ["human", "ai", "tool"]
    assert (sent[1].content, sent[1].tool_calls) == (said.content, said.tool_calls)  # type: ignore[attr-defined]


@each("kind", THOUGHTS)
def test_reasoning_of_the_summary_model_is_not_part_of_the_summary(send: Ask, kind: str) -> None:
    _, middleware = summarizing(thought(kind))
    assert texts(send(agent_of(middleware), FIVE)["messages"])[0] == f"{SUMMARY}I look."


LOOKED_UP = {"type": "search_result", "title": "Shop", "content": [{"type": "text", "text": "So."}]}


@each(
    "block, rendered",
    [
        ({"type": "file", "file": {"file_data": "QUJD", "filename": "x"}}, "[file]"),
        ({"type": "input_file", "file_data": "QUJD", "filename": "a.pdf"}, "[input_file: a.pdf]"),
        ({"type": "document", "source": {"data": "QUJD"}, "title": "Terms"}, "[document: Terms]"),
        ({"image": {"format": "png", "source": {"bytes": "QUJD"}}}, "[attachment]"),
        ({**LOOKED_UP, "source": "u"}, "Shop So."),
        ({"type": "query", "a": 1, "extras": {"signature": "QUJD"}}, '{"type": "query", "a": 1}'),
        ({"type": "odd", "content": [7, {"signature": "QUJD", "a": 1}]}, '7 {"a": 1}'),
    ],
)
def test_provider_specific_keys_are_not_rendered(block: Any, rendered: str) -> None:
    assert render(HumanMessage([block])) == f"User: {rendered}"


def test_one_very_long_message_is_read_to_its_end_and_does_not_bring_a_summary_each_turn(
    send: Ask,
) -> None:
    writer, middleware = summarizing(
        *["S"] * 99, trigger=("tokens", 1000), keep=("tokens", 100), trim_tokens_to_summarize=2000
    )
    model = ScriptedChatModel(["f", "h"])
    agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
    long = "".join(f"{number:06} " for number in range(10_000))
    result = send(agent, [*chat("a", "b"), HumanMessage(long)], THREAD)
    assert texts(result["messages"]) == [f"{SUMMARY}S", long, "f"]
    assert len(writer.requests) == 1
    result = send(agent, chat("g"), THREAD)
    assert texts(result["messages"]) == [f"{SUMMARY}S", "f", "g", "h"]
    asked = [record.messages[0].text for record in writer.requests[1:]]
    assert "000000 " in asked[0]
    assert "009999 " in asked[-1]
    assert max(map(len, asked)) < 5 * 2000
    assert sum(map(len, asked)) > len(long)


Run = Callable[..., Any]
URL = "https://example.org/plan-7.png"
BYTES = "QUJD" * 500


@each(
    "block, rendered",
    [
        ({"type": "image_url", "image_url": {"url": URL}}, f"[image_url: {URL}]"),
        ({"type": "image_url", "image_url": URL}, f"[image_url: {URL}]"),
        ({"type": "input_image", "image_url": URL}, f"[input_image: {URL}]"),
        ({"type": "image", "url": URL, "title": "Plan"}, f"[image: Plan {URL}]"),
        ({"type": "image", "source": {"type": "url", "url": URL}}, f"[image: {URL}]"),
        ({"type": "document", "source": {"url": URL}, "title": "Plan"}, f"[document: Plan {URL}]"),
        ({"type": "input_file", "file_url": URL, "filename": "a"}, f"[input_file: a {URL}]"),
        ({"image": {"source": {"s3Location": {"uri": "s3://a/b"}}}}, "[attachment: s3://a/b]"),
        (
            {"type": "non_standard", "value": {"type": "image", "image_url": {"url": URL}}},
            f"[image: {URL}]",
        ),
        ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BYTES}"}}, None),
        ({"type": "image", "base64": BYTES, "mime_type": "image/png"}, None),
        ({"type": "file", "file_id": "file-1"}, None),
    ],
)
def test_a_file_is_rendered_with_its_link_and_without_its_data(
    block: Any, rendered: str | None
) -> None:
    message = HumanMessage([{"type": "text", "text": "Look:"}, block])
    assert BYTES not in render(message)
    if rendered is None:
        assert links_of(message) == []
        assert render(message) == f"User: Look: [{block['type']}]"
        return
    assert render(message) == f"User: Look: {rendered}"
    assert links_of(message) == ["s3://a/b" if "s3" in rendered else URL]


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


HISTORY = [
    HumanMessage([{"type": "text", "text": "Look."}, image(URL)]),
    AIMessage("Nice.", tool_calls=[{"name": "draw", "args": {}, "id": "1"}]),
    ToolMessage([image("https://example.org/b")], tool_call_id="1"),
    AIMessage("Drawn."),
    HumanMessage("Thanks."),
]


@each("keep_thread", [True, False])
@each("as_function", [True, False])
def test_links_that_a_summary_lacks_are_added_to_it(
    call: Run, keep_thread: bool, as_function: bool
) -> None:
    """Also if it is summarized again, and each link once."""
    texts = iter(["A plan.", f"A plan, {URL}.", "All."])
    writer = ScriptedChatModel([lambda _: next(texts)] * 3)
    summaries = SummarizationMiddleware(
        writer,
        trigger=("messages", 3),
        keep=("messages", 1),
        keep_thread=keep_thread,
        summarizer=(lambda messages: next(texts)) if as_function else None,
    )
    model = ScriptedChatModel(["ok"] * 3)
    agent = create_agent(model, middleware=[summaries], checkpointer=InMemorySaver())
    call(agent, {"messages": HISTORY}, THREAD)
    call(agent, {"messages": [HumanMessage("More.")]}, THREAD)
    call(agent, {"messages": [HumanMessage([image("https://example.org/c"), image(URL)])]}, THREAD)
    first, second, third = [record.messages[0].text for record in model.requests]
    assert first.endswith(f"A plan.\n\nFiles in these messages: {URL} https://example.org/b")
    assert second.endswith(f"A plan, {URL}.\n\nFiles in these messages: https://example.org/b")
    assert third.endswith("All.\n\nFiles in these messages: https://example.org/b")


LINKS = [f"https://example.org/{number}" for number in range(70)]


@each(
    "content, end",
    [
        (list(map(image, LINKS)), f"Files in these messages: {' '.join(LINKS[20:])}"),
        (f"See {URL}", "so far:\n\nS"),
    ],
)
def test_a_summary_keeps_the_newest_links_of_files(call: Run, content: Any, end: str) -> None:
    history = [HumanMessage(content), AIMessage("ok"), HumanMessage("b")]
    sizes: Any = {"trigger": ("messages", 3), "keep": ("messages", 1)}
    summaries = SummarizationMiddleware(ScriptedChatModel(["S"]), **sizes)
    model = ScriptedChatModel(["ok"])
    call(create_agent(model, middleware=[summaries]), {"messages": history})
    assert model.requests[0].messages[0].text.endswith(end)


@st.composite
def histories(draw: st.DrawFn) -> list[BaseMessage]:
    """Conversations in which results may be missing, late, repeated or strays."""
    messages: list[BaseMessage] = []
    open_calls: list[str] = []
    for index in range(draw(st.integers(0, 25))):
        kind = draw(st.sampled_from(["human", "ai", "calls", "invalid", "tool", "system"]))
        if kind == "tool":
            known = st.sampled_from(open_calls) if open_calls else st.just("stray")
            call = draw(st.one_of(known, st.sampled_from(["stray", "c0", "c1"])))
            messages.append(ToolMessage(f"{index}", tool_call_id=call))
        elif kind in ("calls", "invalid"):
            ids = draw(st.lists(st.sampled_from(["c0", "c1", "c2", "c3"]), min_size=1, max_size=3))
            open_calls += ids
            calls: list[Any] = [{"name": "f", "args": {}, "id": call} for call in ids]
            bad: list[Any] = [{"name": "f", "args": "{", "id": c, "error": ""} for c in ids]
            made = {"tool_calls": calls} if kind == "calls" else {"invalid_tool_calls": bad}
            messages.append(AIMessage(f"{index}", **made))
        else:
            makers = {"human": HumanMessage, "ai": AIMessage, "system": SystemMessage}
            messages.append(makers[kind](f"{index}"))
    return messages


def parted(messages: list[Any], cut: int) -> bool:
    """Whether a kept result belongs to a call that goes: the nearest one before it."""
    for position in range(cut, len(messages)):
        if isinstance(messages[position], ToolMessage):
            for earlier in range(position - 1, -1, -1):
                message = messages[earlier]
                if isinstance(message, AIMessage) and messages[position].tool_call_id in [
                    call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)
                ]:
                    if earlier < cut:
                        return True
                    break
    return False


@given(histories())
def test_a_safe_cut_separates_no_result_from_its_call_and_no_safe_cut_is_missed(
    messages: list[Any],
) -> None:
    wanted = [cut for cut in range(len(messages)) if not parted(messages, cut)]
    assert safe_cuts(messages) == wanted


@given(histories(), st.integers(1, 30))
def test_a_cut_by_count_keeps_at_least_what_was_asked_for(messages: Any, keep: int) -> None:
    cut = cut_by_count(messages, keep)
    assert not parted(messages, cut)
    assert len(messages) - cut >= min(keep, len(messages))
    assert not [c for c in safe_cuts(messages) if cut < c <= len(messages) - keep]


@given(histories(), st.integers(0, 30))
def test_a_cut_by_tokens_keeps_as_much_as_fits_and_at_least_the_last_part(
    messages: Any, budget: int
) -> None:
    cut = cut_by_tokens(messages, budget, len)
    assert not parted(messages, cut)
    later = [c for c in safe_cuts(messages) if c > cut]
    assert len(messages) - cut <= budget or not later
    assert all(len(messages) - c > budget for c in safe_cuts(messages) if c < cut)


@given(histories(), st.integers(1, 10))
def test_order_is_kept_and_nothing_is_lost_outside_the_summarized_part(
    messages: Any, keep: int
) -> None:
    middleware = SummarizationMiddleware(
        ScriptedChatModel(),
        trigger=("messages", 1),
        keep=("messages", keep),
        summarizer=message_count,
    )
    sent: list[Any] = []
    request: Any = ModelRequest(model=FakeListChatModel(responses=[]), messages=messages)
    run(middleware.around_model(request), lambda inner: sent.extend(inner.messages))
    summary = [m for m in sent if m.additional_kwargs.get("lc_source") == "summarization"]
    stayed = [m for m in sent if m not in summary]
    gone = [m for m in messages if all(m is not other for other in stayed)]
    assert len(summary) == bool(gone)
    assert stayed == [m for m in messages if all(m is not other for other in gone)]
    assert not any(isinstance(m, SystemMessage) for m in gone)
    assert len(stayed) >= min(keep, len(messages))
    if gone:
        assert f"{len(gone)} messages" in summary[0].text


@given(st.lists(st.text(min_size=1, max_size=40)), st.integers(1, 20))
def test_pages_hold_every_character_in_order_within_their_limit(
    lines: list[str], limit: int
) -> None:
    found = list(pages(lines, limit, len))
    made = [page for _, page in found]
    assert all(page.split("\n")[0] in lines[first] for first, page in found)
    assert "".join(made).replace("\n", "") == "".join(lines).replace("\n", "")
    assert all(len(page.replace("\n", "")) <= limit for page in made)
