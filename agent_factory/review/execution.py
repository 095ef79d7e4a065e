"""Carries a step out on an agent: read the state, write to it, run. Both colours, written once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig

from agent_factory.errors import ArgumentError
from agent_factory.factory.agent import topology_of
from agent_factory.hooks.flows import Flow
from agent_factory.review.errors import NoThread
from agent_factory.review.pending_calls import Pending, read
from agent_factory.review.planning import Choice, Step
from agent_factory.topology.topology import Topology

COPY = "__copy__"
"""LangGraph's word for a branch that begins as its origin, and with none of its answers."""


@dataclass(frozen=True, slots=True)
class _Ask:
    """A method of an agent to call; its asynchronous twin has an `a` before its name."""

    method: str
    args: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


def in_sync(agent: Any) -> Callable[[_Ask], Any]:
    """Calls what a flow asks for, in a synchronous run."""
    return lambda ask: getattr(agent, ask.method)(*ask.args, **ask.options)


def in_async(agent: Any) -> Callable[[_Ask], Any]:
    """Calls what a flow asks for, to be awaited."""
    return lambda ask: getattr(agent, f"a{ask.method}")(*ask.args, **ask.options)


def look(agent: Any, config: RunnableConfig) -> Flow[Pending]:
    """What a thread waits for.

    Raises:
        NoThread: The agent keeps no threads, or the config names none.
    """
    config = _of_thread(agent, config)
    snapshot = yield _Ask("get_state", (config,))
    return read(snapshot, _plan(agent))


def act(
    agent: Any, config: RunnableConfig, choose: Choice, options: Mapping[str, Any]
) -> Flow[Any]:
    """Choose from what waits, write, and run.

    Raises:
        ReviewError: It cannot be carried out; nothing was written.
    """
    config, plan = _of_thread(agent, config), _plan(agent)
    waiting = yield from look(agent, config)
    step: Step = choose(waiting, plan)
    if waiting.asks and (yield from _is_past(config)):
        config = yield from _asked_anew(config, options)
        step = choose((yield from look(agent, config)), plan)
    written = config
    for write in step.writes:
        written = yield _Ask("update_state", (written, write.values, write.node))
    if step.writes:
        config = _newest(config)
    if not step.runs:
        snapshot = yield _Ask("get_state", (config,))
        return snapshot.values
    result = yield _Ask("invoke", (step.input, config), options)
    return result


def _is_past(config: RunnableConfig) -> Flow[bool]:
    moment = config["configurable"].get("checkpoint_id")
    if moment is None:
        return False
    newest = yield _Ask("get_state", (_newest(config),))
    return bool(newest.config["configurable"]["checkpoint_id"] != moment)


def _asked_anew(config: RunnableConfig, options: Mapping[str, Any]) -> Flow[RunnableConfig]:
    """A branch in which the questions of an earlier moment are open again.

    LangGraph keeps an answer with its question: a second one at the same moment would be ignored.
    """
    yield _Ask("update_state", (config, None, COPY))
    config = _newest(config)
    yield _Ask("invoke", (None, config), options)
    return config


def _plan(agent: Any) -> Topology | None:
    """The agent's plan; None for a graph around agents, whose questions can be answered too."""
    try:
        return topology_of(agent)
    except ArgumentError:
        return None


def _newest(config: RunnableConfig) -> RunnableConfig:
    """The config without an earlier moment: what was written is now the newest."""
    kept = {k: v for k, v in config["configurable"].items() if k != "checkpoint_id"}
    return {**config, "configurable": kept}


def _of_thread(agent: Any, config: RunnableConfig) -> RunnableConfig:
    """The config, with what the agent itself is bound to."""
    if not getattr(agent, "checkpointer", None):
        raise NoThread(
            "agent", "has no checkpointer, so no thread waits.", "Build it with checkpointer=..."
        )
    bound = (agent.config or {}).get("configurable", {})
    configurable = {**bound, **config.get("configurable", {})}
    if "thread_id" not in configurable:
        raise NoThread("config", "names no thread.", "Give {'configurable': {'thread_id': ...}}.")
    return {**config, "configurable": configurable}
