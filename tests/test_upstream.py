"""Canaries: what the package relies on in LangGraph and langchain-core is still there."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

from agent_factory import DeltaMessages, upstream
from agent_factory.state.channels import fold_messages
from agent_factory.testing import ScriptedChatModel
from agent_factory.upstream import messages_delta_reducer


def test_langgraph_has_the_reducer_by_which_it_recognizes_messages() -> None:
    assert messages_delta_reducer(fold_messages) is not fold_messages


def test_langgraph_stores_a_pair_in_a_delta_channel_as_a_message_with_an_id() -> None:
    class State(TypedDict):
        messages: Annotated[list[Any], DeltaMessages()]

    graph = StateGraph(State).add_node("node", lambda state: {"messages": [("user", "Hi")]})
    agent = graph.set_entry_point("node").compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    agent.invoke({"messages": []}, config)
    (message,) = agent.get_state(config).values["messages"]
    assert isinstance(message, HumanMessage)
    assert message.id is not None


def asking_graph() -> Any:
    """A graph with two parallel nodes: one interrupts, the other writes a message."""

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", interrupt("Well?"))]}

    def write(state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", "written")]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("write", write)
    graph.add_edge(START, "ask")
    graph.add_edge(START, "write")
    return graph.compile(checkpointer=InMemorySaver())


def test_a_copied_checkpoint_has_no_answers_to_its_interrupts() -> None:
    graph, thread = asking_graph(), {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": [("user", "Go")]}, thread)
    asking = graph.get_state(thread).config
    graph.invoke(Command(resume="yes"), thread)
    graph.update_state(asking, None, upstream.COPY_BRANCH)
    graph.invoke(None, thread)
    assert graph.get_state(thread).interrupts[0].value == "Well?"
    result = graph.invoke(Command(resume="no"), thread)
    assert {m.text for m in result["messages"]} == {"Go", "no", "written"}


def test_clearing_the_tasks_keeps_what_they_wrote() -> None:
    assert upstream.CLEAR_TASKS == END
    graph, thread = asking_graph(), {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": [("user", "Go")]}, thread)
    graph.update_state(thread, None, upstream.CLEAR_TASKS)
    state = graph.get_state(thread)
    assert (state.next, state.values["messages"][-1].text) == ((), "written")


def test_a_chat_model_reports_its_name_and_provider() -> None:
    assert upstream.model_params(ScriptedChatModel([]))["ls_provider"] == "scriptedchatmodel"
    assert upstream.model_params(object(), model="gpt-1") == {}


def test_every_task_has_its_own_runtime() -> None:
    tasks: list[Any] = []

    def note(state: MessagesState, runtime: Runtime[Any]) -> None:
        tasks.append(upstream.task_identity(runtime))

    graph = StateGraph(MessagesState)
    for name in ("a", "b", "c"):
        graph.add_node(name, note)
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    graph.add_edge("a", "c")
    graph.compile().invoke({"messages": []})
    assert len({id(task) for task in tasks}) == len(tasks) == 3


def test_langgraph_reads_the_snapshot_frequency_again_for_each_checkpoint() -> None:
    """Snapshots get rarer as the history grows, because DeltaMessages changes the frequency."""

    class State(TypedDict):
        messages: Annotated[list[Any], DeltaMessages(snapshot_frequency=4)]

    saver = InMemorySaver()
    graph = StateGraph(State).add_node("node", lambda state: {"messages": [("ai", "Hello")]})
    agent = graph.set_entry_point("node").compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "1"}}
    for _ in range(40):
        agent.invoke({"messages": [("user", "Hi")]}, config)
    stored = [saved.checkpoint["channel_values"] for saved in saver.list(config)]
    snapshots = sum("messages" in values for values in stored)
    assert 3 <= snapshots <= 8  # 39 with a frequency that stays 4
