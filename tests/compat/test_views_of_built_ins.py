"""What callers see of each built-in: all that langchain's shows of its counterpart, in each view.

Texts differ, and these may show more. Nothing that a front end reads may be missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from built_in_cases import CASES, Case, says
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt

import agent_factory.middleware as ours
from agent_factory import create_agent
from samples import add_tool as add
from samples import broken
from tables import each

langchain = pytest.importorskip("langchain.agents", reason="the extra peer is missing")
theirs = pytest.importorskip("langchain.agents.middleware")

pytestmark = [
    pytest.mark.filterwarnings("ignore:The v3 streaming protocol"),
    pytest.mark.filterwarnings("ignore:astream_events version='v1' is deprecated"),
]


def invoked(agent: Any, ask: Any, config: Any) -> Any:
    return agent.invoke(ask, config)


def messages(version: str) -> Callable[..., Any]:
    def view(agent: Any, ask: Any, config: Any) -> Any:
        parts = agent.stream(ask, config, stream_mode="messages", version=version)
        pairs = [part["data"] if version == "v2" else part for part in parts]
        return [(metadata["langgraph_node"], message) for message, metadata in pairs]

    return view


def updates(version: str) -> Callable[..., Any]:
    def view(agent: Any, ask: Any, config: Any) -> Any:
        # What is a hook there may be a layer here: only the nodes of the loop are compared.
        parts = agent.stream(ask, config, stream_mode="updates", version=version)
        data = [part["data"] if version == "v2" else part for part in parts]
        shown = ("model", "tools", "__interrupt__")
        return [{key: part[key]} for part in data for key in shown if key in part]

    return view


def events(version: str) -> Callable[..., Any]:
    async def view(agent: Any, ask: Any, config: Any) -> Any:
        return [
            (event["event"], event["name"], event["data"].keys(), event["data"].get("output"))
            async for event in agent.astream_events(ask, config, version=version)
            if event["event"].startswith(("on_chat_model", "on_tool"))
        ]

    return lambda *arguments: asyncio.run(view(*arguments))


def protocol(agent: Any, ask: Any, config: Any) -> Any:
    shown = [
        (event["method"], event["params"]["data"])
        for event in agent.stream_events(ask, config, version="v3")
        if event["method"] in ("messages", "tools")
    ]
    return [(method, data[0] if isinstance(data, tuple) else data) for method, data in shown]


VIEWS: dict[str, Callable[..., Any]] = {
    "invoke": invoked,
    "messages v1": messages("v1"),
    "messages v2": messages("v2"),
    "updates v1": updates("v1"),
    "updates v2": updates("v2"),
    "events v1": events("v1"),
    "events v2": events("v2"),
    "events v3": protocol,
}

A_LAYER = "a layer writes with the model's answer what a hook writes by itself there"
DIFFERENT = {
    ("summaries", "messages v1"): A_LAYER,
    ("summaries", "messages v2"): A_LAYER,
    ("summaries", "updates v1"): A_LAYER,
    ("summaries", "updates v2"): A_LAYER,
    ("summaries", "events v3"): A_LAYER,
    ("tool limit", "updates v1"): A_LAYER,
    ("tool limit", "updates v2"): A_LAYER,
    ("tool limit, end", "updates v1"): A_LAYER,
    ("tool limit, end", "updates v2"): A_LAYER,
    ("tool selection", "events v1"): "the choice for a question is asked once, not in each turn",
    ("tool selection", "events v2"): "the choice for a question is asked once, not in each turn",
}
"""Cases and views that differ, and why."""

SAME = {"type", "role", "name", "tool_call_id", "status", "event", "lc_source", "decision"}
"""Keys whose values are compared. Texts differ, and ids of runs do in each run."""


def plain(value: Any) -> Any:
    """Messages, commands and interrupts as plain values."""
    if isinstance(value, BaseMessage):
        kept = value.model_dump(exclude={"id", "response_metadata"})
        return {key: plain(item) for key, item in kept.items()}
    if isinstance(value, Interrupt):
        return plain(value.value)
    if isinstance(value, Command):
        return {"update": plain(value.update)}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return sorted(value) if isinstance(value, type({}.keys())) else value


def missing(there: Any, here: Any, path: str = "", key: Any = None) -> Iterator[str]:
    """Paths of what langchain shows and these do not."""
    if isinstance(there, dict) and isinstance(here, dict):
        for name, value in there.items():
            if name in here:
                yield from missing(value, here[name], f"{path}.{name}", name)
            else:
                yield f"{path}.{name} is missing"
    elif isinstance(there, list) and isinstance(here, list):
        if len(there) != len(here):
            yield f"{path} has {len(here)} items for {len(there)}"
        for at, (value, counterpart) in enumerate(zip(there, here, strict=False)):
            yield from missing(value, counterpart, f"{path}[{at}]", key)
    elif there is None:
        return
    elif type(there) is not type(here) or (key in SAME and there != here):
        yield f"{path} is {here!r} for {there!r}"


def views(factory: Any, package: Any, case: Case, view: Callable[..., Any]) -> list[Any]:
    stack, steps, inputs = case
    agent = factory(
        says(*steps), [add, broken], middleware=stack(package), checkpointer=InMemorySaver()
    )
    config = {"configurable": {"thread_id": "1"}}
    return [plain(view(agent, ask, config)) for ask in inputs]


@pytest.mark.parametrize("view", VIEWS)
@each("name", CASES)
def test_all_that_langchain_shows_is_shown(name: str, view: str) -> None:
    there = views(langchain.create_agent, theirs, CASES[name], VIEWS[view])
    here = views(create_agent, ours, CASES[name], VIEWS[view])
    differences = list(missing(there, here))
    assert bool(differences) == ((name, view) in DIFFERENT), differences
