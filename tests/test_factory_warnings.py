"""Warnings of a build: one Python warning, by code, which can be ignored or raised."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import tool as make_tool
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import (
    AgentFactoryWarning,
    AgentMiddleware,
    Ordering,
    SpecError,
    create_agent,
    hook_config,
    plan_agent,
    warnings_of,
)
from agent_factory.errors import ArgumentError
from agent_factory.middleware import TodoListMiddleware
from agent_factory.testing import ScriptedChatModel
from samples import find
from tables import each


class Plain(AgentMiddleware):
    """Declares what the test sets."""

    def __init__(self, name: str, **declared: Any) -> None:
        super().__init__(name=name)
        self.ordering = Ordering(**declared)

    def around_model(self, request: Any) -> Any:
        return (yield request)


class Early(Plain):
    def before_model(self, state: Any, runtime: Any) -> None:
        """Look."""


class Late(Plain):
    def after_model(self, state: Any, runtime: Any) -> None:
        """Look."""


class Jumper(AgentMiddleware):
    @hook_config(can_jump_to=["model"])
    def before_model(self, state: Any, runtime: Any) -> None:
        """Look."""


class Reviewer(AgentMiddleware):
    needs_checkpointer = True
    expected_tools = ("refund",)

    def after_model(self, state: Any, runtime: Any) -> None:
        """Look."""


class Misspelt(AgentMiddleware):
    def before_modle(self, state: Any, runtime: Any) -> None:
        """Never runs."""


def codes(*middleware: Any, **arguments: Any) -> list[str]:
    """The codes of what a plan warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan_agent(middleware=list(middleware), **arguments)
    return [finding.code for warning in caught for finding in _findings(warning.message)]


def _findings(message: Any) -> Any:
    assert isinstance(message, AgentFactoryWarning)
    return message.warnings


@each(
    "stack, arguments, expected",
    [
        ([Jumper()], {}, ["AF201"]),
        ([Early("a"), Jumper()], {}, ["AF202"]),
        ([], {"tools": [find, {"name": "find"}]}, ["AF203"]),
        ([Plain("a"), Plain("b", before=["a"])], {}, ["AF204"]),
        ([Plain("a", after=["b"]), Plain("b")], {}, ["AF204"]),
        (
            [Early("a", sends_to_model=["user_messages"]), Early("g", sanitizes=["user_messages"])],
            {},
            ["AF205"],
        ),
        ([Late("p", reads=["tool_calls"]), Plain("c", writes=["tool_calls"])], {}, ["AF206"]),
        ([Late("c", writes=["tool_calls"]), Late("p", reads=["tool_calls"])], {}, ["AF206"]),
        ([Plain("r", reads=["tool_errors"])], {"handle_tool_errors": True}, ["AF207"]),
        (
            [Plain("v", varies=["system_prompt"]), Plain("e", extends=["system_prompt"])],
            {},
            ["AF214"],
        ),
        (
            [
                Plain("v", varies=["tools", "system_prompt"]),
                Plain("other"),
                Plain("e", extends=["tools"]),
                Plain("f", extends=["system_prompt", "messages"]),
            ],
            {},
            ["AF214", "AF214"],
        ),
        ([Plain("clock", varies=["system_prompt"]), TodoListMiddleware()], {}, ["AF214"]),
        ([Plain("r", reads=["thread"]), Plain("w", writes=["thread"])], {}, ["AF208"]),
        ([Plain("w", writes=["thread"]), Plain("r", reads=["thread"])], {}, ["AF208"]),
        ([Plain("w", writes=["thread"]), Plain("v", writes=["thread"])], {}, []),
        ([Reviewer()], {"tools": [find]}, ["AF210"]),
        ([Reviewer()], {"tools": [find], "checkpointer": None}, ["AF210", "AF211"]),
    ],
)
def test_each_warning_has_its_code(
    stack: list[Any], arguments: dict[str, Any], expected: list[str]
) -> None:
    assert codes(*stack, **arguments) == expected


@each(
    "stack, arguments",
    [
        ([Plain("a", before=["b"]), Plain("b", after=["a"])], {}),
        ([Plain("a", before=["nobody"], after=["nobody"], conflicts=["nobody"])], {}),
        ([Plain("a", requires=["Plain"]), Plain("b")], {}),
        (
            [Early("g", sanitizes=["user_messages"]), Early("a", sends_to_model=["user_messages"])],
            {},
        ),
        # A layer sees the messages after every hook.
        (
            [Plain("a", sends_to_model=["user_messages"]), Early("g", sanitizes=["user_messages"])],
            {},
        ),
        ([Late("p", reads=["tool_calls"]), Late("c", writes=["tool_calls"])], {}),
        ([Plain("r", reads=["tool_errors"])], {"handle_tool_errors": False}),
        # What changes comes last, or in another part.
        ([Plain("e", extends=["system_prompt"]), Plain("v", varies=["system_prompt"])], {}),
        ([Plain("v", varies=["messages"]), Plain("e", extends=["system_prompt"])], {}),
        ([Plain("v", varies=["tools"]), Plain("w", varies=["tools"])], {}),
        ([Plain("r", reads=["tool_errors"])], {}),
        ([Reviewer()], {"tools": [find], "checkpointer": InMemorySaver(), "ignore": ["AF210"]}),
    ],
)
def test_a_stack_without_problems_gives_no_warning(
    stack: list[Any], arguments: dict[str, Any]
) -> None:
    assert codes(*stack, **arguments) == []


def test_missing_and_conflicting_middleware_are_refused() -> None:
    with pytest.raises(SpecError, match=r"^\[AF118\]") as missing:
        plan_agent(middleware=[Plain("a", requires=["Guard"])])
    assert missing.value.subject == "a"
    assert "Guard" in missing.value.hint
    with pytest.raises(SpecError, match="AF119"):
        plan_agent(middleware=[Plain("a", conflicts=["Early"]), Early("b")])
    assert codes(Plain("a", requires=["Guard"]), ignore=["AF118"]) == []


def test_a_cyclic_order_names_its_middleware() -> None:
    stack = [
        Plain("a", before=["b"]),
        Plain("b", before=["a"]),
        Plain("c", after=["a"]),
        Plain("d", before=["a"]),
    ]
    with pytest.raises(SpecError, match=r"^\[AF120\]") as caught:
        plan_agent(middleware=stack)
    assert caught.value.subject == "a and b"


def test_all_warnings_of_a_build_are_one_warning_at_the_callers_line_and_kept() -> None:
    with pytest.warns(AgentFactoryWarning) as caught:
        agent = create_agent(ScriptedChatModel([]), [find], middleware=[Reviewer(), Jumper()])
    (warning,) = caught
    assert warning.filename == __file__
    findings = _findings(warning.message)
    assert [f.code for f in findings] == ["AF201", "AF210", "AF211"]
    assert all(f.subject and f.reason and f.hint for f in findings)
    assert warnings_of(agent) == findings
    assert warnings_of(create_agent(ScriptedChatModel([]))) == ()


def test_a_plan_has_no_warnings_and_its_error_says_where_they_are() -> None:
    plan: Any = plan_agent()
    with pytest.raises(ArgumentError, match=r"got Topology.*AgentFactoryWarning, which has them"):
        warnings_of(plan)


def configured(*tools: str) -> AgentMiddleware:
    """A middleware that names tools."""
    middleware = Plain("limit")
    middleware.expected_tools = tools
    return middleware


@each(
    "name, tool",
    [
        ("refnd", "refund"),
        ("refnud", "refund"),
        ("refunds", "refund"),
        ("Refund", "refund"),
        ("pya", "pay"),
        ("send-email", "send_email"),
        ("sendEmail", "send_email"),
        ("get_order", "get_orders"),
        ("refnd*", "refund_order"),
        ("*_ordr", "refund_order"),
        ("*refnd*", "ask_refund_order"),
        ("rfund_*_order", "refund_my_order"),
    ],
)
def test_a_misspelt_tool_is_refused_with_the_right_name(name: str, tool: str) -> None:
    tools = [make_tool(one, description="Acts.")(find) for one in (tool, "look")]
    with pytest.raises(SpecError) as caught:
        plan_agent(tools=tools, middleware=[configured(name)])
    assert caught.value.code == "AF124"
    assert repr(tool) in caught.value.hint
    assert codes(configured(name), tools=tools, ignore=["AF124"]) == []


@each(
    "names, tools, expected",
    [
        (["write_file"], ["read_file"], ["AF210"]),
        (["send_mail"], ["read_mail"], ["AF210"]),
        (["search"], ["find"], ["AF210"]),
        (["refund"], [], ["AF210"]),
        # Where it names both, it has misspelt neither.
        (["get_order", "set_order"], ["set_order"], ["AF210"]),
        # A pattern may match tools that are added at run time.
        (["mcp_*", "*", "?"], ["map_view"], []),
        (["*id*"], ["dial"], []),
        (["refund*", "[fr]ind"], ["refund", "find"], []),
    ],
)
def test_another_name_is_not_a_misspelling(
    names: list[str], tools: list[str], expected: list[str]
) -> None:
    made = [make_tool(name, description="Acts.")(find) for name in tools]
    assert codes(configured(*names), tools=made) == expected


def test_what_cannot_be_cached_is_named_with_what_prevents_it() -> None:
    stack = [Plain("clock", varies=["system_prompt"]), TodoListMiddleware()]
    (found,) = _found(stack)
    assert str(found) == (
        "[AF214] clock: changes the system prompt in each call, before TodoListMiddleware adds to "
        "it: providers cannot cache what it adds. Put TodoListMiddleware before clock in "
        "`middleware`."
    )


def test_strict_raises_warnings_with_the_errors() -> None:
    with pytest.raises(SpecError) as caught:
        plan_agent(tools=[find], middleware=[Reviewer(), Jumper(), Misspelt()], strict=True)
    assert [error.code for error in caught.value.errors] == ["AF105", "AF201", "AF210"]


def test_an_error_has_the_warnings_as_notes() -> None:
    with pytest.raises(SpecError, match=r"^\[AF105\]") as caught:
        plan_agent(middleware=[Jumper(), Misspelt()])
    example, warning = caught.value.__notes__
    assert (example, warning.split()[2]) == ("An example: agent-factory explain AF105", "[AF201]")


def test_ignored_codes_are_neither_warned_about_nor_raised() -> None:
    stack = [Reviewer(), Jumper(), Misspelt()]
    ignore = ["AF105", "AF201", "AF210"]
    assert codes(*stack, tools=[find], ignore=ignore, strict=True) == []


@each("ignore", [["AF999"], ["AF103"], "AF204", [3], None])
def test_only_codes_of_warnings_can_be_ignored(ignore: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        plan_agent(ignore=ignore)
    assert caught.value.subject == "ignore"


@each(
    "declared",
    [
        {"before": "Guard"},
        {"before": 3},
        {"after": None},
        {"after": [3]},
        {"reads": ["feelings"]},
        {"sends_to_model": ["messages"]},
        {"varies": ["user_messages"]},
        {"extends": "tools"},
    ],
)
def test_an_ordering_is_checked_when_it_is_created(declared: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="Ordering"):
        Ordering(**declared)


@each(
    "attribute, value",
    [
        ("ordering", {"before": ["a"]}),
        ("expected_tools", 3),
        ("expected_tools", "find"),
        ("expected_tools", [[]]),
        ("needs_checkpointer", "yes"),
    ],
)
def test_a_declaration_of_another_type_is_refused(attribute: str, value: Any) -> None:
    middleware = Plain("a")
    setattr(middleware, attribute, value)
    with pytest.raises(ArgumentError, match=attribute):
        plan_agent(middleware=[middleware])


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), max_size=6),
    st.permutations("abcd"),
)
def test_any_order_is_refused_warned_about_or_accepted(
    pairs: list[tuple[str, str]], order: list[str]
) -> None:
    """Either there is a cycle, or exactly the pairs in the wrong order are named."""
    wanted = {(first, second) for first, second in pairs if first != second}
    stack = [Plain(name, before=[b for a, b in sorted(wanted) if a == name]) for name in order]
    found = _found(stack)
    if _is_cyclic(wanted):
        assert [finding.code for finding in found] == ["AF120"]
    else:
        assert all(finding.code == "AF204" for finding in found)
        named = {tuple(reversed(finding.subject.split(", "))) for finding in found}
        assert named == {(a, b) for a, b in wanted if order.index(a) > order.index(b)}


def _found(stack: list[Any]) -> tuple[SpecError, ...]:
    try:
        plan_agent(middleware=stack, strict=True)
    except SpecError as error:
        return error.errors
    return ()


def _is_cyclic(pairs: set[tuple[str, str]]) -> bool:
    reached = set(pairs)
    while more := {(a, d) for a, b in reached for c, d in reached if b == c} - reached:
        reached |= more
    return any(a == b for a, b in reached)
