"""Labels of tools, and the flows from sources to sinks that a plan names."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import chain, combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import BaseTool, StructuredTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from stack_agents import agent_of

from agent_factory import agent_tool, client_tool, create_agent, labels_of, plan_agent, tool_labels
from agent_factory import middleware as m
from agent_factory.errors import AgentFactoryWarning, SpecError
from agent_factory.guarantees import Trifecta, trifectas
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import ToolGuard, load_topology
from samples import Declares, add, find
from tables import each

LABELS: Any = ("untrusted", "private", "outside")


def fetch_with(*labels: Any) -> Callable[..., Any]:
    @tool_labels(*(labels or (None,)))
    def fetch(url: str) -> str:
        """Fetch."""
        return url

    return fetch


def from_mcp(**hints: object) -> BaseTool:
    """A tool as langchain-mcp-adapters makes it."""
    hints = {"title": None, "readOnlyHint": None, "openWorldHint": None, **hints}
    return StructuredTool.from_function(find, metadata=hints)


def labels_in_plan(*tools: Any) -> dict[str, tuple[str, ...]]:
    return {t.name: t.labels for t in plan_agent(tools=[*tools], ignore=["AF219"]).tools}


@given(st.lists(st.sampled_from(LABELS)))
def test_a_function_keeps_its_labels_as_a_tool_and_in_the_plan(labels: list[Any]) -> None:
    fetch = fetch_with(*labels)
    expected = tuple(label for label in LABELS if label in labels)
    assert labels_of(fetch) == labels_of(tool(fetch)) == expected
    assert labels_in_plan(fetch) == {"fetch": expected}


def test_a_former_tool_its_wrapper_and_a_coroutine_function_have_labels() -> None:
    def fetch(url: str) -> str:
        """Fetch."""
        return url

    assert labels_in_plan(fetch) == {"fetch": ()}
    tool_labels("private")(fetch)

    @wraps(fetch)
    def logged(url: str) -> Any:
        return fetch(url)

    assert labels_in_plan(fetch) == labels_in_plan(logged) == {"fetch": ("private",)}

    @tool
    @tool_labels("outside")
    async def post(text: str) -> str:
        """Post."""
        return text

    assert labels_of(post) == ("outside",)


def test_a_tool_of_each_kind_is_copied_with_labels_and_its_own_extras() -> None:
    plain = tool(find, extras={"defer_loading": True})
    copy = tool_labels("private")(plain)
    assert (labels_of(plain), labels_of(copy)) == ((), ("private",))
    assert copy.extras == {"defer_loading": True, "labels": ["private"]}
    assert copy.invoke({"query": "x"}) == "x"
    clerk = agent_tool(create_agent(ScriptedChatModel()), name="clerk", description="Works.")
    kinds = [tool_labels("outside")(kind) for kind in (clerk, client_tool("page", "Looks."))]
    assert labels_in_plan(*kinds) == {"clerk": ("outside",), "page": ("outside",)}


def test_a_provider_gets_no_labels() -> None:
    assert convert_to_openai_tool(tool(fetch_with("private"))) == convert_to_openai_tool(
        tool(fetch_with())
    )
    copy = tool_labels("private")(tool(find))
    assert convert_to_openai_tool(copy) == convert_to_openai_tool(tool(find))


@each(
    "hints, labels",
    [
        ({"openWorldHint": True, "readOnlyHint": True}, ("untrusted",)),
        ({"openWorldHint": True, "readOnlyHint": False}, ("untrusted", "outside")),
        ({"openWorldHint": True, "destructiveHint": True}, ("untrusted", "outside")),
        ({"openWorldHint": True}, ("untrusted", "outside")),
        ({"openWorldHint": False}, ()),
        ({"openWorldHint": False, "readOnlyHint": False, "destructiveHint": True}, ()),
        # What MCP's annotations leave out is an open world, and not read only.
        ({}, ("untrusted", "outside")),
        ({"readOnlyHint": True}, ("untrusted",)),
    ],
)
def test_annotations_of_mcp_are_defaults(hints: Any, labels: Any) -> None:
    assert labels_of(from_mcp(**hints)) == labels
    assert labels_in_plan(from_mcp(**hints)) == {"find": labels}


def test_labels_win_over_annotations_and_other_metadata_is_not_read() -> None:
    no_labels, private = tool_labels(None), tool_labels("private")
    assert labels_of(no_labels(from_mcp(openWorldHint=True))) == ()
    assert labels_of(private(from_mcp(openWorldHint=True))) == ("private",)
    for thing in (private(lambda query: query), private(from_mcp())):
        assert labels_of(tool_labels("untrusted")(thing)) == ("untrusted", "private")
        assert labels_of(no_labels(thing)) == ()
    with pytest.raises(SpecError, match="needs at least one label"):
        tool_labels()
    assert labels_of(StructuredTool.from_function(find, metadata={"team": "search"})) == ()


@each("label", ["Untrusted", "secret", "", None, 3, ["private"]])
def test_an_unknown_label_is_refused(label: Any) -> None:
    with pytest.raises(SpecError, match=r'must be some of "untrusted", "private", "outside", got'):
        tool_labels(label, "private")
    with pytest.raises(SpecError, match="@tool_labels"):
        plan_agent(tools=[tool(find, extras={"labels": [label]})])


def test_an_unknown_label_is_reported_with_the_other_mistakes() -> None:
    unlabeled: Any = lambda query: query  # noqa: E731  # without a docstring
    with pytest.raises(SpecError) as caught:
        plan_agent(tools=[tool(find, extras={"labels": ["secret"]}), unlabeled])
    assert [error.code for error in caught.value.errors] == ["AF101", "AF112"]


def test_only_tools_have_labels_and_a_function_is_not_one() -> None:
    """`@tool_labels` without parentheses is refused."""
    no_tools: Any = ({"type": "web_search"}, "find", None, ScriptedChatModel)
    for thing in no_tools:
        with pytest.raises(SpecError, match="must decorate a function or a BaseTool, got"):
            tool_labels("private")(thing)
    with pytest.raises(SpecError, match="must be some of"):
        tool_labels(add)  # type: ignore[arg-type]


SETS = [*chain.from_iterable(combinations(LABELS, size) for size in range(4))]


@tool_labels("untrusted")
def read_page(url: str) -> str:
    """Read a page."""
    return url


@tool_labels("private")
def read_file(path: str) -> str:
    """Read a file."""
    return path


@tool_labels("outside")
def send_mail(to: str) -> str:
    """Send a mail."""
    return to


@tool_labels("outside")
def pay(euros: int) -> str:
    """Pay."""
    return str(euros)


ALL = [read_page, read_file, send_mail]


def plan(*middleware: Any, tools: Any = ALL) -> Any:
    return plan_agent(
        tools=[*tools], middleware=middleware, ignore=["AF210", "AF211", "AF219", "AF222"]
    )


def sinks(*middleware: Any, tools: Any = ALL) -> list[str]:
    return [trifecta.sink for trifecta in trifectas(plan(*middleware, tools=tools))]


def clerk(*middleware: Any, tools: Any = ALL, name: str = "clerk") -> Any:
    agent = agent_of(ScriptedChatModel(), *middleware, tools=[*tools], ignore=["AF211", "AF219"])
    return agent_tool(agent, name=name, description="Works.")


@given(st.lists(st.sampled_from(SETS), max_size=4))
def test_each_sink_is_named_if_and_only_if_the_tools_have_all_three(labels: list[Any]) -> None:
    def make(number: int, names: Any) -> Any:
        def work(text: str) -> str:
            """Work."""
            return text

        work.__name__ = f"tool_{number}"
        return tool_labels(*(names or (None,)))(work)

    tools = [make(number, names) for number, names in enumerate(labels)]
    expected = [f"tool_{n}" for n, names in enumerate(labels) if "outside" in names]
    if not {"untrusted", "private"} <= {*chain.from_iterable(labels)}:
        expected = []
    assert sinks(tools=tools) == expected


def test_a_build_warns_of_each_sink_with_the_way_and_what_to_write() -> None:
    with pytest.warns(AgentFactoryWarning) as caught:
        plan_agent(tools=[*ALL, pay])
    (warning,) = caught
    lines = str(warning.message).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["[AF219] send_mail", "[AF219] pay"]
    assert "'read_page' brings text that others wrote, 'read_file' private data" in lines[0]
    assert "Path: model -> read_page -> model -> read_file -> model -> send_mail." in lines[0]
    assert lines[0].endswith(
        "Add FlowGuardMiddleware() to `middleware`, or a review of all calls: "
        "HumanInTheLoopMiddleware({'send_mail': True})."
    )
    with pytest.raises(SpecError, match="AF219"):
        plan_agent(tools=ALL, strict=True)


def judge() -> Any:
    return ScriptedChatModel(['{"reason": "So.", "probability": 0.9}'])


CLOSED = [
    m.FlowGuardMiddleware(),
    m.FlowGuardMiddleware(action="deny"),
    m.FlowGuardMiddleware(seen=["untrusted"]),
    m.FlowGuardMiddleware(seen=["private"]),
    m.FlowGuardMiddleware(m.ToolPolicy(m.Rule("pay", "allow", when={"euros": {"<": 5}}))),
    # A rule that lets calls run is a decision of the team.
    m.FlowGuardMiddleware(m.ToolPolicy(m.Rule("send_mail", "allow"))),
    m.FlowGuardMiddleware(m.ToolPolicy(m.Rule("send_mail", "allow", when={"to": "ada"}))),
    m.FlowGuardMiddleware(m.ToolPolicy(m.Rule("send_*", "allow"), m.Rule("send_mail", "deny"))),
    m.HumanInTheLoopMiddleware({"send_mail": True}),
    m.HumanInTheLoopMiddleware({"send_mail": True}, interrupt_mode="per_call"),
    m.HumanInTheLoopMiddleware(m.ToolPolicy(m.Rule("send_*", "deny"), m.Rule("*", "allow"))),
    m.AutoModeMiddleware(tools=["send_mail"], classifier=judge()),
    Declares(ToolGuard("send_mail", "check")),
    Declares(ToolGuard("*", "deny", exclude=("read_*",))),
    Declares(ToolGuard("send_mail", "ask", when="seen untrusted")),
]
OPEN = [
    m.FlowGuardMiddleware(m.ToolPolicy(m.Rule("*", "allow"))),
    m.HumanInTheLoopMiddleware(m.ToolPolicy(m.Rule("send_mail", "allow"), m.Rule("*", "ask"))),
    m.HumanInTheLoopMiddleware({"read_page": True, "read_file": True}),
    m.HumanInTheLoopMiddleware(
        m.ToolPolicy(m.Rule("send_mail", "ask", when={"to": "x"}), m.Rule("*", "allow"))
    ),
    Declares(ToolGuard("send_mail", "ask", when="to == 'x and seen untrusted'")),
    Declares(ToolGuard("send_mail", "check", after="read_file")),
    Declares(ToolGuard("*", "ask", exclude=("send_*",))),
    Declares(ToolGuard("send_mail", "ask", when="seen untrusted and not (seen private)")),
]


@each("middleware", [*CLOSED, *OPEN], ids=lambda member: member.name)
def test_a_decision_about_each_call_closes_the_way_and_one_about_some_does_not(
    middleware: Any,
) -> None:
    assert sinks(middleware) == ["send_mail"] * (middleware in OPEN)


def test_a_review_with_a_rule_about_what_was_seen_closes_the_way() -> None:
    rules = m.ToolPolicy(m.Rule("send_mail", "ask", when={"seen": "private"}), m.Rule("*", "allow"))
    recorder = m.FlowGuardMiddleware(m.ToolPolicy(m.Rule("*", "allow")))
    assert sinks(m.HumanInTheLoopMiddleware(rules), recorder) == []
    assert sinks(recorder) == ["send_mail"]


def test_sources_and_sinks_of_agents_inside_count_also_in_a_plan_from_a_file() -> None:
    assert sinks(tools=[clerk(tools=[send_mail]), read_page, read_file]) == ["clerk/send_mail"]
    assert sinks(tools=[clerk(tools=[read_page]), read_file, send_mail]) == ["send_mail"]
    reader, sender = clerk(tools=[read_page], name="reader"), clerk(tools=[pay], name="sender")
    assert trifectas(plan(tools=[reader, sender, read_file])) == (
        Trifecta("reader/read_page", "read_file", "sender/pay"),
    )
    saved = plan(tools=[*ALL, pay])  # a plan from a file has the same flows
    assert trifectas(load_topology(saved.to_json())) == trifectas(saved)


def test_an_agent_inside_is_closed_inside_or_at_its_call() -> None:
    rest = [read_page, read_file]
    assert sinks(tools=[clerk(m.FlowGuardMiddleware(), tools=[send_mail]), *rest]) == []
    assert sinks(m.FlowGuardMiddleware(), tools=[clerk(tools=[send_mail]), *rest]) == []
    review = m.HumanInTheLoopMiddleware({"clerk": True})
    assert sinks(review, tools=[clerk(tools=[send_mail]), *rest]) == []
    other = m.HumanInTheLoopMiddleware({"read_page": True})
    assert sinks(other, tools=[clerk(tools=[send_mail]), *rest]) == ["clerk/send_mail"]
    # It never sees the calls that it names.
    claim = Declares(ToolGuard("clerk/send_mail", "ask"))
    assert sinks(claim, tools=[clerk(tools=[send_mail]), *rest]) == ["clerk/send_mail"]
    with pytest.raises(SpecError, match=r"FlowGuardMiddleware\(\) to the agent of 'clerk'"):
        plan_agent(tools=[clerk(tools=[send_mail]), read_page, read_file], strict=True)
