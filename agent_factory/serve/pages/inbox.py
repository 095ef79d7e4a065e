"""Inbox: what threads wait for, and the forms by which people decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent_factory.errors import AgentFactoryError
from agent_factory.serve.body import number
from agent_factory.serve.pages.conversation import entries_of
from agent_factory.serve.pages.forms import FormError, read_args
from agent_factory.serve.pages.live import changes
from agent_factory.serve.pages.picture import picture_of
from agent_factory.serve.pages.rendering import is_partial, page, with_error_page
from agent_factory.serve.pages.waits import schema_of, shown_wait
from agent_factory.serve.security import read_form
from agent_factory.service import Service
from agent_factory.service.inbox import Wait

PAGE = 50
"""Waits on a page."""

EVIDENCE = 12
"""Messages that are shown with a wait."""

DECISIONS = ("approve", "edit", "reject", "respond")


class InboxPages:
    """Answers requests for pages about waits."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @with_error_page
    async def waits(self, request: Request) -> Response:
        """`GET /inbox`: all that waits."""
        return page(request, "inbox.html", **await run_in_threadpool(self._found, request))

    @with_error_page
    async def rows(self, request: Request) -> Response:
        """`GET /inbox/rows`: the list alone."""
        return page(request, "wait_rows.html", **await run_in_threadpool(self._found, request))

    def _found(self, request: Request) -> dict[str, Any]:
        """The waits that a request asks for."""
        query, principal = request.query_params, request.state.principal
        inbox, offset = self._service.inbox(principal.tenant), number(request, "offset", 0)
        wanted = {name: query.get(name) or None for name in ("agent", "tool", "text")}
        mine = query.get("mine") == "1"
        claimed_by = principal.name if mine else None
        found = inbox.waits(**wanted, claimed_by=claimed_by, limit=PAGE + 1, offset=offset)
        return {
            "found": [shown_wait(self._service, wait, request) for wait in found[:PAGE]],
            "total": inbox.count(),
            "offset": offset,
            "page_size": PAGE,
            "more": offset + PAGE if len(found) > PAGE else None,
            "wanted": wanted,
            "mine": mine,
            "agent_names": [*self._service.agents],
            "tool_names": inbox.tools(),
        }

    async def events(self, request: Request) -> Response:
        """`GET /inbox/events`: says when waits have changed."""
        return changes(self._service, request.state.principal.tenant)

    @with_error_page
    async def wait(self, request: Request) -> Response:
        """`GET /inbox/{wait}`: one wait, with its evidence."""
        return await self._page(request)

    async def _page(self, request: Request, **values: Any) -> Response:
        shown = await run_in_threadpool(lambda: self._shown(request, **values))
        template = "wait_card.html" if is_partial(request) else "wait.html"
        return page(request, template, **shown)

    def _shown(
        self, request: Request, *, fields: Any = None, problem: str = "", entered: Any = None
    ) -> dict[str, Any]:
        """What the page of a wait shows."""
        wait = self._wait(request)
        tenant = request.state.principal.tenant
        agent = self._service.agents.get(wait.agent)
        messages: list[Any] = []
        now = ""
        picture = None if agent is None else picture_of(agent)
        if agent is not None:
            state = self._service.state(wait.thread_id, checkpoint=wait.checkpoint_id)
            messages = state.values.get("messages") or []
            if picture is not None and state.next:
                now = picture.nodes.get(state.next[0], "")
        entries = entries_of(messages)
        return {
            "shown": shown_wait(self._service, wait, request, fields),
            "problem": problem,
            "entered": entered or {},
            "entries": entries[-EVIDENCE:],
            "hidden": max(0, len(entries) - EVIDENCE),
            "thread": self._service.thread(wait.thread_id, tenant=tenant),
            "audit": self._service.inbox(tenant).audit(thread=wait.thread_id, limit=20),
            "picture": picture,
            "now": now,
        }

    # Decisions

    @with_error_page
    async def decide(self, request: Request) -> Response:
        """`POST /inbox/{wait}/decision`."""
        form = await read_form(request)
        wait = await run_in_threadpool(self._wait, request)
        kind = str(form.get("decision", ""))
        if kind not in (*DECISIONS, "remember"):
            raise HTTPException(422, f"decision must be one of {', '.join(DECISIONS)}.")
        message = str(form.get(kind, "")).strip() or None
        if kind == "respond" and message is None:
            return await self._page(request, problem="Write the answer first.")
        args: Mapping[str, Any] | None = None
        if kind == "edit":
            try:
                schema, _ = await run_in_threadpool(schema_of, self._service, wait)
                args = read_args(schema, wait.args, form)
            except FormError as error:
                shown = {"fields": error.fields, "problem": str(error)}
                return await self._page(request, **shown)
        options: dict[str, Any] = {"message": message, "args": args}
        options["digest"] = str(form.get("digest", "")) or None
        if kind == "remember":  # an approval of later calls, too
            kind, seconds = "approve", str(form.get("seconds", ""))
            if not seconds.isdecimal():
                return await self._page(request, problem="Say for how long.")
            remember: dict[str, Any] = {"seconds": int(seconds)}
            if form.get("calls") == "any":
                remember["when"] = {}
            if form.get("thread") == "1":
                remember["thread"] = True
            options["remember"] = remember
        await run_in_threadpool(lambda: self._decided(request, wait.id, kind, options))
        if is_partial(request):
            return await self._page(request)
        return RedirectResponse(f"/inbox/{wait.id}", status_code=303)

    def _decided(self, request: Request, wait: str, kind: str, options: Mapping[str, Any]) -> None:
        principal = request.state.principal
        self._service.decide(
            wait,
            kind,
            by=principal.name,
            roles=principal.roles,
            tenant=principal.tenant,
            may_decide=request.state.may_decide,
            **options,
        )

    @with_error_page
    async def decide_many(self, request: Request) -> Response:
        """`POST /inbox/decisions`: the same decision about several waits, each on its own."""
        form = await read_form(request)
        kind = str(form.get("decision", ""))
        if kind not in ("approve", "reject"):
            raise HTTPException(422, "decision must be approve or reject.")
        chosen = [str(one) for one in form.getlist("wait")]
        message = str(form.get("reason", "")).strip() or None
        options = {"message": message if kind == "reject" else None}

        def work() -> list[str]:
            problems = []
            for wait in chosen:
                try:
                    self._decided(request, wait, kind, options)
                except AgentFactoryError as error:
                    problems.append(str(error))
            return problems

        problems = await run_in_threadpool(work)
        found = await run_in_threadpool(self._found, request)
        done = len(chosen) - len(problems)
        report = {"kind": kind, "done": done, "problems": problems, "chosen": len(chosen)}
        return page(request, "inbox.html", report=report, **found)

    @with_error_page
    async def claim(self, request: Request) -> Response:
        """`POST /inbox/{wait}/claim`."""
        return await self._claimed(request, "claim")

    @with_error_page
    async def release(self, request: Request) -> Response:
        """`POST /inbox/{wait}/release`."""
        return await self._claimed(request, "release")

    async def _claimed(self, request: Request, what: str) -> Response:
        await read_form(request)
        principal, wait = request.state.principal, request.path_params["wait"]
        inbox = self._service.inbox(principal.tenant, may_decide=request.state.may_decide)
        await run_in_threadpool(lambda: getattr(inbox, what)(wait, by=principal.name))
        if is_partial(request):
            return await self._page(request)
        return RedirectResponse(f"/inbox/{wait}", status_code=303)

    @with_error_page
    async def audit(self, request: Request) -> Response:
        """`GET /inbox/audit`: who did what."""
        thread, tenant = request.query_params.get("thread") or None, request.state.principal.tenant

        def work() -> list[Any]:
            return self._service.inbox(tenant).audit(thread=thread, limit=200)

        found = await run_in_threadpool(work)
        return page(request, "audit.html", entries=found, thread=thread)

    def _wait(self, request: Request) -> Wait:
        tenant = request.state.principal.tenant
        return self._service.inbox(tenant).get(request.path_params["wait"])
