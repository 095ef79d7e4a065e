"""AgentSpec: everything that was decided about an agent before it is wired."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from agent_factory.topology.model import Call, Hook, Layer
from agent_factory.topology.topology import Topology


def identity(state: Any) -> Any:
    """A view of the state that leaves nothing out."""
    return state


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """Everything that was decided about an agent before it is wired.

    Args:
        model: The default model; None in a plan that was made without one.
        system_message: What it is told first.
        hooks: The node hooks, in the order of the middleware.
        layers: The layers, outermost first.
        toolbox: The tools, sorted.
        response_format: How a structured answer is asked for, or None.
        schemas: The merged state.
        topology: The plan.
        handle_tool_errors: What a failing tool leads to; None for ToolNode's own default.
        name: The agent's name, written on what it says.
        middleware: The stack it was made from.
        rules: What routing knows of it beside its plan.
        mends: Broken histories are mended, and so are calls that no node runs. Otherwise both are
            left to whoever built it, or holds it.
        view: What its tools are shown of the state.
        findings: What is likely wrong with it, and was not silenced.
        decisions: Where its decisions are recorded, or None.
    """

    model: Any
    system_message: SystemMessage | None
    hooks: tuple[Bound[Hook], ...]
    layers: tuple[Bound[Layer], ...]
    toolbox: Toolbox
    response_format: ResponseFormat[Any] | None
    schemas: Schemas
    topology: Topology
    handle_tool_errors: ErrorHandler | None
    name: str | None
    middleware: tuple[AgentMiddleware[Any, Any], ...]
    rules: Rules
    repairs_history: bool = True
    view: Callable[[Any], Any] = identity
    warnings: tuple[SpecError, ...] = ()
    decisions: DecisionLog | None = None

    @property
    def has_tools(self) -> bool:
        """Whether there is a tools node."""
        return needs_tools_node(self.toolbox, self.layers)

    def layers_around(self, call: Call) -> list[Bound[Layer]]:
        """The layers around one kind of call, outermost first."""
        return [bound for bound in self.layers if bound.definition.call is call]


def needs_tools_node(toolbox: Toolbox, layers: Iterable[Bound[Layer]]) -> bool:
    """Whether an agent with these tools and layers has a tools node."""
    # Layers around tool calls may run tools that are known only at run time.
    return bool(toolbox.client) or any(b.definition.call is Call.TOOL for b in layers)
