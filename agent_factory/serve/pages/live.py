"""Live: events of a service, as server-sent events for pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage, ToolMessage
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from agent_factory.errors import ArgumentError
from agent_factory.providers import text_of
from agent_factory.serve.exchange import messages_in
from agent_factory.serve.json_response import to_json
from agent_factory.serve.pages.conversation import entry_of
from agent_factory.serve.pages.history import AT_WORK, fork_of
from agent_factory.serve.pages.picture import Picture
from agent_factory.serve.pages.rendering import render
from agent_factory.service import NotFound, Run, RunCancelled, Service, ThreadInfo
from agent_factory.upstream import INTERRUPT

LOOK_SECONDS = 0.5
"""Seconds between looks for changed threads and waits."""

PING_SECONDS = 15
"""Seconds between signs of life of a silent stream."""


def changes(service: Service, tenant: str) -> EventSourceResponse:
    """Says when threads or waits of a tenant have changed."""

    async def events() -> AsyncIterator[ServerSentEvent]:
        last: object = None
        while True:
            now = await run_in_threadpool(service.threads.pulse, tenant=tenant)
            if now != last:
                yield ServerSentEvent(to_json(now), event="changed")
            last = now
            await asyncio.sleep(LOOK_SECONDS)

    return EventSourceResponse(events(), ping=PING_SECONDS)


class ThreadEvents:
    """Events of one thread, for its page."""

    def __init__(self, service: Service, thread: str, tenant: str, picture: Picture | None) -> None:
        self._service, self._thread, self._tenant = service, thread, tenant
        self._picture = picture
        self._before: str | None = None  # the node whose end was seen last

    async def follow(self, after: str | None, shown: str = "") -> AsyncIterator[ServerSentEvent]:
        """The events, until the thread is deleted.

        Args:
            after: The id of the last event of the page.
            shown: The version of the thread on the page, see `version_of`.
        """
        last: str | None = None
        while (thread := await run_in_threadpool(self._read)) is not None:
            now = version_of(thread)
            if now == last or thread.run is None:
                last = now
                await asyncio.sleep(LOOK_SECONDS)
                continue
            run = self._service.run(thread.run, tenant=self._tenant)
            # A new page knows the status of a thread at rest.
            if last is not None or thread.status in AT_WORK:
                # A branch has other messages than the page.
                forks = await run_in_threadpool(fork_of, run) is not None
                yield _event("status", {"status": thread.status, "forks": forks})
            if thread.status in AT_WORK:  # no node writes messages of the user
                for message in await run_in_threadpool(submitted_with, run):
                    yield _event("message", _message(message))
            has_begun = thread.status != "queued"
            # A page with the whole conversation needs light in the plan only.
            is_shown = thread.status not in AT_WORK and now == shown
            try:
                async for part in run.astream(after=after):
                    if part["type"] == "waiting_for":
                        continue
                    if not has_begun:
                        has_begun = True
                        yield _event("begun", {})
                    for kind, data in self._shown(part):
                        if is_shown and kind in ("token", "message", "result"):
                            continue
                        if kind == "settled":
                            data["at"] = await run_in_threadpool(self._places)
                            data["is_shown"] = is_shown
                        yield _event(kind, data, part["id"])
            except ArgumentError:  # the page has seen events of another thread last
                after = None
                continue
            except RunCancelled:
                yield _event("settled", {"status": "cancelled"})
            after = None
            thread = await run_in_threadpool(self._read)
            # The page knows the changes of this run, but not those of a next one.
            is_next = thread is not None and (thread.status in AT_WORK or thread.run != run.id)
            last = "" if thread is None or is_next else version_of(thread)
        yield _event("gone", {})

    def _read(self) -> ThreadInfo | None:
        """The thread; None once it is deleted."""
        with suppress(NotFound):
            return self._service.threads.get(self._thread, tenant=self._tenant)
        return None

    def _places(self) -> list[str]:
        """Keys of the nodes where the thread waits."""
        if self._picture is None:
            return []
        try:
            following = self._service.threads.state(self._thread).next
        except NotFound:  # the thread was deleted
            return []
        return [self._picture.nodes[node] for node in following if node in self._picture.nodes]

    def _shown(self, part: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, object]]]:
        """Events of a page for a part of a run's stream."""
        kind, data = part["type"], part["data"]
        if kind == "end":
            yield "settled", {"status": data["status"]}
        elif kind == "resumed":
            yield "resumed", {"worker": data["worker"]}
        elif part["ns"]:
            return
        elif kind == "messages":
            message = data[0]
            if not isinstance(message, AIMessageChunk):
                return
            if (text := text_of(message)) or message.tool_call_chunks:
                names = [chunk["name"] for chunk in message.tool_call_chunks if chunk["name"]]
                yield "token", {"id": message.id, "text": text, "calls": names}
        elif kind == "custom" and isinstance(data, Mapping) and "decision" in data:
            decision = data["decision"]
            owner, hook = decision["middleware"], decision["hook"]
            lit = {} if self._picture is None else self._picture.lit_by(decision)
            about = {name: decision[name] for name in ("outcome", "detail", "reason", "tool")}
            where = f"{owner}.{hook}" if owner else hook
            ms = round(decision["seconds"] * 1000, 1)
            yield "decision", {**lit, **about, "where": where, "ms": ms}
        elif kind == "updates":
            for node, update in data.items():
                if node != INTERRUPT:
                    keys = {} if self._picture is None else self._picture.nodes
                    yield "node", {"name": node, "node": keys.get(node)}
                    yield from _messages_of(update)


def version_of(thread: ThreadInfo) -> str:
    """Version of a thread on a page."""
    return f"{thread.run} {thread.status} {thread.updated_at!r}"


def submitted_with(run: Run) -> list[BaseMessage]:
    """The messages of a run with ids, which tell them from messages of the thread."""
    return [message for message in run.messages if message.id]


def _messages_of(update: object) -> Iterator[tuple[str, dict[str, object]]]:
    """The messages of a node, rendered."""
    for message in messages_in(update):
        if isinstance(message, ToolMessage):
            # Rendered here: live and loaded pages look the same.
            html = render("result.html", result=message)
            yield "result", {"call": message.tool_call_id, "html": html}
        elif message.type != "remove":
            yield "message", _message(message)


def _message(message: BaseMessage) -> dict[str, object]:
    entry = entry_of(message)
    calls = [call.name for call in entry.calls]
    return {"id": entry.id, "html": render("message.html", entry=entry), "calls": calls}


def _event(kind: str, data: Mapping[str, object], id: str | None = None) -> ServerSentEvent:
    return ServerSentEvent(to_json(data), event=kind, id=id)
