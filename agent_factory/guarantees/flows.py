"""Flows from sources to sinks: text of others, private data, and a way out.

Each of the three is harmless, and so are any two. With all three, a text can make the model send
private data to its author: the lethal trifecta.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from agent_factory.errors import BuildWarning
from agent_factory.topology.conditions import Condition, counterexample_case, parse_condition
from agent_factory.topology.declarations import ToolGuard
from agent_factory.topology.model import Tool, ToolKind, TopologyData

_RUN_HERE = (ToolKind.CLIENT, ToolKind.INNER)

_OUTSIDE = "labeled outside"
"""Fact of guards of flows, which holds for each sink."""

_IN_FLOW = parse_condition("seen untrusted and seen private")
"""Facts that hold in each flow from both sources to a sink."""


@dataclass(frozen=True, slots=True)
class Trifecta:
    """Path on which text of others can send private data out.

    Args:
        untrusted: The name of a tool with foreign text.
        private: The name of a tool with private data.
        sink: The name of the tool with an effect outside. Nothing decides about all of its calls.
    """

    untrusted: str
    private: str
    sink: str

    @property
    def path(self) -> str:
        """The way in words."""
        steps = dict.fromkeys((self.untrusted, self.private))
        return " -> ".join(f"model -> {step}" for step in (*steps, self.sink))

    def __str__(self) -> str:
        brings = f"{self.untrusted!r} brings text that others wrote, {self.private!r} private data"
        if self.untrusted == self.private:
            brings = f"{self.untrusted!r} brings text that others wrote and private data"
        return (
            f"may send out private data for others: {brings}, and no person, judge or rule decides "
            f"about each call. Path: {self.path}."
        )


def trifectas(plan: TopologyData) -> tuple[Trifecta, ...]:
    """Return the paths on which text of others can send private data out, one for each sink.

    Args:
        plan: The plan, of `plan_agent`, `topology_of` or `load_topology`.

    >>> from agent_factory import plan_agent, tool_labels
    >>> @tool_labels("untrusted", "private")
    ... def read_mail(id: str) -> str:
    ...     "Read a mail."
    ...     return "..."
    >>> @tool_labels("outside")
    ... def send_mail(to: str, text: str) -> str:
    ...     "Send a mail."
    ...     return "sent"
    >>> plan = plan_agent(tools=[read_mail, send_mail], ignore=["AF219"])
    >>> [trifecta.path for trifecta in trifectas(plan)]
    ['model -> read_mail -> model -> send_mail']
    """
    # Most agents have no labels.
    by_label = {
        label: [tool for tool in plan.tools if label in tool.labels and tool.kind in _RUN_HERE]
        for label in ("untrusted", "private", "outside")
    }
    if not all(by_label.values()):
        return ()
    return tuple(
        Trifecta(by_label["untrusted"][0].name, by_label["private"][0].name, sink.name)
        for sink in by_label["outside"]
        if not is_guarded(plan, sink)
    )


def is_guarded(plan: TopologyData, sink: Tool) -> bool:
    """Return True if a person, a judge or a rule decides about each call of a sink in such a flow.

    A decision about each call of the agent with the sink counts, too.
    """
    # "desk/clerk/send": a decision about "desk" or "desk/clerk" comes before each such call.
    parts = sink.name.split("/")
    names = ["/".join(parts[: size + 1]) for size in range(len(parts))]
    # AF129 reports a hook with a jump around the guard.
    guards = [
        guard
        for guard in plan.guards
        if not guard.after and any(_is_about(guard, name) for name in names)
    ]
    conditions = [_in_flow(guard) for guard in guards]
    return counterexample_case(_IN_FLOW, conditions, lambda _: None) is None


def _is_about(guard: ToolGuard, tool: str) -> bool:
    """Return True if a guard is about a tool; a rule to let the tool run is a decision, too."""
    is_of_flows = _OUTSIDE in guard.when
    return guard.covers(tool) or (is_of_flows and replace(guard, exclude=()).covers(tool))


def _in_flow(guard: ToolGuard) -> Condition:
    """The calls of a guard, with the calls allowed by an earlier rule of the same policy."""
    parts = parse_condition(guard.when).decidable.parts
    if _OUTSIDE in guard.when:
        parts = tuple(p for p in parts if not (isinstance(p, Condition) and p.negated))
    return Condition(tuple(part for part in parts if str(part) != _OUTSIDE))


def trifecta_findings(plan: TopologyData) -> Iterator[BuildWarning]:
    """Find sinks by which text of others can send private data out."""
    for trifecta in trifectas(plan):
        inside, _, name = trifecta.sink.rpartition("/")
        where = f" to the agent of {inside!r}" if inside else " to `middleware`"
        yield BuildWarning(
            trifecta.sink,
            str(trifecta),
            f"Add FlowGuardMiddleware(){where}, or a review of all calls: "
            f"HumanInTheLoopMiddleware({{{name!r}: True}}).",
            code="AF219",
        )
