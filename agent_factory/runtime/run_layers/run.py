"""Layered run: one run of an agent, from the input to the end or the next pause, in its layers."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.errors import GraphDrained
from langgraph.runtime import ExecutionInfo, RunControl, Runtime, get_runtime
from langgraph.types import Command

from agent_factory.decisions.recorder import Recorder
from agent_factory.errors import BadReturn, describe
from agent_factory.hooks.flows import (
    EFFECTS,
    MAX_REFUSALS,
    Invoke,
    RunPaused,
    Task,
    close,
    perform,
)
from agent_factory.runtime.composition import call_without_streaming
from agent_factory.runtime.run_layers.flow import LayerFlow, Signal
from agent_factory.runtime.run_layers.pauses import PauseHandler, with_handler
from agent_factory.runtime.run_layers.tasks import TaskResults
from agent_factory.runtime.run_layers.thread import LAST_WRITE, RunThread
from agent_factory.runtime.run_layers.view import RunView
from agent_factory.runtime.spec import AgentSpec
from agent_factory.runtime.watching import CUSTOM
from agent_factory.state.channels import ViewedChannel, is_known, is_messages, with_ids
from agent_factory.state.schema import ENGINE_KEYS
from agent_factory.state.updates import StateView, check_keys, overwrites, pairs_of
from agent_factory.upstream import coerced_context, run_identity

AGENT_RUN: Final = object()
"""Marker that `LayeredRun.steps` yields to run the agent. All other items are plain calls."""

Steps = Generator[Any, Any, Any]


class LayeredRun:
    """One run of an agent inside its layers: a start, or the part after a pause.

    `steps` is written once for sync and async runs. The agent drives the generator: it runs itself
    where `steps` yields `AGENT_RUN`, and makes all other calls.

    Attributes:
        input: The input for the agent.
        config: The config for the agent.
        options: The options for the agent.
        view: The part of the stream for the caller.
    """

    def __init__(
        self,
        agent: Any,
        input: Any,
        config: RunnableConfig | None,
        options: Mapping[str, object],
        *,
        asynchronous: bool,
    ) -> None:
        spec: AgentSpec = agent.builder.spec
        self._agent, self._spec, self._asynchronous = agent, spec, asynchronous
        self._thread = RunThread(agent, config, asynchronous=asynchronous)
        self.view = RunView(agent, self._thread, options)
        self.input, self.config, self.options = input, self._thread.config, self.view.options
        self._pauses = PauseHandler()
        if not self._thread.is_nested:  # a nested run raises its interrupts
            self.config = with_handler(agent.config, self.config, self._pauses)
            self.options["control"] = self.options.get("control") or RunControl()
        self._tasks = TaskResults(self._thread, spec.topology.moved)
        guards = agent.builder.guards
        self._recorder = Recorder(spec.decisions, spec.name, guards.shown if guards else None)
        self._is_resumed = False
        self._arguments: dict[str, Any] = {}
        self._first_state: dict[str, Any] = {}
        self._values: dict[str, Any] = {}  # the state, if the run has not shown a state yet

    @property
    def values(self) -> dict[str, Any]:
        """The state as far as known."""
        return self._values if self.view.values is None else self.view.values

    def raised(self, error: BaseException) -> BaseException:
        """Return the exception for `steps`, from an exception outside of it."""
        if not isinstance(error, GeneratorExit):
            return error
        self.view.is_closed = True
        # Python closes the generators inside a generator where GeneratorExit is thrown in.
        return Signal(error, error)

    def steps(self) -> Steps:
        """Run the layers, the outermost first; yield `AGENT_RUN` where the agent runs."""
        failure: BaseException | None = None
        is_pause = False
        try:
            if (yield from self.start()):
                yield from self.layer(0, self._first_state)
            else:
                yield AGENT_RUN
        except Signal as signal:
            failure, is_pause = signal.error, isinstance(signal.thrown, RunPaused)
        except Exception as error:
            failure = error
        try:
            ending = (
                self._tasks.keep(is_resumed=self._is_resumed) if is_pause else self._tasks.forget()
            )
            yield from ending
        except Exception as storage_error:
            if failure is None:
                raise
            # The first end of the run counts: with a lost lease, for example, nothing can be
            # stored.
            failure.add_note(f"While the tasks of its layers were stored: {storage_error!r}")
        if failure is not None:
            raise failure

    def start(self) -> Steps:
        """Find out whether the run goes on, and with which state.

        Return False if the run has ended before, so that nothing runs: a finished thread was
        resumed, or a node that had called a nested agent runs again.
        """
        checkpoint = yield from self._thread.read(self.input)
        if checkpoint is not None:
            self._is_resumed, self._values = bool(checkpoint.tasks), dict(checkpoint.values)
            if not self._is_resumed and not getattr(self.input, "goto", ()):
                return False
        self._arguments = self.given()
        self._first_state = dict(self._values)
        if isinstance(self.input, Mapping) and not self._is_resumed:
            self._first_state = state = dict(self.input)
            if (value := state.get("messages")) is not None:
                messages = value if isinstance(value, list) else [value]
                # The run itself raises the error.
                with suppress(NotImplementedError, TypeError, ValueError):
                    state["messages"] = convert_to_messages(messages)
        return True

    def layer(self, at: int, state: Mapping[str, object]) -> Steps:
        """Drive the flow of a layer; its run of the agent is the next layer."""
        if at == len(self._spec.run_layers):
            return (yield from self.run_agent(state))
        flow = LayerFlow(self._spec.run_layers[at], state, self._arguments)
        record = self._recorder.run_layer(flow.definition, **self._arguments)
        advance, value = flow.send, None
        while True:
            try:
                request = record.advance(advance, value)
            except StopIteration as stop:
                flow.returned = stop.value
                break
            except BaseException as error:
                flow.fail(error)
                break
            try:
                value, advance = (yield from self.effect(at, flow, request)), flow.send
            except BaseException as error:
                value, advance = flow.receive(error), flow.throw
                if flow.refusals > MAX_REFUSALS:
                    close(flow.generator, error)
                    flow.fail(error)
                    break
        update = self.update_of(flow)
        record.ended(flow, update)
        flow.leave()
        if update or flow.caught or flow.passed is None:
            yield from self.write(flow, update)
        return dict(self.values)

    def given(self) -> dict[str, Any]:
        """Return the named arguments for a flow."""
        thread, around = self._thread, ensure_config(merge_configs(self._agent.config, self.config))
        outer = get_runtime() if thread.is_nested else None
        context = coerced_context(self.options.get("context"), self._agent.context_schema)
        if context is None and outer:
            context = outer.context
        namespace = thread.place.get("checkpoint_ns")
        info = ExecutionInfo(
            checkpoint_id=thread.place.get("checkpoint_id") or "",
            checkpoint_ns=f"{namespace}|{LAST_WRITE}" if namespace else LAST_WRITE,
            task_id="",
            thread_id=thread.place.get("thread_id"),
            run_id=str(around["run_id"]) if around.get("run_id") else None,
        )
        identity: Any = run_identity(outer) if outer else self.options["control"]
        runtime = Runtime(
            context=context,
            store=outer.store if outer else self._agent.store,
            stream_writer=outer.stream_writer if outer else partial(self.view.show, CUSTOM),
            execution_info=info,
            control=identity,
        )
        store, resumed = runtime.store, self._is_resumed
        return {"runtime": runtime, "config": around, "store": store, "resumed": resumed}

    def effect(self, at: int, flow: LayerFlow, request: object) -> Steps:
        """Perform an effect of a flow, and return its result."""
        if isinstance(request, Task):
            return (
                yield from self._tasks.run(flow.definition, request, is_resumed=self._is_resumed)
            )
        if isinstance(request, EFFECTS):
            call = partial(perform, asynchronous=self._asynchronous)
            if isinstance(request, Invoke) and request.config is not None:
                return (yield partial(call, request))
            # Not streamed: the model of a layer does not answer for the agent.
            return (yield partial(call_without_streaming, call, request))
        if not isinstance(request, Mapping):
            reason = f"must run the agent with a state, got {describe(request)}."
            raise BadReturn(flow.name, reason, "Write `result = yield state`.")
        # A second run would be another turn in the thread, with the same input.
        if flow.passed is not None:
            reason = "ran the agent a second time, and a run can be made only once."
            raise BadReturn(flow.name, reason, "Call the agent again where it is called.")
        flow.passed = request
        try:
            flow.result = yield from self.layer(at + 1, request)
        except Exception as error:
            # Noted although raised: a flow that handles the refusal ends the run itself.
            flow.caught = error
            raise
        return dict(flow.result)  # the flow may change the copy, and return it

    def run_agent(self, state: Mapping[str, object]) -> Steps:
        """Run the agent, and return the final state."""
        self.input = self.input_for(state)
        try:
            yield AGENT_RUN
        except Signal as closed:
            # A caller may stop reading at the first question.
            interrupts = self._pauses.interrupts is None and self.view.interrupts
            if (waits := interrupts or (yield from self.pause())) is None:
                raise
            raise Signal(RunPaused(waits), closed.error) from None
        except GraphDrained as drain:
            # LangGraph stores nothing of such a run, so the run starts again.
            if self._thread.is_nested and not self._thread.stores_ends:
                raise Signal(GeneratorExit(), drain) from None
            raise
        if (waits := (yield from self.pause())) is not None:
            raise Signal(RunPaused(waits), None)
        return dict(self.values)

    def pause(self) -> Steps:
        """Return the interrupts of a paused run; None if the run is not paused."""
        waits = self._pauses.interrupts
        if waits == () and self._thread.saver is not None:
            # LangGraph also pauses after the last node of a run, where nothing is left to do.
            snapshot = yield from self._thread.latest()
            return waits if snapshot.tasks else None
        return waits

    def input_for(self, state: Mapping[str, object]) -> object:
        """Return the input of the run, with the changes of the layers to the state."""
        changes = _changes(self._first_state, state)
        if not changes:
            return self.input
        schemas, name = self._spec.schemas, self._spec.run_layers[-1].definition.name
        if isinstance(self.input, Mapping) and not self._is_resumed:
            check_keys(changes, schemas.input.__annotations__.keys() - ENGINE_KEYS, name)
            return {**self.input, **changes}
        check_keys(changes, self._agent.channels.keys() - ENGINE_KEYS, name)
        if self._thread.is_nested:
            names = ", ".join(map(repr, changes))
            reason = f"changed {names} of a run that goes on in another one."
            raise BadReturn(name, reason, "Pass `state` on if `resumed`, or return an update.")
        command: Command[Any] = self.input or Command()
        return replace(command, update=[*pairs_of(command, name), *changes.items()])

    def update_of(self, flow: LayerFlow) -> dict[str, Any] | None:
        """Return the update of a flow; None if the flow raises."""
        if flow.signal or flow.error or flow.returned is None:
            return None if flow.signal or flow.error else {}
        channels = self._agent.channels
        try:
            if not isinstance(flow.returned, Mapping):
                kind = describe(flow.returned)
                reason = f"must return an update of the state or None, got {kind}."
                hint = "Return {'key': value}, or what `yield state` returned."
                raise BadReturn(flow.name, reason, hint)
            # The flow may return the whole state, with its changes.
            update = _changes(flow.result, flow.returned)
            check_keys(update, channels.keys() - ENGINE_KEYS, flow.name)
            if self._agent.builder.guards is not None:
                update = dict(self._agent.builder.guards.result(update))
        except Exception as mistake:
            flow.error = mistake
            return None
        for key, value in update.items():
            if is_messages(channels[key]) and not overwrites(value):
                update[key] = with_ids(value)
        return update

    def write(self, flow: LayerFlow, update: Mapping[str, object] | None) -> Steps:
        """Write the update of a layer as the end of the run, and show the update."""
        update, writes = update or {}, [update or {}]
        starts = isinstance(self.input, Mapping) and not self._is_resumed
        if starts and flow.passed is None:  # the agent did not run; its thread keeps the input
            # A new run begins without the answer of the run before.
            writes.insert(0, {"structured_response": None, **self.input})
        # The run failed before it showed a state, so the state begins with the input.
        elif starts and not self._thread.stores_ends and not self.values:
            writes.insert(0, self.input)
        if self._thread.stores_ends or (self._thread.saver is not None and flow.caught):
            ends = flow.caught is not None or flow.passed is None
            values = yield from self._thread.write(writes, ends=ends)
        else:
            values = self.values
            # Nothing is stored, so the state after the write is computed as in a step.
            channels = {key: c for key, c in self._agent.channels.items() if is_known(c)}
            views = {key: ViewedChannel.of(channel) for key, channel in channels.items()}
            for write in writes:
                pairs = [(key, value) for key, value in write.items() if key in channels]
                view = StateView(values, views, {}, channels)
                values = view.preview(pairs).state()
        # `values` prefers the state shown by the run, which is older now.
        self._values, self.view.values = values, None
        self.view.show_write(flow.name, update, values)


def _changes(before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, Any]:
    """Return the keys of a state with another value than before."""
    return {k: v for k, v in after.items() if k not in before or v is not before[k]}
