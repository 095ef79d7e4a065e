"""The middleware AuditTrail."""

from __future__ import annotations

from typing import Any

from agent_factory import (
    AgentMiddleware,
    AgentState,
    Flow,
    ModelRequest,
    NextChunk,
    Runtime,
    ToolCallRequest,
)


class AuditTrail(AgentMiddleware):
    """Changes nothing yet: an agent gives the same answer with it and without it.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> stack = [AuditTrail()]
    >>> agent = create_agent(ScriptedChatModel(["Hello."]), middleware=stack)
    >>> agent.invoke({"messages": [("user", "Hi")]})["messages"][-1].text
    'Hello.'
    """

    def before_agent(
        self,
        state: AgentState[Any],
        runtime: Runtime[Any],
    ) -> dict[str, Any] | None:
        """Runs once, when a run starts. Returns a state update or None."""
        return None

    def before_model(
        self,
        state: AgentState[Any],
        runtime: Runtime[Any],
    ) -> dict[str, Any] | None:
        """Runs before each model call. Returns a state update or None."""
        return None

    def after_model(
        self,
        state: AgentState[Any],
        runtime: Runtime[Any],
    ) -> dict[str, Any] | None:
        """Runs after each model call. Returns a state update or None."""
        return None

    def after_agent(
        self,
        state: AgentState[Any],
        runtime: Runtime[Any],
    ) -> dict[str, Any] | None:
        """Runs once, when a run ends. Returns a state update or None."""
        return None

    def around_agent(self, state: AgentState[Any]) -> Flow[Any]:
        """Wraps a whole run. `yield state` runs the agent."""
        return (yield state)

    def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
        """Wraps each model call. `yield request` makes the call."""
        return (yield request)

    def around_stream(self, request: ModelRequest[Any]) -> Flow[None]:
        """Changes each answer, chunk by chunk. `yield chunk` lets one pass."""
        while (chunk := (yield NextChunk())) is not None:
            yield chunk

    def around_tool(self, request: ToolCallRequest) -> Flow[Any]:
        """Wraps each tool call. `yield request` makes the call."""
        return (yield request)
