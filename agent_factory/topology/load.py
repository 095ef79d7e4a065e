"""Read a plan back from its JSON: whole, of a version known here, and as it was written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final

from agent_factory.errors import AgentFactoryError
from agent_factory.structured_output.json_schema import validation_errors
from agent_factory.topology.model import (
    AGENT,
    END,
    MODEL,
    REACT_HOOKS,
    START,
    TOOLS,
    AgentStyle,
    Call,
    Edge,
    Hook,
    Layer,
    Phase,
    Route,
    Shape,
    Tool,
    ToolKind,
)
from agent_factory.topology.render.json_format import FORMAT, VERSION, to_data
from agent_factory.topology.topology import Topology, plan
from agent_factory.topology.transitions import TransitionReason


class TopologyFileError(AgentFactoryError, ValueError):
    """A file does not hold a plan that this version can read."""

    code = "AF130"


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _one_of(*words: Any) -> dict[str, Any]:
    return {"enum": [word if word is None else str(word) for word in words]}


_TEXT = {"type": "string"}
_TEXT_OR_NONE = {"type": ["string", "null"]}

SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "The plan of an agent",
    **_object(
        format={"const": FORMAT},
        version={"const": VERSION},
        corners=_object(entry=_TEXT, loop_entry=_TEXT, loop_exit=_TEXT, exit=_TEXT),
        nodes=_list(
            _object(
                name=_TEXT,
                kind=_one_of("hook", "model", "tools"),
                owner=_TEXT_OR_NONE,
                phase=_one_of(None, *Phase),
            )
        ),
        edges=_list(
            _object(
                source=_TEXT, targets={**_list(_TEXT), "minItems": 1}, route=_one_of(None, *Route)
            )
        ),
        transitions=_list(
            _object(
                source=_TEXT,
                target=_TEXT,
                reasons=_list(_object(why=_one_of(*TransitionReason), by=_list(_TEXT))),
            )
        ),
        hooks=_list(
            _object(
                owner=_TEXT,
                phase=_one_of(*Phase),
                can_jump_to=_list(_one_of("tools", "model", "end")),
            )
        ),
        layers=_list(_object(owner=_TEXT, call=_one_of(*Call), method=_TEXT)),
        tools=_list(
            _object(
                name=_TEXT, kind=_one_of(*ToolKind), return_direct={"type": "boolean"}, owner=_TEXT
            )
        ),
        retries_output={"type": "boolean"},
    ),
}
"""What `Topology.to_json` writes, as a JSON schema. docs/topology.schema.json is a copy of it."""


def load_topology(text: str, source: str = "the file") -> Topology:
    """The plan that `Topology.to_json` wrote.

    Args:
        text: The JSON.
        source: What an error calls it.

    Raises:
        TopologyFileError: It is no such JSON, of another version, or was changed by hand.

    >>> from agent_factory import plan_agent
    >>> plan = plan_agent()
    >>> load_topology(plan.to_json()) == plan
    True
    """
    data = _read(text, source)
    if wrong := validation_errors(data, SCHEMA):
        raise TopologyFileError(
            source, f"is no plan: {'; '.join(wrong[:3])}.", "Write it anew with to_json()."
        )
    plan = _made(data)
    if to_data(plan) != data or not _is_closed(plan):
        raise TopologyFileError(
            source,
            "contradicts itself: it was changed by hand, or merged.",
            "Write it anew with to_json().",
        )
    return plan


def _read(text: str, source: str) -> Any:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise TopologyFileError(
            source, f"is no JSON: {error}.", "Write it with to_json()."
        ) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise TopologyFileError(source, "holds no plan of an agent.", "Write it with to_json().")
    version = data.get("version")
    if isinstance(version, int) and version > VERSION:
        raise TopologyFileError(
            source,
            f"has version {version} of the format, and this agent_factory reads up to {VERSION}.",
            "Upgrade agent-factory, or write the file anew with this one.",
        )
    return data


def _made(data: dict[str, Any]) -> Topology:
    return Topology(
        nodes=tuple(node["name"] for node in data["nodes"]),
        **data["corners"],
        edges=tuple(
            Edge(e["source"], tuple(e["targets"]), Route(e["route"]) if e["route"] else None)
            for e in data["edges"]
        ),
        layers=tuple(Layer(x["owner"], Call(x["call"]), x["method"]) for x in data["layers"]),
        hooks=tuple(_hook(x, data["nodes"]) for x in data["hooks"]),
        tools=tuple(Tool(**{**x, "kind": ToolKind(x["kind"])}) for x in data["tools"]),
        retries_output=data["retries_output"],
        style=_dialect(data),
    )


def _hook(data: dict[str, Any], nodes: list[dict[str, Any]]) -> Hook:
    hook = Hook(data["owner"], Phase(data["phase"]), frozenset(data["can_jump_to"]))
    names = [n["name"] for n in nodes if (n["owner"], n["phase"]) == (hook.owner, hook.phase)]
    return hook if hook.node in names else replace(hook, at="".join(names[:1]))


def _dialect(data: dict[str, Any]) -> AgentStyle:
    if any(node["kind"] == "model" and node["name"] == MODEL for node in data["nodes"]):
        return AgentStyle.CREATE_AGENT
    reasons = [reason["why"] for way in data["transitions"] for reason in way["reasons"]]
    return AgentStyle.REACT_V1 if TransitionReason.TOGETHER in reasons else AgentStyle.REACT


def _is_closed(plan: Topology) -> bool:
    """Whether every edge leads from a node to nodes, once, and the corners are nodes too."""
    known = {*plan.nodes, "__start__", "__end__"}
    ends = {node for edge in plan.edges for node in (edge.source, *edge.targets)}
    corners = {plan.entry, plan.loop_entry, plan.loop_exit, plan.exit}
    sources = [edge.source for edge in plan.edges]
    return ends | corners <= known and sorted(sources) == sorted({*plan.nodes, "__start__"})


_WAY = re.compile(r"(?P<source>.+?) -> (?P<target>.+?)(?:  \[(?P<why>.*)\])?")
_LAYER = re.compile(r"around each (?P<call>model|tool) call: (?P<owner>.+)\.(?P<method>\w+)")
_TOOL = re.compile(r"tool: (?P<name>.+?)(?:  \[(?P<notes>.*)\])?")
_REMEDY = "Write it anew with render(), or with pytest --snapshot-update."


@dataclass(frozen=True, slots=True)
class _Step:
    source: str
    target: str
    why: str


def read_topology(text: str, source: str = "the file") -> Topology:
    """The plan that a text of `Topology.render` describes.

    It has the same nodes, ways, layers and tools, in the same order. A declared jump that leads
    nowhere else than the way on anyhow is not in the text, and so not in the plan.

    Args:
        text: The text; how it ends its lines does not matter.
        source: What an error calls it.

    Raises:
        TopologyFileError: It is no such text, or was changed by hand.

    >>> from agent_factory import plan_agent
    >>> read_topology(plan_agent().render()) == plan_agent()
    True
    """
    lines = text.rstrip().splitlines()
    if not any(_WAY.fullmatch(line) for line in lines):
        raise TopologyFileError(source, "holds no plan of an agent.", _REMEDY)
    found = plan(_shape(lines, source))
    _check_as_written(lines, found, source)
    return found


def _check_as_written(lines: Sequence[str], found: Topology, source: str) -> None:
    pairs = zip_longest(lines, found.render().splitlines())
    for number, (line, expected) in enumerate(pairs, 1):
        if line != expected:
            raise TopologyFileError(
                source,
                f"contradicts itself in line {number}: it says {line or 'nothing'!r} where its "
                f"plan says {expected or 'nothing'!r}. It was changed by hand, merged, or written "
                "by another version.",
                _REMEDY,
            )
    missing = {way.target for way in found.transitions} - {*found.nodes, END}
    if missing:
        raise TopologyFileError(
            source, f"leads to {min(missing)}, and nothing leads on from there.", _REMEDY
        )


def _shape(lines: Sequence[str], source: str) -> Shape:
    steps = [
        _Step(m["source"], m["target"], m["why"] or "")
        for line in lines
        if not _LAYER.fullmatch(line) and not _TOOL.fullmatch(line) and (m := _WAY.fullmatch(line))
    ]
    nodes = [node for node in dict.fromkeys(step.source for step in steps) if node != START]
    style = _dialect_of_text(nodes, steps)
    before = [node for node in nodes if _phase(node) == Phase.BEFORE_MODEL]
    loop_entry = [*before, style.model][0]
    structured = any(
        step.why.startswith((TransitionReason.STRUCTURED, TransitionReason.RETRY)) for step in steps
    )
    layers = tuple(
        Layer(m["owner"], Call(m["call"]), m["method"])
        for line in lines
        if (m := _LAYER.fullmatch(line))
    )
    return Shape(
        hooks=tuple(_hooks(nodes, steps, loop_entry, source)),
        layers=layers,
        has_tools=TOOLS in nodes,
        may_skip_tools=structured or any(layer.call is Call.MODEL for layer in layers),
        retries_output=structured
        or any(f"; {TransitionReason.STRUCTURED}" in step.why for step in steps),
        tools=tuple(_tool(m) for line in lines if (m := _TOOL.fullmatch(line))),
        style=style,
    )


def _dialect_of_text(nodes: Sequence[str], steps: Sequence[_Step]) -> AgentStyle:
    if AGENT not in nodes:
        return AgentStyle.CREATE_AGENT
    together = any(step.why == TransitionReason.TOGETHER for step in steps)
    return AgentStyle.REACT_V1 if together else AgentStyle.REACT


def _phase(node: str) -> str:
    return REACT_HOOKS.get(node) or node.rpartition(".")[2]


def _hooks(
    nodes: Sequence[str], steps: Sequence[_Step], loop_entry: str, source: str
) -> Iterator[Hook]:
    """The hooks in the order of their list: after hooks run in reverse."""
    ours = (*(style.model for style in AgentStyle), TOOLS)
    made = [_hook_of_text(node, steps, loop_entry, source) for node in nodes if node not in ours]
    late = (Phase.AFTER_MODEL, Phase.AFTER_AGENT)
    yield from (hook for hook in made if hook.phase not in late)
    yield from (hook for hook in reversed(made) if hook.phase in late)


def _hook_of_text(node: str, steps: Sequence[_Step], loop_entry: str, source: str) -> Hook:
    owner, phase = node.rpartition(".")[0], _phase(node)
    if node in REACT_HOOKS:
        return Hook(node, REACT_HOOKS[node], at=node)
    if phase not in list(Phase):
        raise TopologyFileError(source, f"has a node {node!r}, which no hook makes.", _REMEDY)
    targets = [step.target for step in steps if step.source == node and _jumps(step, owner)]
    jumps = {TOOLS: "tools", loop_entry: "model"}
    return Hook(owner, Phase(phase), frozenset(jumps.get(target, "end") for target in targets))


def _jumps(step: _Step, owner: str) -> bool:
    return f"{TransitionReason.JUMP}: {owner}" in step.why.split("; ")


def _tool(found: re.Match[str]) -> Tool:
    notes = (found["notes"] or "").split("; ")
    kinds = [ToolKind(note) for note in notes if note in list(ToolKind)]
    owners = [note.removeprefix("by ") for note in notes if note.startswith("by ")]
    return Tool(
        found["name"],
        kind=[*kinds, ToolKind.CLIENT][0],
        return_direct="return_direct" in notes,
        owner="".join(owners),
    )
