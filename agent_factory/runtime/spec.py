"""AgentSpec: everything that is decided about an agent before it is wired."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import SystemMessage

from agent_factory.decisions.log import DecisionLog
from agent_factory.errors import SpecError
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.introspection import Bound
from agent_factory.runtime.routing import Rules
from agent_factory.state.schema import Schemas
from agent_factory.structured_output.strategies import ResponseFormat
from agent_factory.tools.error_handling import ErrorHandler
from agent_factory.tools.registry import Toolbox
from agent_factory.topology.model import Hook, Layer
from agent_factory.topology.topology import Topology


def identity(state: Any) -> Any:
    """Return the state unchanged."""
    return state


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """Everything that is decided about an agent before it is wired.

    Args:
        model: The default model; None in a plan that was made without one.
        system_message: The system prompt, or None.
        hooks: The node hooks, in the order of the middleware.
        model_layers: The layers around model calls, outermost first.
        tool_layers: The layers around tool calls, outermost first.
        toolbox: The tools, sorted.
        response_format: How a structured answer is requested, or None.
        schemas: The merged state.
        topology: The plan.
        handle_tool_errors: Handler of tool errors; None for ToolNode's own default.
        name: Name of the agent, which its messages carry.
        middleware: The middleware it was made from.
        rules: What routing knows about it in addition to the plan.
        repairs_history: Repair invalid histories, and answer calls that no node runs. If False,
            the caller is responsible for both.
        tool_state_view: Function of the state that returns what tools see of it.
        warnings: What is likely wrong with it and is not ignored.
        decisions: Log of its decisions, or None.
    """

    model: Any
    system_message: SystemMessage | None
    hooks: tuple[Bound[Hook], ...]
    model_layers: tuple[Bound[Layer], ...]
    tool_layers: tuple[Bound[Layer], ...]
    toolbox: Toolbox
    response_format: ResponseFormat[Any] | None
    schemas: Schemas
    topology: Topology
    handle_tool_errors: ErrorHandler | None
    name: str | None
    middleware: tuple[AgentMiddleware[Any, Any], ...]
    rules: Rules
    repairs_history: bool = True
    tool_state_view: Callable[[Any], Any] = identity
    warnings: tuple[SpecError, ...] = ()
    decisions: DecisionLog | None = None
