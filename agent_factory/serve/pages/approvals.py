"""Approvals: the rules for the calls of each tool, and what people have approved for later."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent_factory.errors import ArgumentError
from agent_factory.factory import topology_of
from agent_factory.guarantees import undecided_calls
from agent_factory.review import policy_table
from agent_factory.serve.pages.conversation import in_one_line
from agent_factory.serve.pages.rendering import Pages, page


class ApprovalPages(Pages):
    """Answers requests for pages about rules and standing approvals."""

    def approvals(self, request: Request) -> Response:
        """`GET /inbox/approvals`: standing approvals, and a way to end each."""
        tenant, inactive = request.state.principal.tenant, request.query_params.get("ended") == "1"
        approvals = self._service.approvals(tenant=tenant, active=not inactive)
        # An approval may hold in all threads, and its thread may be deleted.
        ids = {approval.thread for approval in approvals if approval.thread}
        threads = self._service.threads.search(tenant=tenant, ids=ids, limit=len(ids) or 1)
        return page(
            request,
            "approvals.html",
            approvals=[(each, in_one_line(each.args), asdict(each)) for each in approvals],
            titles={thread.id: thread.title for thread in threads},
            ended=inactive,
        )

    def revoke(self, request: Request) -> Response:
        """`POST /inbox/approvals/{approval}/revoke`."""
        principal, approval = request.state.principal, request.path_params["approval"]
        self._service.revoke(approval, by=principal.name, tenant=principal.tenant)
        return RedirectResponse("/inbox/approvals", status_code=303)

    def policy(self, request: Request) -> Response:
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
