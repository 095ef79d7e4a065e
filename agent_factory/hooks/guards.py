"""MessageGuard: what a middleware keeps out of the thread, and out of everything that is shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from langchain_core.messages import AnyMessage
from langchain_core.outputs import ChatGenerationChunk

Admitted: TypeAlias = tuple[Sequence[AnyMessage], Exception | None]
"""Messages as they may be stored, and the error that they cause, or None."""


PieceT = TypeVar("PieceT", contravariant=True)
VisibleT = TypeVar("VisibleT", covariant=True)


class Filter(Protocol[PieceT, VisibleT]):
    """Filter of a text that arrives in pieces, or of a model's answer in chunks."""

    def feed(self, piece: PieceT, /) -> VisibleT:
        """Add the next piece, and return what can be shown now."""

    def close(self) -> VisibleT:
        """End the text or the answer, and return the rest."""


class MessageGuard(Protocol):
    """Guard of the messages of an agent, as the attribute `message_guard` of a middleware.

    The agent passes all messages through `admit` before they enter its thread: the input of a run,
    an update of the state, and what hooks, tools and the model write. A guard passes messages on
    that it has admitted before.

    Tools work with data that their guard removes later. What happens inside of a tool call is
    passed through the other methods before streams, callbacks and traces show it.
    """

    def admit(self, messages: Sequence[AnyMessage]) -> Admitted:
        """Return the messages as they may be stored, and the error that they cause, or None.

        With an error, the input of a run is stored as it is returned, and the run ends at its first
        node; so is the update of a hook, at the next node. All else with an error is not stored.
        """

    def shown(self, value: Any) -> Any:
        """Return a value as it may be shown: a text, a message, a result or an exception."""

    def text(self) -> Filter[str, str]:
        """Return a filter for a text that is shown in pieces."""

    def answer(self) -> Filter[ChatGenerationChunk, Iterable[ChatGenerationChunk]]:
        """Return a filter for an answer that is shown in chunks."""
