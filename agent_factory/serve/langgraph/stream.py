"""Streams of runs as server-sent events, in the words of LangGraph's API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from langchain_core.messages import BaseMessage, BaseMessageChunk, message_chunk_to_message
from sse_starlette import EventSourceResponse, ServerSentEvent

from agent_factory.errors import ArgumentError
from agent_factory.serve.json_response import to_json
from agent_factory.service import Run, RunCancelled
from agent_factory.service.backend import INTERRUPT

PING_SECONDS = 15
"""How often a stream without news says that it is alive."""


class Events:
    """Events of one stream.

    Args:
        run: The run.
        modes: What the client wants to see; None shows all that was recorded.
        subgraphs: Whether it wants to see what agents inside the agent do.
    """

    def __init__(self, run: Run, modes: Collection[str] | None, *, subgraphs: bool) -> None:
        self._run, self._modes, self._subgraphs = run, modes, subgraphs
        self._attempt = 1
        self._partial: dict[str, BaseMessage] = {}

    async def follow(self, after: str | None = None) -> AsyncIterator[ServerSentEvent]:
        """The events, until the run has ended or pauses."""
        if after is None:
            yield self._metadata()
        try:
            async for part in self._run.astream(after=after):
                for name, data in self._events_of(part):
                    yield ServerSentEvent(to_json(data), event=name, id=part["id"])
        except (ArgumentError, RunCancelled) as error:
            yield ServerSentEvent(to_json(error), event="error")

    def _metadata(self) -> ServerSentEvent:
        data = {"run_id": self._run.id, "attempt": self._attempt}
        return ServerSentEvent(to_json(data), event="metadata")

    def _events_of(self, part: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        kind, data = part["type"], part["data"]
        if kind == "end":
            if data["status"] == "failed":
                error, _, message = data["error"].partition(": ")
                yield "error", {"error": error, "message": message}
        elif kind == "resumed":
            self._attempt += 1
            yield "metadata", {"run_id": self._run.id, "attempt": self._attempt}
        elif part["ns"] and not self._subgraphs:
            return
        elif kind == "messages":
            if self._modes is None or "messages-tuple" in self._modes:
                yield "|".join(["messages", *part["ns"]]), data
            if self._modes is not None and "messages" in self._modes:
                yield from self._messages(*data)
        elif self._modes is None or kind in self._modes:
            if part.get("interrupts"):
                data = {**data, INTERRUPT: part["interrupts"]}
            yield "|".join([kind, *part["ns"]]), data

    def _messages(self, message: BaseMessage, metadata: Any) -> Iterator[tuple[str, Any]]:
        """A message as far as it is known, and not only what is new of it."""
        key = str(message.id)
        known = self._partial.get(key)
        if known is None:
            yield "messages/metadata", {key: {"metadata": metadata}}
        if not isinstance(message, BaseMessageChunk):
            yield "messages/complete", [message]
            return
        whole: Any = message if known is None else known + message
        self._partial[key] = whole
        yield "messages/partial", [message_chunk_to_message(whole)]


def stream_response(
    run: Run,
    modes: Collection[str] | None,
    *,
    subgraphs: bool,
    after: str | None = None,
    cancels: bool = False,
    finally_: Callable[[], Awaitable[None]] | None = None,
) -> EventSourceResponse:
    """The stream of a run.

    Args:
        run: The run.
        modes: What the client wants to see; None shows all that was recorded.
        subgraphs: Whether it wants to see what agents inside the agent do.
        after: The id of the last event that the client has seen.
        cancels: Whether the run is cancelled when the client goes away.
        finally_: Is called once the stream has ended.
    """

    async def events() -> AsyncIterator[ServerSentEvent]:
        try:
            async for event in Events(run, modes, subgraphs=subgraphs).follow(after):
                yield event
        finally:
            if finally_ is not None:
                await finally_()

    async def cancel(_: object) -> None:
        if cancels:
            await run.acancel(by="the client has gone")

    place = f"/threads/{quote(run.thread_id, safe='')}/runs/{run.id}"
    return EventSourceResponse(
        events(),
        headers={"Content-Location": place, "Location": f"{place}/stream"},
        ping=PING_SECONDS,
        client_close_handler_callable=cancel,
    )
