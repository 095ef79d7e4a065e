"""Bodies of requests: what no database stores is refused, on each route and by one function."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from agent_factory import create_agent
from agent_factory.serve import create_app
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from serve.route_examples import EXAMPLES, Sent, filled
from tables import each

WORDS: list[tuple[str, str]] = [
    ("NaN", "must be a finite number, got nan."),
    ("-Infinity", "must be a finite number, got -inf."),
    ("1e400", "must be a finite number, got inf."),
    ("9223372036854775808", "must be a number of at most 64 bits."),
    ("-" + "9" * 5000, "must be a number of at most 64 bits."),
    (r'"a\u0000b"', "must not have the character U+0000"),
    (r'"\ud83d"', "must not have U+D83D, half of a character"),
    (r'{"\ude00": 1}', "must not have U+DE00, half of a character"),
    ("[" * 200 + "]" * 200, "must not be nested more than 100 levels deep."),
    ("[" * 50_000 + "]" * 50_000, "must not be nested more than 100 levels deep."),
    ('{"a": 1, "a": 1}', "has the key 'a' twice in an object."),
    ("{'a': 1}", "The body is not JSON"),
]
BODIES = [
    (*key.split(), body.body if isinstance(body, Sent) else body)
    for key, bodies in EXAMPLES.items()
    for body in bodies[:1]
    if isinstance(body, dict | list | Sent) and key not in ("GET /metrics", "POST /a2a/desk")
]
IDS = {
    "thread": "t",
    "assistant": "echo",
    "agent": "echo",
    "run": "r",
    "wait": "w",
    "checkpoint": "c",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    service = Service(f"sqlite:///{tmp_path_factory.mktemp('bodies')}/desk.db")
    service.add("echo", create_agent(ScriptedChatModel(["Hi"])))
    service.threads.create("t")
    yield TestClient(create_app(service), base_url="http://localhost", client=("127.0.0.1", 1))
    service.close()


def with_word(body: Any, word: str) -> bytes:
    """A body with a word of JSON at the end of its first part."""
    text = json.dumps(body)
    if text == "{}":
        return f'{{"metadata": {{"k": {word}}}}}'.encode()
    place = text.rindex("}")
    return f'{text[:place]}, "k": {word}{text[place:]}'.encode()


@each("method, path, body", BODIES)
def test_what_no_database_stores_is_refused_on_each_route(
    client: TestClient, method: str, path: str, body: Any
) -> None:
    before = client.post("/threads/count", json={}).json()
    for word, text in WORDS:
        content = with_word(filled(body, IDS), word)
        headers = {"Content-Type": "application/json"}
        answer = client.request(method, filled(path, IDS), content=content, headers=headers)
        assert answer.status_code == (400 if path.startswith("/v1") else 422), answer.text
        assert text in answer.text, (word[:40], answer.text)
        assert len(answer.text) < 500
    assert client.post("/threads/count", json={}).json() == before


@each(
    "content, text",
    [
        ('{"metadata": {}}'.encode("utf-16"), "The body is not UTF-8 at byte 0."),
        (b'{"metadata": "\xff"}', "The body is not UTF-8 at byte 14."),
        (b'{"metadata": {"k": [1, NaN]}}', "metadata.k.1 must be a finite number, got nan."),
        (b'{"metadata": {"k": {"a": 1, "a": 2}}}', "The body has the key 'a' twice in an object."),
    ],
)
def test_a_refusal_says_what_and_where(client: TestClient, content: bytes, text: str) -> None:
    headers = {"Content-Type": "application/json"}
    answer = client.post("/threads", content=content, headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (422, text)


def test_a_long_body_is_read_like_a_short_one(client: TestClient) -> None:
    metadata = {"k": ["x" * 1000] * 200, "n": 2**63 - 1, "emoji": "😀"}
    answer = client.post("/threads", json={"metadata": metadata})
    assert answer.json()["metadata"] == metadata
    metadata["n"] = 2**63
    answer = client.post("/threads", json={"metadata": metadata})
    assert (answer.status_code, "metadata.n must be" in answer.text) == (422, True)


WRONG_REQUESTS: list[tuple[str, Any, str]] = [
    ("/store/items/search", {"filter": {"a b": 1}}, "filter: must have keys of letters"),
    ("/store/items/search", {"filter": {"..": 1}}, "filter: must have keys of letters"),
    ("/store/items/search", {"filter": {"k": {"$in": 1}}}, "filter.k: must be one of $eq"),
    ("/store/items/search", {"filter": {f"k{n}": n for n in range(101)}}, "at most 100 conditions"),
    ("/threads/t/state", {"values": {"messages": None}}, "has no graph yet"),
    ("/threads/search", {"ids": ["t"] * 1001}, "ids must have at most 1000 items."),
    ("/threads/prune", {"thread_ids": ["t"] * 1001}, "thread_ids must have at most 1000 items."),
    ("/runs/cancel", {"run_ids": ["r"] * 1001}, "run_ids must have at most 1000 items."),
    ("/runs/batch", [{"assistant_id": "a"}] * 1001, "The body must have at most 1000 items."),
    ("/threads", {"supersteps": [{"updates": []}] * 1001}, "supersteps must have at most 1000"),
]


@each("path, body, text", WRONG_REQUESTS)
def test_wrong_values_are_refused(client: TestClient, path: str, body: Any, text: str) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code in (400, 404, 422), answer.text
    assert text in answer.json()["detail"]


def test_odd_metadata_are_searched_for(client: TestClient) -> None:
    odd = {'a"b': "it's", "a.b[0]": "%", "\\": None, **{f"key {n}": n for n in range(3000)}}
    thread = client.post("/threads", json={"metadata": odd}).json()["thread_id"]
    for metadata in (odd, {'a"b': "it's"}, {"key 2999": 2999.0}):
        found = client.post("/threads/search", json={"metadata": metadata, "select": ["thread_id"]})
        assert found.json() == [{"thread_id": thread}]
    assert client.post("/threads/search", json={"metadata": {'a"b': "x"}}).json() == []


@each("text", ["a%00b", "%00"])
def test_a_form_that_no_database_stores(client: TestClient, text: str) -> None:
    client.get("/studio")
    token = client.cookies["agent_factory_csrf"]
    answer = client.post(
        "/studio/threads",
        content=f"csrf_token={token}&agent=echo&text={text}",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert (answer.status_code, "text must not have" in answer.text) == (422, True), answer.text
