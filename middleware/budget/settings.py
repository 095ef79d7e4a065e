"""Checks of the arguments of `BudgetMiddleware`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.messages.utils import count_tokens_approximately

from agent_factory.middleware._shared.token_counter import TokenCounter
from agent_factory.middleware._shared.validation import check_count, check_number


def checked_counter(token_counter: TokenCounter) -> TokenCounter:
    """The counter, with an error for a result other than a count."""
    if token_counter is count_tokens_approximately:  # cached counts
        return token_counter

    def count(messages: Sequence[BaseMessage]) -> int:
        number = token_counter(messages)
        check_count("The result of token_counter", number, required=True)
        return number

    return count


def check_type(name: str, value: object, kind: type) -> None:
    """Check the type of an argument; None is allowed."""
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} must be {kind.__name__}(...), got {value!r}.")


def checked_share(name: str, value: Any) -> float:
    """A share from an argument."""
    check_number(name, value, unit="shares, such as 0.8,")
    if value is None or not 0 < value <= 1:
        raise ValueError(f"{name} must be more than 0 and at most 1, got {value!r}.")
    return float(value)
