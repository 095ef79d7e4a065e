"""`agent-factory explain`: in which order everything runs, and why; or one way, or one code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from agent_factory.cli import console as screen
from agent_factory.cli.console import AsJson
from agent_factory.cli.error_reports import ShowTraceback, Trouble
from agent_factory.cli.loading import load
from agent_factory.topology.model import END, START, Call, Phase
from agent_factory.topology.render.explanation import ORDERS, layer_order, meaning
from agent_factory.topology.topology import Topology
from agent_factory.topology.transitions import Transition

EXAMPLES = """Examples:

agent-factory explain shop.desk:agent

agent-factory explain shop.desk:agent model tools

agent-factory explain AF204"""

CORNERS = {
    "entry": "a run enters at",
    "loop_entry": "each turn begins at",
    "loop_exit": "and ends at",
    "exit": "the run leaves the loop for",
}
"""The corners of a plan, in words."""

_SHORT = {"start": START, "end": END}
"""What people call the two ends of a run."""


def explain(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="As `show` takes it; or a code.")],
    source: Annotated[
        str | None, typer.Argument(metavar="[FROM]", help="The node a way leaves.")
    ] = None,
    to: Annotated[str | None, typer.Argument(metavar="[TO]", help="The node it reaches.")] = None,
    json: AsJson = False,
    traceback: ShowTraceback = False,
) -> None:
    """Explain in which order hooks and layers run, and why; or why one node leads to another.

    `start` and `end` may be said for __start__ and __end__. Instead of TARGET, a code such as AF204
    tells what that finding means.
    """
    if re.fullmatch(r"AF\d+", target):
        _explain_code(target, json)
        return
    if source is not None and to is None:
        raise Trouble("FROM needs TO: name the node that the way reaches, too.")
    plan = load(target).plan
    if source is None or to is None:
        _print(plan.explain(), _order(target, plan), json, _order_for_people)
        return
    source, to = _node(plan, source), _node(plan, to)
    _print(plan.explain(source, to), _way(target, plan, source, to), json, _way_for_people)


def _explain_code(code: str, json: bool) -> None:
    from agent_factory.cli.check_codes import codes

    known = {entry.code: entry for entry in codes()}
    if code not in known:
        raise Trouble(f"{code} is no code that a build can find. Those are {', '.join(known)}.")
    if json:
        screen.write_json(known[code].to_data())
    else:
        screen.write(known[code].text)


def _node(plan: Topology, name: str) -> str:
    known = list(
        dict.fromkeys(node for way in plan.transitions for node in (way.source, way.target))
    )
    node = name if name in known else _SHORT.get(name, name)
    if node in known:
        return node
    close = get_close_matches(name, known, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"Its nodes are {', '.join(known)}."
    raise Trouble(f"{name} is no node of this agent. {hint}")


def _print(
    words: str, data: dict[str, Any], json: bool, for_people: Callable[[Any], Iterator[Any]]
) -> None:
    if json:
        screen.write_json(data)
    elif screen.is_terminal():
        screen.show(Group(*for_people(data)))
    else:
        screen.write(words)


def _order_for_people(data: dict[str, Any]) -> Iterator[RenderableType]:
    for part in data["order"]:
        yield Text(part["part"], style="bold")
        yield screen.indented(Text(f"{part['why']}:", style="dim"))
        for number, name in enumerate(part["names"], 1):
            yield screen.indented(Text.assemble(f"{number}. ", (name, "cyan")))
    yield Text("corners", style="bold")
    for corner, node in data["corners"].items():
        yield screen.indented(Text.assemble((f"{CORNERS[corner]} ", "dim"), (node, "cyan")))


def _way_for_people(data: dict[str, Any]) -> Iterator[RenderableType]:
    if not data["exists"]:
        yield Text(f"No way leads from {data['from']} to {data['to']}. From there:", style="bold")
        ends = data["instead"] or ["nowhere: a run ends there"]
        yield from (screen.indented(Text(f"-> {end}")) for end in ends)
        return
    yield Text(f"{data['from']} -> {data['to']}", style="bold")
    for reason in data["reasons"]:
        yield screen.indented(Text.assemble((f"{reason['why']}: ", "yellow"), reason["meaning"]))


def _order(target: str, plan: Topology) -> dict[str, Any]:
    return {
        "target": target,
        "order": [*_hooks(plan), *_layers(plan)],
        "corners": {
            "entry": plan.entry,
            "loop_entry": plan.loop_entry,
            "loop_exit": plan.loop_exit,
            "exit": plan.exit,
        },
    }


def _hooks(plan: Topology) -> Iterator[dict[str, Any]]:
    for phase, why in ORDERS.items():
        owners = [hook.owner for hook in plan.hooks if hook.phase is phase]
        if phase in (Phase.AFTER_MODEL, Phase.AFTER_AGENT):
            owners.reverse()
        if owners:
            yield {"part": str(phase), "why": why, "names": owners}


def _layers(plan: Topology) -> Iterator[dict[str, Any]]:
    for call in Call:
        names = [f"{x.owner}.{x.method}" for x in plan.layers if x.call is call]
        if names:
            yield {"part": f"{call} layers", "why": layer_order(call), "names": names}


def _way(target: str, plan: Topology, source: str, to: str) -> dict[str, Any]:
    leaving = [way for way in plan.transitions if way.source == source]
    found = [way for way in leaving if way.target == to]
    return {
        "target": target,
        "from": source,
        "to": to,
        "exists": bool(found),
        "reasons": [reason for way in found for reason in _reasons(way)],
        "instead": [] if found else [way.target for way in leaving],
    }


def _reasons(way: Transition) -> Iterator[dict[str, Any]]:
    for reason in way.reasons:
        yield {"why": str(reason.why), "by": list(reason.by), "meaning": meaning(reason)}
