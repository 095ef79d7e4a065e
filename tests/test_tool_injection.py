"""Arguments that a tool takes from its graph."""

from __future__ import annotations

import gc
import operator
import weakref
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.managed import RemainingSteps
from langgraph.types import Command

from agent_factory import (
    AgentMiddleware,
    AgentState,
    InjectedState,
    InjectedStore,
    PrivateStateAttr,
    ToolRuntime,
    create_agent,
)
from agent_factory.testing import ScriptedChatModel
from samples import prices, tool_texts

THREAD = {"configurable": {"thread_id": "1"}}


class Shop(AgentState):
    user: NotRequired[str]
    visits: NotRequired[Annotated[int, operator.add]]
    secret: NotRequired[Annotated[str, PrivateStateAttr]]
    remaining_steps: NotRequired[RemainingSteps]


@dataclass
class Till:
    currency: str


def one_field(user: Annotated[str, InjectedState("user")], greeting: str = "Hi") -> str:
    """Greet the user."""
    return f"{greeting} {user}"


def whole_state(state: Annotated[dict[str, Any], InjectedState]) -> str:
    """List the keys of the state."""
    return f"{sorted(state)} after {len(state['messages'])}"


def with_store(store: Annotated[Any, InjectedStore()]) -> str:
    """Read the store."""
    return str(store.get(("prices",), "lamp").value["price"])


def with_runtime(runtime: ToolRuntime[Any, Any], item: str = "lamp") -> str:
    """Look at everything."""
    store: Any = runtime.store
    runtime.stream_writer({"item": item})
    parts = [
        runtime.state["user"],
        runtime.context.currency,
        runtime.tool_call_id,
        store.get(("prices",), item).value["price"] if store else None,
        runtime.config["configurable"]["thread_id"],
        len(runtime.tools),
    ]
    return " ".join(map(str, parts))


def with_call_id(id_: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Count a visit."""
    return Command(update={"visits": 1, "messages": [ToolMessage("counted", tool_call_id=id_)]})


def asked(name: str, id_: str = "1", **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args, "id": id_}


def agent(only: Any, *steps: Any, **options: Any) -> Any:
    model = ScriptedChatModel([*steps, "Done"])
    return create_agent(model, [only] if only else [], **{"state_schema": Shop, **options})


GO = {"messages": "Go", "user": "Ada"}


def test_a_field_of_the_state_is_injected(call: Any) -> None:
    """C23, A23, C36, E29, C31: as it is when the tool runs; the model cannot forge it."""
    forged = asked("one_field", user="Eve", greeting="Hello")
    for call_of_model, text in ((asked("one_field"), "Hi Ada"), (forged, "Hello Ada")):
        assert tool_texts(call(agent(one_field, [call_of_model]), GO)) == [text]
    with pytest.raises(KeyError, match="user"):
        call(agent(one_field, [asked("one_field")], handle_tool_errors=True), {"messages": "Go"})


def test_the_whole_state_is_injected(call: Any) -> None:
    """C23, A23: what hooks wrote, private keys included, and no managed value."""

    class Keeper(AgentMiddleware[Any, Any]):
        state_schema = Shop

        def before_model(self, state: Any, runtime: Any) -> Any:
            return {"secret": "s", "visits": 1}

    tool_agent = agent(whole_state, [asked("whole_state")], middleware=[Keeper()])
    assert tool_texts(call(tool_agent, GO)) == ["['messages', 'secret', 'user', 'visits'] after 2"]


def test_the_store_is_injected(call: Any) -> None:
    """C24, B6a, C30, E17: without one it fails, as the model could not fix that."""
    with_prices = agent(with_store, [asked("with_store")], store=prices())
    assert tool_texts(call(with_prices, GO)) == ["39"]
    poor = agent(with_store, [asked("with_store")], handle_tool_errors=True)
    with pytest.raises(ValueError, match="compile your graph with a store"):
        call(poor, GO)


def test_the_runtime_bundles_everything(collect: Any) -> None:
    """C32, C33, C35: state, context, store, config, call id, tools, the stream."""
    rich = agent(
        with_runtime,
        [asked("with_runtime", "call-7")],
        context_schema=Till,
        store=prices(),
        checkpointer=InMemorySaver(),
    )
    chunks = collect(rich, GO, THREAD, context=Till("EUR"), stream_mode=["custom", "values"])
    assert [chunk for mode, chunk in chunks if mode == "custom"] == [{"item": "lamp"}]
    assert tool_texts(chunks[-1][1]) == ["Ada EUR call-7 39 1 1"]


def test_a_tools_command_updates_the_state(call: Any) -> None:
    """C38, C57, C59: each of parallel ones, through the key's reducer."""
    step = [asked("with_call_id", "1"), asked("with_call_id", "2")]
    result = call(agent(with_call_id, step), {**GO, "visits": 5})
    assert result["visits"] == 7
    assert [(m.text, m.name) for m in result["messages"] if m.type == "tool"] == [
        ("counted", "with_call_id"),
        ("counted", "with_call_id"),
    ]


def test_the_model_does_not_see_injected_parameters(call: Any) -> None:
    """C25"""
    for given, shown in ((one_field, ["greeting"]), (with_runtime, ["item"]), (whole_state, [])):
        seen: list[Any] = []

        class Look(AgentMiddleware):
            def around_model(self, request: Any) -> Any:
                seen.extend(request.tools)  # noqa: B023  # called within this turn of the loop
                return (yield request)

        call(agent(given, middleware=[Look()]), GO)
        assert list(seen[0].tool_call_schema.model_json_schema()["properties"]) == shown


def test_tools_of_run_time_are_injected_too(call: Any) -> None:
    """C36: a tool that a layer brings has its state as well."""
    late = tool(one_field)

    class Late(AgentMiddleware):
        def around_tool(self, request: Any) -> Any:
            return (yield request.override(tool=late))

    forged = asked("one_field", user="Eve")
    assert tool_texts(call(agent(None, [forged], middleware=[Late()]), GO)) == ["Hi Ada"]


@pytest.mark.usefixtures("quick_gc")
def test_a_tool_and_what_its_function_belongs_to_are_let_go() -> None:
    """What was read of a tool is remembered, and the tool is not."""

    class Desk:
        def __init__(self) -> None:
            self.tool = StructuredTool.from_function(self.find)

        def find(self, query: str) -> str:
            """Find something."""
            return query

    desk = Desk()
    gone = weakref.ref(desk)
    create_agent(ScriptedChatModel(["Hi."]), [desk.tool])
    del desk
    gc.collect()
    assert gone() is None
