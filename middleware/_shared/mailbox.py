"""Mailbox of a thread: messages to its agent, kept by the saver next to the thread.

SteeringMiddleware reads there the messages of people, and BackgroundMiddleware results of jobs. The
mailbox is a checkpoint in a namespace without a graph, so the history of the thread does not show
it and `delete_thread` deletes it. Each entry is a write by a separate task, so no sender overwrites
another. An entry belongs to the branch of the thread that was the newest at its sending.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.config import get_config
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import Runtime

from agent_factory import Flow, Invoke, Sleep
from agent_factory.middleware._shared.invocable import Called
from agent_factory.types import graph_namespace, providing, run_services, saver_of, stores_at_exit

NAMESPACE: Final = "agent_factory:mailbox"

_CHECKPOINT_ID: Final = "00000000-0000-6000-8000-000000000000"
"""Sorts before all ids that LangGraph makes."""

_MOST_ANCESTORS: Final = 100
"""Checkpoints that are read at most to find the branch of an entry. One that was sent longer ago
counts as one of the branch: to read a message twice is better than to lose it."""

BACKGROUND: Final = "background"
"""Source of messages with results of background tools, and the key of what they are about."""

STEERING_READ: Final = "steering_read"
"""Key of the state with the ids of what SteeringMiddleware has read of it."""

READERS: Final = (
    "PIIMiddleware",
    "SummarizationMiddleware",
    "ContextEditingMiddleware",
    "ProgressGuardMiddleware",
    "HumanInTheLoopMiddleware",
)
"""Middleware that read messages of the user: what arrives is added before them."""

WAITS: Final = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256)
"""Seconds to wait for a checkpoint that a run has made and not stored yet: half a second in all."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a mailbox, for an agent."""

    id: str  # of the message, too
    kind: str  # the way of sending
    # One more than the highest number known to the sender. So an entry follows all entries stored
    # before, whatever the clocks of their senders say.
    number: int
    after: str  # the newest stored checkpoint of the thread at the sending
    message: HumanMessage | None = None  # None for a cancellation


@dataclass(frozen=True, slots=True)
class Mailbox:
    """The mailbox of an agent in a thread."""

    saver: BaseCheckpointSaver[Any]
    thread: str
    agent: str = ""  # the namespace in the thread; empty for the outermost graph

    @property
    def _place(self) -> dict[str, str]:
        namespace = f"{self.agent}|{NAMESPACE}" if self.agent else NAMESPACE
        return {"thread_id": self.thread, "checkpoint_ns": namespace}

    def checkpoint(self, id: str = "", waits: Sequence[float] = ()) -> Flow[CheckpointTuple | None]:
        """Return a checkpoint of the agent, the newest without an id; None if not stored.

        `waits` are seconds to wait, one after the other, for a checkpoint: by default,
        LangGraph stores it while the next step runs.
        """
        place = {"thread_id": self.thread, "checkpoint_ns": self.agent}
        place |= {"checkpoint_id": id} if id else {}
        saved_state = yield from self._read(place)
        for seconds in waits:
            if saved_state is not None:
                break
            yield Sleep(seconds)
            saved_state = yield from self._read(place)
        return saved_state

    def entries(self) -> Flow[list[Entry] | None]:
        """Return all entries in order; None if nothing was ever sent."""
        saved_state = yield from self._read({**self._place, "checkpoint_id": _CHECKPOINT_ID})
        if saved_state is None:
            return None
        writes = saved_state.pending_writes or ()
        entries = (Entry(task, kind, **fields) for task, kind, fields in writes)
        return sorted(entries, key=lambda entry: (entry.number, entry.id))

    def post(
        self, kind: str, after: str, message: HumanMessage | None = None, id: str = ""
    ) -> Flow[str]:
        """Add an entry, and return the id: a new id, or `id`, which must be unique."""
        place = self._place
        if (entries := (yield from self.entries())) is None:
            # Several senders may do this at once: they store the same.
            checkpoint = {**empty_checkpoint(), "id": _CHECKPOINT_ID}
            metadata = {"source": "update", "step": -1, "parents": {}}
            arguments: Any = ({"configurable": place}, checkpoint, metadata, {})
            yield Invoke(Called(self.saver.put, async_form=self.saver.aput), arguments)
        id = id or str(uuid6())
        number = 1 + max((entry.number for entry in entries or ()), default=0)
        fields: dict[str, object] = {"number": number, "after": after}
        if message is not None:
            # With this id, LangGraph would replace a message that the thread has.
            fields["message"] = message.model_copy(update={"id": id})
        config = {"configurable": {**place, "checkpoint_id": _CHECKPOINT_ID}}
        put = Called(self.saver.put_writes, async_form=self.saver.aput_writes)
        yield Invoke(put, (config, [(kind, fields)], id))
        return id

    def ancestors(
        self, current: str, oldest: str, waits: Sequence[float]
    ) -> Flow[tuple[set[str], str]]:
        """Return the ids of the ancestors of a checkpoint, back to the time of another.

        With them comes the oldest id whose own ancestors are not known; empty if all are known. Ids
        of checkpoints sort by time.
        """
        ids = {current}
        while current > oldest and len(ids) < _MOST_ANCESTORS:
            if not (parent := _parent(self.thread, self.agent, current)):
                if (saved_state := (yield from self.checkpoint(current, waits))) is None:
                    break
                config: Any = saved_state.parent_config or {}
                parent.append(config.get("configurable", {}).get("checkpoint_id") or "")
            if not parent[0]:
                break
            ids.add(current := parent[0])
            waits = ()  # what has a child is stored, or was deleted
        return ids, "" if current <= oldest else current

    def _read(self, place: dict[str, str]) -> Flow[CheckpointTuple | None]:
        get = Called(self.saver.get_tuple, async_form=self.saver.aget_tuple)
        saved_state: CheckpointTuple | None = yield Invoke(get, ({"configurable": place},))
        return saved_state


@lru_cache(maxsize=10_000)
def _parent(thread: str, agent: str, checkpoint: str) -> list[str]:
    """Place for a checkpoint's parent, which never changes: read once, not in each look."""
    return []


def mailbox_of(config: RunnableConfig) -> Mailbox | None:
    """Return the mailbox of the agent around a node, by the node's config; None without one."""
    if (saver := saver_of(config)) is None:
        return None
    namespace = "|".join(graph_namespace(config))
    return Mailbox(saver, str(config["configurable"]["thread_id"]), namespace)


def admitted(guards: Any, message: HumanMessage) -> tuple[HumanMessage, Exception | None]:
    """Return a message in the form allowed by an agent or guards, and the resulting error."""
    if not hasattr(guards, "admit"):  # such as a graph around agents
        return message, None
    update, error = guards.admit({"messages": [message]})
    return update["messages"][0], error


class RunMailbox(Protocol):
    """Messages for a run that are kept outside of the saver. A service has them in its queue.

    In async runs the method is called in a thread.
    """

    @property
    def thread(self) -> str:
        """The id of the run's thread."""

    def messages(self) -> Mapping[str, HumanMessage]:
        """The waiting messages, in order, by the ids that the thread notes when it reads them."""


@contextmanager
def mailbox_of_run(mailbox: RunMailbox) -> Iterator[None]:
    """Let the agent in the block read messages from a mailbox, as messages of `steer`.

    Applies to the outermost agent of the mailbox's thread. Messages in the saver of that thread
    are not read in the block.

    Args:
        mailbox: The messages for the run.

    >>> from agent_factory import create_agent
    >>> from agent_factory.middleware import SteeringMiddleware
    >>> from agent_factory.testing import ScriptedChatModel
    >>> from langchain_core.messages import HumanMessage
    >>> from langgraph.checkpoint.memory import InMemorySaver
    >>> class Queue:
    ...     thread = "1"
    ...
    ...     def messages(self):
    ...         return {"m-1": HumanMessage("In English.")}
    >>> agent = create_agent(
    ...     ScriptedChatModel(["Yes."]),
    ...     middleware=[SteeringMiddleware()],
    ...     checkpointer=InMemorySaver(),
    ... )
    >>> thread = {"configurable": {"thread_id": "1"}}
    >>> with mailbox_of_run(Queue()):
    ...     result = agent.invoke({"messages": "Hello"}, thread)
    >>> [message.text for message in result["messages"]]
    ['Hello', 'In English.', 'Yes.']
    """
    with providing(mailbox=mailbox):
        yield


@dataclass(frozen=True, slots=True)
class Unseen:
    """Unread entries of an agent, in order."""

    here: Sequence[Entry] = ()  # of the agent's branch of the thread
    elsewhere: Sequence[Entry] = ()  # of other branches

    def of(self, kind: str) -> list[Entry]:
        """Return the entries of the branch that were sent in this way."""
        return [entry for entry in self.here if entry.kind == kind]


def unseen(state: Any, runtime: Runtime[Any] | ToolRuntime[Any, Any], *kinds: str) -> Flow[Unseen]:
    """Return the unread entries of some kinds for the agent of a hook or of a tool."""
    config = runtime.config if isinstance(runtime, ToolRuntime) else get_config()
    ids = frozenset(state.get(STEERING_READ) or ())
    of_run: RunMailbox | None = run_services.get().mailbox
    thread = config.get("configurable", {}).get("thread_id")
    # An agent inside, or an agent of a tool on another thread, has another mailbox.
    if of_run is not None and not graph_namespace(config) and thread == of_run.thread:
        messages: Mapping[str, HumanMessage] = yield Invoke(Called(of_run.messages), ())
        sent = enumerate(messages.items() if "steer" in kinds else ())
        return Unseen([Entry(id, "steer", n, "", m) for n, (id, m) in sent if id not in ids])
    mailbox = mailbox_of(config)
    if mailbox is None or (info := runtime.execution_info) is None:
        return Unseen()
    entries = (yield from mailbox.entries()) or ()
    new = [entry for entry in entries if entry.kind in kinds and entry.id not in ids]
    if not new:
        return Unseen()
    oldest = min(entry.after for entry in new)
    waits = () if stores_at_exit(config) else WAITS
    ancestors, unknown = yield from mailbox.ancestors(info.checkpoint_id, oldest, waits)
    here = [entry for entry in new if entry.after in ancestors or entry.after < unknown]
    return Unseen(here, [entry for entry in new if entry not in here])
