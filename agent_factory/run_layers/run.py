"""Layered run: one run of an agent, from its input to its end or next pause, inside its layers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import is_dataclass, replace
from functools import partial
from typing import Any, Final

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphBubbleUp, GraphDrained, GraphInterrupt, is_invalid_resume
from langgraph.runtime import ExecutionInfo, RunControl, Runtime, get_runtime
from langgraph.types import Command, Overwrite, StateUpdate
from pydantic import BaseModel

from agent_factory.decisions.recorder import Recorder
from agent_factory.errors import BadReturn, TurnError, describe
from agent_factory.fused.events import CUSTOM, UPDATES, VALUES, Event, EventStream
from agent_factory.fused.state_view import StateView
from agent_factory.hooks.flows import EFFECTS, Invoke, RunPaused, Task, is_signal, perform
from agent_factory.hooks.introspection import Bound
from agent_factory.run_layers.pauses import PauseHandler, with_handler
from agent_factory.run_layers.tasks import TaskResults
from agent_factory.runtime.composition import without_streaming
from agent_factory.runtime.spec import AgentSpec
from agent_factory.runtime.threads import LAST_WRITE
from agent_factory.state.channels import is_messages, with_ids
from agent_factory.state.schema import ENGINE_KEYS
from agent_factory.state.updates import check_keys, pairs_of
from agent_factory.topology.model import Layer
from agent_factory.upstream import (
    CLEAR_TASKS,
    current_config,
    is_json_overwrite,
    is_nested,
    is_resumed,
    place_of_run,
    saver_of,
    stores_at_exit,
    streams_message_events,
)

logger = logging.getLogger("agent_factory")

RUN: Final = object()
"""What `LayeredRun.steps` yields where the agent runs; everything else is a call without arguments.
"""

_INTERRUPT = "__interrupt__"

Steps = Generator[Any, Any, Any]


class _Signal(BaseException):
    """Control flow on its way out through the layers.

    Args:
        thrown: What each flow gets.
        error: What the caller of the agent gets; None at a pause, which ends the stream.
    """

    def __init__(self, thrown: BaseException, error: BaseException | None) -> None:
        self.thrown, self.error = thrown, error


def _signal(error: BaseException) -> _Signal:
    """Return the signal of an exception that is control flow.

    An interrupt is an `Exception` in LangGraph, and `except Exception` in a flow would catch it.
    """
    thrown = error
    if isinstance(error, GraphInterrupt):
        thrown = RunPaused(error.args[0] if error.args else ())
    elif isinstance(error, GraphDrained) or is_invalid_resume(error):
        thrown = RunPaused()
    elif isinstance(error, GraphBubbleUp):  # the run hands over to a graph around it
        thrown = GeneratorExit()
    return _Signal(thrown, error)


class LayeredRun:
    """One run of an agent inside its layers: a start, or what follows a pause.

    `steps` is written once for sync and async runs. `LayeredAgent` drives it: it runs the agent
    where `steps` yields `RUN`, shows its parts to `see`, and makes all other calls.
    """

    def __init__(
        self,
        agent: Any,
        input: Any,
        config: RunnableConfig | None,
        options: Mapping[str, Any],
        *,
        asynchronous: bool,
    ) -> None:
        spec: AgentSpec = agent.builder.spec
        self._agent, self._spec = agent, spec
        self._prefix = "a" if asynchronous else ""
        self.input, self.config, self.options = input, config, {**options}
        self.is_closed = False  # nobody reads what is shown any more
        self.values: dict[str, Any] = {}  # the state as far as it is known
        self._has_values = False
        self._shown: deque[Any] = deque()
        self._resumed = False
        self._find_thread()
        self._read_options()
        self._tasks = TaskResults(self._saver, self._place, self._prefix, spec.topology.moved)
        self._recorder = Recorder(spec.decisions, spec.name)

    def raised(self, error: BaseException) -> BaseException:
        """Return what `steps` gets for an exception that was raised outside of it."""
        if not isinstance(error, GeneratorExit):
            return error
        self.is_closed = True
        # Python closes the generators that a generator delegates to, where it is thrown into it.
        return _Signal(error, error)

    # What the run is made with

    def _find_thread(self) -> None:
        """Find the thread of the run; without a checkpointer there is none."""
        agent, config = self._agent, self.config
        self._configurable = agent.effective_configurable(config)
        self._nested = is_nested(self._configurable)
        self._saver: BaseCheckpointSaver[Any] | None = None
        self._place: dict[str, Any] = {}
        if agent.checkpointer is False or not agent.has_thread(config):
            return
        saver = saver_of({"configurable": self._configurable}) or agent.checkpointer
        # A graph in another one that stores nothing before the end has no checkpoint of its own.
        if not isinstance(saver, BaseCheckpointSaver) or (
            self._nested and stores_at_exit({"configurable": self._configurable})
        ):
            return
        place, again = place_of_run(self._configurable, stateful=agent.checkpointer is True)
        self._saver, self._place = saver, place["configurable"]
        if again:  # the number of this graph in its node is counted once
            own = (config or {}).get("configurable", {})
            self.config = {**(config or {}), "configurable": {**own, **again}}

    def _read_options(self) -> None:
        """Read what the caller wants to see, and ask the agent for the state as well."""
        options, agent = self.options, self._agent
        nested = is_nested((self.config or {}).get("configurable", {}))
        mode = options.get("stream_mode") or ("values" if nested else agent.stream_mode)
        self._modes = [mode] if isinstance(mode, str) else [*mode]
        self._version = options.get("version") or "v1"
        shape: Any = {"subgraphs": bool(options.get("subgraphs")), "version": self._version}
        inner = [*dict.fromkeys([*self._modes, VALUES])]
        self._inner = EventStream(inner, single=False, **shape)
        self._outer = EventStream(self._modes, single=isinstance(mode, str), **shape)
        self._namespace: tuple[str, ...] | None = None
        options["stream_mode"] = inner
        self._keys: Any = options.get("output_keys")
        # The flows see the whole state, where the caller has not chosen keys.
        self._narrows = self._keys is agent.output_channels and {*self._modes} - {UPDATES} == {
            VALUES
        }
        if self._narrows:
            options["output_keys"] = agent.stream_channels_list
        self._pauses = PauseHandler()
        self._asked: tuple[Any, ...] | None = None  # interrupts that the caller has seen
        if not self._nested:
            options.setdefault("control", None)
            options["control"] = options["control"] or RunControl()
            self.config = with_handler(agent.config, self.config, self._pauses)

    @property
    def _given(self) -> dict[str, Any]:
        """What a flow may take by name."""
        around = ensure_config(merge_configs(self._agent.config, self.config))
        outer = get_runtime() if self._nested else None
        context, schema = self.options.get("context"), self._agent.context_schema
        if isinstance(context, dict) and schema and _is_model(schema):
            context = schema(**context)
        if context is None and outer:
            context = outer.context
        namespace = self._place.get("checkpoint_ns") or ""
        info = ExecutionInfo(
            checkpoint_id=self._place.get("checkpoint_id") or "",
            checkpoint_ns=f"{namespace}|{LAST_WRITE}" if namespace else LAST_WRITE,
            task_id="",
            thread_id=self._place.get("thread_id"),
            run_id=str(around["run_id"]) if around.get("run_id") else None,
        )
        runtime = Runtime(
            context=context,
            store=outer.store if outer else self._agent.store,
            stream_writer=outer.stream_writer if outer else partial(self._show, CUSTOM),
            execution_info=info,
            control=outer.control if outer else self.options["control"],
        )
        return {
            "runtime": runtime,
            "config": around,
            "store": runtime.store,
            "resumed": self._resumed,
        }

    # What the caller sees

    def see(self, part: Any) -> Iterable[Any]:
        """Return what the caller sees of a part of the agent's stream."""
        namespace, mode, data = self._inner.read_part(part)
        own = namespace in (None, self._namespace)
        if mode == VALUES and (own or self._namespace is None):  # the first part is its own
            self._namespace, own = namespace or (), True
            state = data if isinstance(data, Mapping) else {str(self._keys): data}
            self.values = {key: value for key, value in state.items() if key != _INTERRUPT}
            self._has_values = True
            if self._narrows:
                data = {key: data[key] for key in (*self._keys, _INTERRUPT) if key in data}
        if own and mode in (UPDATES, VALUES):
            interrupts = data.get(_INTERRUPT) if isinstance(data, Mapping) else None
            if self._version == "v2" and mode == VALUES:
                interrupts = part["interrupts"] or None
            self._asked = self._asked if interrupts is None else tuple(interrupts)
        if mode not in self._modes:
            return ()
        if self._version == "v2":
            return (part if data is part["data"] else {**part, "data": data},)
        return (self._outer.form(Event(namespace or (), mode, data)),)

    def take(self) -> Iterable[Any]:
        """Yield what the layers show to the caller."""
        while self._shown and not self.is_closed:
            yield self._shown.popleft()

    def _show(self, mode: str, data: Any) -> None:
        if mode in self._modes:
            self._shown.append(self._outer.form(Event(self._namespace or (), mode, data)))

    def _show_write(self, name: str, update: Mapping[str, Any]) -> None:
        """Show what a layer has written, in each mode."""
        if isinstance(self._keys, str):
            self._show(UPDATES, {name: update.get(self._keys)})
            self._show(VALUES, self.values.get(self._keys))
            return
        keys = self._agent.stream_channels_list if self._keys is None else self._keys
        seen = {key: value for key, value in update.items() if key in keys}
        self._show(UPDATES, {name: seen or None})
        if not streams_message_events(self._configurable):
            messages = update.get("messages") or ()
            for message in messages if isinstance(messages, list) else ():
                self._show("messages", (message, {"langgraph_node": name}))
        self._show(VALUES, {key: self.values[key] for key in keys if key in self.values})

    # The run

    def steps(self) -> Steps:
        """Run the layers, the outermost first; yield `RUN` where the agent runs."""
        failure: BaseException | None = None
        paused = False
        try:
            state = yield from self._first_state()
            yield from self._layer(0, state)
        except _Signal as signal:
            failure, paused = signal.error, isinstance(signal.thrown, RunPaused)
        except Exception as error:
            failure = error
        try:
            yield from (
                self._tasks.pause(resumed=self._resumed) if paused else self._tasks.forget()
            )
        except Exception as broken:
            if failure is None:
                raise
            # The run ends as it has ended: with a lost lease, for example, nothing can be stored.
            failure.add_note(f"While the tasks of its layers were stored: {broken!r}")
        if failure is not None:
            raise failure

    def _first_state(self) -> Steps:
        """Return the state that the outermost flow gets."""
        input = self.input
        goes_on = input is None or isinstance(input, Command) or is_resumed(self._configurable)
        if goes_on and self._saver is not None:
            config: Any = {"configurable": {**self._configurable, **self._place}}
            get_tuple = getattr(self._saver, f"{self._prefix}get_tuple")
            stored = yield partial(get_tuple, {"configurable": self._place})
            self._agent.check_nodes(stored, {"configurable": self._place})
            if stored is not None:
                snapshot = yield partial(getattr(self._agent, f"{self._prefix}get_state"), config)
                self._resumed = bool(snapshot.tasks)
                self.values = dict(snapshot.values)
        if isinstance(input, Mapping) and not self._resumed:
            self._original = _as_state(input)
        else:
            self._original = dict(self.values)
        return dict(self._original)

    def _layer(self, at: int, state: Mapping[str, Any]) -> Steps:
        """Drive the flow of a layer; where it runs the agent, that is the next layer."""
        if at == len(self._spec.run_layers):
            return (yield from self._run_agent(state))
        given = self._given
        flow = LayerFlow(self._spec.run_layers[at], state, given)
        record = self._recorder.run_layer(flow.definition, given["runtime"], given["config"])
        advance, value = flow.send, None
        while True:
            try:
                yielded = record.advance(advance, value)
            except StopIteration as stop:
                flow.returned = stop.value
                break
            except BaseException as error:
                flow.fail(error)
                break
            try:
                value, advance = (yield from self._effect(at, flow, yielded)), flow.send
            except BaseException as error:
                value, advance = flow.receive(error), flow.throw
        try:
            update = self._update_of(flow)
        except BaseException:
            record.ended(flow)
            raise
        record.ended(flow, update)
        if update or flow.caught or flow.passed is None:
            yield from self._write(flow, update)
        return dict(self.values)

    def _effect(self, at: int, flow: LayerFlow, yielded: Any) -> Steps:
        """Do what a flow has yielded, and return what it is resumed with."""
        if isinstance(yielded, Task):
            return (yield from self._tasks.run(flow.definition, yielded, resumed=self._resumed))
        if isinstance(yielded, EFFECTS):
            if isinstance(yielded, Invoke) and yielded.config is None:
                config = without_streaming(current_config.get())
                yielded = Invoke(yielded.runnable, yielded.input, config)
            sleep = asyncio.sleep if self._prefix else time.sleep
            return (yield partial(perform, yielded, sleep, f"{self._prefix}invoke"))
        if not isinstance(yielded, Mapping):
            reason = f"must run the agent with a state, got {describe(yielded)}."
            raise BadReturn(flow.name, reason, "Write `result = yield state`.")
        if flow.passed is not None:
            reason = "ran the agent a second time, and a run can be made only once."
            hint = "Invoke the agent again where it is called; it continues at its last checkpoint."
            raise BadReturn(flow.name, reason, hint)
        flow.passed = yielded
        try:
            flow.result = yield from self._layer(at + 1, yielded)
        except Exception as error:
            flow.caught = error
            raise
        return flow.result

    def _run_agent(self, state: Mapping[str, Any]) -> Steps:
        """Run the agent, and return its final state."""
        self.input = self._input_for(state)
        try:
            yield RUN
        except _Signal as closed:
            # A caller may stop to read as soon as it is asked something.
            asked = self._asked if self._pauses.interrupts is None else self._pauses.interrupts
            if asked is None:
                raise
            raise _Signal(RunPaused(asked), closed.error) from None
        if (interrupts := self._pauses.interrupts) is not None:
            raise _Signal(RunPaused(interrupts), None)
        return dict(self.values)

    def _input_for(self, state: Mapping[str, Any]) -> Any:
        """Return the input of the run, with what the layers have changed."""
        before, input = self._original, self.input
        changes = {k: v for k, v in state.items() if k not in before or v is not before[k]}
        if not changes:
            return input
        schemas, name = self._spec.schemas, self._spec.run_layers[-1].definition.name
        starts = isinstance(input, Mapping) and not self._resumed
        known = schemas.input.__annotations__ if starts else self._agent.channels
        check_keys(changes, known.keys() - ENGINE_KEYS, name)
        if isinstance(input, Mapping) and starts:
            return {**input, **changes}
        if self._nested:
            reason = (
                f"changed {', '.join(map(repr, changes))} of a run that goes on inside another."
            )
            raise BadReturn(name, reason, "Pass `state` on if `resumed`, or return an update.")
        command: Command[Any] = input or Command()
        earlier = pairs_of(command, name)
        return replace(command, update=[*earlier, *changes.items()])

    # What the layers write

    def _update_of(self, flow: LayerFlow) -> dict[str, Any]:
        """Return what a flow writes; raise what leaves it, or an error if that cannot be used."""
        if flow.signal is not None:
            raise flow.signal
        if flow.error is not None:
            raise flow.error
        returned, seen = flow.returned, flow.result or {}
        if returned is None:
            return {}
        if not isinstance(returned, Mapping):
            flow.error = BadReturn(
                flow.name,
                f"must return an update of the state or None, got {describe(returned)}.",
                "Return {'key': value}, or what `yield state` returned.",
            )
            raise flow.error
        # It may return the whole state, with its changes.
        update = {k: v for k, v in returned.items() if k not in seen or v is not seen[k]}
        try:
            check_keys(update, self._agent.channels.keys() - ENGINE_KEYS, flow.name)
        except TurnError as unknown:
            flow.error = unknown
            raise
        channels = self._agent.channels
        return {
            key: with_ids(value) if is_messages(channels[key]) and _is_plain(value) else value
            for key, value in update.items()
        }

    def _write(self, flow: LayerFlow, update: Mapping[str, Any]) -> Steps:
        """Write the update of a layer to the thread, as the end of the run, and show it."""
        writes: list[Mapping[str, Any]] = [update]
        if flow.passed is None and isinstance(self.input, Mapping) and not self._resumed:
            # The run was not made. Its input is part of the thread nevertheless.
            writes = [{"structured_response": None, **self.input}, update]
        elif flow.caught and not self._has_values and isinstance(self.input, Mapping):
            writes = [self.input, update] if self._saver is None else writes
        if self._saver is None:
            channels = self._agent.channels
            for write in writes:
                pairs = [(key, value) for key, value in write.items() if key in channels]
                view = StateView(self.values, channels, {}, channels)
                self.values = view.preview(pairs).state()
        else:
            place = {k: v for k, v in self._place.items() if k != "checkpoint_id"}
            config = {"configurable": {**self._configurable, "checkpoint_id": None, **place}}
            steps = [[StateUpdate(dict(write), LAST_WRITE)] for write in writes]
            if flow.caught or flow.passed is None:  # what other tasks of the step wrote is kept
                steps.insert(0, [StateUpdate(None, CLEAR_TASKS)])
            method = getattr(self._agent, f"{self._prefix}bulk_update_state")
            yield partial(method, config, steps)
            read = getattr(self._agent, f"{self._prefix}get_state")
            self.values = dict((yield partial(read, config)).values)
        self._show_write(flow.name, update)


class LayerFlow:
    """The flow of one layer in one run, and what has become of it so far."""

    def __init__(
        self, bound: Bound[Layer], state: Mapping[str, Any], given: Mapping[str, Any]
    ) -> None:
        self.definition = bound.definition
        self.name = bound.definition.name
        self.state = dict(state)
        self._flow = bound.func(dict(state), **given)  # type: ignore[misc]  # a flow has both
        self.send, self.throw = self._flow.send, self._flow.throw
        self.passed: Mapping[str, Any] | None = None  # with which it ran the agent
        self.result: Mapping[str, Any] | None = None  # with which it was resumed
        self.caught: Exception | None = None  # what the run raised
        self.returned: Any = None
        self.error: Exception | None = None  # what leaves it
        self.signal: _Signal | None = None  # what leaves it, whatever it does

    def receive(self, error: BaseException) -> BaseException:
        """Return what the flow gets for an exception from within."""
        if isinstance(error, _Signal):
            self.signal = error
        elif is_signal(error):
            self.signal = _signal(error)
        else:
            return error
        return self.signal.thrown

    def fail(self, error: BaseException) -> None:
        """Note what the flow has raised. It cannot replace a signal by an error."""
        if self.signal is None or (is_signal(error) and error is not self.signal.thrown):
            self.signal = _signal(error) if is_signal(error) else None
            self.error = None if self.signal else error  # type: ignore[assignment]  # no signal
        elif error is not self.signal.thrown:
            broken = f"While {self.name} was closed: {error!r}"
            if self.signal.error is None:
                logger.error("%s", broken, exc_info=error)
            else:
                self.signal.error.add_note(broken)


def _as_state(input: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of a run as a state, with its messages as objects."""
    state = dict(input)
    with suppress(NotImplementedError, TypeError, ValueError):  # LangGraph raises it in the run
        if state.get("messages") is not None:
            given = state["messages"]
            state["messages"] = convert_to_messages(given if isinstance(given, list) else [given])
    return state


def _is_plain(value: Any) -> bool:
    """Whether a write of messages is neither None nor an `Overwrite`."""
    return value is not None and not isinstance(value, Overwrite) and not is_json_overwrite(value)


def _is_model(schema: type[Any]) -> bool:
    """Whether LangGraph makes an object of this class of a dict."""
    return is_dataclass(schema) or (isinstance(schema, type) and issubclass(schema, BaseModel))
