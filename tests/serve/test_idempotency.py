"""Requests that are sent again: the same answer for the same person, and nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from starlette.requests import Request
from starlette.testclient import TestClient

from agent_factory import create_agent
from agent_factory.serve import Principal, create_app
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from tables import each


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    numbers = count(1)

    def echo(messages: list[BaseMessage]) -> AIMessage:
        return AIMessage(f"{messages[-1].text} has the number {next(numbers)}.")

    with Service(f"sqlite:///{tmp_path_factory.mktemp('again')}/desk.db") as service:
        service.add("echo", create_agent(ScriptedChatModel([echo] * 1000)))
        yield service


def client_of(service: Service, name: str, tenant: str = "acme") -> TestClient:
    def who(request: Request) -> Principal:
        return Principal(tenant, name)

    return TestClient(create_app(service, who))


def chat(client: TestClient, text: str, **headers: str) -> tuple[str, str]:
    """The answer to a message, and its thread."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"model": "echo", "messages": [{"role": "user", "content": text}]}
    answer = client.post("/v1/chat/completions", json=body, headers=sent)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"], answer.headers["x-thread-id"]


@each("has_thread", [False, True])
def test_an_idempotency_key_counts_per_principal(service: Service, has_thread: bool) -> None:
    key = uuid4().hex
    headers = {"Idempotency_Key": key, **({"X_Thread_Id": uuid4().hex} if has_thread else {})}
    ann, bob, other = (
        client_of(service, name, tenant)
        for name, tenant in (("ann", "acme"), ("bob", "acme"), ("ann", "globex"))
    )
    first = chat(ann, "A", **headers)
    assert chat(ann, "A", **headers) == first
    text, thread = chat(bob, "B", **headers)
    assert text.startswith("B has the number")
    assert (thread == first[1]) is has_thread
    assert chat(bob, "B", **headers) == (text, thread)
    texts = [message.text for message in service.threads.state(thread).values["messages"]]
    assert texts == (["A", first[0], "B", text] if has_thread else ["B", text])
    if not has_thread:
        assert chat(other, "C", **headers)[0].startswith("C has the number")


@each("options", [{}, {"delay": 60}])
def test_an_id_of_a_message_counts_per_person(service: Service, options: Any) -> None:
    """Also before a worker begins."""
    options = {**options, "thread": uuid4().hex, "message_id": "m-1"}
    run = service.submit("echo", message="A", by="ann", **options)
    assert service.submit("echo", message="A", by="ann", **options).id == run.id
    assert service.submit("echo", message="B", by="bob", **options).id != run.id


@each("ids", [("a", "b\0c"), ("a\0b", "c")])
def test_an_id_with_a_nul_is_refused(service: Service, ids: tuple[str, str]) -> None:
    thread, message_id = ids
    with pytest.raises(TypeError, match=r"U\+0000"):
        service.submit("echo", thread=thread, message="Hi", message_id=message_id)
