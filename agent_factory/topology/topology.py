"""Topology: the plan of an agent, which can be printed, drawn, compared, explained and saved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from hashlib import sha256

from agent_factory.errors import ArgumentError, describe
from agent_factory.topology.bounds import Bounds, TokenPrice, bounds
from agent_factory.topology.declarations import Access, ToolGuard, UsageLimit
from agent_factory.topology.diff import TopologyDiff, diff
from agent_factory.topology.model import Shape, TopologyData
from agent_factory.topology.planner import decide
from agent_factory.topology.render.json_format import LATER, to_json, to_snapshot
from agent_factory.topology.render.mermaid import to_mermaid
from agent_factory.topology.render.text import explain, explain_transition, render
from agent_factory.topology.stopping_points import StoppingPoint, stopping_points
from agent_factory.topology.transitions import Transition, transitions_of


class Topology(TopologyData):
    """The plan of an agent: a value to print, compare and save.

    Args:
        nodes: Every node, in the order of a run.
        entry: The node where a run starts.
        loop_entry: The node that follows the tools.
        loop_exit: The node where a turn of the model ends.
        exit: The node after the loop.
        edges: Every edge.
        settings: The settings of the middleware, if they were requested.
        name: The agent's name, for headings, neither compared nor stored.
        ledgers: The ledgers of middleware, for the plan of an agent around this agent; as `name`.

    All other fields are the fields of a `Shape`.
    """

    # Otherwise, each plan would have a dict in addition to the slots.
    __slots__ = ()

    @property
    def digest(self) -> str:
        """Short text, equal in every process, for all parts on which stored threads depend.

        These parts are the nodes in their order, the edges with their routes, the layers by name,
        the tools by name and kind, with `return_direct`, labels, touched resources, the requests of
        a call, the time in the background and the repetition of lost calls; sequential calls; and
        the declarations of middleware: guards, limits and accesses. Not part of the digest are the
        name of the agent, settings, the order of tools and of layers, and `moved`. Of two agents
        with the same digest, each can resume threads of the other agent, under the same rules.

        >>> plan(Shape()).digest
        '862173550bde716c'
        """
        # Sorted: a stored thread does not depend on the order of tools and layers.
        tools = sorted((tool.name, tool.kind, tool.return_direct) for tool in self.tools)
        layers = sorted((layer.owner, layer.call, layer.method) for layer in self.layers)
        edges = [(edge.source, edge.targets, edge.route) for edge in self.edges]
        parts: list[object] = [self.style, self.nodes, edges, layers, tools]
        # An agent without declarations has the same digest as before declarations existed.
        for declared in (self.guards, self.limits, self.accesses):
            parts += [sorted(map(_digested, declared))] if declared else []
        if any(tool.labels for tool in self.tools):
            parts.append(sorted((tool.name, tool.labels) for tool in self.tools))
        if touching := sorted((t.name, t.reads, t.writes) for t in self.tools if t.touches):
            parts.append(touching)
        if several := sorted((t.name, t.max_requests) for t in self.tools if t.max_requests > 1):
            parts.append(several)
        if late := sorted((t.name, t.background) for t in self.tools if t.background is not None):
            parts.append(["background", late])
        if again := sorted(tool.name for tool in self.tools if tool.on_loss == "repeat"):
            parts.append(["repeated if lost", again])
        parts += ["sequential_calls"] if self.sequential_calls else []
        return sha256(json.dumps(parts).encode()).hexdigest()[:16]

    @property
    def transitions(self) -> tuple[Transition, ...]:
        """Every edge from one node to another, each with its reasons."""
        return transitions_of(self)

    def render(self) -> str:
        """The plan as text: a line for each edge, each layer, each tool and each setting.

        >>> print(plan(Shape()).render())
        __start__ -> model
        model -> __end__
        """
        return render(self)

    def to_mermaid(self) -> str:
        """The plan as a Mermaid flowchart, which GitHub and many editors draw.

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
        """The plan as a picture: a self-contained SVG file for light and dark screens.

        Equal plans give equal files, as long as the version of Graphviz is the same.

        Raises:
            ImportError: The extra `draw`, which includes Graphviz, is not installed.

        >>> plan(Shape()).to_svg().startswith("<svg ")
        True
        """
        # Imported here: most programs never draw a plan, and start faster without this module.
        from agent_factory.topology.render.svg import to_svg

        return to_svg(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The forms for a notebook: a picture, if Graphviz is installed, and the text."""
        forms = {"text/plain": self.render()}
        with suppress(ImportError):  # without the extra `draw`, a notebook displays the text
            forms["image/svg+xml"] = self.to_svg()
        return forms

    def to_png(self) -> bytes:
        """The plan as a PNG picture, for programs that show no SVG.

        Raises:
            ImportError: The extra `draw`, which includes Graphviz, is not installed.

        >>> plan(Shape()).to_png().startswith(b"\\x89PNG")
        True
        """
        from agent_factory.topology.render.svg import to_png

        return to_png(self)

    def to_html(self) -> str:
        """The plan as an interactive page: zoom, search, and details of every part.

        The page needs no network, can be opened from disk, and is readable without JavaScript.

        Raises:
            ImportError: The extra `draw`, which includes Graphviz, is not installed.

        >>> plan(Shape()).to_html().startswith("<!doctype html>")
        True
        """
        from agent_factory.topology.render.html import to_html

        return to_html(self)

    def to_json(self) -> str:
        """The plan as canonical JSON, which `load_topology` reads back."""
        return to_json(self)

    def to_snapshot(self) -> str:
        """The plan as a `.topology` file: the text of `render`, then the JSON of `to_json`.

        Reviewers read the text, and `load_topology` reads the JSON.
        """
        return to_snapshot(self)

    def diff(self, other: Topology) -> TopologyDiff:
        """The changes from this plan to another plan; false if the plans are equal.

        >>> from agent_factory.topology import Tool
        >>> before = plan(Shape(has_tools=True, tools=(Tool("find"),)))
        >>> after = plan(Shape(has_tools=True, tools=(Tool("find", return_direct=True),)))
        >>> print(before.diff(after).changes[0])
        changed tool find: was plain, now return_direct
        """
        return diff(self, other)

    def stopping_points(self, new: Topology) -> tuple[StoppingPoint, ...]:
        """The fate of threads of this plan under an agent of another plan.

        Each node at which a stored thread can wait or was cut short is a point, and so is each tool
        with calls that can wait.

        Args:
            new: The plan of the agent that resumes the threads.

        >>> from agent_factory.topology import Hook, Phase
        >>> before = plan(Shape(hooks=(Hook("Review", Phase.AFTER_MODEL),)))
        >>> for point in before.stopping_points(plan(Shape())):
        ...     print(point.verdict, point.name)
        stands model
        breaks Review.after_model
        """
        return stopping_points(self, new)

    def bounds(self, prices: Mapping[str, TokenPrice] | None = None) -> Bounds:
        """The most that a run can use by its limits, with the limit behind each number.

        Model calls, tool calls, tokens, US dollars and seconds, of the agent and of agents inside
        of tools. Upper bounds, not estimates: a run mostly uses less, and a use without a limit has
        no bound. A number counts as the limits do; notes name uses on top.

        Args:
            prices: US dollars for a million tokens by the names of the models that the agent may
                use, such as `BudgetMiddleware` takes. Then limits of tokens bound dollars, too.

        Raises:
            ArgumentError: A price has no `input` and `output`.

        >>> from agent_factory.topology import UsageLimit
        >>> limit = UsageLimit(5, "tokens", owner="Limit")
        >>> planned = plan(Shape(limits=(limit,)))
        >>> planned.bounds().of("tokens").by
        ('Limit: at most 5 tokens a run',)
        """
        for name, price in (prices or {}).items():
            if not hasattr(price, "input") or not hasattr(price, "output"):
                reason = f"must have prices as values, got {describe(price)} for {name!r}."
                hint = f"Pass prices={{{name!r}: Price(input=..., output=...)}}."
                raise ArgumentError("prices", reason, hint)
        return bounds(self, prices)

    def explain(self, source: str | None = None, target: str | None = None) -> str:
        """The order in which everything runs, and why; or how a run gets from a node to another.

        The edge between both nodes with reasons; without an edge, the shortest paths.

        Args:
            source: The node to start from, with `target`.
            target: The node to reach.

        Raises:
            KeyError: A name is not a node of this plan.
            TypeError: A single node is given.

        >>> print(plan(Shape()).explain("model", "__end__"))
        model -> __end__
        - It is the next node; nothing decides.
        """
        if source is None and target is None:
            return explain(self)
        if source is None or target is None:
            raise TypeError("explain() takes no node or two nodes, got one.")
        return explain_transition(self, source, target)


def _digested(declared: ToolGuard | UsageLimit | Access) -> tuple[object, ...]:
    """The values of a declaration; of later fields, only unusual values, by name."""
    values = asdict(declared)
    # These do not matter to a stored thread.
    for name in ("decides_again", "attempts"):
        values.pop(name, None)
    # Without unusual values, the digest is the same as before these fields existed.
    later = {*LATER[ToolGuard], "ledger"} - {"decides_again"}
    usual = {field.name: field.default for field in fields(declared) if field.name in later}
    late = [(name, values.pop(name)) for name in usual]
    return *values.values(), *(pair for pair in late if pair[1] != usual[pair[0]])


def plan(shape: Shape) -> Topology:
    """The plan of an agent of this shape.

    >>> from agent_factory.topology import Hook, Phase
    >>> planned = plan(Shape(hooks=(Hook("A", Phase.AFTER_MODEL),), has_tools=True))
    >>> planned.loop_exit, planned.nodes
    ('A.after_model', ('model', 'A.after_model', 'tools'))
    """
    return decide(shape, Topology)
