"""Whether a tool was started within a stretch of code, and which.

A layer sees what comes back from further in, and not whether a tool has run for it or another
layer has answered in its place. LangChain reports every start of a tool to the callbacks of the
context it runs in; this listens there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook

_yes = property(lambda _: True)


class ToolStarts(BaseCallbackHandler):
    """Takes down the names of tools as they start.

    Args:
        outer: Who listens around this stretch, and should hear of it as well.
    """

    run_inline = True  # in an asynchronous run too: there is nothing to wait for
    ignore_llm = ignore_chat_model = ignore_chain = _yes
    ignore_retriever = ignore_custom_event = _yes

    def __init__(self, outer: ToolStarts | None = None) -> None:
        self.names: list[str] = []
        self._outer = outer

    def on_tool_start(
        self, serialized: dict[str, Any] | None, input_str: str, **kwargs: Any
    ) -> None:
        """A tool has started."""
        self.names.append(str((serialized or {}).get("name")))
        if self._outer is not None:
            self._outer.on_tool_start(serialized, input_str)


_listening: ContextVar[ToolStarts | None] = ContextVar("tool_starts", default=None)
register_configure_hook(_listening, inheritable=False)


@contextmanager
def tool_starts() -> Iterator[ToolStarts]:
    """Listen for tools that start within a `with` block, in the tasks and threads it leads to.

    >>> from langchain_core.tools import tool
    >>> @tool
    ... def add(a: int, b: int) -> int:
    ...     "Add."
    ...     return a + b
    >>> with tool_starts() as starts:
    ...     sum = add.invoke({"a": 1, "b": 2})
    >>> starts.names
    ['add']
    """
    starts = ToolStarts(_listening.get())
    token = _listening.set(starts)
    try:
        yield starts
    finally:
        _listening.reset(token)
