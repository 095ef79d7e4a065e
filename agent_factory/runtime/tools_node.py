"""The one node that runs tool calls: LangGraph's ToolNode, and what it leaves to its graph."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.types import Command, Send

from agent_factory.decisions.recorder import NO_RECORDER, Recorder
from agent_factory.errors import PathNotSupported
from agent_factory.hooks.flows import then
from agent_factory.hooks.introspection import Bound, sync_async_error
from agent_factory.runtime.composition import (
    LayerCall,
    compose_layers,
    compose_tool_call,
    first_without_mode,
)
from agent_factory.runtime.routing import DIRECT, INVALID_CALL, PARALLEL_CALL
from agent_factory.runtime.spec import AgentSpec
from agent_factory.runtime.tool_signals import relay_to_parent, translate_command
from agent_factory.runtime.tracing import call_with_streaming, disable_streaming
from agent_factory.state.schema import TOOL_SIGNALS
from agent_factory.state.updates import check_keys, pairs_of
from agent_factory.tools.error_handling import DEFAULT_ERRORS
from agent_factory.tools.injection import takes_state
from agent_factory.tools.inline_call import with_context
from agent_factory.tools.tool_node import ToolNode
from agent_factory.topology.model import TOOLS, Layer

State = Mapping[str, Any]
Target = str | list[Send]


class StateCache:
    """What has been sent and not yet run, by the very list in which each call was sent.

    Args:
        keys: What tools see of the state: nothing that passes with a step.
    """

    SIZE = 256
    """How many calls are remembered. A call that pauses before it runs may linger."""

    def __init__(self, keys: Collection[str]) -> None:
        self._keys = frozenset(keys)
        self._sent: OrderedDict[int, tuple[list[Any], dict[str, Any]]] = OrderedDict()

    def keeping(self, choose: Callable[..., Target]) -> Callable[..., Target]:
        """A decision after which the state is at hand for the calls that it sends."""
        return partial(self._choose, choose)

    def _choose(self, choose: Callable[..., Target], state: State, config: Any = None) -> Target:
        target = choose(state)
        # What a hook has said after the model is given its id only as it is written.
        if isinstance(target, list) and isinstance(state["messages"][-1], AIMessage):
            for send in target:
                self.keep(send.arg, state)
        return target

    def keep(self, calls: list[Any], state: State) -> None:
        """Remember the state for a list of calls."""
        seen = {key: value for key, value in state.items() if key in self._keys}
        # Holding the list keeps its id from being reused.
        self._sent[id(calls)] = calls, seen
        if len(self._sent) > self.SIZE:
            self._sent.popitem(last=False)

    def take(self, calls: list[Any]) -> dict[str, Any] | None:
        """The state that a list of calls was sent with, once; None where it is not known."""
        sent, state = self._sent.pop(id(calls), (None, None))
        return state if sent is calls else None


Reading = Callable[[Command[Any]], Command[Any]]
"""What the loop makes of a tool's command."""


class Calls(list[dict[str, Any]]):
    """Calls that bring along the state which they are to see.

    Args:
        calls: The calls.
        state: The state.
    """

    def __init__(self, calls: Iterable[dict[str, Any]], state: Mapping[str, Any]) -> None:
        super().__init__(calls)
        self.state = state


class ToolsNode(Runnable[Any, Any]):
    """Runs the calls it is sent, in either colour.

    It answers calls whose arguments could not be read, and hands on what tools say of the run.

    Args:
        spec: The agent.
        keys: The keys of the agent's state.
        recorder: Records what it decides.
        around: What is put around all layers, if anything.
        sent: Knows the state that calls were sent with, or None.
    """

    def __init__(
        self,
        spec: AgentSpec,
        keys: Collection[str],
        recorder: Recorder = NO_RECORDER,
        around: Callable[[LayerCall], LayerCall] | None = None,
        sent: StateCache | None = None,
    ) -> None:
        self.name = TOOLS
        layers = spec.tool_layers
        self._missing = (
            first_without_mode(layers, asynchronous=False),
            first_without_mode(layers, asynchronous=True),
        )
        self._keys = frozenset(keys)
        self._direct = spec.toolbox.direct
        wrap, awrap = (
            None
            if self._missing[colour]
            else _composed(spec, layers, recorder, asynchronous=colour)
            for colour in (False, True)
        )
        if around is not None:
            wrap, awrap = (None if call is None else around(call) for call in (wrap, awrap))
        handler: Any = spec.handle_tool_errors
        handler, self._refused = recorder.handler(handler), recorder.refusing(_refused)
        self._view = spec.tool_state_view
        seen = bool(layers) or recorder.enabled or spec.toolbox.node is not None
        self._stateless = frozenset(
            name for name, tool in spec.toolbox.client.items() if not seen and not takes_state(tool)
        )
        blind = self._stateless >= spec.toolbox.client.keys()
        self.sent = None if blind else sent
        self.node = spec.toolbox.node or ToolNode(
            list(spec.toolbox.client.values()),
            handle_tool_errors=DEFAULT_ERRORS if handler is None else handler,
            wrap_tool_call=wrap,
            awrap_tool_call=awrap,
        )

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Run the calls in a synchronous run."""
        calls, refused = self._sort(input, asynchronous=False)
        output = self.node.invoke(calls, config) if calls else {"messages": []}
        return self._finish(input, output, refused)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Run the calls in an asynchronous run."""
        calls, refused = self._sort(input, asynchronous=True)
        output = await self.node.ainvoke(calls, config) if calls else {"messages": []}
        return self._finish(input, output, refused)

    def _sort(self, input: Any, *, asynchronous: bool) -> tuple[Any, list[ToolMessage]]:
        """The calls to run, and answers to those that cannot be read."""
        # ToolNode would hand this to the model as a tool's error; it is the author's.
        if missing := self._missing[asynchronous]:
            raise PathNotSupported(*sync_async_error(missing, asynchronous=asynchronous))
        if not isinstance(input, list):
            return (input if "__type" in input else self._view(input)), []
        refused = [self._refused(call) for call in input if call.get("type") == INVALID_CALL]
        calls = [_plain(call) for call in input if call.get("type") != INVALID_CALL]
        return self._seeing(calls, input), refused

    def _seeing(self, calls: list[ToolCall], input: list[Any]) -> Any:
        """The calls with the state they see, where ToolNode need not read it."""
        state = self._state_of(input)  # taken in any case, so that none is held for nothing
        if not self._stateless.issuperset(call["name"] for call in calls):
            one = len(calls) == 1 and state is not None
            return with_context(calls[0], state) if one else calls
        if len(calls) == 1:
            return with_context(calls[0], {})
        return {"messages": [AIMessage("", tool_calls=calls)]} if calls else calls

    def _state_of(self, input: list[Any]) -> Mapping[str, Any] | None:
        if isinstance(input, Calls):
            return input.state
        return None if self.sent is None else self.sent.take(input)

    def _finish(self, input: Any, output: Any, refused: list[ToolMessage]) -> Any:
        if isinstance(output, dict):
            told = {**output, "messages": _with_ids([*output["messages"], *refused])}
            return (
                {**told, TOOL_SIGNALS: DIRECT}
                if self._may_answer(input, told["messages"])
                else told
            )
        # A node that its author brought has no layers of ours, in which commands are read.
        output = [relay_to_parent(item) if isinstance(item, Command) else item for item in output]
        for item in output:
            if isinstance(item, Command) and item.graph is None:
                written = dict(pairs_of(item, "a tool"))
                check_keys(written, self._keys, "a tool")
                _with_ids(written.get("messages"))
            elif isinstance(item, dict):
                _with_ids(item.get("messages"))
        said: dict[str, Any] = {"messages": _with_ids(refused)} if refused else {}
        if self._may_answer(input, []):
            said[TOOL_SIGNALS] = DIRECT
        return [*output, said] if said else output

    def _may_answer(self, input: Any, messages: list[ToolMessage]) -> bool:
        """Whether a call that has others beside it ran a tool whose result ends the run."""
        if not any(isinstance(call, dict) and call.get("type") == PARALLEL_CALL for call in input):
            return False
        # A layer may have sent the call to another tool: the answer's name is what ran.
        ran = {message.name for message in messages} or {call["name"] for call in input}
        return bool(ran & self._direct)


def _with_ids(messages: Any) -> Any:
    """Messages of tools as they will be in the thread.

    LangGraph stores what a task has written before it is applied, and gives ids as it applies it:
    a thread that is read in between, or goes on from there, would have others each time.
    """
    for message in messages if isinstance(messages, list) else [messages]:
        if isinstance(message, BaseMessage) and message.id is None:
            message.id = str(uuid4())
    return messages


def _plain(call: dict[str, Any]) -> ToolCall:
    """A call without what it brought along for this node."""
    return ToolCall(name=call["name"], args=call["args"], id=call["id"], type="tool_call")


def _composed(
    spec: AgentSpec,
    layers: Sequence[Bound[Layer]],
    recorder: Recorder,
    *,
    asynchronous: bool,
) -> LayerCall:
    read = translate_command if spec.topology.style.tools_can_end_run else relay_to_parent
    call = partial(_call, compose_layers(layers, asynchronous, recorder, compose_tool_call), read)
    run = partial(_quietly, call) if layers else call
    return recorder.tools(run)


def _call(layers: LayerCall, read: Reading, request: Any, execute: Callable[[Any], Any]) -> Any:
    # Commands are read here, before ToolNode merges them.
    return then(layers(request, execute), partial(_read, read))


def _quietly(call: LayerCall, request: Any, execute: Callable[[Any], Any]) -> Any:
    """What models say in a layer is not heard, what they say in a tool is."""
    disable_streaming(request.runtime.config)
    return call(request, partial(call_with_streaming, execute))


def _read(read: Reading, result: Any) -> Any:
    if isinstance(result, list):
        return [_read(read, item) for item in result]
    return read(result) if isinstance(result, Command) else result


def _refused(call: dict[str, Any]) -> ToolMessage:
    return ToolMessage(
        f"Error: the arguments of {call['name']} could not be read as JSON: {call['args']}\n"
        f" {call['error'] or ''}\n Please fix your mistakes.",
        tool_call_id=call["id"],
        name=call["name"],
        status="error",
    )
