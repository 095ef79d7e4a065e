"""Ready-made parts: subagents as tools, and counterparts of deprecated parts of langgraph.

>>> from agent_factory.prebuilt import create_react_agent
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_factory import lazy_names

if TYPE_CHECKING:
    from agent_factory.prebuilt.agent_tool import agent_tool as agent_tool
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

_HOME = {
    ".agent_tool": "agent_tool",
    ".react_agent": "create_react_agent",
    ".react_state": (
        "AgentState AgentStatePydantic AgentStateWithStructuredResponse "
        "AgentStateWithStructuredResponsePydantic"
    ),
    ".validation_node": "ValidationNode",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOME)
