"""The one node that runs tool calls: LangGraph's ToolNode, and what it leaves to its graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from agent_factory.compose import LayerCall, compose_tool_call
from agent_factory.effects import then
from agent_factory.errors import PathNotSupported
from agent_factory.introspect import Bound, colour_error
from agent_factory.model_call import lacking, spanned
from agent_factory.routing import DIRECT_CALL, INVALID_CALL
from agent_factory.schema import RELAY
from agent_factory.signals import DIRECT, translated
from agent_factory.spec import AgentSpec
from agent_factory.topology import TOOLS, Call, Layer
from agent_factory.updates import check_keys, pairs_of


class ToolsNode(Runnable[Any, Any]):
    """Runs the calls it is sent, in either colour.

    It answers calls whose arguments could not be read, and hands on what tools say of the run.

    Args:
        spec: The agent.
        keys: The keys of the agent's state.
    """

    def __init__(self, spec: AgentSpec, keys: Collection[str]) -> None:
        self.name = TOOLS
        layers = spec.layers_around(Call.TOOL)
        self._missing = lacking(layers, asynchronous=False), lacking(layers, asynchronous=True)
        self._keys = frozenset(keys)
        wrap, awrap = (_composed(layers, self._missing, colour) for colour in (False, True))
        self.node: ToolNode = spec.toolbox.node(wrap, awrap, spec.handle_tool_errors)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Run the calls in a synchronous run."""
        calls, said = self._sort(input, asynchronous=False)
        return self._finish(self.node.invoke(calls, config), said) if calls else said

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Run the calls in an asynchronous run."""
        calls, said = self._sort(input, asynchronous=True)
        return self._finish(await self.node.ainvoke(calls, config), said) if calls else said

    def _sort(self, input: Any, *, asynchronous: bool) -> tuple[Any, dict[str, Any]]:
        """The calls to run, and what is to be said beside their results."""
        # ToolNode would hand this to the model as a tool's error; it is the author's.
        if missing := self._missing[asynchronous]:
            raise PathNotSupported(*colour_error(missing, asynchronous=asynchronous))
        if not isinstance(input, list):
            return input, {}
        refused = [_refused(call) for call in input if call.get("type") == INVALID_CALL]
        direct = any(call.get("type") == DIRECT_CALL for call in input)
        calls = [
            {**call, "type": "tool_call"} for call in input if call.get("type") != INVALID_CALL
        ]
        said: dict[str, Any] = {"messages": refused} if refused else {}
        return calls, {**said, RELAY: DIRECT} if direct else said

    def _finish(self, output: Any, said: dict[str, Any]) -> Any:
        if isinstance(output, dict):
            return {**output, **said, "messages": output["messages"] + said.get("messages", [])}
        for item in output:
            if isinstance(item, Command) and item.graph is None:
                check_keys(dict(pairs_of(item, "a tool")), self._keys, "a tool")
        return [*output, said] if said else output


def _composed(
    layers: Sequence[Bound[Layer]],
    missing: tuple[Bound[Layer] | None, ...],
    asynchronous: bool,
) -> LayerCall | None:
    if missing[asynchronous]:
        return None
    return partial(_run, compose_tool_call(spanned(layers, asynchronous)))


def _run(layers: LayerCall, request: Any, execute: Callable[[Any], Any]) -> Any:
    """A call through all layers. Commands are read before ToolNode merges them."""
    return then(layers(request, execute), _read)


def _read(result: Any) -> Any:
    if isinstance(result, list):
        return [_read(item) for item in result]
    return translated(result) if isinstance(result, Command) else result


def _refused(call: dict[str, Any]) -> ToolMessage:
    return ToolMessage(
        f"Error: the arguments of {call['name']} could not be read as JSON: {call['args']}\n"
        f" {call['error'] or ''}\n Please fix your mistakes.",
        tool_call_id=call["id"],
        name=call["name"],
        status="error",
    )
