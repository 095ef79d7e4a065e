"""A plan as JSON, in a single form: equal plans are equal files."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Literal

from agent_factory.topology.declarations import Access, ToolGuard, UsageLimit
from agent_factory.topology.model import (
    TOOLS,
    AgentStyle,
    Edge,
    Layer,
    Move,
    Phase,
    Setting,
    Tool,
    TopologyData,
)
from agent_factory.topology.render.text import render
from agent_factory.topology.transitions import Transition, transitions_of

FORMAT: Literal["agent_factory.topology"] = "agent_factory.topology"
VERSION: Literal[1] = 1
"""The version of the format. It grows when an older reader would misread a file."""


@dataclass(frozen=True, slots=True)
class CornerNodes:
    """The nodes where a run starts, a turn begins and ends, and a run leaves the loop."""

    entry: str
    loop_entry: str
    loop_exit: str
    exit: str


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node; `owner` and `phase` are those of its hook."""

    name: str
    kind: Literal["hook", "model", "tools"]
    owner: str | None
    phase: Phase | None


@dataclass(frozen=True, slots=True)
class HookRecord:
    """A hook, in the order of the middleware list, with the node it runs in."""

    owner: str
    phase: Phase
    node: str
    can_jump_to: tuple[Literal["end", "tools", "model"], ...]


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """The plan of an agent, as a file holds it.

    `topology.load` validates files against this class, and docs/topology.schema.json is its schema.
    """

    # Pydantic applies this configuration to the classes of the fields, too.
    __pydantic_config__: ClassVar = {
        "extra": "forbid",
        "json_schema_serialization_defaults_required": True,
    }

    format: Literal["agent_factory.topology"]
    version: Literal[1]
    style: AgentStyle
    corners: CornerNodes
    nodes: tuple[NodeRecord, ...]
    edges: tuple[Edge, ...]
    transitions: tuple[Transition, ...]
    hooks: tuple[HookRecord, ...]
    layers: tuple[Layer, ...]
    tools: tuple[Tool, ...]
    retries_output: bool
    settings: tuple[Setting, ...]
    moved: tuple[Move, ...] = ()
    guards: tuple[ToolGuard, ...] = ()
    limits: tuple[UsageLimit, ...] = ()
    accesses: tuple[Access, ...] = ()
    sequential_calls: bool = False
    idle_guards: tuple[str, ...] = ()


LATER: dict[type, tuple[str, ...]] = {
    PlanRecord: ("moved", "guards", "limits", "accesses", "sequential_calls", "idle_guards"),
    Layer: ("attempts",),
    Tool: ("labels", "reads", "writes", "max_requests", "background", "on_loss", "agent"),
    ToolGuard: ("reviewers", "decisions", "remember", "otherwise", "decides_again"),
    Setting: ("guards",),
    UsageLimit: ("raisable", "ledger", "attempts"),
}
"""Fields that a file lacks where they have their defaults, as files did before there were any."""

UNCHANGED = ("style", "edges", "layers", "tools", "retries_output", "settings", *LATER[PlanRecord])
"""Fields that a file holds as a plan has them."""


def to_json(plan: TopologyData) -> str:
    """The plan as canonical JSON: keys in a fixed order, an edge, hook, layer or tool a line."""

    def node(name: str) -> NodeRecord:
        if hook := plan.hook_at(name):
            return NodeRecord(name, "hook", hook.owner, hook.phase)
        return NodeRecord(name, "tools" if name == TOOLS else "model", None, None)

    record = PlanRecord(
        format=FORMAT,
        version=VERSION,
        corners=CornerNodes(plan.entry, plan.loop_entry, plan.loop_exit, plan.exit),
        nodes=tuple(map(node, plan.nodes)),
        transitions=transitions_of(plan),
        hooks=tuple(
            # Sorted: the order of a set of strings differs between processes.
            HookRecord(h.owner, h.phase, h.node, tuple(sorted(h.can_jump_to)))  # type: ignore[arg-type]  # names of JUMPS
            for h in plan.hooks
        ),
        **{name: getattr(plan, name) for name in UNCHANGED},
    )
    dump = partial(json.dumps, ensure_ascii=False, default=_data)
    parts = []
    for key, value in _data(record).items():
        # A record a line: a diff of two files then shows records.
        if isinstance(value, tuple) and value:
            lines = ",\n".join(f"    {dump(item)}" for item in value)
            parts.append(f'  "{key}": [\n{lines}\n  ]')
        else:
            parts.append(f'  "{key}": {dump(value)}')
    text = "{\n" + ",\n".join(parts) + "\n}\n"
    # Without ensure_ascii, json leaves C1 controls and U+2028 as they are.
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def _data(record: Any) -> dict[str, object]:
    """The fields of a record in a file."""
    later = LATER.get(type(record), ())
    return {
        field.name: value
        for field in fields(record)
        if (value := getattr(record, field.name)) != field.default or field.name not in later
    }


def to_snapshot(plan: TopologyData) -> str:
    """The plan as a `.topology` file: the text for people, then the JSON for programs."""
    return f"{render(plan)}\n\n{to_json(plan)}"
