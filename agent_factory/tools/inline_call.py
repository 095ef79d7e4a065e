"""One tool call in the thread that asks for it, as ToolNode runs it in a pool.

For any number of calls ToolNode opens a pool of threads, and closes it: for a single one that
takes longer than most of its own work. What runs a call ToolNode hands to the wrapper around it,
and that can be called as often as one likes. So it is asked for once, and kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from dataclasses import replace
from functools import partial
from typing import Any, cast

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp, is_invalid_resume
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime, get_runtime

from agent_factory.tools.error_handling import Answer

Execute = Callable[[ToolCallRequest], Any]

WITH_CONTEXT = "tool_call_with_context"
"""The `__type` of an input that brings one call, and the state it is to see."""


class Sample(dict[str, Any]):
    """A call that stands for all others: its wrapper takes down what would run it."""

    execute: Execute

    def taken(self, execute: Execute) -> ToolMessage:
        """Take it down."""
        self.execute = execute
        return ToolMessage("", tool_call_id=self["id"])


def execution_of(node: ToolNode) -> Execute:
    """What a node runs its calls with; its wrapper gives a `Sample` what it is given.

    Args:
        node: The node.
    """
    sample = Sample(name="", args={}, id="", type="tool_call")
    ask = partial(ToolNode.invoke, node, with_context(sample, {}), {}, runtime=Runtime())
    Context().run(ask)  # outside of any run: what is kept must not hold one
    return sample.execute


def with_context(call: Mapping[str, Any], state: Any) -> dict[str, Any]:
    """One call with the state it is to see, in the form that ToolNode reads."""
    return {"__type": WITH_CONTEXT, "tool_call": call, "state": state}


def can_run_inline(input: Any) -> bool:
    """Whether an input is one call with its state, and this thread is free to run it.

    In the thread of an event loop a tool could not start one of its own.
    """
    if not (isinstance(input, dict) and input.get("__type") == WITH_CONTEXT):
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False


def run_inline(
    wrap: Callable[[ToolCallRequest, Execute], Any],
    execute: Execute,
    answer: Answer,
    tools: Mapping[str, BaseTool],
    input: Mapping[str, Any],
    config: RunnableConfig | None,
) -> list[Any]:
    """Run one call, with its wrapper around it; the messages and commands that come of it.

    Args:
        wrap: The wrapper.
        execute: What runs a call.
        answer: Asked about what the wrapper raises.
        tools: All tools, by name.
        input: The call with its state.
        config: The config of the run.
    """
    call = input["tool_call"]
    config = ensure_config(config)
    request = ToolCallRequest(
        tool_call=call,
        tool=tools.get(call["name"]),
        state=input["state"],
        runtime=_runtime(input, config, tools),
    )
    # What is set in there, for what it calls, is not for what follows.
    run = partial(_answered, answer, wrap, request, partial(_execute, execute, config))
    result = copy_context().run(run)
    return result if isinstance(result, list) else [result]


def _answered(
    answer: Answer,
    wrap: Callable[[ToolCallRequest, Execute], Any],
    request: ToolCallRequest,
    execute: Execute,
) -> Any:
    try:
        return wrap(request, execute)
    except GraphBubbleUp:
        raise
    except Exception as error:
        if is_invalid_resume(error):
            raise
        call = request.tool_call
        return ToolMessage(
            answer(error), name=call["name"], tool_call_id=call["id"], status="error"
        )


def _runtime(
    input: Mapping[str, Any], config: RunnableConfig, tools: Mapping[str, BaseTool]
) -> ToolRuntime[Any, Any]:
    runtime = get_runtime()
    return ToolRuntime(
        state=input["state"],
        tool_call_id=input["tool_call"]["id"],
        config=config,
        context=runtime.context,
        store=runtime.store,
        stream_writer=runtime.stream_writer,
        tools=list(tools.values()),
        execution_info=runtime.execution_info,
        server_info=runtime.server_info,
    )


def _execute(execute: Execute, config: RunnableConfig, request: ToolCallRequest) -> Any:
    """Run a call with its own config: what was kept would run it with that of the sample."""
    if request.tool is None:
        return execute(request)
    return execute(replace(request, tool=cast("BaseTool", _Here(request.tool, config))))


class _Here:
    """A tool that is called with the config of this run, and otherwise as it is.

    Args:
        tool: The tool.
        config: The config.
    """

    def __init__(self, tool: BaseTool, config: RunnableConfig) -> None:
        self._tool = tool
        self._config = config

    def invoke(self, input: Any, _: RunnableConfig | None = None) -> Any:
        """Call it."""
        return self._tool.invoke(input, self._config)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)
