"""Agents inside other graphs: commands to the parent, the results that go along, concurrency."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, Send
from stack_agents import agent_of, kept_agent

from agent_factory import AgentMiddleware, create_agent, create_react_agent
from agent_factory.errors import CommandNotSupported
from agent_factory.runtime.handoffs import command_to_parent
from agent_factory.testing import ScriptedChatModel, assert_valid_history
from samples import THREAD, ask, look, named_calls, numbered_calls, texts, tool_texts
from tables import each

GO: Any = {"messages": "Go"}
CallId = Annotated[str, InjectedToolCallId]


class Noted(MessagesState):
    notes: Annotated[list[str], lambda a, b: [*(a or []), *b]]


def leaving(name: str, goto: Any = "other", **options: Any) -> Any:
    """A tool that leaves for another node of the parent, with a word in both its keys."""

    def leave(tool_call_id: CallId) -> Command[Any]:
        """Hand the conversation over."""
        said = ToolMessage(f"{name} left", tool_call_id=tool_call_id)
        return Command(
            graph=Command.PARENT, goto=goto, update={"messages": [said], "notes": [name]}
        )

    return tool(name, **options)(leave)


def other(state: Any) -> Any:
    """Takes over; a Send gives it its own state."""
    return {"messages": [AIMessage(f"took over {state.get('task', '')}".strip())]}


def team(agent: Any, **options: Any) -> Any:
    graph = StateGraph(Noted)
    graph.add_node("agent", agent, destinations=("other",))
    graph.add_node("other", other)
    graph.add_edge(START, "agent")
    return graph.compile(**options)


@each("options", [{}, {"return_direct": True}])
@each(
    "goto, then",
    [
        ((), []),
        ("other", ["took over"]),
        (["other"], ["took over"]),
        ([Send("other", {"task": "it"})], ["took over it"]),
    ],
)
def test_a_tool_hands_over_to_the_parent(
    call: Any, goto: Any, then: list[str], options: dict[str, Any]
) -> None:
    """C60, C65: its update and its goto arrive, and the model is not asked again."""
    agent = create_agent(ScriptedChatModel([numbered_calls("a")]), [leaving("a", goto, **options)])
    result = call(team(agent), GO)
    assert texts(result) == ["Go", "a left", *then]
    assert result["notes"] == ["a"]


@each("options", [{}, {"return_direct": True}])
def test_several_handoffs_of_one_turn_all_arrive(call: Any, options: dict[str, Any]) -> None:
    """C63, E42: their updates too, in the order of the calls."""
    tools = [
        leaving("a", [Send("other", {"task": "first"})], **options),
        leaving("b", [Send("other", {"task": "second"})], **options),
        leaving("c", "other", **options),
    ]
    agent = create_agent(ScriptedChatModel([numbered_calls("a", "b", "c")]), tools)
    result = call(team(agent), GO)
    assert result["notes"] == ["a", "b", "c"]
    assert texts(result)[:4] == ["Go", "a left", "b left", "c left"]
    assert sorted(texts(result)[4:]) == ["took over", "took over first", "took over second"]


@each("names", [["a", "add"], ["add", "a"]])
def test_a_handoff_parallel_to_an_ordinary_tool_leaves(call: Any, names: list[str]) -> None:
    """C63: no hook of the agent runs any more."""
    log: list[str] = []

    class Log(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> None:
            log.append("before_model")

        def after_agent(self, state: Any, runtime: Any) -> None:
            log.append("after_agent")

    agent = agent_of([numbered_calls(*names)], Log(), tools=[leaving("a"), add])
    assert texts(call(team(agent), GO)) == ["Go", "a left", "took over"]
    assert log == ["before_model"]


def test_a_hook_may_hand_over(call: Any) -> None:
    """The keys it updates are the parent's."""

    class Leave(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            return Command(graph=Command.PARENT, goto="other", update={"notes": ["hook"]})

    agent = create_agent(ScriptedChatModel([]), middleware=[Leave()])
    result = call(team(agent), GO)
    assert result["notes"] == ["hook"]
    assert texts(result) == ["Go", "took over"]


def test_a_handoff_without_a_parent_is_refused(call: Any) -> None:
    agent = create_agent(ScriptedChatModel([numbered_calls("a")]), [leaving("a")])
    with pytest.raises(CommandNotSupported, match="this agent has no parent"):
        call(agent, GO)


def echo(messages: Any) -> str:
    return f"to {messages[-1].text}"


def test_threads_of_a_process_and_tasks_of_a_loop_do_not_mix() -> None:
    """D33, C19: one agent, many threads, two turns each."""
    agent: Any = kept_agent(ScriptedChatModel([echo] * 80), tools=[add], name="Ada")

    def turns(name: str) -> list[str]:
        thread = {"configurable": {"thread_id": name}}
        agent.invoke({"messages": f"{name}1"}, thread)
        return texts(agent.invoke({"messages": f"{name}2"}, thread))

    async def aturns(name: str) -> list[str]:
        thread = {"configurable": {"thread_id": name}}
        await agent.ainvoke({"messages": f"{name}1"}, thread)
        return texts(await agent.ainvoke({"messages": f"{name}2"}, thread))

    async def gather() -> list[list[str]]:
        return await asyncio.gather(*map(aturns, names[20:]))

    names = [f"t{index}-" for index in range(40)]
    with ThreadPoolExecutor(8) as pool:
        results = [*pool.map(turns, names[:20]), *asyncio.run(gather())]
    assert results == [[f"{n}1", f"to {n}1", f"{n}2", f"to {n}2"] for n in names]


State = Annotated[dict[str, Any], InjectedState]


def add() -> str:
    """Add."""
    return "3"


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
        (["add", "to_bob", "look"], ["3", "to bob", "a tree"]),
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
        team = Team(create_react_agent(model, [add, handoff("bob")], version=version), "bob")
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
    assert (said.startswith("This answer is taken if"), note) == (True, "to bob")


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
    team = Team(create_agent(model, [add, look, handoff("bob")], middleware=[Refuse()]), "bob")
    call(team.graph, GO)
    assert team.read_by("bob") == ["refused", "a tree", "to bob"]


@each("depth", [1, 2])
def test_a_handoff_in_a_team_inside_of_another_graph(call: Any, depth: int) -> None:
    """Its agent hands over again, and the outer graphs get each result once."""
    carol = ScriptedChatModel(["carol here"])
    agents = {
        "alice": create_agent(
            ScriptedChatModel([named_calls("add", "to_bob")]), [add, handoff("bob")], name="alice"
        ),
        "bob": agent_of(
            [named_calls("to_carol", "look")], tools=[look, handoff("carol")], name="bob"
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
    assert tool_texts({"messages": read}) == ["3", "to bob", "to carol", "a tree"]
    assert tool_texts(out) == tool_texts({"messages": read})


def test_updates_of_pairs_are_completed_too() -> None:
    """Only a layer can return them."""
    turn = AIMessage("", tool_calls=named_calls("add", "to_bob"))
    note, result = (ToolMessage(id_, tool_call_id=id_) for id_ in ("to_bob", "add"))
    pairs = [("messages", [turn, note]), ("step", 1)]
    command = command_to_parent([Command(graph=Command.PARENT, update=pairs)], [turn, result])
    assert command.update == [("messages", [turn, result, note]), ("step", 1)]
