"""Read a plan back from its JSON: whole, of a version known here, and as it was written."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from agent_factory.errors import AgentFactoryError
from agent_factory.facts import (
    MODEL,
    Call,
    Dialect,
    Edge,
    Hook,
    Layer,
    Phase,
    Route,
    Tool,
    ToolKind,
)
from agent_factory.json_schema import mistakes
from agent_factory.render.as_json import FORMAT, VERSION, to_data
from agent_factory.topology import Topology
from agent_factory.ways import Why


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
        ways=_list(
            _object(
                source=_TEXT,
                target=_TEXT,
                reasons=_list(_object(why=_one_of(*Why), by=_list(_TEXT))),
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
    if wrong := mistakes(data, SCHEMA):
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
        dialect=_dialect(data),
    )


def _hook(data: dict[str, Any], nodes: list[dict[str, Any]]) -> Hook:
    hook = Hook(data["owner"], Phase(data["phase"]), frozenset(data["can_jump_to"]))
    names = [n["name"] for n in nodes if (n["owner"], n["phase"]) == (hook.owner, hook.phase)]
    return hook if hook.node in names else replace(hook, at="".join(names[:1]))


def _dialect(data: dict[str, Any]) -> Dialect:
    if any(node["kind"] == "model" and node["name"] == MODEL for node in data["nodes"]):
        return Dialect.CREATE_AGENT
    reasons = [reason["why"] for way in data["ways"] for reason in way["reasons"]]
    return Dialect.REACT_TOGETHER if Why.TOGETHER in reasons else Dialect.REACT


def _is_closed(plan: Topology) -> bool:
    """Whether every edge leads from a node to nodes, once, and the corners are nodes too."""
    known = {*plan.nodes, "__start__", "__end__"}
    ends = {node for edge in plan.edges for node in (edge.source, *edge.targets)}
    corners = {plan.entry, plan.loop_entry, plan.loop_exit, plan.exit}
    sources = [edge.source for edge in plan.edges]
    return ends | corners <= known and sorted(sources) == sorted({*plan.nodes, "__start__"})
