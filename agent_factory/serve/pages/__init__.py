"""Pages: the inbox, where people decide, and the studio, where developers look at runs."""

from __future__ import annotations

from starlette.routing import Route

from agent_factory.serve.pages.approvals import ApprovalPages
from agent_factory.serve.pages.bulk import BulkPages
from agent_factory.serve.pages.inbox import InboxPages
from agent_factory.serve.pages.rendering import static_files
from agent_factory.serve.pages.studio import StudioPages
from agent_factory.service import Service


def routes(service: Service) -> list[Route]:
    """The routes of the inbox and the studio."""
    studio, inbox = StudioPages(service), InboxPages(service)
    approvals, bulk = ApprovalPages(service), BulkPages(service)
    thread, wait = "/studio/threads/{thread}", "/inbox/{wait}"
    return [
        Route("/", studio.home),
        Route("/studio", studio.threads),
        Route("/studio/threads", studio.rows),
        Route("/studio/threads", studio.begin, methods=["POST"]),
        Route("/studio/events", studio.events),
        Route("/studio/agents/{agent}", studio.agent),
        Route("/studio/agents/{agent}/policy", approvals.policy),
        Route("/studio/agents/{agent}/plan.svg", studio.plan),
        Route(thread, studio.thread),
        Route(f"{thread}/messages", studio.write, methods=["POST"]),
        Route(f"{thread}/cancel", studio.cancel, methods=["POST"]),
        Route(f"{thread}/events", studio.thread_events),
        Route(f"{thread}/parts", studio.parts),
        Route(f"{thread}/held", studio.held),
        Route(f"{thread}/missing", studio.missing),
        Route(f"{thread}/history", studio.history),
        Route("/inbox", inbox.waits),
        Route("/inbox/rows", inbox.rows),
        Route("/inbox/events", inbox.events),
        Route("/inbox/decisions", bulk.confirm),
        Route("/inbox/decisions", bulk.decide, methods=["POST"]),
        Route("/inbox/audit", inbox.audit),
        Route("/inbox/approvals", approvals.approvals),
        Route("/inbox/approvals/{approval}/revoke", approvals.revoke, methods=["POST"]),
        Route(wait, inbox.wait),
        Route(f"{wait}/held", inbox.held),
        Route(f"{wait}/decision", inbox.decide, methods=["POST"]),
        Route(f"{wait}/claim", inbox.claim, methods=["POST"]),
        Route(f"{wait}/release", inbox.release, methods=["POST"]),
    ]


def open_routes() -> list[Route]:
    """The routes of what all pages need, which shows nothing of anybody."""
    return [static_files()]
