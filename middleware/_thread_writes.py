"""Layers that write messages to the thread in one step, without undoing each other's work.

A request passes the layers from the outside in, but their updates are applied from the inside out.
An outer layer that rewrote a message which an inner one then removed would bring it back, at the
end of the thread. So the inner layer's word stands: it leaves a note with the request, and the
outer one holds back what it would write to the same messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage

from agent_factory import ModelRequest

_NOTE = "messages_written_inside"


def with_note(request: ModelRequest[Any]) -> tuple[ModelRequest[Any], set[str | None]]:
    """The request with a note for the layers inside, and the note: ids of messages.

    The note travels in the state that the layers read; it is never written to the thread.
    """
    state: Any = request.state
    note: set[str | None] | None = state.get(_NOTE)
    if note is not None:
        return request, note
    note = set()
    return request.override(state={**state, _NOTE: note}), note


def not_yet_written(updates: Sequence[BaseMessage], note: set[str | None]) -> list[BaseMessage]:
    """The updates to messages that no layer inside has written; the note then holds them too."""
    mine = [update for update in updates if update.id not in note]
    note.update(update.id for update in mine)
    return mine


def rewritten(request: ModelRequest[Any], messages: Sequence[AnyMessage]) -> list[BaseMessage]:
    """What to write so that the thread shows these messages instead of the request's.

    Messages that the thread does not hold are for one call only, and so is their order.
    """
    stored = {message.id for message in request.state.get("messages", ()) if message.id}
    before = {message.id: message for message in request.messages if message.id in stored}
    after = {message.id: message for message in messages}
    changed = [m for key, m in after.items() if key in before and m is not before[key]]
    removed = [RemoveMessage(id=str(key)) for key in before if key not in after]
    return [*changed, *removed]
