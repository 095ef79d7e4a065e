"""Flows from sources to sinks: which of them a plan names, and what closes them."""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_factory import (
    AgentFactoryWarning,
    AgentMiddleware,
    SpecError,
    ToolGuard,
    agent_tool,
    create_agent,
    load_topology,
    plan_agent,
    tool_labels,
)
from agent_factory.guarantees import Trifecta, trifectas
from agent_factory.middleware import (
    AutoModeMiddleware,
    FlowGuardMiddleware,
    HumanInTheLoopMiddleware,
    Rule,
    ToolPolicy,
)
from agent_factory.testing import ScriptedChatModel
from tables import each

LABELS: Any = ("untrusted", "private", "outside")
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
    return plan_agent(tools=[*tools], middleware=middleware, ignore=["AF210", "AF211", "AF219"])


def sinks(*middleware: Any, tools: Any = ALL) -> list[str]:
    return [trifecta.sink for trifecta in trifectas(plan(*middleware, tools=tools))]


class Checks(AgentMiddleware):
    """Declares guards, and is a layer around tools."""

    def __init__(self, *guards: ToolGuard) -> None:
        super().__init__()
        self.guards = guards

    def around_tool(self, request: Any) -> Any:
        return (yield request)


def clerk(*middleware: Any, tools: Any = ALL, name: str = "clerk") -> Any:
    agent = create_agent(
        ScriptedChatModel(), [*tools], middleware=middleware, ignore=["AF211", "AF219"]
    )
    return agent_tool(agent, name=name, description="Works.")


@given(st.lists(st.sampled_from(SETS), max_size=4))
def test_each_sink_is_named_if_and_only_if_the_tools_have_all_three(labels: list[Any]) -> None:
    def make(number: int, names: Any) -> Any:
        def work(text: str) -> str:
            """Work."""
            return text

        work.__name__ = f"tool_{number}"
        return tool_labels(*names)(work)

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


@each(
    "middleware",
    [
        FlowGuardMiddleware(),
        FlowGuardMiddleware(action="deny"),
        FlowGuardMiddleware(seen=["untrusted"]),
        FlowGuardMiddleware(seen=["private"]),
        FlowGuardMiddleware(ToolPolicy(Rule("pay", "allow", when={"euros": {"<": 5}}))),
        HumanInTheLoopMiddleware({"send_mail": True}),
        HumanInTheLoopMiddleware({"send_mail": True}, interrupt_mode="per_call"),
        HumanInTheLoopMiddleware(ToolPolicy(Rule("send_*", "deny"), Rule("*", "allow"))),
        AutoModeMiddleware(tools=["send_mail"], classifier=judge()),
        Checks(ToolGuard("send_mail", "check")),
        Checks(ToolGuard("*", "deny", exclude=("read_*",))),
        Checks(ToolGuard("send_mail", "ask", when="seen untrusted")),
    ],
    ids=lambda member: member.name,
)
def test_a_decision_about_each_call_closes_the_way(middleware: Any) -> None:
    assert sinks(middleware) == []


@each(
    "middleware",
    [
        FlowGuardMiddleware(ToolPolicy(Rule("send_mail", "allow"))),
        FlowGuardMiddleware(ToolPolicy(Rule("send_mail", "allow", when={"to": "ada"}))),
        FlowGuardMiddleware(ToolPolicy(Rule("send_*", "allow"), Rule("send_mail", "deny"))),
        HumanInTheLoopMiddleware({"read_page": True, "read_file": True}),
        HumanInTheLoopMiddleware(
            ToolPolicy(Rule("send_mail", "ask", when={"to": "x"}), Rule("*", "allow"))
        ),
        Checks(ToolGuard("send_mail", "ask", when="to == 'x and seen untrusted'")),
        Checks(ToolGuard("send_mail", "check", after="read_file")),
        Checks(ToolGuard("*", "ask", exclude=("send_*",))),
        Checks(ToolGuard("send_mail", "ask", when="seen untrusted and not (seen private)")),
    ],
    ids=lambda member: member.name,
)
def test_a_decision_about_some_calls_leaves_the_way_open(middleware: Any) -> None:
    assert sinks(middleware) == ["send_mail"]


def test_a_review_with_a_rule_about_what_was_seen_closes_the_way() -> None:
    rules = ToolPolicy(Rule("send_mail", "ask", when={"seen": "private"}), Rule("*", "allow"))
    recorder = FlowGuardMiddleware(ToolPolicy(Rule("*", "allow")))
    assert sinks(HumanInTheLoopMiddleware(rules), recorder) == []
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
    assert sinks(tools=[clerk(FlowGuardMiddleware(), tools=[send_mail]), *rest]) == []
    assert sinks(FlowGuardMiddleware(), tools=[clerk(tools=[send_mail]), *rest]) == []
    review = HumanInTheLoopMiddleware({"clerk": True})
    assert sinks(review, tools=[clerk(tools=[send_mail]), *rest]) == []
    other = HumanInTheLoopMiddleware({"read_page": True})
    assert sinks(other, tools=[clerk(tools=[send_mail]), *rest]) == ["clerk/send_mail"]
    # It never sees the calls that it names.
    claim = Checks(ToolGuard("clerk/send_mail", "ask"))
    assert sinks(claim, tools=[clerk(tools=[send_mail]), *rest]) == ["clerk/send_mail"]
    with pytest.raises(SpecError, match=r"FlowGuardMiddleware\(\) to the agent of 'clerk'"):
        plan_agent(tools=[clerk(tools=[send_mail]), read_page, read_file], strict=True)
