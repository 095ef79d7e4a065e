"""Which exceptions a handler takes, and which handlers could not work: C46, C47."""

from __future__ import annotations

from functools import partial
from typing import Any, Optional, Union

import pytest
from langgraph.prebuilt import ToolNode as LangGraphToolNode

from agent_factory import ToolNode
from agent_factory.errors import ArgumentError
from error_handlers import FAILURES, HandlerObject, fail, later, number, two, values_or_keys
from tables import each


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


def test_c46_a_union_takes_each_of_its_types(kind: Any, run: Any, ask: Any) -> None:
    def either(error: Any) -> str:
        return "one of the two"

    for annotation in (ValueError | KeyError, Union[ValueError, KeyError]):  # noqa: UP007
        either.__annotations__["error"] = annotation
        node = kind([fail], handle_tool_errors=either)
        assert handles(node, run, ask) == {"value", "key"}


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


@each("handler", [number, perhaps, unreadable, two, none, Later()])
def test_c47_langgraph_finds_out_when_a_tool_fails(run: Any, ask: Any, handler: Any) -> None:
    """And what the tool raised is replaced by what is wrong with the handler."""
    node = LangGraphToolNode([fail], handle_tool_errors=handler)
    with pytest.raises((ValueError, TypeError, NameError, AttributeError)) as caught:
        run(node, ask(("fail", {"kind": "os"})))
    assert not isinstance(caught.value, OSError)


def test_c46_langgraphs_message_for_a_type_that_is_not_an_exception(run: Any, ask: Any) -> None:
    def odd(error: Any) -> str:
        return "never"

    for annotation, text in (
        (int, "Arbitrary types are not supported in the error handler signature."),
        (ValueError | int, "All types in the error handler error annotation must be Exception"),
    ):
        odd.__annotations__["error"] = annotation
        with pytest.raises(ValueError, match=text):
            run(LangGraphToolNode([fail], handle_tool_errors=odd), ask(("fail", {"kind": "os"})))


@each("handler", UNUSABLE)
def test_c47_a_handler_that_could_not_work_is_refused_at_once_here(handler: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^\[AF112\]") as caught:
        ToolNode([fail], handle_tool_errors=handler)
    assert caught.value.subject.startswith("handle_tool_errors")
    assert "def handler(error: ValueError) -> str" in caught.value.hint


def test_c47_a_coroutines_name_is_what_the_model_reads_in_langgraph(run: Any, ask: Any) -> None:
    made: list[Any] = []

    def as_coroutine(error: Exception) -> Any:
        made.append(later(error))
        return made[-1]

    node = LangGraphToolNode([fail], handle_tool_errors=as_coroutine)
    (message,) = run(node, ask(("fail", {"kind": "os"})))
    assert message.text.startswith("<coroutine object later")
    made[0].close()


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
