"""Calls of background tools: a copy of a tool that starts the work and returns the handle."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import uuid4

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from langgraph.types import Command

from agent_factory import Flow, Invoke, ToolCallRequest, arun, background_timeout, run
from agent_factory.middleware._shared.invocable import Called
from agent_factory.middleware._shared.mailbox import Mailbox
from agent_factory.middleware._shared.messages import error_result
from agent_factory.types import detached, graph_namespace, saver_of

from .jobs import SOURCE, BackgroundJob, message_of, this_process
from .store import store_of
from .work import Attempt, Stop, Work, begin, discard

JOBS_KEY: Final = "background_jobs"

_STARTED = "Started in the background as {id}. Its result arrives as a message; go on meanwhile."

_TOO_MANY = (
    "Error: {most} background jobs are under way, and there may be no more at once. This call did "
    "not run. Wait for a result, or cancel a job."
)

_MOST_CHARACTERS: Final = 200
"""The longest form of arguments in a message."""


def mailbox_of(config: RunnableConfig) -> Mailbox | None:
    """Return the mailbox of the agent that a node of this config belongs to; None without one."""
    saver = saver_of(config)
    if saver is None:
        return None
    return Mailbox(saver, str(config["configurable"]["thread_id"]), namespace_of(config))


def namespace_of(config: RunnableConfig) -> str:
    """Return the namespace of the agent that a node of this config belongs to."""
    return "|".join(graph_namespace(config))


def starting(request: ToolCallRequest, most: int, owner: object) -> BaseTool:
    """Return a copy of the tool of a call that starts its work and returns the handle.

    Args:
        request: The call.
        most: How many jobs may be under way in a thread.
        owner: What counts as the thread in a run that has none.
    """
    tool = request.tool
    assert tool is not None
    duplicate, start = tool.model_copy(), _Start(request, tool, most, owner)
    # Pydantic refuses to set what is not a field. In the instance they hide the methods.
    vars(duplicate).update(invoke=start.invoke, ainvoke=start.ainvoke)
    return duplicate


@dataclass(frozen=True, slots=True)
class _Start:
    """The call of a background tool: it begins the work, and returns the handle."""

    request: ToolCallRequest
    tool: BaseTool
    most: int
    owner: object

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        return run(self._start(input, asynchronous=False))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        return await arun(self._start(input, asynchronous=True))

    def _start(self, call: Mapping[str, Any], *, asynchronous: bool) -> Flow[Any]:
        runtime, asked = self.request.runtime, self.request.tool_call
        # Short, because the model has to repeat it; a thread has few jobs at a time.
        id, now, timeout = uuid4().hex[:8], time.time(), background_timeout(self.tool) or 0.0
        job = BackgroundJob(
            tool=asked["name"],
            arguments=_short(asked["args"]),
            owner=this_process(),
            started=now,
            deadline=now + timeout,
        )
        thread = runtime.config.get("configurable", {}).get("thread_id")
        # An agent inside of another one, which has the same thread, counts its jobs apart.
        place = (thread or self.owner, namespace_of(runtime.config))
        store = store_of(runtime.config)
        work = Work(id, job, place, mailbox_of(runtime.config) if store is None else store)
        refusal = error_result(asked, _TOO_MANY.format(most=self.most))
        if not begin(work, self.most):
            return refusal
        # The streams of the run end with it, so what the tool writes is kept as progress.
        inner = Runtime(context=runtime.context, store=runtime.store, stream_writer=work.write)
        config = detached(runtime.config, f"{thread or SOURCE}:{id}", inner)
        callbacks: Any = config["callbacks"]
        callbacks.add_handler(Stop(work))
        args = {
            name: replace(value, config=config, stream_writer=work.write)
            if isinstance(value, ToolRuntime)
            else value
            for name, value in call["args"].items()
        }
        attempt = Attempt(self.tool, {**call, "args": args}, config, timeout)
        try:
            if store is not None:
                # Before the work begins: nobody would miss it if the worker died first.
                lost = message_of(id, job, "lost")
                if not (yield Invoke(Called(store.begin), (id, lost, self.most))):
                    discard(work)
                    return refusal
            work.start(attempt, asynchronous=asynchronous)
        except BaseException:
            discard(work)
            raise
        message = ToolMessage(_STARTED.format(id=id), name=asked["name"], tool_call_id=asked["id"])
        return Command(update={"messages": [message], JOBS_KEY: {id: job}})


def _short(args: Mapping[str, Any]) -> str:
    text = json.dumps(args, default=str, ensure_ascii=False)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
