"""A summarizer in any of its forms: a model, a runnable or a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableLambda

from agent_factory import init_model
from agent_factory.middleware._shared.errors import is_async

Summarizer = (
    str
    | Runnable[Any, Any]
    | Callable[[list[AnyMessage]], str | BaseMessage]
    | Callable[[list[AnyMessage]], Awaitable[str | BaseMessage]]
)
"""A model by name or object, a runnable, or a function on a list of messages."""


def is_model(runnable: Runnable[Any, Any]) -> bool:
    """Whether it is a chat model, also with retries, fallbacks or bound arguments."""
    if isinstance(runnable, BaseLanguageModel):
        return True
    inner = getattr(runnable, "bound", None) or getattr(runnable, "runnable", None)
    return isinstance(inner, Runnable) and is_model(inner)


def as_runnable(summarizer: Any) -> Runnable[Any, Any]:
    """A summarizer as a runnable that can be invoked sync and async."""
    if isinstance(summarizer, str):
        return init_model(summarizer)
    if isinstance(summarizer, Runnable):
        return summarizer
    if not callable(summarizer):
        raise TypeError(
            "summarizer must be a model, a runnable or a function of a list of messages, got "
            f"{summarizer!r}."
        )
    if not is_async(summarizer):
        return RunnableLambda(summarizer)

    def raise_in_sync_run(messages: Any) -> str:
        raise TypeError(
            "The summarizer is a coroutine function, and this run is synchronous. Use ainvoke or "
            "astream, or pass a plain function."
        )

    return RunnableLambda(raise_in_sync_run, afunc=summarizer)


def text_of(answer: Any) -> str:
    """The text that a summarizer returned, without reasoning."""
    if isinstance(answer, BaseMessage):
        answer = str(answer.text)
    if not isinstance(answer, str):
        raise TypeError(f"The summarizer must return a string or a message, got {answer!r}.")
    return answer.strip()
