"""Whether a tool was started within a stretch of code, and which.

A layer sees what comes back from further in, and not whether a tool has run for it or another
layer has answered in its place. LangChain reports every start of a tool to the callbacks of the
context it runs in; this listens there.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook

_yes = property(lambda _: True)


class ToolStarts(BaseCallbackHandler):
    """Takes down the names of tools that start within a `with` block.

    It hears of those in the tasks and threads that the block leads to as well, and so does who
    listens around it.

    >>> from langchain_core.tools import tool
    >>> @tool
    ... def add(a: int, b: int) -> int:
    ...     "Add."
    ...     return a + b
    >>> with ToolStarts() as starts:
    ...     sum = add.invoke({"a": 1, "b": 2})
    >>> starts.names
    ['add']
    """

    run_inline = True  # in an asynchronous run too: there is nothing to wait for
    ignore_llm = ignore_chat_model = ignore_chain = _yes
    ignore_retriever = ignore_custom_event = _yes

    def __init__(self) -> None:
        self.names: list[str] = []
        self._outer = _listening.get()

    def __enter__(self) -> ToolStarts:
        self._token: Token[ToolStarts | None] = _listening.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _listening.reset(self._token)

    def on_tool_start(
        self, serialized: dict[str, Any] | None, input_str: str, **kwargs: Any
    ) -> None:
        """A tool has started."""
        self.names.append(str((serialized or {}).get("name")))
        if self._outer is not None:
            self._outer.on_tool_start(serialized, input_str)


_listening: ContextVar[ToolStarts | None] = ContextVar("tool_starts", default=None)
register_configure_hook(_listening, inheritable=False)
