"""Keep the model calls of a middleware out of the messages of the event protocol.

Model calls of hooks and layers are not streamed in any case. A model call of a tool is: mark the
call, and declare `transformers = (InternalCallTransformer,)` on the middleware of the tool.
"""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import uuid4

from langchain_core.messages import BaseMessage
from langgraph.stream import ProtocolEvent, StreamTransformer

__all__ = ["INTERNAL_CALL_METADATA_KEY", "InternalCallTransformer", "internal_call_metadata"]

INTERNAL_CALL_METADATA_KEY = "lc_internal_call"
"""The key of the mark in the metadata of a model call."""

# Of this process: a caller's metadata are those of all its model calls, and must not hide them.
_MARK = uuid4().hex


def internal_call_metadata() -> dict[str, Any]:
    """Return metadata that marks a model call as internal to a middleware.

    >>> config = {"metadata": internal_call_metadata()}  # model.invoke(messages, config)
    >>> list(config["metadata"])
    ['lc_internal_call']
    """
    return {INTERNAL_CALL_METADATA_KEY: _MARK}


class InternalCallTransformer(StreamTransformer):
    """Keeps marked model calls out of `run.messages` and out of the events of the protocol "v3".

    The transformer changes events of one namespace. Streams of the mode "messages" are not changed:
    a call with the tag "nostream" is in neither.

    Args:
        scope: The namespace of the graph.

    >>> from agent_factory import AgentMiddleware
    >>> class Quiet(AgentMiddleware):
    ...     transformers = (InternalCallTransformer,)
    """

    required_stream_modes: ClassVar[tuple[str, ...]] = ("messages",)
    before_builtins: ClassVar[bool] = True  # LangGraph's own would have shown the call

    def init(self) -> dict[str, Any]:
        """Return no projection: nothing is added to a run."""
        return {}

    def process(self, event: ProtocolEvent) -> bool:
        """Return False for an event of a marked call, which LangGraph's own transformer ignores."""
        params: Any = event["params"]
        if event["method"] != "messages" or params["namespace"] != list(self.scope):
            return True
        payload, metadata = params["data"]
        if (metadata or {}).get(INTERNAL_CALL_METADATA_KEY) != _MARK:
            return True
        # langgraph 1.2 hands a suppressed event to other transformers. LangGraph takes all events
        # of a run in the role of a tool for a result, which is not in `run.messages`.
        if isinstance(payload, BaseMessage):
            payload = {}
        elif payload.get("event") == "message-start":
            payload = {**payload, "role": "tool"}
        params["data"] = (payload, metadata)
        return False
