"""Results of the calls next to a handoff go to the parent graph with it."""

from __future__ import annotations

from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, Send

from agent_factory import AgentMiddleware, create_agent, create_react_agent
from agent_factory.runtime.handoffs import command_to_parent
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from samples import ask, named_calls, tool_texts
from tables import each

GO: Any = {"messages": "Go"}
THREAD: Any = {"configurable": {"thread_id": "1"}}
CallId = Annotated[str, InjectedToolCallId]
State = Annotated[dict[str, Any], InjectedState]


def add() -> str:
    """Add."""
    return "3"


def look() -> str:
    """Look."""
    return "seen"


@tool(return_direct=True)
def answer() -> str:
    """Answer."""
    return "42"


@tool
def fail() -> str:
    """Fail."""
    raise ValueError("It failed.")


def history(state: Any, note: ToolMessage) -> list[AnyMessage]:
    return [*state["messages"], note]


def last_pair(state: Any, note: ToolMessage) -> list[AnyMessage]:
    return [state["messages"][-1], note]


FORMS: dict[str, Any] = {
    "history": lambda to, messages: {"goto": to, "update": {"messages": messages}},
    "send": lambda to, messages: {"goto": [Send(to, {"messages": messages})]},
    "send and update": lambda to, messages: {
        "goto": [Send(to, {"messages": messages})],
        "update": {"messages": messages},
    },
}
FORM = each("form", FORMS)


def handoff(to: str, form: str = "history", passes: Any = history) -> Any:
    """A tool that leaves for another agent of the parent."""

    def leave(state: State, tool_call_id: CallId) -> Command[Any]:
        """Hand the conversation over."""
        note = ToolMessage(f"to {to}", tool_call_id=tool_call_id)
        return Command(graph=Command.PARENT, **FORMS[form](to, passes(state, note)))

    return tool(f"to_{to}")(leave)


class Team:
    """Agents in one graph; the first one begins, and the others answer."""

    def __init__(self, first: Any, *others: str, **options: Any) -> None:
        self.models = {name: ScriptedChatModel([f"{name} here"]) for name in others}
        graph = StateGraph(MessagesState)
        graph.add_node("first", first, destinations=others)
        for name, model in self.models.items():
            graph.add_node(name, create_agent(model, name=name))
        graph.add_edge(START, "first")
        self.graph: Any = graph.compile(**options)

    def read_by(self, name: str) -> list[str]:
        """The results that the model of an agent has read, in a valid history."""
        (request,) = self.models[name].requests
        assert_valid_history(request.messages)
        return [m.text for m in request.messages if m.type == "tool"]


@each(
    "form, fused, stored",
    [
        ("history", True, False),
        ("history", False, True),
        ("history", "turn", True),
        ("send", True, True),
        ("send and update", False, False),
    ],
)
@each(
    "names, expected",
    [
        (["add", "to_bob"], ["3", "to bob"]),
        (["to_bob", "add"], ["to bob", "3"]),
        (["add", "to_bob", "look"], ["3", "to bob", "seen"]),
        (["answer", "to_bob"], ["42", "to bob"]),
        (["unknown", "to_bob"], ["Error: unknown is not a valid tool", "to bob"]),
        (["fail", "to_bob"], ["Error: It failed.", "to bob"]),
    ],
    ids=lambda value: " ".join(value) if "to_bob" in value else "",
)
def test_the_next_agent_reads_the_results_next_to_a_handoff(
    call: Any, form: str, fused: Any, stored: bool, names: Any, expected: Any
) -> None:
    alice = create_agent(
        ScriptedChatModel([named_calls(*names)]),
        [add, look, answer, fail, handoff("bob", form)],
        handle_tool_errors=lambda error: f"Error: {error}",
        fused=fused,
    )
    team = Team(alice, "bob", checkpointer=InMemorySaver() if stored else None)
    out = call(team.graph, GO, THREAD)
    read = team.read_by("bob")
    assert len(read) == len(expected)
    assert all(map(str.startswith, read, expected))
    assert_valid_history(out["messages"])
    assert tool_texts(out) == read


@FORM
@each("fused", [True, False])
def test_several_handoffs_of_a_turn_pass_on_all_results(call: Any, form: str, fused: Any) -> None:
    tools = [add, handoff("bob", form), handoff("carol", form)]
    model = ScriptedChatModel([named_calls("to_carol", "add", "to_bob")])
    team = Team(create_agent(model, tools, fused=fused), "bob", "carol")
    out = call(team.graph, GO)
    assert (
        sorted(team.read_by("bob")) == sorted(team.read_by("carol")) == ["3", "to bob", "to carol"]
    )
    assert_valid_history(out["messages"])
    assert len(tool_texts(out)) == 3


@each(
    "turns, passes, expected",
    [
        # The turn of the handoff is all that it passes on.
        ([["add", "to_bob"]], last_pair, ["3", "to bob"]),
        # The ids of the last turn recur in the thread.
        ([["add"], ["add", "to_bob"]], history, ["3", "3", "to bob"]),
    ],
)
def test_each_call_that_a_handoff_passes_on_has_its_result(
    call: Any, turns: Any, passes: Any, expected: list[str]
) -> None:
    model = ScriptedChatModel([named_calls(*names) for names in turns])
    team = Team(create_agent(model, [add, handoff("bob", passes=passes)]), "bob")
    call(team.graph, GO)
    assert team.read_by("bob") == expected


@each(
    "passes",
    [
        lambda state, note: [("user", "Take over.")],
        lambda state, note: [
            *state["messages"][:-1],
            AIMessage("", tool_calls=named_calls("to_bob"), id=state["messages"][-1].id),
            note,
        ],
        lambda state, note: [note],
    ],
)
def test_results_go_where_their_calls_go(call: Any, passes: Any) -> None:
    """A handoff that keeps the calls to itself keeps their results, too."""
    model = ScriptedChatModel([named_calls("add", "to_bob")])
    team = Team(create_agent(model, [add, handoff("bob", passes=passes)]), "bob")
    call(team.graph, GO)
    assert "3" not in team.read_by("bob")


def test_a_react_agent_passes_results_on(call: Any) -> None:
    for version in ("v1", "v2"):
        model = ScriptedChatModel([named_calls("add", "to_bob")])
        alice = create_react_agent(model, [add, handoff("bob")], version=version)
        team = Team(alice, "bob")
        call(team.graph, GO)
        assert team.read_by("bob") == ["3", "to bob"]


def test_a_structured_answer_next_to_a_handoff_goes_along(call: Any) -> None:
    alice = create_agent(
        ScriptedChatModel([named_calls("Answer", "to_bob")]),
        [handoff("bob")],
        response_format={"title": "Answer", "type": "object"},
    )
    team = Team(alice, "bob")
    call(team.graph, GO)
    said, note = team.read_by("bob")
    assert (said.startswith("Returning structured response"), note) == (True, "to bob")


@each("fused", [True, False])
def test_a_result_that_was_waited_for_goes_along(call: Any, fused: Any) -> None:
    model = ScriptedChatModel([named_calls("add", "ask", "to_bob")])
    alice = create_agent(model, [add, ask, handoff("bob")], fused=fused)
    team = Team(alice, "bob", checkpointer=InMemorySaver())
    assert call(team.graph, GO, THREAD)["__interrupt__"][0].value == "?"
    out = call(team.graph, Command(resume="yes"), THREAD)
    assert team.read_by("bob") == ["3", "said yes", "to bob"]
    assert_valid_history(out["messages"])


def test_a_call_that_a_hook_has_answered_keeps_its_answer(call: Any) -> None:
    class Refuse(AgentMiddleware):
        def after_model(self, state: Any, runtime: Any) -> Any:
            return {"messages": [ToolMessage("refused", tool_call_id="add")]}

    model = ScriptedChatModel([named_calls("add", "look", "to_bob")])
    alice = create_agent(model, [add, look, handoff("bob")], middleware=[Refuse()])
    team = Team(alice, "bob")
    call(team.graph, GO)
    assert team.read_by("bob") == ["refused", "seen", "to bob"]


@each("depth", [1, 2])
def test_a_handoff_in_a_team_inside_of_another_graph(call: Any, depth: int) -> None:
    """Its agent hands over again, and the outer graphs get each result once."""
    carol = ScriptedChatModel(["carol here"])
    agents = {
        "alice": create_agent(
            ScriptedChatModel([named_calls("add", "to_bob")]), [add, handoff("bob")], name="alice"
        ),
        "bob": create_agent(
            ScriptedChatModel([named_calls("to_carol", "look")]),
            [look, handoff("carol")],
            name="bob",
        ),
        "carol": create_agent(carol, name="carol"),
    }
    graph: Any = StateGraph(MessagesState)
    for name, agent in agents.items():
        graph.add_node(name, agent)
    graph = graph.add_edge(START, "alice").compile()
    for _ in range(depth):
        graph = StateGraph(MessagesState).add_node("team", graph).add_edge(START, "team").compile()
    out = call(graph, GO)
    read = carol.requests[0].messages
    assert_valid_history(read)
    assert tool_texts({"messages": read}) == ["3", "to bob", "to carol", "seen"]
    assert tool_texts(out) == tool_texts({"messages": read})


def test_an_agent_that_hands_over_to_the_parent_of_its_team(call: Any) -> None:
    """Two graphs deep: the agent leaves a team that is a node of an agent's parent."""
    alice = create_agent(ScriptedChatModel([named_calls("add", "to_bob")]), [add, handoff("bob")])
    inner = StateGraph(MessagesState).add_node("alice", alice).add_edge(START, "alice")
    inner.add_node(
        "bob",
        lambda state: Command(
            graph=Command.PARENT, goto="bob", update={"messages": state["messages"]}
        ),
    )
    team = Team(inner.compile(), "bob")
    call(team.graph, GO)
    assert team.read_by("bob") == ["3", "to bob"]


def test_updates_of_pairs_are_completed_too() -> None:
    """Only a layer can return them."""
    turn = AIMessage("", tool_calls=named_calls("add", "to_bob"))
    note, result = (ToolMessage(id_, tool_call_id=id_) for id_ in ("to_bob", "add"))
    pairs = [("messages", [turn, note]), ("step", 1)]
    command = command_to_parent([Command(graph=Command.PARENT, update=pairs)], [turn, result])
    assert command.update == [("messages", [turn, result, note]), ("step", 1)]


def test_the_single_call_of_a_turn_is_handed_over_as_it_is() -> None:
    note = ToolMessage("left", tool_call_id="to_bob")
    command: Any = Command(graph=Command.PARENT, goto="bob", update={"messages": [note]})
    turn = AIMessage("", tool_calls=named_calls("to_bob"))
    assert command_to_parent([command], [turn]) is command
