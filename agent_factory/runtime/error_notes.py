"""Notes on errors of user code that a common slip causes: they say what to write."""

from __future__ import annotations

from inspect import iscoroutine

from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore

_STORE_METHODS = frozenset(name for name in vars(BaseStore) if not name.startswith("_"))


def add_notes(error: Exception, context_schema: type[object] | None) -> None:
    """Add a note to an error that a missing `await`, context or store causes.

    A note keeps the type of the error, and unlike a wrapper it adds no frame to the traceback.
    """
    source = getattr(error, "obj", None)
    if isinstance(error, AttributeError) and iscoroutine(source):
        note: str | None = (
            "A coroutine was not awaited. Write `await`, as in `await handler(request)`."
        )
    else:
        note = _missing_context(error, context_schema) or _missing_store(error)
    # An agent that is a tool of this one may have added it.
    if note is not None and note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _missing_context(error: Exception, schema: type[object] | None) -> str | None:
    if schema is None or get_runtime().context is not None:
        return None
    source, name = getattr(error, "obj", None), getattr(error, "name", None)
    fields = [(*vars(c), *vars(c).get("__annotations__", ())) for c in schema.__mro__]
    is_field = isinstance(error, AttributeError) and any(name in names for names in fields)
    unread = isinstance(error, TypeError) and str(error).startswith("'NoneType' object is not sub")
    if not unread and not (is_field and source is None):
        return None
    return f"This run has no context. Pass one: agent.invoke(..., context={schema.__name__}(...))."


def _missing_store(error: Exception) -> str | None:
    if not isinstance(error, AttributeError) or error.obj is not None:
        return None
    traceback = error.__traceback__
    if error.name not in _STORE_METHODS or traceback is None or get_runtime().store is not None:
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    # `get` is a method of many objects: the line must be in code that reads a store.
    code = traceback.tb_frame.f_code
    if "store" not in (*code.co_names, *code.co_varnames, *code.co_freevars):
        return None
    return "This agent has no store. Pass one: create_agent(..., store=InMemoryStore())."
