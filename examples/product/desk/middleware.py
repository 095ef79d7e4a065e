"""The desk's own middleware."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

from agent_factory import AgentMiddleware, Flow, ModelRequest, Runtime, hook_config


class Manners(AgentMiddleware):
    """Sets the tone of the answers."""

    def around_model(self, request: ModelRequest[Any]) -> Flow[Any]:
        """Ask with a system prompt."""
        return (yield request.override(system_prompt="You are the help desk. Be brief and kind."))


class RefundLimit(AgentMiddleware):
    """Refuses refunds above a limit.

    Args:
        euros: The highest refund that is paid without asking.
    """

    def __init__(self, euros: int = 100) -> None:
        self.euros = euros

    def around_tool(self, request: ToolCallRequest) -> Flow[Any]:
        """Answer in the tool's place where the sum is too high."""
        call = request.tool_call
        if call["name"] == "refund" and call["args"].get("euros", 0) > self.euros:
            words = f"Refused: at most {self.euros} euros are paid without asking."
            return ToolMessage(words, tool_call_id=call["id"], name="refund", status="error")
        return (yield request)


class Patience(AgentMiddleware):
    """Ends conversations that do not end."""

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Stop after fifty messages."""
        return {"jump_to": "end"} if len(state["messages"]) > 50 else None
