"""Requests of LangGraph's API: their description, what is empty or wrong, and errors in words."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import jsonschema
import pytest
from starlette.testclient import TestClient

from agent_factory.serve.security import HEADERS
from agent_factory.service import Service
from serve.forms import local_client, wrong_tags
from serve.langgraph_desk import HI, running_service, said
from serve.refund_desk import MISTAKES
from serve.route_examples import EXAMPLES, Form, Sent, examples, filled, send
from tables import each

APPROVE: Any = {"decisions": [{"type": "approve"}]}
EMPTY: list[Any] = [None, [], {}]


SERVICE = running_service


@pytest.fixture(scope="module")
def http(service: Service) -> Iterator[TestClient]:
    with local_client(service) as client:
        yield client


def waiting_thread(service: Service, agent: str = "desk") -> str:
    """A thread that waits for a review."""
    thread = uuid4().hex
    service.submit(agent, thread=thread, message="Hi").result(60)
    return thread


# What is empty


@each("empty", EMPTY)
def test_an_empty_part_next_to_an_answer_is_absent(
    http: TestClient, service: Service, empty: Any
) -> None:
    waiting = waiting_thread(service)
    command = {"resume": APPROVE, "goto": empty, "update": empty, "graph": empty}
    fields = ("config", "context", "metadata", "checkpoint", "interrupt_before", "interrupt_after")
    others = dict.fromkeys((*fields, "stream_mode", "input", "multitask_strategy"), empty)
    body = {"assistant_id": "desk", "command": command, **others}
    values = http.post(f"/threads/{waiting}/runs/wait", json=body).json()
    assert said(values)[2:] == ["Paid 5.", "Done."]


def test_a_command_without_parts_is_none(http: TestClient) -> None:
    body = {"assistant_id": "echo", "input": HI, "command": {"goto": [], "update": None}}
    assert said(http.post("/runs/wait", json=body).json())[-1] == "You said: Hi"


OPTIONAL: list[tuple[str, dict[str, Any], list[str]]] = [
    ("/threads", {}, ["thread_id", "metadata", "if_exists"]),
    ("/threads/search", {}, ["metadata", "status", "limit", "sort_by", "sort_order", "select"]),
    ("/threads/count", {}, ["metadata", "status"]),
    ("/threads/{thread}/history", {}, ["limit", "before", "metadata", "checkpoint", "select"]),
    ("/threads/{thread}/state", {"values": {}}, ["as_node", "checkpoint", "checkpoint_id"]),
    ("/threads/{thread}/state/checkpoint", {"checkpoint": {"thread_id": "t"}}, ["select"]),
    ("/assistants/search", {}, ["graph_id", "name", "metadata", "limit", "sort_by", "select"]),
    ("/store/items/search", {"namespace_prefix": []}, ["filter", "limit", "offset", "refresh_ttl"]),
    ("/store/namespaces", {}, ["prefix", "suffix", "max_depth", "limit", "offset"]),
    (
        "/threads/{thread}/runs/wait",
        {"assistant_id": "echo", "input": HI},
        [
            "command", "config", "context", "metadata", "checkpoint", "checkpoint_id",
            "stream_mode", "stream_subgraphs", "multitask_strategy", "if_not_exists",
            "on_disconnect", "on_completion", "interrupt_before", "interrupt_after",
            "after_seconds", "stream_resumable", "durability", "checkpoint_during",
            "strict_resume",
        ],
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def thread(service: Service) -> str:
    """A thread whose run has ended."""
    service.submit("echo", thread="echoed", message="Hi").result(60)
    return "echoed"


@each("path, body, names", OPTIONAL)
def test_an_optional_field_may_be_absent_null_or_empty(
    http: TestClient, thread: str, path: str, body: Any, names: list[str]
) -> None:
    for more in ({}, *({name: empty} for name in names for empty in EMPTY)):
        answer = http.post(path.replace("{thread}", thread), json={**body, **more})
        assert answer.status_code == 200, (more, answer.text)


def test_an_empty_list_names_no_thread_and_streams_the_state(
    http: TestClient, service: Service
) -> None:
    service.threads.create()
    assert http.post("/threads/search", json={"ids": []}).json() == []
    assert http.post("/threads/prune", json={"thread_ids": []}).json() == {"pruned_count": 0}
    body = {"assistant_id": "echo", "input": HI, "stream_mode": []}
    assert "event: values" in http.post("/runs/stream", json=body).text


@each("answer", [None, [], {}, False, 0, "", "yes"])
def test_each_value_is_an_answer(http: TestClient, service: Service, answer: Any) -> None:
    thread = waiting_thread(service, "asks")
    body = {"assistant_id": "asks", "command": {"resume": answer, "goto": []}}
    values = http.post(f"/threads/{thread}/runs/wait", json=body).json()
    assert said(values)[2] == f"They said {answer}."


# What contradicts itself

CONTRADICTIONS = [
    ({"command": {"resume": APPROVE, "goto": "__end__"}}, "command.resume and command.goto"),
    ({"command": {"resume": APPROVE, "update": {"messages": []}}}, "command.update"),
    ({"command": {"resume": APPROVE, "graph": "__parent__"}}, "command.graph"),
    ({"command": {"resume": APPROVE}, "input": HI}, "command and input"),
    ({"command": {"goto": "__end__"}, "input": HI}, "command and input"),
    (
        {"command": {"resume": APPROVE}, "input": {"messages": "Hi"}},
        "the thread lacks this message",
    ),
    ({"command": {"resume": APPROVE}, "input": "{edited}"}, "lacks this message.*No, wait"),
    ({"command": {"goto": "tools"}}, "command.goto must be '__end__'"),
    ({"command": {"goto": {"node": "tools", "input": {}}}}, "command.goto"),
    ({"command": {"resume": APPROVE, "rewind": 1}}, "command.rewind"),
    ({"input": HI, "checkpoint_id": "a", "checkpoint": {"checkpoint_id": "b"}}, "checkpoint and"),
    ({"command": {"resume": APPROVE}, "assistant_id": "echo"}, "agent 'desk'.*not of 'echo'"),
    ({"command": {"resume": APPROVE}, "checkpoint_id": "{oldest}"}, "has gone on since"),
    ({"command": {"goto": "__end__"}, "checkpoint_id": "{oldest}"}, "has gone on since"),
    ({"command": {"resume": APPROVE, "interrupt_id": "x"}}, "command.interrupt_id is not"),
    ({"input": APPROVE}, 'Send command: {"resume": {"decisions": '),
    ({"input": {"resume": APPROVE}}, 'Send command: {"resume": '),
    ({"input": {**HI, "decisions": []}}, "waits for an answer"),
    ({"input": {"mesages": []}}, "Did you mean 'messages'"),
    ({"input": {**HI, "structured_respons": 1}}, "waits for an answer"),
    ({"command": {"goto": "__end__"}, "config": {"x": 1}}, "cannot set x"),
    ({"command": {"goto": "__end__"}, "config": {"configurable": {"x": 1}}}, "may not set 'x'"),
]


@each("more", [{}, {"tools": []}, {"structured_response": None, "copilotkit": {"actions": []}}])
def test_a_state_that_the_thread_has_may_come_beside_an_answer(
    http: TestClient, service: Service, more: Any
) -> None:
    """As CopilotKit and other clients of AG-UI send it."""
    waiting = waiting_thread(service)
    known = http.get(f"/threads/{waiting}/state").json()["values"]["messages"]
    known[1]["content"] = [{"type": "text", "text": "as the client writes it"}]
    inputs = {"messages": known, **more}
    command = {"resume": APPROVE, "interruptEvent": {"action_requests": []}}
    body = {"assistant_id": "desk", "command": command, "input": inputs}
    values = http.post(f"/threads/{waiting}/runs/wait", json=body).json()
    assert said(values)[2:] == ["Paid 5.", "Done."]


@each("body, text", CONTRADICTIONS)
def test_what_contradicts_itself_is_refused_before_anything_happens(
    http: TestClient, service: Service, body: Any, text: str
) -> None:
    waiting = waiting_thread(service)
    if body.get("checkpoint_id") == "{oldest}":
        *_, oldest = service.threads.history(waiting)
        body = {**body, "checkpoint_id": oldest.config["configurable"]["checkpoint_id"]}
    before = service.threads.state(waiting)
    if body.get("input") == "{edited}":
        said_by_user = {
            "role": "user",
            "content": "No, wait",
            "id": before.values["messages"][0].id,
        }
        body = {**body, "input": {"messages": [said_by_user]}}
    answer = http.post(f"/threads/{waiting}/runs/wait", json={"assistant_id": "desk", **body})
    assert answer.status_code in (409, 422), answer.text
    detail = answer.json()["detail"]
    assert re.search(text, detail), detail
    assert service.threads.state(waiting) == before
    assert service.threads.get(waiting).status == "waiting"
    assert service.inbox().audit(thread=waiting) == []
    assert len(service.threads.runs(waiting)) == 1


def test_the_newest_checkpoint_may_be_named_next_to_an_answer(
    http: TestClient, service: Service
) -> None:
    """Once: what does not wait takes no answer."""
    waiting = waiting_thread(service)
    place = http.get(f"/threads/{waiting}/state").json()["checkpoint"]
    body = {"assistant_id": "desk", "command": {"resume": APPROVE}}
    path = f"/threads/{waiting}/runs/wait"
    assert said(http.post(path, json={**body, "checkpoint": place}).json())[-1] == "Done."
    answer = http.post(path, json=body)
    assert answer.status_code in (404, 409)
    assert "waits for no" in answer.json()["detail"] or "not paused" in answer.json()["detail"]


# What is wrong

WRONG = [
    ({"input": HI}, "assistant_id is missing."),
    ({"assistant_id": 3, "input": HI}, "assistant_id must be a string, got 3."),
    ({"assistant_id": "nobody", "input": HI}, "assistant 'nobody': does not exist"),
    ({"input": HI, "stream_mode": "all"}, "stream_mode must be 'values', 'updates', .* or a list"),
    ({"input": HI, "stream_mode": ["updates", "all"]}, r"got \['updates', 'all'\]"),
    ({"input": HI, "interrupt_before": 3}, r"interrupt_before must be '\*' or a list of strings,"),
    ({"input": "Hi"}, "input must be an object, got 'Hi'."),
    ({"input": HI, "after_seconds": -1}, "after_seconds must be a number from 0, got -1."),
    ({"input": HI, "stream_subgraphs": "perhaps"}, "stream_subgraphs must be true or false, got"),
    ({"input": HI, "checkpoint": {"checkpoint_ns": "x"}}, "checkpoint.checkpoint_ns must be ''"),
    ({"input": HI, "webhook": "x"}, "webhook: this server sends none."),
    ({"input": HI, "confg": {"tags": []}}, "confg is not .* Did you mean 'config'"),
    ({"input": HI, "config": {"recursion_limit": 0}}, "config.recursion_limit: must be a number"),
    ({"input": HI, "config": {"configurable": []  , "callbacks": ["x"]}}, "cannot set callbacks"),
    ({"input": HI, "config": {"max_concurrency": 1}}, "max_concurrency: is 1, and a sync stream"),
    ({"input": {"messages": 3}}, 'Send input: {"messages": '),
    ({"input": {"role": "assistant", "content": "", "tool_calls": "y"}}, "Send input: "),
    ({"input": {"mesages": []}}, "Did you mean 'messages'"),
    ({"input": {}}, "input is empty"),
    ({}, "input is missing"),
    ({"command": {"resume": 1}}, "has no message yet"),
    ({"command": {"resume": 1, "goto": "x"}}, "command.goto must be"),
]  # fmt: skip


@each("body, text", WRONG)
def test_mistakes_are_refused_in_our_words(http: TestClient, body: Any, text: str) -> None:
    thread = http.post("/threads", json={}).json()["thread_id"]
    named = {} if "assistant_id is missing" in text else {"assistant_id": "echo"}
    answer = http.post(f"/threads/{thread}/runs/wait", json={**named, **body})
    assert answer.status_code in (404, 422), answer.text
    detail = answer.json()["detail"]
    assert re.search(text, detail), detail
    for word in ("literal", "Input should", "Field required", "Pass ", "service.submit", "busy="):
        assert word not in detail


BIG = {"messages": [{"role": "user", "content": "Hi", "additional_kwargs": {"n": 2**70}}]}
ODD = {"messages": [{"role": "tool", "content": "x"}]}


@each(
    "path, body, text",
    [
        ("/threads/search", {"limit": 0}, "limit must be a number from 1 to 1000, got 0."),
        ("/threads/search", {"status": "x"}, "status must be 'idle', 'busy', .*, got 'x'."),
        ("/threads/{thread}/history", {"before": 3}, "before must be a string or an object, got 3"),
        ("/threads/{thread}/state", {}, "values is missing."),
        ("/runs/batch", [{"input": HI}], "0.assistant_id is missing."),
        ("/runs/batch", {}, "The body must be a list of objects"),
        ("/threads/{thread}/state", {"values": {"messages": None}}, "has no graph yet"),
        ("/store/items/search", {"filter": {"a b": 1}}, "filter: must have keys of letters"),
        ("/store/items/search", {"filter": {"k": {"$in": 1}}}, r"filter.k: must be one of \$eq"),
        ("/store/items/search", {"filter": {f"k{n}": n for n in range(101)}}, "at most 100 condit"),
        ("/threads/search", {"offset": 10**30}, "offset must be a number of at most 64"),
        ("/runs", {"assistant_id": "echo", "input": BIG}, "n must be a number of at most 64 bits."),
        ("/runs", {"assistant_id": "echo", "input": ODD}, "must be a string"),
        ("/threads/search", {"ids": ["t"] * 1001}, "ids must have at most 1000 items."),
        ("/threads/prune", {"thread_ids": ["t"] * 1001}, "thread_ids must have at most 1000 item"),
        ("/runs/batch", [{"assistant_id": "a"}] * 1001, "The body must have at most 1000 items."),
        ("/threads", {"supersteps": [{"updates": []}] * 1001}, "supersteps must have at most 1000"),
    ],
)
def test_other_requests_are_refused_in_our_words(
    http: TestClient, path: str, body: Any, text: str
) -> None:
    thread = http.post("/threads", json={}).json()["thread_id"]
    answer = http.post(path.replace("{thread}", thread), json=body)
    assert answer.status_code in (400, 404, 422)
    assert re.search(text, answer.json()["detail"]), answer.json()["detail"]


def test_keys_that_are_far_from_each_schema_are_left_out(
    http: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    body = {"assistant_id": "echo", "input": {**HI, "tools": [], "frontend_state": 1}}
    assert said(http.post("/runs/wait", json=body).json()) == ["Hi", "You said: Hi"]
    assert "input.frontend_state" in caplog.text


PYTHON = re.compile(
    r"\[AF\d+\]"
    r"|\b(?:None|True|False|NoneType|dict|str|int|kwargs|asyncio)\b"
    r"|\w+\([^)]*=|\bservice\.\w+|\bcreate_app\b|\b(?:busy|waiting|thread|configurable)="
    r"|\bliteral\b|Input should|Field required|Traceback"
)
"""Words of Python, of the library's own calls, and of Pydantic."""

WRONG_BODIES: list[Any] = [
    [],
    {"nonsense": 1},
    {"assistant_id": 3, "input": "x", "limit": "x", "metadata": [], "namespace": 1},
    {"assistant_id": "nobody", "graph_id": "nobody", "input": HI, "schedule": "0 3 * * *"},
    {"assistant_id": "echo", "graph_id": "echo", "input": {"messages": None}, "schedule": "x"},
    {"assistant_id": "echo", "input": HI, "config": {"configurable": {"__pregel_x": 1}}},
    {"assistant_id": "echo", "input": HI, "config": {"configurable": {"tier": 1}}},
    {"assistant_id": "echo", "input": HI, "config": {"callbacks": 1, "tags": None}},
    {"assistant_id": "echo", "input": HI, "interrupt_before": ["nowhere"]},
    {"assistant_id": "echo", "input": HI, "checkpoint_id": "nowhere"},
    {"assistant_id": "echo", "input": HI, "multitask_strategy": "x", "stream_mode": True},
    {"assistant_id": "echo", "input": HI, "stream_mode": ["x", 1], "webhook": "x"},
    {"assistant_id": "desk", "command": {"resume": None}},
    {"assistant_id": "desk", "command": {"resume": [1]}},
    {"values": {"messages": 3}, "as_node": "nowhere"},
    {"values": None, "as_node": "nowhere", "checkpoint_id": "x"},
    {"metadata": {"graph_id": "nobody"}, "name": None, "version": 99, "enabled": None},
]


@pytest.fixture(scope="module")
def ids(service: Service) -> dict[str, str]:
    """Ids of a thread that waits, and of what belongs to it."""
    run = service.submit("desk", message="Hi")
    run.result(60)
    cron = service.crons().create("0 3 * * *", agent="echo", assistant="echo", options={}, by="ann")
    return {
        "thread": run.thread_id,
        "waiting": run.thread_id,
        "run": run.id,
        "agent": "echo",
        "assistant": service.assistants().create("echo").id,
        "cron": cron.id,
    }


def check(answer: Any, context: object) -> bool:
    """True if an answer is an error; its words are checked."""
    if answer.status_code < 400:
        return False
    assert answer.status_code < 500 or answer.status_code == 501, (context, answer.text)
    body = answer.json()
    # OpenAI's errors have theirs inside.
    text = body.get("detail") or body.get("message") or body["error"]["message"]
    # What the client has sent is shown as it is.
    assert not PYTHON.search(re.sub(r"\bgot .{0,110}?(?=\. |\.$)", "", text)), (context, text)
    return True


def api_examples(http: TestClient) -> Iterator[tuple[str, str, Any]]:
    app: Any = http.app
    for method, path, body in examples(app):
        is_page = isinstance(body, Form) or re.match(r"/$|/(studio|inbox|static|docs)", path)
        # The words of MCP and A2A are those of their own packages.
        is_rpc = path.startswith(("/mcp", "/a2a"))
        if not is_page and not is_rpc and not path.endswith(("/stream", "/stream/events")):
            yield method, path, body.body if isinstance(body, Sent) else body


@pytest.mark.long
def test_what_is_not_there(http: TestClient) -> None:
    errors = 0
    for method, path, body in api_examples(http):
        nowhere = dict.fromkeys(re.findall(r"\{(\w+)\}", f"{path} {body}"), "nowhere")
        answer = send(http, method, filled(path, nowhere), filled(body, nowhere))
        errors += check(answer, (method, path, body))
    assert errors > 25


@pytest.mark.long
def test_what_is_wrong(http: TestClient, ids: dict[str, str]) -> None:
    errors = 0
    paths = {(method, path) for method, path, body in api_examples(http) if method != "GET"}
    for method, path in sorted(paths - {("DELETE", "/threads/{thread}")}):
        for body in WRONG_BODIES:
            # Not created by chance: the bodies are wrong, or name what is not there.
            answer = http.request(method, filled(path, ids), json=body)
            errors += check(answer, (method, path, body))
    assert errors > 200


@pytest.mark.long
def test_decisions(http: TestClient, service: Service) -> None:
    errors = 0
    for decision, _ in MISTAKES:
        run = service.submit("desk", message="Hi")
        run.result(60)
        body = {"assistant_id": "desk", "command": {"resume": {"decisions": [decision]}}}
        answer = http.post(f"/threads/{run.thread_id}/runs/wait", json=body)
        errors += check(answer, decision)  # this desk takes some of them
    assert errors > 10


def test_threads_that_are_busy(http: TestClient, service: Service) -> None:
    run = service.submit("echo", message="Hi", delay=60)
    place = f"/threads/{run.thread_id}"
    body = {"assistant_id": "echo", "input": HI, "multitask_strategy": "reject"}
    for path, sent in (("/state", {"values": {"messages": []}}), ("/copy", None), ("/runs", body)):
        answer = http.post(place + path, json=sent)
        assert answer.status_code == 409
        assert check(answer, path)
    assert "multitask_strategy" in answer.json()["detail"]
    run.cancel()


def test_a_mistake_is_told_once(http: TestClient) -> None:
    """Pydantic has one for each member of a union."""
    for mode in ("all", ["all"], 3, {"a": 1}):
        body = {"assistant_id": "echo", "input": HI, "stream_mode": mode}
        detail = http.post("/runs", json=body).json()["detail"]
        assert detail.count("stream_mode") == 1, detail
        assert detail.startswith("stream_mode must be 'values', ")


def test_each_route_for_programs_is_described(http: TestClient) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    described = {f"{method.upper()} {path}" for path, verbs in paths.items() for method in verbs}
    pages = re.compile(r"\w+ (/$|/(studio|inbox|static|docs|openapi))")
    served = {key for key in EXAMPLES if not pages.match(key)}
    named = {key.replace("{model}", "{agent}") for key in described}
    also = {"POST /a2a/desk", "POST /a2a/{agent}/", "GET /a2a/.well-known/agent-card.json"}
    assert named == served - also
    ids = [one["operationId"] for methods in paths.values() for one in methods.values()]
    assert len(ids) == len(set(ids))
    queries = {part["name"] for part in paths["/threads"]["get"]["parameters"]}
    assert {"limit", "status", "select"} <= queries
    answer = http.get("/docs")
    assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
    assert wrong_tags(answer.text) == []
    for path in paths:
        assert f"<code>{path}</code>" in answer.text
    assert not re.search(r"(src|href)=\"(https?:)?//", answer.text)
    assert "Begin a run and wait for its result." in answer.text


def test_bodies_are_described_as_they_are_checked(http: TestClient) -> None:
    description = http.get("/openapi.json").json()
    schemas = description["components"]["schemas"]

    def check(operation: Any, body: Any) -> None:
        reference = operation["requestBody"]["content"]["application/json"]["schema"]
        jsonschema.validate(body, {**reference, "components": {"schemas": schemas}})

    count = 0
    for key, bodies in EXAMPLES.items():
        method, path = key.split()
        operation = description["paths"].get(path, {}).get(method.lower(), {})
        for body in bodies:
            if "requestBody" in operation and isinstance(body, dict | list):
                check(operation, body)
                count += 1
    assert count > 40
    run = description["paths"]["/runs"]["post"]
    with pytest.raises(jsonschema.ValidationError):
        check(run, {"assistant_id": "echo", "confg": {}})
    # Each reference leads to a form.
    references = set(re.findall(r"#/components/schemas/(\w+)", str(description)))
    assert references <= schemas.keys()


ODD_WORDS: list[tuple[str, str]] = [
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
    if isinstance(body, dict | list | Sent) and not key.startswith(("GET", "POST /a2a/desk"))
]


def with_word(body: Any, word: str) -> bytes:
    """A body with a word of JSON at the end of its first part."""
    text = json.dumps(body)
    if text == "{}":
        return f'{{"metadata": {{"k": {word}}}}}'.encode()
    place = text.rindex("}")
    return f'{text[:place]}, "k": {word}{text[place:]}'.encode()


@each("method, path, body", BODIES)
def test_what_no_database_stores_is_refused_on_each_route(
    http: TestClient, ids: dict[str, str], method: str, path: str, body: Any
) -> None:
    before = http.post("/threads/count", json={}).json()
    for word, text in ODD_WORDS:
        content = with_word(filled(body, ids), word)
        headers = {"Content-Type": "application/json"}
        answer = http.request(method, filled(path, ids), content=content, headers=headers)
        # A2A's errors are those of JSON-RPC.
        status = 400 if path.startswith("/v1") else 200 if path.startswith("/a2a") else 422
        assert answer.status_code == status, answer.text
        assert status != 200 or answer.json()["error"]["code"] in (-32700, -32602)
        assert text in answer.text, (word[:40], answer.text)
        assert len(answer.text) < 500
    assert http.post("/threads/count", json={}).json() == before


@each(
    "content, text",
    [
        ('{"metadata": {}}'.encode("utf-16"), "The body is not UTF-8 at byte 0."),
        (b'{"metadata": "\xff"}', "The body is not UTF-8 at byte 14."),
        (b'{"metadata": {"k": [1, NaN]}}', "metadata.k.1 must be a finite number, got nan."),
        (b'{"metadata": {"k": {"a": 1, "a": 2}}}', "The body has the key 'a' twice in an object."),
    ],
)
def test_a_refusal_says_what_and_where(http: TestClient, content: bytes, text: str) -> None:
    headers = {"Content-Type": "application/json"}
    answer = http.post("/threads", content=content, headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (422, text)


def test_a_long_body_is_read_like_a_short_one(http: TestClient) -> None:
    metadata = {"k": ["x" * 1000] * 200, "n": 2**63 - 1, "emoji": "😀"}
    answer = http.post("/threads", json={"metadata": metadata})
    assert answer.json()["metadata"] == metadata
    metadata["n"] = 2**63
    answer = http.post("/threads", json={"metadata": metadata})
    assert (answer.status_code, "metadata.n must be" in answer.text) == (422, True)


@each("text", ["a%00b", "%00"])
def test_a_form_that_no_database_stores(http: TestClient, text: str) -> None:
    answer = http.post(
        "/studio/threads",
        content=f"agent=echo&text={text}",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert (answer.status_code, "text must not have" in answer.text) == (422, True), answer.text
