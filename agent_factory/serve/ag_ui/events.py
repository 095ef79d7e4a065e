"""Events of AG-UI, from the parts of a run's stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ag_ui.core import events as ag
from ag_ui.core import types
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage

from agent_factory.providers import text_of
from agent_factory.serve.ag_ui.messages import id_of, reasoning_id, reasoning_of, to_ag_ui
from agent_factory.serve.json_response import to_json


class Events:
    """Makes the events of one request, and remembers the client's messages and state.

    Args:
        message_ids: The ids of messages of the client: these are not streamed.
    """

    def __init__(self, message_ids: Iterable[str], state: object, keys: Iterable[str]) -> None:
        self._message_ids = {*message_ids}
        self._state: dict[str, object] = dict(state) if isinstance(state, Mapping) else {}
        self._keys = [*keys]
        self._message = ""  # the message whose pieces come now
        self._speaks = self._reasons = False
        self._calls: dict[int | None, str] = {}  # open tool calls of the message, by index

    def of(self, part: Mapping[str, Any]) -> Iterator[ag.BaseEvent]:
        """The events of a part. Agents inside the agent are silent."""
        kind, data = part["type"], part["data"]
        if part["ns"]:
            return
        if kind == "messages":
            yield from self._piece(data[0])
            return
        yield from self.close()
        if kind == "values":
            # As JSON: the client has JSON.
            visible = {key: _plain(data[key]) for key in self._keys if key in data}
            changes: list[Any] = []
            for key in self._keys:
                # A JSON Pointer (RFC 6901): "~" first, since "/" becomes "~1".
                path = "/" + key.replace("~", "~0").replace("/", "~1")
                if key in visible and (key not in self._state or self._state[key] != visible[key]):
                    # In a JSON Patch (RFC 6902), `add` also replaces values.
                    changes.append({"op": "add", "path": path, "value": visible[key]})
                elif key in self._state and key not in visible:
                    changes.append({"op": "remove", "path": path})
            if changes:
                self._keep(visible)
                yield ag.StateDeltaEvent(delta=changes)
        elif kind == "waiting_for":
            yield ag.CustomEvent(name=kind, value=data)
        # The decision log is for operators, not for users.
        elif kind == "custom" and not (isinstance(data, Mapping) and {*data} == {"decision"}):
            plain = _plain(data)
            # A tool may write a custom event in the form of AG-UI.
            has_name = isinstance(data, Mapping) and {*data} == {"name", "value"}
            event = plain if has_name else {"name": "custom", "value": plain}
            yield ag.CustomEvent(name=str(event["name"]), value=event["value"])

    def _piece(self, message: BaseMessage) -> Iterator[ag.BaseEvent]:
        """The events of a message, or of a piece."""
        id = id_of(message)
        if id in self._message_ids:
            return
        if isinstance(message, ToolMessage):
            yield from self.close()
            self._message_ids.add(id)
            yield ag.ToolCallResultEvent(
                message_id=id,
                tool_call_id=message.tool_call_id,
                content=message.text,
                role="tool",
            )
            return
        if not isinstance(message, AIMessage):
            return
        if id != self._message:
            yield from self.close()
            self._message = id
        if reasoning := reasoning_of(message):
            span = reasoning_id(id)
            if not self._reasons:
                self._reasons = True
                yield ag.ReasoningStartEvent(message_id=span)
                yield ag.ReasoningMessageStartEvent(message_id=span, role="reasoning")
            yield ag.ReasoningMessageContentEvent(message_id=span, delta=reasoning)
        if text := text_of(message):
            yield from self._end_reasoning()
            if not self._speaks:
                self._speaks = True
                yield ag.TextMessageStartEvent(message_id=id, role="assistant")
            yield ag.TextMessageContentEvent(message_id=id, delta=text)
        yield from self._tool_calls(message)
        # Without streaming, a message is whole, and has no position.
        if not isinstance(message, AIMessageChunk) or message.chunk_position == "last":
            self._message_ids.add(id)
            yield from self.close()

    def _end_reasoning(self) -> Iterator[ag.BaseEvent]:
        if self._reasons:
            self._reasons, id = False, reasoning_id(self._message)
            yield ag.ReasoningMessageEndEvent(message_id=id)
            yield ag.ReasoningEndEvent(message_id=id)

    def _tool_calls(self, message: AIMessage) -> Iterator[ag.BaseEvent]:
        if isinstance(message, AIMessageChunk):
            pieces: Iterable[Mapping[str, Any]] = message.tool_call_chunks
        else:
            pieces = [
                {**call, "args": json.dumps(call["args"], default=str), "index": index}
                for index, call in enumerate(message.tool_calls)
            ]
        for piece in pieces:
            index, id = piece["index"], piece["id"]
            # Some providers repeat the id in each piece, and some give no index.
            if id and id not in self._calls.values():
                yield from self._end_reasoning()
                # An index that comes again belongs to the next call.
                if index in self._calls:
                    yield ag.ToolCallEndEvent(tool_call_id=self._calls[index])
                self._calls[index] = id
                yield ag.ToolCallStartEvent(
                    tool_call_id=id,
                    tool_call_name=piece["name"] or "",
                    parent_message_id=self._message,
                )
            if piece["args"] and index in self._calls:
                yield ag.ToolCallArgsEvent(tool_call_id=self._calls[index], delta=piece["args"])

    def close(self) -> Iterator[ag.BaseEvent]:
        """End open spans."""
        yield from self._end_reasoning()
        if self._speaks:
            yield ag.TextMessageEndEvent(message_id=self._message)
        for call in self._calls.values():
            yield ag.ToolCallEndEvent(tool_call_id=call)
        self._speaks, self._calls, self._message = False, {}, ""

    def _keep(self, visible: Mapping[str, object]) -> None:
        others = {key: value for key, value in self._state.items() if key not in self._keys}
        self._state = {**others, **visible}

    def state(self, values: Mapping[str, object]) -> Iterator[ag.BaseEvent]:
        """The state as a whole, if there is more than messages."""
        self._keep({key: _plain(values[key]) for key in self._keys if key in values})
        if self._state:
            yield ag.StateSnapshotEvent(snapshot=self._state)

    def messages(
        self, values: Mapping[str, Any], more: Iterable[types.Message] = ()
    ) -> ag.BaseEvent:
        """All messages, and more from the client."""
        return ag.MessagesSnapshotEvent(messages=[*to_ag_ui(values.get("messages", ())), *more])


def _plain(value: object) -> Any:
    """A value as JSON."""
    return json.loads(to_json(value))
