"""Values from Python that no database stores: each way in refuses them, and says where they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from agent_factory import create_agent
from agent_factory.errors import ArgumentError
from agent_factory.service import Service
from agent_factory.service.metadata_search import contains
from agent_factory.testing import ScriptedChatModel
from tables import each

WRONG: list[Any] = [2**63, "a\0b", "\ud83d", ["\0"]]
NOT_JSON: list[Any] = [float("nan"), float("-inf"), object(), b"bytes", {1: 2}]

Way = Callable[[Service, Any], object]


def submits(**options: Callable[[Any], Any]) -> Way:
    """Submit a message, with a value in some of the arguments."""

    def submit(service: Service, value: Any) -> object:
        values = {name: of(value) for name, of in options.items()}
        return service.submit("desk", **{"message": "Hi", **values})

    return submit


def in_call(value: Any) -> list[AIMessage]:
    return [AIMessage("", tool_calls=[{"name": "a", "args": {"k": value}, "id": "1"}])]


def in_message(value: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"k": value}]}]}


JSON_WAYS: dict[str, tuple[Way, str]] = {
    "metadata": (submits(metadata=lambda v: {"k": v}), "metadata.k"),
    "context": (submits(context=lambda v: {"k": v}), "context.k"),
    "config": (submits(config=lambda v: {"configurable": {"k": v}}), "config.configurable.k"),
    "config metadata": (submits(config=lambda v: {"metadata": {"k": v}}), "config.metadata.k"),
    "schedule": (
        lambda s, v: s.schedule(
            "nightly", "0 3 * * *", agent="desk", message={"messages": ["Hi"], "k": v}
        ),
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
    "text": (submits(message=lambda v: [HumanMessage([{"k": v}])]), "message.messages.0"),
    "call": (submits(message=in_call), "message.messages.0.tool_calls.0.args.k"),
    "input": (submits(message=lambda v: {"messages": ["Hi"], "x": {"k": v}}), "message.x.k"),
    "state": (
        lambda s, v: s.threads.update_state("t", in_message(v)),
        "] values.messages.0.content.0.k",
    ),
    "object in the state": (
        lambda s, v: s.threads.update_state("t", {"messages": [HumanMessage([{"k": v}])]}),
        "] values.messages.0.content.0.k",
    ),
}
IDS: dict[str, Way] = {
    **{name: submits(**{name: lambda v: v}) for name in ("thread", "message_id", "tenant", "by")},
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


# Search by metadata: the same answers on each database


KEYS = st.sampled_from(["a", "b", 'a"b', "a.b", "$", "[0]", "", "ü", "\\", "\\u0000", "'"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, 1.0, -1, 5, "5", "1", "true", "abc", 'a"b', "\\u0000", "😀", "%", "_"])
    | st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1, 0.1, 1e308, 5e-324])
)
METADATA = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
        max_leaves=5,
    ),
    max_size=4,
)


def ids(service: Service, **metadata: Any) -> list[str]:
    """The threads with these metadata, by their search and by their count."""
    threads = service.threads.search(metadata=metadata, sort_by="thread_id", descending=False)
    assert service.threads.count(metadata=metadata) == len(threads)
    return [thread.id for thread in threads]


STORED: dict[str, Any] = {
    "float": {"n": 1.0},
    "int": {"n": 1},
    "list": {"n": [1, "x", {"y": 2}]},
    "null": {"n": None},
    "object": {"n": {"x": 1, "y": [1, 2]}},
    "odd": {'a"b.c$[0]': "it's", "%": "_", "": 0, "\\u0000": "\\u0000"},
    "text": {"n": "1"},
    "true": {"n": True},
}
CONDITIONS: list[tuple[Any, list[str]]] = [
    ({"n": 1}, ["float", "int"]),
    ({"n": 1.0}, ["float", "int"]),
    ({"n": "1"}, ["text"]),
    ({"n": True}, ["true"]),
    ({"n": False}, []),
    ({"n": None}, ["null"]),
    ({"n": {"x": 1}}, ["object"]),
    ({"n": {"y": [2]}}, ["object"]),
    ({"n": {}}, ["object"]),
    ({"n": ["x", 1]}, ["list"]),
    ({"n": [{"y": 2}]}, ["list"]),
    ({"n": []}, ["list"]),
    ({'a"b.c$[0]': "it's"}, ["odd"]),
    ({"%": "_", "": 0}, ["odd"]),
    ({"\\u0000": "\\u0000"}, ["odd"]),
    ({"n.x": 1}, []),
    ({f"key {number}": number for number in range(3000)}, []),
]


def test_metadata_are_compared_as_json(service: Service) -> None:
    for thread, metadata in STORED.items():
        service.threads.create(thread, metadata=metadata)
    for condition, expected in CONDITIONS:
        assert ids(service, **condition) == expected, condition


@given(st.lists(METADATA, max_size=3), METADATA)
def test_each_database_agrees_with_the_definition(
    law_service: Service, stored: list[Any], condition: Any
) -> None:
    tenant = json.dumps([stored, condition])[:50]
    threads = [law_service.threads.create(metadata=each, tenant=tenant).id for each in stored]
    found = {t.id for t in law_service.threads.search(tenant=tenant, metadata=condition)}
    expected = {
        thread for thread, each in zip(threads, stored, strict=True) if contains(each, condition)
    }
    assert found & {*threads} == expected


@pytest.fixture(scope="module")
def law_service(module_url: str) -> Iterator[Service]:
    with closing(Service(module_url)) as service:
        yield service
