"""Commands that tools return: C56 to C65."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.types import Command, Send

from agent_factory import ToolNode, create_agent
from agent_factory.errors import BadReturn
from agent_factory.testing import ScriptedChatModel
from samples import texts
from tables import each


def giving(value: Any, name: str = "give") -> BaseTool:
    @tool(name)
    def give() -> Any:
        """Give something."""
        return value

    return give


def answer(id_: str = "1") -> ToolMessage:
    return ToolMessage("Done.", tool_call_id=id_)


def given(kind: Any, run: Any, ask: Any, value: Any, *, state: bool = True, **options: Any) -> Any:
    """What the node makes of a value that its tool returns."""
    calls = ask(("give", {}))
    return run(kind([giving(value)], **options), {"messages": calls} if state else calls)


def test_c56_c58_c59_a_command_passes_with_its_answers_named(kind: Any, run: Any, ask: Any) -> None:
    """And the tool's own command stays as it was; an answer that is a dict gets no name."""
    message = answer()
    written = {"role": "tool", "content": "Done.", "tool_call_id": "1"}
    messages = [message, answer("other"), written]
    command: Any = Command(update={"messages": messages, "n": 1}, goto="next")
    (passed,) = given(kind, run, ask, command)
    assert (passed.update["n"], passed.goto, passed.graph) == (1, "next", None)
    first, second, third = passed.update["messages"]
    assert (first.name, second.name, third) == ("give", None, written)
    assert (message.name, command.update["messages"]) == (None, messages)


def test_c57_c60_an_update_has_the_form_of_the_input(kind: Any, run: Any, ask: Any) -> None:
    """Calls alone take a dict; without an update, or to another graph, none is looked at."""
    in_dict: Any = Command(update={"messages": [answer()]})
    text = r"provide a dict in Command.update only when using dict with 'messages' key as ToolNode"
    with pytest.raises(ValueError, match=rf"{text} input, got: .* for tool 'give'"):
        given(kind, run, ask, in_dict, state=False)
    text = r"provide a list of messages in Command.update only when using list of messages as"
    with pytest.raises(ValueError, match=rf"{text} ToolNode input, got: .* for tool 'give'"):
        given(kind, run, ask, Command(update=[answer()]))
    call = {"name": "give", "args": {}, "id": "1", "type": "tool_call"}
    assert len(run(kind([giving(in_dict)]), [call])) == 1
    to_parent: Any = Command(update={"n": 1}, graph=Command.PARENT)
    for state, command in (
        (True, Command(goto="x")),
        (False, Command(goto="x")),
        (True, to_parent),
    ):
        assert given(kind, run, ask, command, state=state) == [command]


def test_c58_to_remove_all_messages_needs_no_answer(kind: Any, run: Any, ask: Any) -> None:
    clear = RemoveMessage(id=REMOVE_ALL_MESSAGES)
    (passed,) = given(kind, run, ask, Command(update={"messages": [clear]}))
    assert passed.update == {"messages": [clear]}
    with pytest.raises(ValueError, match="Expected to have a matching ToolMessage"):
        given(kind, run, ask, Command(update={"messages": [clear, HumanMessage("Go")]}))


@each(
    "state, command, example",
    [
        (True, Command(update={"n": 1}), 'update={"messages": '),
        (True, Command(update={"messages": [answer("other")]}), 'update={"messages": '),
        (False, Command(update=[answer("other")]), "update=[ToolMessage"),
        # C61, E24: one of the documents' examples
        (True, Command(goto="next", update={"n": 1}), 'update={"messages": '),
    ],
)
def test_c60_c62_a_command_to_this_graph_answers_its_call(
    kind: Any, run: Any, ask: Any, state: bool, command: Any, example: str
) -> None:
    """C62: a mistake is an error of the tool."""
    with pytest.raises(ValueError, match="Expected to have a matching ToolMessage") as caught:
        given(kind, run, ask, command, state=state)
    assert "for tool 'give', got: [" in str(caught.value)
    assert "Every tool call (LLM requesting to call a tool)" in str(caught.value)
    assert f"You can fix it by modifying the tool to return `Command({example}" in str(caught.value)
    result = given(kind, run, ask, command, state=state, handle_tool_errors=True)
    (message,) = result["messages"] if state else result
    assert message.status == "error"
    assert "Expected to have a matching ToolMessage" in message.text


def to(node: str, **update: Any) -> Command[Any]:
    return Command(graph=Command.PARENT, goto=[Send(node, {"from": node})], update=update or None)


def merged(kind: Any, run: Any, ask: Any, *commands: Any) -> Any:
    """What becomes of several tools' commands."""
    tools = [giving(command, f"t{index}") for index, command in enumerate(commands)]
    return run(kind(tools), {"messages": ask(*((known.name, {}) for known in tools))})


def test_c63_commands_to_nodes_of_the_parent_become_one(kind: Any, run: Any, ask: Any) -> None:
    *others, last = merged(kind, run, ask, to("a"), "text", to("b"), Command(goto="x"))
    assert last == Command(
        graph=Command.PARENT, goto=[Send("a", {"from": "a"}), Send("b", {"from": "b"})]
    )
    assert [type(other) for other in others] == [dict, Command]


@each("goto", ["a", ["a"], [Send("a", {}), "b"], ()])
def test_c63_other_commands_to_the_parent_stay(kind: Any, run: Any, ask: Any, goto: Any) -> None:
    commands = [Command(graph=Command.PARENT, goto=goto, update={"n": n}) for n in (1, 2)]
    assert merged(kind, run, ask, *commands) == commands


def test_c63_their_updates_are_kept_here_and_dropped_by_langgraph(run: Any, ask: Any) -> None:
    """E42: also where there is only one."""
    empty: Any = Command(graph=Command.PARENT, goto=[], update={"n": 1})
    for commands, update, targets in (
        ([to("a", n=1)], {"n": 1}, 1),
        ([to("a", n=1), to("b")], {"n": 1}, 2),
        ([to("a", n=1), to("b", n=2, m=3)], [("n", 1), ("n", 2), ("m", 3)], 2),
        ([empty], {"n": 1}, 0),
    ):
        (command,) = merged(ToolNode, run, ask, *commands)
        assert (command.update, len(command.goto)) == (update, targets)
        (command,) = merged(LangGraphToolNode, run, ask, *commands)
        assert command.update is None


def test_c63_updates_that_are_lists_of_messages_are_joined_here(run: Any, ask: Any) -> None:
    def says(text: str) -> Any:
        update = [HumanMessage(text)]
        return Command(graph=Command.PARENT, goto=[Send("a", {})], update=update)

    tools = [giving(says("One"), "t0"), giving(says("Two"), "t1")]
    (command,) = run(ToolNode(tools), ask(("t0", {}), ("t1", {})))
    assert [message.text for message in command.update] == ["One", "Two"]


class Office(MessagesState):
    log: Annotated[list[str], operator.add]


def test_c63_c65_handoffs_reach_the_parent_with_their_updates_here(call: Any, ask: Any) -> None:
    def defer(name: str) -> BaseTool:
        @tool(f"to_{name}")
        def over() -> Command[Any]:
            """Hand over."""
            return Command(
                graph=Command.PARENT, goto=[Send(name, {})], update={"log": [f"to {name}"]}
            )

        return over

    names = ["billing", "delivery"]
    front = StateGraph(Office).add_node("tools", ToolNode([defer(name) for name in names]))
    office = StateGraph(Office).add_node("front", front.add_edge(START, "tools").compile())
    for name in names:
        office.add_node(name, lambda state, name=name: {"log": [name]})
    agent: Any = office.add_edge(START, "front").compile()
    calls = ask(*((f"to_{name}", {}) for name in names))
    result = call(agent, {"messages": calls, "log": []})
    assert sorted(result["log"]) == ["billing", "delivery", "to billing", "to delivery"]


def test_c64_a_tool_may_give_several_things_with_one_answer(kind: Any, run: Any, ask: Any) -> None:
    message, command = given(kind, run, ask, [answer(), Command(update={"n": 1})])
    assert ([m.text for m in message["messages"]], command.update) == (["Done."], {"n": 1})
    inside: Any = [Command(update={"messages": [answer()]}), Command(update={"n": 1})]
    assert len(given(kind, run, ask, inside)) == 2
    for value, answers in (
        ([Command(update={"n": 1})], 0),
        ([answer("other")], 0),
        ([answer(), Command(update={"messages": [answer()]})], 2),
    ):
        text = f"Tool give returned a list with {answers} messages bound to tool_call_id '1'; expec"
        with pytest.raises(ValueError, match=text):
            given(kind, run, ask, value)


@each("value", [3, None, [3], [answer(), object()], [answer(), {"a": 1}]])
@each("in_list", [False, True])
def test_messages_of_another_type_are_refused(
    run: Any, ask: Any, value: Any, in_list: bool
) -> None:
    """LangGraph raises a NotImplementedError, a TypeError or a ValueError that names no tool."""
    command: Any = Command(update={"messages": value})
    with pytest.raises(BadReturn) as caught:
        given(ToolNode, run, ask, [answer(), command] if in_list else command)
    assert caught.value.subject == "give"
    assert "'messages' must be a list of messages, got" in str(caught.value)
    assert 'Write Command(update={"messages": [ToolMessage(' in caught.value.hint


@each("fused", [True, False])
def test_a_message_may_stand_alone_in_a_command(call: Any, fused: bool) -> None:
    model = ScriptedChatModel([[{"name": "give", "args": {}, "id": "1"}], "Read."])
    command: Any = Command(update={"messages": answer()})
    agent = create_agent(model, [giving(command)], fused=fused)
    assert texts(call(agent, {"messages": "Go"})) == ["Go", "", "Done.", "Read."]
