"""Events of a run in the form of LangChain's `astream_events`, from the recorded stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message

from agent_factory.serve.langgraph.tool_calls import ToolCalls
from agent_factory.service import RunInfo

RECORDED = frozenset({"messages", "tasks"})
"""The modes of LangGraph's streams from which the events are made."""

MODEL_END = "on_chat_model_end"
"""The event with the whole answer of a model."""


class RunEvents:
    """Turns the parts of a stream into events of the agent, of nodes, models and tools.

    Runnables inside of a node and the inputs of models are not recorded.

    Args:
        run: The run.
        request: As `Run.request` has it.
    """

    def __init__(self, run: RunInfo, request: Mapping[str, Any]) -> None:
        self._run, self._agent, self._input = run.id, run.agent, request.get("input")
        self._calls = ToolCalls()
        self._tasks: dict[str, dict[str, Any]] = {}  # running tasks, by their ids
        self._answers: dict[str, AIMessageChunk] = {}  # as far as they are known, by their ids
        self._has_begun = False

    def events(self, part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The events of a part of the stream of `Run.stream`."""
        if not self._has_begun:
            self._has_begun = True
            given = {"input": self._input}
            yield self._event("on_chain_start", self._agent, self._run, given, {})
        if part["type"] == "messages":
            yield from self._of_message(part["ns"], *part["data"])
        elif part["type"] == "tasks":
            yield from self._of_task(part["ns"], part["data"])

    def end(self, output: object) -> dict[str, Any]:
        """The last event of a run that has not failed, with the output of the agent."""
        return self._event("on_chain_end", self._agent, self._run, {"output": output}, {})

    def _of_message(
        self, ns: Sequence[str], message: BaseMessage, metadata: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        # Nodes return messages as well, and tools do.
        if not isinstance(message, AIMessage) or "ls_model_type" not in metadata:
            return
        id, name = str(message.id), metadata.get("ls_model_class") or metadata.get("ls_model_name")
        node = metadata.get("langgraph_node")
        # The documented metadata name the node alone: the first running task is taken.
        running = (
            id for id, task in self._tasks.items() if (task["ns"], task["name"]) == (ns, node)
        )
        about = str(name or "model"), id
        place: dict[str, Any] = {"ns": ns, "task": next(running, None)}
        known = self._answers.pop(id, None)
        if known is None:
            yield self._event("on_chat_model_start", *about, {}, metadata, **place)
        if isinstance(message, AIMessageChunk):
            chunk = {"chunk": message}
            yield self._event("on_chat_model_stream", *about, chunk, metadata, **place)
            whole = message if known is None else known + message
            if message.chunk_position != "last":
                self._answers[id] = whole
                return
            message = message_chunk_to_message(whole)
        yield self._event(MODEL_END, *about, {"output": message}, metadata, **place)

    def _of_task(self, ns: Sequence[str], data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        id, node = data["id"], data["name"]
        if "input" in data:
            metadata = {**data["metadata"], "langgraph_node": node}
            self._tasks[id] = {**data, "ns": ns, "metadata": metadata}
        task = self._tasks.get(id, {"input": None, "metadata": {"langgraph_node": node}})
        metadata, given = task["metadata"], {"input": task["input"]}
        if "input" in data:
            yield self._event("on_chain_start", node, id, given, metadata, ns=ns)
        for step in self._calls.steps(data):
            call, args = step.call, {"input": step.call["args"]}
            about = {"ns": ns, "task": id}
            if step.error is not None:
                kind, result = "on_tool_error", {"error": step.error, **args}
            elif step.result is not None:
                kind, result = "on_tool_end", {"output": step.result, **args}
            else:
                kind, result = "on_tool_start", args
            yield self._event(kind, call["name"], call["id"], result, metadata, **about)
        if "result" in data:
            self._tasks.pop(id, None)
            # Failed and paused tasks have no output.
            if not (data["error"] or data["interrupts"]):
                chunk, output = {"chunk": data["result"]}, {"output": data["result"], **given}
                yield self._event("on_chain_stream", node, id, chunk, metadata, ns=ns)
                yield self._event("on_chain_end", node, id, output, metadata, ns=ns)

    def _event(
        self,
        kind: str,
        name: str,
        id: str,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any],
        *,
        ns: Sequence[str] | None = None,
        task: str | None = None,
    ) -> dict[str, Any]:
        # A namespace names the tasks around a graph: "node:task".
        around = [] if ns is None else [self._run, *(place.rpartition(":")[2] for place in ns)]
        return {
            "event": kind,
            "name": name,
            "run_id": id,
            "parent_ids": [*around, task] if task else around,
            "tags": [],
            "metadata": metadata,
            "data": data,
        }
