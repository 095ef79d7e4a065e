"""Pages: the inbox, where people decide, and the studio, where developers look at runs."""

from __future__ import annotations

from starlette.routing import Route

from agent_factory.serve.pages.developer import DeveloperPages
from agent_factory.serve.pages.history_pages import HistoryPages
from agent_factory.serve.pages.inbox import InboxPages
from agent_factory.serve.pages.rendering import PageRoute, static_files
from agent_factory.serve.pages.runs import RunPages
from agent_factory.serve.pages.studio import StudioPages
from agent_factory.serve.pages.thread_settings import ThreadSettings
from agent_factory.service import Service


def routes(service: Service) -> list[Route]:
    """The routes of the inbox and the studio."""
    studio, inbox = StudioPages(service), InboxPages(service)
    runs, settings = RunPages(service), ThreadSettings(service)
    history = HistoryPages(service)
    developer = DeveloperPages(service)
    thread, wait = "/studio/threads/{thread}", "/inbox/{wait}"
    run = "/studio/runs/{run}"
    return [
        Route("/", studio.home),
        PageRoute("/studio", studio.threads),
        PageRoute("/studio/threads", studio.rows),
        PageRoute("/studio/threads", studio.begin, "POST"),
        Route("/studio/events", studio.events),
        PageRoute("/studio/agents/{agent}", studio.agent),
        PageRoute("/studio/agents/{agent}/policy", inbox.policy),
        Route("/studio/agents/{agent}/plan.svg", studio.plan),
        PageRoute(thread, studio.thread),
        PageRoute(f"{thread}/messages", studio.write, "POST"),
        PageRoute(f"{thread}/answers", history.regenerate, "POST"),
        PageRoute(f"{thread}/versions", history.resend, "POST"),
        PageRoute(f"{thread}/developer", developer.show),
        PageRoute(f"{thread}/state", developer.write, "POST"),
        PageRoute(f"{thread}/cancel", studio.cancel, "POST"),
        Route(f"{thread}/events", studio.thread_events),
        PageRoute(f"{thread}/parts", studio.parts),
        PageRoute(f"{thread}/held", studio.held),
        PageRoute(f"{thread}/missing", studio.missing),
        PageRoute(f"{thread}/history", history.history),
        PageRoute(f"{thread}/settings", settings.settings),
        PageRoute(f"{thread}/rename", settings.rename, "POST"),
        PageRoute(f"{thread}/archive", settings.archive, "POST"),
        PageRoute(f"{thread}/delete", settings.ask),
        PageRoute(f"{thread}/delete", settings.delete, "POST"),
        PageRoute("/studio/runs", runs.runs),
        PageRoute("/studio/runs/rows", runs.rows),
        PageRoute(run, runs.run),
        PageRoute(f"{run}/parts", runs.parts),
        PageRoute(f"{run}/cancel", runs.cancel, "POST"),
        PageRoute(f"{run}/retry", runs.retry, "POST"),
        PageRoute("/inbox", inbox.waits),
        PageRoute("/inbox/rows", inbox.rows),
        Route("/inbox/events", inbox.events),
        PageRoute("/inbox/decisions", inbox.confirm),
        PageRoute("/inbox/decisions", inbox.decide_each, "POST"),
        PageRoute("/inbox/audit", inbox.audit),
        PageRoute("/inbox/approvals", inbox.approvals),
        PageRoute("/inbox/approvals/{approval}/revoke", inbox.revoke, "POST"),
        PageRoute(wait, inbox.wait),
        PageRoute(f"{wait}/held", inbox.held),
        PageRoute(f"{wait}/decision", inbox.decide, "POST"),
        PageRoute(f"{wait}/claim", inbox.claim, "POST"),
        PageRoute(f"{wait}/release", inbox.release, "POST"),
    ]


def open_routes() -> list[Route]:
    """Routes for everybody, without content of tenants."""
    return [static_files()]
