"""Streams of runs as server-sent events, in the words of LangGraph's API."""

from __future__ import annotations

import asyncio
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from operator import itemgetter
from typing import Any
from urllib.parse import quote, urlencode

from langchain_core.messages import BaseMessage, BaseMessageChunk, message_chunk_to_message
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.serve.exchange import messages_in
from agent_factory.serve.json_response import failure_of, to_json
from agent_factory.serve.langgraph.run_events import MODEL_END, RunEvents
from agent_factory.service import NotFound, Run, RunCancelled, RunInfo, Service, ThreadInfo
from agent_factory.upstream import INTERRUPT

PING_SECONDS = 15
"""Seconds between signs of life of a silent stream."""

POLL_SECONDS = 0.2
"""How often the stream of a thread looks for a new run."""

_ACTIVE = ("queued", "running")

_MOST_RUNS = 20
"""How many runs of a thread a stream goes back, and reads at once."""


class Events:
    """Events of one stream.

    Args:
        modes: The modes of the client; None shows all recorded modes.
        subgraphs: Whether the client sees agents inside the agent.
    """

    def __init__(self, run: Run, modes: Collection[str] | None, *, subgraphs: bool) -> None:
        self.run, self._modes, self._subgraphs = run, modes, subgraphs
        self._attempt = 1
        self._partial: dict[str, BaseMessage] = {}
        self._known: set[str] = set()  # ids of messages in the stream or in the state
        self._has_values = False

    async def follow(
        self, after: str | None = None, job: str | None = None
    ) -> AsyncIterator[ServerSentEvent]:
        """The events of a job, or of the newest one, until the run has ended or pauses."""
        if after is None:
            # LangGraph's streams begin with this event.
            run = {"run_id": self.run.id, "attempt": self._attempt}
            yield ServerSentEvent(to_json(run), event="metadata")
        begin = after or (job and f"{job}:0:0")
        if after is not None and {"messages", "messages-tuple", "events"} & {*(self._modes or ())}:
            # A message may begin before the last event of the client.
            begin = f"{after.rsplit(':', 2)[0]}:0:0"
        run_events = None
        if self._modes is not None and "events" in self._modes:
            begin_of_run = await run_in_threadpool(lambda: (self.run.info, self.run.request))
            run_events = RunEvents(*begin_of_run)
        try:
            async for part in self.run.astream(after=begin):
                if part["type"] == "waiting_for":  # LangGraph has no event for a wait
                    yield ServerSentEvent(comment=part["data"]["text"])
                    continue
                events = [*self._events_of(part)]
                # As on LangGraph's own server, before other modes, for clients take the first, and
                # the end of a model after its last chunk.
                if run_events is not None:
                    made = [("events", event) for event in run_events.events(part)]
                    if part["type"] == "end" and part["data"]["status"] == "done":
                        made.append(("events", run_events.end(await self.run.aresult())))
                    ends = [made.pop()] if made and made[-1][1]["event"] == MODEL_END else []
                    events = [*made, *events, *ends]
                if begin != after and after and _numbers(part["id"]) <= _numbers(after):
                    continue
                for position, (name, data) in enumerate(events, 1):
                    # A client that was cut off between these events gets all again.
                    id = part["id"] if position == len(events) else None
                    yield ServerSentEvent(to_json(data), event=name, id=id)
        except RunCancelled as error:
            yield ServerSentEvent(to_json(error), event="error")

    def _events_of(self, part: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
        kind, data = part["type"], part["data"]
        if kind == "end":
            if data["status"] == "failed":
                yield "error", failure_of(data["error"])
        elif kind == "resumed":
            self._attempt += 1
            yield "metadata", {"run_id": self.run.id, "attempt": self._attempt}
        # Recorded for the studio, which sees more than this run was asked to show.
        elif part.get("asked") is False or (part["ns"] and not self._subgraphs):
            return
        elif kind == "messages":
            yield from self._of_message(part["ns"], *data)
        else:
            if kind in ("values", "updates") and not part["ns"]:
                yield from self._of_inner_agents(kind, data)
            if self._modes is None or kind in self._modes:
                if part.get("interrupts"):
                    data = {**data, INTERRUPT: part["interrupts"]}
                yield "|".join([kind, *part["ns"]]), data

    def _of_message(
        self, ns: Sequence[str], message: BaseMessage, metadata: object
    ) -> Iterator[tuple[str, object]]:
        self._known.add(str(message.id))
        if self._modes is None or "messages-tuple" in self._modes:
            yield "|".join(["messages", *ns]), [message, metadata]
        if self._modes is None or "messages" not in self._modes:
            return
        # In this mode, each event has the whole message so far.
        key = str(message.id)
        earlier = self._partial.get(key)
        if earlier is None:
            yield "messages/metadata", {key: {"metadata": metadata}}
        if not isinstance(message, BaseMessageChunk):
            yield "messages/complete", [message]
            return
        whole: Any = message if earlier is None else earlier + message
        self._partial[key] = whole
        yield "messages/partial", [message_chunk_to_message(whole)]

    def _of_inner_agents(self, kind: str, data: Any) -> Iterator[tuple[str, object]]:
        """Messages of agents in nodes, once such a node has ended.

        So LangGraph shows messages to clients that do not ask for inner agents.
        """
        if self._subgraphs or self._modes is None:
            return
        if kind == "values":
            self._has_values = True
            self._known.update(str(message.id) for message in messages_in(data))
            return
        for node, update in data.items():
            for message in messages_in(update):
                # Only the values tell which messages are new.
                if self._has_values and str(message.id) not in self._known:
                    metadata = {
                        "langgraph_node": node,
                        "thread_id": self.run.thread_id,
                        "run_id": self.run.id,
                    }
                    yield from self._of_message((), message, metadata)


def _numbers(id: str) -> list[int]:
    """The position of an event in its job."""
    return [int(number) for number in id.split(":")[-2:]]


def last_event_id(request: Request, thread: str) -> str | None:
    """The id of the last event of a thread that a client has seen; "-1" asks for all.

    Raises:
        HTTPException: 422 for an id of another thread.
    """
    after: str | None = request.headers.get("last-event-id")
    place = rf"{re.escape(thread)}/\d{{1,30}}(:\d{{1,18}}){{2}}"  # rows have 64 bits
    if after in (None, "-1") or re.fullmatch(place, str(after)):
        return after
    raise HTTPException(422, f"Last-Event-ID is not of an event of this thread: {after!r}.")


async def follow_thread(
    service: Service, thread: str, tenant: str, after: str | None
) -> AsyncIterator[ServerSentEvent]:
    """The events of the jobs of a thread, one after the other, until the client goes away.

    Args:
        after: The result of `last_event_id`. None begins with the present run, "-1" with the oldest
            of the newest 20 runs.
    """
    last_seen = "" if after in (None, "-1") else str(after)

    def known(runs: ThreadRuns) -> int:
        newest = {number_of(info.job): info.status for _, info in runs if info.job}
        if after is None:
            active = [number for number, status in newest.items() if status in _ACTIVE]
            return min(active) - 1 if active else max(newest, default=0)
        job = number_of(last_seen.partition(":")[0]) if last_seen else None
        # An earlier thread of this name, since deleted, may have had greater numbers.
        return first_job(runs) - 1 if job is None or job > max(newest, default=0) else job - 1

    events: Events | None = None
    async for run, job in thread_jobs(service, thread, tenant, known):
        if events is None or events.run.id != run.id:
            events = Events(run, None, subgraphs=True)
        seen = last_seen if last_seen.startswith(f"{job}:") else None
        with suppress(NotFound):  # the run was deleted, perhaps with its thread
            async for event in events.follow(seen, job):
                yield event
            done = {"status": "run_done", "run_id": run.id}
            yield ServerSentEvent(to_json(done), event="metadata")


ThreadRuns = list[tuple[Run, RunInfo]]
"""The newest runs of a thread, the newest first."""


def number_of(job: str) -> int:
    """The number of a job in its thread."""
    return int(job.rpartition("/")[2])


def first_job(runs: ThreadRuns) -> int:
    """The number of the first job of some runs; 1 without a job."""
    return min((number_of(job) for run, _ in runs for job in run.jobs), default=1)


async def thread_jobs(
    service: Service, thread: str, tenant: str, known: Callable[[ThreadRuns], int]
) -> AsyncIterator[tuple[Run, str]]:
    """The jobs of a thread, each with its run: one for each message, and one for each decision.

    Args:
        known: Returns the number of the last job that the client has, by the newest 20 runs.
    """
    before: ThreadInfo | None = None
    last: int | None = None

    def look() -> list[tuple[int, Run, str]]:
        """The new jobs, after a change of the thread."""
        nonlocal before, last
        info = service.threads.get(thread, tenant=tenant)
        if before is not None and info.created_at != before.created_at:
            raise NotFound(f"thread {thread!r}", "was deleted, and created again.")
        if before is not None and info.updated_at == before.updated_at:
            return []
        before = info  # Before the runs are read: the next look sees later changes.
        rows: ThreadRuns = []
        while len(rows) % _MOST_RUNS == 0:
            # Any number of runs may have waited in a queue.
            runs = service.threads.runs(thread, tenant=tenant, limit=_MOST_RUNS, offset=len(rows))
            rows += [(run, run.info) for run in runs]
            last = seen = known(rows) if last is None else last
            new = [run for run, info in rows if info.job and number_of(info.job) > seen]
            # Behind a run without new jobs, no run has new jobs.
            if not runs or any(info.job and number_of(info.job) <= seen for _, info in rows):
                break
        jobs = [(number_of(job), run, job) for run in new for job in run.jobs]
        return sorted((job for job in jobs if job[0] > seen), key=itemgetter(0))

    with suppress(NotFound):
        while True:
            for number, run, job in await run_in_threadpool(look):
                yield run, job
                last = number
            await asyncio.sleep(POLL_SECONDS)


def place_of(run: Run) -> str:
    """The address of a run."""
    return f"/threads/{quote(run.thread_id, safe='')}/runs/{run.id}"


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
        after: The id of the last event that the client has seen.
        cancels: Whether the run ends when the client goes away.
        finally_: Is called at the end of the stream.
    """

    has_ended = False

    async def events() -> AsyncIterator[ServerSentEvent]:
        nonlocal has_ended
        try:
            async for event in Events(run, modes, subgraphs=subgraphs).follow(after):
                yield event
        except NotFound as error:  # the run was deleted
            yield ServerSentEvent(to_json(error), event="error")
        else:
            has_ended = True
        finally:
            if finally_ is not None:
                await finally_()

    async def cancel(_: object) -> None:
        # A client that has read all may close at once: then a run that pauses stays.
        if cancels and not has_ended:
            await run.acancel(by="the client has gone")

    # Clients that are cut off ask for the rest there.
    again = urlencode({"stream_mode": [*(modes or ())]}, doseq=True)
    place = place_of(run)
    return EventSourceResponse(
        events(),
        headers={"Content-Location": place, "Location": f"{place}/stream?{again}".rstrip("?")},
        ping=PING_SECONDS,
        client_close_handler_callable=cancel,
    )
