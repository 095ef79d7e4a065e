"""Tool calls of a run, from the tasks of the stream."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from agent_factory.serve.exchange import messages_in


@dataclass(frozen=True, slots=True)
class ToolStep:
    """Begin or end of a tool call.

    Args:
        call: The call: `id`, `name` and `args`.
        result: The result; None at the begin.
        error: The error, if the call has failed.
    """

    call: Mapping[str, Any]
    result: ToolMessage | None = None
    error: str | None = None


class ToolCalls:
    """Reads the parts of a stream in their order, and says which tool calls begin and end."""

    def __init__(self) -> None:
        # Calls of models, by their ids.
        self._calls: dict[str, Mapping[str, Any]] = {}
        # Running calls, by the id of the task.
        self._running: dict[str, dict[str, Mapping[str, Any]]] = {}

    def steps(self, task: Mapping[str, Any]) -> Iterator[ToolStep]:
        """The steps of a part of the mode "tasks".

        Args:
            task: The data of the part: the begin of a task has an `input`, and the end a `result`.
        """
        if "input" in task:
            # Agents send each call to the tools, or some of them together.
            value = task["input"]
            calls = {
                call["id"]: call
                for call in (value if isinstance(value, list) else [value])
                if isinstance(call, Mapping) and call.get("type") == "tool_call" and call.get("id")
            }
            self._running[task["id"]] = calls
            yield from map(ToolStep, calls.values())
            return
        running = self._running.pop(task["id"], {})
        if task.get("error"):
            error = task["error"]
            # LangGraph's tasks show the `repr` of an error, and clients its text.
            with suppress(SyntaxError, ValueError):
                text = literal_eval(error.partition("(")[2].removesuffix(")"))
                error = text if isinstance(text, str) else error
            yield from (ToolStep(call, error=error) for call in running.values())
            return
        for message in messages_in(task["result"]):
            if isinstance(message, AIMessage):
                self._calls.update({call["id"] or "": call for call in message.tool_calls})
            elif isinstance(message, ToolMessage):
                id = message.tool_call_id
                call = running.get(id)
                if call is None:
                    # Tasks of other libraries do not name their calls.
                    call = self._calls.get(id, {"id": id, "name": message.name or "", "args": {}})
                    yield ToolStep(call)
                error = message.text if message.status == "error" else None
                yield ToolStep(call, result=message, error=error)

    def fail(self, error: str) -> Iterator[ToolStep]:
        """The end of running calls when the run fails."""
        running, self._running = self._running, {}
        for calls in running.values():
            yield from (ToolStep(call, error=error) for call in calls.values())

    def call_of(self, task: str) -> str | None:
        """The id of the call of a task, if there is exactly one."""
        calls = [*self._running.get(task, ())]
        return calls[0] if len(calls) == 1 else None
