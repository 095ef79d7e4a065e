"""Decide about the tool calls of a paused thread, so that its history stays one a model may see.

>>> from agent_factory.review import approve, edit, pending, reject

It serves a run that stopped by `interrupt_before` or `interrupt_after`, one that
HumanInTheLoopMiddleware stopped, and one in which something called `interrupt()`.

What is written is a value, made by `steps` of what `waiting` reads, and `carry` carries it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig

from agent_factory.hooks.flows import arun, run
from agent_factory.review.errors import (
    DecideTogether,
    DecisionNotAllowed,
    NothingPending,
    NoThread,
    ReviewError,
    UnknownCall,
)
from agent_factory.review.execution import act, in_async, in_sync, look
from agent_factory.review.pending_calls import Decision, Pending, PendingCall
from agent_factory.review.planning import Choice, adding, deciding, deciding_all

__all__ = [
    "DecideTogether",
    "Decision",
    "DecisionNotAllowed",
    "NoThread",
    "NothingPending",
    "Pending",
    "PendingCall",
    "ReviewError",
    "UnknownCall",
    "aadd_input",
    "aapprove",
    "add_input",
    "adecide",
    "aedit",
    "apending",
    "approve",
    "areject",
    "arespond",
    "decide",
    "edit",
    "pending",
    "reject",
    "respond",
]


def pending(agent: Any, config: RunnableConfig) -> Pending:
    """What a paused thread waits for; false where it waits for nothing.

    Args:
        agent: An agent with a checkpointer.
        config: A config with the `thread_id`, and a `checkpoint_id` for an earlier moment.

    Raises:
        NoThread: The agent keeps no threads, or the config names none.
    """
    found: Pending = run(look(agent, config), in_sync(agent))
    return found


async def apending(agent: Any, config: RunnableConfig) -> Pending:
    """As `pending`, awaited."""
    found: Pending = await arun(look(agent, config), in_async(agent))
    return found


def approve(agent: Any, config: RunnableConfig, call_id: str | None = None, **options: Any) -> Any:
    """Let calls run as they are, or let a run go on that stopped with no call in view.

    Where several calls wait, the decision about one of them is noted, and the run goes on when all
    are decided. Calls that are asked about one by one go on one by one.

    Args:
        agent: An agent with a checkpointer.
        config: A config with the `thread_id`.
        call_id: The call; None for all that are open.
        **options: Handed on to the agent's `invoke`, such as `context`.

    Returns:
        What the agent's `invoke` returns; where the thread still waits for decisions, its state.

    Raises:
        ReviewError: Nothing waits, no call has this id, or it may not be approved.

    >>> from langgraph.checkpoint.memory import InMemorySaver
    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> def add(a: int, b: int) -> int:
    ...     "Add two numbers."
    ...     return a + b
    >>> agent = create_agent(
    ...     ScriptedChatModel([[{"name": "add", "args": {"a": 2, "b": 3}}], "It is 5."]),
    ...     [add],
    ...     checkpointer=InMemorySaver(),
    ...     interrupt_before=["tools"],
    ... )
    >>> thread = {"configurable": {"thread_id": "1"}}
    >>> _ = agent.invoke({"messages": [("user", "2 + 3?")]}, thread)
    >>> [(call.name, call.args) for call in pending(agent, thread).calls]
    [('add', {'a': 2, 'b': 3})]
    >>> approve(agent, thread)["messages"][-1].text
    'It is 5.'
    """
    return run(act(agent, config, _approving(call_id), options), in_sync(agent))


async def aapprove(
    agent: Any, config: RunnableConfig, call_id: str | None = None, **options: Any
) -> Any:
    """As `approve`, awaited."""
    return await arun(act(agent, config, _approving(call_id), options), in_async(agent))


def reject(
    agent: Any,
    config: RunnableConfig,
    message: str | None = None,
    call_id: str | None = None,
    **options: Any,
) -> Any:
    """Do not run calls; the model reads why, as their result, and goes on.

    Args:
        agent: An agent with a checkpointer.
        config: A config with the `thread_id`.
        message: What the model reads; None for a text that says that a reviewer rejected the call.
        call_id: The call; None for all that are open.
        **options: Handed on to the agent's `invoke`.

    Returns:
        As `approve`.

    Raises:
        ReviewError: As `approve`.
    """
    return run(act(agent, config, _rejecting(message, call_id), options), in_sync(agent))


async def areject(
    agent: Any,
    config: RunnableConfig,
    message: str | None = None,
    call_id: str | None = None,
    **options: Any,
) -> Any:
    """As `reject`, awaited."""
    return await arun(act(agent, config, _rejecting(message, call_id), options), in_async(agent))


def edit(
    agent: Any,
    config: RunnableConfig,
    args: Mapping[str, Any],
    call_id: str | None = None,
    *,
    name: str | None = None,
    **options: Any,
) -> Any:
    """Run a call with other arguments, or another call in its place.

    Where `interrupt_before` or `interrupt_after` stopped the run, the model takes the new call for
    its own; HumanInTheLoopMiddleware tells the model what was changed.

    Args:
        agent: An agent with a checkpointer.
        config: A config with the `thread_id`.
        args: All arguments of the call.
        call_id: The call; None where only one is open.
        name: Another tool.
        **options: Handed on to the agent's `invoke`.

    Returns:
        As `approve`.

    Raises:
        ArgumentError: The arguments are no dict.
        ReviewError: As `approve`, or several calls are open and `call_id` names none.
    """
    return run(act(agent, config, _editing(args, name, call_id), options), in_sync(agent))


async def aedit(
    agent: Any,
    config: RunnableConfig,
    args: Mapping[str, Any],
    call_id: str | None = None,
    *,
    name: str | None = None,
    **options: Any,
) -> Any:
    """As `edit`, awaited."""
    return await arun(act(agent, config, _editing(args, name, call_id), options), in_async(agent))


def respond(
    agent: Any, config: RunnableConfig, answer: Any, call_id: str | None = None, **options: Any
) -> Any:
    """Answer in a tool's place, answer what an `interrupt()` asks, or change a tool's result.

    A call that is answered does not run. Where a tool asks by `interrupt()`, the answer is what
    that call returns, and the tool runs again from its start. Where the run stopped after its
    tools, the answer is what the model reads as the result.

    Args:
        agent: An agent with a checkpointer.
        config: A config with the `thread_id`.
        answer: A text; for an `interrupt()`, anything it takes.
        call_id: The call, or the id of an interrupt; None where only one is open.
        **options: Handed on to the agent's `invoke`.

    Returns:
        As `approve`.

    Raises:
        ArgumentError: The result of a call is no text.
        ReviewError: As `approve`, or several calls are open and `call_id` names none.
    """
    return run(act(agent, config, _responding(answer, call_id), options), in_sync(agent))


async def arespond(
    agent: Any, config: RunnableConfig, answer: Any, call_id: str | None = None, **options: Any
) -> Any:
    """As `respond`, awaited."""
    return await arun(act(agent, config, _responding(answer, call_id), options), in_async(agent))


def decide(
    agent: Any, config: RunnableConfig, decisions: Mapping[str, Decision], **options: Any
) -> Any:
    """Decide about several calls at once, each in its own way.

    Args:
        agent: An agent with a checkpointer.
        config: A config with the `thread_id`.
        decisions: For the id of each call a decision as HumanInTheLoopMiddleware takes it, such
            as `{"type": "reject", "message": "Too much."}`.
        **options: Handed on to the agent's `invoke`.

    Returns:
        As `approve`.

    Raises:
        ReviewError: As `approve`.
    """
    return run(act(agent, config, deciding_all(decisions), options), in_sync(agent))


async def adecide(
    agent: Any, config: RunnableConfig, decisions: Mapping[str, Decision], **options: Any
) -> Any:
    """As `decide`, awaited."""
    return await arun(act(agent, config, deciding_all(decisions), options), in_async(agent))


def add_input(agent: Any, config: RunnableConfig, input: Any, **options: Any) -> Any:
    """The user writes on: what waits does not run, and a new turn begins.

    Each call that waits is answered with an error that says so; what ran beside it is kept.

    Args:
        agent: An agent with a checkpointer.
        config: A config with the `thread_id`.
        input: A text, a message, a list of messages, or an input of the agent with `messages`.
        **options: Handed on to the agent's `invoke`.

    Returns:
        What the agent's `invoke` returns.

    Raises:
        ArgumentError: The input is no message.
        NothingPending: The thread waits for nothing; `invoke` is the way to write.
        NoThread: The agent keeps no threads, or the config names none.
    """
    return run(act(agent, config, adding(input), options), in_sync(agent))


async def aadd_input(agent: Any, config: RunnableConfig, input: Any, **options: Any) -> Any:
    """As `add_input`, awaited."""
    return await arun(act(agent, config, adding(input), options), in_async(agent))


def _approving(call_id: str | None) -> Choice:
    return deciding("approve", call_id, lambda _: {"type": "approve"})


def _rejecting(message: str | None, call_id: str | None) -> Choice:
    decision = {"type": "reject"} if message is None else {"type": "reject", "message": message}
    return deciding("reject", call_id, lambda _: decision)


def _editing(args: Mapping[str, Any], name: str | None, call_id: str | None) -> Choice:
    return deciding(
        "edit",
        call_id,
        lambda call: {"type": "edit", "edited_action": {"name": name or call.name, "args": args}},
    )


def _responding(answer: Any, call_id: str | None) -> Choice:
    return deciding("respond", call_id, lambda _: {"type": "respond", "message": answer})
