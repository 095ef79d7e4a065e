"""Notes on errors of user code that a common slip causes: they say what to write."""

from __future__ import annotations

from inspect import iscoroutine
from typing import Any

from langgraph.runtime import get_runtime


def add_notes(error: Exception, context_schema: type[Any] | None) -> None:
    """Add a note to an error that a missing `await` or a missing context causes.

    A note keeps the type of the error, and unlike a wrapper it adds no frame to the traceback.
    """
    source, name = getattr(error, "obj", None), getattr(error, "name", None)
    if isinstance(error, AttributeError) and iscoroutine(source):
        error.add_note(
            "A coroutine was not awaited. Write `await`, as in `await handler(request)`."
        )
    if context_schema is None or get_runtime().context is not None:
        return
    known = [(*vars(c), *vars(c).get("__annotations__", ())) for c in context_schema.__mro__]
    is_field = isinstance(error, AttributeError) and any(name in names for names in known)
    is_key = isinstance(error, TypeError) and str(error).startswith("'NoneType' object is not sub")
    if is_key or (is_field and source is None):
        error.add_note(
            "This run has no context. Pass one: "
            f"agent.invoke(..., context={context_schema.__name__}(...))."
        )
