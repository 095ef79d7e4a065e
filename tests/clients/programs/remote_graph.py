"""A served agent as a graph of LangGraph for Python, alone and as a node."""

from __future__ import annotations

from typing import Any

from checks import URL, run
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_sync_client

LOOK, PAY = 'call look {"order": "A1"}', 'call pay {"euros": 5}'
APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})
desk = RemoteGraph("desk", url=URL)


def said(text: str) -> Any:
    return {"messages": [{"type": "human", "content": text}]}


def texts(values: Any) -> list[str]:
    return [
        getattr(message, "content", None) or message["content"] for message in values["messages"]
    ]


def new_thread() -> Any:
    return {"configurable": {"thread_id": get_sync_client(url=URL).threads.create()["thread_id"]}}


def message() -> Any:
    thread = new_thread()
    return [texts(desk.invoke(said(text), thread)) for text in ("Hi", "More")]


def stream() -> Any:
    modes: Any = ["updates", "values", "custom"]
    parts: Any = desk.stream(said(LOOK), new_thread(), stream_mode=modes)
    return [[part.event, sorted(part.data)] for part in parts]


def states() -> Any:
    thread = new_thread()
    desk.invoke(said("Hi"), thread)
    state = desk.get_state(thread)
    history = [
        [each.next, len(each.values.get("messages", ()))] for each in desk.get_state_history(thread)
    ]
    updated = desk.update_state(thread, said("More"), as_node="__start__")
    return [
        texts(state.values),
        history,
        sorted(updated["configurable"]),
        desk.get_state(thread).next,
    ]


def review() -> Any:
    thread = new_thread()
    desk.invoke(said(PAY), thread)
    (task,) = desk.get_state(thread).tasks
    requests = [interrupt.value["action_requests"][0]["args"] for interrupt in task.interrupts]
    return [requests, texts(desk.invoke(APPROVE, thread))]


def outcome(graph: Any, *arguments: Any) -> Any:
    """The texts of the thread, or the error."""
    try:
        return texts(graph.invoke(*arguments))
    except Exception as error:
        return [type(error).__name__, str(error)]


def failure() -> Any:
    return outcome(desk, said("fail"), new_thread())


def graph() -> Any:
    drawn = desk.get_graph()
    return [sorted(drawn.nodes), sorted(f"{edge.source}-{edge.target}" for edge in drawn.edges)]


def node_of_a_graph() -> Any:
    outer: Any = StateGraph(MessagesState)
    outer.add_node("desk", desk)
    outer.add_edge(START, "desk")
    compiled = outer.compile(checkpointer=InMemorySaver())
    thread = new_thread()
    first = compiled.invoke(said(PAY), thread)
    return {
        "asked": len(first.get("__interrupt__", ())),
        "answered": outcome(compiled, APPROVE, thread),
    }


run(
    message=message,
    stream=stream,
    states=states,
    review=review,
    failure=failure,
    graph=graph,
    node_of_a_graph=node_of_a_graph,
)
