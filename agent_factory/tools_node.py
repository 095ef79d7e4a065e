"""The one node that runs tool calls: LangGraph's ToolNode, and what it leaves to its graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from agent_factory.compose import LayerCall, compose_tool_call
from agent_factory.errors import PathNotSupported
from agent_factory.introspect import Bound
from agent_factory.model_call import lacking, spanned
from agent_factory.routing import INVALID_CALL
from agent_factory.schema import RELAY
from agent_factory.spec import AgentSpec, colour_error
from agent_factory.topology import END, TOOLS, Call, Layer


class ToolsNode(Runnable[Any, Any]):
    """Runs the calls it is sent, in either colour.

    It answers calls whose arguments could not be read, turns a tool's `Command(goto=END)` into
    the end of the run, and keeps commands to a parent graph for `parent.relayed`.

    Args:
        spec: The agent.
    """

    def __init__(self, spec: AgentSpec) -> None:
        self.name = TOOLS
        layers = spec.layers_around(Call.TOOL)
        self._missing = lacking(layers, asynchronous=False), lacking(layers, asynchronous=True)
        wrap, awrap = (_composed(layers, self._missing, colour) for colour in (False, True))
        self.node: ToolNode = spec.toolbox.node(wrap, awrap, spec.handle_tool_errors)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Run the calls in a synchronous run."""
        calls, refused = self._sort(input, asynchronous=False)
        return _finish(self.node.invoke(calls, config), refused) if calls else _told(refused)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Run the calls in an asynchronous run."""
        calls, refused = self._sort(input, asynchronous=True)
        return _finish(await self.node.ainvoke(calls, config), refused) if calls else _told(refused)

    def _sort(self, input: Any, *, asynchronous: bool) -> tuple[Any, list[ToolMessage]]:
        """The calls to run, and answers to those that cannot be read."""
        # ToolNode would hand this to the model as a tool's error; it is the author's.
        if missing := self._missing[asynchronous]:
            raise PathNotSupported(*colour_error(missing, asynchronous=asynchronous))
        if not isinstance(input, list):
            return input, []
        calls = [call for call in input if call["type"] != INVALID_CALL]
        return calls, [_refused(call) for call in input if call["type"] == INVALID_CALL]


def _composed(
    layers: Sequence[Bound[Layer]],
    missing: tuple[Bound[Layer] | None, ...],
    asynchronous: bool,
) -> LayerCall | None:
    if missing[asynchronous]:
        return None
    return compose_tool_call(spanned(layers, asynchronous))


def _refused(call: dict[str, Any]) -> ToolMessage:
    return ToolMessage(
        f"Error: the arguments of {call['name']} could not be read as JSON: {call['args']}\n"
        f" {call['error'] or ''}\n Please fix your mistakes.",
        tool_call_id=call["id"],
        name=call["name"],
        status="error",
    )


def _told(messages: list[ToolMessage]) -> dict[str, Any]:
    return {"messages": messages}


def _finish(output: Any, refused: list[ToolMessage]) -> Any:
    if isinstance(output, dict):
        return {**output, "messages": [*output["messages"], *refused]} if refused else output
    updates = [_translated(item) if isinstance(item, Command) else item for item in output]
    return [*updates, _told(refused)] if refused else updates


def _translated(command: Command[Any]) -> Any:
    """A tool's command, with what it says of the run in words the loop understands."""
    if command.graph == Command.PARENT:
        return {RELAY: command}
    if command.goto in (END, [END], (END,)):
        update = command.update or {}
        pairs = list(update.items()) if isinstance(update, dict) else list(update)
        return Command(update=[*pairs, ("jump_to", "end")])
    return command
