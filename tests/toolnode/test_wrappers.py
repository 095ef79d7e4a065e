"""Wrappers around calls: C66 to C70."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from inspect import isawaitable
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.prebuilt import ToolRuntime
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command
from packaging.version import Version

from agent_factory import ToolNode
from agent_factory.errors import PathNotSupported
from error_handlers import values
from samples import add, user
from tables import each

SUM = ("add", {"a": 1, "b": 2})


def passing(request: Any, execute: Any) -> Any:
    return execute(request)


def wrapped(kind: Any, wrap: Any, tools: Any = (add,), **options: Any) -> Any:
    """A node with the wrapper, sync and async."""

    async def awrap(request: Any, execute: Any) -> Any:
        result = wrap(request, execute)
        return await result if isawaitable(result) else result

    return kind(list(tools), wrap_tool_call=wrap, awrap_tool_call=awrap, **options)


def test_c66_a_request_holds_call_tool_state_and_runtime(kind: Any, run: Any, ask: Any) -> None:
    seen: list[Any] = []

    def look(request: Any, execute: Any) -> Any:
        seen.append(request)
        return execute(request)

    state = {"messages": ask(SUM, ("ghost", {})), "user": "Ada"}
    run(wrapped(kind, look), state)
    first, second = sorted(seen, key=lambda request: str(request.tool_call["id"]))
    assert first.tool_call["args"] == {"a": 1, "b": 2}
    assert (first.tool.name, second.tool) == ("add", None)
    assert first.state["user"] == "Ada"
    assert isinstance(first.runtime, ToolRuntime)


def test_c66_override_gives_a_changed_copy(kind: Any, run: Any, ask: Any) -> None:
    seen: list[Any] = []

    def change(request: ToolCallRequest, execute: Any) -> Any:
        changed: Any = {**request.tool_call, "args": {"a": 5, "b": 5}}
        seen.append(request)
        return execute(request.override(tool_call=changed))

    (message,) = run(wrapped(kind, change), ask(SUM))
    assert message.text == "10"
    assert seen[0].tool_call["args"] == {"a": 1, "b": 2}


def test_c66_to_set_an_attribute_warns(kind: Any, run: Any, ask: Any) -> None:
    text = "Setting attribute 'state' on ToolCallRequest is deprecated. Use the override"

    def set_(request: Any, execute: Any) -> Any:
        with pytest.warns(DeprecationWarning, match=text):
            request.state = {}
        return execute(request)

    run(wrapped(kind, set_), ask(SUM))


@each("answer", [ToolMessage("cached", tool_call_id="1"), Command(goto="end")])
def test_c67_a_wrapper_may_answer_itself(kind: Any, run: Any, ask: Any, answer: Any) -> None:
    assert run(wrapped(kind, lambda request, execute: answer), ask(SUM)) == [answer]


def flaky(times: int) -> Any:
    left = [times]

    @tool("add")
    def sometimes(a: int, b: int) -> int:
        """Add two numbers."""
        left[0] -= 1
        if left[0] >= 0:
            raise ConnectionError("down")
        return a + b

    return sometimes


def test_c67_a_wrapper_may_run_a_tool_again(kind: Any, ask: Any) -> None:
    """Until it succeeds; handled errors arrive as messages."""

    def retry(request: Any, execute: Any) -> Any:
        for _ in range(3):
            message = execute(request)
            if message.status != "error":
                return message
        return message

    async def aretry(request: Any, execute: Any) -> Any:
        for _ in range(3):
            message = await execute(request)
            if message.status != "error":
                return message
        return message

    for failures, report in ((2, "3"), (3, "No.")):
        options: Any = {
            "handle_tool_errors": "No.",
            "wrap_tool_call": retry,
            "awrap_tool_call": aretry,
        }
        (message,) = kind([flaky(failures)], **options).invoke(ask(SUM), runtime=Runtime())
        assert message.text == report
        node = kind([flaky(failures)], **options)
        (message,) = asyncio.run(node.ainvoke(ask(SUM), runtime=Runtime()))
        assert message.text == report


def test_c68_a_wrapper_may_run_a_tool_that_is_not_known(kind: Any, run: Any, ask: Any) -> None:
    def bring(request: Any, execute: Any) -> Any:
        assert request.tool is None
        return execute(request.override(tool=tool("ghost")(user)))

    state = {"messages": ask(("ghost", {"name": "Eve"})), "user": "Ada"}
    (message,) = run(wrapped(kind, bring), state)["messages"]
    assert message.text == "Ada"


def test_c68_an_unknown_name_is_reported_to_the_model(kind: Any, run: Any, ask: Any) -> None:
    (message,) = run(wrapped(kind, passing), ask(("ghost", {})))
    assert message.text == "Error: ghost is not a valid tool, try one of [add]."


def other_state(request: Any, execute: Any) -> Any:
    return execute(request.override(state={"user": "Eve"}))


def test_c68_another_state_in_the_request_reaches_the_tool(kind: Any, run: Any, ask: Any) -> None:
    """Earlier versions of LangGraph ignored it."""
    state = {"messages": ask(("user", {})), "user": "Ada"}
    (message,) = run(wrapped(kind, other_state, [user]), state)["messages"]
    ignores = kind is not ToolNode and Version(version("langgraph-prebuilt")) < Version("1.1.3")
    assert message.text == ("Ada" if ignores else "Eve")


def other_tool(request: Any, execute: Any) -> Any:
    return execute(request.override(tool=tool("add")(user)))


def test_c68_another_tool_in_the_request_gets_what_it_takes(run: Any, ask: Any) -> None:
    """LangGraph injects by the name of the tool that the model called."""
    state = {"messages": ask(("add", {})), "user": "Ada"}
    for kind, text in ((ToolNode, "Ada"), (LangGraphToolNode, "name: Field required")):
        (message,) = run(wrapped(kind, other_tool), state)["messages"]
        assert text in message.text


def strict(request: Any, execute: Any) -> Any:
    raise PermissionError("not today")


@each("handle", [None, False, ""])
def test_c69_what_a_wrapper_raises_ends_the_run(kind: Any, run: Any, ask: Any, handle: Any) -> None:
    options = {} if handle is None else {"handle_tool_errors": handle}
    with pytest.raises(PermissionError, match="not today"):
        run(wrapped(kind, strict, **options), ask(SUM))


@each(
    "handle, report",
    [
        (True, "Error: PermissionError('not today')\n Please fix your mistakes."),
        ("No.", "No."),
        (OSError, "Error: PermissionError('not today')\n Please fix your mistakes."),
    ],
)
def test_c69_it_may_be_handled(kind: Any, run: Any, ask: Any, handle: Any, report: str) -> None:
    (message,) = run(wrapped(kind, strict, handle_tool_errors=handle), ask(SUM))
    assert (message.text, message.status, message.tool_call_id) == (report, "error", "1")


@each("handle", [ValueError, (ValueError, KeyError), values])
def test_c69_types_that_are_not_listed_end_the_run(run: Any, ask: Any, handle: Any) -> None:
    """LangGraph reports them, whatever types are listed."""
    with pytest.raises(PermissionError, match="not today"):
        run(wrapped(ToolNode, strict, handle_tool_errors=handle), ask(SUM))
    node = wrapped(LangGraphToolNode, strict, handle_tool_errors=handle)
    (message,) = run(node, ask(SUM))
    assert message.status == "error"


def test_c69_the_handler_is_called_once_for_an_error_of_a_tool_here(run: Any, ask: Any) -> None:
    """LangGraph asks again about what came out through a wrapper."""
    asked: list[str] = []

    def count(error: Exception) -> str:
        asked.append(type(error).__name__)
        raise error

    for kind, times in ((LangGraphToolNode, 2), (ToolNode, 1)):
        asked.clear()
        node = wrapped(kind, passing, [flaky(1)], handle_tool_errors=count)
        with pytest.raises(ConnectionError):
            run(node, ask(SUM))
        assert asked == ["ConnectionError"] * times


def test_c69_an_interrupt_passes(kind: Any, run: Any, ask: Any) -> None:
    def wait(request: Any, execute: Any) -> Any:
        raise GraphInterrupt

    with pytest.raises(GraphInterrupt):
        run(wrapped(kind, wait, handle_tool_errors=True), ask(SUM))


# Sync and async


async def shout(request: Any, execute: Any) -> Any:
    message = await execute(request)
    return message.model_copy(update={"content": f"{message.text}!"})


def hush(request: Any, execute: Any) -> Any:
    message = execute(request)
    return message.model_copy(update={"content": f"({message.text})"})


def test_c70_an_async_run_takes_the_async_wrapper(kind: Any, ask: Any) -> None:
    node = kind([add], wrap_tool_call=hush, awrap_tool_call=shout)
    assert asyncio.run(node.ainvoke(ask(SUM), runtime=Runtime()))[0].text == "3!"
    assert node.invoke(ask(SUM), runtime=Runtime())[0].text == "(3)"


def test_c70_without_it_the_wrapper_runs_the_tool_in_the_event_loop(kind: Any, ask: Any) -> None:
    """With the tool in the loop's own thread: an async tool cannot run there."""
    node = kind([add], wrap_tool_call=hush)
    assert asyncio.run(node.ainvoke(ask(SUM), runtime=Runtime()))[0].text == "(3)"

    @tool("add")
    async def later(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    with pytest.raises(NotImplementedError, match="does not support sync invocation"):
        asyncio.run(kind([later], wrap_tool_call=hush).ainvoke(ask(SUM), runtime=Runtime()))


def test_c70_a_sync_run_refuses_to_skip_an_async_wrapper(ask: Any) -> None:
    """LangGraph skips it."""
    node = ToolNode([add], awrap_tool_call=shout, handle_tool_errors=True)
    with pytest.raises(PathNotSupported, match="awrap_tool_call alone"):
        node.invoke(ask(SUM), runtime=Runtime())
    assert issubclass(PathNotSupported, NotImplementedError)
    assert asyncio.run(node.ainvoke(ask(SUM), runtime=Runtime()))[0].text == "3!"
    theirs = LangGraphToolNode([add], awrap_tool_call=shout)
    assert theirs.invoke(ask(SUM), runtime=Runtime())[0].text == "3"
