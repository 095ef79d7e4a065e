"""Send something to an agent during a run: a message, a follow-up, a cancellation."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from agent_factory import Flow, arun, run
from agent_factory.errors import ArgumentError, describe
from agent_factory.middleware._shared.mailbox import STEERING_READ, WAITS, Mailbox, admitted
from agent_factory.review import NoThread
from agent_factory.review.steps import thread_config

from .middleware import Kind


def steer(agent: object, config: RunnableConfig, message: str | HumanMessage) -> str:
    """Send a message to an agent, which reads it at the next call of the model, exactly once.

    Call it from any thread or process with an agent on the same saver. Messages are read in
    the order of arrival, after the results of the tools. Without a run under way, the next
    run of the thread reads them.

    Args:
        agent: An agent with SteeringMiddleware and a checkpointer, or the graph around it.
        config: A config with the `thread_id`. For an agent inside of another graph, also with the
            `checkpoint_ns` of the inner agent. With a `checkpoint_id`, the message belongs to that
            checkpoint and its descendants; without, to the newest.
        message: A text, or a HumanMessage.

    Returns:
        The id of the message in the thread.

    Raises:
        ArgumentError: The agent has no SteeringMiddleware, or the message is not a user's.
        NoThread: The agent has no checkpointer, the config no `thread_id`, or the thread no
            checkpoint, also half a second later: a new run stores its first one soon.
        Exception: A guard of the agent refuses the message, such as PIIMiddleware with "block".

    >>> from agent_factory import create_agent
    >>> from agent_factory.middleware import SteeringMiddleware
    >>> from agent_factory.testing import ScriptedChatModel
    >>> from langgraph.checkpoint.memory import InMemorySaver
    >>> def search(query: str) -> str:
    ...     "Search. The user says something meanwhile."
    ...     _ = steer(agent, thread, "In euros, please.")
    ...     return "12 dollars"
    >>> agent = create_agent(
    ...     ScriptedChatModel([[{"name": "search", "args": {"query": "price"}}], "11 euros."]),
    ...     [search],
    ...     middleware=[SteeringMiddleware()],
    ...     checkpointer=InMemorySaver(),
    ... )
    >>> thread = {"configurable": {"thread_id": "1"}}
    >>> result = agent.invoke({"messages": "What does it cost?"}, thread)
    >>> [message.text for message in result["messages"][2:]]
    ['12 dollars', 'In euros, please.', '11 euros.']
    """
    return run(_send(agent, config, "steer", message))


async def asteer(agent: object, config: RunnableConfig, message: str | HumanMessage) -> str:
    """Async variant of `steer`."""
    return await arun(_send(agent, config, "steer", message))


def follow_up(agent: object, config: RunnableConfig, message: str | HumanMessage) -> str:
    """Send a message for the end of the run; the run goes on with it.

    A run is about to end when the model answers without tool calls, or with the structured answer.
    Several messages are read one after the other, each after the answer before. A run that ends
    otherwise, at a limit for example, leaves them for the next run; so does an ended run.

    Args:
        agent: As in `steer`.
        config: As in `steer`.
        message: As in `steer`.

    Returns:
        The id of the message in the thread.

    Raises:
        ArgumentError: As `steer`.
        NoThread: As `steer`.
    """
    return run(_send(agent, config, "follow_up", message))


async def afollow_up(agent: object, config: RunnableConfig, message: str | HumanMessage) -> str:
    """Async variant of `follow_up`."""
    return await arun(_send(agent, config, "follow_up", message))


def cancel(agent: object, config: RunnableConfig) -> None:
    """End the run of a thread at its next step.

    Running tools are left to end, and calls before their start are answered as cancelled. The
    last message of the thread says that the run was cancelled. A paused run, or a run of a dead
    process, ends when it is resumed. A later run is not cancelled.

    Args:
        agent: As in `steer`.
        config: As in `steer`.

    Raises:
        ArgumentError: The agent has no SteeringMiddleware.
        NoThread: As `steer`.
    """
    run(_send(agent, config, "cancel"))


async def acancel(agent: object, config: RunnableConfig) -> None:
    """Async variant of `cancel`."""
    await arun(_send(agent, config, "cancel"))


def _send(agent: Any, config: RunnableConfig, kind: Kind, content: Any = None) -> Flow[str]:
    message = HumanMessage(content) if isinstance(content, str) else content
    if kind != "cancel" and not isinstance(message, HumanMessage):
        reason = f"must be a string or a HumanMessage, got {describe(message)}."
        raise ArgumentError("message", reason, 'Pass "..." or HumanMessage([...]).')
    configurable = thread_config(agent, config)["configurable"]
    namespace = configurable.get("checkpoint_ns") or ""
    # An agent inside of another graph may have a middleware unknown here.
    if not namespace and STEERING_READ not in agent.channels:
        raise ArgumentError(
            f"agent {agent.name!r}" if agent.name else "the agent",
            "must have SteeringMiddleware, which reads what is sent to it.",
            "Write create_agent(..., middleware=[SteeringMiddleware(), ...]).",
        )
    if not isinstance(saver := agent.checkpointer, BaseCheckpointSaver):
        raise NoThread(
            "agent",
            f"must have a saver as its checkpointer, got {describe(saver)}.",
            "Pass the graph around the agent, whose saver it uses.",
        )
    mailbox = Mailbox(saver, str(configurable["thread_id"]), namespace)
    checkpoint_id = configurable.get("checkpoint_id") or ""
    checkpoint = yield from mailbox.checkpoint(checkpoint_id, WAITS)
    if checkpoint is None:
        where = f" {checkpoint_id!r}" if checkpoint_id else ""
        raise NoThread(
            f"thread {mailbox.thread!r}",
            f"does not exist: the checkpointer has no checkpoint{where} of it.",
            "Check the config, or start the thread with invoke().",
        )
    if message is not None:
        path = "|".join(part.partition(":")[0] for part in mailbox.agent.split("|"))
        graphs = dict(agent.get_subgraphs(namespace=path, recurse=True)) if path else {"": agent}
        message, error = admitted(graphs.get(path), message)
        if error is not None:
            raise error
    return (yield from mailbox.post(kind, checkpoint.checkpoint["id"], message))
