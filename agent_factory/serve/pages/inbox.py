"""Inbox: waits, the forms by which people decide about them, and standing approvals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from langchain_core.messages import BaseMessage
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent_factory.errors import AgentFactoryError, ArgumentError
from agent_factory.factory import topology_of
from agent_factory.guarantees import undecided_calls
from agent_factory.review import ReviewError, policy_table
from agent_factory.serve.body import number
from agent_factory.serve.errors import status_of
from agent_factory.serve.pages.conversation import entries_of, in_one_line
from agent_factory.serve.pages.forms import Field, FormError, has_args, read_args
from agent_factory.serve.pages.live import changes
from agent_factory.serve.pages.picture import picture_of
from agent_factory.serve.pages.rendering import Pages, Values, is_partial
from agent_factory.serve.pages.verdicts import AUDIT, deeds_of, verdicts
from agent_factory.serve.pages.waits import (
    ShownWait,
    decide,
    found_waits,
    held_with,
    refusal_of,
    schema_of,
    shown_wait,
    shown_waits,
)
from agent_factory.service import AlreadyDecided, ClaimedByOther, Wait

EVIDENCE = 12
"""Messages with a wait."""

ENTRIES = 200
"""Entries of the audit on a page."""

DECISIONS = ("approve", "edit", "reject", "respond")
BULK_DECISIONS = ("approve", "reject")


class InboxPages(Pages):
    """Answers requests for pages about waits."""

    def waits(self, request: Request) -> Values:
        """`GET /inbox`: all waits; `GET /inbox/rows`: the list alone."""
        return found_waits(self._service, request)

    async def events(self, request: Request) -> Response:
        """`GET /inbox/events`: says when waits have changed."""
        return changes(self._service, request.state.principal.tenant)

    def wait(self, request: Request) -> Values:
        """`GET /inbox/{wait}`: one wait, with evidence."""
        return self._page(request)

    def held(self, request: Request) -> Values:
        """`GET /inbox/{wait}/held`: messages of the user since then."""
        wait = self._wait(request)
        return {"held": held_with(self._service, wait), "thread_id": wait.thread_id}

    def _page(
        self,
        request: Request,
        error: Exception | None = None,
        *,
        fields: list[Field] | None = None,
        problem: str = "",
        drafts: Mapping[str, str | None] | None = None,
    ) -> Values:
        """The page of a wait, with the fault of a decision that was not made."""
        wait = self._wait(request)
        tenant = request.state.principal.tenant
        agent = self._service.agents.get(wait.agent)
        messages: list[BaseMessage] = []
        now = ""
        picture = None if agent is None else picture_of(agent)
        if agent is not None:
            # The state of the question: the thread may have gone on.
            state = self._service.threads.state(wait.thread_id, checkpoint=wait.checkpoint_id)
            messages = state.values.get("messages") or []
            if picture is not None and state.next:
                now = picture.nodes.get(state.next[0], "")
        audit = self._service.inbox(tenant).audit(thread=wait.thread_id, limit=AUDIT)
        entries = entries_of(messages, verdicts(audit))
        held_messages = held_with(self._service, wait)
        return {
            "shown": shown_wait(self._service, wait, request, fields=fields, held=held_messages),
            "problem": problem or str(error or ""),
            "entered": drafts or {},  # a message, by the kind of the decision
            "entries": entries[-EVIDENCE:],
            "hidden": max(0, len(entries) - EVIDENCE),
            "thread": self._service.threads.get(wait.thread_id, tenant=tenant),
            "audit": deeds_of(self._service, audit[:20], tenant),
            "picture": picture,
            "now": now,
            "status": 200 if error is None else status_of(error),
        }

    # Decisions

    def decide(self, request: Request) -> Values | Response:
        """`POST /inbox/{wait}/decision`."""
        form, wait = request.state.form, self._wait(request)
        kind = str(form.get("decision", ""))
        if kind not in (*DECISIONS, "remember"):
            raise HTTPException(422, f"decision must be one of {', '.join(DECISIONS)}.")
        message = str(form.get("message", "")).strip() or None
        drafts = {kind: message}
        if kind == "respond" and message is None:
            return self._page(request, problem="Write the answer first.")
        args: Mapping[str, object] | None = None
        if has_args(form):
            try:
                schema, _ = schema_of(self._service, wait)
                args = read_args(schema, wait.args, form)
            except FormError as error:
                decision = {"type": kind, "edited_action": {"args": error.args_read}}
                problem = refusal_of(self._service, request, wait.id, decision)
                return self._page(
                    request, drafts=drafts, fields=error.fields, problem=problem or str(error)
                )
        # Parts of another decision are refused, as everywhere.
        options: dict[str, object] = {"message": message, "args": args}
        options["digest"] = str(form.get("digest", "")) or None
        if kind == "remember":  # an approval of later calls, too
            kind, seconds = "approve", str(form.get("seconds", ""))
            if not seconds.isdecimal():
                return self._page(request, problem="Say for how long.")
            remember: dict[str, object] = {"seconds": int(seconds)}
            if form.get("calls") == "any":
                remember["when"] = {}
            if form.get("thread") == "1":
                remember["thread"] = True
            options["remember"] = remember
        try:
            decide(self._service, request, wait.id, kind, options)
        except (ReviewError, AlreadyDecided, ClaimedByOther) as error:
            return self._page(request, error, drafts=drafts)
        # htmx puts the answer into the page.
        if is_partial(request):
            return self._page(request)
        # With 303, a reload of the page does not send the form again.
        return RedirectResponse(f"/inbox/{wait.id}", status_code=303)

    def claim(self, request: Request) -> Values | Response:
        """`POST /inbox/{wait}/claim`."""
        return self._claimed(request, "claim")

    def release(self, request: Request) -> Values | Response:
        """`POST /inbox/{wait}/release`."""
        return self._claimed(request, "release")

    def _claimed(self, request: Request, what: str) -> Values | Response:
        principal, wait = request.state.principal, request.path_params["wait"]
        inbox = self._service.inbox(principal.tenant, may_decide=request.state.may_decide)
        getattr(inbox, what)(wait, by=principal.name)
        if is_partial(request):
            return self._page(request)
        return RedirectResponse(f"/inbox/{wait}", status_code=303)

    def audit(self, request: Request) -> Values:
        """`GET /inbox/audit`: the acts of people."""
        query, tenant = request.query_params, request.state.principal.tenant
        filters: Any = {name: query.get(name) or None for name in ("thread", "who")}
        before = number(request, "before", 0) or None
        inbox = self._service.inbox(tenant)
        # With the first of the older entries.
        entries = inbox.audit(**filters, before=before, limit=ENTRIES + 1)
        older = entries[ENTRIES - 1].number if len(entries) > ENTRIES else None
        deeds = deeds_of(self._service, entries[:ENTRIES], tenant)
        ids = {action.entry.thread_id for action in deeds}
        threads = (
            self._service.threads.search(tenant=tenant, ids=ids, limit=len(ids)) if ids else []
        )
        titles = {thread.id: thread.title for thread in threads}
        return {**filters, "deeds": deeds, "titles": titles, "older": older, "before": before}

    # Several waits

    def confirm(self, request: Request) -> Values:
        """`GET /inbox/decisions`: the chosen calls, before a decision."""
        kind = _bulk_kind(request.query_params.get("decision"))
        ids = request.query_params.getlist("wait")
        waits = self._chosen(request, ids)
        name = request.state.principal.name
        obstacles = [(wait, wait.obstacle(kind, name)) for wait in waits]
        calls = [wait for wait, obstacle in obstacles if not obstacle]
        return {
            "kind": kind,
            "calls": calls,
            "others": [(wait, obstacle) for wait, obstacle in obstacles if obstacle],
            "counted": counted(wait.wait.tool for wait in calls),
        }

    def decide_each(self, request: Request) -> Values:
        """`POST /inbox/decisions`: decide about each alone, and report."""
        form = request.state.form
        kind = _bulk_kind(form.get("decision"))
        ids, digests = ([str(value) for value in form.getlist(n)] for n in ("wait", "digest"))
        # Nobody decides unseen about a call that was edited meanwhile.
        if len(ids) != len(digests):
            raise HTTPException(422, "Each wait needs the digest of the call that was shown.")
        message = str(form.get("message", "")).strip() or None
        results = []
        for item, digest in zip(self._chosen(request, ids), digests, strict=True):
            options = {"message": message, "digest": digest}
            try:
                decide(self._service, request, item.wait.id, kind, options)
            # Each alone: a decided wait stops no other decision.
            except AgentFactoryError as error:
                results.append((item, str(error)))
            else:
                results.append((item, ""))
        report = {"kind": kind, "results": results}
        return {**found_waits(self._service, request), "report": report}

    def _chosen(self, request: Request, ids: list[str]) -> list[ShownWait]:
        if not ids:
            raise HTTPException(422, "Choose at least one call.")
        inbox = self._service.inbox(request.state.principal.tenant)
        waits = shown_waits(self._service, [inbox.get(id) for id in ids], request)
        return [replace(item, held=held_with(self._service, item.wait)) for item in waits]

    # Approvals

    def approvals(self, request: Request) -> Values:
        """`GET /inbox/approvals`: standing approvals, and a way to end each."""
        tenant, inactive = request.state.principal.tenant, request.query_params.get("ended") == "1"
        approvals = self._service.approvals(tenant=tenant, active=not inactive)
        # An approval may be for all threads, or for a deleted thread.
        ids = {approval.thread for approval in approvals if approval.thread}
        threads = self._service.threads.search(tenant=tenant, ids=ids, limit=len(ids) or 1)
        return {
            "approvals": [(each, in_one_line(each.args), asdict(each)) for each in approvals],
            "titles": {thread.id: thread.title for thread in threads},
            "ended": inactive,
        }

    def revoke(self, request: Request) -> Response:
        """`POST /inbox/approvals/{approval}/revoke`."""
        principal, approval = request.state.principal, request.path_params["approval"]
        self._service.revoke(approval, by=principal.name, tenant=principal.tenant)
        return RedirectResponse("/inbox/approvals", status_code=303)

    def policy(self, request: Request) -> Values:
        """`GET /studio/agents/{agent}/policy`: the rules for the calls of each tool."""
        name = request.path_params["agent"]
        if (agent := self._service.agents.get(name)) is None:
            raise HTTPException(404, f"There is no agent {name!r}.")
        content: dict[str, Any] = {"rows": [], "guards": (), "undecided": ()}
        with suppress(ArgumentError):  # of another library
            plan = topology_of(agent)
            content = {"rows": policy_table(agent), "guards": plan.guards}
            content["undecided"] = undecided_calls(plan)
        return {**content, "name": name}

    def _wait(self, request: Request) -> Wait:
        tenant = request.state.principal.tenant
        return self._service.inbox(tenant).get(request.path_params["wait"])


def counted(tools: Iterable[str]) -> str:
    """Count calls by their tools, in words.

    >>> counted(["refund", "mail", "refund"])
    '2 calls of refund, 1 of mail'
    """
    parts = [f"{number} of {tool}" for tool, number in Counter(tools).items()]
    if parts:
        number, _, rest = parts[0].partition(" ")
        parts[0] = f"{number} {'call' if number == '1' else 'calls'} {rest}"
    return ", ".join(parts)


def _bulk_kind(value: object) -> str:
    """The decision about several waits."""
    if value not in BULK_DECISIONS:
        raise HTTPException(422, f"decision must be {' or '.join(BULK_DECISIONS)}.")
    return str(value)
