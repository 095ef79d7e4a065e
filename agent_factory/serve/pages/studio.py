"""Studio: threads and runs, for developers: what happened, why, what it cost, and what if."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langgraph.checkpoint.base import CheckpointMetadata
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent_factory.factory import topology_of
from agent_factory.serve.body import number
from agent_factory.serve.pages.conversation import RECENT_MESSAGES, entries_of
from agent_factory.serve.pages.live import (
    AT_WORK,
    PING_SECONDS,
    ThreadEvents,
    changes,
    submitted_with,
)
from agent_factory.serve.pages.picture import picture_of
from agent_factory.serve.pages.rendering import is_partial, page, with_error_page
from agent_factory.serve.pages.verdicts import AUDIT, verdicts
from agent_factory.serve.pages.waits import shown_wait
from agent_factory.serve.security import read_form
from agent_factory.service import HeldMessage, NotFound, Service, ThreadInfo, can_be_steered
from agent_factory.service.progress import SAY_AFTER

PAGE = 50
"""Threads that are loaded at once."""

STATUSES = ("idle", "queued", "running", "waiting", "failed")


@dataclass(frozen=True, slots=True)
class Moment:
    """A checkpoint as a page shows it."""

    id: str
    at: str
    step: int
    source: str
    next: tuple[str, ...]
    messages: int
    is_on_path: bool


@dataclass(frozen=True, slots=True)
class Behind:
    """A message behind the run that works on its thread.

    Args:
        text: What it says.
        checkpoint: The id of the checkpoint at which it begins, if it is a fork.
        note: What it waits for.
    """

    text: str
    checkpoint: str | None
    note: str


class StudioPages:
    """Answers requests for pages about threads and runs."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def home(self, request: Request) -> Response:
        """`GET /`."""
        return RedirectResponse("/studio", status_code=303)

    # Lists

    @with_error_page
    async def threads(self, request: Request) -> Response:
        """`GET /studio`: the threads, and a form for a new one."""
        return page(
            request,
            "studio.html",
            agents=self._agents(),
            agent=request.query_params.get("agent", ""),
            **await run_in_threadpool(self._found, request),
        )

    @with_error_page
    async def rows(self, request: Request) -> Response:
        """`GET /studio/threads`: a part of the list."""
        return page(request, "thread_rows.html", **await run_in_threadpool(self._found, request))

    def _found(self, request: Request) -> dict[str, Any]:
        """The threads that a request asks for."""
        query = request.query_params
        filters: Any = {name: query.get(name) or None for name in ("status", "agent", "text")}
        if filters["status"] not in (None, *STATUSES):
            raise HTTPException(422, f"status must be one of {', '.join(STATUSES)}.")
        offset, tenant = number(request, "offset", 0), request.state.principal.tenant
        threads = self._service.threads.search(
            tenant=tenant, **filters, limit=PAGE + 1, offset=offset
        )
        return {
            "found": threads[:PAGE],
            "more": offset + PAGE if len(threads) > PAGE else None,
            "wanted": filters,
            "statuses": STATUSES,
            "agent_names": [*self._service.agents],
            "open": query.get("open", ""),
        }

    def _agents(self) -> list[dict[str, object]]:
        agents = self._service.agents
        return [{"name": name, "picture": picture_of(agent)} for name, agent in agents.items()]

    @with_error_page
    async def agent(self, request: Request) -> Response:
        """`GET /studio/agents/{agent}`: the plan, with the details of each part."""
        name = request.path_params["agent"]
        agent = self._service.agents.get(name)
        if agent is None:
            raise HTTPException(404, f"There is no agent {name!r}.")
        return page(request, "agent.html", name=name, picture=picture_of(agent))

    async def plan(self, request: Request) -> Response:
        """`GET /studio/agents/{agent}/plan.svg`: the plan as a picture."""
        agent = self._service.agents.get(request.path_params["agent"])
        if agent is None or picture_of(agent) is None:
            raise HTTPException(404, "There is no such plan.")
        # The picture has its style within.
        policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return Response(topology_of(agent).to_svg(), headers=policy, media_type="image/svg+xml")

    async def events(self, request: Request) -> Response:
        """`GET /studio/events`: says when threads or waits have changed."""
        return changes(self._service, request.state.principal.tenant)

    # One thread

    @with_error_page
    async def thread(self, request: Request) -> Response:
        """`GET /studio/threads/{thread}`: the conversation, the plan, the cost, the history."""
        listing = await run_in_threadpool(self._found, request)
        context = await run_in_threadpool(self._shown, request)
        thread = request.path_params["thread"]
        return page(request, "thread.html", **{**listing, "open": thread}, **context)

    @with_error_page
    async def parts(self, request: Request) -> Response:
        """`GET /studio/threads/{thread}/parts`: what changes when a run has paused or ended."""
        context = await run_in_threadpool(self._shown, request)
        only_head = request.query_params.get("only") == "head"
        return page(request, "thread_parts.html", only_head=only_head, **context)

    def _shown(self, request: Request) -> dict[str, Any]:
        """Values for the page of a thread."""
        info, checkpoint = self._info(request), request.query_params.get("at")
        agent = self._service.agents.get(info.agent)
        state = (
            None if agent is None else self._service.threads.state(info.id, checkpoint=checkpoint)
        )
        # LangGraph returns an empty state for a checkpoint that does not exist.
        if state is not None and checkpoint is not None and state.created_at is None:
            raise NotFound(f"checkpoint {checkpoint!r}", "is not one of this thread.")
        values = {} if state is None else state.values
        messages = [*(values.get("messages") or [])]
        if info.run and info.status in AT_WORK and not checkpoint:
            # The thread gets what was said with the first step of the run.
            ids = {message.id for message in messages}
            new_messages = submitted_with(self._service.run(info.run))
            messages += [message for message in new_messages if message.id not in ids]
        tenant = request.state.principal.tenant
        inbox = self._service.inbox(tenant)
        audit = inbox.audit(thread=info.id, limit=AUDIT)
        entries = entries_of(messages, verdicts(audit))
        first = max(0, number(request, "from", len(entries) - RECENT_MESSAGES))
        held_messages: list[HeldMessage] = []
        waits = [] if checkpoint else inbox.waits(thread=info.id)
        if info.status == "waiting" and not checkpoint:
            held_messages = self._service.threads.held(info.id, tenant=tenant)
        return {
            "thread": info,
            "at": checkpoint,
            "entries": entries[first:],
            "first": first,
            "earlier": max(0, first - RECENT_MESSAGES),
            "values": {name: value for name, value in values.items() if name != "messages"},
            "next": () if state is None else state.next,
            "waits": [
                shown_wait(self._service, wait, request, held=held_messages) for wait in waits
            ],
            "held": held_messages or ([] if checkpoint else self._behind(info)),
            "waiting": None if agent is None else self._service.waiting(info.agent),
            "busy": None if agent is None else self._service.busy(info.agent),
            "steers": agent is not None and can_be_steered(agent),
            "missing": self._missing(info),
            "usage": self._service.threads.usage(info.id, tenant=tenant),
            "picture": None if agent is None else picture_of(agent),
            "is_at_work": info.status in AT_WORK,
            "agents": self._agents(),
        }

    @with_error_page
    async def held(self, request: Request) -> Response:
        """`GET /studio/threads/{thread}/held`: messages that wait for a decision, or for a run."""
        info = await run_in_threadpool(self._info, request)

        def work() -> Sequence[HeldMessage | Behind]:
            held_messages = self._service.threads.held(info.id, tenant=info.tenant)
            return held_messages or self._behind(info)

        messages = await run_in_threadpool(work)
        return page(request, "held.html", held=messages, thread_id=info.id)

    def _behind(self, info: ThreadInfo) -> list[Behind]:
        """The messages behind the run that works on a thread, in their order."""
        if info.status not in AT_WORK:
            return []
        queued = self._service.threads.runs(info.id, status=["queued"], limit=PAGE)
        messages = []
        for run in reversed(queued):
            if run.id == info.run or run.info.reader is not None:
                continue
            text = "\n".join(str(message.text) for message in run.messages)
            asked = run.request
            note = "waits for its turn"
            if asked.get("busy") == "steer":
                note = "is read at the next step of the run"
            messages.append(Behind(text, asked.get("checkpoint"), note))
        return messages

    @with_error_page
    async def missing(self, request: Request) -> Response:
        """`GET /studio/threads/{thread}/missing`: says if no worker is there for the run."""
        info = await run_in_threadpool(self._info, request)
        missing = await run_in_threadpool(self._missing, info)
        return page(request, "missing.html", missing=missing)

    def _missing(self, info: ThreadInfo) -> str:
        """Name the worker or decision that a run lacks, once it has had the time to begin."""
        is_new = time.time() - info.updated_at < SAY_AFTER
        if info.run is None or info.status not in AT_WORK or is_new:
            return ""
        return str(self._service.run(info.run).missing or "")

    @with_error_page
    async def history(self, request: Request) -> Response:
        """`GET /studio/threads/{thread}/history`: the checkpoints."""
        info = await run_in_threadpool(self._info, request)
        before = request.query_params.get("before")

        def work() -> list[Moment]:
            if info.agent not in self._service.agents:
                return []
            moments: list[Moment] = []
            path: str | None = None
            # One more than is shown tells whether there is another page.
            for state in self._service.threads.history(info.id, before=before, limit=PAGE + 1):
                id = state.config["configurable"]["checkpoint_id"]
                is_on_path = not moments or id == path
                if is_on_path:
                    # The path goes from the newest back to each parent; the rest was forked away.
                    parent = state.parent_config
                    path = None if parent is None else parent["configurable"]["checkpoint_id"]
                metadata: CheckpointMetadata = state.metadata or {}
                moment = Moment(
                    id=id,
                    at=state.created_at or "",
                    step=metadata.get("step", 0),
                    source=str(metadata.get("source", "")),
                    # Without nodes of LangGraph, such as `__start__`.
                    next=tuple(name for name in state.next if not name.startswith("__")),
                    messages=len(state.values.get("messages") or ()),
                    is_on_path=is_on_path,
                )
                moments.append(moment)
            return moments

        moments = await run_in_threadpool(work)
        more = moments[PAGE - 1].id if len(moments) > PAGE else None
        at = request.query_params.get("at")
        context: dict[str, Any] = {"moments": moments[:PAGE], "more": more, "at": at}
        return page(request, "history.html", thread=info, **context)

    async def thread_events(self, request: Request) -> Response:
        """`GET /studio/threads/{thread}/events`: what happens on a thread, as it happens."""
        info = await run_in_threadpool(self._info, request)
        agent = self._service.agents.get(info.agent)
        picture = None if agent is None else picture_of(agent)
        events = ThreadEvents(self._service, info.id, info.tenant, picture)
        after = request.headers.get("last-event-id")
        return EventSourceResponse(events.follow(after), ping=PING_SECONDS)

    @with_error_page
    async def begin(self, request: Request) -> Response:
        """`POST /studio/threads`: a new thread with its first message."""
        form = await read_form(request)
        return await self._submit(request, str(form.get("agent", "")), None)

    @with_error_page
    async def write(self, request: Request) -> Response:
        """`POST /studio/threads/{thread}/messages`: a message, or another run from a checkpoint."""
        info = await run_in_threadpool(self._info, request)
        return await self._submit(request, info.agent, info.id)

    async def _submit(self, request: Request, agent: str, thread: str | None) -> Response:
        form, tenant = await read_form(request), request.state.principal.tenant
        text, checkpoint = str(form.get("text", "")), str(form.get("checkpoint", "")) or None
        if not text.strip() and checkpoint is None:
            raise HTTPException(422, "The message is empty.")
        busy, waiting = (str(form.get(name, "")) or None for name in ("busy", "waiting"))
        if busy is not None and waiting is None:
            # The choice was about the run: if that has come to a question, it says nothing of it.
            waiting = self._service.waiting(agent)
        arguments: Mapping[str, Any] = {
            "thread": thread,
            "message": text if text.strip() else None,
            "checkpoint": checkpoint,
            "tenant": tenant,
            "waiting": waiting,
            "busy": busy,
            "by": request.state.principal.name,
        }
        run = await run_in_threadpool(lambda: self._service.submit(agent, **arguments))
        place = f"/studio/threads/{run.thread_id}"
        if not is_partial(request):
            return RedirectResponse(place, status_code=303)
        if thread is None or checkpoint is not None:
            # htmx would follow a redirect itself, and put the page into a part of this one.
            return Response(status_code=204, headers={"HX-Redirect": place})
        # With 204, htmx leaves the page as it is: the message comes by the stream of events.
        return Response(status_code=204, headers={"HX-Trigger": "written"})

    @with_error_page
    async def cancel(self, request: Request) -> Response:
        """`POST /studio/threads/{thread}/cancel`: end the run of a thread."""
        await read_form(request)
        info = await run_in_threadpool(self._info, request)
        if info.run is not None:
            run = await run_in_threadpool(self._service.run, info.run)
            await run.acancel(by=request.state.principal.name)
        place = f"/studio/threads/{info.id}"
        if is_partial(request):
            return Response(status_code=204)
        return RedirectResponse(place, status_code=303)

    def _info(self, request: Request) -> ThreadInfo:
        thread, tenant = request.path_params["thread"], request.state.principal.tenant
        return self._service.threads.get(thread, tenant=tenant)
