"""Messages as their provider takes them, and answers that end otherwise than by themselves."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field
from thinking_claude import Claude

from agent_factory import create_agent
from agent_factory import middleware as m
from agent_factory.providers.endings import CUT_CALL
from agent_factory.providers.requests import RULES, model_for, settings_for, valid_messages
from agent_factory.testing import ScriptedChatModel, record, replay
from samples import THREAD, last_text
from tables import each


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def call_of(id_: str, name: str = "look") -> Any:
    return {"name": name, "args": {}, "id": id_, "type": "tool_call"}


def looking(*ids: str, content: Any = "", **metadata: Any) -> AIMessage:
    return AIMessage(content, tool_calls=[*map(call_of, ids)], response_metadata=metadata)


def found(id_: str, content: Any = "found") -> ToolMessage:
    return ToolMessage(content, tool_call_id=id_)


def shapes(messages: Any) -> list[Any]:
    """Each message as its content, with the ids of calls."""
    ids = [[c["id"] for c in getattr(message, "tool_calls", ())] for message in messages]
    return [(m.content, *i) if i else m.content for m, i in zip(messages, ids, strict=True)]


def by(maker: str, *blocks: Any) -> AIMessage:
    content = [THOUGHT, text("Well."), *blocks]
    return AIMessage(content, response_metadata={"model_provider": maker})


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "1", "name": "code", "input": "x"}
OUTPUT = {"type": "custom_tool_call_output", "output": "found"}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
RESULT = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
FAILED = ToolMessage("No.", tool_call_id="1", status="error")
SEARCHING = AIMessage([text("I search."), SEARCH])
ITEM = text("Well.", id="msg_1")
OPENAI = {"model_provider": "openai"}
CHAT = looking("1", finish_reason="tool_calls", **OPENAI)
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
SIGNED = text("", extras={"signature": "s"})
CODE = looking("1", content=[SEARCH])
ENDED = {"type": "code_execution_tool_result", "tool_use_id": "srv_1", "content": []}
PICTURE = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
NOTE = "[Left out here: image, which the provider does not take in this message.]"
ROUND, SENT = [looking("1"), found("1")], [("", "1"), "found"]
SEEN, LEFT, ERROR = found("1", [text("See:"), PICTURE]), f"See:\n{NOTE}", '{"error": "No."}'
CALLER = {"type": "tool_use", "id": "1", "caller": {"tool_id": "srv_1"}}
CALLED, MCP = looking("1", content=[SEARCH, CALLER]), {**SEARCH, "type": "mcp_tool_use"}
ITEMS: list[Any] = [text("Well.", id=f"{kind}_1") for kind in ("msg", "fc", "ctc")]
TEXT, CALL = text("Well."), call_of("1")
HI, MORE = HumanMessage("Hi"), HumanMessage("More")
TOKENS = {"input_tokens": 1, "output_tokens": 9, "total_tokens": 10}
USAGE: Any = {**TOKENS, "output_token_details": {"reasoning": 5}}


@each(
    "names, messages, expected",
    [
        ("anthropic", [AIMessage(["", THOUGHT, "Hello."])], [[THOUGHT, text("Hello.")]]),
        ("mistral", [AIMessage(["", "Let me see."])], [[text("Let me see.")]]),
        ("amazon_bedrock", [AIMessage([text(" \n"), text("Hello.")])], [[text("Hello.")]]),
        ("google_genai", [HI, AIMessage(""), MORE], ["Hi", "More"]),
        ("mistral", [HI, AIMessage([]), MORE], ["Hi", "More"]),
        ("groq cohere litellm", [HI, AIMessage(" "), MORE], ["Hi", "More"]),
        ("mistral", [*ROUND, MORE], [*SENT, "I have the results.", "More"]),
        ("mistral", [looking("1", "2"), *map(found, "12")], [("", "1", "2"), "found", "found"]),
        (
            "anthropic",
            [*ROUND, looking("1"), found("1", "new"), looking("2"), found("2")],
            [*SENT, ("", "1_2"), "new", ("", "2"), "found"],
        ),
        ("anthropic", [SEARCHING, AIMessage([RESULT, TEXT])], [[*SEARCHING.content, RESULT, TEXT]]),
        ("anthropic", [SEARCHING, MORE], [[text("I search.")], "More"]),
        ("anthropic", [AIMessage([MCP, ITEM]), MORE], [[ITEM], "More"]),
        ("anthropic", [CALLED, found("1")], [(CALLED.content, "1"), "found"]),
        ("anthropic", [HI, AIMessage([SEARCH])], ["Hi", [SEARCH]]),
        (
            "amazon_bedrock anthropic google_genai",
            [HI, AIMessage("One."), looking("1", content="Two."), found("1")],
            ["Hi", ([text("One."), text("Two.")], "1"), "found"],
        ),
        (
            "openai",
            [looking("1", content=[CUSTOM], **OPENAI), found("1"), looking("2"), found("2")],
            [([CUSTOM], "1"), [OUTPUT], ("", "2"), "found"],
        ),
        ("openai azure", [looking("1", content=[CUSTOM]), found("1")], [([CUSTOM], "1"), [OUTPUT]]),
        ("openai xai", [AIMessage(ITEMS, usage_metadata=USAGE)], [[TEXT] * 3]),
        ("openai", [AIMessage([ITEM])], [[ITEM]]),
        ("openai", [looking("1", content=[call_of("fc_1"), CALL])], [([CALL], "1")]),
        ("openai", [looking("1", content=[REASONING]), found("1")], [([REASONING], "1"), "found"]),
        ("openai", [AIMessage([REASONING, ITEM], usage_metadata=USAGE)], [[REASONING, ITEM]]),
        ("azure", [AIMessage([ITEM, REASONING, REASONING])], [[ITEM]]),
        ("openai", [AIMessage(["Hello."])], [[text("Hello.")]]),
        ("groq", [AIMessage(["", text("Hello.")])], ["Hello."]),
        ("mistral", [by("anthropic"), MORE], ["Well.", "More"]),
        ("anthropic", [by("google_genai", PICTURE), MORE], [f"Well.\n{NOTE}", "More"]),
        ("openai", [by("anthropic").model_copy(update={"content": [THOUGHT]}), MORE], ["More"]),
        ("anthropic", [by("anthropic"), MORE], [[THOUGHT, text("Well.")], "More"]),
        ("cohere", [by("cohere"), MORE], ["Well.", "More"]),
        ("google_genai", [AIMessage([text("Hi."), SIGNED])], [[text("Hi."), SIGNED]]),
        ("anthropic", [looking("1"), found("1", [OUTPUT])], [("", "1"), "found"]),
        ("openai", [found("1", ["a", ""])], [[text("a")]]),
        ("groq", [found("1", []), found("2", ["a", "b"])], ["", "a\nb"]),
        ("google_genai", [found("1", "1.10")], ['{"output": "1.10"}']),
        ("google_genai", [found("1", '{"a": 1}'), found("2")], ['{"a": 1}', "found"]),
        ("google_genai", [FAILED], [ERROR]),
        ("deepseek mistral ollama", [SEEN], [LEFT]),
        ("openai", [CHAT, SEEN], [("", "1"), LEFT]),
        ("openai", [looking("1", **OPENAI), found("1", [PICTURE])], [("", "1"), [PICTURE]]),
        ("openai azure", [looking("1"), SEEN], [("", "1"), LEFT]),
        ("groq", [looking("1", content=[CUSTOM]), found("1", [OUTPUT])], [("", "1"), "found"]),
        ("google_vertexai", [by("openai", CUSTOM), SEEN, FAILED], ["Well.", LEFT, ERROR]),
        ("anthropicvertex", [by("openai"), AIMessage("")], ["Well."]),
        ("xai", [by("groq"), by("xai")], ["Well.", [THOUGHT, text("Well.")]]),
        ("anthropic", [CODE, found("1"), AIMessage([ENDED])], [([SEARCH], "1"), "found", [ENDED]]),
        ("anthropic", [*map(looking, ["1", "1_2", "1"])], [("", "1"), ("", "1_2"), ("", "1_3")]),
        ("somebody", [AIMessage(["", "Hello."])], [["", "Hello."]]),
    ],
)
def test_messages_follow_the_rules_of_a_provider(names: str, messages: Any, expected: Any) -> None:
    for provider in names.split():
        valid = valid_messages(provider, messages)
        assert shapes(valid) == expected
        assert shapes(valid_messages(provider, valid)) == expected


def test_a_renamed_call_is_renamed_in_its_block_too() -> None:
    block = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
    messages: Any = [looking("1", content=[block]), found("1")] * 2
    valid: Any = valid_messages("anthropic", messages)
    assert valid[2].content[0]["id"] == valid[3].tool_call_id == "1_2"


@each("provider", ["openai", "xai", "groq"])
def test_a_name_has_no_character_that_openai_refuses(provider: str) -> None:
    history: list[Any] = [AIMessage("Hello.", name=r"Order <desk>\a/b|c")]
    (message,) = valid_messages(provider, history)
    assert message.name == "Order_desk_a_b_c"


def test_a_provider_gets_the_thoughts_of_its_own_makers_alone() -> None:
    own_makers = {  # by the providers
        "anthropic anthropicvertex anthropic-bedrock anthropic-mantle": "anthropic",
        **{
            "amazon_bedrock": "bedrock bedrock_converse",
            "mistral": "mistralai",
            "xai": "xai openai",
        },
        **{name: name for name in ("google_genai", "google_vertexai", "ollama")},
        "openai openai-mantle azure": "openai azure azure_openai",
        "cerebras fireworks groq huggingface openrouter perplexity together NVIDIA deepseek": "",
        "litellm cohere": "",
    }
    makers = {maker for names in own_makers.values() for maker in names.split()}
    assert {name for names in own_makers for name in names.split()} == {*RULES}
    for providers, own in own_makers.items():
        for provider, maker in product(providers.split(), makers):
            (sent,) = valid_messages(provider, [by(maker)])
            assert (THOUGHT in [*sent.content]) == (maker in own.split()), (provider, maker)


@each("provider", ["litellm", "NVIDIA", "deepseek"])
def test_calls_are_listed_where_a_package_looks_for_them(provider: str) -> None:
    cut: Any = {"name": "look", "args": '{"path": "/t', "id": "2", "error": CUT_CALL}
    answer = looking("1").model_copy(update={"invalid_tool_calls": [cut]})
    (sent, *_) = valid_messages(provider, [answer, found("1"), found("2")])
    assert shapes([sent]) == [("", "1", "2")]
    assert [call["id"] for call in sent.additional_kwargs["tool_calls"]] == ["1", "2"]
    assert valid_messages(provider, [sent])[0] is sent


def test_deepseek_gets_the_thoughts_of_its_calls_back() -> None:
    model: Any = ScriptedChatModel([]).bind(extra_body={"thinking": {"type": "disabled"}})
    thinking = looking("1").model_copy(update={"additional_kwargs": {"reasoning_content": "Hm."}})
    messages: list[Any] = [HI, thinking, found("1"), MORE, looking("2"), found("2")]
    (body,) = settings_for("deepseek", model.bind(stop=["."]), messages).values()
    sent = [form.get("reasoning_content") for form in body["messages"]]
    assert (sent, body["thinking"]) == ([None, "Hm.", None, None, "", None], {"type": "disabled"})
    assert settings_for("deepseek", model, messages[:1]) == {}
    chain = model.with_fallbacks([ScriptedChatModel([])])  # whose models all get the settings
    assert settings_for("deepseek", chain, messages) == {}
    assert settings_for("openai", model, messages) == {}


class ManualClaude(Claude):
    """Thinks before each turn of the assistant."""

    thinking: dict[str, Any] = Field(default={"type": "enabled", "budget_tokens": 1024})


class BedrockClaude(Claude):
    """Has its settings in a field of Bedrock."""

    additional_model_request_fields: Any = Field(
        default={"thinking": {"type": "enabled", "budget_tokens": 1024}, "top_k": 5}
    )


@each(
    "content, thinks",
    [([THOUGHT, TEXT], "enabled"), ([TEXT, THOUGHT], "disabled"), ("", "disabled")],
)
def test_a_turn_that_lost_its_thought_goes_on_without_thinking(content: Any, thinks: str) -> None:
    model: Any = ManualClaude(steps=[]).bind(tools=[])
    history: list[Any] = [HI, looking("1", content=content), found("1")]
    bound: Any = model_for("anthropic", model, history)
    assert (bound.bound.thinking["type"], bound.kwargs) == (thinks, {"tools": []})
    settings = {"thinking": model.bound.thinking, "tools": []}
    with_settings: Any = model_for("anthropic", ScriptedChatModel([]).bind(**settings), history)
    assert (with_settings.kwargs["thinking"]["type"], with_settings.kwargs["tools"]) == (thinks, [])
    on_bedrock: Any = model_for("amazon_bedrock", BedrockClaude(steps=[]), history)
    assert on_bedrock.additional_model_request_fields["thinking"]["type"] == thinks
    assert model_for("anthropic", model, [*history, AIMessage("Done."), MORE]) is model
    chain = model.with_fallbacks([ScriptedChatModel([])])
    assert (model_for("anthropic", chain, history), model_for("xai", model, history)) == (
        chain,
        model,
    )


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


PAUSED = [ended([text("I search."), SEARCH], "pause_turn"), ended([RESULT, text("Rain.")], "end")]


def test_a_paused_answer_goes_on_in_the_next_request(call: Any) -> None:
    model = Claude(steps=[*PAUSED, "Dry."])
    agent = create_agent(model, [look], checkpointer=InMemorySaver())
    result = call(agent, {"messages": "Weather?"}, THREAD)
    assert [message.text for message in result["messages"]] == ["Weather?", "I search.", "Rain."]
    assert shapes(model.requests[1].messages)[1:] == [[text("I search."), SEARCH]]
    assert last_text(call(agent, {"messages": "And now?"}, THREAD)) == "Dry."
    assert len(model.requests[2].messages) == 3  # both parts are one answer


def test_pauses_have_an_end() -> None:
    model = ScriptedChatModel(PAUSED[:1] * 9)
    create_agent(model).invoke({"messages": "Weather?"})
    assert [len(request.messages) for request in model.requests] == [*range(1, 10)]


def test_a_paused_answer_streams_as_it_is_stored() -> None:
    model = Claude(steps=PAUSED)
    agent = create_agent(model, [look], checkpointer=InMemorySaver())
    texts: dict[str | None, str] = {}
    parts: Any = agent.stream({"messages": "Weather?"}, THREAD, stream_mode="messages")
    for chunk, _ in parts:
        texts[chunk.id] = texts.get(chunk.id, "") + chunk.text
    messages = agent.get_state(THREAD).values["messages"]
    assert texts == {message.id: message.text for message in messages[1:]}


@each("runs, expected", [(False, f"Error: {CUT_CALL}"), (True, "found /tm")])
def test_a_call_of_a_cut_answer_runs_only_if_the_agent_says_so(
    runs: bool, expected: str, call: Any
) -> None:
    model = ScriptedChatModel([ended("", "max_tokens", "1", path="/tm"), "Done."])
    result = call(create_agent(model, [look], run_cut_calls=runs), {"messages": "Look"})
    assert [message.text for message in result["messages"][2:]] == [expected, "Done."]


def test_a_call_that_the_model_has_not_made_does_not_run(call: Any) -> None:
    """As a stream of Cohere's package brings a call: once more, without arguments."""
    answer = ended("", "TOOL_CALL", "made_up", "1", path="/tmp")
    answer.response_metadata["tool_calls"] = [{"id": "1", "type": "function"}]
    result = call(create_agent(ScriptedChatModel([answer, "Done."]), [look]), {"messages": "Look"})
    looked, done = result["messages"][2:]
    assert (looked.tool_call_id, looked.text, done.text) == ("1", "found /tmp", "Done.")


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
    assert last_text(call(agent, {"messages": "Look"}, THREAD)) == "Done."


class Cut(FakeListChatModel):
    """Names the end of its answer next to it, where LangChain looks after the call."""

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        generation = ChatGeneration(message=AIMessage("Half"))
        return ChatResult(generations=[generation], llm_output={"done_reason": "length", "id": "1"})


def test_the_end_of_an_answer_is_recorded(tmp_path: Path) -> None:
    record(Cut(responses=[]), tmp_path / "cut.jsonl").invoke("Hi")
    again = replay(tmp_path / "cut.jsonl").invoke("Hi")
    assert again.response_metadata == {"done_reason": "length"}
