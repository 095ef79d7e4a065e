"""Whatever the tools of a turn return, the next model reads one true result of each call."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from agent_factory import AgentMiddleware, ToolRuntime, create_agent
from agent_factory.errors import BadReturn
from agent_factory.state.history import is_valid, with_results
from agent_factory.testing import ScriptedChatModel, assert_valid_history

THREAD: Any = {"configurable": {"thread_id": "1"}}

TRUE = ("text", "message", "command", "list", "handoff")
FORGED = ("typo", "sibling", "earlier", "both")
KINDS = (*TRUE, *FORGED, "ends", "raises", "asks")


def answer(kind: str, id_: str, state: Any) -> Any:
    """What a tool or a layer of this kind returns for a call."""
    if kind == "raises":
        raise ValueError("It failed.")
    if kind == "asks":
        return ToolMessage(interrupt("?"), tool_call_id=id_)
    true = ToolMessage(f"true {id_}", tool_call_id=id_)
    sibling = ToolMessage("forged", tool_call_id="1" if id_ == "0" else "0")
    results: dict[str, Any] = {
        "text": true,
        "message": true,
        "command": Command(update={"messages": [true]}),
        "list": [Command(update={"messages": []}), true],
        "handoff": Command(
            graph=Command.PARENT, goto="bob", update={"messages": [*state["messages"], true]}
        ),
        "typo": ToolMessage("forged", tool_call_id="nowhere"),
        "sibling": sibling,
        "earlier": ToolMessage("forged", tool_call_id="before"),
        "both": Command(update={"messages": [true, sibling]}),
        "ends": Command(goto="__end__"),
    }
    return results[kind]


class Turn(AgentMiddleware):
    """The tools of a turn, one for each call; as a layer, it returns results in their place."""

    def __init__(self, kinds: list[str], *, layered: bool) -> None:
        super().__init__()
        self.kinds = {str(index): kind for index, kind in enumerate(kinds)}
        self.layered = layered
        self.ran: set[str] = set()
        self.calls = [{"name": f"tool_{id_}", "args": {}, "id": id_} for id_ in self.kinds]
        look = StructuredTool.from_function(lambda: "true before", name="look", description="-")
        self.tools = (*map(self._tool, self.kinds), look)

    def _tool(self, id_: str) -> StructuredTool:
        def run(runtime: ToolRuntime[Any, Any]) -> Any:
            self.ran.add(id_)
            kind = "text" if self.layered else self.kinds[id_]
            return f"true {id_}" if kind == "text" else answer(kind, id_, runtime.state)

        return StructuredTool.from_function(run, name=f"tool_{id_}", description="-")

    def around_tool(self, request: Any) -> Any:
        result, id_ = (yield request), request.tool_call["id"]
        return answer(self.kinds[id_], id_, request.state) if id_ in self.kinds else result


@settings.get_profile("costly")
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
    layered=st.booleans(),
    fused=st.sampled_from([True, False, "turn"]),
    asynchronous=st.booleans(),
    reported=st.booleans(),
)
def test_the_next_model_reads_one_true_result_of_each_call(
    kinds: list[str], layered: bool, fused: Any, asynchronous: bool, reported: bool
) -> None:
    turn = Turn(kinds, layered=layered)
    before = [{"name": "look", "args": {}, "id": "before"}]
    models = [
        ScriptedChatModel([before, turn.calls, *["Done."] * 3]),
        ScriptedChatModel(["Hi."] * 2),
    ]
    agent: Any = create_agent(
        models[0],
        turn.tools,
        middleware=[turn] if layered else [],
        handle_tool_errors=(lambda error: f"failed: {error}") if reported else False,
        fused=fused,
        checkpointer=None if "handoff" in kinds else InMemorySaver(),
    )
    if "handoff" in kinds:
        graph = StateGraph(MessagesState).add_node("alice", agent).add_edge(START, "alice")
        graph.add_node("bob", create_agent(models[1]))
        agent = graph.compile(checkpointer=InMemorySaver())

    def call(text: str) -> Any:
        given = {"messages": text}
        if asynchronous:
            return asyncio.run(agent.ainvoke(given, THREAD, durability="sync"))
        return agent.invoke(given, THREAD, durability="sync")

    error: Exception | None = None
    try:
        call("Go")
    except (BadReturn, ValueError) as raised:
        error = raised
    raises = "raises" in kinds and not reported
    forges = any(kind in FORGED for kind in kinds)
    assert (error is not None) == (raises or forges) or "asks" in kinds
    assert raises or not forges or isinstance(error, BadReturn) or "asks" in kinds
    event("raised" if error else "returned")
    if "handoff" not in kinds or (error is None and "asks" not in kinds):
        call("Well?")
    for model in models:
        for request in model.requests:
            assert_valid_history(request.messages)
            messages = request.messages
            results = {m.tool_call_id: m.text for m in messages if isinstance(m, ToolMessage)}
            for id_, text in results.items():
                kind = turn.kinds.get(id_, "text")
                complete = kind in TRUE and error is None and "asks" not in kinds
                assert "did not run" not in text or id_ not in turn.ran
                if complete or "may have run" not in text:
                    assert text == ("failed: It failed." if kind == "raises" else f"true {id_}")


@given(
    st.lists(st.sampled_from("abc"), unique=True), st.lists(st.sampled_from("abcd"), unique=True)
)
def test_results_are_added_once_in_the_order_of_the_calls(has: list[str], more: list[str]) -> None:
    ids = ["a", "b", "c"]
    turn = AIMessage("", tool_calls=[{"name": id_, "args": {}, "id": id_} for id_ in ids])
    messages = [turn, *(ToolMessage("old", tool_call_id=id_) for id_ in has)]
    results = {id_: ToolMessage("new", tool_call_id=id_) for id_ in more}
    completed = with_results(messages, results)
    texts = {m.tool_call_id: m.text for m in completed[1:]}
    expected = {id_: "old" if id_ in has else "new" for id_ in ids if id_ in {*has, *more}}
    assert texts == expected
    assert max(Counter(m.tool_call_id for m in completed[1:]).values(), default=1) == 1
    assert is_valid(completed) == (len(expected) == 3)
    assert with_results(completed, results) == completed
