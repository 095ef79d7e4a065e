"""PublicState: the part of an agent's state that leaves the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.types import Command, Interrupt, StateSnapshot
from pydantic import BaseModel

from agent_factory.types import Graph

INTERRUPT = "__interrupt__"
"""Key under which LangGraph returns what a run waits for."""

_ANSWER = frozenset({"messages", "structured_response"})
"""What is shown of an agent that a tool runs: LangGraph does not know that agent's schema."""

_CALL = {"name", "args", "id", "type"}


class PublicState:
    """Keeps private keys out of streams and states: only keys of the output schema are shown.

    Args:
        graph: The agent. The graphs that are nodes of it have schemas of their own.
    """

    def __init__(self, graph: Graph) -> None:
        self._keys: dict[tuple[str, ...], frozenset[str]] = {(): _output_keys(graph)}
        for name, inner in graph.get_subgraphs(recurse=True):
            # LangGraph separates the graphs of a path by "|".
            self._keys[tuple(name.split("|"))] = _output_keys(inner)

    def __contains__(self, key: str) -> bool:
        return key in self._keys[()]

    def of_part(self, part: Mapping[str, Any]) -> dict[str, object]:
        """A part of a stream in LangGraph's version 2, without private keys."""
        # A namespace has the id of the task behind the name of its node: "node:id".
        nodes = tuple(place.partition(":")[0] for place in part["ns"])
        keys = self._keys.get(nodes, _ANSWER)
        return {**part, "data": _shown_data(part["type"], part["data"], keys)}

    def of_snapshot(self, snapshot: StateSnapshot) -> StateSnapshot:
        """A state of the agent, without private keys and without those of inner graphs."""
        keys = self._keys[()]
        tasks = tuple(
            task._replace(result=_shown(task.result, keys), state=None) for task in snapshot.tasks
        )
        return snapshot._replace(values=_shown(snapshot.values, keys), tasks=tasks)


def _output_keys(graph: Any) -> frozenset[str]:
    channels = graph.output_channels
    return frozenset([channels] if isinstance(channels, str) else channels) | {INTERRUPT}


def _shown_data(mode: str, data: Any, keys: frozenset[str]) -> Any:
    """The data of a part of a stream."""
    if mode == "values":
        return _shown(data, keys)
    if mode == "updates":
        return {
            node: update if node == INTERRUPT else _shown(update, keys)
            for node, update in data.items()
        }
    if mode == "debug":
        # A part of "debug" is one of "tasks" or "checkpoints" in an envelope.
        return {**data, "payload": _shown_data("tasks", data["payload"], keys)}
    if mode not in ("tasks", "checkpoints"):
        return data  # tokens, and what the agent itself sends to its users
    public = {
        name: _shown(value, keys) if name in ("input", "result", "values") else value
        for name, value in data.items()
    }
    if "tasks" in public:
        # States of inner graphs have keys of other schemas, hence none is shown.
        public["tasks"] = [
            {**_shown_data(mode, task, keys), "state": None} for task in data["tasks"]
        ]
    return public


def _shown(value: object, keys: frozenset[str]) -> object:
    """A state, an update of it, or the input of a node."""
    if isinstance(value, list | tuple):
        return [_shown(item, keys) for item in value]
    if isinstance(value, Command):
        # A node may return a command, whose update is written to the state.
        value = value.update
    elif isinstance(value, BaseMessage | Interrupt):
        # Before BaseModel, which a message is as well.
        return value
    elif isinstance(value, BaseModel):
        value = dict(value)
    elif is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        # The input of a task that runs a tool is a list with its call.
        is_call = value.get("type") == "tool_call" and value.keys() <= _CALL
        return dict(value) if is_call else {k: v for k, v in value.items() if k in keys}
    return value
