"""The plan of an agent as plain values: hooks, layers, tools, edges. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

START, END, MODEL, TOOLS = "__start__", "__end__", "model", "tools"
AGENT = "agent"
"""What `create_react_agent` calls the node of the model."""

JUMPS = ("end", "tools", "model")
"""Every jump target, in the order in which an edge declares them."""


class Phase(StrEnum):
    """When a node hook runs."""

    BEFORE_AGENT = "before_agent"
    BEFORE_MODEL = "before_model"
    AFTER_MODEL = "after_model"
    AFTER_AGENT = "after_agent"


REACT_HOOKS = {
    "pre_model_hook": Phase.BEFORE_MODEL,
    "post_model_hook": Phase.AFTER_MODEL,
    "generate_structured_response": Phase.AFTER_AGENT,
}
"""The hooks of `create_react_agent`, by the names of their nodes."""


class AgentStyle(StrEnum):
    """Which factory a plan is of: each has its name for the model's node and its way out."""

    CREATE_AGENT = "create_agent"
    REACT = "create_react_agent"
    """Each call is sent on its own: version v2."""
    REACT_V1 = "create_react_agent, calls together"
    """One run of the tools node holds all calls: version v1."""

    @property
    def model(self) -> str:
        """The node of the model."""
        return MODEL if self is AgentStyle.CREATE_AGENT else AGENT

    @property
    def tools_can_end_run(self) -> bool:
        """Whether any tool may end the run; else those with return_direct alone do."""
        return self is AgentStyle.CREATE_AGENT


class Call(StrEnum):
    """What a layer closes around."""

    MODEL = "model"
    TOOL = "tool"


class Route(StrEnum):
    """How a run chooses among the targets of an edge."""

    JUMP = "jump"
    """Follow the state's `jump_to`, else the default."""
    AFTER_MODEL = "after_model"
    """To the pending tool calls, back to the model, or out."""
    AFTER_TOOLS = "after_tools"
    """Back to the model, or out."""
    RETRY = "retry"
    """Back to the model for a better structured answer, or out."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A node hook of one middleware.

    Args:
        owner: The middleware's name.
        phase: When it runs.
        can_jump_to: The jumps it declares.
        at: The name of its node, where that is not `{owner}.{phase}`.
    """

    owner: str
    phase: Phase
    can_jump_to: frozenset[str] = frozenset()
    at: str = ""

    @property
    def node(self) -> str:
        """The name of its node."""
        return self.at or f"{self.owner}.{self.phase}"


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer around a call, by the middleware that brings it and the method that makes it."""

    owner: str
    call: Call
    method: str


class ToolKind(StrEnum):
    """Who runs a tool."""

    CLIENT = "client"
    """The agent, in its tools node."""
    PROVIDER = "provider"
    """The model's provider."""
    OUTPUT = "output"
    """Nobody: its call is the structured answer."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model may be offered.

    Args:
        name: Its name; of a provider's tool without one, its type.
        kind: Who runs it.
        return_direct: Its result ends the run.
        owner: The middleware that brings it; empty for the agent's own.
    """

    name: str
    kind: ToolKind = ToolKind.CLIENT
    return_direct: bool = False
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the planner needs to know, and nothing else.

    Args:
        hooks: All node hooks, in the order of the middleware list.
        layers: All layers, outermost first.
        has_tools: A tools node exists.
        may_skip_tools: Something may answer in the tools' place: a layer, or structured output.
        retries_output: A structured answer may have to be asked for again.
        tools: The tools known when the agent is built, in the order in which they are offered.
        dialect: Whose names it speaks.
    """

    hooks: tuple[Hook, ...] = ()
    layers: tuple[Layer, ...] = ()
    has_tools: bool = False
    may_skip_tools: bool = False
    retries_output: bool = False
    tools: tuple[Tool, ...] = ()
    style: AgentStyle = AgentStyle.CREATE_AGENT


@dataclass(frozen=True, slots=True)
class Edge:
    """Where a run may go from a node.

    Args:
        source: The node it leaves.
        targets: The nodes it may reach; the first is the default.
        route: How it chooses, or None where there is nothing to choose.
    """

    source: str
    targets: tuple[str, ...]
    route: Route | None = None


@dataclass(frozen=True, slots=True)
class TopologyData:
    """The plan of an agent as data: what `Topology` renders, compares and explains.

    Args:
        nodes: Every node, in the order of a run.
        entry: Where a run starts.
        loop_entry: Where it returns after tools.
        loop_exit: Where a turn of the model ends.
        exit: Where it leaves the loop.
        edges: Every edge.
        layers: The layers around model and tool calls, outermost first.
        hooks: The node hooks, in the order of the middleware list.
        tools: The tools known when the agent is built.
        retries_output: A structured answer is wanted, and asked for again where it is wrong.
        dialect: Which factory it is of.
    """

    nodes: tuple[str, ...]
    entry: str
    loop_entry: str
    loop_exit: str
    exit: str
    edges: tuple[Edge, ...]
    layers: tuple[Layer, ...] = ()
    hooks: tuple[Hook, ...] = ()
    tools: tuple[Tool, ...] = ()
    retries_output: bool = False
    style: AgentStyle = AgentStyle.CREATE_AGENT

    def edge_from(self, source: str) -> Edge:
        """The edge that leaves a node.

        Raises:
            KeyError: No edge leaves it.
        """
        for edge in self.edges:
            if edge.source == source:
                return edge
        raise KeyError(source)
