"""Every error and warning of a build: its code, its subject and its hint, and all at once."""

from __future__ import annotations

import operator
import re
import warnings
from typing import Annotated, Any, NotRequired

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import tool
from langchain_core.tools import tool as make_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import CachePolicy

from agent_factory import (
    AgentFactoryWarning,
    AgentMiddleware,
    AgentState,
    NodePolicy,
    Ordering,
    ToolGuard,
    create_agent,
    hook_config,
    plan_agent,
    warnings_of,
    wrap_model_call,
)
from agent_factory.errors import BUILD_CODES, ArgumentError, SpecError, SpecErrors, sentence
from agent_factory.middleware import TodoListMiddleware
from agent_factory.testing import ScriptedChatModel
from samples import AsyncHook, Count, Plain, add, find
from samples import Declares as Guarding
from tables import each


def other_add() -> int:
    """Add nothing."""
    return 0


other_add.__name__ = "add"


class Misspelt(AgentMiddleware):
    def before_modle(self, state: Any, runtime: Any) -> None:
        return None


class WithUser(AgentMiddleware):
    def before_model(self, state: Any, runtime: Any, user: Any) -> None:  # type: ignore[override]
        return None


class CoroutineInSync(AgentMiddleware):
    async def before_model(self, state: Any, runtime: Any) -> None:  # type: ignore[override]
        return None


class Both(AgentMiddleware):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    def around_model(self, request: Any) -> Any:
        return (yield request)


class SyncLayer(AgentMiddleware):
    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)


class JumpsAway(AgentMiddleware):
    @hook_config(can_jump_to=["away"])  # type: ignore[list-item]
    def before_model(self, state: Any, runtime: Any) -> None:
        return None


class JumpsToTools(AgentMiddleware):
    @hook_config(can_jump_to=["tools"])
    def after_model(self, state: Any, runtime: Any) -> None:
        return None


class Counts(AgentState):
    count: NotRequired[Annotated[list[int], operator.add]]


class Counting(AgentMiddleware[Any, Any]):
    state_schema = Counts


class Strange(AgentMiddleware[Any, Any]):
    state_schema: Any = int


class Tallying(AgentMiddleware[Any, Any]):
    state_schema = Count


class Folded(AgentState):
    count: NotRequired[Annotated[int, lambda only_one: only_one]]


class Numbered(AgentMiddleware):
    name: Any = 3


class BringsAdd(AgentMiddleware):
    tools = (other_add,)


def _moving(moved: Any) -> dict[str, Any]:
    return {"middleware": [Counting()], "moved": moved}


class Review(AgentMiddleware):
    needs_checkpointer = True

    def __init__(self, place: Any) -> None:
        super().__init__()
        self.guards = [ToolGuard("add", "check", place=place)]

    def after_model(self, state: Any, runtime: Any) -> None:
        """Decide."""


class Shortcut(AgentMiddleware):
    @hook_config(can_jump_to=["tools"])
    def before_model(self, state: Any, runtime: Any) -> None:
        """May jump to the tools."""


Mistake = tuple[str, str, str, dict[str, Any]]


def mistake(code: str, subject: str, hint: str, **arguments: Any) -> Mistake:
    return code, subject, hint, arguments


MISTAKES: list[Mistake] = [
    mistake("AF101", "model", "provider:name", model=3),
    mistake("AF101", "model", "Pass a chat model", model=None),
    mistake("AF101", "tools", "tools=[...]", tools="add"),
    mistake("AF101", "tools", "tools=[...]", tools=add),
    mistake("AF101", "system_prompt", "string", system_prompt=3),
    mistake("AF101", "name", "string", name=3),
    mistake("AF101", "interrupt_after", "interrupt_after=[", interrupt_after="tools"),
    mistake("AF101", "checkpointer", "Pass a BaseCheckpointSaver", checkpointer="memory"),
    mistake("AF102", "middleware", "list", middleware=Plain()),
    mistake("AF102", "middleware[0]", "Plain(...)", middleware=[Plain]),
    mistake("AF102", "middleware[1]", "decorate", middleware=[Plain(), 3]),
    mistake("AF103", "Plain", "name='first'", middleware=[Plain(), Plain()]),
    mistake("AF104", "'a|b'", "another name", middleware=[Plain(name="a|b")]),
    mistake("AF104", "middleware[0]", "to a string", middleware=[Numbered()]),
    mistake("AF105", "Misspelt.before_modle", "before_model", middleware=[Misspelt()]),
    mistake(
        "AF106",
        "WithUser.before_model",
        "def before_model(self, state, runtime)",
        middleware=[WithUser()],
    ),
    mistake(
        "AF107", "CoroutineInSync.before_model", "abefore_model", middleware=[CoroutineInSync()]
    ),
    mistake("AF108", "Both", "around_model", middleware=[Both()]),
    mistake(
        "AF109",
        "SyncLayer.wrap_tool_call and AsyncHook.abefore_model",
        "flow",
        middleware=[SyncLayer(), AsyncHook()],
    ),
    mistake("AF110", "JumpsAway.before_model", "'end'", middleware=[JumpsAway()]),
    mistake("AF111", "JumpsToTools.after_model", "tool", middleware=[JumpsToTools()]),
    mistake("AF112", "tools", "docstring", tools=[3]),
    mistake("AF112", "handle_tool_errors", "True", handle_tool_errors=3),
    mistake("AF113", "add", "Rename", tools=[add], middleware=[BringsAdd()]),
    mistake("AF113", "add", "Rename", tools=[add, other_add]),
    mistake(
        "AF113", "add", "Rename", tools=[add], response_format={"title": "add", "type": "object"}
    ),
    mistake("AF114", "create_agent state_schema", "class MyState", state_schema=3),
    mistake("AF114", "Strange state_schema", "class MyState", middleware=[Strange()]),
    mistake("AF114", "the state", "Annotated", state_schema=Folded),
    mistake("AF115", "state key 'count'", "two names", middleware=[Counting(), Tallying()]),
    mistake(
        "AF125", "tool 'add numbers'", "Name it 'add_numbers'.", tools=[tool("add numbers")(add)]
    ),
    mistake("AF126", "Review", "place=", tools=[add], middleware=[Review("around_tool")]),
    mistake(
        "AF127",
        "'at most 5 model calls'",
        "ModelCallLimitMiddleware(run_limit=5)",
        tools=[add],
        guarantees=["at most 5 model calls"],
    ),
    mistake("AF128", "guarantee 'no refunds'", "tool NAME passes", guarantees=["no refunds"]),
    mistake(
        "AF128", "tool ad", "Did you mean 'add'?", tools=[add], guarantees=["tool ad passes A"]
    ),
    mistake("AF101", "guarantees", "Pass guarantees=[", guarantees="at most 5 model calls"),
    mistake(
        "AF129",
        "Review",
        "Remove 'tools' from can_jump_to of Shortcut.before_model",
        tools=[add],
        middleware=[Shortcut(), Review("after_model")],
    ),
    mistake(
        "AF131",
        "Declares",
        "Compare arguments of the tool",
        tools=[add],
        middleware=[Guarding(ToolGuard("add", "check", when="euros > 50"))],
    ),
    mistake(
        "AF132",
        "node_policies['Review.after_model']",
        "Remove the cache_policy.",
        middleware=[Review("after_model")],
        node_policies={"Review.after_model": NodePolicy(cache_policy=CachePolicy())},
    ),
    mistake("AF116", "interrupt_before: 'tolos'", "model", interrupt_before=["tolos"]),
    mistake("AF117", "response_format", "TypedDict", response_format=3),
    mistake("AF101", "moved", "moved={'OldName': 'NewName'}", moved=["Old"]),
    mistake("AF101", "moved['Old']", "one new name for each", moved={"Old": ["Counts", "Other"]}),
    mistake("AF101", "moved[3]", "one new name for each", moved={3: "Counting"}),
    mistake("AF101", "moved['a|b']", "one new name", **_moving({"a|b": "Counting"})),
    mistake("AF122", "moved['Old']", "Did you mean 'Counting'?", **_moving({"Old": "Countin"})),
    mistake("AF122", "moved['Old']", "Its middleware are none.", moved={"Old": "Newer"}),
    mistake("AF123", "moved['Counting']", "Remove it", **_moving({"Counting": "Counting"})),
]


def refused(arguments: dict[str, Any]) -> SpecError:
    with pytest.raises(SpecError) as caught:
        create_agent(**{"model": ScriptedChatModel([]), **arguments})
    return caught.value


def test_names_that_move_in_a_circle_are_refused() -> None:
    error = refused({"moved": {"A": "B", "B": "A"}})
    assert [one.code for one in error.errors] == ["AF122", "AF122"]


TYPE_ERRORS = {"AF101", "AF102", "AF106", "AF107", "AF112", "AF114", "AF117"}
PLANNED = {"tools", "middleware", "response_format", "state_schema"}


@each("code, subject, hint, arguments", MISTAKES)
def test_an_invalid_argument_is_refused_by_name_by_agents_and_plans(
    code: str, subject: str, hint: str, arguments: dict[str, Any]
) -> None:
    error = refused(arguments)
    assert error.code == code
    assert error.errors == (error,)
    assert error.subject == subject
    assert hint in error.hint
    assert str(error) == f"[{code}] {error.subject}: {sentence(error.reason)} {error.hint}"
    assert isinstance(error, ValueError)
    assert isinstance(error, TypeError) == (code in TYPE_ERRORS)
    assert isinstance(error, AssertionError) == (code == "AF103")
    # The reducers of "the state" are LangGraph's to judge, when it makes its channels.
    if set(arguments) <= PLANNED and subject != "the state":
        with pytest.raises(SpecError) as caught:
            plan_agent(**arguments)
        assert (caught.value.code, caught.value.subject) == (code, subject)


def test_every_code_of_an_error_is_tested() -> None:
    # below and in test_stack_file
    elsewhere = {"AF118", "AF119", "AF120", "AF121", "AF124"}
    codes = {code for code, entry in BUILD_CODES.items() if entry.severity == "error"}
    assert codes - elsewhere == {code for code, *_ in MISTAKES}


# Several at once


def test_all_mistakes_of_a_build_arrive_together() -> None:
    error = refused(
        {
            "tools": [3, add, other_add],
            "middleware": [Misspelt(), WithUser(), JumpsAway(), Counting(), Tallying()],
            "response_format": 3,
            "interrupt_before": ["tolos"],
        }
    )
    assert isinstance(error, SpecErrors)
    codes = "AF105 AF106 AF110 AF112 AF113 AF115 AF116 AF117"
    assert sorted(single.code for single in error.errors) == codes.split()
    for single in error.errors:
        assert str(single) in str(error)


def test_arguments_of_wrong_types_are_reported_together() -> None:
    """They come before the others: nothing could be looked into without them."""
    error = refused({"tools": 3, "name": 3, "middleware": [Plain, Misspelt()]})
    assert [single.subject for single in error.errors] == ["tools", "name", "middleware[0]"]


# Nothing half built


def test_the_model_is_not_loaded_for_a_build_that_fails() -> None:
    assert refused({"model": "provider:name", "tools": [3]}).code == "AF112"


def test_a_refused_build_does_not_change_its_arguments(call: Any) -> None:
    stack = [Plain(), wrap_model_call(name="Layer")(lambda request, handler: handler(request))]
    tools: list[Any] = [add, 3]
    refused({"tools": tools, "middleware": stack})
    agent = create_agent(ScriptedChatModel(["Hello"]), tools[:1], middleware=stack[:1])
    assert call(agent, {"messages": "Hi"})["messages"][-1].text == "Hello"


# Prose


def test_the_messages_of_spec_errors(snapshot: Any) -> None:
    """One look at all of it: a change of words is a change that users read."""
    prose = "\n\n".join(str(refused(arguments)) for *_, arguments in MISTAKES)
    assert re.sub(" at 0x[0-9a-f]+", "", prose) == snapshot


UNKNOWN_ARGUMENTS = {
    "prompt": "Write system_prompt=...",
    "state_modifier": "Write system_prompt=...",
    "memory": "Write checkpointer=...",
    "output_type": "Write response_format=...",
    "pre_model_hook": "Write middleware=[...] with a middleware with before_model.",
    "system_promt": "Did you mean system_prompt?",
    "flavour": "It takes model, tools, system_prompt,",
}


@each("build", [create_agent, plan_agent])
@each("name, hint", UNKNOWN_ARGUMENTS.items())
def test_an_unknown_argument_is_refused_with_what_to_write(
    build: Any, name: str, hint: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        build(model=ScriptedChatModel(), **{name: 1})
    assert caught.value.reason == f"is not an argument of {build.__name__}."
    assert caught.value.hint.startswith(hint)
    assert isinstance(caught.value, TypeError)


@each("build", [create_agent, plan_agent])
def test_tools_in_the_place_of_the_model_are_refused(build: Any) -> None:
    with pytest.raises(ArgumentError, match="Pass the model first, then the tools"):
        build([add])


class Declares(AgentMiddleware):
    """Declares what the test sets."""

    def __init__(self, name: str, **declared: Any) -> None:
        super().__init__(name=name)
        self.ordering = Ordering(**declared)

    def around_model(self, request: Any) -> Any:
        return (yield request)


class Early(Declares):
    def before_model(self, state: Any, runtime: Any) -> None:
        """Look."""


class Late(Declares):
    def after_model(self, state: Any, runtime: Any) -> None:
        """Look."""


class Jumper(AgentMiddleware):
    @hook_config(can_jump_to=["model"])
    def before_model(self, state: Any, runtime: Any) -> None:
        """Look."""


class Closer(Declares):
    @hook_config(can_jump_to=["end"])
    def after_agent(self, state: Any, runtime: Any) -> None:
        """Look."""


class Reviewer(AgentMiddleware):
    needs_checkpointer = True
    expected_tools = ("refund",)

    def after_model(self, state: Any, runtime: Any) -> None:
        """Look."""


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
        ([Declares("a"), Declares("b", before=["a"])], {}, ["AF204"]),
        ([Declares("a", after=["b"]), Declares("b")], {}, ["AF204"]),
        (
            [Early("a", sends_to_model=["user_messages"]), Early("g", sanitizes=["user_messages"])],
            {},
            ["AF205"],
        ),
        ([Late("p", reads=["tool_calls"]), Declares("c", writes=["tool_calls"])], {}, ["AF206"]),
        ([Late("c", writes=["tool_calls"]), Late("p", reads=["tool_calls"])], {}, ["AF206"]),
        ([Declares("r", reads=["tool_errors"])], {"handle_tool_errors": True}, ["AF207"]),
        (
            [
                Declares("v", varies=["tools", "system_prompt"]),
                Declares("other"),
                Declares("e", extends=["tools"]),
                Declares("f", extends=["system_prompt", "messages"]),
            ],
            {},
            ["AF214", "AF214"],
        ),
        ([Declares("clock", varies=["system_prompt"]), TodoListMiddleware()], {}, ["AF214"]),
        ([Declares("r", reads=["thread"]), Declares("w", writes=["thread"])], {}, ["AF208"]),
        ([Declares("w", writes=["thread"]), Declares("r", reads=["thread"])], {}, ["AF208"]),
        ([Declares("w", writes=["thread"]), Declares("v", writes=["thread"])], {}, []),
        ([Reviewer()], {"tools": [find]}, ["AF210"]),
        ([Reviewer()], {"tools": [find], "checkpointer": None}, ["AF210", "AF211"]),
        # The last of the list runs first, and its jump skips the other.
        ([Closer("skipped"), Closer("jumps")], {}, ["AF218"]),
        ([Closer("alone")], {}, []),
    ],
)
def test_each_warning_has_its_code(
    stack: list[Any], arguments: dict[str, Any], expected: list[str]
) -> None:
    assert codes(*stack, **arguments) == expected


@each(
    "stack, arguments",
    [
        ([Declares("a", before=["b"]), Declares("b", after=["a"])], {}),
        ([Declares("a", before=["nobody"], after=["nobody"], conflicts=["nobody"])], {}),
        ([Declares("a", requires=["Declares"]), Declares("b")], {}),
        (
            [Early("g", sanitizes=["user_messages"]), Early("a", sends_to_model=["user_messages"])],
            {},
        ),
        # A layer sees the messages after every hook.
        (
            [
                Declares("a", sends_to_model=["user_messages"]),
                Early("g", sanitizes=["user_messages"]),
            ],
            {},
        ),
        ([Late("p", reads=["tool_calls"]), Late("c", writes=["tool_calls"])], {}),
        ([Declares("r", reads=["tool_errors"])], {"handle_tool_errors": False}),
        # What changes comes last, or in another part.
        ([Declares("e", extends=["system_prompt"]), Declares("v", varies=["system_prompt"])], {}),
        ([Declares("v", varies=["messages"]), Declares("e", extends=["system_prompt"])], {}),
        ([Declares("v", varies=["tools"]), Declares("w", varies=["tools"])], {}),
        ([Declares("r", reads=["tool_errors"])], {}),
        ([Reviewer()], {"tools": [find], "checkpointer": InMemorySaver(), "ignore": ["AF210"]}),
    ],
)
def test_a_stack_without_problems_gives_no_warning(
    stack: list[Any], arguments: dict[str, Any]
) -> None:
    assert codes(*stack, **arguments) == []


def test_missing_and_conflicting_middleware_are_refused() -> None:
    with pytest.raises(SpecError, match=r"^\[AF118\]") as missing:
        plan_agent(middleware=[Declares("a", requires=["Guard"])])
    assert missing.value.subject == "a"
    assert "Guard" in missing.value.hint
    with pytest.raises(SpecError, match="AF119"):
        plan_agent(middleware=[Declares("a", conflicts=["Early"]), Early("b")])
    assert codes(Declares("a", requires=["Guard"]), ignore=["AF118"]) == []


def test_a_cyclic_order_names_its_middleware() -> None:
    stack = [
        Declares("a", before=["b"]),
        Declares("b", before=["a"]),
        Declares("c", after=["a"]),
        Declares("d", before=["a"]),
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
    middleware = Declares("limit")
    middleware.expected_tools = tools
    return middleware


@each(
    "name, tool",
    [
        ("refnd", "refund"),
        ("Refund", "refund"),
        ("pya", "pay"),
        ("sendEmail", "send_email"),
        ("get_order", "get_orders"),
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
        {"after": None},
        {"reads": ["feelings"]},
        {"sends_to_model": ["messages"]},
        {"varies": ["user_messages"]},
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
        ("needs_checkpointer", "yes"),
    ],
)
def test_a_declaration_of_another_type_is_refused(attribute: str, value: Any) -> None:
    middleware = Declares("a")
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
    stack = [Declares(name, before=[b for a, b in sorted(wanted) if a == name]) for name in order]
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
