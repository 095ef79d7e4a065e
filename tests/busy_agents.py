"""Agents with hooks of every kind, for the tests of fused runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.tools import tool

from agent_factory import AgentMiddleware
from agent_factory.testing import ScriptedChatModel

Run = Callable[..., Any]
ASK: Any = {"messages": [{"role": "user", "content": "Well?"}]}
THREAD: Any = {"configurable": {"thread_id": "one"}}


def find(query: str) -> str:
    """Find something."""
    return f"found {query}"


find_tool = tool(find)


class Busy(AgentMiddleware):
    """A hook of every kind."""

    def before_agent(self, state: Any, runtime: Any) -> Any:
        return None

    def before_model(self, state: Any, runtime: Any) -> Any:
        return None

    def after_model(self, state: Any, runtime: Any) -> Any:
        return None

    def after_agent(self, state: Any, runtime: Any) -> Any:
        return None


def busy(number: int) -> list[Any]:
    return [Busy(name=f"busy {index}") for index in range(number)]


def model() -> ScriptedChatModel:
    """Two turns of the model: a call, and an answer."""
    return ScriptedChatModel([[{"name": "find", "args": {"query": "it"}}], "Done."])


def steps(agent: Any, config: Any = THREAD) -> list[Any]:
    """What was next at each checkpoint, the oldest first."""
    return [state.next for state in reversed(list(agent.get_state_history(config)))]
