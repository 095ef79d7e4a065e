"""Calls of background tools: a copy of a tool that starts the work and returns the handle."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final
from uuid import uuid4

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

from agent_factory import (
    Flow,
    Invoke,
    ToolCallRequest,
    arun,
    background_on_loss,
    background_timeout,
    run,
)
from agent_factory.middleware._shared.effects import leave_effect
from agent_factory.middleware._shared.invocable import Called, tool_calling
from agent_factory.middleware._shared.mailbox import mailbox_of
from agent_factory.middleware._shared.messages import caller_of, error_result
from agent_factory.middleware._shared.transcript import shortened, to_json
from agent_factory.types import graph_namespace, run_services

from .jobs import BackgroundJob, message_of, this_process
from .repetition import stored_call
from .store import JobStore, store_of
from .work import Work, attempt_of, begin, under_way

JOBS_KEY: Final = "background_jobs"

_STARTED = "Started in the background as {id}. Its result arrives as a message; go on meanwhile."

_TOO_MANY = (
    "Error: {most} background jobs are under way, and there may be no more at once. This call did "
    "not run. Wait for a result, or cancel a job."
)

_MOST_CHARACTERS: Final = 200
"""The longest form of arguments in a message."""


def starting(request: ToolCallRequest, most: int, owner: object) -> BaseTool:
    """Return a copy of the tool of a call; the copy starts the work and returns the handle.

    At most so many jobs are under way in a thread; without a thread, the owner's jobs count.
    """
    tool = request.tool
    assert tool is not None

    def start(call: Mapping[str, Any], *, asynchronous: bool) -> Flow[Any]:
        runtime, asked = request.runtime, request.tool_call
        store = store_of(runtime.config)
        id = uuid4().hex if store is None else _id_of_call(request, store)
        # Short, because the model has to repeat the id; a thread has few jobs at a time.
        id, now, timeout = id[:8], time.time(), background_timeout(tool) or 0.0
        job = BackgroundJob(
            tool=asked["name"],
            arguments=shortened(to_json(asked["args"]), _MOST_CHARACTERS),
            owner=this_process(),
            started=now,
            deadline=now + timeout,
        )
        thread = runtime.config.get("configurable", {}).get("thread_id")
        # An agent inside of another agent, with the same thread, counts its jobs apart.
        place = (thread or owner, "|".join(graph_namespace(runtime.config)))
        target = mailbox_of(runtime.config) if store is None else store
        work = Work(id, job, place, target, guards=run_services.get().guards)
        attempt = attempt_of(work, tool, call, runtime.config, runtime, timeout)
        message = ToolMessage(_STARTED.format(id=id), name=asked["name"], tool_call_id=asked["id"])
        handle: Command[Any] = Command(update={"messages": [message], JOBS_KEY: {id: job}})
        refusal = error_result(asked, _TOO_MANY.format(most=most))
        if store is not None:
            # Before the work begins: otherwise the job would be lost with the worker.
            work.is_repeated = background_on_loss(tool) == "repeat"
            kept_call = stored_call(work, call) if work.is_repeated else None
            lost = message_of(id, job, "lost")
            beginning = yield Invoke(Called(store.begin), (id, lost, most, kept_call))
            if beginning == "full":
                return refusal
            # The run was cut short before the handle was stored, and makes the call again. The end
            # of the effect is recorded elsewhere, or not known.
            if beginning == "known" or (beginning == "begun" and under_way(id) is not None):
                leave_effect(runtime)
                return handle
        if not begin(work, most):
            if store is not None:
                yield Invoke(Called(store.drop), (id,))
            return refusal
        work.start(replace(attempt, end=leave_effect(runtime)), asynchronous=asynchronous)
        return handle

    def invoke(call: Any, *_: Any, **__: Any) -> Any:
        return run(start(call, asynchronous=False))

    async def ainvoke(call: Any, *_: Any, **__: Any) -> Any:
        return await arun(start(call, asynchronous=True))

    return tool_calling(tool, invoke, ainvoke)


def _id_of_call(request: ToolCallRequest, store: JobStore) -> str:
    """Return the id of a stored job: the same if the run makes the call again."""
    call = request.tool_call
    caller = caller_of(request.state["messages"], call["id"])
    source = (caller and caller.id) or uuid4().hex
    parts = [store.run, source, call["id"], call["name"], call["args"]]
    return sha256(json.dumps(parts, default=str, sort_keys=True).encode()).hexdigest()
