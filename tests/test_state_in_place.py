"""A hook or a layer that changes its state or its request in place does not change the thread."""

from __future__ import annotations

from typing import Any, NotRequired

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import AgentMiddleware, AgentState, create_agent
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import Phase
from samples import add
from tables import each

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
GO: Any = {"messages": [("user", "Go")], "todos": ["walk"], "seen": {"a": 1}}
STEPS: list[Any] = [[{"name": "add", "args": {"a": 1, "b": 2}}], "Done"]


class Todos(AgentState):
    todos: NotRequired[list[str]]
    seen: NotRequired[dict[str, int]]


def meddle(state: Any) -> None:
    state["messages"].append(HumanMessage("smuggled"))
    state["todos"].append("smuggled")
    state["seen"]["smuggled"] = 2


class Meddler(AgentMiddleware[Any, Any]):
    state_schema = Todos


def node_hook(phase: Phase) -> Any:
    def hook(self: Any, state: Any, runtime: Any) -> None:
        meddle(state)

    return {phase.value: hook}


def model_layer(self: Any, request: Any) -> Any:
    meddle(request.state)
    request.tools.clear()
    return (yield request.override(tools=[], messages=[HumanMessage("Go")]))


def model_messages(self: Any, request: Any) -> Any:
    request.messages.append(HumanMessage("smuggled"))
    request.model_settings["smuggled"] = True
    return (yield request.override(model_settings={}))


def tool_layer(self: Any, request: Any) -> Any:
    meddle(request.state)
    request.tool_call["args"]["smuggled"] = True
    result = yield request
    meddle(request.runtime.state)
    return result


CULPRITS = [
    *map(node_hook, Phase),
    {"around_model": model_layer},
    {"around_model": model_messages},
    {"around_tool": tool_layer},
]


@each("fused", [False, True, "turn"])
@each("checkpointer", [False, True])
@each("culprit", CULPRITS, ids=lambda c: next(iter(c.values())).__name__)
def test_a_change_in_place_does_not_reach_the_thread(
    call: Any, fused: Any, checkpointer: bool, culprit: dict[str, Any]
) -> None:
    seen: list[Any] = []

    class Witness(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> None:
            seen.append(str(state))

        def after_agent(self, state: Any, runtime: Any) -> None:
            seen.append(str(state))

    made = type("Made", (Meddler,), culprit)
    agent: Any = create_agent(
        ScriptedChatModel(STEPS),
        [add],
        middleware=[made(name="a"), Witness(), made(name="b")],
        checkpointer=InMemorySaver() if checkpointer else None,
        fused=fused,
    )
    result = call(agent, GO, THREAD if checkpointer else None)
    assert "smuggled" not in str(result)
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert len(seen) == 3
    assert "smuggled" not in str(seen)
    if checkpointer:
        assert "smuggled" not in str([*agent.get_state_history(THREAD)])


@each("fused", [False, True, "turn"])
def test_layers_around_parallel_calls_have_states_of_their_own(call: Any, fused: Any) -> None:
    class Appends(Meddler):
        def around_tool(self, request: Any) -> Any:
            for key in ("messages", "todos"):
                request.state[key].append(HumanMessage("smuggled"))
            assert [str(request.state).count("smuggled")] == [2]
            return (yield request)

    model = ScriptedChatModel([STEPS[0] * 3, "Done"])
    agent: Any = create_agent(model, [add], middleware=[Appends()], fused=fused)
    assert "smuggled" not in str(call(agent, GO))
