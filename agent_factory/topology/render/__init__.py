"""A plan as people and machines read it: text, drawings, JSON.

What pages are drawn with is here; `Topology` has methods for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_factory import lazy_names

if TYPE_CHECKING:
    from agent_factory.topology.render.details import details_of as details_of
    from agent_factory.topology.render.figure import figure_of as figure_of
    from agent_factory.topology.render.html import body as body
    from agent_factory.topology.render.html import page_css as page_css
    from agent_factory.topology.render.html import script as script
    from agent_factory.topology.render.html import themes as themes
    from agent_factory.topology.render.layout import lay_out as lay_out
    from agent_factory.topology.render.svg import draw as draw
    from agent_factory.topology.render.svg import style as style

_HOME = {
    ".details": "details_of",
    ".figure": "figure_of",
    ".html": "body page_css script themes",
    ".layout": "lay_out",
    ".svg": "draw style",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOME)
