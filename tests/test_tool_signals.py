"""Interrupts and commands to a parent pass through every layer and flow (wanted 1)."""

from __future__ import annotations

from threading import Lock
from typing import Any, NotRequired

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from pydantic import ValidationError

from agent_factory import AgentMiddleware, AgentState, Invoke, ToolRuntime, create_agent
from agent_factory.testing import ScriptedChatModel
from samples import PassingWraps, texts
from tables import each

ASK = {"messages": [("user", "Ask me.")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}


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


@each("handle_tool_errors", [True, False, Exception])
def test_an_interrupt_of_a_tool_passes_and_is_resumed(
    call: Any, stack: list[AgentMiddleware], handle_tool_errors: Any
) -> None:
    agent = create_agent(
        asking(),
        [ask],
        middleware=stack,
        checkpointer=InMemorySaver(),
        handle_tool_errors=(Exception,) if handle_tool_errors is Exception else handle_tool_errors,
    )
    assert questions(call(agent, ASK, THREAD)) == ["Well?"]
    result = call(agent, Command(resume="yes"), THREAD)
    assert [m.text for m in result["messages"]][-2:] == ["The user said yes", "Done."]


def test_several_interrupts_of_one_turn_are_answered_by_id(
    call: Any, stack: list[AgentMiddleware]
) -> None:
    model = ScriptedChatModel([[{"name": "ask", "id": "1"}, {"name": "ask", "id": "2"}], "Done."])
    agent = create_agent(model, [ask], middleware=stack, checkpointer=InMemorySaver())
    paused = call(agent, ASK, THREAD)
    assert questions(paused) == ["Well?", "Well?"]
    ids = [found.id for found in paused["__interrupt__"]]
    result = call(agent, Command(resume={ids[0]: "A", ids[1]: "B"}), THREAD)
    answers = {m.text for m in result["messages"] if m.type == "tool"}
    assert answers == {"The user said A", "The user said B"}


def test_an_interrupt_of_the_model_passes_every_layer(
    call: Any, stack: list[AgentMiddleware]
) -> None:
    def first_ask(_: Any) -> str:
        return f"The user said {interrupt('Which model?')}"

    model = ScriptedChatModel([first_ask, first_ask])
    agent = create_agent(model, middleware=stack, checkpointer=InMemorySaver())
    assert questions(call(agent, ASK, THREAD)) == ["Which model?"]
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


@pytest.mark.parametrize("handle_tool_errors", [True, False])
def test_a_wrong_answer_to_an_interrupt_is_refused_and_may_be_given_again(
    call: Any, stack: list[AgentMiddleware], handle_tool_errors: bool
) -> None:
    """wanted 1: with a clear error, and no layer takes it for a failure of the tool."""

    @tool("ask")
    def ask_for_a_number() -> str:
        """Ask the user."""
        return f"The user said {interrupt('How many?', response_schema=int)}"

    agent = create_agent(
        asking(),
        [ask_for_a_number],
        middleware=stack,
        checkpointer=InMemorySaver(),
        handle_tool_errors=handle_tool_errors,
    )
    assert questions(call(agent, ASK, THREAD)) == ["How many?"]
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
    agent = create_agent(
        model,
        [echo],
        middleware=[*stack, kind()],
        checkpointer=InMemorySaver(),
        handle_tool_errors=handle_tool_errors,
    )
    assert questions(call(agent, ASK, THREAD)) == ["Call the model?"]
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
    assert questions(call(agent, ASK, THREAD)) == ["Fine?"]
    call(agent, Command(resume="Fine."), THREAD)
    assert model.requests[0].messages[0].text == "Fine."


def test_an_interrupt_of_a_subagent_in_a_tool_passes(
    call: Any, stack: list[AgentMiddleware]
) -> None:
    inner = create_agent(asking(), [ask], middleware=stack)

    @tool
    def delegate() -> str:
        """Ask the other agent."""
        return str(inner.invoke(ASK)["messages"][-1].text)  # type: ignore[call-overload]

    model = ScriptedChatModel([[{"name": "delegate"}], "Over."])
    agent = create_agent(model, [delegate], middleware=stack, checkpointer=InMemorySaver())
    assert questions(call(agent, ASK, THREAD)) == ["Well?"]
    result = call(agent, Command(resume="yes"), THREAD)
    assert texts(result)[-1:] == ["Over."]


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
    result = call(graph.compile(), ASK)
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
    call(agent, ASK, THREAD)
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
