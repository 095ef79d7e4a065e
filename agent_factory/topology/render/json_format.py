"""A plan as JSON, in one form only, so that equal plans are equal files."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from agent_factory.topology.model import MODEL, TOOLS, TopologyData
from agent_factory.topology.transitions import transitions_of

FORMAT = "agent_factory.topology"
VERSION = 1
"""Of the format. It grows when an older reader would misread a file."""


def to_json(plan: TopologyData) -> str:
    """The plan as canonical JSON: sorted keys, two spaces, a line break at the end."""
    return json.dumps(to_data(plan), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def to_data(plan: TopologyData) -> dict[str, Any]:
    """What `to_json` writes, as dicts and lists."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "corners": {
            "entry": plan.entry,
            "loop_entry": plan.loop_entry,
            "loop_exit": plan.loop_exit,
            "exit": plan.exit,
        },
        "nodes": [_node(plan, name) for name in plan.nodes],
        "edges": [
            {"source": e.source, "targets": list(e.targets), "route": e.route and str(e.route)}
            for e in plan.edges
        ],
        "transitions": [
            {
                "source": way.source,
                "target": way.target,
                "reasons": [{"why": str(r.why), "by": list(r.by)} for r in way.reasons],
            }
            for way in transitions_of(plan)
        ],
        "hooks": [
            {
                "owner": hook.owner,
                "phase": str(hook.phase),
                "can_jump_to": sorted(hook.can_jump_to),
            }
            for hook in plan.hooks
        ],
        "layers": [{k: str(v) for k, v in asdict(layer).items()} for layer in plan.layers],
        "tools": [{**asdict(tool), "kind": str(tool.kind)} for tool in plan.tools],
        "retries_output": plan.retries_output,
    }


def _node(plan: TopologyData, name: str) -> dict[str, Any]:
    for hook in plan.hooks:
        if hook.node == name:
            return {"name": name, "kind": "hook", "owner": hook.owner, "phase": str(hook.phase)}
    return {"name": name, "kind": TOOLS if name == TOOLS else MODEL, "owner": None, "phase": None}
