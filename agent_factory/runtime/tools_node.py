"""The node of an agent that runs its tool calls, and the control signals of tools.

Parallel tool calls are tasks that do not see each other's results. So a task does not decide about
the run: a command to a parent graph, and a result that may be the answer, are written to a private
channel; a stop is written as the state's jump. The next node sees all of them, and decides.

A task for each call costs more than most calls. In runs without storage, one task takes the calls
of a turn. If a call waits for an answer or fails, each call is sent to a separate task, with its
outcome. Where a thread is stored, each call has its task from the start: a graph called by the tool
is resumed there. `turn` has the node of an agent whose calls may wait for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolNode as LangGraphToolNode
from langgraph.runtime import get_runtime
from langgraph.types import Command, Send

from agent_factory.counts import COUNTS, astore_counts, store_counts
from agent_factory.decisions.recorder import Recorder
from agent_factory.errors import CommandNotSupported, PathNotSupported, UndeclaredJump
from agent_factory.hooks.flows import then
from agent_factory.hooks.introspection import sync_async_error
from agent_factory.providers.endings import CUT_CALL
from agent_factory.runtime.composition import (
    ComposedCall,
    Handler,
    compose_layers,
    compose_tool_call,
    disable_streaming,
    first_without_mode,
    streaming_enabled,
)
from agent_factory.runtime.error_notes import add_notes
from agent_factory.runtime.guards import Guards
from agent_factory.runtime.handoffs import command_to_parent, targets_of
from agent_factory.runtime.outcomes import Outcome, Result, outcome_of, repeat
from agent_factory.runtime.routing import (
    DIRECT,
    INVALID_CALL,
    PARALLEL_CALL,
    WRITTEN,
    Choice,
    InstantRunnable,
    Rules,
    State,
    Target,
    taken_answer,
)
from agent_factory.runtime.spec import AgentSpec
from agent_factory.runtime.step import Run, Stage, run_of
from agent_factory.state.channels import random_id
from agent_factory.state.history import error_result, last_turn, with_reviewers
from agent_factory.state.schema import ANSWER, TOOL_SIGNALS
from agent_factory.state.updates import check_keys, pairs_of
from agent_factory.tools.error_handling import DEFAULT_HANDLER
from agent_factory.tools.injection import injection_of
from agent_factory.tools.results import check_results
from agent_factory.tools.tool_node import (
    CallsWithState,
    ToolNode,
    layered_tool_node,
    with_context,
    with_state,
)
from agent_factory.topology.model import END, TOOLS
from agent_factory.types import run_services
from agent_factory.upstream import raise_late, saver_of

NAMESPACE_MARK = "|"
"""Separator in a checkpoint namespace: a subgraph's namespace begins with its parent's."""


def sending_state(choose: Choice, keys: Collection[str]) -> Choice:
    """Return a route that sends calls with the state for their tools."""

    def route(state: State, config: RunnableConfig | None = None) -> Target:
        target = choose(state, config)
        # A message added by a hook after the model gets its id only when it is written.
        if isinstance(target, list) and isinstance(state["messages"][-1], AIMessage):
            return [Send(send.node, with_state(send.arg, state, keys)) for send in target]
        return target

    return route


class SentCall(list[Any]):
    """A call that is sent to its own task, with its outcome in an earlier task.

    The task raises the error, asks the question or returns the result again, once: a policy of
    retries runs the call.
    """

    def __init__(self, call: Mapping[str, Any], outcome: Outcome | None) -> None:
        super().__init__([call])
        self.outcome = outcome

    def __reduce__(self) -> tuple[object, ...]:
        return list, (list(self),)  # a checkpoint holds the call alone, which runs again


class Resend(Command[Any]):
    """The next calls of the turn; no edge is taken."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """The calls of one task, with results and failures by the id of the call."""

    run: Run
    config: RunnableConfig | None
    asynchronous: bool
    single: bool  # there is only one call, with errors for the task
    outcome: Outcome | None  # of the call, if it ran in an earlier task
    results: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)  # of its calls, if asynchronous

    def finish(self, call: str, result: object) -> object:
        self.results[call] = result
        return result

    def fail(self, call: str, error: BaseException) -> ToolMessage:
        """Note the error of a call, and return a placeholder for the result."""
        # A cancellation or the end of the process concerns all calls, not this call.
        if not isinstance(error, Exception):
            raise error
        self.failures[call] = error
        return ToolMessage("", tool_call_id=call)

    def resend(self, calls: list[dict[str, Any]]) -> Resend:
        """Return all calls, each for its own task, after a failure or a question of one call."""
        outcomes: dict[str, Outcome | None] = {i: Result(r) for i, r in self.results.items()}
        for call_id, error in self.failures.items():
            outcomes[call_id] = outcome_of(error, self.config, self.run.single_step)
        self.run.ahead -= 1  # the calls take one more step
        sends = [Send(TOOLS, SentCall(call, outcomes.get(call["id"]))) for call in calls]
        return Resend(update=COUNTS.get() or None, goto=sends)


_batch: ContextVar[_Batch | None] = ContextVar("batch", default=None)


class ToolsNode(ToolNode):
    """Node that runs tool calls.

    The node itself replies to calls with invalid JSON arguments. The class is a ToolNode, because
    programs look for a ToolNode among the nodes of an agent and read its tools. The calls run in
    `node`, for sync and async runs alike.
    """

    streams = True
    needs_thread = False
    has_trace_policy = False

    def __init__(
        self,
        spec: AgentSpec,
        keys: Collection[str],
        recorder: Recorder,
        state_keys: Collection[str] | None,
        context_schema: type[object] | None,
        guards: Guards | None = None,
    ) -> None:
        self.name = TOOLS
        self._guards = guards
        # Attributes that LangGraph reads of a ToolNode: whether it is async, and may call a graph.
        # The base class would read the signature of each tool now, and not in the first run.
        self.func, self.afunc = None, self.ainvoke
        self._context_schema = context_schema
        layers = spec.tool_layers
        # For sync and async: `asynchronous` is the index.
        self._first_unsupported = [
            first_without_mode(layers, asynchronous=a) for a in (False, True)
        ]
        self._keys = frozenset(keys)
        self._direct, self._view = spec.toolbox.direct, spec.tool_state_view
        self._targets = (END, *spec.topology.edge_from(TOOLS).targets)
        self._refuse = recorder.refusing(_invalid_arguments, TOOLS, "invalid arguments")
        errors = spec.handle_tool_errors or DEFAULT_HANDLER
        if errors is not DEFAULT_HANDLER:
            errors = replace(errors, respond=recorder.handler(errors.respond))
        tools = spec.toolbox.client
        is_visible = bool(layers) or recorder.enabled or spec.toolbox.node is not None
        self._stateless = frozenset(
            name
            for name, tool in tools.items()
            if not is_visible and not injection_of(tool).takes_state
        )
        # Keys of the state to send with calls; None if tools read the state themselves.
        self.state_keys = None if self._stateless >= tools.keys() else state_keys
        compose = partial(_compose, spec, recorder)
        sync, asynchronous = (
            None if self._first_unsupported[a] else partial(compose, a) for a in (False, True)
        )
        self._toolbox = spec.toolbox
        self._execution = errors, sync, asynchronous
        self._last_layer = layers[-1].definition if layers else None

    # Many agents are built and never run, so the first run makes the parts for runs.

    @cached_property
    def node(self) -> LangGraphToolNode:
        """LangGraph's node, which runs the calls."""
        tools, layer = list(self._toolbox.client.values()), self._last_layer
        name = f"{layer.owner}.{layer.method}" if layer else ""
        scope = streaming_enabled if layer else nullcontext
        return self._toolbox.node or layered_tool_node(tools, *self._execution, name, scope)

    @cached_property
    def _tools_by_name(self) -> dict[str, BaseTool]:  # type: ignore[override]  # can be set
        return self.node.tools_by_name  # read by `tools_by_name`, and by programs

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: object) -> object:
        batch, calls, refusals = self._begin(input, config, asynchronous=False)
        try:
            output = self.node.invoke(calls, config) if calls else {"messages": []}
        except Exception as error:
            store_counts(config)
            self._prepare_error(error, config)
            raise
        if batch.failures:
            return batch.resend(input)
        update = self._finish(input, output, refusals)
        return update if self._guards is None else self._guards.result(update)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> object:
        batch, calls, refusals = self._begin(input, config, asynchronous=True)
        try:
            output = await self.node.ainvoke(calls, config) if calls else {"messages": []}
        except asyncio.CancelledError:
            if batch.tasks:  # ToolNode waits for the first cancelled call only
                await asyncio.wait(batch.tasks)
            raise
        except Exception as error:
            await astore_counts(config)
            self._prepare_error(error, config)
            raise
        if batch.failures:
            return batch.resend(input)
        update = self._finish(input, output, refusals)
        return update if self._guards is None else self._guards.result(update)

    def _begin(
        self, input: Any, config: RunnableConfig | None, *, asynchronous: bool
    ) -> tuple[_Batch, object, list[ToolMessage]]:
        """Return the batch, the input of ToolNode, and replies to calls with invalid arguments."""
        # A thread of another graph may be paused at its tools, with the whole state as the input.
        is_single, outcome = not isinstance(input, list) or len(input) < 2, None
        if type(input) is SentCall:
            outcome, input.outcome = input.outcome, None
        batch = _Batch(run_of(config) or Run(), config, asynchronous, is_single, outcome)
        # Never reset: LangGraph runs each task in a copy of the context, and ToolNode's threads
        # copy the copy.
        _batch.set(batch)
        COUNTS.set({})
        services = run_services.get()
        if services.guards is not self._guards:
            run_services.set(replace(services, guards=self._guards))
        # Inside the ToolNode, the error handler could report this to the model.
        if layer := self._first_unsupported[asynchronous]:
            raise PathNotSupported(*sync_async_error(layer, asynchronous=asynchronous))
        if not isinstance(input, list):
            return batch, (input if "__type" in input else self._view(input)), []
        state = input.state if isinstance(input, CallsWithState) else None
        refusals, calls = [], []
        for call in input:
            if call.get("type") == INVALID_CALL:
                refusals.append(self._refuse(call))
            else:
                # Without the keys that the agent added for this node. The arguments are copied,
                # because a layer may change them, and a message of the thread holds them.
                args, id = {**call["args"]}, call["id"]
                calls.append(ToolCall(name=call["name"], args=args, id=id, type="tool_call"))
        if self._stateless.issuperset(call["name"] for call in calls):
            state = {}
        if state is None or not calls:
            return batch, calls, refusals
        if len(calls) == 1:
            return batch, with_context(calls[0], state), refusals
        return batch, CallsWithState(calls, state), refusals

    def _finish(self, input: Any, output: Any, refusals: list[ToolMessage]) -> object:
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
            messages = _with_ids([*output["messages"], *refusals])
            signal = {TOOL_SIGNALS: DIRECT} if self._may_answer(input, messages) else {}
            return {**output, "messages": messages, **signal, **(COUNTS.get() or {})}
        # A ToolNode of the author has no layers of ours, which translate commands.
        output = [relay_to_parent(item) if isinstance(item, Command) else item for item in output]
        for item in output:
            if isinstance(item, Command) and item.graph is None:
                check_targets(item, self._targets)
                update = dict(pairs_of(item, "a tool"))
                check_keys(update, self._keys, "a tool")
                _with_ids(update.get("messages"))
            elif isinstance(item, dict):
                _with_ids(item.get("messages"))
        extra: dict[str, Any] = {**(COUNTS.get() or {})}
        if refusals:
            extra["messages"] = _with_ids(refusals)
        if self._may_answer(input, []):
            extra[TOOL_SIGNALS] = DIRECT
        return [*output, extra] if extra else output

    def _prepare_error(self, error: Exception, config: RunnableConfig | None) -> None:
        """Prepare the error of a call to end the run: the results of other calls are stored."""
        add_notes(error, self._context_schema)
        values = (config or {}).get("configurable", {})
        is_inside = NAMESPACE_MARK in (values.get("checkpoint_ns") or "")
        if not is_inside and saver_of({"configurable": values}) is not None:
            raise_late(error)

    def _may_answer(self, input: Any, messages: list[ToolMessage]) -> bool:
        """Return True if one of several calls ran a tool whose result ends the run."""
        # The input may be a state as well: then the items are its keys.
        if not any(isinstance(call, dict) and call.get("type") == PARALLEL_CALL for call in input):
            return False
        # A layer may have redirected the call: the result has the name of the tool that ran.
        ran = {message.name for message in messages} or {call["name"] for call in input}
        return bool(ran & self._direct)


def _compose(
    spec: AgentSpec,
    recorder: Recorder,
    asynchronous: bool,
    execute: Handler,
) -> Handler:
    """Compose the layers around the execution of a tool, and translate its commands."""
    layers = spec.tool_layers
    translate = translate_command if spec.topology.style.tools_can_end_run else relay_to_parent
    compose = partial(compose_tool_call, execute=recorder.execution(execute))
    composed_call = compose_layers(layers, asynchronous, recorder, compose)

    def translated(result: object) -> object:
        # Here, and not in `_finish`: the ToolNode merges commands to the parent graph.
        if isinstance(result, list):
            return [translated(part) for part in result]
        return translate(result) if isinstance(result, Command) else result

    # Reviewers are layers. Without layers, some tools get no state.
    new_names = {move.old: move.new for move in spec.topology.moved} if layers else {}

    def call_layers(request: Any) -> Any:
        # From a context variable, because a ToolNode calls this with the request alone.
        batch, call_id = _batch.get(), request.tool_call["id"]
        assert batch is not None  # the node has begun the batch
        if batch.asynchronous and (task := asyncio.current_task()):
            batch.tasks.add(task)
        if (outcome := batch.outcome) is not None:
            if isinstance(outcome, Exception):
                raise outcome
            return repeat(outcome)
        if (guards := run_services.get().guards) is not None:
            request = guards.views.request(request)
        if new_names:
            messages = with_reviewers(request.state["messages"], new_names)
            request = replace(request, state={**request.state, "messages": messages})
        call = composed_call
        if isinstance(composed_call, ComposedCall):
            # Models called by layers do not stream to the caller of the agent.
            disable_streaming(request.runtime.config)
            call = composed_call.select()
        try:
            result = call(request)
            if batch.single and type(result) is ToolMessage:
                return result  # nearly always
            result = then(result, translated)
        except Exception as error:
            if batch.single:
                raise
            return batch.fail(call_id, error)
        if batch.single:
            return result
        return then(result, partial(batch.finish, call_id), partial(batch.fail, call_id))

    return recorder.tools(call_layers)


@dataclass(eq=False, repr=False)
class LeadFromTools(InstantRunnable):
    """The end of a tools node: writes the results, and the next node."""

    stage: Stage

    def invoke(self, input: object, config: RunnableConfig | None = None, **_: object) -> object:
        update, *edges = self.stage.writers
        run, entry = run_of(config), self.stage.fusion.next_after_tools
        # More calls of the turn come next, which lead on.
        last = input[-1] if isinstance(input, list) and input else input
        if isinstance(last, Resend) or entry is None:
            update.invoke(input, config)
            for edge in () if isinstance(last, Resend) else edges:
                edge.invoke(input, config)
            return input
        # A resumed run does not know whether there is an answer: the entry node checks.
        may_be_answered = run is None or run.has_answer is not False
        signals = [{TOOL_SIGNALS: DIRECT}] if may_be_answered else []
        updates = input if isinstance(input, list) else [input]
        update.invoke([*updates, *signals, Command(goto=entry)], config)
        return input


def _with_ids(messages: object) -> Any:
    """Give messages of tools their ids in the thread.

    LangGraph stores the writes of a task before it applies them, and gives ids when it applies
    writes: a thread that is read or resumed in between would have other ids each time.
    """
    for message in messages if isinstance(messages, list) else [messages]:
        if isinstance(message, BaseMessage) and message.id is None:
            message.id = random_id()
    return messages


def _invalid_arguments(call: dict[str, Any]) -> ToolMessage:
    if call["error"] == CUT_CALL:
        return error_result(call, f"Error: {CUT_CALL}")
    text = f"Error: the arguments of {call['name']} could not be read as JSON: {call['args']}\n"
    return error_result(call, f"{text} {call['error'] or ''}\n Please fix your mistakes.")


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
    signals: dict[str, Any] = {"jump_to": "end"} if END in targets_of(command) else {}
    check_targets(command, [END])
    if update.get("structured_response") is not None:
        signals[TOOL_SIGNALS] = WRITTEN
    if not signals:
        return command
    pairs += signals.items()
    # A dict if no key occurs twice: LangGraph's streams show the updates of dicts only.
    new_update = dict(pairs) if len(dict(pairs)) == len(pairs) else pairs
    return replace(command, update=new_update, goto=())


def check_targets(command: Command[Any], allowed: Sequence[str]) -> None:
    """Refuse a command of a tool to other nodes of the agent, or with calls to send."""
    if nodes := [node for node in targets_of(command) if node not in allowed]:
        raise CommandNotSupported(
            "a tool",
            f"returned a Command with goto={nodes!r}, which would run a node past the hooks and "
            "layers that decide about it, besides the edge of the tools.",
            "Drop goto, or use goto=END to end a run of create_agent, and graph=Command.PARENT "
            "for a node of the parent; let the model call a tool that is to run.",
        )


def relay_to_parent(command: Command[Any]) -> Command[Any]:
    """Store a command to the parent graph for the next node; return another command unchanged."""
    return Command(update={TOOL_SIGNALS: command}) if command.graph == Command.PARENT else command


def pending_exit(state: State, rules: Rules) -> Command[Any] | dict[str, Any] | None:
    """Return the update of a node that does not run, because tools ended the run; else None.

    All tools of a turn lead to the entry of the loop. After a stop by a tool, or with results that
    are the answer or make a waiting answer final, the jump passes from node to node until a node
    can follow the jump.
    """
    signals = state.get(TOOL_SIGNALS) or ()
    if not signals and state.get("jump_to") != "end" and state.get(ANSWER) is None:
        return None
    if commands := [signal for signal in signals if isinstance(signal, Command)]:
        info = get_runtime().execution_info
        # LangGraph itself ends such a run with a bare ParentCommand, far from the tool.
        if info is not None and NAMESPACE_MARK not in info.checkpoint_ns:
            raise CommandNotSupported(
                "a tool",
                "returned a Command to the parent graph, and this agent has no parent.",
                "Add the agent to a graph as a node, or leave out graph=Command.PARENT.",
            )
        return command_to_parent(commands, state["messages"])
    ends = state.get("jump_to") == "end" or state.get("structured_response") is not None
    if state.get("structured_response") is None and (answer := taken_answer(state)):
        return {"jump_to": "end", **answer}
    if not ends and state.get(ANSWER) is None:
        message, tail = last_turn(state["messages"])
        ends = message is not None and rules.returns(message, tail)
    return {"jump_to": "end"} if ends else None
