"""OpenAI's own client for Python, as it is, against a service."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import openai
import pytest
from langchain_core.messages import AIMessage

from agent_factory import create_agent
from agent_factory.serve import Principal
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from serve.accounts import statuses
from serve.agents import chat_service, wait_for_threads
from servers import served
from tables import each
from waiting import auntil


def who(request: Any) -> Principal | None:
    name = request.headers.get("authorization", "").removeprefix("Bearer ")
    return Principal(tenant=name.partition("@")[2], name=name) if "@" in name else None


SERVICE = chat_service


@pytest.fixture(scope="module")
def url(service: Service) -> Iterator[str]:
    with served(service, authenticate=who) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="ann@acme") as client:
        yield client


def user(text: Any) -> Any:
    return {"role": "user", "content": text}


def in_thread(thread: str | None = None, **headers: str) -> dict[str, Any]:
    return {"extra_headers": {"X-Thread-Id": thread or uuid4().hex, **headers}}


def answer(client: openai.OpenAI, model: str, *messages: Any, **options: Any) -> str:
    given: list[Any] = [*messages]
    made = client.chat.completions.create(model=model, messages=given, **options)
    (choice,) = made.choices
    assert (choice.finish_reason, choice.message.role) == ("stop", "assistant")
    return choice.message.content or ""


def streamed(client: openai.OpenAI, model: str, *messages: Any, **options: Any) -> str:
    given: list[Any] = [*messages]
    chunks = [*client.chat.completions.create(model=model, messages=given, stream=True, **options)]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def test_agents_are_models(client: openai.OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert names[:2] == ["echo", "payer"]
    assert client.models.retrieve("echo").id == "echo"
    with pytest.raises(openai.NotFoundError, match="There is no agent 'ehco'") as error:
        client.models.retrieve("ehco")
    assert (error.value.param, error.value.code) == ("model", "model_not_found")
    with pytest.raises(openai.NotFoundError):
        answer(client, "ehco", user("Hi"))


def test_an_answer_without_a_thread_leaves_nothing(client: openai.OpenAI, service: Service) -> None:
    before = service.threads.count()
    talk = [user("One"), {"role": "assistant", "content": "Two"}, user("Three")]
    made = client.chat.completions.create(model="echo", messages=talk)
    assert made.choices[0].message.content == "You said: Three"
    assert made.usage is not None
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (12, 5)
    assert made.usage.total_tokens == 17
    assert streamed(client, "echo", *talk) == "You said: Three"
    wait_for_threads(service, before)


async def test_the_async_client(url: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="ann@acme") as client:
        made = await client.chat.completions.create(model="echo", messages=[user("Hi")])
        assert made.choices[0].message.content == "You said: Hi"
        stream = await client.chat.completions.create(
            model="echo", messages=[user("Hi")], stream=True, stream_options={"include_usage": True}
        )
        *_, last = [chunk async for chunk in stream]
        assert last.usage is not None
        assert (last.choices, last.usage.total_tokens) == ([], 17)


def test_tools_and_agents_inside_are_hidden(client: openai.OpenAI) -> None:
    assert answer(client, "payer", user("Pay")) == "Done: Paid 5."
    assert streamed(client, "payer", user("Pay")) == "Let me see.\n\nDone: Paid 5."
    assert streamed(client, "boss", user("Ask")) == "Let me see.\n\nDone: Inner words."
    assert answer(client, "thinker", user("Hi")) == streamed(client, "thinker", user("Hi"))


def test_a_thread_by_header(client: openai.OpenAI, service: Service) -> None:
    thread = uuid4().hex
    options = {**in_thread(thread), "user": "u-1", "metadata": {"case": "7"}, "temperature": 0.1}
    prompt = {"role": "system", "content": "Be kind."}
    talk: list[Any] = [prompt, user("One")]
    talk.append({"role": "assistant", "content": answer(client, "echo", *talk, **options)})
    talk.append(user("Two"))
    assert streamed(client, "echo", *talk, **options) == "You said: Two"
    assert answer(client, "echo", user("Two"), **options) == "You said: Two"
    assert answer(client, "echo", prompt, user("Three"), **options) == "You said: Three"
    texts = [message.text for message in service.threads.state(thread).values["messages"]]
    assert [text for text in texts if "You" not in text] == [
        "Be kind.",
        "One",
        "Two",
        "Two",
        "Three",
    ]
    assert service.threads.runs(thread)[0].info.metadata == {"user": "u-1", "case": "7"}


def test_the_same_key_is_the_same_answer(client: openai.OpenAI, service: Service) -> None:
    headers: Any
    for headers in (in_thread(), {"extra_headers": {}}):
        headers["extra_headers"]["Idempotency-Key"] = uuid4().hex
        before = service.threads.count()
        for ask in (answer, streamed):
            assert ask(client, "echo", user("Hi"), **headers) == "You said: Hi"
        assert service.threads.count() == before + 1
        (thread,) = service.threads.search(limit=1)
        assert len(service.threads.runs(thread.id)) == 1


def test_an_answer_without_a_stream(client: openai.OpenAI, service: Service) -> None:
    thread, key = uuid4().hex, uuid4().hex
    options = in_thread(thread, **{"Idempotency-Key": key})
    given: Any = {"thread": thread, "message_id": key, "tenant": "acme", "stream": ()}
    service.submit("echo", message="Hi", **given).result(timeout=60)
    assert streamed(client, "echo", user("Hi"), **options) == "You said: Hi"


def test_a_review_is_said_in_a_sentence(client: openai.OpenAI, service: Service, url: str) -> None:
    for ask in (answer, streamed):
        options = in_thread()
        thread = options["extra_headers"]["X-Thread-Id"]
        first = ask(client, "desk", user("Pay"), **options)
        (wait,) = service.inbox("acme").waits(thread=thread)
        assert f"pay waits for a review: {url}/inbox/{wait.id}" in first
        assert f"/inbox/{wait.id}" in ask(client, "desk", user("Pay"), **options)
        service.decide(wait.id, "approve", by="bob").result(timeout=60)
        assert ask(client, "echo", user("Thanks"), **options) == "You said: Thanks"
    assert "ask asks a question" in answer(client, "asker", user("Ask"))


def test_a_message_to_a_thread_that_waits_says_what_became_of_it(
    client: openai.OpenAI, service: Service
) -> None:
    for ask in (answer, streamed):
        held, now, refused = in_thread(), in_thread(), in_thread()
        for agent, options in (("desk", held), ("desk now", now), ("desk later", refused)):
            ask(client, agent, user("Pay"), **options)
        thread = held["extra_headers"]["X-Thread-Id"]
        for _ in range(2):  # sent again, it is held once
            text = ask(client, "desk", user("Hello?"), **held)
            assert text.endswith("Your message is held until then.")
        assert [message.text for message in service.threads.held(thread)] == ["Hello?"]
        assert ask(client, "desk", user("Pay"), **held).endswith(f"{service_wait(service, thread)}")
        text = ask(client, "desk now", user("Hello?"), **now)
        assert text.startswith("Withdrawn by your message, and not run: pay.\n\n")
        text = ask(client, "desk later", user("Hello?"), **refused)
        assert text.endswith("Your message was not taken.")
        assert service.threads.held(refused["extra_headers"]["X-Thread-Id"]) == []


def service_wait(service: Service, thread: str) -> str:
    """The id of what a thread waits for."""
    (wait,) = service.inbox("acme").waits(thread=thread)
    return wait.id


def test_a_run_that_fails(client: openai.OpenAI, service: Service) -> None:
    options = in_thread()
    thread = options["extra_headers"]["X-Thread-Id"]
    with pytest.raises(openai.InternalServerError, match="the model is out of order") as error:
        answer(client, "echo", user("fail"), **options)
    assert (error.value.type, error.value.code) == ("server_error", "run_failed")
    assert len(service.threads.runs(thread)) == 1  # the client has not tried again by itself
    with pytest.raises(openai.APIError, match="the model is out of order"):
        streamed(client, "echo", user("fail"), **options)
    assert len(service.threads.runs(thread)) == 2
    texts = [message.text for message in service.threads.state(thread).values["messages"]]
    assert texts == ["fail"]


def test_images_and_files_reach_the_agent(client: openai.OpenAI, service: Service) -> None:
    options = in_thread()
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    file = {
        "type": "file",
        "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="},
    }
    parts = [{"type": "text", "text": "Look"}, picture, file]
    assert answer(client, "echo", user(parts), **options) == "You said: Look"
    message, _ = service.threads.state(options["extra_headers"]["X-Thread-Id"]).values["messages"]
    assert [block["type"] for block in message.content_blocks] == ["text", "image", "file"]


def test_an_answer_that_was_cut(service: Service, client: openai.OpenAI) -> None:
    cut = AIMessage("And so", response_metadata={"finish_reason": "length"})
    service.add("cut", create_agent(ScriptedChatModel([cut, cut])))
    made = client.chat.completions.create(model="cut", messages=[user("Hi")])
    assert made.choices[0].finish_reason == "length"
    chunks = [*client.chat.completions.create(model="cut", messages=[user("Hi")], stream=True)]
    assert chunks[-1].choices[0].finish_reason == "length"


@each(
    "param, value",
    [
        ("n", 2),
        ("tools", [{"type": "function", "function": {"name": "f"}}]),
        ("functions", [{"name": "f"}]),
        ("logprobs", True),
        ("stop", ["."]),
        ("response_format", {"type": "json_object"}),
        ("webhook", "x"),
        ("messages", [{"role": "tool", "tool_call_id": "1", "content": "x"}]),
        ("messages", []),
        ("messages", [{"role": "user", "content": 5}]),
        ("stream", "perhaps"),
    ],
)
def test_what_is_refused(client: openai.OpenAI, param: str, value: Any) -> None:
    body = {"model": "echo", "messages": [user("Hi")], param: value}
    with pytest.raises(openai.BadRequestError, match=param) as error:
        client.post("/chat/completions", body=body, cast_to=object)
    assert (error.value.param, error.value.type) == (param, "invalid_request_error")


def test_what_asks_for_nothing_is_taken(client: openai.OpenAI) -> None:
    nothing: Any = {"n": 1, "tools": [], "logprobs": False, "response_format": {"type": "text"}}
    assert answer(client, "echo", user("Hi"), **nothing, max_tokens=5) == "You said: Hi"


def test_who_asks(
    url: str,
    client: openai.OpenAI,
) -> None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="nobody") as unknown:
        with pytest.raises(openai.AuthenticationError, match="not known") as error:
            unknown.models.list()
        assert error.value.type == "invalid_request_error"
    options = in_thread()
    answer(client, "echo", user("Mine"), **options)
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="bob@other") as other,
        pytest.raises(openai.NotFoundError, match="does not exist"),
    ):
        answer(other, "echo", user("Hi"), **options)
    key = {"extra_headers": {"Idempotency-Key": uuid4().hex}}
    answer(client, "echo", user("Mine"), **key)
    with openai.OpenAI(base_url=f"{url}/v1", api_key="bob@other") as other:
        assert answer(other, "echo", user("Theirs"), **key) == "You said: Theirs"


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_goes_away_ends_the_run(
    url: str, service: Service, stream: bool
) -> None:
    thread = uuid4().hex
    headers = {"authorization": "Bearer ann@acme", "x-thread-id": thread}
    body = {"model": "echo", "messages": [user("held")], "stream": stream}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        request = asyncio.ensure_future(http.post(f"{url}/v1/chat/completions", json=body))
        await auntil(lambda: statuses(service, thread) == ["running"])
        request.cancel()
        await asyncio.wait([request])
    await auntil(lambda: statuses(service, thread) == ["cancelled"])


def test_without_a_client(url: str) -> None:
    body = json.dumps({"model": "echo", "messages": [user("Hi")], "stream": True})
    headers = ["-H", "Authorization: Bearer ann@acme", "-H", "Content-Type: application/json"]
    command = ["curl", "-sN", f"{url}/v1/chat/completions", *headers, "-d", body]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    *events, last = [line for line in done.stdout.split("\n\n") if line]
    assert last == "data: [DONE]"
    found = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
    assert "".join(one["delta"].get("content", "") for one in found) == "You said: Hi"
