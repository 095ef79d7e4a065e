"""MessageGuard: the filter of a middleware for the thread, and for all output of the agent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from langchain_core.messages import AnyMessage
from langchain_core.outputs import ChatGenerationChunk

Admitted: TypeAlias = tuple[Sequence[AnyMessage], Exception | None]
"""Messages in the form to store, and the error that they cause, or None."""


PieceT = TypeVar("PieceT", contravariant=True)
VisibleT = TypeVar("VisibleT", covariant=True)


class Filter(Protocol[PieceT, VisibleT]):
    """Filter of a text in pieces, or of a model's answer in chunks."""

    def feed(self, piece: PieceT, /) -> VisibleT:
        """Add the next piece, and return the part that can be shown now."""

    def close(self) -> VisibleT:
        """End the text or the answer, and return the rest."""


class MessageGuard(Protocol):
    """Guard of the messages of an agent, as the attribute `message_guard` of a middleware.

    The agent passes all messages through `admit` before they enter its thread: the input of a run,
    an update of the state, and the writes of hooks, tools and the model. A guard passes messages
    on that were admitted before.

    Tools work with data that their guard removes later. Data inside of a tool call passes the
    other methods before streams, callbacks and traces show them.
    """

    def admit(self, messages: Sequence[AnyMessage]) -> Admitted:
        """Return the messages in the form to store, and the error that they cause, or None.

        With an error, the input of a run is stored in this form, and the run ends at its first
        node; the update of a hook likewise, at the next node. Other messages with an error are not
        stored.
        """

    def shown(self, value: Any) -> Any:
        """Return a value in the form to show: a text, a message, a result or an exception."""

    def text(self) -> Filter[str, str]:
        """Return a filter for a text in pieces."""

    def answer(self) -> Filter[ChatGenerationChunk, Iterable[ChatGenerationChunk]]:
        """Return a filter for an answer in chunks."""
