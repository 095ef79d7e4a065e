"""Links to files stay in summaries, and the files themselves do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import create_agent
from agent_factory.middleware import SummarizationMiddleware
from agent_factory.middleware._shared.transcript import links_of, render
from agent_factory.testing import ScriptedChatModel
from tables import each

Run = Callable[..., Any]
THREAD: Any = {"configurable": {"thread_id": "1"}}
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
