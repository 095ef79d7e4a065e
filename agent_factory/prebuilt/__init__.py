"""All names of `langgraph.prebuilt`, made from the parts of this library, and subagents as tools.

>>> from agent_factory.prebuilt import create_react_agent
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_factory import lazy_names

if TYPE_CHECKING:
    from langgraph.prebuilt import InjectedState as InjectedState
    from langgraph.prebuilt import InjectedStore as InjectedStore
    from langgraph.prebuilt import ToolCallTransformer as ToolCallTransformer
    from langgraph.prebuilt import ToolRuntime as ToolRuntime
    from langgraph.prebuilt.interrupt import ActionRequest as ActionRequest
    from langgraph.prebuilt.interrupt import HumanInterrupt as HumanInterrupt
    from langgraph.prebuilt.interrupt import HumanInterruptConfig as HumanInterruptConfig
    from langgraph.prebuilt.interrupt import HumanResponse as HumanResponse

    from agent_factory.prebuilt.react_agent import create_react_agent as create_react_agent
    from agent_factory.prebuilt.react_state import AgentState as AgentState
    from agent_factory.prebuilt.react_state import AgentStatePydantic as AgentStatePydantic
    from agent_factory.prebuilt.react_state import (
        AgentStateWithStructuredResponse as AgentStateWithStructuredResponse,
    )
    from agent_factory.prebuilt.react_state import (
        AgentStateWithStructuredResponsePydantic as AgentStateWithStructuredResponsePydantic,
    )
    from agent_factory.prebuilt.subagent import agent_tool as agent_tool
    from agent_factory.prebuilt.validation_node import ValidationNode as ValidationNode
    from agent_factory.tools.tool_node import ToolNode as ToolNode
    from agent_factory.tools.tool_node import tools_condition as tools_condition

_HOME = {
    ".react_agent": "create_react_agent",
    ".react_state": (
        "AgentState AgentStatePydantic AgentStateWithStructuredResponse "
        "AgentStateWithStructuredResponsePydantic"
    ),
    ".subagent": "agent_tool",
    ".validation_node": "ValidationNode",
    "agent_factory.tools.tool_node": "ToolNode tools_condition",
    "langgraph.prebuilt": "InjectedState InjectedStore ToolCallTransformer ToolRuntime",
    # The request and the answer of agent-inbox, for a tool or a node that interrupts with them.
    "langgraph.prebuilt.interrupt": (
        "ActionRequest HumanInterrupt HumanInterruptConfig HumanResponse"
    ),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOME)
