"""What happens when a tool fails, and which handlers could not work: C41 to C52."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Optional, Union

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.prebuilt.tool_node import ToolInvocationError
from langgraph.types import Command, interrupt
from pydantic import BaseModel, ValidationError, model_validator

from agent_factory import ToolNode
from agent_factory.errors import ArgumentError
from error_handlers import FAILURES, HandlerObject, fail, later, number, two, values, values_or_keys
from samples import THREAD, add
from tables import each


def answer(kind: Any, run: Any, ask: Any, handle: Any, why: str = "value") -> tuple[str, str]:
    (message,) = run(kind([fail], handle_tool_errors=handle), ask(("fail", {"kind": why})))
    assert (message.name, message.tool_call_id) == ("fail", "1")
    return message.text, message.status


def either(error: Any) -> str:
    return "one of the two"


either.__annotations__["error"] = ValueError | KeyError  # not postponed, as `values_or_keys` is


TEMPLATE = "Error: ValueError('value')\n Please fix your mistakes."


@each(
    "handle, report",
    [
        (True, TEMPLATE),
        ("Try again.", "Try again."),
        (ValueError, TEMPLATE),
        ((KeyError, ValueError), TEMPLATE),
        (lambda error: f"said {error}", "said value"),
        (values, "bad value value"),
        (either, "one of the two"),
        *((handle, None) for handle in (False, "", (), KeyError, (KeyError, TypeError))),
    ],
)
def test_c41_c43_c44_a_handled_error_is_reported_to_the_model(
    kind: Any, run: Any, ask: Any, handle: Any, report: str | None
) -> None:
    """E22, E23: a handler is called with the exception alone; any other error ends the run."""
    if report is not None:
        assert answer(kind, run, ask, handle) == (report, "error")
    if report is None or handle in (values, either):
        with pytest.raises(OSError, match="os"):
            answer(kind, run, ask, handle, "os")


def test_c41_another_form_is_refused_at_once(run: Any, ask: Any) -> None:
    """By LangGraph when a tool fails."""
    for handle in (5, [ValueError], (int,), None):
        with pytest.raises(ArgumentError, match=r"^\[AF112\] .*must be True, False, a string"):
            ToolNode([add], handle_tool_errors=handle)  # type: ignore[arg-type]  # for show
    with pytest.raises(ValueError, match=r"Expected bool, str or callable\. Received: 5"):
        answer(LangGraphToolNode, run, ask, 5)


def test_c42_c43_c50_c52_invalid_arguments_are_reported_one_by_one(
    kind: Any, run: Any, ask: Any
) -> None:
    """E1: by default, exceptions of tools raise."""
    (message,) = run(kind([add]), ask(("add", {"a": "one"})))
    assert (message.status, message.text) == (
        "error",
        "Error invoking tool 'add' with kwargs {'a': 'one'} with error:\n"
        " a: Input should be a valid integer, unable to parse string as an integer\n"
        "b: Field required\n"
        " Please fix the error and try again.",
    )
    with pytest.raises(ValueError, match="value"):
        run(kind([fail]), ask(("fail", {"kind": "value"})))


def test_c45_an_unknown_name_is_always_reported(kind: Any, run: Any, ask: Any) -> None:
    """E16: and parallel calls run."""
    calls = ask(("ghost", {}), ("add", {"a": 1, "b": 2}))
    ghost, sum_ = run(kind([add, fail], handle_tool_errors=False), calls)
    assert ghost.text == "Error: ghost is not a valid tool, try one of [add, fail]."
    assert (ghost.name, ghost.tool_call_id, ghost.status) == ("ghost", "1", "error")
    assert sum_.text == "3"


@each("bubble", [GraphBubbleUp, GraphInterrupt, partial(ParentCommand, Command())])
@each("handle", [True, Exception, lambda error: "no"])
def test_c48_control_flow_passes_whatever_is_handled(
    kind: Any, run: Any, ask: Any, handle: Any, bubble: Any
) -> None:
    @tool
    def bubbles() -> str:
        """Raise control flow."""
        raise bubble()

    for options in ({}, {"wrap_tool_call": lambda request, execute: execute(request)}):
        node = kind([bubbles], handle_tool_errors=handle, **options)
        with pytest.raises(GraphBubbleUp):
            run(node, ask(("bubbles", {})))


def asking() -> Any:
    """A graph that asks a person, as a tool or inside one."""

    @tool
    def approve() -> str:
        """Ask a person."""
        return f"said {interrupt('May I?')}"

    return approve


def as_a_graph(kind: Any, given: Any, ask: Any, **options: Any) -> Any:
    graph = StateGraph(MessagesState).add_node("tools", kind([given], **options))
    return graph.add_edge(START, "tools")


@each("depth", [0, 1, 2])
def test_c48_an_interrupt_waits_at_any_depth(kind: Any, call: Any, ask: Any, depth: int) -> None:
    """In a tool, in a node of a graph called as a tool, and in a graph inside that."""
    given, name = asking(), "approve"
    for _ in range(depth):
        inner: Any = as_a_graph(kind, given, ask).compile()

        @tool
        def delegate(inner: Any = inner, name: str = name) -> str:
            """Call a graph."""
            return str(inner.invoke({"messages": ask((name, {}))})["messages"][-1].text)

        given, name = delegate, "delegate"
    agent: Any = as_a_graph(kind, given, ask, handle_tool_errors=True).compile(
        checkpointer=InMemorySaver()
    )
    waiting = call(agent, {"messages": ask((name, {}))}, THREAD)
    assert [i.value for i in waiting["__interrupt__"]] == ["May I?"]
    assert call(agent, Command(resume="yes"), THREAD)["messages"][-1].text == "said yes"


class Order(BaseModel):
    lamps: int


@tool
def order(text: str) -> str:
    """Order lamps."""
    return str(Order.model_validate({"lamps": text}))


def test_c50_a_validation_error_of_a_tool_is_an_error_of_the_tool(run: Any, ask: Any) -> None:
    """E40: LangGraph reports it as invalid arguments."""

    @tool
    def shop(text: str) -> str:
        """Shop for lamps with another tool."""
        return str(tool(add).invoke({"a": text, "b": 1}))

    calls = ask(("order", {"text": "many"}))
    for handle in ({}, {"handle_tool_errors": False}, {"handle_tool_errors": KeyError}):
        with pytest.raises(ValidationError, match="for Order"):
            run(ToolNode([order], **handle), calls)
    with pytest.raises(ValidationError, match="for add"):
        run(ToolNode([shop]), ask(("shop", {"text": "many"})))
    (message,) = run(ToolNode([order], handle_tool_errors=ValidationError), calls)
    assert message.text.startswith("Error: 1 validation error for Order")
    (message,) = run(ToolNode([order], handle_tool_errors=values), calls)
    assert message.text.startswith("bad value 1 validation error for Order"), "it is a ValueError"
    (message,) = run(LangGraphToolNode([order]), calls)
    assert message.text.startswith("Error invoking tool 'order' with kwargs {'text': 'many'}")


def test_c50_bad_arguments_are_an_error_that_knows_them(kind: Any, run: Any, ask: Any) -> None:
    seen: list[Any] = []

    def keep(error: ToolInvocationError) -> str:
        seen.append(error)
        return "kept"

    run(kind([add], handle_tool_errors=keep), ask(("add", {"a": "one", "b": 2})))
    (error,) = seen
    assert (error.tool_name, error.tool_kwargs) == ("add", {"a": "one", "b": 2})
    assert isinstance(error.source, ValidationError)
    assert [fact["loc"] for fact in error.filtered_errors] == [("a",)]


def test_c51_the_model_does_not_see_injected_arguments(kind: Any, run: Any, ask: Any) -> None:
    @tool
    def count(n: int, secret: Annotated[int, InjectedState("secret")]) -> int:
        """Count."""
        return n

    state = {"messages": ask(("count", {"n": "one"})), "secret": "no number"}
    (message,) = run(kind([count]), state)["messages"]
    assert "n: Input should be a valid integer" in message.text
    assert "secret" not in message.text
    assert "no number" not in message.text


class Span(BaseModel):
    start: int
    end: int
    secret: Annotated[str, InjectedState("secret")]

    @model_validator(mode="after")
    def ordered(self) -> Span:
        if self.end < self.start:
            raise ValueError("end is before start")
        return self


@tool(args_schema=Span)
def book(start: int, end: int, secret: str) -> str:
    """Book a span."""
    return f"{start} to {end}"


def misbooked(kind: Any, run: Any, ask: Any, **options: Any) -> Any:
    state = {"messages": ask(("book", {"start": 2, "end": 1})), "secret": "swordfish"}
    (message,) = run(kind([book], **options), state)["messages"]
    return message.text


def test_c51_an_error_of_several_arguments_is_reported(run: Any, ask: Any) -> None:
    """E41: LangGraph leaves it out."""
    text = misbooked(ToolNode, run, ask)
    assert "with error:\n arguments: Value error, end is before start\n Please fix" in text
    assert "swordfish" not in misbooked(ToolNode, run, ask, handle_tool_errors=True)
    facts: list[Any] = []

    def keep(error: ToolInvocationError) -> str:
        facts.extend(error.filtered_errors or [])
        return "kept"

    misbooked(ToolNode, run, ask, handle_tool_errors=keep)
    assert [fact["input"] for fact in facts] == [{"start": 2, "end": 1}]
    text = misbooked(LangGraphToolNode, run, ask)
    assert text.endswith("with error:\n \n Please fix the error and try again.")


def handles(node: Any, run: Any, ask: Any) -> set[str]:
    """Which failures the node reports to the model."""
    report = set()
    for why, error in FAILURES.items():
        try:
            run(node, ask(("fail", {"kind": why})))
        except error:
            continue
        report.add(why)
    return report


class Desk:
    def values(self, error: ValueError) -> str:
        return "reported by a method"

    @classmethod
    def keys(cls, error: KeyError) -> str:
        return "reported by a class"

    @staticmethod
    def any(error) -> str:  # type: ignore[no-untyped-def]  # that is what is tried
        return "reported by a function"


def by_union(error: Union[ValueError, KeyError]) -> str:  # noqa: UP007  # the older spelling
    return "one of the two"


@each(
    "handler, report",
    [
        (Desk().values, {"value"}),
        (Desk.keys, {"key"}),
        (Desk.any, {"value", "key", "os"}),
        (lambda error: "any", {"value", "key", "os"}),
    ],
)
def test_c46_a_handler_takes_what_its_parameter_is_annotated_with(
    kind: Any, run: Any, ask: Any, handler: Any, report: set[str]
) -> None:
    assert handles(kind([fail], handle_tool_errors=handler), run, ask) == report


@each("handler", [by_union, values_or_keys])
def test_c46_a_union_in_a_postponed_annotation(run: Any, ask: Any, handler: Any) -> None:
    """C46: under `from __future__ import annotations` LangGraph stumbles over a union."""
    assert handles(ToolNode([fail], handle_tool_errors=handler), run, ask) == {"value", "key"}
    with pytest.raises((ValueError, AttributeError)):
        handles(LangGraphToolNode([fail], handle_tool_errors=handler), run, ask)


def perhaps(error: Optional[ValueError]) -> str:  # noqa: UP045  # as many write it
    return "never"


def anything(error: BaseException) -> str:
    return "never"


def unreadable(error: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821  # for show
    return "never"


def none() -> str:
    return "never"


class Later:
    async def __call__(self, error: Exception) -> str:
        return "never"


UNUSABLE = [number, perhaps, anything, unreadable, two, none, later, Later()]


@each("handler", UNUSABLE)
def test_c47_a_handler_that_could_not_work_is_refused_at_once_here(handler: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^\[AF112\]") as caught:
        ToolNode([fail], handle_tool_errors=handler)
    assert caught.value.subject.startswith("handle_tool_errors")
    assert "def handler(error: ValueError) -> str" in caught.value.hint


def worded(text: str, error: ValueError) -> str:
    return text


@each("handler", [HandlerObject(), partial(worded, "reported")])
def test_c47_any_callable_can_be_a_handler_here(run: Any, ask: Any, handler: Any) -> None:
    assert handles(ToolNode([fail], handle_tool_errors=handler), run, ask) == {"value"}
    with pytest.raises(TypeError, match="is not a module, class, method, or function"):
        run(
            LangGraphToolNode([fail], handle_tool_errors=HandlerObject()),
            ask(("fail", {"kind": "os"})),
        )
