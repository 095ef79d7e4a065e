"""AgentSpec: all decisions about an agent before it is wired."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import SystemMessage

from agent_factory.decisions.log import DecisionLog
from agent_factory.errors import SpecError
from agent_factory.hooks.base import Middleware
from agent_factory.hooks.flows import identity
from agent_factory.hooks.introspection import Bound
from agent_factory.runtime.routing import Rules
from agent_factory.state.schema import Schemas
from agent_factory.structured_output.strategies import ResponseFormat
from agent_factory.tools.error_handling import ErrorHandler
from agent_factory.tools.registry import Toolbox
from agent_factory.topology.model import Hook, Layer
from agent_factory.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """All decisions about an agent before it is wired."""

    model: Any  # None in a plan without a model
    system_message: SystemMessage | None
    hooks: tuple[Bound[Hook], ...]  # in the order of the middleware
    model_layers: tuple[Bound[Layer], ...]  # outermost first
    tool_layers: tuple[Bound[Layer], ...]  # outermost first
    toolbox: Toolbox
    response_format: ResponseFormat | None
    schemas: Schemas
    topology: Topology
    handle_tool_errors: ErrorHandler | None  # None for ToolNode's own default
    name: str | None
    middleware: tuple[Middleware, ...]
    rules: Rules
    nodes: Mapping[str, Any]  # the arguments with names of nodes: interrupts and policies
    # Repair invalid histories, and answer calls without a node. If False, the caller does both.
    repairs_history: bool = True
    tool_state_view: Callable[[Any], object] = identity  # the state for tools
    warnings: tuple[SpecError, ...] = ()
    decisions: DecisionLog | None = None
    run_layers: tuple[Bound[Layer], ...] = ()  # around a whole run, outermost first
    merged: Callable[[object], tuple[Schemas, object]] | None = None  # the schemas with a saver
    strict: bool = False  # look for writes without effect
    run_cut_calls: bool = False  # run calls of answers that were cut off
