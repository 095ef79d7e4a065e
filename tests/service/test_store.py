"""The store of a service: agents and clients of a tenant see the same items, others see none."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.store.base import GetOp, PutOp
from langgraph.store.memory import InMemoryStore

from agent_factory import ToolRuntime, create_agent
from agent_factory.errors import ArgumentError
from agent_factory.service import Service
from agent_factory.service.database import Database
from agent_factory.testing import ScriptedChatModel


def remember(food: str, runtime: ToolRuntime) -> str:
    """Remember what the user likes."""
    assert runtime.store is not None
    before = runtime.store.get(("likes",), "food")
    runtime.store.put(("likes",), "food", {"name": food})
    return "Nothing before." if before is None else f"Before: {before.value['name']}."


def eater(tool: Any, **options: Any) -> Any:
    def answer(messages: list[BaseMessage]) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return AIMessage(messages[-1].text)
        args = {"food": messages[-1].text}
        return AIMessage("", tool_calls=[{"name": tool.__name__, "args": args, "id": uuid4().hex}])

    return create_agent(ScriptedChatModel([answer] * 100), [tool], **options)


def test_agents_and_clients_of_a_tenant_share_a_store(service: Service) -> None:
    own = InMemoryStore()
    service.add("eater", eater(remember))
    service.add("own", eater(remember, store=own))
    service.start()

    def tell(agent: str, food: str, tenant: str) -> str:
        run = service.submit(agent, message=food, tenant=tenant)
        return str(run.result(timeout=60)["messages"][-1].text)

    acme, other = service.store("acme"), service.store("other")
    assert tell("eater", "pizza", "acme") == "Nothing before."
    item = acme.get(("likes",), "food")
    assert item is not None
    assert (item.namespace, item.value) == (("likes",), {"name": "pizza"})
    assert other.get(("likes",), "food") is None
    acme.put(("likes",), "food", {"name": "soup"})
    assert tell("eater", "stew", "acme") == "Before: soup."
    assert tell("eater", "bread", "other") == "Nothing before."
    assert tell("own", "cake", "acme") == "Nothing before."
    assert own.get(("likes",), "food") is not None
    item = acme.get(("likes",), "food")
    assert item is not None
    assert item.value == {"name": "stew"}


def test_what_does_not_fit_into_a_database_is_refused(service: Service, database: Database) -> None:
    """It is not taken for a database that is not available: a run would try it without end."""
    key = secrets.token_hex(10_000)
    if database.is_sqlite:  # its keys have no longest length
        service.store("acme").put(("a",), key, {})
    else:
        with pytest.raises(ArgumentError, match="cannot be stored: index row"):
            service.store("acme").put(("a",), key, {})
    places = ",".join(["?" if database.is_sqlite else "%s"] * 300_000)
    with pytest.raises(ArgumentError, match="cannot be stored"), database.read() as connection:
        connection.exec_driver_sql(f"select 1 where 1 in ({places})", (1,) * 300_000)


def test_searching_and_listing(service: Service) -> None:
    acme = service.store("acme")
    for user, age in (("ann", 30), ("bob", 40)):
        acme.put(("users", user), "profile", {"age": age})
    acme.put(("users2",), "x", {"age": 30})
    found = acme.search(("users",), filter={"age": 30})
    assert [(one.namespace, one.key) for one in found] == [(("users", "ann"), "profile")]
    assert len(acme.search(())) == 3
    assert sorted(acme.list_namespaces()) == [("users", "ann"), ("users", "bob"), ("users2",)]
    assert sorted(acme.list_namespaces(max_depth=1)) == [("users",), ("users2",)]
    assert acme.list_namespaces(prefix=("users",), suffix=("bob",)) == [("users", "bob")]
    assert acme.list_namespaces(suffix=("bob",)) == [("users", "bob")]
    put, got = acme.batch([PutOp(("users", "ann"), "new", {}), GetOp(("users", "bob"), "profile")])
    assert put is None
    assert got is not None
    acme.delete(("users", "ann"), "profile")
    assert [one.key for one in acme.search(("users", "ann"))] == ["new"]


@pytest.fixture(scope="module")
def shared(module_url: str) -> Iterator[Service]:
    with closing(Service(module_url)) as service:
        yield service


names = st.text(st.sampled_from("a*_%?[]-"), max_size=3)


@settings(settings.get_profile("costly"))
@example(tenants=["aa", "a"], place="a")
@example(tenants=["a", "*"], place="a")
@given(tenants=st.lists(names, min_size=2, max_size=2, unique=True), place=names)
def test_no_tenant_finds_items_of_another(shared: Service, tenants: list[str], place: str) -> None:
    one, other = map(shared.store, tenants)
    one.put(("a",), "key", {"of": "one"})
    assert other.search(()) == []
    assert other.list_namespaces() == []
    assert other.list_namespaces(suffix=("a",)) == []
    assert other.search((place or "a",)) == []
    assert other.get((place or "a",), "key") is None
    assert one.get(("a",), "key") is not None
    one.delete(("a",), "key")
