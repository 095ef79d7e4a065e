"""What a failing tool leads to."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.tools import tool

from agent_factory import create_agent
from agent_factory.errors import ArgumentError
from agent_factory.testing import ScriptedChatModel
from error_handlers import HandlerObject, later, number, two, values, values_or_keys
from samples import add, tool_results
from tables import each

GO = {"messages": "Go"}


@tool
def fail(kind: str) -> str:
    """Fail in some way."""
    raise {"value": ValueError, "key": KeyError, "os": OSError}[kind](kind)


def asked(name: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": name}


def failing(handle: Any, kind: str) -> Any:
    model = ScriptedChatModel([[asked("fail", kind=kind)], "Done"])
    if handle is None:
        return create_agent(model, [fail])
    return create_agent(model, [fail], handle_tool_errors=handle)


def test_by_default_a_raising_tool_raises_and_invalid_arguments_are_reported(call: Any) -> None:
    """C42, E1"""
    with pytest.raises(ValueError, match="value"):
        call(failing(None, "value"), GO)
    model = ScriptedChatModel([[asked("add", a="one", b=2)], "Done"])
    ((text, status),) = tool_results(call(create_agent(model, [add]), GO))
    assert status == "error"
    assert text.startswith("Error invoking tool 'add' with kwargs {'a': 'one', 'b': 2}")


TEMPLATE = "Error: ValueError('value')\n Please fix your mistakes."


@each(
    "handle, said",
    [
        (True, TEMPLATE),
        ("Try again.", "Try again."),
        (ValueError, TEMPLATE),
        ((KeyError, ValueError), TEMPLATE),
        (lambda error: f"said {error}", "said value"),
        (values, "bad value value"),
        (values_or_keys, "one of the two"),
        (HandlerObject(), "handled by an object"),
    ],
)
def test_a_handled_error_is_reported_to_the_model(call: Any, handle: Any, said: str) -> None:
    """C41, C43, C44"""
    assert tool_results(call(failing(handle, "value"), GO)) == [(said, "error")]


@each("handle", [False, "", (), KeyError, (KeyError, TypeError), values, HandlerObject()])
def test_an_error_that_is_not_handled_ends_the_run(call: Any, handle: Any) -> None:
    """C41, C46: a form covers the types it names, and no others."""
    with pytest.raises(OSError, match="os"):
        call(failing(handle, "os"), GO)


@each("handle", [None, 5, {}, [ValueError], (int,), int, two, later, number])
def test_a_form_that_could_not_work_is_refused_at_build(handle: Any) -> None:
    """C41, C47: not when an error occurs."""
    with pytest.raises(ArgumentError, match=r"^\[AF112\]") as caught:
        create_agent(ScriptedChatModel([]), [add], handle_tool_errors=handle)
    assert caught.value.subject.startswith("handle_tool_errors")


def test_a_handled_error_does_not_stop_parallel_calls(call: Any) -> None:
    """C20"""
    both = [asked("fail", kind="value"), asked("add", a=1, b=2)]
    model = ScriptedChatModel([both, "Done"])
    result = call(create_agent(model, [fail, add], handle_tool_errors="No."), GO)
    assert tool_results(result) == [("No.", "error"), ("3", "success")]


@each("handle", [True, KeyError, "It went wrong."])
def test_an_error_that_an_agent_inside_a_tool_did_not_handle_is_the_outer_ones(
    call: Any, handle: Any
) -> None:
    inner = failing(None, "key")

    @tool
    def delegate() -> str:
        """Ask another agent."""
        return str(inner.invoke(GO))

    model = ScriptedChatModel([[asked("delegate")], "Done"])
    result = call(create_agent(model, [delegate], handle_tool_errors=handle), GO)
    ((said, status),) = tool_results(result)
    assert status == "error"
    assert said == handle if isinstance(handle, str) else "KeyError('key')" in said
