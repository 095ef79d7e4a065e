"""Approvals: the rules for the calls of each tool, and what people have approved for later."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent_factory.errors import ArgumentError
from agent_factory.factory import topology_of
from agent_factory.guarantees import undecided_calls
from agent_factory.review import policy_table
from agent_factory.serve.pages.conversation import in_one_line
from agent_factory.serve.pages.rendering import page, with_error_page
from agent_factory.serve.security import read_form
from agent_factory.service import Service


class ApprovalPages:
    """Answers requests for pages about rules and standing approvals."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @with_error_page
    async def approvals(self, request: Request) -> Response:
        """`GET /inbox/approvals`: standing approvals, and a way to end each."""
        tenant, inactive = request.state.principal.tenant, request.query_params.get("ended") == "1"

        def work() -> dict[str, Any]:
            approvals = self._service.approvals(tenant=tenant, active=not inactive)
            # An approval may hold in all threads, and its thread may be deleted.
            ids = {approval.thread for approval in approvals if approval.thread}
            threads = self._service.threads.search(tenant=tenant, ids=ids, limit=len(ids) or 1)
            return {
                "approvals": [(each, in_one_line(each.args), asdict(each)) for each in approvals],
                "titles": {thread.id: thread.title for thread in threads},
                "ended": inactive,
            }

        return page(request, "approvals.html", **await run_in_threadpool(work))

    @with_error_page
    async def revoke(self, request: Request) -> Response:
        """`POST /inbox/approvals/{approval}/revoke`."""
        await read_form(request)
        principal, approval = request.state.principal, request.path_params["approval"]
        arguments = {"by": principal.name, "tenant": principal.tenant}
        await run_in_threadpool(lambda: self._service.revoke(approval, **arguments))
        return RedirectResponse("/inbox/approvals", status_code=303)

    @with_error_page
    async def policy(self, request: Request) -> Response:
        """`GET /studio/agents/{agent}/policy`: what happens to the calls of each tool."""
        name = request.path_params["agent"]
        if (agent := self._service.agents.get(name)) is None:
            raise HTTPException(404, f"There is no agent {name!r}.")
        content: dict[str, Any] = {"rows": [], "guards": (), "undecided": ()}
        with suppress(ArgumentError):  # another library has built it
            plan = topology_of(agent)
            content = {"rows": policy_table(agent), "guards": plan.guards}
            content["undecided"] = undecided_calls(plan)
        return page(request, "policy.html", name=name, **content)
