"""Settings of a thread: title, archive, and deletion."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent_factory.errors import ArgumentError
from agent_factory.serve.endpoints import Endpoints
from agent_factory.serve.pages.history import AT_WORK
from agent_factory.serve.pages.rendering import Values
from agent_factory.service import ThreadInfo


class ThreadSettings(Endpoints):
    """Answers requests for pages that rename, archive and delete threads."""

    def settings(self, request: Request) -> Values:
        """`GET /studio/threads/{thread}/settings`: the settings."""
        return _values(self._thread(request))

    def rename(self, request: Request) -> Values | Response:
        """`POST /studio/threads/{thread}/rename`: another title."""
        title = str(request.state.form.get("title", ""))
        try:
            info = self._change(request, title=title)
        # The text stays in the field, next to its fault.
        except ArgumentError as error:
            draft = {"title": title, "problem": f"The title {error.reason}", "status": 422}
            return {**_values(self._thread(request)), **draft}
        return _back_to(info)

    def archive(self, request: Request) -> Response:
        """`POST /studio/threads/{thread}/archive`: take it out of the list, or put it back."""
        archived = request.state.form.get("archived") == "1"
        return _back_to(self._change(request, archived=archived))

    def ask(self, request: Request) -> Values:
        """`GET /studio/threads/{thread}/delete`: a question before the deletion."""
        info = self._thread(request)
        runs = self._service.threads.count_runs(info.id, tenant=info.tenant)
        return {**_values(info), "runs": runs}

    def delete(self, request: Request) -> Response:
        """`POST /studio/threads/{thread}/delete`: delete the thread, as the HTTP API does."""
        self._service.threads.delete(self._thread(request).id, by=request.state.principal.name)
        return RedirectResponse("/studio", status_code=303)

    def _change(self, request: Request, **changes: Any) -> ThreadInfo:
        thread, tenant = request.path_params["thread"], request.state.principal.tenant
        return self._service.threads.change(thread, tenant=tenant, **changes)


def _values(info: ThreadInfo) -> Values:
    """Values for the pages of a thread."""
    return {
        "thread": info,
        "title": info.title or "",
        "problem": "",
        "is_archived": info.metadata.get("archived") is True,
        "is_at_work": info.status in (*AT_WORK, "waiting"),
    }


def _back_to(info: ThreadInfo) -> Response:
    return RedirectResponse(f"/studio/threads/{info.id}/settings", status_code=303)
