"""What writes a summary: a model, a runnable or a function, invoked in one way."""

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
    """Whether a chat model answers, perhaps with retries, fallbacks or bound arguments."""
    if isinstance(runnable, BaseLanguageModel):
        return True
    inner = getattr(runnable, "bound", None) or getattr(runnable, "runnable", None)
    return isinstance(inner, Runnable) and is_model(inner)


def as_runnable(summarizer: Any) -> Runnable[Any, Any]:
    """A summarizer in any of its forms as something that can be invoked in either colour.

    Raises:
        TypeError: It is none.
        ImportError: It is a string and langchain is not installed.
    """
    if isinstance(summarizer, str):
        return init_model(summarizer)
    if isinstance(summarizer, Runnable):
        return summarizer
    if not callable(summarizer):
        raise TypeError(
            "summarizer must be a model, a runnable or a function on a list of messages, not "
            f"{summarizer!r}."
        )
    if iscoroutinefunction(summarizer) or iscoroutinefunction(
        getattr(summarizer, "__call__", None)  # noqa: B004  # its colour is asked, not its kind
    ):
        return RunnableLambda(_refuse_sync, afunc=summarizer)
    return RunnableLambda(summarizer)


def _refuse_sync(messages: Any) -> str:
    raise TypeError(
        "The summarizer is a coroutine function, and this run is synchronous. Use ainvoke or "
        "astream, or give a plain function."
    )


def text_of(answer: Any) -> str:
    """What a summarizer said, without its reasoning.

    Raises:
        TypeError: It returned neither text nor a message.
    """
    if isinstance(answer, BaseMessage):
        answer = str(answer.text)
    if not isinstance(answer, str):
        raise TypeError(f"The summarizer must return text or a message, not {answer!r}.")
    return answer.strip()
