"""Pages: the inbox, where people decide, and the studio, where developers look at runs."""

from __future__ import annotations

from starlette.routing import Route

from agent_factory.serve.pages.developer import DeveloperPages
from agent_factory.serve.pages.inbox import InboxPages
from agent_factory.serve.pages.rendering import FormRoute, PageRoute
from agent_factory.serve.pages.rendering import static_files as static_files
from agent_factory.serve.pages.runs import RunPages
from agent_factory.serve.pages.studio import StudioPages
from agent_factory.service import Service


def routes(service: Service) -> list[Route]:
    """The routes of the inbox and the studio."""
    studio, inbox = StudioPages(service), InboxPages(service)
    runs, developer = RunPages(service), DeveloperPages(service)
    thread, wait = "/studio/threads/{thread}", "/inbox/{wait}"
    run, card = "/studio/runs/{run}", ("wait.html", "wait_card.html")
    return [
        Route("/", studio.home),
        PageRoute("/studio", studio.threads, "studio.html"),
        PageRoute("/studio/threads", studio.rows, "thread_rows.html"),
        FormRoute("/studio/threads", studio.begin),
        Route("/studio/events", studio.events),
        PageRoute("/studio/agents/{agent}", studio.agent, "agent.html"),
        PageRoute("/studio/agents/{agent}/policy", inbox.policy, "policy.html"),
        Route("/studio/agents/{agent}/plan.svg", studio.plan),
        PageRoute(thread, studio.thread, "thread.html"),
        FormRoute(f"{thread}/messages", studio.write),
        FormRoute(f"{thread}/answers", studio.regenerate, "thread_parts.html"),
        FormRoute(f"{thread}/versions", studio.resend, "thread_parts.html"),
        PageRoute(f"{thread}/developer", developer.show, "developer_page.html", "developer.html"),
        FormRoute(f"{thread}/state", developer.write, "developer_page.html", "developer.html"),
        FormRoute(f"{thread}/cancel", studio.cancel),
        Route(f"{thread}/events", studio.thread_events),
        PageRoute(f"{thread}/parts", studio.parts, "thread_parts.html"),
        PageRoute(f"{thread}/held", studio.held, "held.html"),
        PageRoute(f"{thread}/missing", studio.missing, "missing.html"),
        PageRoute(f"{thread}/history", studio.history, "history_page.html", "history.html"),
        PageRoute(f"{thread}/settings", studio.settings, "thread_settings.html"),
        FormRoute(f"{thread}/rename", studio.rename, "thread_settings.html"),
        FormRoute(f"{thread}/archive", studio.archive),
        PageRoute(f"{thread}/delete", studio.ask, "thread_delete.html"),
        FormRoute(f"{thread}/delete", studio.delete),
        PageRoute("/studio/runs", runs.runs, "runs.html"),
        PageRoute("/studio/runs/rows", runs.runs, "run_rows.html"),
        PageRoute(run, runs.run, "run.html"),
        PageRoute(f"{run}/parts", runs.run, "run_parts.html"),
        FormRoute(f"{run}/cancel", runs.cancel),
        FormRoute(f"{run}/retry", runs.retry),
        PageRoute("/inbox", inbox.waits, "inbox.html"),
        PageRoute("/inbox/rows", inbox.waits, "wait_rows.html"),
        Route("/inbox/events", studio.events),
        PageRoute("/inbox/decisions", inbox.confirm, "decisions.html"),
        FormRoute("/inbox/decisions", inbox.decide_each, "inbox.html"),
        PageRoute("/inbox/audit", inbox.audit, "audit.html"),
        PageRoute("/inbox/approvals", inbox.approvals, "approvals.html"),
        FormRoute("/inbox/approvals/{approval}/revoke", inbox.revoke),
        PageRoute(wait, inbox.wait, *card),
        PageRoute(f"{wait}/held", inbox.held, "held.html"),
        FormRoute(f"{wait}/decision", inbox.decide, *card),
        FormRoute(f"{wait}/claim", inbox.claim, *card),
        FormRoute(f"{wait}/release", inbox.release, *card),
    ]
