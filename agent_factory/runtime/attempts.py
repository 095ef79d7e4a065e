"""Attempts: the streamed answers of a model call, of which only the last is kept.

A layer may ask a model again after a part of the answer has streamed, for example when the
connection was lost. Readers of the tokens have to know that the first tokens are void.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableBinding, RunnableConfig

from agent_factory.hooks.flows import Flow, NextChunk
from agent_factory.hooks.streams import stream_through
from agent_factory.upstream import streams

_METHODS = ("invoke", "ainvoke", "stream", "astream", "generate", "agenerate")


@dataclass(slots=True)
class _Answer:
    """The streamed part of an answer."""

    start: BaseMessage
    text: str = ""
    is_whole: bool = False

    @property
    def id(self) -> str | None:
        # Read late: LangChain gives a chunk its id when the chunk has passed, and an answer that
        # does not stream its id when the model has returned.
        return self.start.id


class Attempts:
    """The answers of one model call with its layers, while somebody reads the tokens."""

    def __init__(self, write: Callable[[Any], None]) -> None:
        self._write = write
        self._answers: list[_Answer] = []  # answers that may be kept

    def watch(self, model: Any) -> Any:
        """Return a model that marks the answers before as cut off when its own answer begins."""
        inner = model
        while isinstance(inner, RunnableBinding):
            inner = inner.bound
        # Another runnable calls models itself, and the calls stream. A chat model with an
        # own method does more than to ask a provider.
        if not isinstance(inner, BaseChatModel) or any(
            getattr(type(inner), name) is not getattr(BaseChatModel, name) for name in _METHODS
        ):
            return model
        # The answers stay as they are, so a cache may have them.
        return stream_through(model, self.chunks, cache_key="")

    def chunks(self) -> Flow[None]:
        """Pass all chunks of an answer, and note the streamed part."""
        answer: _Answer | None = None
        while (message := (yield NextChunk())) is not None:
            if answer is None:
                self._mark([before for before in self._answers if not before.is_whole])
            yield message
            if answer is None:
                answer = _Answer(message)
                self._answers.append(answer)
            answer.text += message.text
        if answer is not None:
            answer.is_whole = True

    def end(self, kept: Iterable[BaseMessage]) -> None:
        """Mark the answers that are not kept."""
        texts = {message.id: message.text for message in kept}
        answers = [answer for answer in self._answers if answer.is_whole]
        first = len(answers)
        if answers and answers[-1].id in texts:
            first -= 1
            # A layer that lets a model go on joins the streamed parts.
            for start in range(first, -1, -1):
                if "".join(answer.text for answer in answers[start:]) == texts[answers[-1].id]:
                    first = start
        self._mark([answer for answer in self._answers if answer not in answers[first:]])

    def _mark(self, answers: Sequence[_Answer]) -> None:
        for answer in answers:
            self._write({"type": "restarted", "message_id": answer.id})
        self._answers = [answer for answer in self._answers if answer not in answers]


def attempts_in(config: RunnableConfig | None, write: Callable[[Any], None]) -> Attempts | None:
    """Return the attempts of a model call; None if nobody reads its tokens."""
    handlers = getattr((config or {}).get("callbacks"), "handlers", ())
    return Attempts(write) if any(streams(each, "messages") for each in handlers) else None
