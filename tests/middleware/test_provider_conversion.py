"""What goes along with a request to another provider's model, and what stays behind."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool, tool

from agent_factory import ModelRequest
from agent_factory.middleware import portable_request
from agent_factory.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from agent_factory.testing import ScriptedChatModel
from samples import Answer, Gpt
from tables import each


class Claude(ScriptedChatModel):
    model: str = "claude-3"
    base_url: str | None = None


@tool(extras={"cache_control": {"type": "ephemeral"}})
def search(query: str) -> str:
    """Search."""
    return query


def sent(to: Any = None, **request: Any) -> ModelRequest[Any]:
    """A request made for Claude, as another model is asked it."""
    made: Any = {"model": Claude(), "messages": [HumanMessage("Hi")], **request}
    return portable_request(ModelRequest(**made), to or Gpt())


def message(given: AnyMessage) -> Any:
    return (*sent(messages=[given]).messages, None)[0]


def content(*blocks: Any) -> Any:
    return message(HumanMessage(list(blocks))).content


def test_common_settings_are_kept() -> None:
    common = {"temperature": 1, "top_p": 1, "max_tokens": 1, "stop": 1}
    settings = {**common, "cache_control": {}, "thinking": {}, "strict": True}
    assert sent(model_settings={**settings, "response_format": {}}).model_settings == common


EXTRAS: Any = {"cache_control": {"type": "ephemeral"}, "priority": 1, "defer_loading": True}


class ChatAnthropic(ScriptedChatModel):
    """Named as that of langchain-anthropic."""

    model: str = "claude-sonnet-4-5"


class ChatOpenAI(ScriptedChatModel):
    """Named as that of langchain-openai."""

    model_name: str = "gpt-5"
    openai_api_base: str | None = None


class AzureChatOpenAI(ScriptedChatModel):
    """Named as that of langchain-openai."""

    model_name: str = "gpt-5"
    azure_endpoint: str = "https://shop.example.com"


class Deployed(ScriptedChatModel):
    """A product's own class, with the type of Azure's."""

    model_name: str = "gpt-5"

    @property
    def _llm_type(self) -> str:
        return "azure-openai-chat"


@each(
    "to, provided, kept",
    [
        (Gpt(), [], {"priority", "defer_loading"}),
        (Gpt(), [{"type": "web_search"}], {"priority", "defer_loading"}),
        (Gpt(), [{"type": "tool_search_tool_regex_20251119"}], {"priority"}),
        (ChatAnthropic(), [], set(EXTRAS)),
    ],
)
def test_extras_of_tools_lose_what_only_the_first_provider_reads(
    to: Any, provided: list[Any], kept: set[str]
) -> None:
    """Without its search tool, a deferred tool would never be found."""
    marked = search.model_copy(update={"extras": EXTRAS})
    first = sent(to, tools=[marked, *provided]).tools[0]
    assert isinstance(first, StructuredTool)
    assert first.extras == {key: EXTRAS[key] for key in kept}
    assert marked.extras == EXTRAS


SETTINGS: Any = {"prompt_cache_key": "k", "extra_headers": {"A": "1"}, "temperature": 0}


@each(
    "first, other, kept",
    [
        (ChatOpenAI(), AzureChatOpenAI(), True),
        (ChatOpenAI(), Deployed(), True),
        (AzureChatOpenAI(), AzureChatOpenAI(azure_endpoint="https://other"), True),
        (ChatOpenAI(), ChatOpenAI(model_name="gpt-4o"), True),
        (ChatOpenAI(), ChatOpenAI(openai_api_base="https://gateway"), False),
        (ChatOpenAI(openai_api_base="https://gateway"), AzureChatOpenAI(), False),
        (ChatOpenAI(), ChatAnthropic(), False),
        (Claude(), Claude(model="claude-4"), True),
        (Claude(), Claude(base_url="https://gateway"), False),
        (Claude(), Gpt(model_name="claude-3"), False),
    ],
)
def test_models_of_one_family_take_the_same_settings_and_tools(
    first: Any, other: Any, kept: bool
) -> None:
    search_tool = {"type": "web_search"}
    found = sent(
        other,
        model=first,
        model_settings=SETTINGS,
        tools=[search_tool],
        tool_choice={"type": "web_search"},
        response_format=ProviderStrategy(Answer, strict=True),
    )
    assert found.model_settings == (SETTINGS if kept else {"temperature": 0})
    assert found.tools == ([search_tool] if kept else [])
    assert found.tool_choice == ({"type": "web_search"} if kept else None)
    assert isinstance(found.response_format, ProviderStrategy) is kept


def test_messages_are_converted_within_a_family() -> None:
    """Thoughts have ids that only the address knows that has written them."""
    thought = AIMessage([{"type": "reasoning", "id": "rs_1"}, {"type": "text", "text": "Hi."}])
    answer = sent(AzureChatOpenAI(), model=ChatOpenAI(), messages=[thought]).messages[0]
    assert answer.content == "Hi."


@each("header", ["X-Session-Affinity", "x-session-affinity"])
@each("other", [Claude(model="claude-4"), Claude(), ChatOpenAI(), ScriptedChatModel()])
def test_the_header_that_binds_to_a_server_is_for_one_model(header: str, other: Any) -> None:
    first: Any = Claude()
    for headers, kept in (({header: "s"}, None), ({header: "s", "A": "1"}, {"A": "1"})):
        settings: Any = {"extra_headers": headers}
        found = sent(other, model=first, model_settings=settings).model_settings
        expected = kept if isinstance(other, Claude) else None  # another provider keeps none
        assert found.get("extra_headers") == expected
        assert settings == {"extra_headers": headers}
        assert sent(first, model=first, model_settings=settings).model_settings == settings


def test_tools_lose_the_extras_of_their_provider() -> None:
    anthropic = {"name": "a", "description": "A.", "input_schema": {"type": "object"}}
    openai = {"type": "function", "function": {"name": "o", "parameters": {}, "strict": True}}
    # What is bound to a model is remembered by the tools it was bound to.
    plain = StructuredTool.from_function(len, name="count", description="Count.")
    marked = {**anthropic, "cache_control": {"type": "ephemeral"}}
    custom = {**anthropic, "type": "custom", "name": "c"}
    first, same, *dicts = sent(tools=[search, plain, marked, custom, openai]).tools
    assert isinstance(first, StructuredTool)
    assert (first.name, first.extras) == ("search", None)
    assert search.extras is not None
    assert same is plain
    described = {"description": "A.", "parameters": {"type": "object"}}
    assert dicts == [
        {"type": "function", "function": {"name": "a", **described}},
        {"type": "function", "function": {"name": "c", **described}},
        {"type": "function", "function": {"name": "o", "parameters": {}}},
    ]


@each(
    "provided",
    [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
        {"type": "web_search"},
        {"type": "custom", "name": "grammar", "format": {"type": "text"}},
        {"google_search": {}},
        {"cachePoint": {"type": "default"}},
        {},
    ],
)
def test_tools_that_the_provider_runs_are_dropped(provided: dict[str, Any]) -> None:
    assert [getattr(t, "name", t) for t in sent(tools=[provided, search]).tools] == ["search"]


@each(
    "choice, becomes",
    [
        (None, None),
        ("auto", "auto"),
        ("any", "any"),
        ("required", "any"),
        (False, None),
        ("search", "search"),
        ("web_search", None),
        ({"type": "tool", "name": "search"}, "search"),
        ({"type": "tool", "name": "web_search"}, None),
        ({"type": "function", "function": {"name": "search"}}, "search"),
        ({"type": "function", "name": "search"}, "search"),
        ({"tool": {"name": "search"}}, "search"),
        ({"type": "any", "disable_parallel_tool_use": True}, "any"),
        ({"type": "allowed_tools"}, None),
        ({}, None),
    ],
)
def test_a_tool_choice_is_converted_to_a_common_form(choice: Any, becomes: Any) -> None:
    found = sent(tools=[search, {"type": "web_search", "name": "web_search"}], tool_choice=choice)
    assert found.tool_choice == becomes


@each("to, choice", [(ChatAnthropic(), {"type": "none"}), (ChatOpenAI(), "none"), (Gpt(), None)])
def test_without_a_choice_of_no_call_the_tools_go(to: Any, choice: Any) -> None:
    for form in ("none", {"type": "none"}):
        request = sent(to, tools=[search], tool_choice=form)
        assert (request.tool_choice, len(request.tools)) == (choice, int(choice is not None))


def test_a_provider_strategy_is_resolved_for_the_new_model() -> None:
    """Its output tool may be chosen if the new model has it."""
    chosen: Any = {"tool_choice": "Answer", "response_format": AutoStrategy(Answer)}
    assert sent(Claude(), model=Gpt(), **chosen).tool_choice == "Answer"
    assert sent(Gpt(), **chosen).tool_choice is None
    strategy = ProviderStrategy(Answer, strict=True)
    found = sent(response_format=strategy).response_format
    assert isinstance(found, AutoStrategy)
    assert found.schema is Answer
    assert sent(response_format=strategy).response_format is found
    by_tool = ToolStrategy(Answer)
    assert sent(response_format=by_tool).response_format is by_tool


@each(
    "block",
    [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "reasoning_content", "reasoning_content": {"text": "hm"}},
        {"type": "tool_use", "id": "1", "name": "search", "input": {}},
        {"type": "server_tool_use", "id": "1", "name": "web_search", "input": {}},
        {"type": "web_search_call", "id": "ws_1"},
        {"cachePoint": {"type": "default"}},
        {"type": "text", "text": ""},
    ],
)
def test_thoughts_calls_and_marks_are_dropped(block: dict[str, Any]) -> None:
    words = {"type": "text", "text": "Hi.", "cache_control": {}, "citations": []}
    assert message(AIMessage([block, words])).content == "Hi."
    assert message(AIMessage([block])) is None
    assert content(block, words) == [{"type": "text", "text": "Hi."}]
    assert message(HumanMessage([block])) is None
    assert message(ToolMessage([block], tool_call_id="1")).content == []


def test_tool_calls_are_kept_in_the_common_form() -> None:
    call: Any = {"name": "search", "args": {"query": "x"}, "id": "1", "type": "tool_call"}
    said = AIMessage(
        [{"type": "tool_use", "id": "1", "name": "search", "input": {"query": "x"}}],
        tool_calls=[call],
        additional_kwargs={"tool_calls": [{"id": "1"}], "lc_source": "me"},
        response_metadata={"model_provider": "anthropic", "id": "msg_1"},
        id="7",
        name="agent",
    )
    found = message(said)
    assert (found.content, found.tool_calls) == ("", [call])
    assert found.additional_kwargs == {"lc_source": "me"}
    assert found.response_metadata == {}
    assert (found.id, found.name) == ("7", "agent")


@each(
    "block, becomes",
    [
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "a"}},
            {"type": "image", "mime_type": "image/png", "base64": "a"},
        ),
        (
            {"type": "image", "url": "https://x/y", "cache_control": {}, "extras": {"a": 1}},
            {"type": "image", "url": "https://x/y"},
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://x/y"}, "cache_control": {}},
            {"type": "image_url", "image_url": {"url": "https://x/y"}},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "a", "format": "wav"}},
            {"type": "audio", "mime_type": "audio/wav", "base64": "a"},
        ),
        ("words", {"type": "text", "text": "words"}),
        ({"text": "bedrock's"}, {"type": "text", "text": "bedrock's"}),
    ],
)
def test_attachments_are_kept_in_standard_form(block: Any, becomes: dict[str, Any]) -> None:
    assert content(block) == [becomes]


@each(
    "block",
    [
        {"type": "file", "file_id": "file-1"},
        {"type": "document", "source": {"type": "file", "file_id": "file-1"}},
        {"type": "search_result", "source": "x", "content": []},
        {"type": "image", "source": None},
        {"type": "image"},
        {"type": 5},
    ],
)
def test_a_block_that_is_left_out_is_named_in_the_text(block: dict[str, Any]) -> None:
    (found,) = content(block)
    assert found["text"].startswith(f"[Left out here: a {block['type']} block")
    # As is an image by a model.
    drawn = AIMessage([{"type": "image", "base64": "a", "mime_type": "image/png"}])
    assert "a image block" in message(drawn).content


def test_the_system_message_loses_cache_marks() -> None:
    blocks: list[Any] = [{"type": "text", "text": "Be brief.", "cache_control": {}}]
    found = sent(system_message=SystemMessage(blocks)).system_message
    assert found is not None
    assert found.content == [{"type": "text", "text": "Be brief."}]
    assert sent(system_message=SystemMessage("Plain.")).system_prompt == "Plain."


def test_a_model_without_a_name_stands_for_any_provider() -> None:
    mine, other = ScriptedChatModel(), ScriptedChatModel()
    settings: dict[str, Any] = {"cache_control": {}}
    assert sent(other, model=mine, model_settings=settings).model_settings == {}
    bound = mine.bind(stop=["x"])
    assert sent(bound, model=mine, model_settings=settings).model_settings == settings


BLOCKS = st.sampled_from(
    [
        "words",
        {"type": "text", "text": "Hi", "cache_control": {}},
        {"type": "thinking", "thinking": "hm"},
        {"type": "image", "base64": "a", "mime_type": "image/png", "extras": {}},
        {"type": "image_url", "image_url": "https://x"},
        {"type": "tool_use", "id": "1", "name": "search", "input": {}},
        {"type": "file", "file_id": "f"},
        {"cachePoint": {}},
        {},
    ]
)
CONTENTS = st.text(max_size=3) | st.lists(BLOCKS, max_size=3)
KWARGS = st.dictionaries(st.sampled_from(["lc_source", "refusal", "cache_control"]), st.just("x"))
CALLS = st.lists(
    st.just({"name": "search", "args": {}, "id": "1", "type": "tool_call"}), max_size=1
)
MESSAGES = st.one_of(
    st.builds(HumanMessage, CONTENTS, additional_kwargs=KWARGS),
    st.builds(SystemMessage, CONTENTS, additional_kwargs=KWARGS),
    st.builds(AIMessage, CONTENTS, additional_kwargs=KWARGS, tool_calls=CALLS),
    st.builds(ToolMessage, CONTENTS, additional_kwargs=KWARGS, tool_call_id=st.just("1")),
)


@given(st.lists(MESSAGES, max_size=4))
def test_portable_messages_stay_portable_and_calls_keep_their_results(messages: list[Any]) -> None:
    once = sent(messages=messages).messages
    again = sent(messages=once).messages
    assert again == once
    assert all(one is other for one, other in zip(once, again, strict=True))
    for kind in ("tool_calls", "tool_call_id"):
        before = [getattr(m, kind) for m in messages if getattr(m, kind, None)]
        assert [getattr(m, kind) for m in once if getattr(m, kind, None)] == before
    assert "cache_control" not in repr(once)
    assert "thinking" not in repr(once)
