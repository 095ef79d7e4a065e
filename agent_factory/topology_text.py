"""Read a plan back from its text: what `Topology.render` wrote, line for line.

The text names every hook, layer and tool, and the reasons of each way. That is all a plan is made
from, so it is planned again; a text that says anything else than its own plan was changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from agent_factory.facts import (
    AGENT,
    END,
    REACT_HOOKS,
    START,
    TOOLS,
    Call,
    Dialect,
    Hook,
    Layer,
    Phase,
    Shape,
    Tool,
    ToolKind,
)
from agent_factory.topology import Topology, plan
from agent_factory.topology_file import TopologyFileError
from agent_factory.ways import Why

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
    missing = {way.target for way in found.ways} - {*found.nodes, END}
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
    dialect = _dialect(nodes, steps)
    before = [node for node in nodes if _phase(node) == Phase.BEFORE_MODEL]
    loop_entry = [*before, dialect.model][0]
    structured = any(step.why.startswith((Why.STRUCTURED, Why.RETRY)) for step in steps)
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
        retries_output=structured or any(f"; {Why.STRUCTURED}" in step.why for step in steps),
        tools=tuple(_tool(m) for line in lines if (m := _TOOL.fullmatch(line))),
        dialect=dialect,
    )


def _dialect(nodes: Sequence[str], steps: Sequence[_Step]) -> Dialect:
    if AGENT not in nodes:
        return Dialect.CREATE_AGENT
    together = any(step.why == Why.TOGETHER for step in steps)
    return Dialect.REACT_TOGETHER if together else Dialect.REACT


def _phase(node: str) -> str:
    return REACT_HOOKS.get(node) or node.rpartition(".")[2]


def _hooks(
    nodes: Sequence[str], steps: Sequence[_Step], loop_entry: str, source: str
) -> Iterator[Hook]:
    """The hooks in the order of their list: after hooks run in reverse."""
    ours = (*(dialect.model for dialect in Dialect), TOOLS)
    made = [_hook(node, steps, loop_entry, source) for node in nodes if node not in ours]
    late = (Phase.AFTER_MODEL, Phase.AFTER_AGENT)
    yield from (hook for hook in made if hook.phase not in late)
    yield from (hook for hook in reversed(made) if hook.phase in late)


def _hook(node: str, steps: Sequence[_Step], loop_entry: str, source: str) -> Hook:
    owner, phase = node.rpartition(".")[0], _phase(node)
    if node in REACT_HOOKS:
        return Hook(node, REACT_HOOKS[node], at=node)
    if phase not in list(Phase):
        raise TopologyFileError(source, f"has a node {node!r}, which no hook makes.", _REMEDY)
    targets = [step.target for step in steps if step.source == node and _jumps(step, owner)]
    jumps = {TOOLS: "tools", loop_entry: "model"}
    return Hook(owner, Phase(phase), frozenset(jumps.get(target, "end") for target in targets))


def _jumps(step: _Step, owner: str) -> bool:
    return f"{Why.JUMP}: {owner}" in step.why.split("; ")


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
