"""The desk's agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel

from agent_factory import AgentMiddleware, create_agent
from desk.middleware import Manners, Patience, RefundLimit


def find_order(order: str) -> str:
    """Find an order by its number."""
    return f"{order} was delivered on Monday."


def refund(order: str, euros: int) -> str:
    """Pay money back."""
    return f"{euros} euros were paid back for {order}."


TOOLS: list[Callable[..., str]] = [find_order, refund]


def support_stack() -> list[AgentMiddleware[Any, Any]]:
    """The middleware of the agent, the outermost first."""
    return [Patience(), Manners(), RefundLimit(euros=100)]


def support_agent(model: BaseChatModel) -> Any:
    """The agent that answers customers."""
    return create_agent(model, TOOLS, middleware=support_stack())
