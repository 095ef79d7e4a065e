"""Runs: the list of runs, and the page of a run with its timeline."""

from __future__ import annotations

import time
from contextlib import suppress

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent_factory.errors import AgentFactoryError
from agent_factory.serve.body import number
from agent_factory.serve.endpoints import Endpoints
from agent_factory.serve.pages.failure import failure_of
from agent_factory.serve.pages.history import AT_WORK, time_of
from agent_factory.serve.pages.rendering import Values
from agent_factory.serve.pages.timeline import Span, timeline_of
from agent_factory.service import NotFound, Service

PAGE = 50
"""Runs on one page."""

_NAMES = ("queued", "held", "running", "waiting", "done", "failed", "cancelled")
STATUSES = {name: name for name in _NAMES}
STATUSES |= {"held": "held until decided", "waiting": "waits for a person"}
"""States of runs, in words."""

TIMES = {
    "1h": ("the last hour", 3_600),
    "1d": ("the last day", 86_400),
    "7d": ("the last week", 7 * 86_400),
    "30d": ("the last 30 days", 30 * 86_400),
}
"""Choices of the filter by time, with their seconds."""

_MOMENTS = 25
_WAITS = 200


class RunPages(Endpoints):
    """Answers requests for pages about runs."""

    def runs(self, request: Request) -> Values:
        """`GET /studio/runs`: the list, with filters; `GET /studio/runs/rows`: the list alone."""
        query = request.query_params
        wanted = {name: query.get(name, "") for name in ("status", "agent", "text", "within")}
        for name, choices in (("status", STATUSES), ("within", TIMES)):
            if wanted[name] and wanted[name] not in choices:
                raise HTTPException(422, f"{name} must be one of {', '.join(choices)}.")
        within = TIMES.get(wanted["within"])
        runs = self._service.threads.search_runs(
            tenant=request.state.principal.tenant,
            agent=wanted["agent"] or None,
            status=[wanted["status"]] if wanted["status"] else None,
            since=None if within is None else time.time() - within[1],
            text=wanted["text"] or None,
            before=number(request, "before", 0) or None,
            limit=PAGE,
        )
        filters = {name: value for name, value in wanted.items() if value}
        return {
            "list": runs,
            "wanted": wanted,
            "filters": filters,
            "is_first": not query.get("before"),
            "older": None if runs.before is None else {**filters, "before": runs.before},
            "statuses": STATUSES,
            "times": {name: words for name, (words, _) in TIMES.items()},
            "agent_names": [*self._service.agents],
            "now": time.time(),
        }

    def run(self, request: Request) -> Values:
        """`GET /studio/runs/{run}`: one run; `GET /studio/runs/{run}/parts`: what changes."""
        run, now = self._run(request), time.time()
        summary, info = run.summary, self._service.threads.get(run.thread_id)
        steps, reader, is_last = run.steps, run.info.reader, info.run == run.id
        waits = self._inbox(request).waits(thread=info.id, run=run.id, decided=True, limit=_WAITS)
        # Steps belong to the run that has read the message.
        is_at_work = summary.status in AT_WORK and reader is None
        nodes: list[Span] = []
        # Steps are written at the end of a job; before, only checkpoints have them.
        if is_last and (is_at_work or summary.status == "cancelled") and summary.started_at:
            since = max([summary.started_at, *(step.at + step.seconds for step in steps)])
            since = max([since, *(wait.decided_at for wait in waits if wait.decided_at)])
            nodes = node_spans(self._service, info.id, since, is_at_work=is_at_work)
        failure, can_retry = None, False
        if summary.status == "failed":
            can_retry, failed = is_last and info.status == "failed", list[str]()
            # The agent may not be in this process, or has changed since.
            with suppress(AgentFactoryError):
                tasks = self._service.threads.state(info.id).tasks if can_retry else ()
                failed = [task.name for task in tasks if task.error]
            failure = failure_of(summary.error or "", steps, failed)
        return {
            "run": summary,
            "thread": info,
            "reader": reader,
            "words": STATUSES[summary.status],
            "timeline": timeline_of(summary, steps, waits, nodes, now),
            "has_steps": bool(steps),
            "failure": failure,
            "can_retry": can_retry,
            "is_at_work": is_at_work,
            "can_cancel": summary.status in ("queued", "held", "running", "waiting"),
            "retry_of": run.info.metadata.get("retry_of"),
            "missing": str(run.missing or "") if is_at_work and not summary.started_at else "",
            "agents": [*self._service.agents],
            "now": now,
        }

    # Actions

    def cancel(self, request: Request) -> Response:
        """`POST /studio/runs/{run}/cancel`: end a run."""
        run = self._run(request)
        run.cancel(by=request.state.principal.name)
        return RedirectResponse(f"/studio/runs/{run.id}", status_code=303)

    def retry(self, request: Request) -> Response:
        """`POST /studio/runs/{run}/retry`: go on where a run has failed."""
        new = self._run(request).retry(by=request.state.principal.name)
        return RedirectResponse(f"/studio/runs/{new.id}", status_code=303)


def node_spans(service: Service, thread: str, since: float, *, is_at_work: bool) -> list[Span]:
    """Steps of an agent after a moment, from the times of its checkpoints.

    The last step of an agent at work has no end.
    """
    spans: list[Span] = []
    after: float | None = None
    # The agent may not be in this process, or the thread was deleted meanwhile.
    with suppress(NotFound):
        for state in service.threads.history(thread, limit=_MOMENTS):
            # Without nodes of LangGraph, such as `__start__`; a node with several tasks once.
            nodes = dict.fromkeys(name for name in state.next if not name.startswith("__"))
            at, names = time_of(state), ", ".join(nodes)
            if names and (after is not None or is_at_work):
                spans.append(Span("node", names, max(at, since), after))
            if at < since:
                break
            after = at
    return spans
