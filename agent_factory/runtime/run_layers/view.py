"""Run view: the part of a layered run for its caller, and the state for the layers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from agent_factory.runtime.inputs import STREAM_MODES, unknown_mode
from agent_factory.runtime.run_layers.thread import RunThread
from agent_factory.runtime.watching import UPDATES, VALUES, Event, EventStream
from agent_factory.upstream import is_nested, streams_message_events

_INTERRUPT = "__interrupt__"


class RunView:
    """View of a run in the modes of its caller.

    The agent is asked for its state as well, for the layers at the end.
    """

    def __init__(self, agent: Any, thread: RunThread, options: Mapping[str, Any]) -> None:
        nested = is_nested((thread.config or {}).get("configurable", {}))
        mode = options.get("stream_mode") or ("values" if nested else agent.stream_mode)
        self._agent = agent
        self._modes = [mode] if isinstance(mode, str) else [*mode]
        # LangGraph runs with an unknown mode, and yields nothing.
        if not STREAM_MODES.issuperset(self._modes):
            raise unknown_mode(self._modes)
        self._version = options.get("version") or "v1"
        shape: Any = {"subgraphs": bool(options.get("subgraphs")), "version": self._version}
        inner = [*dict.fromkeys([*self._modes, VALUES])]
        self._inner = EventStream(inner, single=False, **shape)
        self._outer = EventStream(self._modes, single=isinstance(mode, str), **shape)
        self._keys: Any = options.get("output_keys")
        self._message_events = streams_message_events(thread.configurable)
        self._namespace: tuple[str, ...] | None = None
        self._parts: deque[Any] = deque()
        self.options = {**options, "stream_mode": inner}
        # `invoke` asks for the keys of the output. The layers see the remaining keys, too.
        default = self._keys is agent.output_channels
        self._narrows = default and {*self._modes} - {UPDATES} == {VALUES}
        if self._narrows:
            self.options["output_keys"] = agent.stream_channels_list
        self.is_closed = False  # the caller reads no more
        self.values: dict[str, Any] | None = None  # the state, as soon as the run has shown a state
        self.interrupts: tuple[Any, ...] | None = None  # the interrupts that the run has shown

    def see(self, part: Any) -> Iterable[object]:
        """Return the caller's view of a part of the agent's stream."""
        namespace, mode, data = self._inner.read_part(part)
        is_own = namespace in (None, self._namespace)
        # The first part is the run's own.
        if mode == VALUES and (is_own or self._namespace is None):
            self._namespace, is_own = namespace or (), True
            state = data if isinstance(data, Mapping) else {str(self._keys): data}
            self.values = {key: value for key, value in state.items() if key != _INTERRUPT}
            if self._narrows:
                data = {key: data[key] for key in (*self._keys, _INTERRUPT) if key in data}
        if is_own and mode in (UPDATES, VALUES):
            interrupts = data.get(_INTERRUPT) if isinstance(data, Mapping) else None
            if self._version == "v2" and mode == VALUES:
                interrupts = part["interrupts"] or None
            self.interrupts = self.interrupts if interrupts is None else tuple(interrupts)
        if mode not in self._modes:
            return ()
        if self._version == "v2":
            return (part if data is part["data"] else {**part, "data": data},)
        return (self._outer.form(Event(namespace or (), mode, data)),)

    def show(self, mode: str, data: object) -> None:
        """Show something to the caller, if the caller has asked for the mode."""
        if mode in self._modes:
            self._parts.append(self._outer.form(Event(self._namespace or (), mode, data)))

    def show_write(
        self, name: str, update: Mapping[str, object], values: Mapping[str, object]
    ) -> None:
        """Show the update of a layer, and the state after the update."""
        # LangGraph shows the value alone where `output_keys` is one key.
        if isinstance(self._keys, str):
            self.show(UPDATES, {name: update.get(self._keys)})
            self.show(VALUES, values.get(self._keys))
            return
        keys = self._agent.stream_channels_list if self._keys is None else self._keys
        visible = {key: value for key, value in update.items() if key in keys}
        self.show(UPDATES, {name: visible or None})
        messages = update.get("messages")
        if isinstance(messages, list) and not self._message_events:
            # LangGraph also streams messages from results of nodes, if no model has streamed them.
            for message in messages:
                self.show("messages", (message, {"langgraph_node": name}))
        self.show(VALUES, {key: values[key] for key in keys if key in values})

    def take(self) -> Iterable[object]:
        """Yield the shown parts that the caller has not seen yet."""
        while self._parts and not self.is_closed:
            yield self._parts.popleft()
