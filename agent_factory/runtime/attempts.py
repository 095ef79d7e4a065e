"""Attempts: the answers that a model call has streamed, of which one is kept.

A layer may ask a model again after its answer has streamed in part, for example when the provider
was lost in the middle. Who shows the tokens has to know that those are void.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from agent_factory.hooks.flows import Flow, NextChunk
from agent_factory.hooks.streams import stream_through
from agent_factory.upstream import streams_messages, unbound


class Attempts:
    """The answers of one model call with its layers, while somebody reads its tokens.

    Args:
        write: Writes to the stream "custom".
    """

    def __init__(self, write: Callable[[Any], None]) -> None:
        self._write = write
        self._id: str | None = None  # of the answer that streams, or has streamed last

    def watch(self, model: object) -> Any:
        """Return a model that marks the answer before as void when its own begins."""
        # Another runnable calls its models itself, and those stream.
        if not isinstance(unbound(model), BaseChatModel):
            return model
        # The answers stay as they are, so a cache may have them.
        return stream_through(model, self.chunks, cache_key="")

    def end(self, kept: Iterable[BaseMessage]) -> None:
        """Mark the last answer as void if it is not kept."""
        if self._id not in {message.id for message in kept}:
            self._mark()

    def chunks(self) -> Flow[None]:
        """Pass all chunks of an answer, and note its id."""
        is_first = True
        while (message := (yield NextChunk())) is not None:
            if is_first:
                self._mark()
            is_first = False
            yield message
            # LangChain gives a chunk its id when it has passed.
            self._id = message.id

    def _mark(self) -> None:
        if self._id is not None:
            self._write({"type": "restarted", "message_id": self._id})
            self._id = None


def attempts_in(config: RunnableConfig | None, write: Callable[[Any], None]) -> Attempts | None:
    """Return the attempts of a model call; None if nobody reads its tokens."""
    handlers = getattr((config or {}).get("callbacks"), "handlers", ())
    return Attempts(write) if any(map(streams_messages, handlers)) else None
