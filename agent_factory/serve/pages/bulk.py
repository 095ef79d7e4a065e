"""Bulk: the same decision about several waits, which a page lists before it is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from agent_factory.errors import AgentFactoryError
from agent_factory.serve.pages.rendering import Pages, page
from agent_factory.serve.pages.waits import (
    ShownWait,
    decide,
    found_waits,
    held_with,
    shown_waits,
)

DECISIONS = ("approve", "reject")


class BulkPages(Pages):
    """Answers requests about several waits."""

    def confirm(self, request: Request) -> Response:
        """`GET /inbox/decisions`: the calls that were chosen, and nothing decided yet."""
        kind = _kind_of(request.query_params.get("decision"))
        ids = request.query_params.getlist("wait")
        waits = self._shown(request, ids)
        name = request.state.principal.name
        obstacles = [(wait, wait.obstacle(kind, name)) for wait in waits]
        calls = [wait for wait, obstacle in obstacles if not obstacle]
        return page(
            request,
            "decisions.html",
            kind=kind,
            calls=calls,
            others=[(wait, obstacle) for wait, obstacle in obstacles if obstacle],
            counted=counted(wait.wait.tool for wait in calls),
        )

    def decide(self, request: Request) -> Response:
        """`POST /inbox/decisions`: decide about each on its own, and say what has happened."""
        form = request.state.form
        kind = _kind_of(form.get("decision"))
        ids, digests = ([str(value) for value in form.getlist(n)] for n in ("wait", "digest"))
        # A call that was edited since the page was loaded must not be decided about unseen.
        if len(ids) != len(digests):
            raise HTTPException(422, "Each wait needs the digest of the call that was shown.")
        message = str(form.get("message", "")).strip() or None
        results = []
        for item, digest in zip(self._shown(request, ids), digests, strict=True):
            options = {"message": message, "digest": digest}
            try:
                decide(self._service, request, item.wait.id, kind, options)
            # Each on its own: one that somebody else has decided stops none of the others.
            except AgentFactoryError as error:
                results.append((item, str(error)))
            else:
                results.append((item, ""))
        values = found_waits(self._service, request)
        return page(request, "inbox.html", report={"kind": kind, "results": results}, **values)

    def _shown(self, request: Request, ids: list[str]) -> list[ShownWait]:
        if not ids:
            raise HTTPException(422, "Choose at least one call.")
        inbox = self._service.inbox(request.state.principal.tenant)
        waits = shown_waits(self._service, [inbox.get(id) for id in ids], request)
        return [replace(item, held=held_with(self._service, item.wait)) for item in waits]


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


def _kind_of(value: object) -> str:
    if value not in DECISIONS:
        raise HTTPException(422, f"decision must be {' or '.join(DECISIONS)}.")
    return str(value)
