"""Mistakes in `create_react_agent`, in the words that its users know and may look for in logs."""

from __future__ import annotations

from agent_factory.errors import (
    AgentFactoryError,
    ArgumentError,
    HistoryError,
    HookPathNotSupported,
)


def _reason_alone(self: AgentFactoryError) -> str:
    """The text that users know; culprit, remedy and code are attributes, as ever."""
    return self.reason


class ReactArgumentError(ArgumentError):
    """An argument of `create_react_agent` that nothing can be built from."""

    code = "AF140"
    __str__ = _reason_alone


class ModelTakesNoTools(ArgumentError, NotImplementedError, AttributeError):
    """The model of `create_react_agent` has no `bind_tools`, and there are tools."""

    code = "AF141"
    __str__ = _reason_alone


class ReactHistoryError(HistoryError):
    """The messages of a `create_react_agent` cannot be shown to a model."""

    code = "AF321"
    __str__ = _reason_alone


class ReactPathNotSupported(HookPathNotSupported):
    """A synchronous run of a `create_react_agent` met something asynchronous only."""

    code = "AF322"
    __str__ = _reason_alone
