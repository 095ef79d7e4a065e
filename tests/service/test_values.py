"""Values from Python that no database stores: each way in refuses them, and says where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from agent_factory import create_agent
from agent_factory.errors import ArgumentError
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from tables import each

WRONG: list[Any] = [2**63, "a\0b", "\ud83d", ["\0"]]
NOT_JSON: list[Any] = [float("nan"), float("-inf"), object(), b"bytes", {1: 2}]

Way = Callable[[Service, Any], object]
JSON_WAYS: dict[str, tuple[Way, str]] = {
    "metadata": (lambda s, v: s.submit("desk", message="Hi", metadata={"k": v}), "metadata.k"),
    "context": (lambda s, v: s.submit("desk", message="Hi", context={"k": v}), "context.k"),
    "config": (
        lambda s, v: s.submit("desk", message="Hi", config={"configurable": {"k": v}}),
        "config.configurable.k",
    ),
    "config metadata": (
        lambda s, v: s.submit("desk", message="Hi", config={"metadata": {"k": v}}),
        "config.metadata.k",
    ),
    "schedule": (
        lambda s, v: s.schedule("nightly", "0 3 * * *", agent="desk", message={"k": v}),
        "message.k",
    ),
    "create": (lambda s, v: s.threads.create("new", metadata={"k": v}), "metadata.k"),
    "change": (lambda s, v: s.threads.change("t", metadata={"k": v}), "metadata.k"),
    "search": (lambda s, v: s.threads.search(metadata={"k": v}), "metadata.k"),
    "count": (lambda s, v: s.threads.count(metadata={"k": v}), "metadata.k"),
    "put": (lambda s, v: s.store("acme").put(("a",), "k", {"k": v}), "value.k"),
    "filter": (lambda s, v: s.store("acme").search(("a",), filter={"k": v}), "filter"),
}
STATE_WAYS: dict[str, tuple[Way, str]] = {
    "text": (
        lambda s, v: s.submit("desk", message=[HumanMessage([{"k": v}])]),
        "message.messages.0",
    ),
    "call": (
        lambda s, v: s.submit(
            "desk",
            message=[AIMessage("", tool_calls=[{"name": "a", "args": {"k": v}, "id": "1"}])],
        ),
        "message.messages.0.tool_calls.0.args.k",
    ),
    "input": (
        lambda s, v: s.submit("desk", message={"messages": ["Hi"], "other": {"k": v}}),
        "message.other.k",
    ),
    "state": (
        lambda s, v: s.threads.update_state(
            "t", {"messages": [{"role": "user", "content": [{"k": v}]}]}
        ),
        "] values.messages.0.content.0.k",
    ),
    "object in the state": (
        lambda s, v: s.threads.update_state("t", {"messages": [HumanMessage([{"k": v}])]}),
        "] values.messages.0.content.0.k",
    ),
}
IDS: dict[str, Way] = {
    "thread": lambda s, v: s.submit("desk", message="Hi", thread=v),
    "message_id": lambda s, v: s.submit("desk", message="Hi", message_id=v),
    "tenant": lambda s, v: s.submit("desk", message="Hi", tenant=v),
    "by": lambda s, v: s.submit("desk", message="Hi", by=v),
    "name": lambda s, v: s.schedule(v, "0 3 * * *", agent="desk", message="Hi"),
    "key": lambda s, v: s.store("acme").put(("a",), v, {}),
}


@pytest.fixture
def desk(service: Service) -> Service:
    service.add("desk", create_agent(ScriptedChatModel(["Hi"])))
    service.threads.create("t")
    return service


@each("way", [*JSON_WAYS, *STATE_WAYS])
def test_what_no_database_stores_is_refused(desk: Service, way: str) -> None:
    call, place = {**JSON_WAYS, **STATE_WAYS}[way]
    for value in [*WRONG, *(NOT_JSON if way in JSON_WAYS else ())]:
        with pytest.raises(ArgumentError, match=place.replace(".", r"\.")):
            call(desk, value)
    assert [thread.id for thread in desk.threads.search()] == ["t"]


@each("way", IDS)
def test_ids_are_texts_that_each_database_stores(desk: Service, way: str) -> None:
    for value in ("a\0b", "\ud83d"):
        with pytest.raises(ArgumentError, match=rf"{way}.*must not have"):
            IDS[way](desk, value)
    assert [thread.id for thread in desk.threads.search()] == ["t"]


def test_what_each_database_stores_is_taken(desk: Service) -> None:
    value = {"n": [2**63 - 1, -(2**63), 0.1, None, True], "text": 'ü 😀 "\\', "tuple": (1, 2)}
    desk.threads.create("other", metadata=value)
    (found,) = desk.threads.search(metadata={"text": value["text"]})
    assert found.metadata == {**value, "tuple": [1, 2]}
    desk.store("acme").put(("a",), "k", value)
    item = desk.store("acme").get(("a",), "k")
    assert item is not None
    assert item.value == {**value, "tuple": [1, 2]}
