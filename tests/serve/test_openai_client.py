"""OpenAI's own client for Python, as it is, against a service: also with tools that it brings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from threading import Event
from typing import Any
from uuid import uuid4

import httpx
import openai
import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import create_agent
from agent_factory.middleware import ClientToolsMiddleware
from agent_factory.serve import Principal
from agent_factory.service import Service
from agent_factory.testing import Reply, ScriptedChatModel
from serve.agents import chat_service, pay, wait_for_threads
from serve.route_examples import CHAT
from servers import served
from tables import each
from waiting import until


def who(request: Any) -> Principal | None:
    name = request.headers.get("authorization", "").removeprefix("Bearer ")
    return Principal(tenant=name.partition("@")[2], name=name) if "@" in name else None


SERVICE = chat_service


@pytest.fixture(scope="module")
def url(service: Service) -> Iterator[str]:
    # No reviewer may decide here: a client that sends results decides about nothing.
    with served(service, authenticate=who, may_decide=lambda principal, wait: False) as url:
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
    (choice,) = client.chat.completions.create(model=model, messages=given, **options).choices
    assert (choice.finish_reason, choice.message.role) == ("stop", "assistant")
    return choice.message.content or ""


def streamed(client: openai.OpenAI, model: str, *messages: Any, **options: Any) -> str:
    given: list[Any] = [*messages]
    chunks = [*client.chat.completions.create(model=model, messages=given, stream=True, **options)]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def test_agents_are_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()][:2] == ["echo", "payer"]
    assert client.models.retrieve("echo").id == "echo"
    with pytest.raises(openai.NotFoundError, match="There is no agent 'ehco'") as error:
        client.models.retrieve("ehco")
    assert (error.value.param, error.value.code) == ("model", "model_not_found")
    with pytest.raises(openai.NotFoundError):
        answer(client, "ehco", user("Hi"))


def test_an_answer_without_a_thread_leaves_nothing(client: openai.OpenAI, service: Service) -> None:
    before = service.threads.count()
    talk: Any = [user("One"), {"role": "assistant", "content": "Two"}, user("Three")]
    made = client.chat.completions.create(model="echo", messages=talk)
    assert made.choices[0].message.content == "You said: Three"
    usage: Any = made.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (12, 5, 17)
    assert streamed(client, "echo", *talk) == "You said: Three"
    *_, last = client.chat.completions.create(
        model="echo", messages=talk, stream=True, stream_options={"include_usage": True}
    )
    assert (last.choices, last.usage) == ([], usage)
    wait_for_threads(service, before)


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
    said = [text for text in texts if "You" not in text]
    assert said == ["Be kind.", "One", "Two", "Two", "Three"]
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
        (wait,) = service.inbox("acme").waits(thread=thread)
        assert ask(client, "desk", user("Pay"), **held).endswith(wait.id)
        text = ask(client, "desk now", user("Hello?"), **now)
        assert text.startswith("Withdrawn by your message, and not run: pay.\n\n")
        text = ask(client, "desk later", user("Hello?"), **refused)
        assert text.endswith("Your message was not taken.")
        assert service.threads.held(refused["extra_headers"]["X-Thread-Id"]) == []


def test_a_run_that_fails(client: openai.OpenAI, service: Service) -> None:
    options = in_thread()
    thread = options["extra_headers"]["X-Thread-Id"]
    for number, ask in enumerate((answer, streamed), 1):
        with pytest.raises(openai.APIError) as error:
            ask(client, "echo", user("fail"), **options)
        text = "The run has failed: ValueError: the model is out of order."
        assert error.value.body["message"] == text  # type: ignore[index]
        assert (error.value.type, error.value.code) == ("server_error", "run_failed")
        assert getattr(error.value, "status_code", 424) == 424
        assert len(service.threads.runs(thread)) == number  # the client has not tried again
    with pytest.raises(openai.APIStatusError, match="The run has failed") as refused:
        client.responses.create(model="echo", input="fail")
    assert refused.value.status_code == 424
    *_, last = client.responses.create(model="echo", input="fail", stream=True)
    assert (last.type, last.response.error.message) == ("response.failed", text)  # type: ignore[union-attr]
    texts = [message.text for message in service.threads.state(thread).values["messages"]]
    assert texts == ["fail"]


def test_images_and_files_reach_the_agent(client: openai.OpenAI, service: Service) -> None:
    options = in_thread()
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    pdf = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}
    file = {"type": "file", "file": pdf}
    parts = [{"type": "text", "text": "Look"}, picture, file]
    assert answer(client, "echo", user(parts), **options) == "You said: Look"
    message, _ = service.threads.state(options["extra_headers"]["X-Thread-Id"]).values["messages"]
    assert [block["type"] for block in message.content_blocks] == ["text", "image", "file"]


def test_what_asks_for_nothing_is_taken(client: openai.OpenAI) -> None:
    nothing: Any = {"n": 1, "tools": [], "logprobs": False, "response_format": {"type": "text"}}
    model = {"min_p": 0.1, "chat_template_kwargs": {}, "stop": ["You"], "max_tokens": 5}
    assert answer(client, "echo", user("Hi"), extra_body={**nothing, **model}) == "You said: Hi"


@each("has_thread", [False, True])
def test_a_key_counts_per_person(url: str, service: Service, has_thread: bool) -> None:
    known = {"idempotency-key": uuid4().hex}
    known |= {"x-thread-id": uuid4().hex} if has_thread else {}

    def chat(by: str, text: str) -> tuple[str, str]:
        """The id of an answer, and its thread."""
        body = {"model": "echo", "messages": [user(text)]}
        headers = {"authorization": f"Bearer {by}", **known}
        answer = httpx.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=60)
        assert answer.json()["choices"][0]["message"]["content"] == f"You said: {text}"
        return answer.json()["id"], answer.headers["x-thread-id"]

    first = chat("ann@acme", "A")
    assert chat("ann@acme", "A") == first
    other = chat("bob@acme", "B")
    assert (other[0] != first[0], other[1] == first[1]) == (True, has_thread)
    assert chat("bob@acme", "B") == other
    texts = [message.text for message in service.threads.state(other[1]).values["messages"]]
    assert texts == [*(["A", "You said: A"] if has_thread else []), "B", "You said: B"]
    if not has_thread:
        assert chat("ann@globex", "C")[0] not in (first[0], other[0])


@each("options", [{}, {"delay": 60}])
def test_an_id_of_a_message_counts_per_person(service: Service, options: Any) -> None:
    """Also before a worker begins. It has no U+0000, which could hide where it begins."""
    options = {**options, "thread": uuid4().hex, "message_id": "m-1"}
    run = service.submit("echo", message="A", by="ann", **options)
    assert service.submit("echo", message="A", by="ann", **options).id == run.id
    assert service.submit("echo", message="B", by="bob", **options).id != run.id
    for thread, message_id in (("a", "b\0c"), ("a\0b", "c")):
        with pytest.raises(TypeError, match=r"U\+0000"):
            service.submit("echo", thread=thread, message="Hi", message_id=message_id)


def function(name: str, **properties: Any) -> Any:
    parameters = {"type": "object", "properties": properties}
    about = {"name": name, "description": f"The {name}.", "parameters": parameters}
    return {"type": "function", "function": {**about, "strict": False}}


TITLE, SCROLL = function("title"), function("scroll", to={"type": "integer"})


def flat(part: Any) -> Any:
    """A function, a choice or a format in the form of the Responses API."""
    if not isinstance(part, dict):
        return part
    return {"type": part["type"], **part.get("function", {}), **part.get("json_schema", {})}


def items_of(message: Any) -> list[Any]:
    """A message as items of the Responses API."""
    content = message.get("content")
    if message["role"] == "tool":
        if isinstance(content, list):
            content = [{**part, "type": "input_text"} for part in content]
        head = {"type": "function_call_output", "call_id": message["tool_call_id"]}
        return [{**head, "output": content}]
    items = [{"role": message["role"], "content": content}] if content else []
    for call in message.get("tool_calls") or ():
        items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
    return items


def respond(client: openai.OpenAI, given: Any, *, stream: bool) -> tuple[Any, str]:
    """The answer of the Responses API to a request for a completion, in the form of `Asked`."""
    given["input"] = [item for message in given.pop("messages") for item in items_of(message)]
    given |= {"text": {"format": flat(given.pop("response_format", None))}, "store": False}
    given |= {key: flat(given[key]) for key in ("tool_choice",) if key in given}
    if given.get("tools"):
        given["tools"] = [flat(tool) for tool in given["tools"]]
    if stream:
        *_, last = client.responses.create(**given, stream=True)
        response: Any = last.response
        if last.type == "response.failed":
            raise openai.OpenAIError(response.error.message)
    else:
        response = client.responses.create(**given)
    assert response.status == "completed"
    message: Any = {"role": "assistant", "content": response.output_text}
    for item in response.output:
        if item.type == "function_call":
            call = {"name": item.name, "arguments": item.arguments}
            calls = message.setdefault("tool_calls", [])
            calls.append({"id": item.call_id, "type": "function", "function": call})
    return message, "tool_calls" if "tool_calls" in message else "stop"


class Asked:
    """Asks with or without a stream, and reads the answer in the same way."""

    def __init__(self, client: openai.OpenAI, *, stream: bool, responses: bool = False) -> None:
        self._client, self._stream, self._responses = client, stream, responses

    def __call__(self, *messages: Any, model: str = "page", **options: Any) -> tuple[Any, str]:
        """The message of the answer, as a client sends it again, and the finish reason."""
        given: Any = {"model": model, "messages": [*messages], **options}
        if self._responses:
            return respond(self._client, given, stream=self._stream)
        if not self._stream:
            (choice,) = self._client.chat.completions.create(**given).choices
            return choice.message.model_dump(exclude_none=True), str(choice.finish_reason)
        with self._client.chat.completions.stream(**given) as stream:
            (choice,) = stream.get_final_completion().choices
        message = choice.message.model_dump(exclude_none=True)
        message.pop("parsed", None)
        for call in message.get("tool_calls") or ():
            call["function"].pop("parsed_arguments", None)
        return message, str(choice.finish_reason)


@pytest.fixture(params=["at once", "stream", "responses at once", "responses stream"])
def ask(client: openai.OpenAI, request: pytest.FixtureRequest) -> Asked:
    name = request.param
    return Asked(client, stream="stream" in name, responses="responses" in name)


def result(call: Any, content: Any = "Orders") -> Any:
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


def test_the_client_runs_the_call(ask: Asked, service: Service) -> None:
    before = service.threads.count()
    talk = [user("title scroll")]
    message, reason = ask(*talk, tools=[TITLE, SCROLL])
    assert reason == "tool_calls"
    assert not message.get("content")
    one, two = message["tool_calls"]
    assert (one["type"], one["function"]) == ("function", {"name": "title", "arguments": "{}"})
    assert two["function"] == {"name": "scroll", "arguments": '{"to": 7}'}
    # The client has all of the conversation, so that nothing of it has to stay.
    wait_for_threads(service, before)
    results = [result(one), result(two, [{"type": "text", "text": "ok"}])]
    talk += [message, *results]
    message, reason = ask(*talk, tools=[TITLE, SCROLL])
    assert (message["content"], reason) == ("Done: title=Orders, scroll=ok", "stop")
    message, _ = ask(*talk, message, user("title"), tools=[TITLE])
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["title"]
    wait_for_threads(service, before)


def test_a_thread_stays_while_it_knows_more_than_the_client(ask: Asked, service: Service) -> None:
    before = service.threads.count()
    talk = [user("pay title")]
    message, _ = ask(*talk, tools=[TITLE])
    (call,) = message["tool_calls"]
    assert service.threads.count() == before + 1
    talk += [message, result(call)]
    message, reason = ask(*talk, tools=[TITLE])
    # The call of the agent's own tool has run once, and its result is there.
    assert (message["content"], reason) == ("Done: pay=Paid 5., title=Orders", "stop")
    wait_for_threads(service, before)


def test_a_thread_of_the_client(ask: Asked, service: Service) -> None:
    options = {**in_thread(), "tools": [TITLE, SCROLL]}
    thread = options["extra_headers"]["X-Thread-Id"]
    message, _ = ask(user("title scroll"), **options)
    assert ask(user("title scroll"), **options) == (message, "tool_calls")
    service.stop()
    service.start()
    one, two = message["tool_calls"]
    half, _ = ask(result(one), **options)
    assert [call["id"] for call in half["tool_calls"]] == [two["id"]]
    for _ in range(2):  # a result that is sent again changes nothing
        done, _ = ask(result(two, "ok"), **options)
        assert done["content"] == "Done: title=Orders, scroll=ok"
    with pytest.raises(openai.ConflictError, match="was decided before"):
        ask(result(two, "another"), **options)
    (run,) = service.threads.runs(thread)
    assert run.status == "done"
    entries = service.inbox("acme").audit(thread=thread)
    assert {entry.detail["via"] for entry in entries if entry.what == "respond"} == {"openai"}
    message, _ = ask(user("Hello"), **options)
    assert message["content"] == "You said: Hello"


def test_a_review_beside_a_call_of_the_client(ask: Asked, service: Service) -> None:
    options = {**in_thread(), "tools": [TITLE]}
    message, reason = ask(user("refund title"), **options)
    assert reason == "stop"
    assert "refund waits for a review" in message["content"]
    (wait,) = service.inbox("acme").waits(thread=options["extra_headers"]["X-Thread-Id"])
    service.decide(wait.id, "approve", by="bob").result(timeout=60)
    message, reason = ask(user("refund title"), **options)
    assert (message.get("content") or "", reason) == ("", "tool_calls")
    (call,) = message["tool_calls"]
    message, _ = ask(result(call), **options)
    assert message["content"] == "Done: refund=Refunded 5., title=Orders"


def test_a_tool_that_the_agent_leaves_to_its_client(ask: Asked) -> None:
    for tools in ([function("clock")], openai.NOT_GIVEN):
        options = {**in_thread(), "tools": tools, "model": "own"}
        message, _ = ask(user("clock"), **options)
        (call,) = message["tool_calls"]
        assert ask(result(call, "Noon"), **options)[0]["content"] == "Done: clock=Noon"


def agent_of(service: Service, *steps: Any) -> tuple[str, ScriptedChatModel]:
    """Add an agent with a scripted model; its name and the model."""
    model, name, layers = ScriptedChatModel([*steps]), uuid4().hex, [ClientToolsMiddleware()]
    saver = InMemorySaver()
    service.add(name, create_agent(model, [pay], middleware=layers, checkpointer=saver))
    return name, model


def offered(model: ScriptedChatModel) -> list[tuple[list[str], Any]]:
    return [(request.tools, request.kwargs.get("tool_choice")) for request in model.requests]


def test_responses_follow_each_other(client: openai.OpenAI, service: Service) -> None:
    """After any earlier response, or after the last of a thread."""
    send: Any = partial(client.responses.create, model="echo")
    first = send(input="One", instructions="Be kind.", metadata={"case": "7"}, user="u-1")
    assert (first.metadata, first.user, first.usage.total_tokens) == ({"case": "7"}, "u-1", 17)
    thread = first.conversation.id
    for text in ("Two", "Three"):
        send(input=text, previous_response_id=first.id)
    last = send(input=[user([{"type": "input_text", "text": "Four"}])], conversation=thread)
    assert last.conversation.id == thread
    texts = [message.text for message in service.threads.state(thread).values["messages"]]
    answers = [part for text in ("One", "Three", "Four") for part in (text, f"You said: {text}")]
    assert texts == ["Be kind.", *answers]
    assert client.responses.retrieve(first.id).output_text == "You said: One"
    with pytest.raises(openai.NotFoundError, match="There is no response 'resp_1'"):
        client.responses.retrieve("resp_1")


def test_a_response_after_an_earlier_one_does_not_wait_for_a_call(client: openai.OpenAI) -> None:
    send: Any = partial(client.responses.create, model="page", timeout=30)
    first = send(input="One")
    asked = send(input="title", previous_response_id=first.id, tools=[flat(TITLE)])
    assert asked.output[0].type == "function_call"
    other = send(input="Three", previous_response_id=first.id)
    assert other.output_text == "You said: Three"


def test_a_response_in_the_background(client: openai.OpenAI, gate: Event) -> None:
    send: Any = partial(client.responses.create, model="echo", background=True)
    first, other = send(input="held"), send(input="held, too")
    assert first.status in ("queued", "in_progress")
    assert client.responses.cancel(other.id).status == "cancelled"
    gate.set()
    until(lambda: client.responses.retrieve(first.id).status == "completed")
    assert client.responses.retrieve(first.id).output_text == "You said: held"
    failed = send(input="fail")
    until(lambda: client.responses.retrieve(failed.id).status == "failed")


def test_the_events_of_a_response(client: openai.OpenAI) -> None:
    item, part = ["output_item.added", "content_part.added"], ["content_part.done"]
    text = [*item, "output_text.delta", "output_text.done", *part]
    call = [item[0], "function_call_arguments.delta", "function_call_arguments.done"]
    for model, words, kinds in (("page", "pay title", call), ("payer", "Pay", text)):
        options: Any = {"model": model, "tools": [flat(TITLE)] if model == "page" else []}
        with client.responses.stream(**options, input=words) as stream:
            events: list[Any] = [*stream]
        assert [event.sequence_number for event in events] == [*range(len(events))]
        found = dict.fromkeys(event.type.removeprefix("response.") for event in events)
        begin = ["created", "in_progress"]
        assert [*found] == [*begin, *kinds, "output_item.done", "completed"]
    assert events[-1].response.output_text == "Let me see.\n\nDone: Paid 5."


CALL: Any = [{"name": "title", "args": {}, "id": "model's own"}]


@each(
    "choice, first",
    [
        ("auto", (["pay", "title", "scroll"], None)),
        ("none", (["pay"], None)),
        ("required", (["title", "scroll"], "any")),
        ({"type": "function", "function": {"name": "title"}}, (["title"], "title")),
    ],
)
def test_a_tool_choice(ask: Asked, service: Service, choice: Any, first: Any) -> None:
    name, model = agent_of(service, "Hi." if choice == "none" else CALL, CALL, "Done.")
    options: Any = {"model": name, "tools": [TITLE, SCROLL], "tool_choice": choice}
    talk = [user("Go")]
    message, _ = ask(*talk, **options)
    if choice == "none":
        assert message["content"] == "Hi."
        assert offered(model) == [first]
        return
    # Without a thread, and in one: the choice of the next request holds for its first answer.
    talk += [message, result(message["tool_calls"][0])]
    second, _ = ask(*talk, **options)
    none = {**options, "tool_choice": "none"}
    talk += [second, result(second["tool_calls"][0])]
    assert ask(*talk, **none)[0]["content"] == "Done."
    assert offered(model) == [first, first, (["pay"], None)]


POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
SCHEMA = {"name": "point", "strict": True, "schema": POINT}
NAMED = {"type": "json_schema", "json_schema": {**SCHEMA, "name": "title"}}


@each("name", ["point", "json_object"])
@each("as_text", [True, False])
def test_an_answer_in_a_format(ask: Asked, service: Service, name: str, as_text: bool) -> None:
    step: Any = '{"x": 1}' if as_text else [{"name": name, "args": {"x": 1}, "id": "1"}]
    kind = {"type": name} if name == "json_object" else {"type": "json_schema"}
    options: Any = {"response_format": {**kind, "json_schema": SCHEMA}}
    options["model"], _ = agent_of(service, "Let me see.", step, "Hello.", *["No."] * 4)
    message, reason = ask(user("Go"), **options)
    assert (json.loads(message["content"]), reason) == ({"x": 1}, "stop")
    plain, _ = ask(user("Go"), **{**options, "response_format": {"type": "text"}})
    assert plain["content"] == "Hello."
    with pytest.raises(openai.OpenAIError, match=r"The run has failed: OutputError: \w+: no valid"):
        ask(user("Go"), **options)


def test_a_requested_call_comes_before_an_answer_in_a_format(ask: Asked, service: Service) -> None:
    name, model = agent_of(service, CALL)
    choice = {"type": "function", "function": {"name": "title"}}
    options: Any = {"tools": [TITLE], "tool_choice": choice, "response_format": NAMED}
    assert ask(user("Go"), model=name, **options)[1] == "tool_calls"
    assert offered(model) == [(["title"], "title")]


def test_a_format_and_tools(ask: Asked, service: Service) -> None:
    point = [{"name": "point", "args": {"x": 1}, "id": "1"}]
    name, _ = agent_of(service, [*CALL, {"name": "pay", "args": {"euros": 5}, "id": "p"}], point)
    format_ = {"type": "json_schema", "json_schema": SCHEMA}
    options: Any = {"model": name, "tools": [TITLE], "response_format": format_}
    message, _ = ask(user("Go"), **options)
    (call,) = message["tool_calls"]
    message, _ = ask(user("Go"), message, result(call), **options)
    assert json.loads(message["content"]) == {"x": 1}


ASK = {"input": "Hi"}
CALLED = {"id": "c", "type": "function", "function": {"name": "a", "arguments": "{}"}}
ASSISTANT = {"role": "assistant", "content": "", "tool_calls": [CALLED]}
ANSWER = {"role": "tool", "tool_call_id": "c", "content": "x"}


@each(
    "messages, text",
    [
        ([ANSWER], "'c' has none"),
        ([user("Hi"), ASSISTANT], "c has none"),
        ([user("Hi"), ASSISTANT, user("More")], "c has none"),
        ([user("Hi"), ASSISTANT, ANSWER, ANSWER], "'c' has none"),
        ([user("Hi"), {**ASSISTANT, "tool_calls": [5]}], "valid calls"),
        ([user("Hi"), {**ASSISTANT, "tool_calls": "x"}], "valid calls"),
        ([user("Hi"), ASSISTANT, {"role": "tool", "content": "x"}], "must have a tool_call_id"),
        ([{"role": "function", "name": "a", "content": "x"}], "got 'function'"),
    ],
)
def test_a_history_that_does_not_fit_is_refused(
    client: openai.OpenAI, messages: Any, text: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=text) as error:
        client.chat.completions.create(model="page", messages=messages)
    assert error.value.param == "messages"


@each(
    "model, body, param, text",
    [
        ("echo", {"n": 2}, "n", "n"),
        ("echo", {"logprobs": True}, "logprobs", "logprobs"),
        ("echo", {"messages": []}, "messages", "messages"),
        ("echo", {"stream": "perhaps"}, "stream", "stream"),
        ("echo", {"tools": [TITLE]}, "tools", "Add ClientToolsMiddleware"),
        ("echo", {"response_format": {"type": "json_object"}}, "response_format", "Add Client"),
        ("page", {"tools": [function("pay")]}, "tools", "'pay' is the name of a tool of agent"),
        ("page", {"tools": [function("a b")]}, "tools", "must have 1 to 64 letters"),
        ("page", {"tools": [TITLE, TITLE]}, "tools", "two tools have the name 'title'"),
        ("page", {"tools": [function("a", b={"type": "strin"})]}, "tools", "not a JSON schema"),
        ("page", {"tools": [{"type": "function", "function": {}}]}, "tools", "must be a string"),
        ("page", {"tools": "x"}, "tools", "tools must be a list"),
        ("page", {"tool_choice": "required"}, "tool_choice", "only allowed when tools"),
        ("page", {"tools": [TITLE], "tool_choice": "any"}, "tool_choice", "must be"),
        ("page", {"tools": [TITLE], "tool_choice": SCROLL}, "tool_choice", "got 'scroll'"),
        ("page", {"response_format": {"type": "yaml"}}, "response_format", "got 'yaml'"),
        ("page", {"response_format": {"type": []}}, "response_format", "got \\[\\]"),
        ("page", {"response_format": {"type": "json_schema"}}, "response_format", "JSON schema"),
        ("page", {"tools": [TITLE], "response_format": NAMED}, "response_format", "of a tool"),
        (
            "page",
            {**ASK, "tools": [flat(TITLE)], "text": {"format": flat(NAMED)}},
            "text.format",
            "of a tool",
        ),
        ("page", {"webhook": "x"}, "webhook", "Unknown parameter: 'webhook'."),
        ("echo", {"input": []}, "input", "a text or a list of items"),
        ("echo", {"input": [{"type": "reasoning"}]}, "input", "got 'reasoning'"),
        ("echo", {"input": [{"type": "function_call_output", "call_id": "c"}]}, "input", "'c' has"),
        ("echo", {"input": [{"role": "x", "content": "Hi"}]}, "input", "input must be of system"),
        ("echo", {**ASK, "text": {"format": {"type": "yaml"}}}, "text.format", "must be"),
        ("echo", {**ASK, "tools": [{"type": "web_search"}]}, "tools", "got 'web_search'"),
        ("echo", {**ASK, "previous_response_id": "resp_1"}, "previous_response_id", "no response"),
        ("echo", {**ASK, "extra": 1}, "extra", "Unknown parameter: 'extra'"),
        ("echo", {**ASK, "background": True, "store": False}, "background", "needs store"),
        ("echo", {**ASK, "prompt": {"id": "p"}}, "prompt", "not supported"),
    ],
)
def test_a_request_that_does_not_fit_is_refused(
    client: openai.OpenAI, model: str, body: Any, param: str, text: str
) -> None:
    """An input is a request for a response."""
    path, more = ("/responses", {}) if "input" in body else ("/chat/completions", CHAT)
    with pytest.raises(openai.BadRequestError, match=text) as error:
        client.post(path, body={**more, "model": model, **body}, cast_to=object)
    assert (error.value.param, error.value.type) == (param, "invalid_request_error")


def test_results_that_cannot_be_taken(ask: Asked, url: str) -> None:
    mine, other = ({**in_thread(), "tools": [TITLE]} for _ in range(2))
    message, _ = ask(user("title"), **mine)
    ask(user("title"), **other)
    (call,) = message["tool_calls"]
    with pytest.raises(openai.BadRequestError, match="another thread"):
        ask(result(call), **other)
    with pytest.raises(openai.BadRequestError, match="must come after the answer"):
        ask(result(call), user("And?"), **mine)
    with pytest.raises(openai.BadRequestError, match="model must be 'page'"):
        ask(result(call), model="echo", extra_headers=mine["extra_headers"])
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="eve@other", max_retries=0) as stranger,
        pytest.raises(openai.BadRequestError, match="has none"),
    ):
        Asked(stranger, stream=False)(result(call))
    assert ask(result(call), **mine)[0]["content"] == "Done: title=Orders"


def test_the_usage_is_that_of_the_request(client: openai.OpenAI, service: Service) -> None:
    used: Any = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    calls = AIMessage("", tool_calls=CALL, usage_metadata=used)
    name, _ = agent_of(service, calls, Reply("Hi.", usage=(20, 3)))
    options: Any = {**in_thread(), "model": name, "tools": [TITLE]}
    first = client.chat.completions.create(messages=[user("Go")], **options)
    (call,) = first.choices[0].message.tool_calls or []
    second = client.chat.completions.create(messages=[result(call.model_dump())], **options)
    assert [made.usage and made.usage.total_tokens for made in (first, second)] == [15, 23]
