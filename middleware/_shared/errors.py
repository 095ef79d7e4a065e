"""What is told of an exception: to a model, which has no use for a traceback, or to a person."""

from __future__ import annotations

import inspect
from typing import Any

from agent_factory import TurnError

LONGEST_REASON = 1000
"""Characters of an exception's text. A provider's message fits; a web server's error page, which
would fill the window at every failure, does not."""


def format_error(error: Exception) -> str:
    """An exception in one line or a few: its type, and the beginning of what it says.

    >>> format_error(ConnectionError("the line is dead"))
    'ConnectionError: the line is dead'
    """
    kind = type(error).__name__
    try:
        text = str(error).strip()
    except Exception:  # an exception too broken to be read is still to be named
        return kind
    # A lone surrogate could not be sent to any provider, nor be written to a checkpoint.
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) > LONGEST_REASON:
        text = f"{text[:LONGEST_REASON]}..."
    return f"{kind}: {text}" if text else kind


def is_async(function: Any) -> bool:
    """Whether a function, or an object that is called like one, gives a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004  # its kind is asked, not whether
    )


def checked_text(owner: str, argument: str, text: Any) -> str:
    """What a user's function gave, where a text is needed.

    Raises:
        TurnError: It is something else.
    """
    if isinstance(text, str):
        return text
    raise TurnError(
        f"{owner} {argument}",
        f"gave {type(text).__name__}, and a text is needed.",
        "Return a str.",
    )
