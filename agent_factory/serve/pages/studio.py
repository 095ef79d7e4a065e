"""Studio: pages of threads, for developers: events, reasons, cost, history, and forks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import HumanMessage
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent_factory.errors import ArgumentError
from agent_factory.factory import topology_of
from agent_factory.serve.body import number
from agent_factory.serve.endpoints import Endpoints
from agent_factory.serve.exchange import check_agent
from agent_factory.serve.pages.attachments import accepted_types, message_of
from agent_factory.serve.pages.comparison import compare
from agent_factory.serve.pages.conversation import RECENT_MESSAGES, entries_of
from agent_factory.serve.pages.history import (
    AT_WORK,
    ThreadHistory,
    fork_of,
    has_written,
    id_of,
    messages_of,
    time_of,
)
from agent_factory.serve.pages.live import (
    PING_SECONDS,
    ThreadEvents,
    changes,
    submitted_with,
    version_of,
)
from agent_factory.serve.pages.picture import picture_of
from agent_factory.serve.pages.rendering import Values, is_partial
from agent_factory.serve.pages.thread_rows import activity_of, thread_rows
from agent_factory.serve.pages.waits import shown_wait
from agent_factory.serve.pages.wording import AUDIT, Wording, verdicts
from agent_factory.serve.principal import LOCAL
from agent_factory.service import ThreadInfo, can_be_steered

PAGE = 50
"""Threads on one page."""

_BEGINS_WITHIN = 2.0
"""Seconds until a page reports the lack of a worker."""

STATUSES = ("idle", "queued", "running", "waiting", "failed")


class StudioPages(Endpoints):
    """Answers requests for pages about threads and runs."""

    async def home(self, request: Request) -> Response:
        """`GET /`."""
        return RedirectResponse("/studio", status_code=303)

    # Lists

    def threads(self, request: Request) -> Values:
        """`GET /studio`: the threads, and a form for a new one."""
        agents = [
            {"name": name, "picture": picture_of(agent), "attachments": self._accepted(name)}
            for name, agent in self._service.agents.items()
        ]
        agent = request.query_params.get("agent", "")
        return {**self.rows(request), "agents": agents, "agent": agent}

    def rows(self, request: Request) -> Values:
        """`GET /studio/threads`: a part of the list."""
        query = request.query_params
        filters: Any = {name: query.get(name) or None for name in ("status", "agent", "text")}
        if filters["status"] not in (None, *STATUSES):
            raise HTTPException(422, f"status must be one of {', '.join(STATUSES)}.")
        filters["archived"] = query.get("archived") == "1"
        offset, tenant = number(request, "offset", 0), request.state.principal.tenant
        threads = self._service.threads.search(
            tenant=tenant, **filters, limit=PAGE + 1, offset=offset
        )
        return {
            "found": thread_rows(self._service, threads[:PAGE], tenant),
            "more": offset + PAGE if len(threads) > PAGE else None,
            "wanted": filters,
            "statuses": STATUSES,
            "agent_names": [*self._service.agents],
            "open": query.get("open", ""),
        }

    def _accepted(self, agent: str) -> list[str]:
        """The media types of attachments for an agent."""
        return accepted_types(self._service.attachments(agent))

    def agent(self, request: Request) -> Values:
        """`GET /studio/agents/{agent}`: the plan, with the details of each part."""
        name = request.path_params["agent"]
        check_agent(self._service, name)
        return {"name": name, "picture": picture_of(self._service.agents[name])}

    async def plan(self, request: Request) -> Response:
        """`GET /studio/agents/{agent}/plan.svg`: the plan as a picture."""
        agent = self._service.agents.get(request.path_params["agent"])
        if agent is None or picture_of(agent) is None:
            raise HTTPException(404, "There is no such plan.")
        # The picture contains its style.
        policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return Response(topology_of(agent).to_svg(), headers=policy, media_type="image/svg+xml")

    async def events(self, request: Request) -> Response:
        """`GET /studio/events`: says when threads or waits have changed."""
        return changes(self._service, request.state.principal.tenant)

    # One thread

    def thread(self, request: Request) -> Values:
        """`GET /studio/threads/{thread}`: the conversation, the plan, the cost, the history."""
        thread = request.path_params["thread"]
        return {**self.rows(request), "open": thread, **self._shown(request)}

    def parts(self, request: Request) -> Values:
        """`GET /studio/threads/{thread}/parts`: the changing parts, after a pause or an end."""
        only_head = request.query_params.get("only") == "head"
        return {**self._shown(request), "only_head": only_head}

    def _shown(self, request: Request) -> Values:
        """Values for the page of a thread."""
        info, checkpoint = self._thread(request), request.query_params.get("at")
        agent = self._service.agents.get(info.agent)
        history = ThreadHistory(self._service, info)
        state = None if agent is None else history.state(checkpoint)
        queue = [] if checkpoint else history.queue(state)
        is_at_work = info.status in AT_WORK
        run = self._service.run(info.run) if info.run and is_at_work and not checkpoint else None
        fork = None if run is None or has_written(run.id, state) else fork_of(run)
        if fork is not None and state is not None:
            # The run goes on from the fork, and has not written yet.
            state = history.state(fork)
        messages = [] if state is None else [*messages_of(state)]
        if run is not None:
            # The thread gets the messages with the first step of the run.
            ids = {message.id for message in messages}
            messages += [message for message in submitted_with(run) if message.id not in ids]
        inbox = self._inbox(request)
        entries = entries_of(messages, verdicts(inbox.audit(thread=info.id, limit=AUDIT)))
        first = max(0, number(request, "from", len(entries) - RECENT_MESSAGES))
        held = queue if info.status == "waiting" else []
        waits = [] if checkpoint else inbox.waits(thread=info.id)
        return {
            "thread": info,
            "version": version_of(info),
            "at": checkpoint,
            "at_time": time_of(state) if checkpoint and state is not None else None,
            "is_forked": any(message.checkpoint for message in queue),
            "entries": entries[first:],
            "chat": history.controls(messages, entries, checkpoint),
            "activity": activity_of(info, waits),
            "attachments": [] if agent is None else self._accepted(info.agent),
            "first": first,
            "earlier": max(0, first - RECENT_MESSAGES),
            "next": () if state is None else state.next,
            "waits": [shown_wait(self._service, wait, request, held=held) for wait in waits],
            "held": [message for message in queue if message.run != info.run],
            "waiting": None if agent is None else self._service.waiting(info.agent),
            "busy": None if agent is None else self._service.busy(info.agent),
            "steers": agent is not None and can_be_steered(agent),
            "missing": self._missing(info),
            "usage": self._service.threads.usage(info.id),
            "picture": None if agent is None else picture_of(agent),
            "is_at_work": is_at_work,
        }

    def held(self, request: Request) -> Values:
        """`GET /studio/threads/{thread}/held`: messages that wait for a decision, or for a run."""
        info = self._thread(request)
        queue = ThreadHistory(self._service, info).queue()
        messages = [message for message in queue if message.run != info.run]
        return {"held": messages, "thread_id": info.id}

    def missing(self, request: Request) -> Values:
        """`GET /studio/threads/{thread}/missing`: says if no worker is there for the run."""
        return {"missing": self._missing(self._thread(request))}

    def _missing(self, info: ThreadInfo) -> str:
        """Name a lacking worker or decision, once the run has had the time to begin."""
        is_new = time.time() - info.updated_at < _BEGINS_WITHIN
        if info.run is None or info.status not in AT_WORK or is_new:
            return ""
        return str(self._service.run(info.run).missing or "")

    async def thread_events(self, request: Request) -> Response:
        """`GET /studio/threads/{thread}/events`: the events of a thread."""
        info = await run_in_threadpool(self._thread, request)
        agent = self._service.agents.get(info.agent)
        picture = None if agent is None else picture_of(agent)
        events = ThreadEvents(self._service, info.id, info.tenant, picture)
        after, shown = request.headers.get("last-event-id"), request.query_params.get("shown", "")
        return EventSourceResponse(events.follow(after, shown), ping=PING_SECONDS)

    def begin(self, request: Request) -> Response:
        """`POST /studio/threads`: a new thread with its first message."""
        return self._submit(request, str(request.state.form.get("agent", "")), None)

    def write(self, request: Request) -> Response:
        """`POST /studio/threads/{thread}/messages`: a message, or another run from a checkpoint."""
        info = self._thread(request)
        return self._submit(request, info.agent, info.id)

    def _submit(self, request: Request, agent: str, thread: str | None) -> Response:
        form, principal = request.state.form, request.state.principal
        text, checkpoint = str(form.get("text", "")), str(form.get("checkpoint", "")) or None
        message = message_of(form, text, self._service.attachments(agent))
        has_message = not isinstance(message, str) or bool(message.strip())
        if not has_message and checkpoint is None:
            raise HTTPException(422, "The message is empty.")
        busy, waiting = (str(form.get(name, "")) or None for name in ("busy", "waiting"))
        if busy is not None and waiting is None:
            # The choice was about the run, not about a question.
            waiting = self._service.waiting(agent)
        options: Any = {"busy": busy, "waiting": waiting, "checkpoint": checkpoint}
        for name in ("interrupt_before", "interrupt_after"):
            options[name] = form.getlist(name) or None
        who = {"tenant": principal.tenant, "by": principal.name}
        content = message if has_message else None
        run = self._service.submit(agent, thread=thread, message=content, **options, **who)
        place = f"/studio/threads/{run.thread_id}"
        if not is_partial(request):
            return RedirectResponse(place, status_code=303)
        if thread is None or checkpoint is not None:
            # htmx would follow a redirect, and put the page into a part of this page.
            return Response(status_code=204, headers={"HX-Redirect": place})
        # With 204, htmx changes nothing: the message comes by the stream of events.
        return Response(status_code=204, headers={"HX-Trigger": "written"})

    def cancel(self, request: Request) -> Response:
        """`POST /studio/threads/{thread}/cancel`: end the run of a thread."""
        info = self._thread(request)
        if info.run is not None:
            self._service.run(info.run).cancel(by=request.state.principal.name)
        if is_partial(request):
            return Response(status_code=204)
        return RedirectResponse(f"/studio/threads/{info.id}", status_code=303)

    # Its history, and forks

    def history(self, request: Request) -> Values:
        """`GET /studio/threads/{thread}/history`: the moments, and a comparison of two of them."""
        query, thread = request.query_params, self._thread(request)
        values: Values = {"thread": thread, "at": query.get("at"), "comparison": None}
        if thread.agent not in self._service.agents:
            return {**values, "moments": [], "more": None}
        history = ThreadHistory(self._service, thread)
        # Without authentication, the reader is the author.
        wording = Wording(thread.agent, "you" if request.state.principal == LOCAL else "the user")
        columns = query.get("columns", "").split(",") if query.get("columns") else []
        moments, columns, more = history.part(wording, query.get("before"), columns)
        values |= {"moments": moments, "columns": ",".join(columns), "more": more}
        checkpoints = [row.checkpoint for row in moments if row.checkpoint]
        if checkpoints:
            values |= {"newest": checkpoints[0], "chosen": (checkpoints[-1], checkpoints[0])}
        if first := query.get("from"):
            states = [history.state(id) for id in (first, query.get("to") or None)]
            # In the order of time, not of the choice.
            states.sort(key=time_of)
            values["comparison"] = compare(states[0].values, states[1].values, thread.agent)
            # Moments further back have a time and no words.
            words = {id_of(state): row.words for row in moments for state in row.steps}
            values["chosen"] = [id_of(state) for state in states]
            values["ends"] = [(id_of(s), time_of(s), words.get(id_of(s), "")) for s in states]
        return values

    def regenerate(self, request: Request) -> Values | Response:
        """`POST /studio/threads/{thread}/answers`: another version of an answer.

        With `whole`, the branch begins after the message of the user, else just before the answer.
        """
        return self._fork(request, None, keeps=request.state.form.get("whole") == "1")

    def resend(self, request: Request) -> Values | Response:
        """`POST /studio/threads/{thread}/versions`: another version of a message of the user."""
        form, history = request.state.form, ThreadHistory(self._service, self._thread(request))
        text, id = str(form.get("text", "")), str(form.get("message", ""))
        messages = messages_of(history.state(str(form.get("at", "")) or None))
        message = next((m for m in messages if m.id == id), None)
        if not isinstance(message, HumanMessage):
            raise HTTPException(404, f"There is no message {id!r:.80} of the user.")
        blocks = message.content if isinstance(message.content, list) else []
        files = [b for b in blocks if isinstance(b, Mapping) and b.get("type") != "text"]
        words: list[Any] = [{"type": "text", "text": text}] if text.strip() else []
        # A string where there are no files: not each model takes a list of blocks.
        content = [*words, *files] if files else text.strip() and text
        if not content:
            raise HTTPException(422, "The message is empty.")
        return self._fork(request, HumanMessage(content), keeps=False)

    def _fork(
        self, request: Request, message: HumanMessage | None, *, keeps: bool
    ) -> Values | Response:
        """Begin a branch at the message of a form; `keeps` is as in `ThreadHistory.fork`."""
        form, principal, info = request.state.form, request.state.principal, self._thread(request)
        at, history = str(form.get("at", "")) or None, ThreadHistory(self._service, info)
        self._service.submit(
            info.agent,
            thread=info.id,
            message=message,
            checkpoint=history.fork(str(form.get("message", "")), at, keeps=keeps),
            tenant=principal.tenant,
            # Behind a run that has begun meanwhile, nobody expects a branch.
            busy="reject",
            waiting="reject" if self._service.waiting(info.agent) == "reject" else "interrupt",
            by=principal.name,
        )
        place = f"/studio/threads/{info.id}"
        if not is_partial(request):
            return RedirectResponse(place, status_code=303)
        # The page of another branch has no stream of events.
        if at is not None:
            return Response(status_code=204, headers={"HX-Redirect": place})
        return self.parts(request)

    # Its title, archive and deletion

    def settings(self, request: Request) -> Values:
        """`GET /studio/threads/{thread}/settings`: the settings."""
        return {"thread": self._thread(request)}

    def rename(self, request: Request) -> Values | Response:
        """`POST /studio/threads/{thread}/rename`: another title."""
        title = str(request.state.form.get("title", ""))
        try:
            return self._change(request, title=title)
        # The text stays in the field, next to its fault.
        except ArgumentError as error:
            draft = {"title": title, "problem": f"The title {error.reason}", "status": 422}
            return {"thread": self._thread(request), **draft}

    def archive(self, request: Request) -> Response:
        """`POST /studio/threads/{thread}/archive`: take it out of the list, or put it back."""
        return self._change(request, archived=request.state.form.get("archived") == "1")

    def _change(self, request: Request, **changes: Any) -> Response:
        thread, tenant = request.path_params["thread"], request.state.principal.tenant
        self._service.threads.change(thread, tenant=tenant, **changes)
        return RedirectResponse(f"/studio/threads/{thread}/settings", status_code=303)

    def ask(self, request: Request) -> Values:
        """`GET /studio/threads/{thread}/delete`: a question before the deletion."""
        info = self._thread(request)
        runs = self._service.threads.count_runs(info.id, tenant=info.tenant)
        return {"thread": info, "runs": runs}

    def delete(self, request: Request) -> Response:
        """`POST /studio/threads/{thread}/delete`: delete the thread, as the HTTP API does."""
        self._service.threads.delete(self._thread(request).id, by=request.state.principal.name)
        return RedirectResponse("/studio", status_code=303)
