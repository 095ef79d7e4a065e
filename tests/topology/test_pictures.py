"""Pictures of a plan: complete, readable, safe against hostile names, and equal to the graph."""

from __future__ import annotations

import re
import runpy
import sys
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_factory import (
    AgentMiddleware,
    Topology,
    after_agent,
    before_agent,
    create_agent,
    hook_config,
    plan_agent,
    topology_of,
)
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import LimitUnit, ToolGuard, UsageLimit
from agent_factory.topology import plan as plan_of
from agent_factory.topology.declarations import Access, AccessKind
from agent_factory.topology.model import (
    END,
    START,
    Call,
    Edge,
    Hook,
    Layer,
    Phase,
    Shape,
    Tool,
    ToolKind,
)
from agent_factory.topology.render.details import details_of, overview
from agent_factory.topology.render.figure import LONGEST_REMARK, MOST_REMARKS, figure_of
from agent_factory.topology.render.layout import (
    Drawing,
    crossed_titles,
    lay_out,
    points_of,
    read_layout,
)
from agent_factory.topology.render.palette import DAY, NIGHT, Theme
from agent_factory.topology.render.svg import draw
from samples import Guard, find, show
from tables import each

# Some jumps here cause warnings when the agent is built; these tests are about their targets.
pytestmark = pytest.mark.filterwarnings("ignore::agent_factory.AgentFactoryWarning")

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</script><img onerror=alert(1) src='x'>&\"]; \x00\ud800{}"


PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"


def documented() -> Topology:
    """The plan that the documentation shows."""
    plan: Topology = runpy.run_path(str(PICTURES / "make.py"))["plan"]()
    return plan


def full() -> Topology:
    return plan_agent(
        tools=[find, show, {"type": "web_search"}],
        middleware=[Guard(), Guard(name="other")],
        response_format={"title": "Answer", "type": "object"},
    )


def picture(plan: Topology, *, linked: bool = False) -> str:
    pytest.importorskip("pygraphviz", reason="the extra draw is not installed")
    figure = figure_of(plan)
    return draw(figure, lay_out(figure), details_of(plan, figure), linked=linked)


def document(plan: Topology) -> str:
    pytest.importorskip("pygraphviz", reason="the extra draw is not installed")
    return plan.to_html()


def parts(svg: str) -> dict[str, ElementTree.Element]:
    root = ElementTree.fromstring(svg)
    return {part.get("id", ""): part for part in root.iter(f"{SVG}g") if part.get("id")}


def words(element: ElementTree.Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def is_item(element: ElementTree.Element) -> bool:
    return element.get("class") == "item"


Area = tuple[float, float, float, float]


def area_of(part: ElementTree.Element, *roles: str) -> Area:
    """Left, top, right and bottom of the first shape of a part that has one of the roles."""
    shape = next(each for each in part.iter() if each.get("class") in roles)
    numbers = re.findall(r"-?[\d.]+", shape.get("d") or shape.get("points") or "")
    xs, ys = ([float(number) for number in numbers[start::2]] for start in (0, 1))
    return min(xs), min(ys), max(xs), max(ys)


def contains(outer: Area, inner: Area) -> bool:
    return outer[0] < inner[0] and outer[1] < inner[1] and outer[2:] > inner[2:]


# What a picture shows


def test_a_picture_has_a_title_and_a_part_for_each_node_and_each_edge() -> None:
    plan = full()
    root = ElementTree.fromstring(picture(plan))
    assert root.get("role") == "graphics-document"
    for name, attribute in (("title", "aria-labelledby"), ("desc", "aria-describedby")):
        element = root.find(f"{SVG}{name}")
        assert element is not None
        assert element.get("id") == root.get(attribute)
        assert element.text
    drawn = parts(picture(plan)).values()
    nodes = [part for part in drawn if "node" in (part.get("class") or "").split()]
    edges = [part for part in drawn if "edge" in (part.get("class") or "").split()]
    titles = [(part.findtext(f"{SVG}title") or "").splitlines()[0] for part in [*nodes, *edges]]
    names = [START, *plan.nodes, END, *(edge.name for edge in plan.transitions)]
    assert titles == names


def test_layers_are_frames_around_the_tools_that_stand_where_they_run() -> None:
    """The outermost layer comes first, and is the largest."""
    drawn = parts(picture(full()))
    [model] = [part for part in drawn.values() if part.get("class") == "node model"]
    layers = [part for part in model.iter(f"{SVG}g") if part.get("class") == "layer"]
    assert [layer.get("data-words") for layer in layers] == ["Guard", "other"]
    outer, inner = (area_of(layer, "frame") for layer in layers)
    assert contains(outer, inner)
    assert contains(inner, area_of(model, "core"))
    assert "web_search run by the provider" in words(model)
    assert "Answer structured answer" in words(model)
    [tools] = [words(part) for part in drawn.values() if part.get("class") == "node tools"]
    assert "show return_direct" in tools
    assert "web_search" not in tools


def test_an_arrow_has_a_short_reason_and_the_whole_in_its_tooltip_and_jumps_are_dashed() -> None:
    figure = figure_of(full())
    dashed = {(a.source.name, a.target.name) for a in figure.arrows if a.dashed}
    last = "other.after_agent"
    assert dashed == {("Guard.before_model", last), ("other.before_model", last)}
    jump = next(arrow.key for arrow in figure.arrows if arrow.dashed)
    tooltip = parts(picture(full()))[jump].findtext(f"{SVG}title") or ""
    assert "Guard declares this jump in can_jump_to" in tooltip
    arrow = next(a for a in figure.arrows if (a.source.name, a.target.name) == ("model", "tools"))
    assert arrow.label == ("pending calls",)
    tooltip = parts(picture(full()))[arrow.key].findtext(f"{SVG}title") or ""
    assert "The model called tools, and the calls have no results yet" in tooltip


def test_a_long_name_is_cut_and_kept_whole_in_its_details() -> None:
    name = "Guard" * 30
    drawn = picture(plan_agent(middleware=[Guard(name=name)]))
    assert f"<title>{name}.before_model" in drawn
    assert "Guard…" in drawn


def test_an_unknown_node_of_a_file_has_its_own_box() -> None:
    """A plan read from a file may hold nodes that no version here makes."""
    invented = replace(
        plan_agent(),
        nodes=("model", "review"),
        edges=(Edge(START, ("model",)), Edge("model", ("review",)), Edge("review", (END,))),
    )
    box = next(box for box in figure_of(invented).boxes if box.name == "review")
    assert (box.title, box.note) == ("review", "")
    assert len(parts(picture(invented))) == 4 + 3


# Guards, limits, accesses and labels


def desk(**changes: Any) -> Topology:
    """A desk whose reviewer asks around each call, and whose judge looks after the model."""
    shape = Shape(
        hooks=(Hook("Judge", Phase.AFTER_MODEL), Hook("Calls", Phase.BEFORE_MODEL)),
        layers=(Layer("Budget", Call.MODEL, "around_model"), Layer("Ask", Call.TOOL, "around")),
        has_tools=True,
        tools=(
            Tool("refund", labels=("outside",)),
            Tool("read_mail", labels=("untrusted", "private")),
            Tool("search"),
            Tool("clerk/pay", ToolKind.INNER),
        ),
        guards=(
            ToolGuard("refund", "ask", owner="Ask"),
            ToolGuard("refund", "ask", when="euros > 50", owner="Ask"),
            ToolGuard("read_*", "check", when="it is late", owner="Ask"),
            ToolGuard("*", "judge", "", ("search",), "", "after_model", "Judge"),
            ToolGuard("clerk/pay", "deny", owner="clerk/Office"),
        ),
        limits=(
            UsageLimit(5, "model calls", owner="Calls"),
            UsageLimit(3, "tool calls", tool="refund", owner="Ask"),
            UsageLimit(2_000_000, "tokens", owner="Budget"),
        ),
        accesses=(Access("Ask", AccessKind.READS, ("tool_calls",)),),
    )
    return plan_of(replace(shape, **changes))


def test_a_guarded_tool_and_a_labelled_one_are_marked() -> None:
    [box] = [box for box in figure_of(desk()).boxes if box.kind == "tools"]
    marks = {tool.name: box.mark_of(tool) for tool in box.tools}
    assert marks == {
        "refund": "outside, asked, judged",
        "read_mail": "untrusted, private, checked at times, judged",
        "search": "",
        "clerk/pay": "of an agent inside, denied",
    }
    drawn = parts(picture(desk()))
    [tools] = [part for part in drawn.values() if part.get("class") == "node tools"]
    for name, mark in marks.items():
        assert f"{name} {mark}".rstrip() in words(tools)
    searched = [part.get("data-words") for part in tools.iter(f"{SVG}g") if is_item(part)]
    found = ["refund Ask Judge", "read_mail Ask Judge", "search", "clerk/pay clerk/Office"]
    assert searched == found
    flowchart = desk().to_mermaid()
    assert "<br/>refund (outside, asked, judged)<br/>" in flowchart
    assert "<br/>search<br/>" in flowchart


def test_a_hook_or_a_layer_that_guards_or_limits_says_so() -> None:
    boxes = {box.name: box for box in figure_of(desk()).boxes}
    assert boxes["Judge.after_model"].remarks == ("judges all tools",)
    assert boxes["Calls.before_model"].remarks == ("at most 5 model calls a run",)
    [budget] = boxes["model"].frames
    assert budget.remarks == ("at most 2000000 tokens a run",)
    [ask] = boxes["tools"].frames
    assert ask.remarks == (
        "asks about refund",
        "checks read_* (at times)",
        "at most 3 calls of refund a run",
    )
    flowchart = desk().to_mermaid()
    for box in boxes.values():
        for remark in [*box.remarks, *(line for frame in box.frames for line in frame.remarks)]:
            assert remark in words(parts(picture(desk()))[box.key])
            assert remark in flowchart


def test_each_limit_stands_at_one_place() -> None:
    """A middleware with hooks and layers counts at the layer around what it limits."""
    hooks = [Hook("Budget", phase) for phase in Phase]
    layers = [Layer("Budget", call, f"around_{call}") for call in Call]
    limits = [UsageLimit(n, unit, owner="Budget") for n, unit in enumerate(get_args(LimitUnit))]
    shape = Shape(tuple(hooks), tuple(layers), has_tools=True, limits=tuple(limits))
    boxes = figure_of(plan_of(shape)).boxes
    notes = {box.name: [*box.remarks, *(r for f in box.frames for r in f.remarks)] for box in boxes}
    assert notes["tools"] == ["at most 1 tool calls a run", "at most 7 jobs under way a run"]
    assert notes["model"] == ["at most 0 model calls a run", "at most 2 tokens a run", "and 4 more"]
    assert sum(map(len, notes.values())) == 5


def test_remarks_are_few_and_short() -> None:
    names = [f"a_tool_with_a_long_name_{number}" for number in range(20)]
    guards = [ToolGuard(name, "ask", owner="Judge", place="after_model") for name in names]
    limits = [UsageLimit(n, "tool calls", owner="Calls") for n in range(9)]
    figure = figure_of(desk(guards=tuple(guards), limits=tuple(limits)))
    boxes = {box.title: box for box in figure.boxes}
    [remark] = boxes["Judge"].remarks
    assert len(remark) == LONGEST_REMARK
    assert remark.endswith("…")
    assert len(boxes["Calls"].remarks) == MOST_REMARKS
    assert boxes["Calls"].remarks[-1] == f"and {9 - MOST_REMARKS + 1} more"


def test_details_list_guards_limits_accesses_and_labels() -> None:
    plan = desk()
    figure = figure_of(plan)
    details = {part.title: part for part in details_of(plan, figure).values()}
    lists = {
        title: {x.heading: [item.text for item in x.items] for x in part.lists}
        for title, part in details.items()
    }
    assert lists["Calls.before_model"]["limits"] == ["at most 5 model calls a run"]
    assert lists["Judge.after_model"]["guards"] == [
        "a model decides about * without search, in after_model"
    ]
    assert lists["tools"]["guards"][1] == "a person decides about refund when euros > 50"
    assert lists["tools"]["limits"] == ["at most 3 calls of refund a run"]
    assert lists["tools"]["accesses"] == ["Ask reads tool_calls"]
    [refund, mail, search, pay] = lists["tools"]["tools"]
    assert "outside: it has an effect outside" in refund
    assert "a person decides about refund (Ask)" in refund
    assert "at most 3 calls of refund a run (Ask)" in refund
    assert "untrusted: its results hold text of others; private:" in mail
    assert search == "search"
    assert "no call runs of clerk/pay (clerk/Office)" in pay
    whole = {x.heading: len(x.items) for x in overview(plan, figure).lists}
    assert (whole["guards"], whole["limits"], whole["accesses"]) == (5, 3, 1)


def test_an_explanation_lists_guards_limits_and_accesses() -> None:
    text = desk().explain()
    assert "before they run:\n  Ask: a person decides about refund\n" in text
    assert "the most that may be used:\n  Calls: at most 5 model calls a run\n" in text
    assert text.endswith("parts of the conversation:\n  Ask reads tool_calls")
    assert "guards" not in plan_agent().explain()


# Themes


def luminance(value: str) -> float:
    """As WCAG 2 defines it."""
    shares = [int(value[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, bright = sorted([luminance(one), luminance(other)])
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [DAY, NIGHT], ids=["day", "night"])
def test_texts_have_enough_contrast_and_kinds_differ_in_brightness_too(theme: Theme) -> None:
    """4.5 to 1 is WCAG's measure for text."""
    tints = [tint for kind, (tint, _) in theme.kinds.items() if kind != "terminal"]
    for ground in [theme.paper, theme.frame, *tints]:
        assert contrast(theme.ink, ground) >= 4.5
        assert contrast(theme.muted, ground) >= 4.5
        assert contrast(theme.mark, ground) >= 4.5
    assert contrast(theme.jump, theme.paper) >= 4.5
    assert contrast(theme.paper, theme.kinds["terminal"][0]) >= 4.5
    stripes = [stripe for kind, (_, stripe) in theme.kinds.items() if kind != "terminal"]
    assert min(contrast(a, b) for a, b in combinations(stripes, 2)) >= 1.2


# The page


class Reader(HTMLParser):
    """The tags and attributes of a page, and whether its tags close as they open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "input", "option"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def values(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


def test_the_page_is_self_contained_and_each_part_of_its_picture_leads_to_details() -> None:
    plan = full()
    text = document(plan)
    reader = Reader(text)
    assert reader.open == []
    assert not {"src", "srcset", "style", "onclick", "onerror"} & {k for k, _ in reader.attributes}
    assert not {"link", "img", "iframe", "object", "base"} & set(reader.tags)
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text)
    [script] = re.findall(r"<script>(.*?)</script>", text, flags=re.S)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text
    ids = reader.values("id")
    assert len(ids) == len(set(ids))
    assert set(reader.values("href")) <= {f"#{name}" for name in ids}
    articles = [name for name in ids if name.startswith("about-")]
    assert len(articles) == 1 + len(plan.nodes) + 2 + len(plan.transitions)


def test_details_give_owner_phase_order_and_reason() -> None:
    plan = full()
    figure = figure_of(plan)
    key = next(box.key for box in figure.boxes if box.name == "other.after_agent")
    facts = dict(details_of(plan, figure)[key].facts)
    assert facts["middleware"] == "other"
    assert facts["phase"] == "after_agent"
    assert facts["order"] == "1 of 2"
    assert "in reverse order of the list" in facts["why here"]
    assert facts["corner"] == "a run leaves the loop for this node"


def test_a_page_and_a_picture_are_named_after_their_agent() -> None:
    plan = plan_agent(name="desk <1>")
    for made in (document(plan), picture(plan)):
        assert re.search(r"<title[^>]*>The plan of desk &lt;1&gt;</title>", made)
    assert "<h1>The plan of desk &lt;1&gt;</h1>" in document(plan)
    assert "<h1>The plan of an agent</h1>" in document(plan_agent())
    assert plan == plan_agent()
    assert plan.to_json() == plan_agent().to_json()


@pytest.mark.parametrize("make", [picture, document])
def test_no_name_can_break_out(make: Any) -> None:
    plan = plan_agent(
        tools=[{"type": "function", "function": {"name": HOSTILE}}],
        middleware=[Guard(name=re.sub("[:/]", "", HOSTILE))],
    )
    text = make(plan)
    assert "<img" not in text
    assert text.count("</script>") == (make is document)
    text.encode()
    reader = Reader(text)
    assert reader.open == []
    assert not {name for name, _ in reader.attributes} & {"onerror", "src"}


@given(name=st.text(min_size=1).filter(lambda name: not set(name) & set("|:/")))
def test_any_name_gives_sound_xml(name: str) -> None:
    plan = plan_agent(middleware=[Guard(name=name)])
    assert len(parts(picture(plan))) == len(plan.nodes) + 2 + len(plan.transitions)


# Layout: the input and output of Graphviz


def test_without_graphviz_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    with pytest.raises(ImportError, match=re.escape("the extra `draw`")):
        plan_agent().to_svg()
    with pytest.raises(ImportError, match="to_mermaid"):
        plan_agent().to_html()


def test_equal_plans_give_equal_pictures_whose_boxes_stay_apart_and_inside() -> None:
    pytest.importorskip("pygraphviz", reason="the extra draw is not installed")
    svg = full().to_svg()
    assert svg == full().to_svg()
    assert full().to_html() == full().to_html()
    assert "0x" not in svg
    nodes = [part for part in parts(svg).values() if "node" in (part.get("class") or "")]
    outlines = [area_of(node, "frame", "core") for node in nodes]
    for a, b in combinations(outlines, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    left, top, width, height = map(float, ElementTree.fromstring(svg).get("viewBox", "").split())
    assert all(contains((left, top, left + width, top + height), area) for area in outlines)


@each(
    "stack, tools",
    [
        ([], [find]),
        ([Guard()], [find]),
        ([Guard(), Guard(name="other")], [find, show]),
        ([before_agent(name="Greet")(lambda state, runtime: None)], []),
        ([after_agent(name="Log")(lambda state, runtime: None)], [find]),
    ],
)
def test_no_arrow_crosses_the_title_of_a_group(stack: Any, tools: Any) -> None:
    pytest.importorskip("pygraphviz", reason="the extra draw is not installed")
    figure = figure_of(plan_agent(tools=tools, middleware=stack))
    layout = lay_out(figure)
    assert crossed_titles(figure, layout) == []


def test_a_title_that_an_arrow_would_cross_stands_on_the_other_side() -> None:
    pytest.importorskip("pygraphviz", reason="the extra draw is not installed")
    figure = figure_of(documented())
    before = read_layout(Drawing(figure))
    crossed = crossed_titles(figure, before)
    assert crossed
    for group in figure.groups:
        titles = [layout.parts[group.key][-1].element for layout in (before, lay_out(figure))]
        first, second = (min(x for x, _ in points_of(title)) for title in titles)
        assert (first < second) == (group.title in crossed)


def test_graphviz_gets_names_only_to_draw_a_png() -> None:
    """Boxes have the size of their texts on each machine: Graphviz measures no font."""
    figure = figure_of(plan_agent(middleware=[Guard(name="Judge")]))
    assert "Judge" not in Drawing(figure).source
    assert "Judge" in Drawing(figure, dots=144).source


@each("name", [r"\N \G \\ \n", "-->", "]]>", "&amp;", "ア" * 9, 'x"]; a'])
def test_graphviz_reads_nothing_into_a_name(name: str) -> None:
    plan = plan_of(
        Shape(layers=(Layer(name, Call.TOOL, "around"),), has_tools=True, tools=(Tool(name),))
    )
    root = ElementTree.fromstring(picture(plan))
    assert [words(part) for part in root.iter() if is_item(part)] == [name]
    assert plan.to_png().startswith(b"\x89PNG")


def test_the_picture_of_the_documentation_is_up_to_date() -> None:
    """Its parts and words; places may differ with Graphviz."""
    published = parts((PICTURES / "topology.svg").read_text(encoding="utf-8"))
    assert {k: words(part) for k, part in published.items()} == {
        k: words(part) for k, part in parts(picture(documented())).items()
    }


# The plan, the graph and the picture agree


JUMPS = ["end", "model"]


@st.composite
def stacks(draw_: st.DrawFn) -> list[AgentMiddleware]:
    made = []
    for index in range(draw_(st.integers(0, 4))):
        body: dict[str, Any] = {}
        for phase in draw_(st.sets(st.sampled_from(list(Phase)))):
            jumps: Any = draw_(st.lists(st.sampled_from(JUMPS), unique=True))
            body[phase] = hook_config(can_jump_to=jumps)(lambda self, state, runtime: None)
        for flow in draw_(st.sets(st.sampled_from(["around_model", "around_tool"]))):
            body[flow] = Guard.around_model
        made.append(type("Member", (AgentMiddleware,), body)(name=f"M{index}"))
    return made


@given(
    stack=stacks(),
    tools=st.lists(st.sampled_from([find, show]), unique_by=id),
    structured=st.booleans(),
)
def test_what_langgraph_draws_is_the_plan(
    stack: list[AgentMiddleware], tools: list[Any], structured: bool
) -> None:
    """Nodes, edges, and which of them are conditional; and the picture shows the same."""
    schema = {"title": "Answer", "type": "object"} if structured else None
    agent = create_agent(ScriptedChatModel([]), tools, middleware=stack, response_format=schema)
    plan = topology_of(agent)
    graph = agent.get_graph()
    assert set(graph.nodes) == {START, *plan.nodes, END}
    drawn = {(edge.source, edge.target, edge.conditional) for edge in graph.edges}
    routed = {edge.source: edge.route is not None for edge in plan.edges}
    assert drawn == {(t.source, t.target, routed[t.source]) for t in plan.transitions}
    shown = {(arrow.source.name, arrow.target.name) for arrow in figure_of(plan).arrows}
    assert shown == {(source, target) for source, target, _ in drawn}
