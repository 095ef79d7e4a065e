"""Mistakes in `create_react_agent`, in the words that its users know and may look for in logs."""

from __future__ import annotations

from agent_factory.errors import (
    AgentFactoryError,
    ArgumentError,
    HistoryError,
    HookPathNotSupported,
)


def _in_known_words(self: AgentFactoryError, culprit: str, reason: str, remedy: str = "") -> None:
    """Make an error that reads as its reason alone; the rest are attributes, as ever."""
    AgentFactoryError.__init__(self, culprit, reason, remedy)
    self.args = (reason,)


class ReactArgumentError(ArgumentError):
    """An argument of `create_react_agent` that nothing can be built from."""

    code = "AF140"
    __init__ = _in_known_words


class ModelTakesNoTools(ArgumentError, NotImplementedError, AttributeError):
    """The model of `create_react_agent` has no `bind_tools`, and there are tools."""

    code = "AF141"
    __init__ = _in_known_words


class ReactHistoryError(HistoryError):
    """The messages of a `create_react_agent` cannot be shown to a model."""

    code = "AF321"
    __init__ = _in_known_words


class ReactPathNotSupported(HookPathNotSupported):
    """A synchronous run of a `create_react_agent` met something asynchronous only."""

    code = "AF322"
    __init__ = _in_known_words
