"""Messages as their provider takes them, and answers that end otherwise than by themselves."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field
from thinking_claude import Claude

from agent_factory import create_agent
from agent_factory import middleware as m
from agent_factory.providers.endings import CUT_CALL
from agent_factory.providers.requests import (
    ACKNOWLEDGEMENT,
    RULES,
    model_for,
    settings_for,
    valid_messages,
)
from agent_factory.testing import ScriptedChatModel
from samples import last_text
from tables import each

ONE: Any = {"configurable": {"thread_id": "1"}}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def call_of(id_: str, name: str = "look") -> Any:
    return {"name": name, "args": {}, "id": id_, "type": "tool_call"}


def looking(*ids: str, content: Any = "") -> AIMessage:
    return AIMessage(content, tool_calls=[*map(call_of, ids)])


def found(id_: str, content: Any = "found") -> ToolMessage:
    return ToolMessage(content, tool_call_id=id_)


def shapes(messages: Any) -> list[Any]:
    """Each message as its content, with the ids of calls."""
    ids = [[c["id"] for c in getattr(message, "tool_calls", ())] for message in messages]
    return [(m.content, *i) if i else m.content for m, i in zip(messages, ids, strict=True)]


def failed(id_: str) -> ToolMessage:
    return ToolMessage("No.", tool_call_id=id_, status="error")


def by(maker: str) -> AIMessage:
    return AIMessage([THOUGHT, text("Well.")], response_metadata={"model_provider": maker})


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "1", "name": "code", "input": "x"}
OUTPUT = {"type": "custom_tool_call_output", "output": "found"}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
RESULT = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
ITEM = text("Well.", id="msg_1")
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
PICTURE = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
NOTE = "[Left out here: image, which the provider does not take in a result.]"
HI, MORE = HumanMessage("Hi"), HumanMessage("More")
USAGE: Any = {
    "input_tokens": 1,
    "output_tokens": 9,
    "total_tokens": 10,
    "output_token_details": {"reasoning": 5},
}


@each(
    "provider, messages, expected",
    [
        ("anthropic", [AIMessage(["", THOUGHT, "Hello."])], [[THOUGHT, text("Hello.")]]),
        ("mistral", [AIMessage(["", "Let me see."])], [[text("Let me see.")]]),
        ("amazon_bedrock", [AIMessage([text(" \n"), text("Hello.")])], [[text("Hello.")]]),
        ("google_genai", [HI, AIMessage(""), MORE], ["Hi", "More"]),
        ("mistral", [HI, AIMessage([]), MORE], ["Hi", "More"]),
        (
            "mistral",
            [looking("1"), found("1"), MORE],
            [("", "1"), "found", ACKNOWLEDGEMENT, "More"],
        ),
        (
            "anthropic",
            [looking("1"), found("1"), looking("1"), found("1", "new"), looking("2"), found("2")],
            [("", "1"), "found", ("", "1_2"), "new", ("", "2"), "found"],
        ),
        (
            "anthropic",
            [AIMessage([text("I search."), SEARCH]), AIMessage([RESULT, text("Rain.")])],
            [[text("I search."), SEARCH, RESULT, text("Rain.")]],
        ),
        (
            "anthropic",
            [AIMessage([text("I search."), SEARCH]), MORE],
            [[text("I search.")], "More"],
        ),
        ("anthropic", [HI, AIMessage([SEARCH])], ["Hi", [SEARCH]]),
        (
            "amazon_bedrock",
            [HI, AIMessage("One."), looking("1", content="Two."), found("1")],
            ["Hi", ([text("One."), text("Two.")], "1"), "found"],
        ),
        (
            "openai",
            [looking("1", content=[CUSTOM]), found("1"), looking("2"), found("2")],
            [([CUSTOM], "1"), [OUTPUT], ("", "2"), "found"],
        ),
        ("openai", [AIMessage([ITEM], usage_metadata=USAGE)], [[text("Well.")]]),
        ("openai", [AIMessage([ITEM])], [[ITEM]]),
        (
            "openai",
            [AIMessage([REASONING, ITEM], usage_metadata=USAGE)],
            [[REASONING, ITEM]],
        ),
        ("azure", [AIMessage([ITEM, REASONING])], [[ITEM]]),
        ("groq", [AIMessage(["", text("Hello.")])], [["", text("Hello.")]]),
        ("mistral", [by("anthropic"), MORE], [[text("Well.")], "More"]),
        ("anthropic", [by("anthropic"), MORE], [[THOUGHT, text("Well.")], "More"]),
        ("cohere", [by("cohere"), MORE], [[text("Well.")], "More"]),
        ("google_genai", [found("1", "1.10")], ['{"output": "1.10"}']),
        ("google_genai", [found("1", '{"a": 1}'), found("2")], ['{"a": 1}', "found"]),
        ("google_genai", [failed("1")], ['{"error": "No."}']),
        ("deepseek", [found("1", [text("See:"), PICTURE])], [[text("See:"), text(NOTE)]]),
        ("somebody", [AIMessage(["", "Hello."])], [["", "Hello."]]),
    ],
)
def test_messages_follow_the_rules_of_their_provider(
    provider: str, messages: Any, expected: Any
) -> None:
    valid = valid_messages(provider, messages)
    assert shapes(valid) == expected
    assert shapes(valid_messages(provider, valid)) == expected


def test_a_renamed_call_is_renamed_in_its_block_too() -> None:
    block = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
    messages: Any = [looking("1", content=[block]), found("1")] * 2
    valid: Any = valid_messages("anthropic", messages)
    assert valid[2].content[0]["id"] == valid[3].tool_call_id == "1_2"


def test_a_name_has_no_character_that_openai_refuses() -> None:
    history: list[Any] = [AIMessage("Hello.", name="Order <desk>")]
    (message,) = valid_messages("openai", history)
    assert message.name == "Order_desk_"


def test_deepseek_gets_the_thoughts_of_its_calls_back() -> None:
    model: Any = ScriptedChatModel([]).bind(extra_body={"thinking": {"type": "disabled"}})
    thinking = looking("1").model_copy(update={"additional_kwargs": {"reasoning_content": "Hm."}})
    messages: list[Any] = [HI, thinking, found("1"), MORE, looking("2"), found("2")]
    (body,) = settings_for("deepseek", model.bind(stop=["."]), messages).values()
    sent = [form.get("reasoning_content") for form in body["messages"]]
    assert (sent, body["thinking"]) == ([None, "Hm.", None, None, "", None], {"type": "disabled"})
    assert settings_for("deepseek", model, messages[:1]) == {}
    assert settings_for("openai", model, messages) == {}


class ManualClaude(Claude):
    """Thinks before each turn of the assistant."""

    thinking: dict[str, Any] = Field(default={"type": "enabled", "budget_tokens": 1024})


@each(
    "content, thinks",
    [([THOUGHT, text("Well.")], "enabled"), ([text("Well.")], "disabled"), ("", "disabled")],
)
def test_a_turn_that_lost_its_thought_goes_on_without_thinking(content: Any, thinks: str) -> None:
    model = ManualClaude(steps=[]).bind(tools=[])
    history: list[Any] = [HI, looking("1", content=content), found("1")]
    bound: Any = model_for("anthropic", model, history)
    assert (bound.bound.thinking["type"], bound.kwargs) == (thinks, {"tools": []})
    assert model_for("anthropic", model, [*history, AIMessage("Done."), MORE]) is model


contents = st.sampled_from(["", " ", "Well.", [], [""], [text("")], [THOUGHT, text("Well.")]])
answers = st.builds(lambda content, ids: looking(*ids, content=content), contents, st.just(()))
turns = st.builds(
    lambda id_, c: [looking(id_, content=c), found(id_)], st.sampled_from("123"), contents
)
histories = st.lists(st.one_of(answers.map(lambda a: [a]), turns, st.just([HI])), max_size=6)


@given(st.sampled_from(sorted(RULES)), histories)
def test_rules_hold_together(provider: str, history: Any) -> None:
    """Valid messages stay the same objects, and each call keeps its result."""
    messages = [message for part in history for message in part]
    valid = valid_messages(provider, messages)
    assert valid_messages(provider, valid) == valid
    calls = [c["id"] for a in valid if isinstance(a, AIMessage) for c in a.tool_calls]
    assert calls == [r.tool_call_id for r in valid if isinstance(r, ToolMessage)]
    texts = [message.text.strip() for message in messages if message.text.strip()]
    assert [t for t in texts if t not in "\n".join(m.text for m in valid)] == []


# Endings


def look(path: str = "") -> str:
    """Look something up."""
    return f"found {path}"


def ended(content: Any, reason: str, *ids: str, **args: Any) -> AIMessage:
    calls = [{**call_of(id_), "args": args} for id_ in ids]
    return AIMessage(content, tool_calls=calls, response_metadata={"stop_reason": reason})


def test_a_paused_answer_goes_on_in_the_next_request(call: Any) -> None:
    steps = [
        ended([text("I search."), SEARCH], "pause_turn"),
        ended([RESULT, text("Rain.")], "end"),
    ]
    model = Claude(steps=[*steps, "Dry."])
    agent = create_agent(model, [look], checkpointer=InMemorySaver())
    result = call(agent, {"messages": "Weather?"}, ONE)
    assert [message.text for message in result["messages"]] == ["Weather?", "I search.", "Rain."]
    assert shapes(model.requests[1].messages)[1:] == [[text("I search."), SEARCH]]
    assert last_text(call(agent, {"messages": "And now?"}, ONE)) == "Dry."
    assert len(model.requests[2].messages) == 3  # both parts are one answer


def test_pauses_have_an_end() -> None:
    model = ScriptedChatModel([ended([text("I search."), SEARCH], "pause_turn")] * 9)
    create_agent(model).invoke({"messages": "Weather?"})
    assert [len(request.messages) for request in model.requests] == [*range(1, 10)]


def test_a_paused_answer_streams_as_it_is_stored() -> None:
    model = Claude(
        steps=[ended([text("A"), SEARCH], "pause_turn"), ended([RESULT, text("B")], "end")]
    )
    agent = create_agent(model, [look], checkpointer=InMemorySaver())
    texts: dict[str | None, str] = {}
    parts: Any = agent.stream({"messages": "Weather?"}, ONE, stream_mode="messages")
    for chunk, _ in parts:
        texts[chunk.id] = texts.get(chunk.id, "") + chunk.text
    messages = agent.get_state(ONE).values["messages"]
    assert texts == {message.id: message.text for message in messages[1:]}


def test_a_call_of_a_cut_answer_does_not_run(call: Any) -> None:
    cut = ended("", "max_tokens", "1", path="/tm")
    model = ScriptedChatModel([cut, "Done."])
    result = call(create_agent(model, [look]), {"messages": "Look at /tmp/work"})
    assert [message.text for message in result["messages"][2:]] == [f"Error: {CUT_CALL}", "Done."]


def test_a_call_that_the_model_has_not_made_does_not_run(call: Any) -> None:
    """As a stream of Cohere's package brings a call: once more, without arguments."""
    answer = ended("", "TOOL_CALL", "made_up", "1", path="/tmp")
    answer.response_metadata["tool_calls"] = [{"id": "1", "type": "function"}]
    result = call(create_agent(ScriptedChatModel([answer, "Done."]), [look]), {"messages": "Look"})
    assert [message.text for message in result["messages"][2:]] == ["found /tmp", "Done."]


def test_a_cut_call_runs_if_the_agent_says_so(call: Any) -> None:
    model = ScriptedChatModel([ended("", "length", "1", path="/tm"), "Done."])
    result = call(create_agent(model, [look], run_cut_calls=True), {"messages": "Look"})
    assert result["messages"][2].text == "found /tm"


def test_cut_calls_in_a_row_end_the_run(call: Any) -> None:
    model = ScriptedChatModel([ended("", "length", str(n), path="/") for n in range(9)])
    result = call(create_agent(model, [look]), {"messages": "Look"})
    assert "could not be read" in last_text(result)


class Refund(BaseModel):
    """A refund."""

    euros: int
    reason: str = ""


def test_a_cut_structured_answer_is_asked_for_again(call: Any) -> None:
    cut = ended("", "max_tokens", "1", euros=1)
    cut.tool_calls[0]["name"] = "Refund"
    model = ScriptedChatModel([cut, Refund(euros=100)])
    result = call(create_agent(model, [look], response_format=Refund), {"messages": "Refund"})
    assert result["structured_response"] == Refund(euros=100)
    assert CUT_CALL in result["messages"][2].text


def test_nobody_is_asked_about_a_cut_call(call: Any) -> None:
    model = ScriptedChatModel([ended("", "max_tokens", "1", path="/tm"), "Done."])
    review = m.HumanInTheLoopMiddleware({"look": True})
    agent = create_agent(model, [look], middleware=[review], checkpointer=InMemorySaver())
    assert last_text(call(agent, {"messages": "Look"}, ONE)) == "Done."
