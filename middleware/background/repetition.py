"""Repetition: jobs begin again in another process after the end of their process."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    ensure_config,
    get_callback_manager_for_config,
    merge_configs,
)
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import ExecutionInfo, Runtime
from langgraph.store.base import BaseStore

from agent_factory import tools_of
from agent_factory.middleware._shared.effects import EffectRuntime
from agent_factory.types import Graph

from .jobs import BackgroundCall, message_of
from .store import JobStore
from .work import Work, attempt_of, begin, under_way


def stored_call(work: Work, call: Mapping[str, Any]) -> BackgroundCall:
    """Return the call of a job in the form for storage: without objects of the process."""
    args: dict[str, Any] = {}
    stored = BackgroundCall(
        id=work.id, job=work.job, call={**call, "args": args}, runtimes={}, stores=[], effects={}
    )
    for name, value in call["args"].items():
        if isinstance(value, ToolRuntime):
            info = value.execution_info
            stored["runtimes"][name] = (value.state, None if info is None else asdict(info))
            if isinstance(value, EffectRuntime):
                stored["effects"][name] = (value.idempotency_key, value.on_unknown)
        elif isinstance(value, BaseStore):
            stored["stores"].append(name)
        else:
            args[name] = value
    return stored


def lost_message(call: BackgroundCall, attempts: int) -> HumanMessage:
    """Return the message about a lost job for the model.

    Args:
        call: The call of the job.
        attempts: How often the job was begun.
    """
    return message_of(call["id"], call["job"], "lost", attempts=attempts)


def repeat_job(
    agent: Graph,
    jobs: JobStore,
    call: BackgroundCall,
    *,
    attempt: int,
    timeout: float,
    config: RunnableConfig,
    runtime: Runtime[Any],
    asynchronous: bool = False,
) -> None:
    """Begin a job again whose process has ended, and return at once.

    The tool gets the arguments, the state and the id of its call. A subagent with a checkpointer
    continues where it was.

    Args:
        agent: The agent, which has the tool.
        jobs: The store of the job's thread, which gets the result.
        call: The call of the job, as passed to `JobStore.begin`.
        attempt: How often the job was begun, this time included.
        timeout: The rest of the job's time, in seconds.
        config: The config of the first run.
        runtime: The context and the store of the first run.
        asynchronous: Whether the work is a task of the running event loop, and not a thread.

    Raises:
        KeyError: The agent has no such tool.
    """
    tools = tools_of(agent)
    tool, id, tool_call = tools[call["call"]["name"]], call["id"], call["call"]
    # A process wrongly taken for dead has begun the job as well.
    if (earlier := under_way(id)) is not None:
        earlier.cancel()
    config = ensure_config(merge_configs(agent.config, config))
    config["callbacks"] = get_callback_manager_for_config(config)
    args = {**tool_call["args"], **dict.fromkeys(call["stores"], runtime.store)}
    for name, (state, info) in call["runtimes"].items():
        new_runtime = ToolRuntime(
            state=state,
            context=runtime.context,
            config=config,
            stream_writer=runtime.stream_writer,
            tool_call_id=tool_call["id"],
            store=runtime.store,
            tools=[*tools.values()],
            execution_info=None if info is None else ExecutionInfo(**info),
        )
        args[name] = new_runtime
        if (effect := call.get("effects", {}).get(name)) is not None:
            key, policy = effect
            args[name] = EffectRuntime(**vars(new_runtime), idempotency_key=key, on_unknown=policy)
    work = Work(id, call["job"], (jobs.thread, ""), jobs, attempt, agent, is_repeated=True)
    new_call = {**tool_call, "args": args}
    new_attempt = attempt_of(work, tool, new_call, config, runtime, timeout)
    begin(work, sys.maxsize)
    work.start(new_attempt, asynchronous=asynchronous)
