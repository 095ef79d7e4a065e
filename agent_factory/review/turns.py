"""A turn that is safe to call again: for a queue that may call twice, or after a crash."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.constants import START

from agent_factory.errors import ArgumentError, describe
from agent_factory.hooks.flows import Flow
from agent_factory.review.steps import (
    Reviews,
    apply,
    is_paused,
    plan_decisions,
    plan_input,
    thread_config,
)
from agent_factory.upstream import INTERRUPT

_TURN = "turn"
"""Key in the metadata of checkpoints: the id of the message that the run answers."""


def turn(
    agent: Any,
    config: RunnableConfig,
    message: BaseMessage,
    decisions: Mapping[str, object],
    options: Mapping[str, object],
    *,
    prefix: str,
) -> Flow[Any]:
    """Bring a turn to its end or to its next pause, wherever the turn stands."""
    if not isinstance(message, BaseMessage) or not message.id:
        reason = f"must be a message with an id, got {describe(message)}."
        raise ArgumentError("message", reason, "Pass HumanMessage('Hello', id='m-1').")
    config = thread_config(agent, config)
    config = {**config, "metadata": {**(config.get("metadata") or {}), _TURN: message.id}}
    # An answer of the model is stored before its tools run.
    options = {"durability": "sync", **options}
    invoke = partial(getattr(agent, f"{prefix}invoke"), config=config, **options)
    snapshot, pending = yield from Reviews.of(agent).read(prefix, config)
    begun = snapshot
    # Writes that end an earlier turn may be all that this turn has stored.
    while begun.parent_config and (begun.metadata or {}).get("source") == "update":
        begun = yield getattr(agent, f"{prefix}get_state")(begun.parent_config)
    is_last = (begun.metadata or {}).get(_TURN) == message.id
    if not is_last and all(one.id != message.id for one in snapshot.values.get("messages", ())):
        if snapshot.tasks and START not in snapshot.next:
            planner = plan_input(message)
            return (yield from apply(agent, config, planner, {**options}, prefix=prefix))
        return (yield invoke({"messages": [message]}))
    if is_last and snapshot.tasks and not is_paused(agent, snapshot):
        return (yield invoke(None))
    # An id of a call may come again, a digest does not.
    waiting = {call.digest for call in pending.open} if is_last else ()
    if new := {digest: decisions[digest] for digest in decisions if digest in waiting}:
        planner = partial(plan_decisions, new=new)
        thread = snapshot, pending
        return (yield from apply(agent, config, planner, {**options}, prefix=prefix, thread=thread))
    return {**snapshot.values, **({INTERRUPT: s} if (s := [*snapshot.interrupts]) else {})}
