"""The decision log: what each layer did, read off what it passed on and what it returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agent_factory import (
    AgentMiddleware,
    Decision,
    ExtendedModelResponse,
    ModelResponse,
    Outcome,
    create_agent,
)
from agent_factory.testing import ScriptedChatModel
from samples import Noted, add, through
from tables import each

ASK: Any = {"messages": [("user", "2 + 3?")]}
CALL: Any = [{"name": "add", "args": {"a": 2, "b": 3}, "id": "1"}]
THREAD: Any = {"configurable": {"thread_id": "one"}}


class Broken(Exception):
    """What a test raises."""


def around(call: str, flow: Callable[[Any], Any], name: str = "Layer") -> AgentMiddleware:
    """A middleware with a flow around calls of the model or of tools."""

    def method(self: Any, request: Any) -> Any:
        return (yield from flow(request))

    members = {f"around_{call}": method, "state_schema": Noted}
    made: AgentMiddleware = type(name, (AgentMiddleware,), members)()
    return made


def decided(call: Any, *middleware: AgentMiddleware, steps: Any = None) -> list[Decision]:
    """What is recorded of the layers of a run; how it ends is of no interest."""
    log: list[Decision] = []
    model = ScriptedChatModel(steps or [CALL, "Five."])
    agent = create_agent(model, [add], middleware=middleware, decisions=log.append)
    try:
        call(agent, ASK)
    except Exception:
        assert any(decision.outcome is Outcome.RAISED for decision in log)
    return [decision for decision in log if decision.middleware]


# Around the model


def sends(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A flow that sends what a function makes of the request."""

    def flow(request: Any) -> Any:
        return (yield change(request))

    return flow


def returns(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A flow that returns what a function makes of the response."""

    def flow(request: Any) -> Any:
        return change((yield request))

    return flow


def sets_a_field(request: Any) -> Any:
    with pytest.warns(DeprecationWarning, match="tool_choice"):
        request.tool_choice = "auto"
    return (yield request)


def answers(request: Any) -> Any:
    return AIMessage("No.")
    yield


def adds_to_the_list(request: Any) -> Any:
    response = yield request
    response.result.append(HumanMessage("One more."))
    return response


def changes_both(request: Any) -> Any:
    yield request.override(system_prompt="Be brief.")
    return AIMessage("Something else.")


def asks_twice(request: Any) -> Any:
    yield request
    return (yield request)


def recovers(request: Any) -> Any:
    try:
        return (yield request)
    except Broken:
        return AIMessage("Sorry.")


def retries(request: Any) -> Any:
    try:
        return (yield request)
    except Broken:
        return (yield request.override(model=request.model))


def falls_back(request: Any) -> Any:
    try:
        return (yield request)
    except Broken:
        return (yield request.override(model=ScriptedChatModel(["Other."])))


def gives_up(request: Any) -> Any:
    for _ in range(2):
        try:
            return (yield request)
        except Broken:
            continue
    return AIMessage("Sorry.")


def raises(request: Any) -> Any:
    raise Broken
    yield


def raises_another(request: Any) -> Any:
    try:
        yield request
    except Broken:
        raise OSError from None


ELSE = ModelResponse(result=[AIMessage("Else.")])
NOTE: Any = {"note": "x"}
writes = returns(lambda response: ExtendedModelResponse(response, Command(update=NOTE)))
writes_and_changes = returns(lambda _: ExtendedModelResponse(ELSE, Command(update=[*NOTE.items()])))
returns_junk = returns(lambda _: "junk")


@each(
    "flow, steps, outcome, detail",
    [
        (through, ["a"], Outcome.PASSED, ""),
        (
            sends(lambda r: r.override(system_prompt="Be brief.", model_settings={"top_k": 1})),
            ["a"],
            Outcome.CHANGED_REQUEST,
            "system_message, model_settings",
        ),
        (
            sends(lambda r: r.override(messages=[*r.messages], tools=[*r.tools])),
            ["a"],
            Outcome.PASSED,
            "",
        ),
        (sets_a_field, ["a"], Outcome.CHANGED_REQUEST, "tool_choice"),
        (answers, ["a"], Outcome.ANSWERED, ""),
        (returns(lambda _: AIMessage("Else.")), ["a"], Outcome.CHANGED_RESPONSE, ""),
        (adds_to_the_list, ["a"], Outcome.CHANGED_RESPONSE, ""),
        (returns(lambda r: ModelResponse(result=[*r.result])), ["a"], Outcome.PASSED, ""),
        (returns(lambda r: r.result[0]), ["a"], Outcome.PASSED, ""),
        (changes_both, ["a"], Outcome.CHANGED_REQUEST, "system_message, response"),
        (writes, ["a"], Outcome.WROTE, ""),
        (writes_and_changes, ["a"], Outcome.CHANGED_RESPONSE, ""),
        (returns(ExtendedModelResponse), ["a"], Outcome.PASSED, ""),
        (asks_twice, ["a", "b"], Outcome.REPEATED, "2 times"),
        (recovers, [Broken()], Outcome.RECOVERED, "Broken"),
        (retries, [Broken(), "b"], Outcome.REPEATED, "2 times, after Broken"),
        (falls_back, [Broken()], Outcome.REPEATED, "2 times, model, after Broken"),
        (gives_up, [Broken(), Broken()], Outcome.RECOVERED, "Broken"),
        (raises, ["a"], Outcome.RAISED, "Broken"),
        (raises_another, [Broken()], Outcome.RAISED, "OSError"),
        (returns_junk, ["a"], Outcome.RAISED, "BadReturn"),
    ],
)
def test_the_outcome_of_a_model_layer_is_what_it_did(
    call: Any, flow: Any, steps: Any, outcome: Outcome, detail: str
) -> None:
    (decision,) = decided(call, around("model", flow), steps=steps)
    assert (decision.hook, decision.outcome) == ("around_model", outcome)
    assert decision.detail == detail
    assert decision.changed == (("note",) if flow in (writes, writes_and_changes) else ())


class Wraps(AgentMiddleware):
    """Retries once, in the two slots of the old contract."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except Broken:
            return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        try:
            return await handler(request)
        except Broken:
            return await handler(request)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return ToolMessage("Five!", tool_call_id=request.tool_call["id"])

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return ToolMessage("Five!", tool_call_id=request.tool_call["id"])


def test_wraps_are_recorded_sync_and_async(call: Any) -> None:
    found = [str(d) for d in decided(call, Wraps(), steps=[Broken(), CALL, "Five."])]
    a = "" if "Wraps.wrap_model_call" in found[0] else "a"
    assert found == [
        f"Wraps.{a}wrap_model_call repeated: 2 times, after Broken",
        f"Wraps.{a}wrap_tool_call (add) answered",
        f"Wraps.{a}wrap_model_call passed",
    ]


# Around tools

OTHER: Any = {**CALL[0], "args": {"a": 0, "b": 0}, "type": "tool_call"}


def answers_itself(request: Any) -> Any:
    return ToolMessage("Five!", tool_call_id=request.tool_call["id"])
    yield


def recovers_tool(request: Any) -> Any:
    try:
        return (yield request)
    except Broken:
        return ToolMessage("Sorry.", tool_call_id=request.tool_call["id"], status="error")


@each(
    "flow, outcome, detail",
    [
        (through, Outcome.PASSED, ""),
        (sends(lambda r: r.override(tool_call=OTHER)), Outcome.CHANGED_REQUEST, "tool_call"),
        (answers_itself, Outcome.ANSWERED, ""),
        (
            returns(lambda m: Command(goto="__end__", update={"messages": [m]})),
            Outcome.CHANGED_RESPONSE,
            "",
        ),
        (asks_twice, Outcome.REPEATED, "2 times"),
        (raises, Outcome.RAISED, "Broken"),
        (returns_junk, Outcome.RAISED, "BadReturn"),
    ],
)
def test_the_outcome_of_a_tool_layer_is_what_it_did(
    call: Any, flow: Any, outcome: Outcome, detail: str
) -> None:
    (decision,) = decided(call, around("tool", flow))
    assert (decision.hook, decision.tool, decision.call_id) == ("around_tool", "add", "1")
    assert (decision.outcome, decision.detail) == (outcome, detail)


def test_a_layer_that_interrupts_is_recorded_and_continues_with_the_answer(call: Any) -> None:
    def asks(request: Any) -> Any:
        interrupt("Really?")
        return (yield request)

    log: list[Decision] = []
    stack = [around("tool", through, "Outer"), around("tool", asks, "Inner")]
    options: Any = {"checkpointer": InMemorySaver(), "decisions": log.append}
    agent = create_agent(ScriptedChatModel([CALL, "Five."]), [add], middleware=stack, **options)
    call(agent, ASK, THREAD)
    call(agent, Command(resume="yes"), THREAD)
    assert [(d.middleware, str(d.outcome), d.reason) for d in log if d.tool] == [
        ("Inner", "interrupted", ""),
        ("Outer", "interrupted", "from within"),
        ("Inner", "passed", ""),
        ("Outer", "passed", ""),
    ]


# What the engine does with tools


def failing(error: Exception) -> Callable[[int], str]:
    def fail(a: int) -> str:
        """Fail."""
        raise error

    return fail


def decisions_of(call: Any, tool: Any, calls: Any, **options: Any) -> list[Decision]:
    log: list[Decision] = []
    model = ScriptedChatModel([calls, "Done."])
    agent = create_agent(model, [tool], decisions=log.append, **options)
    try:
        call(agent, ASK)
    except Broken:
        assert log[-1].outcome is Outcome.RAISED
    return [decision for decision in log if decision.tool]


FAIL: Any = [{"name": "fail", "args": {"a": 1}, "id": "1"}]


RAISED, REPORTED = "tools (fail) raised: Broken", "tools (fail) reported error: Broken"


@each(
    "handler, flow, records",
    [
        *(
            (h, None, [REPORTED])
            for h in (True, "Sorry.", Broken, (Broken, OSError), lambda e: "!")
        ),
        (None, None, [RAISED]),
        (False, None, [RAISED]),
        (True, raises, ["Layer.around_tool (fail) raised: Broken", REPORTED]),
        (None, recovers_tool, [RAISED, "Layer.around_tool (fail) recovered: Broken"]),
    ],
)
def test_the_end_of_a_raising_tool_is_recorded(
    call: Any, handler: Any, flow: Any, records: list[str]
) -> None:
    options = {} if handler is None else {"handle_tool_errors": handler}
    stack = [around("tool", flow)] if flow else []
    log = decisions_of(call, failing(Broken("no")), FAIL, middleware=stack, **options)
    assert [str(decision) for decision in log] == records
    assert {(decision.call_id, decision.error) for decision in log} == {("1", "Broken")}


@each(
    "calls, detail",
    [
        ([{"name": "nope", "args": {}}], "unknown tool"),
        ([{"name": "fail", "args": {"a": "x"}}], ""),
        (
            lambda messages: AIMessage(
                "",
                invalid_tool_calls=[{"name": "fail", "args": "{", "id": "1", "error": "no JSON"}],
            ),
            "invalid arguments",
        ),
    ],
)
def test_a_call_that_cannot_run_is_reported_to_the_model(
    call: Any, calls: Any, detail: str
) -> None:
    (decision,) = decisions_of(call, failing(Broken("no")), calls)
    assert (decision.outcome, decision.detail) == (Outcome.ERROR_REPORTED, detail)


def test_an_error_handler_behaves_the_same_with_and_without_a_log(call: Any) -> None:
    def handler(error: Broken) -> str:
        return f"reported: {error}"

    def ran(error: Exception, decisions: Any) -> Any:
        model = ScriptedChatModel([FAIL, "Done."])
        options: Any = {"handle_tool_errors": handler, "decisions": decisions}
        agent = create_agent(model, [failing(error)], **options)
        try:
            return [message.text for message in call(agent, ASK)["messages"]]
        except OSError as raised:
            return repr(raised)

    for error in (Broken("no"), OSError("no")):
        assert ran(error, None) == ran(error, print)
