"""Topology: the plan of an agent, which can be drawn, compared, explained and kept."""

from __future__ import annotations

from dataclasses import fields

from agent_factory.topology.diff import TopologyDiff, diff
from agent_factory.topology.model import Shape, TopologyData
from agent_factory.topology.planner import decide
from agent_factory.topology.render.explanation import explain, explain_transition
from agent_factory.topology.render.json_format import to_json
from agent_factory.topology.render.mermaid import to_mermaid
from agent_factory.topology.render.text import render
from agent_factory.topology.transitions import Transition, transitions_of


class Topology(TopologyData):
    """The plan of an agent: a value that can be printed, compared and kept.

    Args:
        nodes: Every node, in the order of a run.
        entry: Where a run starts.
        loop_entry: Where it returns after tools.
        loop_exit: Where a turn of the model ends.
        exit: Where it leaves the loop.
        edges: Every edge.
        layers: The layers around model and tool calls, outermost first.
        hooks: The node hooks, in the order of the middleware list.
        tools: The tools known when the agent is built.
        retries_output: A structured answer is wanted, and asked for again where it is wrong.
        dialect: Which factory it is of.
    """

    __slots__ = ()

    @property
    def transitions(self) -> tuple[Transition, ...]:
        """Every step a run may take from one node to another, each with its reasons."""
        return transitions_of(self)

    def render(self) -> str:
        """The plan as text: a line for each way, each layer and each tool.

        >>> print(plan(Shape()).render())
        __start__ -> model
        model -> __end__
        """
        return render(self)

    def to_mermaid(self) -> str:
        """The plan as the text of a Mermaid flowchart, which GitHub and others draw.

        >>> print(plan(Shape()).to_mermaid())
        flowchart TD
            n0(["start"])
            n1["model"]
            n2(["end"])
            n0 --> n1
            n1 --> n2
        """
        return to_mermaid(self)

    def to_svg(self) -> str:
        """The plan as a picture: an SVG file that stands alone, for light and dark screens.

        Equal plans give equal files, from one version of Graphviz.

        Raises:
            ImportError: The extra `draw`, which brings Graphviz, is not installed.

        >>> plan(Shape()).to_svg().startswith("<svg ")
        True
        """
        # Far more plans are made than drawn: importing one form less is time saved at each start.
        from agent_factory.topology.render.svg import to_svg

        return to_svg(self)

    def to_html(self) -> str:
        """The plan as one page to move about in: zoom, search, and details of every part.

        It needs no network, can be opened as a file, and can be read without its script.

        Raises:
            ImportError: The extra `draw`, which brings Graphviz, is not installed.

        >>> plan(Shape()).to_html().startswith("<!doctype html>")
        True
        """
        from agent_factory.topology.render.html import to_html

        return to_html(self)

    def to_json(self) -> str:
        """The plan as JSON in one canonical form; `load_topology` reads it back."""
        return to_json(self)

    def diff(self, other: Topology) -> TopologyDiff:
        """What changes from this plan to another one; false where they are alike.

        >>> from agent_factory.topology import Tool
        >>> before = plan(Shape(has_tools=True, tools=(Tool("find"),)))
        >>> after = plan(Shape(has_tools=True, tools=(Tool("find", return_direct=True),)))
        >>> print(before.diff(after).changes[0])
        changed tool find: was plain, now return_direct
        """
        return diff(self, other)

    def explain(self, source: str | None = None, target: str | None = None) -> str:
        """In which order everything runs and why; or, for two nodes, why a way is there.

        Args:
            source: The node a way leaves, with `target`.
            target: The node it reaches.

        Raises:
            KeyError: One of the two is no node of this plan.
            TypeError: Only one of the two is given.

        >>> print(plan(Shape()).explain("model", "__end__"))
        model -> __end__
        - It comes next: nothing decides.
        """
        if source is None and target is None:
            return explain(self)
        if source is None or target is None:
            raise TypeError("explain() takes two nodes, or none.")
        return explain_transition(self, source, target)


def plan(shape: Shape) -> Topology:
    """The plan of an agent of this shape.

    >>> from agent_factory.topology import Hook, Phase
    >>> planned = plan(Shape(hooks=(Hook("A", Phase.AFTER_MODEL),), has_tools=True))
    >>> planned.loop_exit, planned.nodes
    ('A.after_model', ('model', 'A.after_model', 'tools'))
    """
    data = decide(shape)
    return Topology(**{field.name: getattr(data, field.name) for field in fields(data)})
