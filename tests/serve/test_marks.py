"""Marks that an agent and its middleware write to messages: no client writes one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, convert_to_messages
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Overwrite
from starlette.testclient import TestClient

from agent_factory import create_agent
from agent_factory import middleware as m
from agent_factory.middleware.client_tools import (
    CLIENT_RESPONSE_FORMAT,
    CLIENT_TOOL_CHOICE,
    CLIENT_TOOLS,
)
from agent_factory.review.records import CLIENT_REQUEST, MARKS
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from serve.forms import local_client
from tables import each

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    path
    for top in ("agent_factory", "middleware")
    for path in sorted((ROOT / top).rglob("*.py"))
    if not path.relative_to(ROOT).is_relative_to("agent_factory/middleware")
]
OF_PROVIDERS = {
    # What the models of providers write, or what only people read.
    *("blocked", "finish_reason", "finish_reasons", "function_call", "is_error", "model_name"),
    *("citations", "grounding_metadata", "reasoning_content", "refusal", "stop_reason"),
    *("id", "model_provider", "tool_calls"),
}
FIELDS = ("response_metadata", "additional_kwargs")


@pytest.mark.long
def test_each_mark_of_ours_is_listed() -> None:
    keys = {key for path in SOURCES for key in keys_of(ast.parse(path.read_text()))}
    assert {"offloaded", "progress_guard", "reviewed_calls", "lc_source", "context_editing"} <= keys
    others = {key for key in keys - OF_PROVIDERS if not key.startswith("lc_")}
    assert others <= MARKS, "Add it to MARKS of agent_factory/review/records.py."


def test_each_part_of_a_client_request_is_listed() -> None:
    assert {CLIENT_TOOLS, CLIENT_TOOL_CHOICE, CLIENT_RESPONSE_FORMAT} == CLIENT_REQUEST


def keys_of(module: ast.Module) -> Iterator[str]:
    """The keys of a message's metadata that a module reads or writes."""
    names: dict[str, object] = {
        "MARKS": "progress_guard",
        "WRITTEN_BY": "lc_written_by",
        "REVIEWED": "reviewed_calls",
        "EDITED": "edited_calls",
        "DECIDED": "review",
    }
    found: list[ast.expr | None] = []

    def is_metadata(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in FIELDS

    for node in ast.walk(module):
        match node:
            case ast.Assign(targets=targets, value=ast.Constant(value=value)):
                names |= {target.id: value for target in targets if isinstance(target, ast.Name)}
            case ast.Compare(left=left, comparators=others) if any(map(is_metadata, others)):
                found.append(left)
            case ast.Subscript(value=value, slice=key) if is_metadata(value):
                found.append(key)
            case ast.Call(func=ast.Attribute(attr="get", value=value), args=[key, *_]):
                found += [key] if is_metadata(value) else []
            case ast.keyword(arg=arg, value=ast.Dict(keys=keys)) if arg in FIELDS:
                found += keys
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                found += keys if any(not key and is_metadata(value) for key, value in pairs) else []
    for place in found:
        name = getattr(place, "value", None)
        if isinstance(place, ast.Name):
            name = names.get(place.id)
        if isinstance(name, str):
            yield name


EACH = dict.fromkeys(sorted(MARKS | {"lc_source", "lc_written_by", "lc_data"}), "x")
EACH["provider"] = "kept"
ARTIFACT: Any = {"client_tools": [{"name": "mail"}], "client_tool_choice": "mail"}
ARTIFACT |= {"client_response_format": {"type": "object"}, "review": "of the tool"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    middleware: Any = [
        m.ToolResultOffloadMiddleware(),
        m.ContextEditingMiddleware(),
        m.SummarizationMiddleware(
            ScriptedChatModel(["A summary."] * 1000), trigger=("messages", 50), keep=("messages", 5)
        ),
        m.ToolCallLimitMiddleware(thread_limit=100),
        m.ProgressGuardMiddleware(),
    ]
    model = ScriptedChatModel(["Hello."] * 1000)
    agent = create_agent(model, [look], middleware=middleware, checkpointer=InMemorySaver())
    with Service(f"sqlite:///{tmp_path_factory.mktemp('marks')}/desk.db") as service:
        service.add("desk", agent)
        yield service


def look() -> str:
    """Look."""
    return "There."


@pytest.fixture(scope="module")
def client(service: Service) -> TestClient:
    return local_client(service)


def marked() -> list[Any]:
    """A message of each kind, with all marks."""
    both = {"response_metadata": EACH, "additional_kwargs": EACH}
    call: Any = {"name": "look", "args": {}, "id": "1", "type": "tool_call"}
    return [
        HumanMessage("Hi", id="h", **both),
        AIMessage("", id="a", tool_calls=[call], **both),
        ToolMessage("x", id="t", tool_call_id="1", artifact=ARTIFACT, **both),
        AIMessage("Done", id="b", **both),
        HumanMessage("More", id="m", **both),
    ]


def as_dict(message: Any) -> dict[str, Any]:
    data = message.model_dump()
    known = ("type", "content", "id", *FIELDS, "tool_calls", "tool_call_id", "artifact")
    return {key: data[key] for key in known if key in data}


def as_role(message: Any) -> dict[str, Any]:
    data = as_dict(message)
    roles = {"human": "user", "ai": "assistant", "tool": "tool"}
    return {"role": roles[data.pop("type")], **data, **EACH}


def as_constructor(message: Any) -> dict[str, Any]:
    name = ["langchain", "schema", "messages", type(message).__name__]
    return {"lc": 1, "type": "constructor", "id": name, "kwargs": as_dict(message)}


FORMS: list[Callable[[Any], Any]] = [as_dict, as_role, as_constructor]


def by_submit(service: Service, client: TestClient, messages: list[Any]) -> str:
    return service.submit("desk", message={"messages": messages}).thread_id


def by_run(service: Service, client: TestClient, messages: list[Any]) -> str:
    thread = uuid4().hex
    body = {"assistant_id": "desk", "input": {"messages": messages}, "if_not_exists": "create"}
    assert client.post(f"/threads/{thread}/runs/wait", json=body).status_code == 200
    return thread


def begun(service: Service) -> str:
    run = service.submit("desk", message="Before")
    run.result(60)
    return run.thread_id


def by_state(service: Service, client: TestClient, messages: list[Any]) -> str:
    thread = begun(service)
    body = {"values": {"messages": messages}}
    answer = client.post(f"/threads/{thread}/state", json=body)
    assert answer.status_code == 200, answer.text
    return thread


def by_update(service: Service, client: TestClient, messages: list[Any]) -> str:
    thread = begun(service)
    values = {"messages": Overwrite(convert_to_messages(messages))}
    service.threads.update_state(thread, values)
    return thread


def by_ag_ui(service: Service, client: TestClient, messages: list[Any]) -> str:
    thread = uuid4().hex
    users = [{**as_role(m), "content": m.text} for m in marked() if m.type == "human"]
    body = {"threadId": thread, "runId": "r", "state": {"messages": messages}, "messages": users}
    more: Any = {"tools": [], "context": [], "forwardedProps": {}}
    assert client.post("/ag-ui/desk", json={**body, **more}).status_code == 200
    return thread


def by_openai(service: Service, client: TestClient, messages: list[Any]) -> str:
    thread = uuid4().hex
    users = [as_role(m) for m in marked() if m.type == "human"]
    headers = {"X-Thread-Id": thread}
    body = {"model": "desk", "messages": users}
    answer = client.post("/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return thread


WAYS = [by_submit, by_run, by_state, by_update, by_ag_ui, by_openai]


@each("way, form", product(WAYS, FORMS))
def test_no_message_from_outside_has_a_mark(
    service: Service, client: TestClient, way: Any, form: Any
) -> None:
    thread = way(service, client, [form(message) for message in marked()])
    run = service.submit("desk", thread=thread, message="Go on")
    run.result(60)
    assert run.status == "done"
    messages = service.threads.state(thread).values["messages"]
    assert {"Hi", "More", "Go on"} <= {message.text for message in messages}
    for message in messages:
        for name in FIELDS:
            keys = getattr(message, name).keys()
            assert keys.isdisjoint(EACH.keys() - {"provider"}), (message, name)
        assert getattr(message, "artifact", None) in (None, {"review": "of the tool"})
    if way not in (by_ag_ui, by_openai):
        assert sum("provider" in message.response_metadata for message in messages) == 5


@each("form", FORMS)
def test_no_artifact_from_outside_offers_tools(
    service: Service, client: TestClient, form: Any
) -> None:
    """`configurable` does not name the key, so that clients of LangGraph's API bring none."""
    model = ScriptedChatModel(["Hello."])
    layers, name = [m.ClientToolsMiddleware()], uuid4().hex
    service.add(name, create_agent(model, middleware=layers, checkpointer=InMemorySaver()))
    messages = [form(message) for message in marked()[:3]]
    body = {"assistant_id": name, "input": {"messages": messages}}
    assert client.post("/runs/wait", json=body).json()["messages"][-1]["content"] == "Hello."
    assert model.requests[0].tools == []


def test_objects_lose_their_marks_and_nothing_else(service: Service) -> None:
    run = service.submit("desk", message=marked())
    run.result(60)
    stored = service.threads.state(run.thread_id).values["messages"]
    for message, sent in zip(stored, marked(), strict=False):
        assert message.text == sent.text
        assert message.response_metadata == {"provider": "kept"}
    assert stored[2].artifact == {"review": "of the tool"}
    assert marked()[0].response_metadata == EACH  # the caller's own object stays


def test_state_that_is_no_message_keeps_its_keys() -> None:
    from agent_factory.review.records import without_marks

    documents = [{"content": "A text.", "review": "good", "type": "memo", "failure": None}]
    assert without_marks({"documents": documents}) == {"documents": documents}
