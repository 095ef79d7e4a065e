"""Functions and flows in the form for `Invoke`, in threads, as tools and as hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from functools import wraps
from inspect import isawaitable, iscoroutine
from operator import eq
from threading import Thread
from typing import Any, ParamSpec, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.func import entrypoint

from agent_factory import Flow, Invoke, arun, run

from .errors import is_async

P = ParamSpec("P")
T = TypeVar("T")

Update = dict[str, Any] | None
"""Update of the state that a hook returns."""


@dataclass(frozen=True, slots=True)
class Called:
    """A function in the form for `Invoke`.

    Async runs call its async form, if there is one, and else a plain function in a thread.
    """

    function: Callable[..., Any]
    name: str = "function"  # in the error of a sync run for a coroutine function
    async_form: Callable[..., Any] | None = None

    def invoke(self, input: tuple[object, ...], config: RunnableConfig | None = None) -> object:
        if not is_async(self.function):
            result = self.function(*input)
            # A plain function may return an awaitable, as a lambda around a coroutine function.
            if not isawaitable(result):
                return result
            # Python warns of a coroutine that nobody awaits.
            if iscoroutine(result):
                result.close()
        raise TypeError(
            f"The {self.name} is a coroutine function, and this run is synchronous. Use ainvoke or "
            "astream, or pass a plain function."
        )

    async def ainvoke(
        self, input: tuple[object, ...], config: RunnableConfig | None = None
    ) -> object:
        if self.async_form is not None or is_async(self.function):
            return await (self.async_form or self.function)(*input)
        # A plain function may wait, for a database for example, and would hold up all other tasks.
        result = await asyncio.to_thread(self.function, *input)
        return await result if isawaitable(result) else result


def in_event_loop() -> bool:
    """Return True if this thread runs an event loop, which must not wait for files."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def in_thread(function: Callable[[], T], name: str) -> Future[T]:
    """Call a function in a thread of this name, for which the end of the process does not wait."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # from here on, nobody can cancel the future
    # LangGraph keeps the run in context variables, which a new thread lacks.
    context = copy_context()

    def target() -> None:
        try:
            future.set_result(context.run(function))
        # Also SystemExit and the like, which a thread would not pass on.
        except BaseException as error:
            future.set_exception(error)

    # A thread of an executor would keep the process from ending.
    Thread(target=target, name=name, daemon=True).start()
    return future


@dataclass(frozen=True, slots=True)
class InOwnGraph:
    """A flow in a graph, whose checkpoint holds the flow's result and key."""

    flow: Callable[[], Flow[object]]
    is_same: Callable[[object, object], bool]

    def invoke(self, input: object, config: RunnableConfig | None = None) -> object:
        # A resumed graph gets the key of its first call, possibly of another flow.
        @entrypoint()
        def settle(key: object) -> dict[str, object]:
            return {"key": key, "value": run(self.flow())} if self.is_same(key, input) else {}

        # LangGraph streams the graph of a function, and keeps a thread waiting for its parts.
        if ensure_config(config).get("max_concurrency") == 1:
            config = {**(config or {}), "max_concurrency": 2}
        return settle.invoke(input, config)

    async def ainvoke(self, input: object, config: RunnableConfig | None = None) -> object:
        @entrypoint()
        async def settle(key: object) -> dict[str, object]:
            if not self.is_same(key, input):
                return {}
            return {"key": key, "value": await arun(self.flow())}

        return await settle.ainvoke(input, config)


def once_per_task(
    key: object,
    flow: Callable[[], Flow[T]],
    outside: Exception | None = None,
    is_same: Callable[[object, object], bool] = eq,
) -> Flow[T]:
    """Run a flow once in a task, also if the task is interrupted later and then resumed.

    The reason to ask a person must be the same when the answer comes: answers of a model and
    contents of a store may have changed by then. The key identifies the subject of the flow, and
    `is_same` compares a stored key with it. A flow that interrupts raises an error `outside` of an
    agent, where no task is paused.
    """
    while True:
        # In a resumed task, an ended graph returns its old state, or the state of
        # another graph called before. The next graph has another namespace.
        entry = yield Invoke(InOwnGraph(flow, is_same), key)
        if outside is not None and "__interrupt__" in entry:
            raise outside
        if "key" in entry and is_same(entry["key"], key):
            value: T = entry["value"]
            return value


def tool_of(flow: Callable[..., Flow[Any]], *texts: Any, **settings: Any) -> StructuredTool:
    """A tool whose work is a flow; `texts` are a name and a description, if given."""

    @wraps(flow)
    def call(*args: Any, **kwargs: Any) -> Any:
        return run(flow(*args, **kwargs))

    @wraps(flow)
    async def acall(*args: Any, **kwargs: Any) -> Any:
        return await arun(flow(*args, **kwargs))

    return StructuredTool.from_function(call, acall, *texts, **settings)


def tool_calling(
    tool: BaseTool, invoke: Callable[..., Any], ainvoke: Callable[..., Any]
) -> BaseTool:
    """A copy of a tool with other functions in place of its methods."""
    duplicate = tool.model_copy()
    # Pydantic refuses to set other names than fields. In the instance they hide the methods.
    vars(duplicate).update(invoke=invoke, ainvoke=ainvoke)
    return duplicate


def flow_hook(flow: Callable[P, Flow[T]]) -> Callable[P, T]:
    """A hook that is a flow, for type checkers: a caller and a subclass get its update."""
    return cast("Callable[P, T]", flow)


class _PlainHook:
    """A function in the body of a class, which becomes a hook and its async form."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __set_name__(self, owner: type, name: str) -> None:
        @wraps(self._function)
        async def call(middleware: object, state: object, runtime: object) -> object:
            # The method of a subclass, if that overrides the hook.
            return getattr(middleware, name)(state, runtime)

        setattr(owner, name, self._function)
        setattr(owner, f"a{name}", call)


def plain_hook(function: Callable[P, T]) -> Callable[P, T]:
    """A hook that waits for nothing: async runs call it without a thread."""
    return cast("Callable[P, T]", _PlainHook(function))
