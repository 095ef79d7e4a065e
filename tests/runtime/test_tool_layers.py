"""Layers around tool calls, and the interrupts and commands that pass through them."""

from __future__ import annotations

import asyncio
from threading import Lock
from typing import Any, NotRequired

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt
from pydantic import ValidationError
from stack_agents import kept_agent

from agent_factory import AgentMiddleware, Invoke, ToolCallRecorder, create_agent, wrap_tool_call
from agent_factory import middleware as m
from agent_factory.errors import BadReturn, CommandNotSupported
from agent_factory.prebuilt import ToolRuntime
from agent_factory.testing import ScriptedChatModel
from agent_factory.types import AgentState
from busy_agents import find
from samples import THREAD, PassingWraps, add, texts, through, tool_texts
from tables import each

ASK = {"messages": [("user", "2 + 3?")]}


def adding(*pairs: tuple[int, int]) -> ScriptedChatModel:
    """A model that asks for these sums at once, and then says that it is done."""
    calls = [
        {"name": "add", "args": {"a": a, "b": b}, "id": str(index)}
        for index, (a, b) in enumerate(pairs or [(2, 3)])
    ]
    return ScriptedChatModel([calls, "Done."])


class Around(AgentMiddleware):
    """A tool layer of one flow."""

    def __init__(self, flow: Any, name: str = "Around") -> None:
        super().__init__(name=name)
        self.flow = flow

    def around_tool(self, request: Any) -> Any:
        return (yield from self.flow(request))


def run_with(call: Any, *flows: Any, model: Any = None, tools: Any = (add,), **options: Any) -> Any:
    members = [Around(flow, f"T{index}") for index, flow in enumerate(flows)]
    agent = create_agent(model or adding(), list(tools), middleware=members, **options)
    return call(agent, ASK)


def test_layers_change_calls_and_results_in_the_order_of_the_stack_and_write_to_the_state(
    call: Any,
) -> None:
    class Audit(AgentState[Any]):
        audit: str

    class Auditing(AgentMiddleware[Audit]):
        state_schema = Audit

        def around_tool(self, request: Any) -> Any:
            message = yield request
            return Command(update={"audit": f"saw {message.text}", "messages": [message]})

    def said(message: Any, name: str) -> Any:
        return message.model_copy(update={"content": f"{name}({message.text})"})

    class Wrap(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return said(handler(request), "wrap")

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return said(await handler(request), "wrap")

    def returning(name: str) -> Any:
        def flow(request: Any) -> Any:
            return said((yield request), name)

        return Around(flow, name)

    def change(request: Any) -> Any:
        changed = {**request.tool_call, "args": {"a": 10, "b": 10}}
        return (yield request.override(tool_call=changed))

    members = [Auditing(), returning("a"), Wrap(), returning("b"), Around(change)]
    result = call(create_agent(adding(), [add], middleware=members), ASK)
    assert tool_texts(result) == ["a(wrap(b(20)))"]
    assert result["audit"] == "saw a(wrap(b(20)))"
    assert result["messages"][1].tool_calls[0]["args"] == {"a": 2, "b": 3}, "history is history"


@each("junk, words", [(None, ".*unanswered"), (5, ""), ("text", ""), ({"messages": []}, "")])
def test_a_layer_that_returns_or_passes_on_something_else_is_named(
    call: Any, junk: Any, words: str
) -> None:
    def careless(request: Any) -> Any:
        yield request
        return junk

    def confused(request: Any) -> Any:
        return (yield junk)

    with pytest.raises(BadReturn, match=rf"T1\.around_tool{words}"):
        run_with(call, through, careless)
    with pytest.raises(BadReturn, match=r"T0\.around_tool"):
        run_with(call, confused)


def test_what_a_layer_raises_ends_the_run_or_is_reported_if_errors_are_handled(call: Any) -> None:
    def strict(request: Any) -> Any:
        raise PermissionError("not today")
        yield

    with pytest.raises(PermissionError, match="not today"):
        run_with(call, strict)
    result = run_with(call, strict, handle_tool_errors=True)
    (answer,) = [m for m in result["messages"] if m.type == "tool"]
    assert answer.status == "error"
    assert "not today" in answer.text


async def test_layers_of_parallel_calls_run_side_by_side() -> None:
    both_inside = asyncio.Barrier(2)

    @wrap_tool_call
    async def meet(request: Any, handler: Any) -> Any:
        async with asyncio.timeout(60):
            await both_inside.wait()
        return await handler(request)

    agent = create_agent(adding((1, 1), (2, 2)), [add], middleware=[meet])
    assert tool_texts(await agent.ainvoke({"messages": [HumanMessage("Go.")]})) == ["2", "4"]


def test_a_layer_can_record_which_tools_start_inside_it(call: Any) -> None:
    """What a layer answers, and what nobody knows, has not started."""
    observed: list[list[str]] = []

    @wrap_tool_call
    def listening(request: Any) -> Any:
        with ToolCallRecorder() as outer, ToolCallRecorder() as starts:
            result = yield request
        assert outer.names == starts.names
        observed.append(starts.names)
        return result

    @wrap_tool_call
    def answering(request: Any) -> Any:
        if request.tool_call["args"]["query"] == "known":
            return ToolMessage("as before", tool_call_id=request.tool_call["id"])
        return (yield request)

    calls = [
        {"name": name, "args": {"query": query}}
        for name, query in (("find", "it"), ("find", "known"), ("made_up", "it"))
    ]
    model = ScriptedChatModel([[made] for made in calls] + ["Done."])
    call(create_agent(model, [find], middleware=[listening, answering]), {"messages": "Go"})
    assert observed == [["find"], [], []]


ASK_ME = {"messages": [("user", "Ask me.")]}


def ask() -> str:
    """Ask the user."""
    return f"The user said {interrupt('Well?')}"


def asking() -> ScriptedChatModel:
    return ScriptedChatModel([[{"name": "ask", "args": {}, "id": "1"}], "Done."])


class CatchAll(AgentMiddleware):
    """Flows of an author who wants to survive everything."""

    def around_model(self, request: Any) -> Any:
        try:
            return (yield request)
        except Exception:
            return "swallowed"

    def around_tool(self, request: Any) -> Any:
        try:
            return (yield request)
        except Exception as error:
            return ToolMessage(f"swallowed {error!r}", tool_call_id=request.tool_call["id"])


class Passing(PassingWraps, AgentMiddleware):
    """Wraps that pass everything on."""


STACKS: dict[str, list[AgentMiddleware]] = {
    "flow": [CatchAll()],
    "wrap": [Passing()],
    "both": [CatchAll(name="a"), Passing(name="b"), CatchAll(name="c"), Passing(name="d")],
}


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest) -> list[AgentMiddleware]:
    return STACKS[request.param]


def questions(result: dict[str, Any]) -> list[Any]:
    return [found.value for found in result.get("__interrupt__", ())]


def test_an_interrupt_of_the_model_passes_every_layer(
    call: Any, stack: list[AgentMiddleware]
) -> None:
    def first_ask(_: Any) -> str:
        return f"The user said {interrupt('Which model?')}"

    agent = kept_agent([first_ask, first_ask], *stack)
    assert questions(call(agent, ASK_ME, THREAD)) == ["Which model?"]
    result = call(agent, Command(resume="any"), THREAD)
    assert result["messages"][-1].text == "The user said any"


class AskingFlow(AgentMiddleware):
    def around_model(self, request: Any) -> Any:
        word = interrupt("Call the model?")
        return (yield request.override(system_prompt=word))

    def around_tool(self, request: Any) -> Any:
        word = interrupt("Run the tool?")
        message = yield request
        return message.model_copy(update={"content": f"{message.text} ({word})"})


class AskingWrap(AgentMiddleware):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request.override(system_prompt=interrupt("Call the model?")))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request.override(system_prompt=interrupt("Call the model?")))

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        word = interrupt("Run the tool?")
        message = handler(request)
        return message.model_copy(update={"content": f"{message.text} ({word})"})

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        word = interrupt("Run the tool?")
        message = await handler(request)
        return message.model_copy(update={"content": f"{message.text} ({word})"})


@each("handle_tool_errors", [True, False, (Exception,)])
def test_an_interrupt_of_a_tool_passes_and_a_wrong_answer_may_be_given_again(
    call: Any, stack: list[AgentMiddleware], handle_tool_errors: Any
) -> None:
    """wanted 1: with a clear error, and no layer takes either for a failure of the tool."""

    @tool("ask")
    def ask_for_a_number() -> str:
        """Ask the user."""
        return f"The user said {interrupt('How many?', response_schema=int)}"

    agent = kept_agent(
        asking(), *stack, tools=[ask_for_a_number], handle_tool_errors=handle_tool_errors
    )
    assert questions(call(agent, ASK_ME, THREAD)) == ["How many?"]
    with pytest.raises(ValidationError, match="valid integer"):
        call(agent, Command(resume="many"), THREAD)
    result = call(agent, Command(resume=3), THREAD)
    assert [m.text for m in result["messages"]][-2:] == ["The user said 3", "Done."]


@each("kind", [AskingFlow, AskingWrap])
@each("handle_tool_errors", [True, False])
def test_a_layer_may_interrupt_and_is_resumed(
    call: Any, stack: list[AgentMiddleware], kind: Any, handle_tool_errors: bool
) -> None:
    @tool
    def echo() -> str:
        """Echo."""
        return "echo"

    model = ScriptedChatModel([[{"name": "echo"}], "Done."])
    agent = kept_agent(model, *stack, kind(), tools=[echo], handle_tool_errors=handle_tool_errors)
    assert questions(call(agent, ASK_ME, THREAD)) == ["Call the model?"]
    assert questions(call(agent, Command(resume="one"), THREAD)) == ["Run the tool?"]
    assert questions(call(agent, Command(resume="two"), THREAD)) == ["Call the model?"]
    result = call(agent, Command(resume="three"), THREAD)
    assert [m.text for m in result["messages"]][-2:] == ["echo (two)", "Done."]
    assert [record.messages[0].text for record in model.requests] == ["one", "three"]


def test_an_interrupt_of_a_runnable_that_a_flow_invokes_passes(call: Any) -> None:
    reviewer: RunnableLambda[str, Any] = RunnableLambda(interrupt)

    class Reviewing(AgentMiddleware):
        def around_model(self, request: Any) -> Any:
            try:
                outcome = yield Invoke(reviewer, "Fine?")
            except Exception:
                outcome = "swallowed"
            return (yield request.override(system_prompt=outcome))

    model = ScriptedChatModel(["Done."])
    agent = create_agent(model, middleware=[Reviewing()], checkpointer=InMemorySaver())
    assert questions(call(agent, ASK_ME, THREAD)) == ["Fine?"]
    call(agent, Command(resume="Fine."), THREAD)
    assert model.requests[0].messages[0].text == "Fine."


def test_a_command_to_the_parent_graph_passes_every_layer(
    call: Any, stack: list[AgentMiddleware]
) -> None:
    def defer() -> Command[Any]:
        """Hand over to the other one."""
        message = ToolMessage("Handed over.", tool_call_id="1")
        update = {"messages": [message]}
        return Command(graph=Command.PARENT, goto="other", update=update)

    model = ScriptedChatModel([[{"name": "defer", "id": "1"}]])
    graph = StateGraph(MessagesState)
    graph.add_node("agent", create_agent(model, [defer], middleware=stack))
    graph.add_node("other", lambda state: {"messages": [("ai", "I am the other one.")]})
    graph.add_edge(START, "agent")
    result = call(graph.compile(), ASK_ME)
    assert texts(result) == ["Ask me.", "Handed over.", "I am the other one."]


def test_a_flow_is_closed_when_an_interrupt_passes_it(call: Any) -> None:
    """Its cleanup runs, so a lock that it holds is not held while a reviewer thinks."""
    log: list[str] = []

    class Locking(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            log.append("lock")
            try:
                return (yield request)
            finally:
                log.append("unlock")

    agent = create_agent(asking(), [ask], middleware=[Locking()], checkpointer=InMemorySaver())
    call(agent, ASK_ME, THREAD)
    assert log == ["lock", "unlock"]
    call(agent, Command(resume="yes"), THREAD)
    assert log == ["lock", "unlock"] * 2


def test_a_command_of_a_tool_carries_objects_as_they_are(call: Any) -> None:
    """A connection cannot be copied, and a large value need not be."""
    lock = Lock()

    class State(AgentState):
        handle: NotRequired[Any]

    def connect(runtime: ToolRuntime) -> Command[Any]:
        """Connect."""
        answer = ToolMessage("Connected.", tool_call_id=str(runtime.tool_call_id))
        return Command(update={"handle": {"lock": lock}, "messages": [answer]})

    asked = [{"name": "connect", "args": {}, "id": "1"}]
    agent = create_agent(ScriptedChatModel([asked, "Done."]), [connect], state_schema=State)
    assert call(agent, {"messages": [("user", "Connect.")]})["handle"]["lock"] is lock


def test_a_tool_may_return_one_command_again_and_again(call: Any) -> None:
    """Its messages are copied, as they get names and ids."""
    note = HumanMessage("Noted.")

    def remember(runtime: ToolRuntime) -> Command[Any]:
        """Remember."""
        answer = ToolMessage("Yes.", tool_call_id=str(runtime.tool_call_id))
        return Command(update={"messages": [answer, note]})

    asked: list[Any] = [[{"name": "remember", "args": {}, "id": id_}] for id_ in ("1", "2")]
    agent = create_agent(ScriptedChatModel([*asked, "Done."]), [remember])
    messages = call(agent, {"messages": [("user", "Remember.")]})["messages"]
    assert [m.text for m in messages].count("Noted.") == 2
    assert note.id is None


# Who decides asks about the tool that will run


@tool
def pay(euros: int = 0) -> str:
    """Pay money back."""
    PAID.append(euros)
    return "paid"


PAID: list[int] = []


def with_pay(request: Any) -> Any:
    """A request with another tool, whose call keeps its name."""
    is_first = request.tool_call["name"] == "add"
    return request.override(tool=pay) if is_first else request


class Other(AgentMiddleware):
    def around_tool(self, request: Any) -> Any:
        return (yield with_pay(request))


class OtherByWrap(AgentMiddleware):
    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(with_pay(request))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(with_pay(request))


DECIDERS: dict[str, Any] = {
    "deny": lambda: m.HumanInTheLoopMiddleware(
        m.ToolPolicy(m.Rule("pay", "deny"), m.Rule("*", "allow"))
    ),
    "flow guard": lambda: m.FlowGuardMiddleware(m.ToolPolicy(m.Rule("pay", "deny"))),
    "limit": lambda: m.ToolCallLimitMiddleware(tool_name="pay", run_limit=0),
    "judge": lambda: m.AutoModeMiddleware(
        tools=["pay"], classifier=ScriptedChatModel(['{"reason": "No.", "probability": 1}'] * 2)
    ),
    "guard": lambda: m.GuardMiddleware(lambda call: "no", on="call", tools=["pay"]),
}


@each("decider", DECIDERS)
@each("other", [Other, OtherByWrap])
@each("outside", [True, False])
def test_a_decision_is_about_the_tool_that_runs(
    call: Any, decider: str, other: Any, outside: bool
) -> None:
    """A review and a guard of flows also decide again about what layers further in change."""
    if outside and decider in ("judge", "guard"):
        return
    PAID.clear()
    members = [DECIDERS[decider](), other()]
    agent = create_agent(
        adding(),
        [add, pay],
        middleware=members if outside else members[::-1],
        ignore=["AF204", "AF211", "AF212"],
    )
    (result,) = [m for m in call(agent, ASK)["messages"] if m.type == "tool"]
    assert (PAID, result.status, result.name) == ([], "error", "pay")


@each("where", ["tool", "layer"])
def test_a_tool_sends_no_call_past_the_guards(call: Any, where: str) -> None:
    PAID.clear()
    sent: Any = {"name": "pay", "args": {"euros": 5}, "id": "sent", "type": "tool_call"}
    command: Any = Command(goto=[Send("tools", [sent])])

    def send(a: int, b: int) -> Any:
        """Add."""
        return command

    def layer(request: Any) -> Any:
        yield request
        return command

    sender: Any = tool("add")(send) if where == "tool" else add
    flows = [layer] if where == "layer" else []
    with pytest.raises(CommandNotSupported, match="past the hooks and layers"):
        run_with(call, *flows, tools=[sender, pay])
    assert PAID == []
