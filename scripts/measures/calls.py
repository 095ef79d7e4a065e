"""Figures of running code: the files, frames and calls of the package behind a call."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import AgentMiddleware, create_agent, review
from agent_factory.middleware import HumanInTheLoopMiddleware
from agent_factory.service import Service
from agent_factory.testing import ScriptedChatModel
from measures.source import FOLDERS, ROOT


@cache
def is_ours(filename: str) -> bool:
    """Return True if a frame's file belongs to the package; the test doubles do not count."""
    # An editable install leads here by a link.
    path = os.path.realpath(filename)
    return path.startswith(tuple(f"{folder}/" for folder in FOLDERS)) and "/testing/" not in path


@dataclass
class Trace:
    """Frames of the package behind a call, in all threads.

    A call is the start of a frame: of a function, a lambda, a generator at each step and, before
    Python 3.12, a comprehension. A move is a call in another file than the call before it in the
    same thread: a reader who follows the run opens another file.
    """

    ours: Callable[[str], bool] = is_ours
    files: set[str] = field(default_factory=set)
    calls: int = 0
    moves: int = 0
    deepest: int = 0
    _last: dict[int, str] = field(default_factory=dict)

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        """Note the start of a frame; called by `sys.setprofile`."""
        file = frame.f_code.co_filename
        if event != "call" or not self.ours(file):
            return
        thread = threading.get_ident()
        self.moves += self._last.get(thread, file) != file
        self._last[thread] = file
        self.files.add(file)
        self.calls += 1
        depth, caller = 0, frame
        while caller is not None:
            depth += self.ours(caller.f_code.co_filename)
            caller = caller.f_back
        self.deepest = max(self.deepest, depth)


def traced(call: Callable[[], Any], ours: Callable[[str], bool] = is_ours) -> Trace:
    """Run a call and note the frames."""
    trace = Trace(ours)
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return trace


class First(AgentMiddleware[Any, Any]):
    """A layer around tool calls without an effect."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Call the next layer."""
        return handler(request)


class Second(First):
    """Another layer without an effect."""


class Hooked(AgentMiddleware[Any, Any]):
    """A pair of hooks without an effect."""

    def before_model(self, state: Any, runtime: Any) -> None:
        """Do nothing."""

    def after_model(self, state: Any, runtime: Any) -> None:
        """Do nothing."""


def add(a: int, b: int) -> int:
    """Add two numbers; it raises for negative ones."""
    if a < 0:
        raise ZeroDivisionError("negative")
    return a + b


def refund(euros: int) -> str:
    """Refund a customer."""
    return f"Refunded {euros}."


def _desk(checkpointer: Any = None) -> Any:
    """An agent whose refunds a person decides about."""
    steps = [[{"name": "refund", "args": {"euros": 5}}], "Done."] * 4
    reviewer = HumanInTheLoopMiddleware({"refund": True})
    return create_agent(
        ScriptedChatModel(steps),
        [refund],
        middleware=[reviewer],
        checkpointer=checkpointer,
        ignore=["AF211"],  # the service brings a checkpointer
    )


def approval() -> Trace:
    """`review.approve` of a call, after a first decision to fill caches."""
    agent = _desk(InMemorySaver())
    for thread in ("first", "second"):
        config: Any = {"configurable": {"thread_id": thread}}
        agent.invoke({"messages": [("user", "Refund.")]}, config)
        trace = traced(lambda config=config: review.approve(agent, config))  # type: ignore[misc]
    return trace


class _Threads:
    """A trace for each thread."""

    def __init__(self) -> None:
        self.traces: dict[int, Trace] = {}

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        """Note the start of a frame in a thread."""
        trace = self.traces.setdefault(threading.get_ident(), Trace())
        trace(frame, event, argument)


def decision_of_worker() -> Trace:
    """The thread of a worker with a decision; the number of calls differs by some polls."""
    threads = _Threads()
    with TemporaryDirectory() as folder:
        service = Service(f"sqlite:///{folder}/desk.db")
        service.add("desk", _desk())
        threading.setprofile(threads)
        try:
            service.start(slots=1)
            for thread in ("first", "second"):
                service.submit("desk", thread=thread, message="Refund.").result(60)
                (wait,) = service.inbox().waits(thread=thread)
                threads.traces.clear()
                service.decide(wait.id, "approve", by="ann").result(60)
        finally:
            threading.setprofile(None)
            service.close()
    return max(threads.traces.values(), key=lambda trace: trace.calls)


def _wrapped(a: int, *, fused: bool) -> tuple[Any, dict[str, Any]]:
    model = ScriptedChatModel([[{"name": "add", "args": {"a": a, "b": 3}}], "Done."] * 2)
    agent = create_agent(
        model, [add], middleware=[First(), Second()], handle_tool_errors=False, fused=fused
    )
    return agent, {"messages": [("user", "Add.")]}


def tool_call(*, fused: bool) -> Trace:
    """A run of an agent with a tool call behind two layers, after a first run."""
    agent, message = _wrapped(2, fused=fused)
    agent.invoke(message)  # makes what only runs need
    return traced(lambda: agent.invoke(message))


def traceback_frames(*, fused: bool) -> list[str]:
    """The frames of the package in the traceback of a failing tool behind two layers."""
    agent, message = _wrapped(-1, fused=fused)
    try:
        agent.invoke(message)
    except ZeroDivisionError as error:
        frames = traceback.extract_tb(error.__traceback__)
        return [
            f"{Path(f.filename).resolve().relative_to(ROOT)}:{f.name}"
            for f in frames
            if is_ours(f.filename)
        ]
    raise AssertionError("the tool did not raise")


def build() -> Trace:
    """The build of an agent with a pair of hooks."""
    model = ScriptedChatModel(["Done."])
    create_agent(model, middleware=[Hooked()])  # fills caches
    return traced(lambda: create_agent(model, middleware=[Hooked()]))
