"""Pages: the inbox, where people decide, and the studio, where developers look at runs."""

from __future__ import annotations

from starlette.routing import Route

from agent_factory.serve.pages.approvals import ApprovalPages
from agent_factory.serve.pages.bulk import BulkPages
from agent_factory.serve.pages.developer import DeveloperPages
from agent_factory.serve.pages.forks import ForkPages
from agent_factory.serve.pages.history import HistoryPages
from agent_factory.serve.pages.inbox import InboxPages
from agent_factory.serve.pages.rendering import static_files
from agent_factory.serve.pages.runs import RunPages
from agent_factory.serve.pages.studio import StudioPages
from agent_factory.serve.pages.thread_settings import ThreadSettings
from agent_factory.service import Service


def routes(service: Service) -> list[Route]:
    """The routes of the inbox and the studio."""
    studio, inbox = StudioPages(service), InboxPages(service)
    approvals, bulk = ApprovalPages(service), BulkPages(service)
    runs, settings = RunPages(service), ThreadSettings(service)
    history = HistoryPages(service)
    forks, developer = ForkPages(service, studio), DeveloperPages(service)
    thread, wait = "/studio/threads/{thread}", "/inbox/{wait}"
    run = "/studio/runs/{run}"
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
        Route(f"{thread}/answers", forks.regenerate, methods=["POST"]),
        Route(f"{thread}/versions", forks.resend, methods=["POST"]),
        Route(f"{thread}/developer", developer.show),
        Route(f"{thread}/state", developer.write, methods=["POST"]),
        Route(f"{thread}/cancel", studio.cancel, methods=["POST"]),
        Route(f"{thread}/events", studio.thread_events),
        Route(f"{thread}/parts", studio.parts),
        Route(f"{thread}/held", studio.held),
        Route(f"{thread}/missing", studio.missing),
        Route(f"{thread}/history", history.history),
        Route(f"{thread}/settings", settings.settings),
        Route(f"{thread}/rename", settings.rename, methods=["POST"]),
        Route(f"{thread}/archive", settings.archive, methods=["POST"]),
        Route(f"{thread}/delete", settings.ask),
        Route(f"{thread}/delete", settings.delete, methods=["POST"]),
        Route("/studio/runs", runs.runs),
        Route("/studio/runs/rows", runs.rows),
        Route(run, runs.run),
        Route(f"{run}/parts", runs.parts),
        Route(f"{run}/cancel", runs.cancel, methods=["POST"]),
        Route(f"{run}/retry", runs.retry, methods=["POST"]),
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
