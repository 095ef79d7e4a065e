"""Streams, events and handlers of an agent get the redacted answer, token by token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.caches import InMemoryCache
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from agent_factory import create_agent, wrap_model_call
from agent_factory.middleware import PIIDetectionError, PIIMiddleware, RedactionRule
from agent_factory.middleware.pii.messages import TextStream
from agent_factory.testing import ScriptedChatModel
from samples import Contact, OwnModel, call_of
from tables import each

HELLO: Any = {"messages": [("user", "Hello")]}
DATA = "ada@example.com"


class Chunked(OwnModel):
    """A model that streams the given chunks."""

    chunks: list[Any]

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[tool.name for tool in tools], **kwargs)

    def _generate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        whole = self.chunks[0]
        for chunk in self.chunks[1:]:
            whole = whole + chunk
        message = AIMessage(**whole.model_dump(exclude={"type", "tool_call_chunks"}))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: list[BaseMessage], *_: Any, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in self.chunks:
            yield ChatGenerationChunk(message=chunk.model_copy(deep=True))

    async def _astream(
        self, messages: list[BaseMessage], *_: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages):
            yield chunk


def text_chunks(*contents: Any, **more: Any) -> list[AIMessageChunk]:
    return [AIMessageChunk(content=content, id="run-1", **more) for content in contents]


def character_chunks(text: str) -> list[AIMessageChunk]:
    return text_chunks(*text)


def merged_stream(parts: list[Any]) -> AIMessageChunk:
    chunks = [chunk for chunk, _ in parts if isinstance(chunk, AIMessageChunk)]
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    return whole


def guard(**options: Any) -> PIIMiddleware:
    return PIIMiddleware("email", **{"apply_to_output": True, **options})


TEXT = f"Ask {DATA}, or bob@x.org \u2013 soon."
CLEAN = "Ask [REDACTED_EMAIL], or [REDACTED_EMAIL] \u2013 soon."


def test_a_match_that_spans_chunks_is_never_released_in_part(collect: Any, call: Any) -> None:
    agent = create_agent(Chunked(chunks=character_chunks(TEXT)), middleware=[guard()])
    tokens = [chunk.text for chunk, _ in collect(agent, HELLO, stream_mode="messages")]
    assert "".join(tokens) == CLEAN
    assert not any("ada" in token or "@" in token for token in tokens)
    # Other text is released one word later than it arrives.
    assert tokens[:3] == ["Ask ", "[REDACTED_EMAIL], ", "or "]
    assert call(agent, HELLO)["messages"][-1].text == CLEAN


def summary(text: str) -> dict[str, Any]:
    part = {"type": "summary_text", "text": text, "index": 0}
    return {"type": "reasoning", "summary": [part], "index": 2}


def test_the_text_of_blocks_and_reasoning_is_redacted_and_all_else_is_kept(
    collect: Any, call: Any
) -> None:
    image = {"type": "image", "url": "https://a.b/c.png", "index": 3}
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    chunks = [
        *text_chunks("", additional_kwargs={"reasoning_content": "From ada@"}),
        *text_chunks("", additional_kwargs={"reasoning_content": "example.com"}),
        *text_chunks([{"type": "thinking", "thinking": "ada@exa", "index": 0}]),
        *text_chunks([{"type": "thinking", "thinking": "mple.com", "index": 0}]),
        *text_chunks([{"type": "thinking", "signature": "s@x.org", "index": 0}]),
        *text_chunks([{"type": "text", "text": "ask ada@", "index": 1}]),
        *text_chunks([{"type": "text", "text": "example.com", "index": 1}]),
        *text_chunks([summary("ada@e")], [summary(".org!")]),
        *text_chunks(
            [{"type": "text", "text": "", "annotations": [{"title": "bob@x.org"}], "index": 1}]
        ),
        *text_chunks([image], usage_metadata=usage, response_metadata={"finish_reason": "stop"}),
    ]
    agent = create_agent(Chunked(chunks=chunks), middleware=[guard()])
    mark = "[REDACTED_EMAIL]"
    # The thread keeps no signed thought with another text, which its provider would refuse.
    thought = {"type": "thinking", "thinking": mark, "signature": "", "index": 0}
    for message, thoughts in (
        (merged_stream(collect(agent, HELLO, stream_mode="messages")), [thought]),
        (call(agent, HELLO)["messages"][-1], []),
    ):
        assert message.additional_kwargs == {"reasoning_content": f"From {mark}"}
        assert message.content == [
            *([""] if message.content[0] == "" else []),
            *thoughts,
            {"type": "text", "text": f"ask {mark}", "annotations": [{"title": mark}], "index": 1},
            summary(f"{mark}!"),
            image,
        ]
        assert message.usage_metadata == usage
        assert message.response_metadata["finish_reason"] == "stop"
        assert message.id == "run-1"


def bedrock(index: int, **parts: str) -> dict[str, Any]:
    return {"type": "reasoning_content", "reasoning_content": parts, "index": index}


def test_the_thread_keeps_signed_thoughts_only_as_the_model_wrote_them(
    call: Any, collect: Any
) -> None:
    texts = ("Plan.", f"Write to {DATA}.", "Done.")
    blocks = [bedrock(n, text=text, signature=f"s{n}") for n, text in enumerate(texts)]
    pieces = [
        bedrock(n, **part)
        for n, text in enumerate(texts)
        for part in ({"text": text[:4]}, {"text": text[4:]}, {"signature": f"s{n}"})
    ]
    for chunks in (
        [AIMessageChunk(content=[*blocks])],
        text_chunks(*([piece] for piece in pieces)),
    ):
        agent = create_agent(Chunked(chunks=chunks), middleware=[guard()])
        for result in (call(agent, HELLO), collect(agent, HELLO, stream_mode="values")[-1]):
            content = [block for block in result["messages"][-1].content if block]
            assert content == [blocks[0], blocks[2]]


def test_blocks_without_an_index_are_redacted_across_chunks(collect: Any) -> None:
    chunks = text_chunks(
        [{"type": "text", "text": "ask ada@"}], ["exam"], [{"type": "text", "text": "ple.com."}]
    )
    agent = create_agent(Chunked(chunks=chunks), middleware=[guard()])
    parts = collect(agent, HELLO, stream_mode="messages")
    assert all("ada@" not in repr(chunk) for chunk, _ in parts)
    assert merged_stream(parts).text == "ask [REDACTED_EMAIL]."


def send(to: str, note: dict[str, Any]) -> str:
    """Send."""
    return f"sent to {to}"


CALL = {"to": DATA, "note": {"cc": ["bob@x.org", 7], "eve@x.org": None}}
CLEAN_CALL = {
    "to": "[REDACTED_EMAIL]",
    "note": {"cc": ["[REDACTED_EMAIL]", 7], "[REDACTED_EMAIL]": None},
}


def call_chunks(arguments: str) -> list[AIMessageChunk]:
    """A call as a provider streams it: in content, in chunks, and in additional_kwargs."""
    pieces = [arguments[i : i + 5] for i in range(0, len(arguments), 5)]
    first = {"type": "tool_use", "id": "c1", "name": "send", "input": {}, "index": 1}
    raw = {"index": 0, "id": "c1", "type": "function"}
    chunks = [
        *text_chunks([{"type": "text", "text": "I ask ada@x.org", "index": 0}]),
        AIMessageChunk(
            content=[first],
            tool_call_chunks=[{"name": "send", "args": "", "id": "c1", "index": 1}],
            additional_kwargs={
                "tool_calls": [{**raw, "function": {"name": "send", "arguments": ""}}]
            },
        ),
    ]
    return chunks + [
        AIMessageChunk(
            content=[{"type": "input_json_delta", "partial_json": piece, "index": 1}],
            tool_call_chunks=[{"name": None, "args": piece, "id": None, "index": 1}],
            additional_kwargs={"tool_calls": [{"index": 0, "function": {"arguments": piece}}]},
        )
        for piece in pieces
    ]


def calling(collect: Any, arguments: str, **options: Any) -> list[Any]:
    """The messages that are streamed of a model that calls, by an agent that stops then."""
    model, stack = Chunked(chunks=call_chunks(arguments)), [guard(**options)]
    agent = create_agent(model, [send], middleware=stack, interrupt_before=["tools"])
    return list(collect(agent, HELLO, stream_mode="messages"))


def test_the_arguments_of_calls_are_redacted_in_every_place(collect: Any) -> None:
    parts = calling(collect, json.dumps(CALL), apply_to_tool_calls=True)
    assert all("@" not in repr(chunk) for chunk, _ in parts)
    whole = merged_stream(parts)
    assert [call["args"] for call in whole.tool_calls] == [CLEAN_CALL]
    raw = whole.additional_kwargs["tool_calls"][0]["function"]["arguments"]
    assert json.loads(raw) == CLEAN_CALL
    content: Any = whole.content
    text, block = content
    assert text == {"type": "text", "text": "I ask [REDACTED_EMAIL]", "index": 0}
    assert json.loads(block["partial_json"]) == CLEAN_CALL
    # Arguments that are not JSON are redacted as text.
    parts = calling(collect, '{"to": "ada@x.org", "note": [}', apply_to_tool_calls=True)
    assert all("@" not in repr(chunk) for chunk, _ in parts)
    whole = merged_stream(parts)
    assert "[REDACTED_EMAIL]" in str(whole.tool_calls + whole.invalid_tool_calls)


def test_calls_are_unchanged_if_only_the_text_is_redacted(collect: Any) -> None:
    whole = merged_stream(calling(collect, json.dumps(CALL)))
    assert whole.tool_calls[0]["args"] == CALL
    assert whole.text == "I ask [REDACTED_EMAIL]"


@each(
    "options",
    [
        {},
        {"apply_to_output": False, "apply_to_tool_calls": True},
        {"apply_to_output": False, "apply_to_tool_results": True},
    ],
)
def test_a_call_that_cannot_be_read_is_redacted_in_streams(
    collect: Any, options: dict[str, bool]
) -> None:
    """Also by a guard of text or results alone, because no tool gets such a call."""
    chunks = call_chunks('{"to": "ada@x.org", "note": [}')[1:]
    agent = create_agent(
        Chunked(chunks=chunks), [send], middleware=[guard(**options)], interrupt_before=["tools"]
    )
    parts = collect(agent, HELLO, stream_mode=["messages", "values"])
    assert "ada@" not in repr(parts)
    (invalid,) = parts[-1][1]["messages"][-1].invalid_tool_calls
    assert (invalid["name"], invalid["id"]) == ("send", "c1")
    assert invalid["args"] == '{"to": "[REDACTED_EMAIL]", "note": [}'


def test_calls_of_the_provider_stay_before_their_results_in_a_stream(collect: Any) -> None:
    searched = {"type": "server_tool_use", "id": "s1", "name": "web", "input": {}, "index": 0}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [], "index": 1}
    text = {"type": "text", "text": "Done.", "index": 2}
    chunks = text_chunks([searched], [found], [text])
    parts = collect(create_agent(Chunked(chunks=chunks), middleware=[guard()]), HELLO)
    assert parts[-1]["model"]["messages"][-1].content == [searched, found, text]


@each("by", ["tool", "provider"])
def test_a_structured_answer_is_redacted(call: Any, by: str) -> None:
    """With both strategies; calls of other tools are unchanged."""
    step: Any = [{"name": "Contact", "args": {"mail": DATA}}]
    if by == "provider":
        step = json.dumps({"mail": DATA})
    model = ScriptedChatModel(
        [[{"name": "send", "args": CALL}], step], profile={"structured_output": by == "provider"}
    )
    agent = create_agent(model, [send], middleware=[guard()], response_format=Contact)
    result = call(agent, HELLO)
    assert result["structured_response"] == Contact(mail="[REDACTED_EMAIL]")
    assert result["messages"][1].tool_calls[0]["args"] == CALL
    assert DATA not in repr(result["messages"][3:])
    strategy = {"response_format"} if by == "provider" else set()
    assert strategy == set(model.requests[-1].kwargs)
    assert model.requests[-1].tools == (["send"] if by == "provider" else ["send", "Contact"])


def test_a_blocked_match_ends_the_run_before_it_is_streamed(collect: Any) -> None:
    model = Chunked(chunks=character_chunks(TEXT))
    agent = create_agent(model, middleware=[guard(strategy="block")])
    parts: Any = agent.stream(HELLO, stream_mode="messages")
    assert next(parts)[0].text == "Ask "
    with pytest.raises(PIIDetectionError):
        next(parts)
    with pytest.raises(PIIDetectionError):
        collect(agent, HELLO)


def test_a_model_or_an_answer_of_an_inner_layer_is_guarded(collect: Any) -> None:
    other = Chunked(chunks=character_chunks(TEXT))

    @wrap_model_call
    def another(request: Any) -> Any:
        again = request.override(model=other).override(model=request.model)
        assert again.model is request.model
        return (yield request.override(model=other.bind(stop=["x"])))

    @wrap_model_call
    def answers(request: Any) -> Any:
        return AIMessage(TEXT)
        yield

    for layer in (another, answers):
        agent = create_agent(Chunked(chunks=text_chunks("no")), middleware=[guard(), layer])
        parts = collect(agent, HELLO, stream_mode="messages")
        assert "".join(chunk.text for chunk, _ in parts) == CLEAN


def test_a_wrapped_model_is_guarded(collect: Any) -> None:
    class Fails(Chunked):
        def _stream(self, *_: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            raise ConnectionError("down")
            yield

    model = Chunked(chunks=character_chunks(TEXT))
    for wrapped in (Fails(chunks=[]).with_fallbacks([model]), model.bind()):
        agent: Any = create_agent(wrapped, middleware=[guard()])  # type: ignore[call-overload]
        parts = collect(agent, HELLO, stream_mode="messages")
        assert len(parts) > 5, "it streams"
        assert merged_stream(parts).text == CLEAN


@each("streaming", [True, False])
def test_a_model_that_does_not_stream_is_guarded(collect: Any, streaming: bool) -> None:
    model = FakeListChatModel(responses=[TEXT], disable_streaming=not streaming)
    parts = collect(create_agent(model, middleware=[guard()]), HELLO, stream_mode="messages")
    assert "".join(chunk.text for chunk, _ in parts) == CLEAN
    assert (len(parts) > 2) is streaming


# Models that do not stream, caches, and the pieces of a text


CUT = '{"to": "Ada", "text": "cut o'


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
@each("listener", ["messages", "events", "v3"])
def test_a_call_that_was_cut_off_does_not_run_because_somebody_listens(
    collect: Any, listener: str
) -> None:
    ran = []

    def send(to: str, text: str) -> str:
        """Send."""
        ran.append((to, text))
        return "sent"

    cut = invalid_tool_call(name="send", args=CUT, id="c1", error="cut off")
    steps: list[Any] = [AIMessage("", invalid_tool_calls=[cut]), "Sorry."]
    model = ScriptedChatModel(steps, disable_streaming=True)
    stack = [guard(apply_to_tool_calls=True), PIIMiddleware("ip", apply_to_output=True)]
    agent: Any = create_agent(model, [send], middleware=stack)
    if listener == "messages":
        answer, result, _ = (message for message, _ in collect(agent, HELLO, stream_mode=listener))
    elif listener == "events":
        answer, result = asyncio.run(last_event(agent))["data"]["output"]["messages"][1:3]
    else:
        answer, result = agent.stream_events(HELLO, version="v3").output["messages"][1:3]
    assert not ran
    assert [call["args"] for call in answer.invalid_tool_calls] == [CUT]
    assert result.status == "error"


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_the_pieces_of_a_text_in_events_add_up_to_it() -> None:
    def think() -> str:
        """Think."""
        return ScriptedChatModel(["Write to ada@x.org today"]).invoke("hi").text

    model = ScriptedChatModel([[call_of("think")], "So."])
    both = PIIMiddleware("email", apply_to_output=True, apply_to_tool_results=True)
    events = create_agent(model, [think], middleware=[both]).stream_events(HELLO, version="v3")
    parts = [event["params"]["data"][0] for event in events if event["method"] == "messages"]
    pieces = [part["delta"].get("text", "") for part in parts if "delta" in part]
    assert "".join(pieces) == "Write to [REDACTED_EMAIL] todaySo."


async def last_event(agent: Any) -> Any:
    return [event async for event in agent.astream_events(HELLO)][-1]


def test_the_response_metadata_of_a_provider_are_kept(collect: Any) -> None:
    class WithFinishReason(FakeListChatModel):
        def _stream(self, *_: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            for text, end in (("ada@", None), ("x.org", {"finish_reason": "stop"})):
                yield ChatGenerationChunk(message=AIMessageChunk(content=text), generation_info=end)

        _astream = BaseChatModel._astream

    agent = create_agent(WithFinishReason(responses=[]), middleware=[guard()])
    message = collect(agent, HELLO, stream_mode=["messages", "values"])[-1][1]["messages"][-1]
    assert message.text == "[REDACTED_EMAIL]"
    assert message.response_metadata["finish_reason"] == "stop"


@each("streaming", [True, False])
def test_a_name_in_an_answer_is_redacted(collect: Any, streaming: bool) -> None:
    chunks = text_chunks("Hi there", name="ada@x.org")
    model = Chunked(chunks=chunks, disable_streaming=not streaming)
    parts = collect(create_agent(model, middleware=[guard()]), HELLO, stream_mode="messages")
    assert parts[0][0].name == "[REDACTED_EMAIL]"


def test_a_cache_stores_redacted_answers_only(call: Any) -> None:
    cache = InMemoryCache()
    answers: Any = {"responses": ["ada@x.org", "bob@x.org"], "disable_streaming": True}
    model = FakeListChatModel(**answers, cache=cache)
    for _ in range(2):
        agent = create_agent(model, middleware=[guard()])
        assert call(agent, HELLO)["messages"][-1].text == "[REDACTED_EMAIL]"
    assert len(cache._cache) == 1
    assert "@x.org" not in repr([*cache._cache.values()])
    masking = create_agent(model, middleware=[guard(strategy="mask")])
    assert call(masking, HELLO)["messages"][-1].text == "b***@****.org"


PIECES = (
    *("ada@x.org", "4242 4242 4242 4242", "+1 650 253 0000", "1.2.3.4", "fe80::1", "é", "12", "x"),
    *("00:1a:2b:3c:4d:5e", "https://a.b/c", "www.a.de", " ext. 12", " e", "sk-abcd"),
    *" .,:@-/()\n\t%",
    *("4242\t4242\u200942\u200b42\u30004242", "a\uff20x\u3002org", "\u200b", "\u2009", "\u3002"),
)
RULES = [
    *(RedactionRule(kind, "mask") for kind in ("email", "credit_card", "ip", "mac_address", "url")),
    RedactionRule("phone"),
    RedactionRule("key", detector=r"(?i)\bsk-\w{4,}\b"),
    RedactionRule("any", detector=r"a.*?b"),
    RedactionRule("mine", detector=lambda text: [{"start": 0, "end": 3}]),
]


@example(" 4242 4242 4242 4242@+1 650 253 0000ada@x.org%", [1])
@given(
    st.lists(st.sampled_from(PIECES), max_size=14).map("".join),
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
)
def test_the_pieces_of_a_text_joined_are_the_redacted_whole(text: str, sizes: list[int]) -> None:
    for rule in RULES:
        stream, out, rest, step = TextStream(rule), [], text, 0
        while rest:
            size = sizes[step % len(sizes)]
            out.append(stream.feed(rest[:size]))
            rest, step = rest[size:], step + 1
        assert "".join([*out, stream.close()]) == rule.apply(text)


@each(
    "pattern",
    [
        *("id [a-z]+", r"id\sb", "id[^x]b", "id.b", r"id[\x20]b", "id[!-\u3000]?(?= b)", r"id\Wb"),
        *("id{e<=1}b", "id$", r"id\B", "(?s:id.*d)", "id[ -~]b", "(?m)^id$", r"id\N{SPACE}b"),
    ],
)
def test_a_pattern_that_may_match_white_space_gets_the_whole_text(pattern: str) -> None:
    rule = RedactionRule("mine", detector=pattern)
    for text in ("id b", "id bid", "idx b", "id b id"):
        stream = TextStream(rule)
        assert "".join([*map(stream.feed, text), stream.close()]) == rule.apply(text)


def test_other_patterns_get_a_text_word_by_word() -> None:
    for pattern in (
        r"\bid-[0-9a-f]{4,}\b",
        r"(?i)(?:sk|pk)_\w+",
        r"(?<!\d)\d{3}-\d{2}(?!\d)",
        "[!-~]+id",
    ):
        stream = TextStream(RedactionRule("mine", detector=pattern))
        assert stream.feed("Some words, ") == "Some words, "


@pytest.mark.long
def test_a_text_that_never_settles_is_held_back_whole() -> None:
    """In quadratic time this would take more than a test may take."""
    stream = TextStream(RedactionRule("credit_card"))
    assert all(stream.feed("1 1 ") == "" for _ in range(50_000))
    assert stream.close() == "1 1 " * 50_000
