"""Results under a wrong `tool_call_id` are errors of the tool or the layer that returned them."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import InjectedState
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.types import Command

from agent_factory import AgentMiddleware, ToolNode, create_agent, create_react_agent
from agent_factory.errors import BadReturn
from agent_factory.middleware import (
    InMemoryEffects,
    OnceMiddleware,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
)
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from samples import named_calls, results_by_id
from tables import each

GO: Any = {"messages": "Go"}
THREAD: Any = {"configurable": {"thread_id": "1"}}
CallId = Annotated[str, InjectedToolCallId]
State = Annotated[dict[str, Any], InjectedState]

MODES = each("fused", [True, False])


class Ran:
    """Two tools: `pay`, which returns what is set, and `look`."""

    def __init__(self, answer: Any) -> None:
        self.names: list[str] = []

        @tool
        def pay() -> Any:
            """Pay."""
            self.names.append("pay")
            return answer

        @tool
        def look() -> str:
            """Look."""
            self.names.append("look")
            return "seen"

        self.tools = [pay, look]


def message(id_: str) -> ToolMessage:
    return ToolMessage("paid", tool_call_id=id_)


FORMS: dict[str, Any] = {
    "message": message,
    "list": lambda id_: [message("pay"), message(id_)],
    "command": lambda id_: Command(update={"messages": [message(id_)]}),
    "command with both": lambda id_: Command(update={"messages": [message("pay"), message(id_)]}),
    "dict": lambda id_: Command(
        update={"messages": [message("pay"), {"role": "tool", "content": "", "tool_call_id": id_}]}
    ),
    "command in a list": lambda id_: [message("pay"), Command(update={"messages": [message(id_)]})],
    "handoff": lambda id_: Command(
        graph=Command.PARENT, goto="other", update={"messages": [message(id_)]}
    ),
}
FORM = each("form", FORMS)
WRONG_ID = each(
    "wrong, order",
    [("typo", ("pay", "look")), ("look", ("pay", "look")), ("look", ("look", "pay"))],
)


def layer_of(answer: Any, form: str) -> AgentMiddleware[Any, Any]:
    """A layer that replaces the result of `pay`: a flow, or a wrap, sync and async."""

    class Flow(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            result = yield request
            return answer if request.tool_call["name"] == "pay" else result

    class Wrap(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            result = handler(request)
            return answer if request.tool_call["name"] == "pay" else result

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            result = await handler(request)
            return answer if request.tool_call["name"] == "pay" else result

    return Flow() if form == "flow" else Wrap()


# Errors


@MODES
@FORM
@WRONG_ID
def test_a_result_of_a_tool_for_another_call_is_its_error(
    call: Any, fused: Any, form: str, wrong: str, order: Any
) -> None:
    """Also where tool errors are reported: the model must not read that it may try again."""
    ran = Ran(FORMS[form](wrong))
    agent = create_agent(
        ScriptedChatModel([named_calls(*order), "Not asked."]),
        ran.tools,
        handle_tool_errors=True,
        fused=fused,
    )
    with pytest.raises(BadReturn, match=rf"^\[AF317\] pay: .*expected 'pay', got '{wrong}'") as e:
        call(agent, GO)
    assert "tool_call_id=tool_call_id" in e.value.hint
    assert ran.names.count("pay") == 1


@FORM
@WRONG_ID
@each("kind", ["flow", "wrap"])
def test_a_result_of_a_layer_for_another_call_is_its_error(
    call: Any, form: str, wrong: str, order: Any, kind: str
) -> None:
    ran = Ran("paid")
    agent = create_agent(
        ScriptedChatModel([named_calls(*order), "Not asked."]),
        ran.tools,
        middleware=[ToolErrorMiddleware(), layer_of(FORMS[form](wrong), kind)],
        ignore=["AF207"],
        handle_tool_errors=True,
    )
    where = {"flow": r"Flow\.around_tool", "wrap": r"Wrap\.a?wrap_tool_call"}[kind]
    with pytest.raises(BadReturn, match=rf"\[AF317\] {where}: .*'pay', got '{wrong}'") as e:
        call(agent, GO)
    assert e.value.hint == "Write tool_call_id=request.tool_call['id']."
    assert ran.names.count("pay") == 1


class Raw(BaseTool):
    """A tool of another class than LangChain's, which makes its own message."""

    name: str = "pay"
    description: str = "Pay."

    def invoke(self, input: Any, config: Any = None, **_: Any) -> Any:
        return message("typo")

    async def ainvoke(self, input: Any, config: Any = None, **_: Any) -> Any:
        return message("typo")

    def _run(self) -> None: ...


def test_a_tool_of_any_class_is_checked(call: Any) -> None:
    agent = create_agent(ScriptedChatModel([named_calls("pay"), "Not asked."]), [Raw()])
    with pytest.raises(BadReturn, match="expected 'pay', got 'typo'"):
        call(agent, GO)


@each("kind", [ToolNode, LangGraphToolNode])
@each("version", ["v1", "v2"])
@each("form", ["message", "command with both", "dict", "handoff"])
@WRONG_ID
def test_a_tool_node_of_the_author_is_checked(
    call: Any, kind: Any, version: Any, form: str, wrong: str, order: Any
) -> None:
    """In the first version it runs all calls of a turn at once."""
    ran = Ran(FORMS[form](wrong))
    model = ScriptedChatModel([named_calls(*order), "Not asked."])
    agent = create_react_agent(model, kind(ran.tools), version=version)
    with pytest.raises(BadReturn, match=rf"\[AF317\] pay: .*'pay', got '{wrong}'"):
        call(agent, GO)


def test_an_earlier_call_keeps_its_result(call: Any) -> None:
    ran = Ran(message("look"))
    model = ScriptedChatModel([named_calls("look"), named_calls("pay"), "Not asked."])
    agent = create_agent(model, ran.tools, checkpointer=InMemorySaver())
    with pytest.raises(BadReturn, match="'pay', got 'look'"):
        call(agent, GO, THREAD)
    assert results_by_id(agent.get_state(THREAD).values) == {"look": "seen"}


@MODES
def test_the_thread_says_afterwards_that_the_call_may_have_run(call: Any, fused: Any) -> None:
    ran = Ran(message("typo"))
    model = ScriptedChatModel([named_calls("pay", "look"), "Done."])
    agent = create_agent(model, ran.tools, checkpointer=InMemorySaver(), fused=fused)
    with pytest.raises(BadReturn):
        call(agent, GO, THREAD)
    result = call(agent, GO, THREAD)
    assert_valid_history(result["messages"])
    assert "may have run" in results_by_id(result)["pay"]
    assert ran.names.count("pay") == 1


# Middleware that must not repeat the call


def test_a_call_whose_result_has_a_wrong_id_is_not_repeated(call: Any) -> None:
    ran = Ran(message("typo"))
    agent = create_agent(
        ScriptedChatModel([named_calls("pay")]), ran.tools, middleware=[ToolRetryMiddleware()]
    )
    with pytest.raises(BadReturn):
        call(agent, GO)
    assert ran.names == ["pay"]


@each("source", ["tool", "layer"])
def test_an_effect_whose_result_has_a_wrong_id_may_have_happened(call: Any, source: str) -> None:
    """The record stays, so that the effect does not happen again when the run is resumed."""
    ran = Ran(message("typo") if source == "tool" else "paid")
    inside = [layer_of(message("typo"), "flow")] if source == "layer" else []
    agent = create_agent(
        ScriptedChatModel([named_calls("pay"), "It is uncertain."]),
        ran.tools,
        middleware=[OnceMiddleware({"pay": "fail"}, store=InMemoryEffects()), *inside],
        checkpointer=InMemorySaver(),
    )
    with pytest.raises(BadReturn):
        call(agent, GO, THREAD, durability="sync")
    result = call(agent, None, THREAD, durability="sync")
    assert "it may have been done" in results_by_id(result)["pay"]
    assert ran.names == ["pay"]


# What is not an error


@tool
def recall(state: State, tool_call_id: CallId) -> Command[Any]:
    """Write the whole history again."""
    answer = ToolMessage("recalled", tool_call_id=tool_call_id)
    return Command(update={"messages": [*state["messages"], answer]})


@tool
def redo(state: State, tool_call_id: CallId) -> Command[Any]:
    """Edit an earlier result, and start again from it."""
    *_, earlier = [m for m in state["messages"] if m.type == "tool"]
    edited = earlier.model_copy(update={"content": "short"})
    answer = ToolMessage("edited", tool_call_id=tool_call_id)
    return Command(update={"messages": [edited, answer]})


@tool
def delegate(tool_call_id: CallId) -> Command[Any]:
    """Bring the calls of a subagent along, of which one has the id of an earlier call."""
    turns = [
        part
        for id_ in ("look", "inner")
        for part in (
            AIMessage("", tool_calls=named_calls(id_)),
            ToolMessage("inner", tool_call_id=id_),
        )
    ]
    return Command(update={"messages": [ToolMessage("ok", tool_call_id=tool_call_id), *turns]})


@tool
def clear() -> Command[Any]:
    """Forget everything."""
    return Command(update={"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]})


@each("name", ["recall", "redo", "delegate", "clear"])
@each("layered", [False, True])
def test_messages_and_calls_that_come_along_keep_results(
    call: Any, name: str, layered: bool
) -> None:
    class Passing(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            return (yield request)

    ran = Ran("paid")
    agent = create_agent(
        ScriptedChatModel([named_calls("look"), named_calls(name), "Done."]),
        [*ran.tools, recall, redo, delegate, clear],
        system_prompt="Help.",
        middleware=[Passing()] if layered else [],
    )
    result = call(agent, GO)
    expected = {"recall": "recalled", "redo": "edited", "delegate": "ok"}
    assert results_by_id(result).get(name) == expected.get(name)
    assert result["messages"][-1].text == "Done."


def test_a_layer_may_call_inward_under_another_id(call: Any) -> None:
    """Its own result counts."""

    class Twice(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            texts = []
            for id_ in ("first", "second"):
                own = {**request.tool_call, "id": id_}
                texts.append((yield request.override(tool_call=own)).text)
            return ToolMessage(" ".join(texts), tool_call_id=request.tool_call["id"])

    ran = Ran("paid")
    model = ScriptedChatModel([named_calls("look"), "Done."])
    result = call(create_agent(model, ran.tools, middleware=[Twice()]), GO)
    assert results_by_id(result) == {"look": "seen seen"}


def test_a_tool_node_alone_passes_on_what_its_tools_return() -> None:
    """As LangGraph's does."""
    graph = StateGraph(MessagesState).add_node("tools", ToolNode(Ran(message("typo")).tools))
    ask: Any = {"messages": [AIMessage("", tool_calls=named_calls("pay"))]}
    assert results_by_id(graph.add_edge(START, "tools").compile().invoke(ask)) == {"typo": "paid"}
