"""Inbox: waits, the forms by which people decide about them, and standing approvals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
from agent_factory.serve.body import number, whole_number
from agent_factory.serve.endpoints import Endpoints
from agent_factory.serve.errors import status_of
from agent_factory.serve.exchange import check_agent
from agent_factory.serve.pages.conversation import entries_of, in_one_line
from agent_factory.serve.pages.forms import Field, FormError, has_args, read_args
from agent_factory.serve.pages.history import messages_of
from agent_factory.serve.pages.picture import picture_of
from agent_factory.serve.pages.rendering import Values, is_partial
from agent_factory.serve.pages.waits import (
    ShownWait,
    held_with,
    schema_of,
    shown_wait,
    shown_waits,
    titles_of,
)
from agent_factory.serve.pages.wording import AUDIT, deeds_of, verdicts
from agent_factory.service import AlreadyDecided, ClaimedByOther, Wait

PAGE = 50
"""Waits on a page."""

EVIDENCE = 12
"""Messages with a wait."""

ENTRIES = 200
"""Entries of the audit on a page."""

DECISIONS = ("approve", "edit", "reject", "respond")
BULK_DECISIONS = ("approve", "reject")


class InboxPages(Endpoints):
    """Answers requests for pages about waits."""

    def waits(self, request: Request) -> Values:
        """`GET /inbox`: all waits; `GET /inbox/rows`: the list alone."""
        query, principal = request.query_params, request.state.principal
        inbox, offset = self._inbox(request), number(request, "offset", 0)
        filters: Any = {name: query.get(name) or None for name in ("agent", "tool", "text")}
        mine = query.get("mine") == "1"
        # With the first of the next page.
        rows = inbox.waits(
            **filters, claimed_by=principal.name if mine else None, limit=PAGE + 1, offset=offset
        )
        return {
            "found": shown_waits(self._service, rows[:PAGE], request),
            "total": inbox.count(),
            "offset": offset,
            "page_size": PAGE,
            "more": offset + PAGE if len(rows) > PAGE else None,
            "wanted": filters,
            "mine": mine,
            "agent_names": [*self._service.agents],
            "tool_names": inbox.tools(),
        }

    def held(self, request: Request) -> Values:
        """`GET /inbox/{wait}/held`: messages of the user since then."""
        wait = self._wait(request)
        return {"held": held_with(self._service, wait), "thread_id": wait.thread_id}

    def wait(
        self,
        request: Request,
        problem: str | Exception = "",
        *,
        fields: list[Field] | None = None,
        drafts: Mapping[str, str | None] | None = None,
    ) -> Values:
        """`GET /inbox/{wait}`: one wait, with evidence.

        Args:
            problem: The fault of a decision that was not made, with its fields.
            drafts: A message, by the kind of the decision.
        """
        wait, tenant = self._wait(request), request.state.principal.tenant
        messages: Sequence[BaseMessage] = ()
        picture, now = None, ""
        if (agent := self._service.agents.get(wait.agent)) is not None:
            # The state of the question: the thread may have gone on.
            state = self._service.threads.state(wait.thread_id, checkpoint=wait.checkpoint_id)
            messages, picture = messages_of(state), picture_of(agent)
            if picture is not None and state.next:
                now = picture.nodes.get(state.next[0], "")
        audit = self._inbox(request).audit(thread=wait.thread_id, limit=AUDIT)
        entries = entries_of(messages, verdicts(audit))
        held = held_with(self._service, wait)
        return {
            "shown": shown_wait(self._service, wait, request, fields=fields, held=held),
            "problem": str(problem),
            "entered": drafts or {},
            "entries": entries[-EVIDENCE:],
            "hidden": max(0, len(entries) - EVIDENCE),
            "thread": self._service.threads.get(wait.thread_id, tenant=tenant),
            "audit": deeds_of(self._service, audit[:20], tenant),
            "picture": picture,
            "now": now,
            "status": status_of(problem) if isinstance(problem, Exception) else 200,
        }

    # Decisions

    def decide(self, request: Request) -> Values | Response:
        """`POST /inbox/{wait}/decision`."""
        form, wait, principal = request.state.form, self._wait(request), request.state.principal
        kind = str(form.get("decision", ""))
        if kind not in (*DECISIONS, "remember"):
            raise HTTPException(422, f"decision must be one of {', '.join(DECISIONS)}.")
        message = str(form.get("message", "")).strip() or None
        drafts = {kind: message}
        if kind == "respond" and message is None:
            return self.wait(request, "Write the answer first.")
        args: Mapping[str, object] | None = None
        if has_args(form):
            try:
                schema, _ = schema_of(self._service, wait)
                args = read_args(schema, wait.args, form)
            except FormError as error:
                decision = {"type": kind, "edited_action": {"args": error.args_read}}
                who = {"by": principal.name, "roles": principal.roles}
                refusal = self._inbox(request).judge(wait.id, decision, **who)
                problem = str(refusal if isinstance(refusal, ReviewError) else error)
                return self.wait(request, problem, drafts=drafts, fields=error.fields)
        # Parts of another decision are refused, as everywhere.
        options: dict[str, object] = {"message": message, "args": args}
        options["digest"] = str(form.get("digest", "")) or None
        if kind == "remember":  # an approval of later calls, too
            kind, seconds = "approve", whole_number(str(form.get("seconds", "")))
            if seconds is None:
                return self.wait(request, "Say for how long.")
            remember: dict[str, object] = {"seconds": seconds}
            if form.get("calls") == "any":
                remember["when"] = {}
            if form.get("thread") == "1":
                remember["thread"] = True
            options["remember"] = remember
        try:
            self._decide(request, wait, kind, options)
        except (ReviewError, AlreadyDecided, ClaimedByOther) as error:
            return self.wait(request, error, drafts=drafts)
        return self._after(request)

    def _decide(self, request: Request, wait: Wait, kind: str, options: Mapping[str, Any]) -> None:
        """Decide for the sender of a form, with options of `Service.decide`."""
        principal = request.state.principal
        self._service.decide(
            wait.id,
            kind,
            by=principal.name,
            roles=principal.roles,
            tenant=principal.tenant,
            may_decide=request.state.may_decide,
            via="page",
            **options,
        )

    def _after(self, request: Request) -> Values | Response:
        """The page of a wait after a form."""
        # htmx puts the answer into the page. With 303, a reload does not send the form again.
        if is_partial(request):
            return self.wait(request)
        return RedirectResponse(f"/inbox/{request.path_params['wait']}", status_code=303)

    def claim(self, request: Request) -> Values | Response:
        """`POST /inbox/{wait}/claim`."""
        self._inbox(request).claim(request.path_params["wait"], by=request.state.principal.name)
        return self._after(request)

    def release(self, request: Request) -> Values | Response:
        """`POST /inbox/{wait}/release`."""
        self._inbox(request).release(request.path_params["wait"], by=request.state.principal.name)
        return self._after(request)

    def audit(self, request: Request) -> Values:
        """`GET /inbox/audit`: the acts of people."""
        query, tenant = request.query_params, request.state.principal.tenant
        filters: Any = {name: query.get(name) or None for name in ("thread", "who")}
        before = number(request, "before", 0) or None
        # With the first of the older entries.
        entries = self._inbox(request).audit(**filters, before=before, limit=ENTRIES + 1)
        older = entries[ENTRIES - 1].number if len(entries) > ENTRIES else None
        deeds = deeds_of(self._service, entries[:ENTRIES], tenant)
        titles = titles_of(self._service, {entry.thread_id for entry, _ in deeds}, tenant)
        return {**filters, "deeds": deeds, "titles": titles, "older": older, "before": before}

    # Several waits

    def confirm(self, request: Request) -> Values:
        """`GET /inbox/decisions`: the chosen calls, before a decision."""
        kind = _bulk_kind(request.query_params.get("decision"))
        waits = self._chosen(request, request.query_params.getlist("wait"))
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
            problem = ""
            try:
                self._decide(request, item.wait, kind, {"message": message, "digest": digest})
            # Each alone: a decided wait stops no other decision.
            except AgentFactoryError as error:
                problem = str(error)
            results.append((item, problem))
        report = {"kind": kind, "results": results}
        return {**self.waits(request), "report": report}

    def _chosen(self, request: Request, ids: list[str]) -> list[ShownWait]:
        if not ids:
            raise HTTPException(422, "Choose at least one call.")
        waits = shown_waits(self._service, list(map(self._inbox(request).get, ids)), request)
        return [replace(item, held=held_with(self._service, item.wait)) for item in waits]

    # Approvals

    def approvals(self, request: Request) -> Values:
        """`GET /inbox/approvals`: standing approvals, and a way to end each."""
        tenant, inactive = request.state.principal.tenant, request.query_params.get("ended") == "1"
        approvals = self._service.approvals(tenant=tenant, active=not inactive)
        # An approval may be for all threads, or for a deleted thread.
        ids = {approval.thread for approval in approvals if approval.thread}
        return {
            "approvals": [(each, in_one_line(each.args), asdict(each)) for each in approvals],
            "titles": titles_of(self._service, ids, tenant),
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
        check_agent(self._service, name)
        agent = self._service.agents[name]
        try:
            plan = topology_of(agent)
        except ArgumentError:  # of another library
            return {"name": name, "rows": [], "guards": (), "undecided": ()}
        rules: Values = {"rows": policy_table(agent), "guards": plan.guards}
        return {**rules, "name": name, "undecided": undecided_calls(plan)}

    def _wait(self, request: Request) -> Wait:
        return self._inbox(request).get(request.path_params["wait"])


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
