"""Notes on errors of user code after a common slip, with the code to write."""

from __future__ import annotations

from inspect import iscoroutine

from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore

_STORE_METHODS = frozenset(name for name in vars(BaseStore) if not name.startswith("_"))


def add_notes(error: Exception, context_schema: type[object] | None) -> None:
    """Add a note to an error caused by a missing `await`, context or store.

    A note keeps the type of the error, and unlike a wrapper adds no frame to the traceback.
    """
    source, name = getattr(error, "obj", None), getattr(error, "name", None)
    note = None
    if isinstance(error, AttributeError) and iscoroutine(source):
        note = "A coroutine was not awaited. Write `await`, as in `await handler(request)`."
    elif context_schema is not None and get_runtime().context is None:
        fields = [(*vars(c), *vars(c).get("__annotations__", ())) for c in context_schema.__mro__]
        is_field = isinstance(error, AttributeError) and any(name in names for names in fields)
        start = "'NoneType' object is not sub"
        unread = isinstance(error, TypeError) and str(error).startswith(start)
        if unread or (is_field and source is None):
            schema = context_schema.__name__
            note = f"This run has no context. Pass one: agent.invoke(..., context={schema}(...))."
    if note is None and isinstance(error, AttributeError) and source is None:
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        code = traceback and traceback.tb_frame.f_code
        # `get` is a method of many objects: the line must be in code that reads a store.
        reads = code and "store" in (*code.co_names, *code.co_varnames, *code.co_freevars)
        if reads and name in _STORE_METHODS and get_runtime().store is None:
            note = "This agent has no store. Pass one: create_agent(..., store=InMemoryStore())."
    # An agent inside, as a tool, may have added the note already.
    if note is not None and note not in getattr(error, "__notes__", ()):
        error.add_note(note)
