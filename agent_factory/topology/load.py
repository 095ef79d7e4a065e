"""Read a plan from a file: complete, of a known version, and never edited."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import cache
from itertools import zip_longest
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agent_factory.errors import AgentFactoryError
from agent_factory.topology.model import END, START, Hook
from agent_factory.topology.render import json_format
from agent_factory.topology.render.json_format import FORMAT, PlanRecord
from agent_factory.topology.topology import Topology

_HINT = "Write the file again: with to_json(), or with pytest --snapshot-update for a snapshot."


class TopologyFileError(AgentFactoryError, ValueError):
    """A file does not hold a plan that this version can read."""

    code = "AF130"


def load_topology(text: str, source: str = "the file") -> Topology:
    """The plan that `Topology.to_json` or `Topology.to_snapshot` wrote.

    Args:
        text: The content of the file, with LF or CRLF line breaks.
        source: The name of the file in errors.

    Raises:
        TopologyFileError: The file has no plan, has a newer version, or was edited by hand.

    >>> from agent_factory import plan_agent
    >>> plan = plan_agent()
    >>> load_topology(plan.to_json()) == load_topology(plan.to_snapshot()) == plan
    True
    """
    text = text.replace("\r\n", "\n").strip()
    # In a snapshot the JSON follows the text. It begins at the last line that is a brace alone: its
    # records stand on indented lines, and line breaks in their names are escaped.
    body, brace, rest = ("", "", "") if text.startswith("{") else text.rpartition("\n{\n")
    json_text = f"{{{rest}" if brace else text
    data = _parsed(json_text, source)
    try:
        # Strict: pydantic would accept "1" for 1, and the file would no longer be in its one form.
        record = _adapter().validate_json(json_text, strict=True)
    except ValidationError as error:
        # The input of an error may be a whole plan.
        problems = [
            f"{'.'.join(map(str, e['loc']))}: {e['msg']}, got {e['input']!r:.80}"
            for e in error.errors()[:3]
        ]
        raise TopologyFileError(
            source, f"does not have the fields of a plan: {'; '.join(problems)}.", _HINT
        ) from None
    hooks = []
    for hook in record.hooks:
        default = Hook(hook.owner, hook.phase, frozenset(hook.can_jump_to))
        # Nodes of `create_react_agent` have other names than `{owner}.{phase}`.
        hooks.append(default if default.node == hook.node else replace(default, at=hook.node))
    plan = Topology(
        nodes=tuple(node.name for node in record.nodes),
        **asdict(record.corners),
        hooks=tuple(hooks),
        **{name: getattr(record, name) for name in json_format.UNCHANGED},
    )
    # Each node has an edge, and all targets and corners are nodes.
    nodes = {*plan.nodes, START, END}
    ends = {node for edge in plan.edges for node in (edge.source, *edge.targets)}
    ends |= {plan.entry, plan.loop_entry, plan.loop_exit, plan.exit}
    sources = sorted(edge.source for edge in plan.edges)
    is_closed = ends <= nodes and sources == sorted({*plan.nodes, START})
    # Transitions follow from edges and hooks, and are in the file as well: both must agree.
    if json.loads(plan.to_json()) != data or not is_closed:
        reason = "contradicts itself: it was edited by hand, or merged."
        raise TopologyFileError(source, reason, _HINT)
    # The text may also have too many lines, or too few.
    pairs = zip_longest(body.removesuffix("\n").split("\n"), plan.render().split("\n"))
    for number, (line, expected) in enumerate(pairs, 1):
        if brace and line != expected:
            raise TopologyFileError(
                source,
                f"contradicts itself in line {number}: the text has {line or 'nothing'!r}, and the "
                f"JSON below it means {expected or 'nothing'!r}. It was edited by hand, merged, or "
                "written by another version.",
                _HINT,
            )
    return plan


def json_schema() -> dict[str, Any]:
    """The JSON schema of the output of `Topology.to_json`: docs/topology.schema.json."""
    schema = _adapter().json_schema(mode="serialization")
    for kind, later in json_format.LATER.items():
        record = schema if kind is PlanRecord else schema["$defs"][kind.__name__]
        record["required"] = [name for name in record["required"] if name not in later]
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **schema, "title": "The plan of an agent"}


@cache
def _adapter() -> TypeAdapter[PlanRecord]:
    # Built when a file is read: building takes milliseconds, and most programs read no file.
    return TypeAdapter(PlanRecord)


def _parsed(text: str, source: str) -> object:
    """The JSON of a file, refused if not of a plan, or of a newer version."""
    try:
        data = json.loads(text)
    except RecursionError:
        raise TopologyFileError(source, "is nested too deeply for a plan.", _HINT) from None
    except ValueError as error:
        if text.startswith("{"):
            raise TopologyFileError(source, f"is not valid JSON: {error}.", _HINT) from None
        data = None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise TopologyFileError(source, "does not hold the plan of an agent.", _HINT)
    version = data.get("version")
    if isinstance(version, int) and version > json_format.VERSION:
        raise TopologyFileError(
            source,
            f"has version {version} of the format, and this agent_factory reads up to "
            f"{json_format.VERSION}.",
            "Upgrade agent-factory, or write the file again with this version.",
        )
    return data
