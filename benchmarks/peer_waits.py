"""Memory of threads that wait: for their model in a run, or for a person after it."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt

from agent_factory.middleware import HumanInTheLoopMiddleware
from benchmarks.contenders import OURS, PEER, Factory
from benchmarks.others import AGNO, Other
from benchmarks.runs import QUESTION, Setting, memory_per_run
from benchmarks.savers import Mode
from benchmarks.scripted import FreeModel, async_add

BYTES = "kB a thread"


def bytes_at_the_model(factory: Factory, number: int) -> dict[str, float]:
    """What a run holds that waits for the second answer of its model."""
    entry = factory, Setting(Mode.ASYNC, turns=1)
    return {BYTES: memory_per_run(entry, number) / 1000}


def bytes_at_the_person(factory: Factory, number: int) -> dict[str, float]:
    """What a thread holds that waits for a person, in the store or with the caller."""
    return {BYTES: asyncio.run(_held(_pause(factory), number)) / number / 1000}


async def _held(pause: Callable[[int], Coroutine[Any, Any, Any]], number: int) -> int:
    # What the first run leaves in caches belongs to no run.
    await pause(number)
    gc.collect()
    tracemalloc.start()
    try:
        kept = [await pause(index) for index in range(number)]
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del kept
    return held


def _pause(factory: Factory) -> Callable[[int], Coroutine[Any, Any, Any]]:
    """Runs a new thread up to the call that a person has to approve; returns what is kept."""
    model, asked = FreeModel(turns=1), {"messages": [QUESTION]}
    if isinstance(factory, Other):
        create: Any = factory.create_agent
        # The others give the caller what goes on with a run.
        store = create.store(None) if factory.name == AGNO else None
        agent = create(model, [async_add()], checkpointer=store, approval=True)

        async def wait(index: int) -> Any:
            return await agent.waiting(asked)

        return wait
    members: list[Any] = []
    if factory.name == OURS:
        members = [HumanInTheLoopMiddleware({"add": True})]
    elif factory.name == PEER:
        library: Any = import_module("langchain.agents.middleware")
        members = [library.HumanInTheLoopMiddleware(interrupt_on={"add": True})]
    tool = async_add() if members else approved_add()
    graph = factory.create_agent(model, [tool], middleware=members, checkpointer=InMemorySaver())

    async def pause(index: int) -> Any:
        await graph.ainvoke(asked, {"configurable": {"thread_id": str(index)}})

    return pause


def approved_add() -> Callable[..., Any]:
    """The tool as one writes it in LangGraph: it asks a person before it works."""

    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        interrupt({"a": a, "b": b})
        return a + b

    return add
