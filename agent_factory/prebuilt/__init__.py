"""Counterparts of deprecated parts of langgraph, built as the agents of this library are.

>>> from agent_factory.prebuilt import create_react_agent
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_factory.prebuilt.react_agent import create_react_agent as create_react_agent
    from agent_factory.prebuilt.react_state import AgentState as AgentState
    from agent_factory.prebuilt.react_state import AgentStatePydantic as AgentStatePydantic
    from agent_factory.prebuilt.react_state import (
        AgentStateWithStructuredResponse as AgentStateWithStructuredResponse,
    )
    from agent_factory.prebuilt.react_state import (
        AgentStateWithStructuredResponsePydantic as AgentStateWithStructuredResponsePydantic,
    )
    from agent_factory.prebuilt.validation_node import ValidationNode as ValidationNode

_MODULE_OF = {
    "AgentState": "react_state",
    "AgentStatePydantic": "react_state",
    "AgentStateWithStructuredResponse": "react_state",
    "AgentStateWithStructuredResponsePydantic": "react_state",
    "ValidationNode": "validation_node",
    "create_react_agent": "react_agent",
}

__all__ = sorted(_MODULE_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
