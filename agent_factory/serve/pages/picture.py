"""Picture: the plan of an agent, with the parts of a run at work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from markupsafe import Markup

from agent_factory.errors import ArgumentError
from agent_factory.factory import topology_of
from agent_factory.guarantees import undecided_calls
from agent_factory.topology import TOOLS
from agent_factory.topology.render import details, figure, html, layout, svg
from agent_factory.types import Graph


@dataclass(frozen=True, slots=True)
class Picture:
    """Plan of an agent as a picture.

    Args:
        svg: The picture, in the style of the page.
        full: The picture with the details of each part, for a whole page.
        nodes: Keys of parts in the picture, by the names of nodes.
        edges: Keys of arrows, by the names of two nodes.
        model: The name of the node of the model.
    """

    svg: Markup
    full: Markup
    nodes: Mapping[str, str]
    edges: Mapping[tuple[str, str], str]
    model: str

    def lit_by(self, decision: Mapping[str, Any]) -> dict[str, object]:
        """Find the parts of the picture for a decision."""
        hook, owner = decision["hook"], decision["middleware"]
        node = f"{owner}.{hook}" if owner else hook
        if node in self.nodes:
            if decision["outcome"] == "routed":
                names = (part.partition(" (")[0].strip() for part in decision["detail"].split(","))
                targets = [name for name in names if name in self.nodes]
            else:
                targets = [target for source, target in self.edges if source == node]
                # A hook without a route has made no choice.
                targets = targets if len(targets) == 1 else []
            arrows = (self.edges.get((node, target)) for target in targets)
            return {
                "node": self.nodes[node],
                "edges": [key for key in arrows if key is not None],
                "next": [self.nodes[target] for target in targets],
            }
        around = TOOLS if decision["tool"] else self.model
        return {"node": self.nodes.get(around), "layer": owner or None, "edges": [], "next": []}


# The layout takes a while. Weak keys let dropped agents go.
_pictures: WeakKeyDictionary[Graph, Picture | None] = WeakKeyDictionary()


def picture_of(agent: Graph) -> Picture | None:
    """The picture of an agent; None for agents of other libraries."""
    if agent in _pictures:
        return _pictures[agent]
    try:
        plan = topology_of(agent)
    except ArgumentError:
        _pictures[agent] = None
        return None
    content = figure.figure_of(plan)
    positions, words = layout.lay_out(content), details.details_of(plan, content)

    def drawn(*, has_links: bool) -> str:
        return svg.draw(content, positions, words, linked=has_links, styled=False)

    picture = _pictures[agent] = Picture(
        svg=Markup(drawn(has_links=False)),
        full=Markup(html.body(plan, content, drawn(has_links=True), words, undecided_calls(plan))),
        nodes={box.name: box.key for box in content.boxes},
        edges={(arrow.source.name, arrow.target.name): arrow.key for arrow in content.arrows},
        model=plan.style.model,
    )
    return picture
