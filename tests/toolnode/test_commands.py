"""Commands that tools return: C56 to C65."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from langchain_core.messages import HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
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


def test_c56_a_command_passes_as_it_is(kind: Any, run: Any, ask: Any) -> None:
    command: Any = Command(update={"messages": [answer()], "n": 1}, goto="next")
    (passed,) = given(kind, run, ask, command)
    assert (passed.update["n"], passed.goto, passed.graph) == (1, "next", None)


def test_c57_an_update_has_the_form_of_the_input(kind: Any, run: Any, ask: Any) -> None:
    with pytest.raises(
        ValueError,
        match=r"Tools can provide a dict in Command.update only when using dict with 'messages' "
        r"key as ToolNode input, got: .* for tool 'give'",
    ):
        given(kind, run, ask, Command(update={"messages": [answer()]}), state=False)
    with pytest.raises(
        ValueError,
        match=r"Tools can provide a list of messages in Command.update only when using list of "
        r"messages as ToolNode input, got: .* for tool 'give'",
    ):
        given(kind, run, ask, Command(update=[answer()]))


def test_c57_calls_alone_take_a_dict(kind: Any, run: Any, ask: Any) -> None:
    call = {"name": "give", "args": {}, "id": "1", "type": "tool_call"}
    command: Any = Command(update={"messages": [answer()]})
    assert len(run(kind([giving(command)]), [call])) == 1


@each(
    "state, command",
    [
        (True, Command(goto="next")),
        (False, Command(goto="next")),
        (True, Command(update={"n": 1}, graph=Command.PARENT)),
    ],
)
def test_c57_c60_a_command_without_an_update_or_to_another_graph_is_not_looked_at(
    kind: Any, run: Any, ask: Any, state: bool, command: Any
) -> None:
    assert given(kind, run, ask, command, state=state) == [command]


def test_c58_the_tools_own_command_stays_as_it_was(kind: Any, run: Any, ask: Any) -> None:
    message = answer()
    command: Any = Command(update={"messages": [message]})
    (passed,) = given(kind, run, ask, command)
    assert passed.update["messages"][0].name == "give"
    assert (message.name, command.update) == (None, {"messages": [message]})


def test_c58_to_remove_all_messages_needs_no_answer(kind: Any, run: Any, ask: Any) -> None:
    clear = RemoveMessage(id=REMOVE_ALL_MESSAGES)
    (passed,) = given(kind, run, ask, Command(update={"messages": [clear]}))
    assert passed.update == {"messages": [clear]}
    with pytest.raises(ValueError, match="Expected to have a matching ToolMessage"):
        given(kind, run, ask, Command(update={"messages": [clear, HumanMessage("Go")]}))


def test_c59_an_answer_gets_the_name_of_its_tool(kind: Any, run: Any, ask: Any) -> None:
    command: Any = Command(update={"messages": [answer(), answer("other")]})
    (passed,) = given(kind, run, ask, command)
    assert [message.name for message in passed.update["messages"]] == ["give", None]


def test_c59_an_answer_that_is_a_dict_counts_and_gets_no_name(
    kind: Any, run: Any, ask: Any
) -> None:
    written = {"role": "tool", "content": "Done.", "tool_call_id": "1"}
    (passed,) = given(kind, run, ask, Command(update={"messages": [written]}))
    assert passed.update == {"messages": [written]}


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
def test_c60_a_command_to_this_graph_answers_its_call(
    kind: Any, run: Any, ask: Any, state: bool, command: Any, example: str
) -> None:
    with pytest.raises(ValueError, match="Expected to have a matching ToolMessage") as caught:
        given(kind, run, ask, command, state=state)
    assert "for tool 'give', got: [" in str(caught.value)
    assert "Every tool call (LLM requesting to call a tool)" in str(caught.value)
    assert f"You can fix it by modifying the tool to return `Command({example}" in str(caught.value)


def test_c62_these_mistakes_are_a_tools_errors(kind: Any, run: Any, ask: Any) -> None:
    command: Any = Command(update={"n": 1})
    result = given(kind, run, ask, command, handle_tool_errors=True)
    (message,) = result["messages"]
    assert message.status == "error"
    assert "Expected to have a matching ToolMessage" in message.text


# Handing over to the parent graph


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


def test_c63_langgraph_drops_their_updates(run: Any, ask: Any) -> None:
    """E42: also where there is only one."""
    for commands in ([to("a", n=1)], [to("a", n=1), to("b", n=2)]):
        (command,) = merged(LangGraphToolNode, run, ask, *commands)
        assert command.update is None
    empty: Any = Command(graph=Command.PARENT, goto=[], update={"n": 1})
    (command,) = merged(LangGraphToolNode, run, ask, empty)
    assert command.update is None


def test_c63_their_updates_are_kept_here(run: Any, ask: Any) -> None:
    (command,) = merged(ToolNode, run, ask, to("a", n=1))
    assert (command.update, command.goto) == ({"n": 1}, [Send("a", {"from": "a"})])
    (command,) = merged(ToolNode, run, ask, to("a", n=1), to("b"))
    assert (command.update, len(command.goto)) == ({"n": 1}, 2)
    (command,) = merged(ToolNode, run, ask, to("a", n=1), to("b", n=2, m=3))
    assert command.update == [("n", 1), ("n", 2), ("m", 3)]
    empty: Any = Command(graph=Command.PARENT, goto=[], update={"n": 1})
    (command,) = merged(ToolNode, run, ask, empty)
    assert command.update == {"n": 1}


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


def test_c65_a_handoff_is_a_command_with_a_target(kind: Any, call: Any, ask: Any) -> None:
    @tool
    def to_billing(id_: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Hand over to billing."""
        said = ToolMessage("Transferred.", tool_call_id=id_)
        return Command(graph=Command.PARENT, goto="billing", update={"messages": [said]})

    front = StateGraph(Office).add_node("tools", kind([to_billing])).add_edge(START, "tools")
    office = StateGraph(Office).add_node("front", front.compile())
    office.add_node("billing", lambda state: {"log": ["billing"]})
    agent: Any = office.add_edge(START, "front").compile()
    result = call(agent, {"messages": ask(("to_billing", {})), "log": []})
    assert result["log"] == ["billing"]
    assert (result["messages"][-1].text, result["messages"][-1].name) == (
        "Transferred.",
        "to_billing",
    )


# Several things at once


def test_c64_a_tool_may_give_several_things_with_one_answer(kind: Any, run: Any, ask: Any) -> None:
    both = [answer(), Command(update={"n": 1})]
    message, command = given(kind, run, ask, both)
    assert [report.text for report in message["messages"]] == ["Done."]
    assert command.update == {"n": 1}
    inside: Any = [Command(update={"messages": [answer()]}), Command(update={"n": 1})]
    assert len(given(kind, run, ask, inside)) == 2


@each(
    "value, answers",
    [
        ([Command(update={"n": 1})], 0),
        ([answer("other")], 0),
        ([answer(), Command(update={"messages": [answer()]})], 2),
    ],
)
def test_c64_it_has_one_answer(kind: Any, run: Any, ask: Any, value: Any, answers: int) -> None:
    text = f"Tool give returned a list with {answers} messages bound to tool_call_id '1'; expected"
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
