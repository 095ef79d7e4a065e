"""Which tools an agent has started within a stretch of code.

A layer sees what comes back from further in, and not whether a tool has run for it or another
layer has answered in its place. The node of the tools tells it here.
"""

from __future__ import annotations

from contextvars import ContextVar, Token


class ToolStarts:
    """Takes down the names of the agent's tools that start within a `with` block.

    It hears of those in the tasks and threads that the block leads to as well, and so does who
    listens around it. A call of a name that is not known, or that a layer answers, starts none;
    tools that a tool itself calls are not told.

    >>> with ToolStarts() as starts:
    ...     pass  # `result = yield request`, in a flow around a tool
    >>> starts.names
    []
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._outer = _listening.get()

    def __enter__(self) -> ToolStarts:
        self._token: Token[ToolStarts | None] = _listening.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _listening.reset(self._token)

    def heard(self, name: str) -> None:
        """A tool has started."""
        self.names.append(name)
        if self._outer is not None:
            self._outer.heard(name)


_listening: ContextVar[ToolStarts | None] = ContextVar("tool_starts", default=None)


def starts(name: str) -> None:
    """Tell whoever listens that a tool is about to run."""
    if (listener := _listening.get()) is not None:
        listener.heard(name)
