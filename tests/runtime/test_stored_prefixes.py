"""A process may end after any call of the saver: the thread continues from what was stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from agent_factory import AgentMiddleware, AgentState, create_agent
from agent_factory.prebuilt import agent_tool
from agent_factory.testing import ScriptedChatModel
from tables import each

Run = Callable[..., Any]
THREAD: Any = {"configurable": {"thread_id": "1"}}


class Stops(InMemorySaver):
    """Stores what the first calls bring, and nothing of what follows, like a process that ends."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 10**6
        self.calls = 0

    def stops(self) -> bool:
        self.calls += 1
        self.left -= 1
        return self.left < 0

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if not self.stops():
            return super().put(config, checkpoint, metadata, new_versions)
        return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}

    def put_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        if not self.stops():
            super().put_writes(config, writes, task_id, task_path)


class LoggedState(AgentState[Any]):
    log: Annotated[list[str], add]


class Quiet(AgentMiddleware):
    def before_model(self, state: Any, runtime: Any) -> None: ...

    def after_model(self, state: Any, runtime: Any) -> None: ...


class Logs(AgentMiddleware):
    """Writes after each answer with a tool call, so that hooks after the model differ by turn."""

    state_schema = LoggedState

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"log": ["begins"]}

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return {"log": ["calls"]} if state["messages"][-1].tool_calls else None

    def after_agent(self, state: Any, runtime: Any) -> None: ...


def look(place: int) -> str:
    """Look somewhere."""
    return f"nothing at {place}"


def looks(*places: int) -> list[dict[str, Any]]:
    return [{"name": "look", "args": {"place": place}, "id": f"call {place}"} for place in places]


ANSWERS: list[Any] = [looks(1), looks(2, 3, 4), "Nowhere."]


def answer(messages: Sequence[Any]) -> Any:
    return ANSWERS[sum(isinstance(message, AIMessage) for message in messages)]


def shown(state: Any) -> list[Any]:
    return [*((m.type, m.text) for m in state["messages"]), *state.get("log", ())]


@pytest.mark.parametrize("fused", [True, pytest.param("turn", marks=pytest.mark.long)])
@each("checkpoints, stack", [("full", [Quiet(), Logs()]), ("delta", [Quiet()])])
def test_a_thread_continues_after_any_call_of_the_saver(
    call: Run, fused: Any, checkpoints: Any, stack: list[Any]
) -> None:
    asked: list[str] = []

    def agent(saver: Stops) -> Any:
        def respond(messages: Sequence[Any]) -> Any:
            asked.append(messages[-1].text)
            return answer(messages)

        model = ScriptedChatModel([respond] * 4)
        options: dict[str, Any] = {"fused": fused, "checkpoints": checkpoints}
        return create_agent(model, [look], middleware=stack, checkpointer=saver, **options)

    def begin(saver: Stops) -> Any:
        question: Any = {"messages": [("user", "Where is it?")]}
        return call(agent(saver), question, THREAD, durability="sync")

    whole = Stops()
    expected = shown(begin(whole))
    for stored in range(1, whole.calls):
        saver = Stops()
        saver.left = stored
        begin(saver)
        saver.left = 10**6
        kept = sum(
            isinstance(m, AIMessage) for m in agent(saver).get_state(THREAD).values["messages"]
        )
        asked.clear()
        found = shown(call(agent(saver), None, THREAD))
        assert found == expected, f"{stored} of {whole.calls}"
        assert len(asked) <= len(ANSWERS) - kept, f"{stored} of {whole.calls}"


class OnePath(InMemorySaver):
    """Refuses another path of a task, as a unique index without the path does."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: dict[Any, str] = {}

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        place = config["configurable"]
        task = place["thread_id"], place["checkpoint_ns"], place["checkpoint_id"], task_id
        assert self.paths.setdefault(task, task_path) == task_path
        super().put_writes(config, writes, task_id, task_path)


class WithoutPath(InMemorySaver):
    """Takes no path, as savers older than the paths of tasks."""

    def put_writes(self, config: Any, writes: Any, task_id: str) -> None:  # type: ignore[override]
        super().put_writes(config, writes, task_id)

    async def aput_writes(self, config: Any, writes: Any, task_id: str) -> None:  # type: ignore[override]
        super().put_writes(config, writes, task_id)


@each("fused", [True, "turn", False])
@each("saver_class", [OnePath, WithoutPath])
def test_the_writes_of_a_task_have_one_path(
    call: Run, collect: Run, saver_class: Any, fused: Any
) -> None:
    asks = {"name": "ask", "args": {"request": "Where is it?"}, "id": "ask"}

    def agent(turns: list[Any], *tools: Any, **options: Any) -> Any:
        model, stack = ScriptedChatModel(turns), [Quiet(), Logs()]
        return create_agent(model, [look, *tools], middleware=stack, fused=fused, **options)

    inner = agent_tool(agent([answer] * 3), name="ask", description="Ask.")
    outer = agent([[*looks(0), asks], answer, "Nowhere."], inner, checkpointer=saver_class())
    call(outer, {"messages": "Where is it?"}, THREAD)
    outer = agent([looks(1), looks(2, 3), "Gone."], checkpointer=outer.checkpointer)
    collect(outer, {"messages": "And now?"}, THREAD, stream_mode=["messages", "updates"])
    results = [m.text for m in outer.get_state(THREAD).values["messages"] if m.type == "tool"]
    assert sorted(results) == sorted(
        ["Nowhere.", *(f"nothing at {n}" for n in (0, 2, 3, 4, 1, 2, 3))]
    )
