"""Events of LangGraph's streaming protocol v2, from the recorded stream of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import ToolMessage
from pydantic import Field, field_validator

from agent_factory.serve.body import StrictBody
from agent_factory.serve.json_response import failure_of
from agent_factory.serve.langgraph.content_blocks import MessageStreams
from agent_factory.serve.langgraph.tool_calls import ToolCalls, ToolStep
from agent_factory.upstream import INTERRUPT

RECORDED = frozenset({"checkpoints", "updates", "messages", "custom", "tasks"})
"""The modes of LangGraph's streams from which the events are made."""

CHANNELS = (
    "values", "updates", "messages", "tools", "custom", "lifecycle", "input", "checkpoints", "tasks"
)  # fmt: skip
"""Channels for subscriptions."""

_LIFECYCLE = {"done": "completed", "waiting": "interrupted", "failed": "failed"}
"""Event at the end of a run, by the status."""


@dataclass(frozen=True, slots=True)
class ProtocolEvent:
    """Event, independent of the reader.

    Args:
        method: A channel, or "input.requested".
        data: The content, in the form of the method.
        ns: The namespace of the graph; empty for the agent itself.
    """

    method: str
    data: Any
    ns: tuple[str, ...] = ()

    @property
    def channel(self) -> str:
        """The channel of the event."""
        return "input" if self.method == "input.requested" else self.method


class NewEventStream(StrictBody):
    """Events of a thread that a client subscribes to.

    Args:
        channels: The channels. "custom:x" are the custom events with the name "x".
        namespaces: Beginnings of namespaces; None is all. A part may be the name of a node alone,
            without the id of the task.
        depth: The most parts of a namespace behind such a beginning.
        since: The number of the last event that the client has seen.

    >>> NewEventStream(channels=["values"], namespaces=[["tools"]]).covers(
    ...     ProtocolEvent("values", {}, ("tools:7", "model:8"))
    ... )
    True
    """

    channels: list[str] = Field(min_length=1)
    namespaces: list[list[str]] | None = None
    depth: int | None = Field(None, ge=0)
    since: int | None = Field(None, ge=0)

    @field_validator("channels")
    @classmethod
    def _check(cls, channels: list[str]) -> list[str]:
        for channel in channels:
            if channel.partition(":")[0] not in CHANNELS:
                expected = ", ".join(map(repr, CHANNELS))
                text = f"channels must be some of {expected} and 'custom:...', got {channel!r}."
                raise ValueError(text)
        return channels

    def covers(self, event: ProtocolEvent) -> bool:
        """Return True if the client wants to see an event."""
        name = event.data.get("name") if event.channel == "custom" else None
        if not {event.channel, f"{event.channel}:{name}"} & {*self.channels}:
            return False
        if not self.namespaces:
            return True
        for start in self.namespaces:
            more = len(event.ns) - len(start)
            parts = zip(start, event.ns, strict=False)
            begins = all(name in (place, place.partition(":")[0]) for name, place in parts)
            if begins and more >= 0 and (self.depth is None or more <= self.depth):
                return True
        return False


@dataclass
class ProtocolEvents:
    """Turns the parts of one job of a thread into events; `agent` is the name of the agent."""

    agent: str
    _messages: MessageStreams = field(default_factory=MessageStreams)
    _calls: ToolCalls = field(default_factory=ToolCalls)
    _interrupts: dict[str, tuple[object, tuple[str, ...]]] = field(default_factory=dict)
    _graphs: list[tuple[str, ...]] = field(default_factory=list)
    _has_begun: bool = False

    def events(self, part: Mapping[str, Any]) -> Iterator[ProtocolEvent]:
        """The events of a part of the stream of `Run.stream`."""
        kind, data, ns = part["type"], part["data"], (*part["ns"],)
        # The protocol has no events for waits and undone effects.
        if kind == "waiting_for" or (kind == "end" and "undone" in data):
            return
        if not self._has_begun:
            self._has_begun = True
            yield self._lifecycle("running")
        if kind == "end":
            yield from self.end(_LIFECYCLE[data["status"]], data.get("error"))
        elif kind == "resumed":
            self._messages.drop()
        elif read := getattr(self, f"_of_{kind}", None):  # the protocol has no "debug"
            # The first part of a graph starts the graph, and the graphs around.
            for graph in (ns[:length] for length in range(1, len(ns) + 1)):
                if graph in self._graphs:
                    continue
                self._graphs.append(graph)
                # The last part of a namespace is the node and the task.
                call = self._calls.call_of(graph[-1].partition(":")[2])
                cause = call and {"type": "toolCall", "tool_call_id": call}
                yield self._lifecycle("started", graph, cause=cause)
            yield from read(ns, data)

    def end(self, event: str, error: str | None = None) -> Iterator[ProtocolEvent]:
        """The events at the end of a run.

        Args:
            event: "completed", "failed" or "interrupted".
            error: The error: the class, ": ", and the text.
        """
        if not self._has_begun:
            return
        # Clients know the text alone, without the class.
        text = error and (failure_of(error)["message"] or error)
        if event == "failed":
            for step in self._calls.fail(text or ""):
                yield self._tool_event((), step)
        for ns in self._messages.namespaces:
            yield from self._finished_messages(ns)
        for id, (payload, ns) in self._interrupts.items():
            yield ProtocolEvent("input.requested", {"interrupt_id": id, "payload": payload}, ns)
        # The innermost first: a graph ends after inner graphs.
        while self._graphs:
            yield self._lifecycle(event, self._graphs.pop())
        yield self._lifecycle(event, error=text if event == "failed" else None)

    def _lifecycle(self, event: str, ns: tuple[str, ...] = (), **data: object) -> ProtocolEvent:
        name = ns[-1].partition(":")[0] if ns else self.agent
        known = {key: value for key, value in data.items() if value is not None}
        return ProtocolEvent("lifecycle", {"event": event, "graph_name": name, **known}, ns)

    def _of_checkpoints(self, ns: tuple[str, ...], data: Any) -> Iterator[ProtocolEvent]:
        yield from self._finished_messages(ns)
        metadata, parent = data["metadata"], data["parent_config"]
        yield ProtocolEvent(
            "checkpoints",
            {
                "id": data["config"]["configurable"]["checkpoint_id"],
                **({"parent_id": parent["configurable"]["checkpoint_id"]} if parent else {}),
                "step": metadata["step"],
                "source": metadata["source"],
            },
            ns,
        )
        # At this checkpoint, the input is not in the values yet.
        if metadata["source"] != "input":
            yield ProtocolEvent("values", data["values"], ns)

    def _of_values(self, ns: tuple[str, ...], data: Any) -> Iterator[ProtocolEvent]:
        yield from self._finished_messages(ns)
        yield ProtocolEvent("values", data, ns)

    def _of_updates(self, ns: tuple[str, ...], data: Any) -> Iterator[ProtocolEvent]:
        for node, values in data.items():
            if node != INTERRUPT:
                yield ProtocolEvent("updates", {"node": node, "values": values}, ns)
                continue
            for interrupt in values:
                # Graphs around report inner interrupts as well.
                if interrupt.id not in self._interrupts:
                    self._interrupts[interrupt.id] = interrupt.value, ns

    def _of_messages(self, ns: tuple[str, ...], data: Any) -> Iterator[ProtocolEvent]:
        message = data[0]
        place = ns
        if isinstance(message, ToolMessage):
            # Clients of the protocol look for results of tools there.
            place = (*ns, f"tools:{message.tool_call_id}")
        for event in self._messages.events(place, message):
            yield ProtocolEvent("messages", event, place)

    def _of_tasks(self, ns: tuple[str, ...], data: Any) -> Iterator[ProtocolEvent]:
        yield ProtocolEvent("tasks", data, ns)
        for step in self._calls.steps(data):
            yield self._tool_event(ns, step)
        # A graph ends with its task.
        graph = (*ns, f"{data['name']}:{data['id']}")
        if "result" in data and graph in self._graphs:
            event = "failed" if data["error"] else "completed"
            if data["interrupts"]:
                event = "interrupted"
            for inner in [one for one in self._graphs if one[: len(graph)] == graph][::-1]:
                self._graphs.remove(inner)
                yield self._lifecycle(event, inner)

    def _of_custom(self, ns: tuple[str, ...], data: Any) -> Iterator[ProtocolEvent]:
        # A tool may name the event: {"name": ..., "payload": ...}.
        is_named = isinstance(data, Mapping) and data.keys() == {"name", "payload"}
        yield ProtocolEvent("custom", data if is_named else {"payload": data}, ns)

    def _finished_messages(self, ns: tuple[str, ...]) -> Iterator[ProtocolEvent]:
        for event in self._messages.finish(ns):
            yield ProtocolEvent("messages", event, ns)

    @staticmethod
    def _tool_event(ns: tuple[str, ...], step: ToolStep) -> ProtocolEvent:
        id = {"tool_call_id": step.call["id"]}
        if step.error is not None:
            data = {"event": "tool-error", **id, "message": step.error}
        elif step.result is not None:
            data = {"event": "tool-finished", **id, "output": step.result}
        else:
            started = {"tool_name": step.call["name"], "input": step.call["args"]}
            data = {"event": "tool-started", **id, **started}
        return ProtocolEvent("tools", data, ns)
