"""PublicState: the part of an agent's state that leaves the service."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.types import Command, Interrupt, StateSnapshot
from pydantic import BaseModel

from agent_factory.types import Graph
from agent_factory.upstream import INTERRUPT

_ANSWER = frozenset({"messages", "structured_response"})
"""Visible keys of an agent inside a tool: LangGraph does not know its schema."""

_CALL = {"name", "args", "id", "type"}

_OF_THE_SERVICE = ("agent_factory_", "traceparent")
"""Prefixes of keys that the service writes to the metadata of a run."""


class PublicState:
    """Keeps private keys out of streams and states: only keys of the output schema are shown.

    Graphs that are nodes have their own schemas.
    """

    def __init__(self, graph: Graph) -> None:
        self._keys: dict[tuple[str, ...], frozenset[str]] = {(): _output_keys(graph)}
        for name, inner in graph.get_subgraphs(recurse=True):
            # LangGraph separates the graphs of a path by "|".
            self._keys[tuple(name.split("|"))] = _output_keys(inner)

    def __contains__(self, key: str) -> bool:
        return key in self._keys[()]

    @property
    def graphs(self) -> Collection[tuple[str, ...]]:
        """The nodes that lead to each graph: to the agent, and to graphs that are nodes."""
        return self._keys.keys()

    def of_part(self, part: Mapping[str, Any]) -> dict[str, object]:
        """A part of a stream in LangGraph's version 2, without private keys."""
        keys = self._keys.get(nodes_of(part["ns"]) if part["ns"] else (), _ANSWER)
        return {**part, "data": _shown_data(part["type"], part["data"], keys)}

    def of_values(self, values: object) -> object:
        """Values of the state of the agent itself, without private keys."""
        return _shown(values, self._keys[()])

    def of_snapshot(self, snapshot: StateSnapshot, nodes: tuple[str, ...] = ()) -> StateSnapshot:
        """A state of the graph to which some nodes lead, without private keys."""
        keys = self._keys.get(nodes, _ANSWER)
        tasks = tuple(
            task._replace(
                result=_shown(task.result, keys),
                # The place of an inner state, or the state itself.
                state=self.of_snapshot(task.state, (*nodes, task.name))
                if isinstance(task.state, StateSnapshot)
                else task.state,
            )
            for task in snapshot.tasks
        )
        metadata: Any = snapshot.metadata and public_metadata(snapshot.metadata)
        return snapshot._replace(
            values=_shown(snapshot.values, keys), tasks=tasks, metadata=metadata
        )


def nodes_of(namespace: Iterable[str]) -> tuple[str, ...]:
    """The nodes of a namespace, without the ids of their tasks.

    >>> nodes_of(["desk:8fe0", "tools:1c2b"])
    ('desk', 'tools')
    """
    return tuple(place.partition(":")[0] for place in namespace)


def public_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of a message, a task or a checkpoint, without keys of the service.

    >>> public_metadata({"agent_factory_run": "r-1", "agent_factory_tenant": "acme", "step": 1})
    {'step': 1, 'run_id': 'r-1'}
    """
    public = {key: v for key, v in metadata.items() if not key.startswith(_OF_THE_SERVICE)}
    run = metadata.get("agent_factory_run")
    return public if run is None else {**public, "run_id": run}


def _output_keys(graph: Any) -> frozenset[str]:
    channels = graph.output_channels
    return frozenset([channels] if isinstance(channels, str) else channels) | {INTERRUPT}


def _shown_data(mode: str, data: Any, keys: frozenset[str]) -> Any:
    if mode == "values":
        return _shown(data, keys)
    if mode == "updates":
        return {
            node: update if node == INTERRUPT else _shown(update, keys)
            for node, update in data.items()
        }
    if mode == "debug":
        # A part of "debug" is a part of "tasks" or "checkpoints" in an envelope.
        payload = _shown_data("tasks", data["payload"], keys)
        if data["type"] == "checkpoint":
            payload = {
                **payload,
                "checkpoint": _place(payload["config"]),
                "parent_checkpoint": _place(payload["parent_config"]),
            }
        return {**data, "payload": payload}
    if mode == "messages":
        message, metadata = data
        return [message, public_metadata(metadata)]
    if mode not in ("tasks", "checkpoints"):
        return data  # tokens, and parts that the agent sends to its users
    public = {
        name: _shown(value, keys) if name in ("input", "result", "values") else value
        for name, value in data.items()
    }
    if "metadata" in public:
        public["metadata"] = public_metadata(data["metadata"])
    if "tasks" in public:
        # States of inner graphs have keys of other schemas, and are not shown.
        public["tasks"] = [
            {**_shown_data(mode, task, keys), "state": None} for task in data["tasks"]
        ]
    return public


def _place(config: Any) -> dict[str, object] | None:
    """Config of a checkpoint, as LangGraph's API shows it."""
    names = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
    place = (config or {}).get("configurable", {})
    return {name: place[name] for name in names if name in place} or None


def _shown(value: object, keys: frozenset[str]) -> object:
    """A state, an update of it, or the input of a node."""
    if isinstance(value, list | tuple):
        return [_shown(item, keys) for item in value]
    if isinstance(value, Command):
        # A node may return a command with an update of the state.
        value = value.update
    elif isinstance(value, BaseMessage | Interrupt):
        # Before BaseModel, which a message is as well.
        return value
    elif isinstance(value, BaseModel):
        value = dict(value)
    elif is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        # The input of a tool's task is a list with the call.
        is_call = value.get("type") == "tool_call" and value.keys() <= _CALL
        return dict(value) if is_call else {k: v for k, v in value.items() if k in keys}
    return value
