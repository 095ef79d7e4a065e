"""Mailbox of a thread: what was sent to its agent, kept by the saver beside the thread.

It is one checkpoint in a namespace that no graph has, so that the history of the thread does not
show it and `delete_thread` deletes it. Each entry is a write to that checkpoint by a task that
nothing else has, so that no sender overwrites what another one has sent. Nothing is ever removed:
what a thread has read is noted in its state, together with the messages.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from agent_factory import Flow, Invoke
from agent_factory.types import graph_namespace, saver_of

Kind = Literal["steer", "follow_up", "cancel"]

NAMESPACE: Final = "agent_factory:mailbox"

_CHECKPOINT_ID: Final = "00000000-0000-6000-8000-000000000000"
"""Sorts before all ids that LangGraph makes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What was sent to an agent.

    Attributes:
        id: Its id, which is that of its message too.
        kind: How it was sent.
        number: One more than the highest that the sender has seen. So an entry follows all that
            were stored before it was sent, whatever the clocks of their senders say.
        message: The message; None for a cancellation.
        after: The newest stored checkpoint of the thread when a cancellation was sent.
    """

    id: str
    kind: Kind
    number: int
    message: HumanMessage | None = None
    after: str = ""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a saver in the form that `Invoke` takes."""

    saver: BaseCheckpointSaver[Any]
    name: str

    def invoke(self, input: tuple[Any, ...], config: object = None) -> Any:
        return getattr(self.saver, self.name)(*input)

    async def ainvoke(self, input: tuple[Any, ...], config: object = None) -> Any:
        return await getattr(self.saver, f"a{self.name}")(*input)


@dataclass(frozen=True, slots=True)
class Mailbox:
    """The mailbox of an agent in a thread.

    Args:
        saver: The saver of the thread.
        thread: The id of the thread.
        agent: The namespace of the agent in the thread; empty for the outermost graph.
    """

    saver: BaseCheckpointSaver[Any]
    thread: str
    agent: str = ""

    @property
    def _place(self) -> dict[str, str]:
        namespace = f"{self.agent}|{NAMESPACE}" if self.agent else NAMESPACE
        return {"thread_id": self.thread, "checkpoint_ns": namespace}

    def newest_checkpoint(self) -> Flow[str | None]:
        """Return the id of the newest checkpoint of the agent; None if there is none."""
        place = {"thread_id": self.thread, "checkpoint_ns": self.agent}
        stored = yield from self._read(place)
        return stored and stored.checkpoint["id"]

    def entries(self) -> Flow[list[Entry] | None]:
        """Return all entries in order; None if nothing was ever sent."""
        stored = yield from self._read({**self._place, "checkpoint_id": _CHECKPOINT_ID})
        if stored is None:
            return None
        entries = [
            Entry(task, cast("Kind", kind), **fields)
            for task, kind, fields in stored.pending_writes or ()
        ]
        return sorted(entries, key=lambda entry: (entry.number, entry.id))

    def post(
        self,
        entries: Sequence[Entry] | None,
        kind: Kind,
        message: HumanMessage | None = None,
        after: str = "",
    ) -> Flow[str]:
        """Add an entry to those that the mailbox has, and return its id."""
        place = self._place
        if entries is None:
            # Several senders may do this at once: they store the same.
            checkpoint = {**empty_checkpoint(), "id": _CHECKPOINT_ID}
            metadata = {"source": "update", "step": -1, "parents": {}}
            yield Invoke(
                Method(self.saver, "put"), ({"configurable": place}, checkpoint, metadata, {})
            )
        id = str(uuid6())
        fields: dict[str, object] = {
            "number": 1 + max((entry.number for entry in entries or ()), default=0)
        }
        if message is not None:
            # With this id, LangGraph would replace a message that the thread has.
            fields["message"] = message.model_copy(update={"id": id})
        if after:
            fields["after"] = after
        config = {"configurable": {**place, "checkpoint_id": _CHECKPOINT_ID}}
        yield Invoke(Method(self.saver, "put_writes"), (config, [(kind, fields)], id))
        return id

    def _read(self, place: dict[str, str]) -> Flow[CheckpointTuple | None]:
        stored: CheckpointTuple | None = yield Invoke(
            Method(self.saver, "get_tuple"), ({"configurable": place},)
        )
        return stored


def mailbox_of(config: RunnableConfig) -> Mailbox | None:
    """The mailbox of the agent that a node belongs to; None if the run has no saver."""
    saver = saver_of(config)
    if saver is None:
        return None
    thread = str(config["configurable"]["thread_id"])
    return Mailbox(saver, thread, "|".join(graph_namespace(config)))


def unread_entries(config: RunnableConfig, read_ids: Collection[str]) -> Flow[list[Entry]]:
    """Return the entries that the agent of a node has not read, in order."""
    mailbox = mailbox_of(config)
    if mailbox is None:
        return []
    entries = yield from mailbox.entries()
    ids = frozenset(read_ids)
    return [entry for entry in entries or () if entry.id not in ids]
