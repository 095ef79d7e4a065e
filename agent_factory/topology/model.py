"""The plan of an agent as plain values: hooks, layers, tools, edges. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from agent_factory.topology.declarations import Access, Ledgers, ToolGuard, UsageLimit

START, END, MODEL, TOOLS = "__start__", "__end__", "model", "tools"
AGENT = "agent"
"""What `create_react_agent` calls the node of the model."""

JUMPS = ("end", "tools", "model")
"""Every jump target, in the order in which an edge declares them."""


def printable(line: str) -> str:
    """A line with control characters and line breaks as escapes, as in `repr`.

    >>> printable("a\\x1b[1m\\nb")
    'a\\\\x1b[1m\\\\nb'
    """
    if line.isprintable():
        return line
    # A name may hold escape sequences, which a terminal would obey.
    signs = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return "".join(signs)


class Phase(StrEnum):
    """Phase of a run in which a node hook runs."""

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

MODELS = {MODEL, AGENT, "generate_structured_response"}
"""The nodes that call the model of an agent."""


class AgentStyle(StrEnum):
    """The factory of an agent. It decides the name of the model's node and where tools lead."""

    CREATE_AGENT = "create_agent"
    REACT = "create_react_agent"
    """Each tool call is a separate task: version v2."""
    REACT_V1 = "create_react_agent, calls together"
    """One run of the tools node executes all calls: version v1."""

    @property
    def model(self) -> str:
        """The name of the model's node."""
        return MODEL if self is AgentStyle.CREATE_AGENT else AGENT

    @property
    def tools_can_end_run(self) -> bool:
        """True if any tool may end the run; otherwise only tools with `return_direct` do."""
        return self is AgentStyle.CREATE_AGENT


class Call(StrEnum):
    """The kind of call that a layer wraps."""

    AGENT = "agent"
    """A whole run of the agent."""
    MODEL = "model"
    TOOL = "tool"

    @property
    def phrase(self) -> str:
        """Words for the wrapped calls: "each model call"."""
        return "the run" if self is Call.AGENT else f"each {self} call"


class Route(StrEnum):
    """Way in which a run chooses among the targets of an edge."""

    JUMP = "jump"
    """Follow the state's `jump_to`, else the default."""
    AFTER_MODEL = "after_model"
    """To the pending tool calls, back to the model, or out of the loop."""
    AFTER_TOOLS = "after_tools"
    """Back to the model, or out of the loop."""
    RETRY = "retry"
    """Back to the model for a valid structured answer, or out of the loop."""


@dataclass(frozen=True, slots=True)
class Hook:
    """Node hook of a middleware.

    Args:
        owner: The middleware's name.
        phase: When it runs.
        can_jump_to: The declared jumps.
        at: The name of the node, if not `{owner}.{phase}`.
    """

    owner: str
    phase: Phase
    can_jump_to: frozenset[str] = frozenset()
    at: str = ""

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.at or f"{self.owner}.{self.phase}"


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer around a call.

    Args:
        owner: The middleware's name.
        call: The kind of the wrapped calls.
        method: The wrapping method.
        attempts: The most calls inward for a single call, as declared by the middleware.
    """

    owner: str
    call: Call
    method: str
    attempts: int = 1

    @property
    def name(self) -> str:
        """The middleware and the method: `Retry.around_model`."""
        return f"{self.owner}.{self.method}"


class ToolKind(StrEnum):
    """Runner of a tool: the agent, the provider of the model, or nobody."""

    CLIENT = "client"
    """The agent, in its tools node."""
    PROVIDER = "provider"
    """The model's provider."""
    OUTPUT = "output"
    """Nobody: a call of it is the structured answer."""
    INNER = "inner"
    """An agent inside of a tool. The name has both: "clerk/refund"."""


OnLoss = Literal["report", "repeat"]
"""What a service does with work in the background whose worker has died."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model may be offered.

    Args:
        name: The name; for a provider's tool without a name, the type.
        kind: Who runs the tool.
        return_direct: A result ends the run.
        owner: The middleware that adds the tool; empty for the agent's own tools.
        labels: Kinds of data and effects: "untrusted" results, "private" data, an effect "outside".
        reads: Names of read resources, such as "file:{path}" with a parameter in the name.
        writes: Names of written resources.
        max_requests: The most runs of the agent inside for a call; 1 without a list.
        background: The most seconds that a call may work in the background; None if the run waits
            for its result.
        on_loss: What a service does with a call in the background whose worker has died.
        agent: The tool calls an agent, whose tools have names such as "clerk/refund"; "ends" if a
            limit ends each loop in there.
    """

    name: str
    kind: ToolKind = ToolKind.CLIENT
    return_direct: bool = False
    owner: str = ""
    labels: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    max_requests: int = 1
    background: float | None = None
    on_loss: OnLoss = "report"
    agent: bool | Literal["ends"] = False

    @property
    def notes(self) -> list[str]:
        """Differences from a plain tool of the agent; empty for a plain tool.

        >>> Tool("find", return_direct=True, owner="Search").notes
        ['return_direct', 'by Search']
        """
        notes = [] if self.kind is ToolKind.CLIENT else [str(self.kind)]
        notes += ["return_direct"] if self.return_direct else []
        notes += [f"up to {self.max_requests} requests a call"] if self.max_requests > 1 else []
        if self.background is not None:
            notes.append(f"in the background, at most {self.background:g} s")
        notes += ["repeated if lost"] if self.on_loss == "repeat" else []
        notes += [*self.labels, *self.touches]
        return [*notes, f"by {self.owner}"] if self.owner else notes

    @property
    def touches(self) -> list[str]:
        """Read and written resources, in words.

        >>> Tool("edit", writes=("file:{path}",)).touches
        ['writes file:{path}']
        """
        return [f"reads {name}" for name in self.reads] + [f"writes {n}" for n in self.writes]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a middleware, or a pause of the agent.

    Args:
        owner: The middleware's name; "agent" for what the factory was given.
        name: The parameter of its constructor, or of the factory.
        value: The value as text.
        guards: The setting decides about calls or contents, so each plan holds the setting.
    """

    owner: str
    name: str
    value: str
    guards: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """A former name of a middleware, under which threads may be stored.

    Args:
        old: The former name.
        new: The current name.
    """

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything the planner needs to know about an agent.

    Args:
        hooks: All node hooks, in the order of the middleware list.
        layers: All layers, outermost first.
        has_tools: A tools node exists.
        may_skip_tools: A layer or structured output may answer tool calls before the tools run.
        retries_output: The model may be asked again for a structured answer.
        tools: The tools known when the agent is built, in the order in which they are offered.
        style: The factory that builds the agent.
        moved: Former names of middleware.
        guards: Decisions about tool calls before a call runs.
        limits: Limits of uses.
        accesses: What middleware read, write, send to a model and sanitize.
        sequential_calls: Each tool call of a turn waits for all calls before.
        idle_guards: Middleware that can decide about tool calls, and decide about none.
        ledgers: The ledgers of middleware, for the plan of an agent around this agent.
    """

    hooks: tuple[Hook, ...] = ()
    layers: tuple[Layer, ...] = ()
    has_tools: bool = False
    may_skip_tools: bool = False
    retries_output: bool = False
    tools: tuple[Tool, ...] = ()
    style: AgentStyle = AgentStyle.CREATE_AGENT
    moved: tuple[Move, ...] = ()
    guards: tuple[ToolGuard, ...] = ()
    limits: tuple[UsageLimit, ...] = ()
    accesses: tuple[Access, ...] = ()
    sequential_calls: bool = False
    idle_guards: tuple[str, ...] = ()
    ledgers: Ledgers = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """The nodes a run may continue with after a node.

    Args:
        source: The first node.
        targets: The nodes that may follow; the first is the default.
        route: How a run chooses among the targets; None for a single target.
    """

    source: str
    targets: tuple[str, ...]
    route: Route | None = None


@dataclass(frozen=True, slots=True)
class TopologyData:
    """The plan of an agent as data; `Topology` documents the fields, and adds methods."""

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
    settings: tuple[Setting, ...] = ()
    moved: tuple[Move, ...] = ()
    guards: tuple[ToolGuard, ...] = ()
    limits: tuple[UsageLimit, ...] = ()
    accesses: tuple[Access, ...] = ()
    sequential_calls: bool = False
    idle_guards: tuple[str, ...] = ()
    # Plans are compared by what an agent does, so agents that differ only in their name are equal.
    name: str = field(default="", compare=False)
    # For the plan of an agent around this agent, in the same process.
    ledgers: Ledgers = field(default=(), compare=False, repr=False)

    @property
    def title(self) -> str:
        """Heading for the plan, with the name of the agent, if any."""
        return f"The plan of {self.name or 'an agent'}"

    @property
    def orders_calls(self) -> bool:
        """True if calls of a turn may wait for each other."""
        return self.sequential_calls or any(tool.touches for tool in self.tools)

    @property
    def former_nodes(self) -> dict[str, str]:
        """The nodes of hooks by names under former names of their middleware."""
        return {
            Hook(move.old, hook.phase).node: hook.node
            for move in self.moved
            for hook in self.hooks
            if hook.owner == move.new
        }

    def edge_from(self, source: str) -> Edge:
        """The edge that leaves a node.

        Raises:
            KeyError: No edge leaves the node.
        """
        for edge in self.edges:
            if edge.source == source:
                return edge
        raise KeyError(source)

    def hook_at(self, node: str) -> Hook | None:
        """The hook that runs in a node; None for the model, the tools, the start and the end."""
        return next((hook for hook in self.hooks if hook.node == node), None)

    def run_order(self, phase: Phase) -> list[Hook]:
        """The hooks of a phase in the order in which they run: after hooks run in reverse."""
        hooks = [hook for hook in self.hooks if hook.phase is phase]
        return hooks[::-1] if phase in (Phase.AFTER_MODEL, Phase.AFTER_AGENT) else hooks

    def layers_around(self, call: Call) -> list[Layer]:
        """The layers around a kind of call, outermost first."""
        return [layer for layer in self.layers if layer.call is call]
