"""Settings of a thread: its title, whether it is archived, and its end."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agent_factory.errors import ArgumentError
from agent_factory.serve.pages.live import AT_WORK
from agent_factory.serve.pages.rendering import page, with_error_page
from agent_factory.serve.security import read_form
from agent_factory.service import Service, ThreadInfo


class ThreadSettings:
    """Answers requests for pages that rename, archive and delete threads."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @with_error_page
    async def settings(self, request: Request) -> Response:
        """`GET /studio/threads/{thread}/settings`: what can be done with a thread."""
        info = await run_in_threadpool(self._info, request)
        return page(request, "thread_settings.html", **_values(info))

    @with_error_page
    async def rename(self, request: Request) -> Response:
        """`POST /studio/threads/{thread}/rename`: another title."""
        title = str((await read_form(request)).get("title", ""))
        try:
            info = await run_in_threadpool(lambda: self._change(request, title=title))
        # What was entered stays in the field, next to what is wrong with it.
        except ArgumentError as error:
            info = await run_in_threadpool(self._info, request)
            values = _values(info, title=title, problem=f"The title {error.reason}")
            return page(request, "thread_settings.html", status=422, **values)
        return _back_to(info)

    @with_error_page
    async def archive(self, request: Request) -> Response:
        """`POST /studio/threads/{thread}/archive`: take it out of the list, or put it back."""
        archived = (await read_form(request)).get("archived") == "1"
        return _back_to(await run_in_threadpool(lambda: self._change(request, archived=archived)))

    @with_error_page
    async def ask(self, request: Request) -> Response:
        """`GET /studio/threads/{thread}/delete`: what would be gone."""

        def work() -> dict[str, Any]:
            info = self._info(request)
            threads = self._service.threads
            runs = threads.count_runs(info.id, tenant=info.tenant)
            return {"runs": runs, **_values(info)}

        return page(request, "thread_delete.html", **await run_in_threadpool(work))

    @with_error_page
    async def delete(self, request: Request) -> Response:
        """`POST /studio/threads/{thread}/delete`: delete it as a whole, as the HTTP API does."""
        await read_form(request)
        principal, thread = request.state.principal, request.path_params["thread"]
        arguments = {"by": principal.name, "tenant": principal.tenant}
        await run_in_threadpool(lambda: self._service.threads.delete(thread, **arguments))
        return RedirectResponse("/studio", status_code=303)

    def _info(self, request: Request) -> ThreadInfo:
        thread, tenant = request.path_params["thread"], request.state.principal.tenant
        return self._service.threads.get(thread, tenant=tenant)

    def _change(self, request: Request, **changes: Any) -> ThreadInfo:
        thread, tenant = request.path_params["thread"], request.state.principal.tenant
        return self._service.threads.change(thread, tenant=tenant, **changes)


def _values(info: ThreadInfo, *, title: str | None = None, problem: str = "") -> dict[str, Any]:
    """Values for the pages of a thread.

    Args:
        info: The thread.
        title: What somebody has entered.
        problem: What is wrong with it.
    """
    return {
        "thread": info,
        "title": info.title or "" if title is None else title,
        "problem": problem,
        "is_archived": info.metadata.get("archived") is True,
        "is_at_work": info.status in (*AT_WORK, "waiting"),
    }


def _back_to(info: ThreadInfo) -> Response:
    return RedirectResponse(f"/studio/threads/{info.id}/settings", status_code=303)
