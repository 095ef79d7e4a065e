"""The node of an agent that runs its tool calls, and the control signals that tools give.

Parallel tool calls are tasks that do not see each other's results. So a task does not act on what
concerns the run: a command to a parent graph and a result that may be the answer are written to a
private channel, a stop is written as the state's jump. The next node sees them all, and acts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.runtime import get_runtime
from langgraph.types import Command, Send

from agent_factory.decisions.recorder import Recorder
from agent_factory.errors import CommandNotSupported, PathNotSupported, UndeclaredJump
from agent_factory.hooks.flows import then
from agent_factory.hooks.introspection import sync_async_error
from agent_factory.runtime.composition import (
    ComposedCall,
    Handler,
    compose_layers,
    compose_tool_call,
    disable_streaming,
    first_without_mode,
)
from agent_factory.runtime.error_notes import add_notes
from agent_factory.runtime.handoffs import command_to_parent, targets_of
from agent_factory.runtime.routing import (
    DIRECT,
    INVALID_CALL,
    PARALLEL_CALL,
    WRITTEN,
    Choice,
    Rules,
    State,
    Target,
)
from agent_factory.runtime.spec import AgentSpec
from agent_factory.state.channels import random_id
from agent_factory.state.history import last_turn, with_reviewers
from agent_factory.state.schema import TOOL_SIGNALS
from agent_factory.state.updates import check_keys, pairs_of
from agent_factory.tools.error_handling import DEFAULT_HANDLER
from agent_factory.tools.injection import injection_of
from agent_factory.tools.results import check_results
from agent_factory.tools.tool_node import CallsWithState, layered_tool_node, with_context
from agent_factory.topology.model import END, TOOLS

NAMESPACE_MARK = "|"
"""Separator in a checkpoint namespace: that of a subgraph begins with its parent's."""


def with_state(calls: list[Any], state: State, keys: Collection[str]) -> CallsWithState:
    """Return calls with what their tools see of the state, which they would read again."""
    return CallsWithState(calls, {key: state[key] for key in keys if key in state})


def sending_state(choose: Choice, keys: Collection[str]) -> Choice:
    """Return a route that sends calls with the state that their tools see."""

    def route(state: State, config: RunnableConfig | None = None) -> Target:
        target = choose(state, config)
        # A message that a hook added after the model gets its id only when it is written.
        if isinstance(target, list) and isinstance(state["messages"][-1], AIMessage):
            return [Send(send.node, with_state(send.arg, state, keys)) for send in target]
        return target

    return route


class ToolsNode(Runnable[Any, Any]):
    """Node that runs the tool calls it is sent.

    It replies to calls with invalid JSON arguments itself.
    """

    def __init__(
        self,
        spec: AgentSpec,
        keys: Collection[str],
        recorder: Recorder,
        around: Callable[[Handler], Handler] | None,
        state_keys: Collection[str] | None,
        context_schema: type[Any] | None,
    ) -> None:
        self.name = TOOLS
        self._context_schema = context_schema
        layers = spec.tool_layers
        self._unsupported = [first_without_mode(layers, asynchronous=a) for a in (False, True)]
        self._keys = frozenset(keys)
        self._direct = spec.toolbox.direct
        self._view = spec.tool_state_view
        self._refused = recorder.refusing(_invalid_arguments, TOOLS, "invalid arguments")
        errors = spec.handle_tool_errors or DEFAULT_HANDLER
        if errors is not DEFAULT_HANDLER:
            errors = replace(errors, respond=recorder.handler(errors.respond))
        tools = spec.toolbox.client
        seen = bool(layers) or recorder.enabled or spec.toolbox.node is not None
        self._stateless = frozenset(
            name for name, tool in tools.items() if not seen and not injection_of(tool).takes_state
        )
        # Keys of the state that calls are sent with; None if tools read the state themselves.
        self.state_keys = None if self._stateless >= tools.keys() else state_keys
        compose = partial(_compose, spec, recorder, around)
        sync, asynchronous = (
            None if self._unsupported[a] else partial(compose, a) for a in (False, True)
        )
        self._toolbox = spec.toolbox
        self._options = errors, sync, asynchronous, bool(layers)

    # Many agents are built that never run, so what only runs need is made in the first run.

    @cached_property
    def node(self) -> LangGraphToolNode:
        """LangGraph's node, which runs the calls."""
        tools = list(self._toolbox.client.values())
        return self._toolbox.node or layered_tool_node(tools, *self._options)

    @property
    def tools_by_name(self) -> dict[str, BaseTool]:
        """The tools that run here, as LangGraph's ToolNode lists them."""
        return self.node.tools_by_name

    _tools_by_name = tools_by_name  # clients read the name that LangGraph's node has as well

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        calls, refused = self._read(input, asynchronous=False)
        try:
            output = self.node.invoke(calls, config) if calls else {"messages": []}
        except Exception as error:
            add_notes(error, self._context_schema)
            raise
        return self._finish(input, output, refused)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:
        calls, refused = self._read(input, asynchronous=True)
        try:
            output = await self.node.ainvoke(calls, config) if calls else {"messages": []}
        except Exception as error:
            add_notes(error, self._context_schema)
            raise
        return self._finish(input, output, refused)

    def _read(self, input: Any, *, asynchronous: bool) -> tuple[Any, list[ToolMessage]]:
        """Return the input of the ToolNode, and replies to calls with invalid arguments."""
        # Inside the ToolNode, the error handler could report this to the model.
        if unsupported := self._unsupported[asynchronous]:
            raise PathNotSupported(*sync_async_error(unsupported, asynchronous=asynchronous))
        if not isinstance(input, list):
            return (input if "__type" in input else self._view(input)), []
        state = input.state if isinstance(input, CallsWithState) else None
        refused, calls = [], []
        for call in input:
            if call.get("type") == INVALID_CALL:
                refused.append(self._refused(call))
            else:
                # Without the keys that the agent added for this node. The arguments are copied,
                # because a layer may change them, and a message of the thread holds them.
                args, id = {**call["args"]}, call["id"]
                calls.append(ToolCall(name=call["name"], args=args, id=id, type="tool_call"))
        if self._stateless.issuperset(call["name"] for call in calls):
            state = {}
        if state is None or not calls:
            return calls, refused
        if len(calls) == 1:
            return with_context(calls[0], state), refused
        return CallsWithState(calls, state), refused

    def _finish(self, input: Any, output: Any, refused: list[ToolMessage]) -> Any:
        """Return the update of the node, with ids for its messages."""
        if self._toolbox.node is not None:  # a node of ours checks the result of each call
            if isinstance(input, list):
                calls, state = input, getattr(input, "state", {})
            elif "__type" in input:
                calls, state = [input["tool_call"]], input["state"]
            else:
                message, _ = last_turn(input["messages"])
                calls, state = message.tool_calls if message else [], input
            results = output["messages"] if isinstance(output, dict) else output
            check_results("", calls, results, state)
        if isinstance(output, dict):
            messages = _with_ids([*output["messages"], *refused])
            signal = {TOOL_SIGNALS: DIRECT} if self._may_answer(input, messages) else {}
            return {**output, "messages": messages, **signal}
        # A ToolNode that the author brought has no layers of ours, which translate commands.
        output = [relay_to_parent(item) if isinstance(item, Command) else item for item in output]
        for item in output:
            if isinstance(item, Command) and item.graph is None:
                update = dict(pairs_of(item, "a tool"))
                check_keys(update, self._keys, "a tool")
                _with_ids(update.get("messages"))
            elif isinstance(item, dict):
                _with_ids(item.get("messages"))
        own: dict[str, Any] = {"messages": _with_ids(refused)} if refused else {}
        if self._may_answer(input, []):
            own[TOOL_SIGNALS] = DIRECT
        return [*output, own] if own else output

    def _may_answer(self, input: Any, messages: list[ToolMessage]) -> bool:
        """Whether one of parallel calls ran a tool whose result ends the run."""
        if not any(isinstance(call, dict) and call.get("type") == PARALLEL_CALL for call in input):
            return False
        # A layer may have redirected the call: the name of the result is the tool that ran.
        ran = {message.name for message in messages} or {call["name"] for call in input}
        return bool(ran & self._direct)


def _compose(
    spec: AgentSpec,
    recorder: Recorder,
    around: Callable[[Handler], Handler] | None,
    asynchronous: bool,
    execute: Handler,
) -> Handler:
    """Compose the layers around the execution of a tool, and translate the commands it returns."""
    layers = spec.tool_layers
    translate = translate_command if spec.topology.style.tools_can_end_run else relay_to_parent
    execute = recorder.execution(execute)
    composed = compose_layers(
        layers, asynchronous, recorder, lambda named: compose_tool_call(named, execute)
    )

    def translated(result: Any) -> Any:
        # Here, and not in `_finish`: the ToolNode merges commands to the parent graph.
        if isinstance(result, list):
            return [translated(part) for part in result]
        return translate(result) if isinstance(result, Command) else result

    # Reviewers are layers. Without layers, some tools get no state.
    moved = {move.old: move.new for move in spec.topology.moved} if layers else {}

    def call_layers(request: Any) -> Any:
        if moved:
            messages = with_reviewers(request.state["messages"], moved)
            request = replace(request, state={**request.state, "messages": messages})
        if isinstance(composed, ComposedCall):
            # Models that layers call do not stream to the caller of the agent.
            disable_streaming(request.runtime.config)
            return then(composed.select()(request), translated)
        return then(composed(request), translated)

    call = recorder.tools(call_layers)
    return call if around is None else around(call)


def _with_ids(messages: Any) -> Any:
    """Give messages of tools the ids that they will have in the thread.

    LangGraph stores the writes of a task before it applies them, and gives ids when it applies
    them: a thread that is read or resumed in between would have other ids each time.
    """
    for message in messages if isinstance(messages, list) else [messages]:
        if isinstance(message, BaseMessage) and message.id is None:
            message.id = random_id()
    return messages


def _invalid_arguments(call: dict[str, Any]) -> ToolMessage:
    return ToolMessage(
        f"Error: the arguments of {call['name']} could not be read as JSON: {call['args']}\n"
        f" {call['error'] or ''}\n Please fix your mistakes.",
        tool_call_id=call["id"],
        name=call["name"],
        status="error",
    )


# Control signals


def translate_command(command: Command[Any]) -> Command[Any]:
    """Translate a tool's command into an update of the agent loop's state."""
    if command.graph == Command.PARENT:
        return relay_to_parent(command)
    pairs = pairs_of(command, "a tool")
    update = dict(pairs)
    jump = update.get("jump_to")
    if jump not in (None, "end"):
        raise UndeclaredJump("a tool", f"jumped to {jump!r}.", "A tool can only jump to 'end'.")
    signals = {}
    if command.goto in (END, [END], (END,)):
        signals["jump_to"] = "end"
    elif nodes := [target for target in targets_of(command) if not isinstance(target, Send)]:
        raise CommandNotSupported(
            "a tool",
            f"returned a Command with goto={nodes!r}, and the edge of the tools would be taken "
            "too.",
            "Use goto=END to stop the run, and graph=Command.PARENT to go to a node of the parent.",
        )
    if update.get("structured_response") is not None:
        signals[TOOL_SIGNALS] = WRITTEN
    if not signals:
        return command
    pairs += signals.items()
    # A dict if no key occurs twice: LangGraph's streams show the updates of dicts only.
    return replace(
        command,
        update=dict(pairs) if len(dict(pairs)) == len(pairs) else pairs,
        goto=() if "jump_to" in signals else command.goto,
    )


def relay_to_parent(command: Command[Any]) -> Command[Any]:
    """Store a command to the parent graph for the next node; return another command unchanged."""
    return Command(update={TOOL_SIGNALS: command}) if command.graph == Command.PARENT else command


def pending_exit(state: State, rules: Rules) -> Any:
    """Return what a node in the loop returns instead of running, because tools ended the run.

    All tools of a turn lead to the entry of the loop. If one of them stopped the run, or their
    results are its answer, the jump passes from node to node until it can be followed. Otherwise
    this is None.
    """
    signals = state.get(TOOL_SIGNALS) or ()
    if not signals and state.get("jump_to") != "end":
        return None
    if commands := [signal for signal in signals if isinstance(signal, Command)]:
        info = get_runtime().execution_info
        if info is not None and NAMESPACE_MARK not in info.checkpoint_ns:
            raise CommandNotSupported(
                "a tool",
                "returned a Command to the parent graph, and this agent has no parent.",
                "Add the agent to a graph as a node, or leave out graph=Command.PARENT.",
            )
        return command_to_parent(commands, state["messages"])
    ends = state.get("jump_to") == "end" or state.get("structured_response") is not None
    if not ends:
        message, tail = last_turn(state["messages"])
        ends = message is not None and rules.returns(message, tail)
    return {"jump_to": "end"} if ends else None
