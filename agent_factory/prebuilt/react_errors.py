"""Errors of `create_react_agent`, with the messages langgraph's users know."""

from __future__ import annotations

from agent_factory.errors import (
    AgentFactoryError,
    ArgumentError,
    HistoryError,
    HookPathNotSupported,
)


def _reason_alone(self: AgentFactoryError) -> str:
    """The message as langgraph gives it; `subject`, `hint` and `code` are attributes."""
    return self.reason


class ReactArgumentError(ArgumentError):
    """An argument of `create_react_agent` cannot be used."""

    code = "AF140"
    __str__ = _reason_alone


class ModelTakesNoTools(ArgumentError, NotImplementedError, AttributeError):
    """There are tools, and the model of `create_react_agent` has no `bind_tools`."""

    # The errors of `bind_tools` itself: of a chat model without tool calls, and of a runnable
    # without such a method. Code for langgraph may catch either.
    code = "AF141"
    __str__ = _reason_alone


class ReactHistoryError(HistoryError):
    """The messages cannot be sent to a model."""

    code = "AF321"
    __str__ = _reason_alone


class ReactPathNotSupported(HookPathNotSupported):
    """A model, hook or prompt of a sync run is async only."""

    code = "AF322"
    __str__ = _reason_alone
