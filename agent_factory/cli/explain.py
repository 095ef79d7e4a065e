"""`agent-factory explain`: the order in which everything runs, paths, or a code."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict
from importlib import import_module
from inspect import getdoc
from itertools import islice
from math import ceil
from pathlib import Path
from statistics import median
from textwrap import indent
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table

from agent_factory.cli import codes, console
from agent_factory.cli.console import AsJson, Text
from agent_factory.cli.error_reports import CommandError
from agent_factory.cli.loading import load
from agent_factory.errors import BUILD_CODES, BuildCode, BuildWarning, TurnError, did_you_mean
from agent_factory.guarantees import undecided_calls
from agent_factory.topology.model import END, START
from agent_factory.topology.render.text import CORNERS, MOST_PATHS, meaning, ordered_parts
from agent_factory.topology.topology import Topology
from agent_factory.topology.transitions import Transition, paths_between

EXAMPLES = """\
agent-factory explain shop.desk:agent
agent-factory explain shop.desk:agent model tools
agent-factory explain shop.desk:agent --bounds --recordings tests/recordings
agent-factory explain AF204"""


def explain(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="As for `show`; or a code.")],
    source: Annotated[
        str | None, typer.Argument(metavar="[FROM]", help="The node to start from.")
    ] = None,
    to: Annotated[str | None, typer.Argument(metavar="[TO]", help="The node to reach.")] = None,
    bounds: Annotated[
        bool, typer.Option("--bounds", help="Show the most that a run can use by its limits.")
    ] = False,
    recordings: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="With --bounds: what recorded runs have used."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Explain in which order hooks and layers run, and why; or how a run gets from FROM to TO.

    `start` and `end` stand for __start__ and __end__. A code such as AF204 or AF301 instead of
    TARGET explains an error or a warning.
    """
    is_code = bool(re.fullmatch(r"AF\d+", target))
    styled: Iterable[RenderableType] = ()  # none of a code, whose example must not wrap
    if recordings is not None and not bounds:
        raise CommandError("--recordings needs --bounds. Add --bounds.")
    if bounds and (source is not None or is_code):
        raise CommandError("--bounds is about a whole agent: name the agent alone.")
    if bounds:
        data, text, styled = _bounds(target, recordings)
    elif is_code:
        data, text = _code(target)
    elif source is not None and to is None:
        raise CommandError("FROM needs TO: add the node to reach.")
    else:
        plan = load(target).plan
        if source is None or to is None:
            text = plan.explain()
            corners = {corner: getattr(plan, corner) for corner in CORNERS}
            order = list(map(asdict, ordered_parts(plan)))
            data = {"target": target, "order": order, "corners": corners}
            # Of an agent without guards, nothing is decided about.
            calls = undecided_calls(plan) if plan.guards or plan.idle_guards else ()
            if calls:
                heading = "calls that nothing decides about before they run:"
                text = "\n".join([text, f"{'no guard':<14} {heading}", *(f"  {c}" for c in calls)])
            data["undecided"] = list(calls)
        else:
            source, to = _node(plan, source), _node(plan, to)
            text, data = plan.explain(source, to), _edge(target, plan, source, to)
        styled = console.styled_lines(text)
    console.report(data, text, styled, json=json)


def _bounds(target: str, folder: Path | None) -> tuple[dict[str, object], str, list[Table | Text]]:
    """The bounds of a run: as data, as text, and as a table."""
    rows = load(target).plan.bounds().rows
    runs = _recorded_runs(folder) if folder is not None else []
    table = Table("what", "the most", "by", *(["median", "95 %"] if runs else []))
    lines: list[str] = []
    items: list[object] = []
    for row in rows:
        # A recording has no usage of agents inside.
        unused = 0.0 if row.what.startswith("calls of ") else None
        amounts = [run.get(row.what, unused) for run in runs if not row.agent]
        numbers = sorted(amount for amount in amounts if amount is not None)
        high = ceil(0.95 * len(numbers)) - 1
        figures = {"median": median(numbers), "p95": numbers[high]} if numbers else {}
        cells = [f"{figure:g}" for figure in figures.values()]
        reasons = [Text(f"{by}.") for by in row.by] + [Text(note, "dim") for note in row.notes]
        style = "" if row.most is not None else "yellow"
        table.add_row(Text(row.name), Text(row.number, style), Group(*reasons), *cells)
        recorded = f" Recorded: median {cells[0]}, 95 % up to {cells[1]}." if cells else ""
        end = "." if recorded and not row.notes else ""
        lines.append(f"{row}{end}{recorded}")
        items.append({**asdict(row), **({"recorded": figures or None} if runs else {})})
    data: dict[str, object] = {"target": target, "bounds": items}
    if runs:
        data["recorded_runs"] = len(runs)
        lines.append(f"{console.counted(len(runs), 'recorded run')} in {folder}.")
    return data, "\n".join(lines), [table, *[Text(x, "dim") for x in lines[-1:] if runs]]


def _recorded_runs(folder: Path) -> list[dict[str, float]]:
    """Usage of recorded runs, by the names of bounds."""
    from agent_factory.middleware.budget.prices import listed_price
    from agent_factory.testing.recorded_usage import usage_of_runs
    from agent_factory.testing.recordings import CassetteError
    from agent_factory.testing.replays import recordings_in

    try:
        return [run for path in recordings_in(folder) for run in usage_of_runs(path, listed_price)]
    except CassetteError as error:
        raise CommandError(str(error), error) from None


def _code(code: str) -> tuple[dict[str, object], str]:
    """A code of an error or a warning: as data, and as text."""
    if code in BUILD_CODES:
        entry, example = BUILD_CODES[code], codes.EXAMPLES[code]
        data = {
            **asdict(entry),
            "severity": entry.severity,
            "ignorable": entry.ignorable,
            "example": example.complete,
            "hint": example.hint,
        }
        words = f"{entry.meaning} {consequence(entry)}\n\n{indent(example.complete, '    ')}"
    elif code in codes.ERROR_CODES:
        path, hint = codes.ERROR_CODES[code]
        module, _, name = path.rpartition(".")
        error = getattr(import_module(module), name)
        meaning = " ".join((getdoc(error) or "").partition("\n\n")[0].split())
        data = {
            "code": code,
            "name": name,
            "meaning": meaning,
            "severity": getattr(error, "severity", "error"),
            "ignorable": error is BuildWarning,
            "example": "",
            "hint": hint,
        }
        when = " An agent raises it while it runs." if issubclass(error, TurnError) else ""
        words = f"{meaning}{when}\nThe class is {path}."
    else:
        known = ", ".join(sorted(BUILD_CODES.keys() | codes.ERROR_CODES.keys()))
        raise CommandError(f"The code {code} is unknown. Known codes are {known}.")
    return data, f"{code} {data['name']}\n{words}\n\n{data['hint']}"


def consequence(entry: BuildCode) -> str:
    """Effect of a code on a build, and whether the code can be ignored."""
    if entry.severity == "warning":
        return "A warning; an error with `strict=True`. It can be ignored."
    return f"An error. It can{'' if entry.ignorable else 'not'} be ignored."


def _node(plan: Topology, name: str) -> str:
    names = [START, *plan.nodes, END]
    node = name if name in names else {"start": START, "end": END}.get(name, name)
    if node in names:
        return node
    hint = did_you_mean(name, names, f"Its nodes are {', '.join(names)}.")
    raise CommandError(f"This agent does not have a node {name!r}. {hint}")


def _edge(target: str, plan: Topology, source: str, to: str) -> dict[str, object]:
    """The edge between two nodes as data, or the paths between them."""

    def reasons(edge: Transition) -> list[dict[str, Any]]:
        return [
            {"why": str(reason.why), "by": list(reason.by), "meaning": meaning(reason)}
            for reason in edge.reasons
        ]

    paths = list(islice(paths_between(plan, source, to), MOST_PATHS))
    exists = bool(paths) and len(paths[0]) == 1
    leaving = [edge.target for edge in plan.transitions if edge.source == source]
    return {
        "target": target,
        "from": source,
        "to": to,
        "exists": exists,
        "reasons": reasons(paths[0][0]) if exists else [],
        "paths": [
            [{"from": e.source, "to": e.target, "reasons": reasons(e)} for e in path]
            for path in paths
            if not exists
        ],
        "instead": [] if exists else leaving,
    }
