"""What create_react_agent takes and what it refuses, before anything runs (B1-B15, B52, B58)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, TypedDict

import langgraph.prebuilt.interrupt
import pytest
from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.warnings import LangGraphDeprecatedSinceV10
from pydantic import BaseModel

import agent_factory
from agent_factory import create_react_agent, prebuilt
from agent_factory.errors import ArgumentError, SpecError
from agent_factory.prebuilt.react_errors import ReactArgumentError
from samples import THREAD, fail, nothing, scripted
from samples import add_tool as add
from tables import each

ASK = {"messages": [("user", "2 + 3?")]}


ADD = [{"name": "add", "args": {"a": 2, "b": 3}}]


def test_every_name_of_langgraph_prebuilt_can_be_imported() -> None:
    """B8"""
    assert agent_factory.create_react_agent is prebuilt.create_react_agent
    assert {*langgraph.prebuilt.__all__, "AgentState", "AgentStatePydantic"} <= {*prebuilt.__all__}
    assert all(hasattr(prebuilt, name) for name in prebuilt.__all__)
    assert prebuilt.ToolNode is agent_factory.ToolNode
    with pytest.raises(AttributeError, match="no attribute 'create_agent_react'"):
        _ = prebuilt.create_agent_react
    # The forms of agent-inbox
    for name in ("ActionRequest", "HumanInterrupt", "HumanInterruptConfig", "HumanResponse"):
        assert getattr(prebuilt, name) is getattr(langgraph.prebuilt.interrupt, name)


@each("given", [{"retries": 1}, {"a": 1, "b": 2}])
def test_an_unknown_parameter_is_refused(given: Any) -> None:
    """B2"""
    with pytest.raises(TypeError) as caught:
        create_react_agent(scripted(), [], **given)
    assert str(caught.value) == (f"create_react_agent() got unexpected keyword arguments: {given}")


@each(
    "given, subject",
    [
        ({"model": None}, "model"),
        ({"model": dict}, "model"),
        ({"tools": None}, "tools"),
        ({"tools": add}, "tools"),
        ({"name": 3}, "name"),
        ({"checkpointer": 3}, "checkpointer"),
        ({"interrupt_before": "agent"}, "interrupt_before"),
        ({"pre_model_hook": "trim"}, "pre_model_hook"),
        ({"post_model_hook": 3}, "post_model_hook"),
        ({"state_schema": 3}, "state_schema"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(given: Any, subject: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        create_react_agent(**{"model": scripted(), "tools": [], **given})
    assert caught.value.subject == subject


def test_config_schema_is_the_context_schema_of_yesterday() -> None:
    """B3: it warns once, at the caller's line."""
    with pytest.warns(LangGraphDeprecatedSinceV10) as caught:
        agent = create_react_agent(scripted(), [], config_schema=Context)
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message).startswith(
        "`config_schema` is deprecated and will be removed. Please use `context_schema` instead."
    )
    assert agent.context_schema is Context
    with pytest.warns(LangGraphDeprecatedSinceV10):
        agent = create_react_agent(scripted(), [], context_schema=Context, config_schema=dict)
    assert agent.context_schema is Context


@each("version", ["v3", None, 2])
def test_another_version_is_refused(version: Any) -> None:
    """B4"""
    with pytest.raises(ValueError, match="Invalid version") as caught:
        create_react_agent(scripted(), [add], version=version)
    known = f"Invalid version {version}. Supported versions are 'v1' and 'v2'."
    assert str(caught.value) == known
    assert isinstance(caught.value, SpecError)


@each("tools", [[add], []])
def test_a_hook_after_the_model_needs_the_version_that_has_one(tools: Any) -> None:
    """B52, E28"""
    with pytest.raises(ReactArgumentError, match="needs version 'v2'") as caught:
        create_react_agent(scripted(), tools, post_model_hook=nothing, version="v1")
    assert caught.value.hint


class Bare(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Steps(Bare):
    remaining_steps: NotRequired[RemainingSteps]


class Empty(BaseModel):
    pass


@each(
    "schema, more, missing",
    [
        (Bare, {}, {"remaining_steps"}),
        (Steps, {"response_format": Empty}, {"structured_response"}),
        (Empty, {}, {"messages", "remaining_steps"}),
    ],
)
def test_a_state_schema_without_keys_is_refused(schema: Any, more: Any, missing: set[str]) -> None:
    """B9, E6"""
    with pytest.raises(ValueError, match="Missing required key") as caught:
        create_react_agent(scripted(), [add], state_schema=schema, **more)
    message = str(caught.value)
    assert message.startswith("Missing required key(s) {")
    assert message.endswith("} in state_schema")
    assert all(repr(key) in message for key in missing)


def test_a_state_schema_that_cannot_be_read_is_refused() -> None:
    class Broken(Steps):
        mood: "Mood"  # type: ignore[name-defined]  # noqa: F821, UP037

    class Other:
        messages: Annotated[list[AnyMessage], add_messages]
        remaining_steps: RemainingSteps

    for schema in (Broken, Other):
        with pytest.raises(ReactArgumentError, match="cannot be read as a state schema"):
            create_react_agent(scripted(), [add], state_schema=schema)


@dataclass
class Context:
    user: str


def test_a_run_has_its_own_limit() -> None:
    """E8: not LangGraph's, which an environment variable sets."""
    agent: Any = create_react_agent(scripted(), [])
    assert agent.config["recursion_limit"] == 9_999


@each(
    "given, after",
    [
        ({"interrupt_before": ["tools"]}, ("tools",)),
        ({"interrupt_before": ("tools",)}, ("tools",)),
        ({"interrupt_after": ["agent"]}, ("tools",)),
        ({"interrupt_before": "*"}, ("agent",)),
    ],
)
def test_a_run_pauses_at_the_named_nodes_and_continues(given: Any, after: Any, call: Any) -> None:
    """B58, D20-D22"""
    agent = create_react_agent(
        scripted(ADD, "It is 5."), [add], checkpointer=InMemorySaver(), **given
    )
    call(agent, ASK, THREAD)
    assert agent.get_state(THREAD).next == after
    while agent.get_state(THREAD).next:
        call(agent, None, THREAD)
    assert agent.get_state(THREAD).values["messages"][-1].text == "It is 5."


def test_a_pause_at_no_node_is_refused() -> None:
    """B58"""
    with pytest.raises(SpecError, match=r"^\[AF116\] .*Its nodes are agent"):
        create_react_agent(scripted(), [], interrupt_before=["tools"])


def test_context_and_store_reach_tools_and_hooks(call: Any) -> None:
    """B6a, B58"""
    seen: list[Any] = []

    @tool
    def ask(runtime: ToolRuntime[Context, Any]) -> str:
        """Ask."""
        item = runtime.store and runtime.store.get(("users",), runtime.context.user)
        seen.append(item and item.value)
        return "asked"

    def hook(state: Any, runtime: Runtime[Context]) -> dict[str, Any]:
        seen.append(runtime.context.user)
        return {}

    store = InMemoryStore()
    store.put(("users",), "ada", {"age": 36})
    agent = create_react_agent(
        scripted([{"name": "ask", "args": {}}], "Done."),
        [ask],
        pre_model_hook=hook,
        context_schema=Context,
        store=store,
    )
    call(agent, ASK, context=Context("ada"))
    assert seen == ["ada", {"age": 36}, "ada"]


def test_debug_logs_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    """B7"""
    create_react_agent(scripted(), [], debug=True).invoke(ASK)
    assert "[values]" in capsys.readouterr().out


def plain(a: int) -> int:
    """A function."""
    return a


WEB = {"type": "web_search_preview"}


@each("tools", [[add], (add,), [plain], [add, plain], iter([add])])
def test_tools_are_tools_or_functions(tools: Any) -> None:
    """B13"""
    assert "tools" in create_react_agent(scripted(), tools).nodes


@each("tools", [[], [WEB]])
def test_without_a_tool_to_run_the_model_is_asked_once(tools: Any, call: Any) -> None:
    """B14, B15: a provider's tool is bound, and run there."""
    asked = scripted()
    agent = create_react_agent(asked, tools)
    assert "tools" not in agent.nodes
    assert call(agent, ASK)["messages"][-1].text == "Hello"
    assert len(asked.requests[0].tools) == len(tools)


class Loud(ToolNode):
    """A node of the user's own."""


@each("version", ["v1", "v2"])
def test_a_tool_node_is_used_as_it_is(version: Any, call: Any) -> None:
    """B13, B61: with its own way to handle errors; its name is not that of the node."""
    node = Loud([fail, add], name="my_tools", handle_tool_errors="Oh no.")
    asked = scripted([{"name": "fail", "args": {}}, *ADD], "Done.")
    agent = create_react_agent(asked, node, version=version)
    assert "tools" in agent.nodes
    assert "my_tools" not in agent.nodes
    assert [m.text for m in call(agent, ASK)["messages"][2:4]] == ["Oh no.", "5"]
    assert sorted(asked.requests[0].tools) == ["add", "fail"]


def test_a_tool_that_is_none_is_refused() -> None:
    with pytest.raises(SpecError, match="docstring"):
        create_react_agent(scripted(), [lambda a: a])


def test_a_runnable_is_a_hook_as_well(call: Any) -> None:
    """B1, B60"""
    hook: Runnable[Any, Any] = RunnableLambda(
        lambda state: {"llm_input_messages": [("user", "Only this")]}
    )
    asked = scripted()
    call(create_react_agent(asked, [], pre_model_hook=hook), ASK)
    assert [m.text for m in asked.requests[0].messages] == ["Only this"]
