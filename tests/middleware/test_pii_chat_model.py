"""Answers that the model itself redacts, and the streams of text that it redacts in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.caches import InMemoryCache
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from agent_factory import create_agent
from agent_factory.middleware import PIIMiddleware, RedactionRule
from agent_factory.middleware.pii.messages import TextStream
from tables import each

HELLO: Any = {"messages": [("user", "Hello")]}


def guard(**options: Any) -> PIIMiddleware:
    return PIIMiddleware("email", apply_to_output=True, **options)


class NotStreaming(FakeListChatModel):
    """A model that cannot stream."""

    _stream = BaseChatModel._stream
    _astream = BaseChatModel._astream


CUT = '{"to": "Ada", "text": "cut o'


class CutsOff(NotStreaming):
    """A model that cannot stream, and whose first answer ends within the arguments of a call."""

    def _call(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> str:
        return "Sorry."

    def _generate(self, messages: list[BaseMessage], *_: Any, **kwargs: Any) -> ChatResult:
        message = AIMessage("Sorry.")
        if len(messages) == 1:
            cut = invalid_tool_call(name="send", args=CUT, id="c1", error="cut off")
            message = AIMessage("", invalid_tool_calls=[cut])
        return ChatResult(generations=[ChatGeneration(message=message)])

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
@each("listener", ["messages", "events", "v3"])
def test_a_call_that_was_cut_off_does_not_run_because_somebody_listens(
    collect: Callable[..., Any], listener: str
) -> None:
    ran = []

    def send(to: str, text: str) -> str:
        """Send."""
        ran.append((to, text))
        return "sent"

    model = CutsOff(responses=[])
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


async def last_event(agent: Any) -> Any:
    return [event async for event in agent.astream_events(HELLO)][-1]


def test_the_response_metadata_of_a_provider_are_kept(collect: Callable[..., Any]) -> None:
    class WithFinishReason(FakeListChatModel):
        def _stream(self, *_: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            for text, info in (("ada@", None), ("x.org", {"finish_reason": "stop"})):
                yield ChatGenerationChunk(
                    message=AIMessageChunk(content=text), generation_info=info
                )

        _astream = BaseChatModel._astream

    agent = create_agent(WithFinishReason(responses=[]), middleware=[guard()])
    parts = collect(agent, HELLO, stream_mode=["messages", "values"])
    message = parts[-1][1]["messages"][-1]
    assert message.text == "[REDACTED_EMAIL]"
    assert message.response_metadata["finish_reason"] == "stop"


def test_a_name_in_an_answer_is_redacted(collect: Callable[..., Any]) -> None:
    class Named(FakeListChatModel):
        def _generate(self, *_: Any, **kwargs: Any) -> ChatResult:
            message = AIMessage("Hi there", name="ada@x.org")
            return ChatResult(generations=[ChatGeneration(message=message)])

        def _stream(self, *_: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
            yield ChatGenerationChunk(message=AIMessageChunk(content="Hi there", name="ada@x.org"))

        _astream = BaseChatModel._astream

    for streams in (True, False):
        model = Named(responses=[], disable_streaming=not streams)
        parts = collect(create_agent(model, middleware=[guard()]), HELLO, stream_mode="messages")
        assert parts[0][0].name == "[REDACTED_EMAIL]"


class RecordingCache(InMemoryCache):
    """A cache that records what it stores."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: list[Any] = []

    def update(self, prompt: str, llm_string: str, return_val: Any) -> None:
        self.stored.append(return_val)
        super().update(prompt, llm_string, return_val)


def test_a_cache_stores_redacted_answers_only(call: Callable[..., Any]) -> None:
    cache = RecordingCache()
    model = NotStreaming(responses=["ada@x.org", "bob@x.org"], cache=cache)
    for _ in range(2):
        agent = create_agent(model, middleware=[guard()])
        assert call(agent, HELLO)["messages"][-1].text == "[REDACTED_EMAIL]"
    assert len(cache.stored) == 1
    assert "@x.org" not in repr(cache.stored)
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
