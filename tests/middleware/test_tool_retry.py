"""A tool that raises is run again; the last failure is reported to the model or raised."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from typing import Annotated, Any

import httpx
import pytest
import requests
from langchain_core.exceptions import (
    ModelAuthenticationError,
    ModelRateLimitError,
    ModelTimeoutError,
)
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.prebuilt.tool_node import ToolInvocationError
from langgraph.types import Command, interrupt
from stack_agents import agent_of, kept_agent

from agent_factory import AgentMiddleware, create_agent
from agent_factory import middleware as m
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, tool_results
from tables import each
from waiting import run_virtually

GO: Any = {"messages": "Go"}
FETCH = [{"name": "fetch", "args": {"page": 1}, "id": "f"}]


def retry(**settings: Any) -> m.ToolRetryMiddleware:
    return m.ToolRetryMiddleware(**{"initial_delay": 0.0001, **settings})


class Flaky:
    """A source of tools that raise given exceptions, one after the other, then work."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.runs = 0

    def tool(self, **settings: Any) -> BaseTool:
        def fetch(page: int) -> str:
            """Fetch a page."""
            self.runs += 1
            if self.errors:
                raise self.errors.pop(0)
            return f"page {page}"

        return StructuredTool.from_function(fetch, **settings)


def down(times: int) -> Flaky:
    return Flaky(*(ConnectionError(f"down {n}") for n in range(1, times + 1)))


def agent(flaky: Flaky, *stack: Any, **settings: Any) -> Any:
    tools = [flaky.tool()]
    return create_agent(ScriptedChatModel([FETCH, "Done."]), tools, middleware=stack, **settings)


def only_keys(error: KeyError) -> str:
    return "a key"


LETS_THROUGH = [
    {},
    {"handle_tool_errors": False},
    {"handle_tool_errors": KeyError},
    {"handle_tool_errors": (KeyError, TypeError)},
    {"handle_tool_errors": only_keys},
]


@each("switch", LETS_THROUGH)
def test_a_raising_tool_is_run_again_until_it_works(call: Any, switch: Any) -> None:
    """After the last attempt the failure is reported to the model, or raised."""
    flaky = down(2)
    assert tool_results(call(agent(flaky, retry(), **switch), GO)) == [("page 1", "success")]
    assert flaky.runs == 3
    flaky = down(9)
    result = call(agent(flaky, retry(), **switch), GO)
    ((text, status),) = tool_results(result)
    assert text.startswith("fetch failed after 3 attempts with ConnectionError: down 3.\n")
    assert status == "error"
    assert result["messages"][2].name == "fetch"
    assert result["messages"][-1].text == "Done."
    assert flaky.runs == 3
    with pytest.raises(ConnectionError, match="down 3") as caught:
        call(agent(down(9), retry(on_failure="error"), **switch), GO)
    assert "ToolRetryMiddleware: fetch failed after 3 attempts." in caught.value.__notes__


@each("switch", [True, "Reported.", ConnectionError, lambda error: f"reported {error}"])
def test_an_error_that_handle_tool_errors_handled_is_a_result(call: Any, switch: Any) -> None:
    flaky = down(1)
    ((_, status),) = tool_results(call(agent(flaky, retry(), handle_tool_errors=switch), GO))
    assert (flaky.runs, status) == (1, "error")


def test_a_custom_text_is_the_result_and_a_failed_return_direct_goes_back_to_the_model(
    call: Any,
) -> None:
    words = retry(max_retries=1, on_failure=lambda error: f"no luck: {error}")
    model = ScriptedChatModel([FETCH, "Sorry."])
    direct = down(9).tool(return_direct=True)
    result = call(create_agent(model, [direct], middleware=[words]), GO)
    assert tool_results(result) == [("no luck: down 2", "error")]
    assert result["messages"][-1].text == "Sorry."


@each(
    "settings, foreign",
    [
        ({"retry_on": ConnectionError}, KeyError("no")),
        ({"retry_on": (ConnectionError, TimeoutError)}, OSError("no")),
        ({"retry_on": lambda error: "down" in str(error)}, ConnectionError("no")),
        ({}, ModelAuthenticationError("no retry helps")),
        ({"on_failure": "error"}, ModelAuthenticationError("no retry helps")),
        ({"on_failure": lambda error: "Sorry."}, ModelAuthenticationError("no retry helps")),
    ],
)
def test_an_exception_that_does_not_match_is_raised_at_once_and_unchanged(
    call: Any, settings: Any, foreign: Exception
) -> None:
    flaky = Flaky(ConnectionError("down"), foreign)
    with pytest.raises(type(foreign)) as caught:
        call(agent(flaky, retry(**settings)), GO)
    assert caught.value is foreign
    assert not any("attempt" in note for note in getattr(foreign, "__notes__", ()))
    assert flaky.runs == 2


@each("tools", [["fetch"], [Flaky().tool()], ("other", "fetch")])
def test_only_the_tools_that_are_named_are_retried(call: Any, tools: Any) -> None:
    assert tool_results(call(agent(down(1), retry(tools=tools)), GO)) == [("page 1", "success")]
    flaky = down(1)
    with pytest.raises(ConnectionError, match="down 1"):
        call(agent(flaky, retry(tools=["other"])), GO)
    assert flaky.runs == 1


BAD = [{"name": "fetch", "args": {"page": "one"}, "id": "f"}]


@each(
    "retry_on, attempts",
    [(Exception, 1), ((ToolException,), 1), (ToolInvocationError, 3), (lambda error: True, 3)],
)
def test_arguments_that_do_not_fit_are_tried_again_only_if_retry_on_says_so(
    call: Any, retry_on: Any, attempts: int
) -> None:
    """They would not fit the next time either."""
    seen: list[Any] = []
    stack = [retry(retry_on=retry_on), Counting(seen)]
    agent = agent_of([BAD, "Done."], *stack, tools=[Flaky().tool()], handle_tool_errors=False)
    if attempts == 1:
        with pytest.raises(ToolInvocationError):
            call(agent, GO)
    else:
        ((text, _),) = tool_results(call(agent, GO))
        assert "after 3 attempts" in text
    assert seen == ["fetch"] * attempts


def test_invalid_arguments_and_unknown_tools_are_reported_as_usual(call: Any) -> None:
    agent = agent_of([BAD, [{"name": "fetsch"}], "Done."], retry(), tools=[Flaky().tool()])
    (invalid, _), unknown = tool_results(call(agent, GO))
    assert invalid.startswith("Error invoking tool 'fetch' with kwargs {'page': 'one'}")
    assert unknown == ("Error: fetsch is not a valid tool, try one of [fetch].", "error")


class Counting(AgentMiddleware[Any, Any]):
    """Notes each attempt that comes as far as this."""

    def __init__(self, seen: list[Any]) -> None:
        super().__init__()
        self.seen = seen

    def around_tool(self, request: Any) -> Any:
        self.seen.append(request.tool_call["name"])
        return (yield request)


def ask(question: str) -> str:
    """Ask a person."""
    return f"they said {interrupt(question)}"


ASK = [{"name": "ask", "args": {"question": "Why?"}, "id": "a"}]


ALL: Any = {"retry_on": lambda error: True}


@each("member", [retry(**ALL), retry(**ALL, timeout=60), m.ToolErrorMiddleware()])
def test_an_interrupt_inside_a_tool_propagates_and_is_answered(call: Any, member: Any) -> None:
    agent = kept_agent([ASK, "Done."], member, tools=[ask])
    assert [i.value for i in call(agent, GO, THREAD)["__interrupt__"]] == ["Why?"]
    result = call(agent, Command(resume="no reason"), THREAD)
    assert tool_results(result) == [("they said no reason", "success")]


@each("mode", ["batched", "per_call"])
@each("order, fails", [(1, 0), (-1, 0), (1, 2)])
def test_a_review_stands_on_either_side(call: Any, mode: Any, order: int, fails: int) -> None:
    """Outside of the retries, people decide once for all attempts."""
    review = m.HumanInTheLoopMiddleware({"fetch": True}, interrupt_mode=mode)
    flaky = down(fails)
    paused = agent(flaky, *[review, retry()][::order], checkpointer=InMemorySaver())
    (question,) = call(paused, GO, THREAD)["__interrupt__"]
    assert flaky.runs == 0
    approve: Any = {"type": "approve"}
    resume = {"decisions": [approve]} if mode == "batched" else {question.id: approve}
    assert tool_results(call(paused, Command(resume=resume), THREAD)) == [("page 1", "success")]
    assert flaky.runs == 1 + fails


@each("member", [retry(**ALL), m.ToolErrorMiddleware()])
@each("signal", [KeyboardInterrupt, SystemExit])
def test_a_signal_to_stop_propagates_at_once(signal: Any, member: Any) -> None:
    flaky = Flaky(signal())
    with pytest.raises(signal):
        agent(flaky, member).invoke(GO)
    assert flaky.runs == 1


def test_parallel_calls_are_retried_each_on_its_own(call: Any) -> None:
    lock = threading.Lock()
    left = {1: 0, 2: 2, 3: 9}

    def fetch(page: int) -> str:
        """Fetch a page."""
        with lock:
            left[page] -= 1
            failed = left[page] >= 0
        if failed:
            raise ConnectionError(f"page {page}")
        return f"page {page}"

    calls = [{"name": "fetch", "args": {"page": page}} for page in left]
    agent = create_agent(ScriptedChatModel([calls, "Done."]), [fetch], middleware=[retry()])
    statuses = [status for _, status in tool_results(call(agent, GO))]
    assert statuses == ["success", "success", "error"]
    assert left == {1: -1, 2: -1, 3: 6}


def test_an_inner_agents_limit_is_not_spent_again(call: Any) -> None:
    """An error that the library names would come again."""
    inner = agent_of([], m.ModelCallLimitMiddleware(run_limit=0, exit_behavior="error"))
    runs: list[str] = []

    def delegate() -> str:
        """Ask another agent."""
        runs.append("ran")
        return str(inner.invoke({"messages": "Go"}))

    model = ScriptedChatModel([[{"name": "delegate"}]])
    with pytest.raises(RuntimeError, match="AF340"):
        call(create_agent(model, [delegate], middleware=[retry()]), GO)
    assert runs == ["ran"]


def test_several_instances_serve_several_tools(call: Any) -> None:
    patient = retry(tools=["fetch"], max_retries=5, name="patient")
    quick = retry(tools=["other"], max_retries=0, name="quick")
    assert tool_results(call(agent(down(4), patient, quick), GO)) == [("page 1", "success")]


UNKNOWN = "It is not known whether the call ran."


class ConnectionTimeout(Exception):
    """As search engines call a request that took too long."""


class ConnectionTimeoutError(TimeoutError):
    """As aiohttp calls a connection that took too long."""


class SlowServerError(httpx.ReadTimeout):
    """A tool's own kind of timeout."""


@each(
    "error, reached",
    [
        (TimeoutError("slow"), True),
        (httpx.ReadTimeout("slow"), True),
        (httpx.WriteTimeout("slow"), True),
        (requests.exceptions.ReadTimeout("slow"), True),
        (subprocess.TimeoutExpired("curl", 1), True),
        (SlowServerError("slow"), True),
        (ConnectionTimeout("slow"), True),
        (ModelTimeoutError("slow"), True),
        (ModelRateLimitError("no"), False),
        (ConnectionRefusedError("no"), False),
        (httpx.ConnectTimeout("no"), False),
        (httpx.PoolTimeout("no"), False),
        (requests.exceptions.ConnectTimeout("no"), False),
        (ConnectionTimeoutError("no"), False),
    ],
)
def test_a_call_is_repeated_if_it_did_not_reach_the_server_else_its_outcome_is_unknown(
    call: Any, error: Exception, reached: bool
) -> None:
    flaky = Flaky(error)
    ((text, status),) = tool_results(call(agent(flaky, retry()), GO))
    if not reached:
        assert (text, status, flaky.runs) == ("page 1", "success", 2)
        return
    assert text.startswith(f"fetch failed after 1 attempt with {type(error).__name__}")
    assert UNKNOWN in text
    assert (flaky.runs, status) == (1, "error")


@each(
    "settings",
    [
        {"retry_on": (ConnectionError, TimeoutError)},
        {"retry_on": lambda error: isinstance(error, TimeoutError)},
        {"idempotent_tools": ["fetch"]},
        {"idempotent_tools": [Flaky().tool()]},
    ],
)
def test_a_timeout_is_retried_if_it_is_named_or_the_tool_may_run_twice(
    call: Any, settings: Any
) -> None:
    flaky = Flaky(TimeoutError("slow"), TimeoutError("slow"))
    assert tool_results(call(agent(flaky, retry(**settings)), GO)) == [("page 1", "success")]
    assert flaky.runs == 3


def test_a_broad_type_does_not_name_a_timeout(call: Any) -> None:
    for kind in (OSError, (Exception, ConnectionError)):
        flaky = Flaky(TimeoutError("slow"))
        ((text, _),) = tool_results(call(agent(flaky, retry(retry_on=kind)), GO))
        assert UNKNOWN in text
        assert flaky.runs == 1
    with pytest.raises(TimeoutError, match="slow"):
        call(agent(Flaky(TimeoutError("slow")), retry(retry_on=ConnectionError)), GO)


def test_one_attempt_that_may_have_run_makes_the_outcome_unknown(call: Any) -> None:
    settings = {"retry_on": (ConnectionError, TimeoutError), "max_retries": 1}
    flaky = Flaky(TimeoutError("slow"), ConnectionError("down"))
    ((text, _),) = tool_results(call(agent(flaky, retry(**settings)), GO))
    assert "after 2 attempts with ConnectionError: down" in text
    assert UNKNOWN in text
    settings = {"idempotent_tools": ["fetch"], "max_retries": 0}
    ((text, _),) = tool_results(call(agent(Flaky(TimeoutError()), retry(**settings)), GO))
    assert UNKNOWN not in text


def test_an_unknown_outcome_is_noted_on_an_exception_that_is_raised(call: Any) -> None:
    with pytest.raises(TimeoutError) as caught:
        call(agent(Flaky(TimeoutError("slow")), retry(on_failure="error")), GO)
    (note,) = (note for note in caught.value.__notes__ if "attempt" in note)
    assert note == f"ToolRetryMiddleware: fetch failed after 1 attempt. {UNKNOWN}"


BOTH = each("waits", [False, True])
"""Sync and async: how long a tool may take is not decided by a flow, which is alike in both."""


def ran(agent: Any, waits: bool) -> Any:
    """The result of a run, sync or async."""
    return asyncio.run(agent.ainvoke(GO)) if waits else agent.invoke(GO)


SOON = 0.001  # waits: a limit that has to pass, of work that waits for ever


@BOTH
def test_a_tool_that_takes_too_long_is_abandoned_and_its_outcome_is_unknown(waits: bool) -> None:
    ended = threading.Event()

    @tool("fetch")
    def wait(page: int) -> None:
        """Wait."""
        ended.wait()

    def answer(messages: Any) -> str:
        ended.set()
        return "Done."

    model = ScriptedChatModel([FETCH, answer])
    stack = [retry(timeout=SOON)]
    ((text, _),) = tool_results(ran(create_agent(model, [wait], middleware=stack), waits))
    assert text.startswith("fetch failed after 1 attempt with TimeoutError: no result after 0.001 ")
    assert UNKNOWN in text


@each("settings", [{}, {"retry_on": TimeoutError}])
def test_an_async_tool_that_takes_too_long_is_cancelled_in_each_attempt(settings: Any) -> None:
    cancelled: list[int] = []

    @tool("fetch")
    async def wait(page: int) -> None:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(page)

    agent = agent_of([FETCH, "Done."], retry(timeout=60, **settings), tools=[wait])
    ((text, _),) = tool_results(run_virtually(agent.ainvoke(GO)))
    assert "TimeoutError: no result after 60 seconds" in text
    assert len(cancelled) == (3 if settings else 1)


@BOTH
def test_a_tool_with_a_timeout_may_raise_and_gets_what_is_injected(waits: bool) -> None:
    raised: list[str] = []

    @tool
    def peek(runtime: ToolRuntime, state: Annotated[Any, InjectedState]) -> str:
        """Peek."""
        if not raised:
            raised.append("once")
            raise ConnectionError("down")
        return f"{runtime.tool_call_id} {len(state['messages'])}"

    agent = agent_of([[{"name": "peek", "id": "p"}], "Done."], retry(timeout=60), tools=[peek])
    assert tool_results(ran(agent, waits)) == [("p 2", "success")]


def test_a_timeout_is_for_the_tools_that_are_named() -> None:
    """Any other tool runs in the thread of its caller."""
    threads: list[str] = []

    @tool("fetch")
    def note(page: int) -> None:
        """Note."""
        threads.append(threading.current_thread().name)

    for named in (["other"], ["fetch"]):
        agent_of([FETCH, "Done."], retry(timeout=60, tools=named), tools=[note]).invoke(GO)
    assert ["with a timeout" in name for name in threads] == [False, True]
