"""A workbench: one piece of work inside a real LangGraph run, with its Runtime, in both colours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.func import entrypoint
from langgraph.graph.message import add_messages
from langgraph.store.base import BaseStore
from langgraph.types import Command

from agent_factory.compat.langchain import from_langchain_middleware
from agent_factory.errors import ArgumentError, describe, raise_all
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.introspection import validate_middleware

R = TypeVar("R")
Middleware = AgentMiddleware[Any, Any]


@dataclass(frozen=True)
class Bench:
    """Where one hook or layer is tried.

    Args:
        context: The context of the run.
        store: The store of the run.
        config: A RunnableConfig; the thread is named "bench" where it names none.
        resume: Answers to the interrupts it meets, in order.
    """

    context: Any = None
    store: BaseStore | None = None
    config: Mapping[str, Any] | None = None
    resume: Sequence[Any] = ()

    def run(self, work: Callable[[], Any]) -> Any:
        """Do some work in a synchronous run.

        Raises:
            GraphInterrupt: It interrupts, and no answer is left.
        """
        desk = _Desk()
        graph = self._graph(desk.func(work))
        for value in self._inputs(desk):
            graph.invoke(value, self._config, context=self.context)
        return desk.result()

    async def arun(self, work: Callable[[], Any]) -> Any:
        """As `run`, in an asynchronous run; the work is awaited."""
        desk = _Desk()
        graph = self._graph(desk.afunc(work))
        for value in self._inputs(desk):
            await graph.ainvoke(value, self._config, context=self.context)
        return desk.result()

    def _inputs(self, desk: _Desk) -> Iterator[Any]:
        """The input of the run, then an answer for each interrupt."""
        yield {}
        for answer in self.resume:
            if desk.interrupt is None:
                return
            desk.interrupt = None
            yield Command(resume=answer)

    def _graph(self, work: Callable[[Any], Any]) -> Any:
        # What is not to be resumed need not be kept, which saves half of the time.
        saver = InMemorySaver() if self.resume else None
        return entrypoint(checkpointer=saver, store=self.store)(work)

    @property
    def _config(self) -> RunnableConfig:
        config = dict(self.config or {})
        configurable = {"thread_id": "bench", **config.get("configurable", {})}
        return cast("RunnableConfig", {**config, "configurable": configurable})


@dataclass
class _Desk:
    """What came of the work."""

    done: list[Any] = field(default_factory=list)
    interrupt: GraphInterrupt | None = None

    def func(self, work: Callable[[], Any]) -> Callable[[Any], Any]:
        def bench(_: Any) -> None:
            try:
                self.done.append(work())
            except GraphInterrupt as interrupt:
                self.interrupt = interrupt
                raise

        return bench

    def afunc(self, work: Callable[[], Any]) -> Callable[[Any], Any]:
        async def bench(_: Any) -> None:
            try:
                self.done.append(await work())
            except GraphInterrupt as interrupt:
                self.interrupt = interrupt
                raise

        return bench

    def result(self) -> Any:
        if self.interrupt is not None:
            raise self.interrupt
        return self.done[-1]


def finish(work: Coroutine[Any, Any, R]) -> R:
    """Await something from synchronous code, also where an event loop is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, work).result()


def usable_middleware(middleware: Any) -> Middleware:
    """The member that `create_agent` would make of it; what it would refuse is refused.

    Raises:
        SpecError: It is no middleware, or something about it could not work.
    """
    member = from_langchain_middleware(middleware)
    if isinstance(member, type) or not isinstance(member, AgentMiddleware):
        hint = f"Give an instance: {middleware.__name__}()." if isinstance(middleware, type) else ""
        raise ArgumentError(
            "middleware", f"{describe(middleware)} is no middleware.", hint or "Give one."
        )
    raise_all(list(validate_middleware(member)))
    return member


def as_state(state: Any) -> dict[str, Any]:
    """A state as a hook receives it: messages as objects with ids.

    Args:
        state: A state, or only its messages in any form that LangChain converts, or None.

    Raises:
        ArgumentError: What stands for messages is none.
    """
    given = dict(state) if isinstance(state, Mapping) else {"messages": state or []}
    messages = given.get("messages", [])
    if not isinstance(messages, list):
        messages = [messages]
    try:
        return {**given, "messages": add_messages([], messages)}
    except (NotImplementedError, TypeError, ValueError) as error:
        raise ArgumentError(
            "messages", f"{describe(messages)} are none: {error}", "Give texts or messages."
        ) from None
