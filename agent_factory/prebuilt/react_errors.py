"""Mistakes in `create_react_agent`, in the words that its users know and may look for in logs."""

from __future__ import annotations

from agent_factory.errors import (
    AgentFactoryError,
    ArgumentError,
    HistoryError,
    HookPathNotSupported,
)


class _InKnownWords(AgentFactoryError):
    """Reads as its reason alone; culprit, remedy and code are attributes as ever."""

    def __init__(self, culprit: str, reason: str, remedy: str = "") -> None:
        super().__init__(culprit, reason, remedy)
        self.args = (reason,)


class ReactArgumentError(_InKnownWords, ArgumentError):
    """An argument of `create_react_agent` that nothing can be built from."""

    code = "AF140"


class ModelTakesNoTools(_InKnownWords, ArgumentError, NotImplementedError, AttributeError):
    """The model of `create_react_agent` has no `bind_tools`, and there are tools."""

    code = "AF141"


class ReactHistoryError(_InKnownWords, HistoryError):
    """The messages of a `create_react_agent` cannot be shown to a model."""

    code = "AF340"


class ReactPathNotSupported(_InKnownWords, HookPathNotSupported):
    """A synchronous run of a `create_react_agent` met something asynchronous only."""

    code = "AF341"
