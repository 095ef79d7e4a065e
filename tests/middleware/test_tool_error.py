"""The exception of a tool is reported to the model, with a text that can be chosen."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool
from stack_agents import agent_of

from agent_factory import AgentFactoryError, AgentMiddleware, TurnError, create_agent
from agent_factory import middleware as m
from agent_factory.testing import ScriptedChatModel
from samples import tool_results
from tables import each

GO: Any = {"messages": "Go"}
FAIL = [{"name": "fail", "args": {"why": "rain"}, "id": "f"}]


def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


def agent(*own: Any, tools: Any = (fail,), **settings: Any) -> Any:
    return create_agent(ScriptedChatModel([FAIL, "Done."]), list(tools), middleware=own, **settings)


def test_by_default_the_model_reads_what_failed_and_what_it_can_do(call: Any) -> None:
    result = call(agent(m.ToolErrorMiddleware()), GO)
    ((text, status),) = tool_results(result)
    assert text.startswith("fail failed with ValueError: rain.\n")
    assert "try another way" in text
    assert "Traceback" not in text
    assert status == "error"
    assert (result["messages"][2].tool_call_id, result["messages"][2].name) == ("f", "fail")
    assert result["messages"][-1].text == "Done."

    @tool("fail")
    def slow(why: str) -> str:
        """Fail."""
        raise TimeoutError(why)

    ((text, _),) = tool_results(call(agent(m.ToolErrorMiddleware(), tools=[slow]), GO))
    assert text.startswith("fail failed with TimeoutError: rain.\nIt is not known whether the call")


def test_on_error_receives_the_exception_and_the_request() -> None:
    """In async runs it is called in a thread."""
    threads: list[Any] = []

    def words(error: Exception, request: Any) -> str:
        threads.append(threading.current_thread())
        return f"{request.tool_call['name']}({request.tool_call['args']['why']}): {error!r}"

    asked: Any = agent(m.ToolErrorMiddleware(words))
    again: Any = agent(m.ToolErrorMiddleware(words))
    for reported in (asked.invoke(GO), asyncio.run(again.ainvoke(GO))):
        assert tool_results(reported) == [("fail(rain): ValueError('rain')", "error")]
    assert threads[1] != threading.main_thread()


def test_a_message_or_blocks_of_a_handler_are_the_result_and_another_value_is_an_error(
    call: Any,
) -> None:
    def reported(value: Any, **settings: Any) -> Any:
        handler = m.ToolErrorMiddleware(lambda error, request: value, **settings)
        return call(agent(handler), GO)["messages"][2]

    made = reported(ToolMessage("from the cache", tool_call_id="whatever", artifact=[1]))
    assert (made.text, made.status, made.artifact) == ("from the cache", "success", [1])
    assert (made.tool_call_id, made.name) == ("f", "fail")
    blocks: Any = [{"type": "text", "text": "No."}]
    made = reported(blocks)
    assert (made.content, made.status) == (blocks, "error")
    with pytest.raises(TurnError, match="Mine on_error: must return a str, got int") as caught:
        reported(1, name="Mine")
    assert isinstance(caught.value.__context__, ValueError)


def test_async_runs_call_the_coroutine_and_sync_runs_the_function() -> None:
    both = m.ToolErrorMiddleware(lambda error, request: f"now: {error}", aon_error=report_later)
    assert tool_results(agent(both).invoke(GO)) == [("now: rain", "error")]
    for middleware in (both, m.ToolErrorMiddleware(aon_error=report_later)):
        result = asyncio.run(agent(middleware).ainvoke(GO))
        assert tool_results(result) == [("later: rain", "error")]


def works(why: str) -> str:
    """Work."""
    return "worked"


async def report_later(error: Exception, request: Any) -> str:
    return f"later: {error}"


@each("switch", [{}, {"handle_tool_errors": True}])
def test_a_coroutine_alone_refuses_sync_runs_before_a_tool_has_failed(switch: Any) -> None:
    runs: list[str] = []

    @tool("fail")
    def works(why: str) -> str:
        """Work."""
        runs.append(why)
        return "worked"

    only = agent(m.ToolErrorMiddleware(aon_error=report_later), tools=[works], **switch)
    with pytest.raises(TurnError, match="Pass on_error as well, or run the agent with ainvoke"):
        only.invoke(GO)
    assert not runs


def raising(error: Exception, request: Any) -> str:
    raise error


@each("handler", [raising, lambda error, request: None])
def test_a_handler_may_let_an_error_pass(call: Any, handler: Any) -> None:
    with pytest.raises(ValueError, match="rain"):
        call(agent(m.ToolErrorMiddleware(handler)), GO)


@each("switch", [True, "Reported.", ValueError])
def test_an_error_that_handle_tool_errors_handled_is_a_result(call: Any, switch: Any) -> None:
    never = m.ToolErrorMiddleware(lambda error, request: "never")
    ((text, status),) = tool_results(call(agent(never, handle_tool_errors=switch), GO))
    assert text != "never"
    assert status == "error"


@each("tools", [["fail"], ("other", "fail"), [tool(fail)]])
def test_only_errors_of_the_tools_that_are_named_are_covered(call: Any, tools: Any) -> None:
    ((_, status),) = tool_results(call(agent(m.ToolErrorMiddleware(tools=tools)), GO))
    assert status == "error"
    named = agent(m.ToolErrorMiddleware(tools=tools), tools=[tool("fail")(works)])
    assert tool_results(call(named, GO)) == [("worked", "success")]
    with pytest.raises(ValueError, match="rain"):
        call(agent(m.ToolErrorMiddleware(tools=["other"])), GO)


def test_invalid_arguments_are_handled_by_handle_tool_errors_first(call: Any) -> None:
    bad = [{"name": "fail", "args": {}, "id": "f"}]
    lets_through: Any = {"handle_tool_errors": False}
    for switch, start in (({}, "Error invoking tool"), (lets_through, "Mine: ")):
        middleware = m.ToolErrorMiddleware(lambda error, request: f"Mine: {error}")
        result = call(agent_of([bad, "Done."], middleware, tools=[fail], **switch), GO)
        ((text, status),) = tool_results(result)
        assert text.startswith(start)
        assert status == "error"


def test_errors_of_the_library_propagate(call: Any) -> None:
    """A limit that ends the run, or a layer that forgot to return, is not an error of a tool."""

    class Forgets(AgentMiddleware[Any, Any]):
        def around_tool(self, request: Any) -> Any:
            yield request

    with pytest.raises(AgentFactoryError, match="Forgets"):
        call(agent(m.ToolErrorMiddleware(), Forgets(), tools=[tool("fail")(works)]), GO)
    inner = agent_of([], m.ModelCallLimitMiddleware(run_limit=0, exit_behavior="error"))

    @tool("fail")
    def delegate(why: str) -> str:
        """Ask another agent."""
        return str(inner.invoke({"messages": why}))

    with pytest.raises(TurnError, match="AF340"):
        call(agent(m.ToolErrorMiddleware(), tools=[delegate]), GO)


def test_inside_a_retry_it_leaves_nothing_to_retry(call: Any) -> None:
    """A failed tool that would end the run goes back to the model."""
    direct: BaseTool = tool(return_direct=True)(fail)
    stack = [m.ToolRetryMiddleware(initial_delay=60), m.ToolErrorMiddleware()]
    result = call(agent(*stack, tools=[direct]), GO)
    ((text, _),) = tool_results(result)
    assert text.startswith("fail failed with ValueError")
    assert result["messages"][-1].text == "Done."


def reported(*errors: Exception, on_error: Any = None, **settings: Any) -> Any:
    """An agent whose tool raises, behind retries and, outside of them, a ToolErrorMiddleware."""
    left = list(errors)

    @tool("fail")
    def fails(why: str) -> str:
        """Fail."""
        if left:
            raise left.pop(0)
        return "worked"

    retry = m.ToolRetryMiddleware(max_retries=1, initial_delay=0, jitter=False, **settings)
    return agent(m.ToolErrorMiddleware(on_error), retry, tools=[fails])


def test_it_sees_a_failure_that_retries_inside_of_it_report(call: Any) -> None:
    observed: list[Exception] = []

    def words(error: Exception, request: Any) -> str:
        observed.append(error)
        return f"sorry: {error}"

    errors = [ConnectionError("first"), ConnectionError("last")]
    assert tool_results(call(reported(*errors, on_error=words), GO)) == [("sorry: last", "error")]
    assert observed == errors[1:]
    observed.clear()
    once = reported(errors[0], on_error=words)
    assert tool_results(call(once, GO)) == [("worked", "success")]
    assert observed == []


@each("on_error", [None, raising])
def test_without_another_text_the_report_of_the_retries_stays(call: Any, on_error: Any) -> None:
    ((text, _),) = tool_results(call(reported(KeyError(1), KeyError(2), on_error=on_error), GO))
    assert text.startswith("fail failed after 2 attempts with KeyError: 2")


def test_a_text_that_on_failure_chose_stays_and_an_error_of_on_error_is_raised(call: Any) -> None:
    settings = {"on_failure": lambda error: f"given up: {error}"}
    stack = reported(OSError(1), OSError(2), on_error=lambda *_: "answered", **settings)
    assert tool_results(call(stack, GO)) == [("given up: 2", "error")]

    def broken(error: Exception, request: Any) -> str:
        raise LookupError("no such text")

    with pytest.raises(LookupError, match="no such text"):
        call(reported(KeyError(1), KeyError(2), on_error=broken), GO)


def test_a_failure_inside_an_agent_in_a_tool_is_not_the_tools_failure(call: Any) -> None:
    inner = reported(OSError(1), OSError(2))

    @tool("fail")
    def delegate(why: str) -> str:
        """Ask another agent."""
        return str(inner.invoke(GO)["messages"][-1].text)

    outer = agent(m.ToolErrorMiddleware(lambda *_: "answered"), tools=[delegate])
    assert tool_results(call(outer, GO)) == [("Done.", "success")]
