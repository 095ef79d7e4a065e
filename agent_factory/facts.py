"""What a plan is made of, as plain values: hooks, layers, tools, edges. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

START, END, MODEL, TOOLS = "__start__", "__end__", "model", "tools"

JUMPS = ("end", "tools", "model")
"""Every jump target, in the order in which an edge declares them."""


class Phase(StrEnum):
    """When a node hook runs."""

    BEFORE_AGENT = "before_agent"
    BEFORE_MODEL = "before_model"
    AFTER_MODEL = "after_model"
    AFTER_AGENT = "after_agent"


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
    """

    owner: str
    phase: Phase
    can_jump_to: frozenset[str] = frozenset()

    @property
    def node(self) -> str:
        """The name of its node."""
        return f"{self.owner}.{self.phase}"


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
    """

    hooks: tuple[Hook, ...] = ()
    layers: tuple[Layer, ...] = ()
    has_tools: bool = False
    may_skip_tools: bool = False
    retries_output: bool = False
    tools: tuple[Tool, ...] = ()


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
