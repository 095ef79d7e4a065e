"""One contract, two nodes: LangGraph's ToolNode, on which everything rests, and ours in its place.

A test that asks for `kind` holds for both. Where they differ, a pair of tests says how, so that an
upgrade of LangGraph that changes either side is noticed. The numbers in the names are those of the
contract: C for ToolNode, D for tools_condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.runtime import Runtime

from agent_factory import ToolNode

Run = Callable[..., Any]


@pytest.fixture(params=[LangGraphToolNode, ToolNode], ids=["langgraph", "ours"])
def kind(request: pytest.FixtureRequest) -> Any:
    """Either class."""
    return request.param


@pytest.fixture
def run(call: Run) -> Run:
    """Run a node outside a graph, in either colour: `run(node, input, store=..., context=...)`."""

    def runs(node: Any, input: Any, config: Any = None, **known: Any) -> Any:
        return call(node, input, config or {}, runtime=Runtime(**known))

    return runs


@pytest.fixture
def ask() -> Callable[..., list[Any]]:
    """A history that ends with calls: `ask(("add", {"a": 1}), ...)`, with the ids "1", "2", ..."""

    def asks(*calls: tuple[str, dict[str, Any]]) -> list[Any]:
        numbered = enumerate(calls, start=1)
        asked = [{"name": name, "args": args, "id": str(id)} for id, (name, args) in numbered]
        return [AIMessage("", tool_calls=asked)]

    return asks
