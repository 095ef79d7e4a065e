"""The decision log: what each layer did, why each route was taken, and what is repaired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from stack_agents import agent_of

from agent_factory import AgentMiddleware, ToolRuntime, create_agent, hook_config, topology_of
from agent_factory.decisions import Decision, Jump, Outcome
from agent_factory.errors import TurnError
from agent_factory.structured_output import ProviderStrategy, ToolStrategy
from agent_factory.testing import ScriptedChatModel
from agent_factory.types import ExtendedModelResponse, ModelResponse
from samples import THREAD, Answer, Noted, add, through
from tables import each

ASK: Any = {"messages": [("user", "2 + 3?")]}
CALL: Any = [{"name": "add", "args": {"a": 2, "b": 3}, "id": "1"}]


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


@tool(return_direct=True)
def refund(order: str) -> str:
    """Pay back."""
    return f"paid for {order}"


@tool
def stop(runtime: ToolRuntime) -> Command[Any]:
    """Stop here."""
    said = ToolMessage("stopped", tool_call_id=runtime.tool_call_id)
    return Command(goto=END, update={"messages": [said]})


@tool
def over() -> Command[Any]:
    """Hand over."""
    return Command(graph=Command.PARENT, goto="other")


def calls(*names: str, **args: Any) -> list[Any]:
    return [{"name": n, "args": args, "id": f"{n}{i}"} for i, n in enumerate(names)]


def routed(call: Any, steps: Any, *tools: Any, **options: Any) -> list[str]:
    """The routes of a run, as source, target and reason."""
    return [
        f"{d.hook} -> {d.detail} [{d.reason}]"
        for d in recorded(call, steps, *tools, **options)
        if d.outcome is Outcome.ROUTED
    ]


def recorded(call: Any, steps: Any, *tools: Any, **options: Any) -> list[Decision]:
    log: list[Decision] = []
    call(create_agent(ScriptedChatModel(steps), tools, decisions=log.append, **options), ASK)
    return log


class Hooked(AgentMiddleware):
    """Jumps once to the target it was made with."""

    def __init__(self, to: str, *more: Any) -> None:
        super().__init__()
        self.to: str | None = to
        self.more = more

    def jump(self) -> Any:
        to, self.to = self.to, None
        return Jump(to, messages=list(self.more), reason="so it is") if to else None


class Before(Hooked):
    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> Any:
        return self.jump()


class After(Hooked):
    @hook_config(can_jump_to=["end", "model", "tools"])
    def after_model(self, state: Any, runtime: Any) -> Any:
        return self.jump()


class Answers(AgentMiddleware):
    """Answers a call in the tool's place."""

    def after_model(self, state: Any, runtime: Any) -> Any:
        last = state["messages"][-1]
        return {"messages": [ToolMessage("5", tool_call_id=c["id"]) for c in last.tool_calls]}


class Restless(Hooked):
    @hook_config(can_jump_to=["model"])
    def before_model(self, state: Any, runtime: Any) -> Any:
        return self.jump()


ADD = calls("add", a=1, b=2)
ANSWER = [{"name": "Answer", "args": {"number": 5}}]
ENDS, SENDS = "model -> __end__ [no calls left]", "model -> tools (1 task) [pending calls]"
RESULTS = "tools -> model [tool results]"


def test_each_route_of_a_run_has_its_reason(call: Any) -> None:
    def run(steps: Any, *tools: Any, stack: Any = (), answer: Any = None) -> list[str]:
        options: Any = {"middleware": stack, "response_format": answer, "ignore": ["AF201"]}
        return routed(call, steps, *tools, **options)

    assert run([ADD, "3"], add) == [SENDS, RESULTS, ENDS]
    jumped = "Before.before_model -> __end__ [jump to end by Before]"
    assert run([], add, stack=[Before("end")]) == [jumped]
    again = "After.after_model -> model [jump to model by After]"
    stack: list[Any] = [After("model", HumanMessage("Again."))]
    assert run(["a", "b"], add, stack=stack) == [again, f"After.after_{ENDS}"]
    to_itself = "Restless.before_model -> model [next]"
    assert run(["a"], add, stack=[Restless("model")]) == [to_itself, ENDS]
    sent = "After.after_model -> tools (1 task) [jump to tools by After]"
    assert run([ADD, "3"], add, stack=[After("tools")]) == [sent, RESULTS, f"After.after_{ENDS}"]
    answered = "Answers.after_model -> model [calls already answered]"
    assert run([ADD, "5"], add, stack=[Answers()]) == [answered, f"Answers.after_{ENDS}"]
    direct = "tools -> __end__ [return_direct: refund]"
    assert run([calls("refund", order="A-1")], refund, add) == [SENDS, direct]
    assert run([calls("stop")], stop) == [SENDS, "tools -> __end__ [stopped by a tool]"]
    by_tool, one = ToolStrategy(Answer), "model -> __end__ [structured answer]"
    assert run([ANSWER], answer=by_tool) == [one]
    assert run([ANSWER], add, answer=by_tool) == [one.replace("]", ": Answer]")]
    assert run(['{"number": 5}'], add, answer=ProviderStrategy(Answer)) == [one]


def test_a_route_to_tools_names_the_calls(call: Any) -> None:
    steps = [[*calls("add", a=1, b=2), *calls("refund", order="A")], "3"]
    log = recorded(call, steps, add, refund, middleware=[After("tools")])
    assert [d.calls for d in log if d.calls] == [("add", "refund")]
    assert all(d.to_data()["calls"] == list(d.calls) for d in log)


def test_parallel_direct_results_end_the_run_through_the_loop_entry(call: Any) -> None:
    log = recorded(call, [calls("refund", "refund", order="A-1")], refund, add)
    assert [f"{d.hook} {d.outcome} [{d.reason}]" for d in log[1:]] == [
        "tools routed [tool results]",
        "tools routed [tool results]",
        "model skipped [return_direct: refund]",
        "model routed [return_direct: refund]",
    ]


def test_a_stop_by_a_tool_is_not_attributed_to_skipped_hooks(call: Any) -> None:
    class Quiet(AgentMiddleware):
        @hook_config(can_jump_to=["end"])
        def before_model(self, state: Any, runtime: Any) -> None:
            return None

    log = recorded(call, [[*calls("stop"), *ADD]], stop, add, middleware=[Quiet()])
    assert [str(d) for d in log[-2:]] == [
        "Quiet.before_model skipped [stopped by a tool]",
        "Quiet.before_model routed: __end__ [stopped by a tool]",
    ]


def test_a_handover_to_the_parent_graph_is_recorded(call: Any) -> None:
    log: list[Decision] = []
    agent = create_agent(ScriptedChatModel([calls("over")]), [over], decisions=log.append)
    parent: Any = StateGraph(MessagesState)
    parent.add_node("agent", agent)
    parent.add_node("other", lambda state: {"messages": [("ai", "Mine.")]})
    parent.add_edge(START, "agent")
    call(parent.compile(), ASK)
    assert [str(decision) for decision in log[-2:]] == [
        "tools routed: model [handed over to the parent graph]",
        "model skipped [handed over to the parent graph]",
    ]


@each("tools", [(), (add,)])
@each("bad", ["five", [{"name": "Answer", "args": {"number": "five"}}]])
def test_an_invalid_answer_is_explained_and_requested_again(
    call: Any, tools: Any, bad: Any
) -> None:
    log = recorded(call, [bad, bad, ANSWER], *tools, response_format=ToolStrategy(Answer))
    assert [str(decision) for decision in log[:4]] == [
        "model explained: 1 time",
        "model routed: model [asked again]",
        "model explained: 2 times",
        "model routed: model [asked again]",
    ]
    assert log[-1].reason.startswith("structured answer")


def test_a_route_that_cannot_be_taken_is_recorded(call: Any) -> None:
    log: list[Decision] = []
    agent = agent_of(["a"], After("tools"), tools=[add], decisions=log.append)
    with pytest.raises(TurnError):
        call(agent, ASK)
    assert str(log[-1]) == "After.after_model raised: JumpWithoutCalls"


def test_a_repaired_history_is_recorded_once_with_its_changes(call: Any) -> None:
    def repaired(messages: Any, *steps: Any) -> list[str]:
        log: list[Decision] = []
        agent = create_agent(ScriptedChatModel([*steps]), [add], decisions=log.append)
        call(agent, {"messages": messages})
        return [str(decision) for decision in log if decision.outcome is Outcome.REPAIRED]

    question, unknown = HumanMessage("Well?"), ToolMessage("?", tool_call_id="unknown")
    twice = AIMessage("", tool_calls=calls("add", "add", a=1, b=2))
    changes = ["model repaired: 2 added, 1 removed"]
    assert repaired([twice, unknown, question], ADD, "3") == changes
    once, late = AIMessage("", tool_calls=ADD), ToolMessage("3", tool_call_id="add0")
    assert repaired([once, question, late], "3") == ["model repaired: reordered"]


def test_a_history_that_a_layer_broke_is_recorded_too(call: Any) -> None:
    class Forgets(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            kept = request.messages[-1:]
            return (yield request.override(messages=kept, system_prompt="Forget."))

    log = recorded(call, [calls("add", a=1, b=2), "3"], add, middleware=[Forgets()])
    assert [d.detail for d in log if d.outcome is Outcome.REPAIRED] == ["1 removed"]


@given(
    turns=st.lists(st.lists(st.sampled_from(["add", "refund", "stop"]), max_size=3), max_size=4),
    hooked=st.booleans(),
)
def test_every_recorded_route_is_in_the_plan_and_has_a_reason(
    turns: list[list[str]], hooked: bool
) -> None:
    args = {"add": {"a": 1, "b": 2}, "refund": {"order": "A"}, "stop": {}}
    steps: list[Any] = [
        [{"name": name, "args": args[name]} for name in names] or "Done." for names in turns
    ]
    log: list[Decision] = []
    options: Any = {"middleware": [After("")] if hooked else [], "decisions": log.append}
    agent = create_agent(ScriptedChatModel([*steps, "Done."]), [add, refund, stop], **options)
    agent.invoke(ASK)
    transitions = {(way.source, way.target): way.reasons for way in topology_of(agent).transitions}
    for decision in log:
        if decision.outcome is Outcome.ROUTED:
            assert (decision.hook, decision.detail.split(" ")[0]) in transitions
            assert decision.reason
