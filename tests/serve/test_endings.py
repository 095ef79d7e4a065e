"""Ends of answers, as each protocol and page tells them: cut, refused in words or without."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from starlette.testclient import TestClient

from agent_factory import create_agent
from agent_factory.middleware import HumanInTheLoopMiddleware, ModelRefusalMiddleware, PIIMiddleware
from agent_factory.serve import Principal, create_app
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from samples import OwnModel
from serve.agents import pay
from serve.route_examples import rpc
from tables import each

WORDS = "I cannot tell. Ask ann@acme.com."


class Pieces(OwnModel):
    """A model that answers each request in these chunks."""

    chunks: list[AIMessageChunk]

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        id = uuid4().hex
        for chunk in self.chunks:
            yield ChatGenerationChunk(message=chunk.model_copy(update={"id": id}))

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return generate_from_stream(self._stream())


def piece(content: Any = "", kwargs: Any = None, **metadata: Any) -> AIMessageChunk:
    return AIMessageChunk(
        content=content, additional_kwargs=kwargs or {}, response_metadata=metadata
    )


def refusal(text: str, index: int = 0) -> AIMessageChunk:
    return piece([{"type": "refusal", "refusal": text, "index": index}], model_provider="openai")


# Names, chunks, and the content, refusal and finish reason in OpenAI's API.
ENDINGS: dict[str, tuple[list[AIMessageChunk], tuple[str | None, str | None, str]]] = {
    "whole": ([piece("Half"), piece(finish_reason="stop")], ("Half", None, "stop")),
    "chat": ([piece("Half"), piece(finish_reason="length"), piece()], ("Half", None, "length")),
    "gemini": ([piece(finish_reason="SAFETY"), piece()], ("", None, "content_filter")),
    "bedrock": ([piece("Half"), piece(stopReason="max_tokens")], ("Half", None, "length")),
    "responses": (
        [piece("Half"), piece(incomplete_details={"reason": "max_output_tokens"})],
        ("Half", None, "length"),
    ),
    "claude": ([piece("I c"), piece(stop_reason="refusal")], ("I c", None, "content_filter")),
    "chat refusal": (
        [piece(kwargs={"refusal": WORDS}), piece(finish_reason="stop")],
        (None, WORDS, "stop"),
    ),
    "responses refusal": (
        [refusal(WORDS[:20]), refusal(WORDS[20:]), piece(status="completed")],
        (None, WORDS, "stop"),
    ),
}
REFUSALS = [pytest.param(name, id=name) for name in ENDINGS if "refusal" in name]


THOUGHT: Any = [{"type": "reasoning", "reasoning": "Hm."}]

SEARCH: Any = [
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "rain"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "s1",
        "content": [
            {"type": "web_search_result", "url": "https://example.com/a", "title": "Rain <today>"}
        ],
    },
    {
        "type": "text",
        "text": "It rains.",
        "citations": [
            {"type": "web_search_result_location", "url": url, "title": title, "cited_text": "x"}
            for url, title in (("https://example.com/a", "Rain <today>"), ("/inbox", "Inside"))
        ],
    },
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(f"sqlite:///{tmp_path_factory.mktemp('endings')}/desk.db") as service:
        for name, (chunks, _) in ENDINGS.items():
            service.add(name, create_agent(Pieces(chunks=chunks)))
        refuses = Pieces(chunks=ENDINGS["responses refusal"][0])
        other = ModelRefusalMiddleware(ScriptedChatModel(["Gladly."] * 9))
        service.add("fallback", create_agent(refuses, middleware=[other]))
        guard = PIIMiddleware("email", apply_to_input=False, apply_to_output=True)
        service.add("guarded", create_agent(refuses, middleware=[guard]))
        pays = [{"name": "pay", "args": {"euros": 5}, "id": "p"}]
        no = AIMessage("", additional_kwargs={"refusal": WORDS})
        model = ScriptedChatModel([AIMessage("Let me see.", tool_calls=pays), no])
        review = HumanInTheLoopMiddleware({"pay": True})
        saver = InMemorySaver()
        service.add("reviewed", create_agent(model, [pay], middleware=[review], checkpointer=saver))
        found = AIMessage(SEARCH, response_metadata={"model_provider": "anthropic"})
        thinks = AIMessage(THOUGHT, response_metadata={"finish_reason": "length"})
        service.add("searcher", create_agent(ScriptedChatModel([found])))
        service.add("thinker", create_agent(ScriptedChatModel([thinks, "Done."])))
        yield service


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[TestClient]:
    with TestClient(create_app(service, lambda _: Principal("acme", "ann"))) as client:
        yield client


def events_of(text: str) -> list[Any]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


def completed(
    client: TestClient, model: str, *, stream: bool, **headers: str
) -> tuple[str | None, str | None, str]:
    """Content, refusal and finish reason of an answer."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "stream": stream}
    response = client.post("/v1/chat/completions", json=body, headers=headers)
    if not stream:
        (choice,) = response.json()["choices"]
        message = choice["message"]
        return message["content"], message["refusal"], choice["finish_reason"]
    assert response.text.endswith("data: [DONE]\n\n")
    chunks = [event["choices"][0] for event in events_of(response.text)]
    *reasons, reason = [chunk["finish_reason"] for chunk in chunks]
    assert not any(reasons)
    content, words = (
        "".join(chunk["delta"].get(name) or "" for chunk in chunks)
        for name in ("content", "refusal")
    )
    return content or (None if words else ""), words or None, reason


def responded(client: TestClient, model: str, *, stream: bool) -> tuple[str | None, ...]:
    """The same of a response."""
    answer = client.post("/v1/responses", json={"model": model, "input": "Hi", "stream": stream})
    response = events_of(answer.text)[-1]["response"] if stream else answer.json()
    parts = [part for item in response["output"] for part in item["content"]]
    texts = {part["type"]: part.get("text", part.get("refusal")) for part in parts}
    reason = (response["incomplete_details"] or {"reason": "stop"})["reason"]
    assert response["status"] == ("completed" if reason == "stop" else "incomplete")
    content, refusal = texts.get("output_text"), texts.get("refusal")
    reason = reason.replace("max_output_tokens", "length")
    return content or (None if refusal else ""), refusal, reason


@each("name, expected", [(name, expected) for name, (_, expected) in ENDINGS.items()])
def test_openai_clients_learn_why_an_answer_ended(
    client: TestClient, name: str, expected: object
) -> None:
    assert completed(client, name, stream=False) == expected
    assert [responded(client, name, stream=stream) for stream in (False, True)] == [expected] * 2
    again = {"idempotency-key": uuid4().hex}
    for _ in range(2):  # the second joins the run, which has ended
        assert completed(client, name, stream=True, **again) == expected


def test_a_refusal_that_another_model_has_answered_is_not_the_end(client: TestClient) -> None:
    for stream in (False, True):
        assert completed(client, "fallback", stream=stream) == ("Gladly.", None, "stop")


def test_a_refusal_after_a_review_has_its_words(client: TestClient, service: Service) -> None:
    thread = uuid4().hex
    content, words, reason = completed(client, "reviewed", stream=True, **{"x-thread-id": thread})
    assert ("pay waits for a review" in str(content), words, reason) == (True, None, "stop")
    (wait,) = service.inbox("acme").waits(thread=thread)
    run = service.decide(wait.id, "approve", by="bob")
    run.result(60)
    task = {"id": run.id}
    got = client.post("/a2a/reviewed", json=rpc("GetTask", **task), headers={"a2a-version": "1.0"})
    assert WORDS in got.text
    assert "refused to answer (refusal)" in got.text


def test_a_client_sends_the_words_of_a_refusal_again(client: TestClient, service: Service) -> None:
    refused = {"role": "assistant", "content": None, "refusal": WORDS}
    talk = [{"role": "user", "content": "Hi"}, refused, {"role": "user", "content": "Why?"}]
    body, thread = {"model": "whole", "messages": talk}, uuid4().hex
    client.post("/v1/chat/completions", json=body, headers={"x-thread-id": thread})
    messages = service.threads.state(thread).values["messages"]
    assert [message.text for message in messages] == ["Hi", WORDS, "Why?", "Half"]


def run(client: TestClient, agent: str, *messages: Any, thread: str = "") -> list[Any]:
    """The events of AG-UI."""
    ids = {"threadId": thread or uuid4().hex, "runId": uuid4().hex}
    more: Any = {"tools": [], "context": [], "state": {}, "forwardedProps": {}}
    asked = [*messages, {"id": uuid4().hex, "role": "user", "content": "Hi"}]
    return events_of(client.post(f"/ag-ui/{agent}", json={**ids, **more, "messages": asked}).text)


@each("name", REFUSALS)
def test_pages_and_protocols_show_the_words_of_a_refusal(
    client: TestClient, service: Service, name: str
) -> None:
    thread = uuid4().hex
    events = run(client, name, thread=thread)
    pieces = [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"]
    *_, snapshot = [event["messages"] for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
    assert "".join(pieces) == snapshot[-1]["content"] == WORDS
    (ending,) = [event["value"] for event in events if event["type"] == "CUSTOM"]
    assert ending["kind"] == "refused"
    shown = client.get(f"/studio/threads/{thread}").text
    assert f"<p>{WORDS}</p>" in shown
    assert ending["text"] in shown
    assert WORDS[:20] in client.get(f"/studio/threads/{thread}/history").text
    parts = [{"text": "Hi"}]
    message = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": parts}
    for method in ("SendMessage", "SendStreamingMessage"):
        asked = rpc(method, message={**message, "messageId": uuid4().hex})
        answer = client.post(f"/a2a/{name}", json=asked, headers={"a2a-version": "1.0"})
        assert "".join(piece["text"] for piece in texts_in(answer.text)).startswith(WORDS)


def texts_in(text: str) -> list[Any]:
    """The parts of artifacts in an answer of A2A."""
    answers = events_of(text) or [json.loads(text)]
    results = [answer["result"] for answer in answers]
    found = [
        result["artifactUpdate"]["artifact"] for result in results if "artifactUpdate" in result
    ]
    found += [
        artifact for result in results for artifact in result.get("task", {}).get("artifacts", ())
    ]
    return [part for artifact in found for part in artifact["parts"]]


def test_a_guard_redacts_the_words_of_a_refusal_everywhere(client: TestClient) -> None:
    redacted = WORDS.replace("ann@acme.com", "[REDACTED_EMAIL]")
    for stream in (False, True):
        assert completed(client, "guarded", stream=stream) == (None, redacted, "stop")
    thread = uuid4().hex
    events = json.dumps(run(client, "guarded", thread=thread))
    shown = client.get(f"/studio/threads/{thread}").text
    for text in (events, shown):
        assert "REDACTED_EMAIL" in text
        assert "ann@" not in text


def test_an_answer_that_is_empty_is_not_a_message_of_a_page(client: TestClient) -> None:
    thread = uuid4().hex
    events = run(client, "thinker", thread=thread)
    *_, snapshot = [event["messages"] for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
    assert [message["role"] for message in snapshot] == ["user", "reasoning"]
    assert [event["value"]["kind"] for event in events if event["type"] == "CUSTOM"] == ["cut"]
    shown = client.get(f"/studio/threads/{thread}").text
    assert "The answer was cut at a limit of tokens (finish_reason: length)." in shown
    # The client has all messages of the thread: it needs no snapshot at the begin.
    events = run(client, "thinker", *snapshot, thread=thread)
    assert [event["type"] for event in events].count("MESSAGES_SNAPSHOT") == 1


def test_the_studio_shows_searches_of_the_provider_and_sources(
    client: TestClient, service: Service
) -> None:
    thread = uuid4().hex
    service.submit("searcher", thread=thread, message="Hi", tenant="acme").result(60)
    shown = client.get(f"/studio/threads/{thread}").text
    assert "The provider ran <code>web_search</code>: rain" in shown
    assert "Rain &lt;today&gt; https://example.com/a</pre>" in shown
    link = '<a href="https://example.com/a" rel="noopener noreferrer" target="_blank">'
    assert f"<li>{link}Rain &lt;today&gt;</a></li><li>Inside</li>" in shown
