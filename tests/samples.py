"""Tools, schemas and plans that many tests use, and short ways to read a result.

Test files import it as `samples`: pytest puts this folder on the path (`pythonpath` in
pyproject.toml).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest
from hypothesis import strategies as st
from langchain_core.tools import tool
from pydantic import BaseModel

from agent_factory import AgentMiddleware, Topology, hook_config, plan_agent
from agent_factory.topology.model import JUMPS, Call, Hook, Layer, Phase, Shape, Tool
from agent_factory.topology.model import ToolKind as Kind


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


add_tool = tool(add)


class Answer(BaseModel):
    number: int


def last_text(result: Any) -> str:
    """The text of the last message."""
    return str(result["messages"][-1].text)


def tool_results(result: Any) -> list[tuple[str, str]]:
    """The text and the status of each tool message."""
    return [(m.text, m.status) for m in result["messages"] if m.type == "tool"]


def find(query: str) -> str:
    """Find."""
    return query


class Guard(AgentMiddleware):
    """Middleware with hooks, a jump and both kinds of layers."""

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> None:
        """Look."""

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Look."""

    def around_model(self, request: Any) -> Any:
        return (yield request)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)


class PassingWraps:
    """Wraps of a middleware that pass everything on; a mixin."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request)


def combinations(*dimensions: Iterable[Any], every: int, first: int = 0) -> list[Any]:
    """Parameters: each combination of values, of which one in `every` is not long.

    Args:
        dimensions: The values of each parameter.
        every: The sum of the places of the values is a multiple of it in short tests. So each value
            has a short test where the other dimensions have at least as many values.
        first: Another beginning, so that tests of the same values have other short ones.
    """
    params = []
    for combination in product(*(enumerate(values) for values in dimensions)):
        places, values = zip(*combination, strict=True)
        marks = [pytest.mark.long] if (sum(places) - first) % every else []
        names = [str(getattr(value, "name", getattr(value, "__name__", value))) for value in values]
        params.append(pytest.param(*values, marks=marks, id="-".join(names)))
    return params


def full_plan() -> Topology:
    """A plan with hooks, layers, a jump, and tools of every kind."""
    return plan_agent(
        tools=[find, {"type": "web_search"}],
        middleware=[Guard(), Guard(name="other")],
        response_format={"title": "Answer", "type": "object"},
    )


def shapes(*, unique_layers: bool = False) -> st.SearchStrategy[Shape]:
    """Shapes of agents, with hooks, layers and tools of every kind."""
    jumps = st.frozensets(st.sampled_from(JUMPS))
    hooks = st.lists(
        st.builds(Hook, st.sampled_from("ABC"), st.sampled_from(Phase), jumps),
        unique_by=lambda hook: hook.node,
    )
    layers = st.lists(
        st.builds(Layer, st.sampled_from("ABC"), st.sampled_from(Call), st.just("x")),
        unique=unique_layers,
    )
    tools = st.lists(
        st.builds(Tool, st.sampled_from("tuv"), st.sampled_from(Kind), st.booleans()),
        unique_by=lambda tool: tool.name,
    )
    return st.builds(_shape, hooks, layers, tools, st.booleans())


def _shape(hooks: list[Hook], layers: list[Layer], tools: list[Tool], provider: bool) -> Shape:
    has_tools = any(tool.kind is Kind.CLIENT for tool in tools)
    if not has_tools:  # what create_agent refuses
        hooks = [Hook(h.owner, h.phase, h.can_jump_to - {"tools"}) for h in hooks]
    structured = provider or any(tool.kind is Kind.OUTPUT for tool in tools)
    answers = structured or any(layer.call is Call.MODEL for layer in layers)
    return Shape(tuple(hooks), tuple(layers), has_tools, answers, structured, tuple(tools))
