"""Apply a step to an agent: read the state, write to it, invoke the agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig

from agent_factory.errors import ArgumentError
from agent_factory.factory.agent import topology_of
from agent_factory.hooks.flows import Flow, arun, run
from agent_factory.review.errors import NoThread
from agent_factory.review.pending_calls import Pending, read_pending
from agent_factory.review.planning import StepPlanner
from agent_factory.topology.topology import Topology
from agent_factory.upstream import COPY_BRANCH


@dataclass(frozen=True, slots=True)
class _AgentCall:
    """A method of the agent to call; the name of its async variant begins with `a`."""

    method: str
    args: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


def run_sync(agent: Any, flow: Flow[Any]) -> Any:
    """Run a flow that yields calls of the agent's methods."""
    return run(flow, lambda call: getattr(agent, call.method)(*call.args, **call.options))


async def run_async(agent: Any, flow: Flow[Any]) -> Any:
    """Run a flow with the async variants of the agent's methods."""
    return await arun(
        flow, lambda call: getattr(agent, f"a{call.method}")(*call.args, **call.options)
    )


def read_state(agent: Any, config: RunnableConfig) -> Flow[Pending]:
    """Read what a thread waits for.

    Raises:
        NoThread: The agent has no checkpointer, or the config has no `thread_id`.
    """
    snapshot = yield _AgentCall("get_state", (_with_thread(agent, config),))
    return read_pending(snapshot, _topology(agent))


def apply(
    agent: Any, config: RunnableConfig, plan_step: StepPlanner, options: Mapping[str, Any]
) -> Flow[Any]:
    """Plan a step from what the thread waits for, write it, and invoke the agent.

    Raises:
        ReviewError: The step cannot be applied; nothing was written.
    """
    config, topology = _with_thread(agent, config), _topology(agent)
    pending = yield from read_state(agent, config)
    step = plan_step(pending, topology)
    checkpoint_id = config["configurable"].get("checkpoint_id")
    if pending.asks and checkpoint_id is not None:
        newest = yield _AgentCall("get_state", (_latest(config),))
        if newest.config["configurable"]["checkpoint_id"] != checkpoint_id:
            # LangGraph stores an answer with its interrupt, and would ignore a second answer at
            # this checkpoint. So copy the checkpoint, which copies no answers, and let the copy
            # run up to the interrupt.
            yield _AgentCall("update_state", (config, None, COPY_BRANCH))
            config = _latest(config)
            yield _AgentCall("invoke", (None, config), options)
            step = plan_step((yield from read_state(agent, config)), topology)
    written = config
    for write in step.writes:
        written = yield _AgentCall("update_state", (written, write.values, write.node))
    if step.writes:
        config = _latest(config)
    if not step.runs:
        snapshot = yield _AgentCall("get_state", (config,))
        return snapshot.values
    result = yield _AgentCall("invoke", (step.input, config), options)
    return result


def _topology(agent: Any) -> Topology | None:
    """The agent's topology; None for a graph around agents, whose questions can be answered too."""
    try:
        return topology_of(agent)
    except ArgumentError:
        return None


def _latest(config: RunnableConfig) -> RunnableConfig:
    """The config without a `checkpoint_id`, so that it means the newest checkpoint."""
    kept = {k: v for k, v in config["configurable"].items() if k != "checkpoint_id"}
    return {**config, "configurable": kept}


def _with_thread(agent: Any, config: RunnableConfig) -> RunnableConfig:
    """The config, together with the `configurable` that the agent is bound to."""
    if not getattr(agent, "checkpointer", None):
        raise NoThread(
            "agent",
            "must have a checkpointer; without one it keeps no threads.",
            "Build it with create_agent(..., checkpointer=InMemorySaver()).",
        )
    bound = (agent.config or {}).get("configurable", {})
    configurable = {**bound, **config.get("configurable", {})}
    if "thread_id" not in configurable:
        raise NoThread(
            "config", "must have a thread_id.", "Pass {'configurable': {'thread_id': '1'}}."
        )
    return {**config, "configurable": configurable}
