"""Names that others build upon: of hooks and layers, of the ends of the loop, of its edges."""

from __future__ import annotations

from inspect import signature
from typing import Any

from agent_factory import AgentMiddleware, create_agent
from agent_factory.runtime import routing
from agent_factory.structured_output import ToolStrategy
from agent_factory.testing import ScriptedChatModel
from agent_factory.topology import Hook, Phase, Route, Shape, plan
from samples import Number, add, tool_texts
from tables import each

GO = {"messages": "Go"}
HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
LAYERS = ("wrap_model_call", "wrap_tool_call")


@each("name", [*HOOKS, *LAYERS])
def test_a_hook_or_a_layer_of_this_name_is_sync_and_async(name: str) -> None:
    parameters = ["state", "runtime"] if name in HOOKS else ["request", "handler"]
    for method in (getattr(AgentMiddleware, name), getattr(AgentMiddleware, f"a{name}")):
        assert list(signature(method).parameters) == ["self", *parameters]


def test_the_topology_names_the_ends_of_the_loop_and_of_the_run() -> None:
    topology = plan(Shape(tuple(Hook("A", phase) for phase in Phase), has_tools=True))
    names = (topology.entry, topology.loop_entry, topology.loop_exit, topology.exit)
    assert names == ("A.before_agent", "A.before_model", "A.after_model", "A.after_agent")


def test_the_edges_of_the_loop_are_made_by_these_functions() -> None:
    assert routing.ROUTES[Route.AFTER_MODEL] is routing._make_model_to_tools_edge
    assert routing.ROUTES[Route.AFTER_TOOLS] is routing._make_tools_to_model_edge


@each("fused", [True, False])
def test_one_tool_node_runs_the_calls_of_all_turns(call: Any, fused: bool) -> None:
    asked = [{"name": "add", "args": {"a": 1, "b": 2}, "id": id} for id in ("1", "2")]
    model = ScriptedChatModel([asked, "Done.", asked, "Done."])
    agent: Any = create_agent(model, [add], fused=fused)
    node = agent.nodes["tools"].bound.node
    for _ in range(2):
        assert tool_texts(call(agent, GO)) == ["3", "3"]
    assert agent.nodes["tools"].bound.node is node


def test_an_output_tool_stands_for_the_structured_answer(call: Any) -> None:
    model = ScriptedChatModel([[{"name": "Number", "args": {"n": 3}, "id": "1"}]])
    agent: Any = create_agent(model, response_format=ToolStrategy(Number))
    assert call(agent, GO)["structured_response"] == Number(n=3)
    assert agent.builder.spec.rules.output == {"Number"}
