"""A summarizer in any of its forms: a model, a runnable or a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableLambda

from agent_factory import init_model

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
    """A summarizer as a runnable that can be invoked sync and async.

    Raises:
        TypeError: It has another type.
        ImportError: It is a string and langchain is not installed.
    """
    if isinstance(summarizer, str):
        return init_model(summarizer)
    if isinstance(summarizer, Runnable):
        return summarizer
    if not callable(summarizer):
        raise TypeError(
            "summarizer must be a model, a runnable or a function of a list of messages, got "
            f"{summarizer!r}."
        )

    def raise_in_sync_run(messages: Any) -> str:
        raise TypeError(
            "The summarizer is a coroutine function, and this run is synchronous. Use ainvoke or "
            "astream, or pass a plain function."
        )

    call = getattr(summarizer, "__call__", None)  # noqa: B004  # for objects with async __call__
    if iscoroutinefunction(summarizer) or iscoroutinefunction(call):
        return RunnableLambda(raise_in_sync_run, afunc=summarizer)
    return RunnableLambda(summarizer)


def text_of(answer: Any) -> str:
    """The text that a summarizer returned, without reasoning.

    Raises:
        TypeError: It returned neither a string nor a message.
    """
    if isinstance(answer, BaseMessage):
        answer = str(answer.text)
    if not isinstance(answer, str):
        raise TypeError(f"The summarizer must return a string or a message, got {answer!r}.")
    return answer.strip()
