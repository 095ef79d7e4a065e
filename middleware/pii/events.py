"""Event protocol without data that the thread has to keep: in arguments, and in results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.stream import ProtocolEvent, StreamTransformer

from .messages import EXTRAS, Guard, has_role, is_call, redact_message

_STATES = frozenset({"updates", "values"})


def event_redaction(guard: Guard) -> type[StreamTransformer]:
    """Return a transformer by which the event protocol shows no data of calls and results.

    With `apply_to_output` alone, a tool gets the arguments of the model unchanged, and the model
    the result, so the thread has both. The event protocol is made for front ends, and LangChain's
    guard redacts all of it.
    """

    class EventRedaction(StreamTransformer):
        # Before LangGraph's own transformers, which keep their input.
        before_builtins = True

        def init(self) -> dict[str, Any]:
            return {}

        def process(self, event: ProtocolEvent) -> bool:
            params, method = event["params"], event["method"]
            if method in _STATES and isinstance(params["data"], Mapping):
                params["data"] = _state(params["data"], guard)
            elif method == "messages":
                payload, *metadata = params["data"]
                params["data"] = (_payload(payload, guard), *metadata)
            return True

    return EventRedaction


def _state(values: Mapping[str, Any], guard: Guard) -> Mapping[str, Any]:
    """Return a state, or updates by node, with the calls of messages redacted."""
    return {
        key: [_payload(message, guard) for message in value]
        if key == "messages" and isinstance(value, list)
        else _state(value, guard)
        if isinstance(value, dict) and isinstance(value.get("messages"), list)
        else value
        for key, value in values.items()
    }


def _payload(payload: Any, guard: Guard) -> Any:
    """Return a message, or an event of a message, with the calls redacted."""
    if isinstance(payload, AIMessage):
        return guard.redact_answer(payload)
    if isinstance(payload, BaseMessage) and has_role(payload, ToolMessage):
        return redact_message(payload, guard.rule.apply)
    if not isinstance(payload, dict):
        return payload
    changes: dict[str, Any] = {}
    if is_call(content := payload.get("content")):
        (changes["content"],) = guard.redact_calls([content], ())
    if isinstance(delta := payload.get("delta"), dict):
        # The guarded model sends the arguments of a call in one piece.
        if delta.get("type") == "tool-call-delta":
            changes["delta"] = guard.redact_call(delta)
        elif is_call(delta.get("fields")):
            changes["delta"] = {**delta, "fields": guard.redact_call(delta["fields"])}
    if EXTRAS in payload:
        changes[EXTRAS] = guard.redact_raw_calls(payload[EXTRAS], ())
    return {**payload, **changes} if changes else payload
