"""Calls of background tools: a tool that starts the work and returns the handle of a job."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import PrivateAttr

from agent_factory import ToolCallRequest, background_timeout
from agent_factory.errors import PathNotSupported
from agent_factory.middleware._shared.mailbox import Mailbox
from agent_factory.middleware._shared.messages import error_result
from agent_factory.types import detached, graph_namespace, saver_of

from .jobs import BackgroundJob, this_process
from .work import Attempt, Work, begin, discard

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


class StartingTool(BaseTool):
    """Stands in for a background tool in one call: it starts the work, and returns the handle."""

    _tool: BaseTool = PrivateAttr()
    _runtime: ToolRuntime[Any, Any] = PrivateAttr()
    _arguments: str = PrivateAttr()
    _most: int = PrivateAttr()
    _owner: object = PrivateAttr()

    @classmethod
    def for_call(cls, request: ToolCallRequest, most: int, owner: object) -> StartingTool:
        """Return what starts the work of a call.

        Args:
            request: The call.
            most: How many jobs may be under way in a thread.
            owner: What counts as the thread in a run that has none.
        """
        tool = request.tool
        assert tool is not None
        starting = cls(name=tool.name, description=tool.description, args_schema=tool.args_schema)
        starting._tool, starting._runtime = tool, request.runtime
        starting._arguments = _short(request.tool_call["args"])
        starting._most, starting._owner = most, owner
        return starting

    @property
    def func(self) -> Any:
        """The function of the tool: what it takes from its graph is filled in by its signature."""
        return getattr(self._tool, "func", None) or getattr(self._tool, "coroutine", None)

    def get_input_schema(self, config: RunnableConfig | None = None) -> Any:
        return self._tool.get_input_schema(config)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        if isinstance(self._tool, StructuredTool) and self._tool.func is None:
            raise PathNotSupported(
                self.name,
                "does not support sync invocation, as it has only a coroutine function.",
                "Run the agent with ainvoke or astream, or give it a sync function.",
            )
        return self._start(input, asynchronous=False)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        return self._start(input, asynchronous=True)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("it is invoked with a call")

    def _start(self, call: Mapping[str, Any], *, asynchronous: bool) -> Any:
        id, runtime = uuid4().hex[:8], self._runtime
        timeout = background_timeout(self._tool) or 0.0
        now = time.time()
        job = BackgroundJob(
            tool=self.name,
            arguments=self._arguments,
            owner=this_process(),
            started=now,
            deadline=now + timeout,
        )
        thread = runtime.config.get("configurable", {}).get("thread_id")
        place = (thread or self._owner, namespace_of(runtime.config))
        work = Work(id, job, place, mailbox_of(runtime.config))
        if not begin(work, self._most):
            return error_result(_call(call), _TOO_MANY.format(most=self._most))
        inner = Runtime(context=runtime.context, store=runtime.store, stream_writer=work.write)
        config = detached(runtime.config, f"{thread or 'background'}:{id}", inner)
        args = {
            name: replace(value, config=config, stream_writer=work.write)
            if isinstance(value, ToolRuntime)
            else value
            for name, value in call["args"].items()
        }
        try:
            work.start(
                Attempt(self._tool, {**call, "args": args}, config, timeout),
                asynchronous=asynchronous,
            )
        except BaseException:
            discard(work)
            raise
        text = _STARTED.format(id=id)
        message = ToolMessage(text, name=self.name, tool_call_id=call["id"])
        return Command(update={"messages": [message], JOBS_KEY: {id: job}})


def _call(call: Mapping[str, Any]) -> Any:
    return {"name": call["name"], "id": call["id"]}


def _short(args: Mapping[str, Any]) -> str:
    text = json.dumps(args, default=str, ensure_ascii=False)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
