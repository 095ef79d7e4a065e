"""Routes of runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import get_args
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agent_factory.serve.body import number, read_body, several
from agent_factory.serve.json_response import JsonResponse, selected, time_text, to_json
from agent_factory.serve.langgraph.agents import Agents, assistant_id
from agent_factory.serve.langgraph.requests import Batch, Cancelled, NewRun, StreamMode
from agent_factory.serve.langgraph.start import start_run
from agent_factory.serve.langgraph.stream import PING_SECONDS, last_event_id, stream_response
from agent_factory.service import NotFound, Run, RunCancelled, RunFailed, RunInfo, Service
from agent_factory.service.public_state import INTERRUPT

_STATUS = {
    "queued": "pending",
    "held": "pending",
    "running": "running",
    "waiting": "interrupted",
    "done": "success",
    "failed": "error",
    "cancelled": "interrupted",
}
_ACTIVE = ("pending", "running")


class Runs:
    """Answers requests about the runs of a service."""

    def __init__(self, service: Service, agents: Agents) -> None:
        self._service, self._agents = service, agents

    # New runs

    async def create(self, request: Request) -> JsonResponse:
        """`POST /threads/{thread}/runs` and `POST /runs`."""
        body = await read_body(request, NewRun)
        run = await self._started(request, body)
        info = await run_in_threadpool(lambda: run.info)
        return JsonResponse(_shown(info), headers={"Content-Location": _place(run)})

    async def stream(self, request: Request) -> Response:
        """`POST /threads/{thread}/runs/stream` and `POST /runs/stream`."""
        body = await read_body(request, NewRun)
        run = await self._started(request, body)
        return stream_response(
            run,
            body.modes,
            subgraphs=body.stream_subgraphs,
            cancels=body.on_disconnect == "cancel",
            finally_=partial(self._tidy, request, body, run),
        )

    async def wait(self, request: Request) -> Response:
        """`POST /threads/{thread}/runs/wait` and `POST /runs/wait`."""
        body = await read_body(request, NewRun)
        run = await self._started(request, body)
        cancels = body.on_disconnect == "cancel"
        tidy = partial(self._tidy, request, body, run)
        return self._waited(run, cancels=cancels, finally_=tidy)

    async def create_batch(self, request: Request) -> JsonResponse:
        """`POST /runs/batch`."""
        bodies = (await read_body(request, Batch)).root
        # One after the other, so that messages of a thread keep their order.
        runs = [await self._started(request, body, body.thread_id) for body in bodies]
        infos = await run_in_threadpool(lambda: [_shown(run.info) for run in runs])
        return JsonResponse(infos)

    async def _started(self, request: Request, body: NewRun, thread: str | None = None) -> Run:
        agent = self._agents.name(body.assistant_id)
        thread = request.path_params.get("thread", thread)
        principal, may_decide = request.state.principal, request.state.may_decide
        return await run_in_threadpool(
            start_run, self._service, agent, thread, body, principal, may_decide
        )

    async def _tidy(self, request: Request, body: NewRun, run: Run) -> None:
        """Delete the thread that was made for one run, once that has ended."""
        if "thread" in request.path_params or body.on_completion == "keep":
            return

        def work() -> None:
            # Somebody may have deleted it meanwhile.
            with suppress(NotFound):
                if run.status in ("done", "failed", "cancelled"):
                    self._service.delete_thread(run.thread_id)

        await run_in_threadpool(work)

    # Known runs

    async def search(self, request: Request) -> JsonResponse:
        """`GET /threads/{thread}/runs`."""
        limit, offset = number(request, "limit", 10), number(request, "offset", 0)
        status = request.query_params.get("status")
        thread, tenant = request.path_params["thread"], request.state.principal.tenant

        def work() -> list[dict[str, object]]:
            # Runs in another status are left out after they were read.
            most = limit + offset if status is None else 1000
            runs = self._service.runs(thread, tenant=tenant, limit=most)
            infos = [_shown(run.info) for run in runs]
            page = [info for info in infos if status in (None, info["status"])][offset:][:limit]
            return [selected(info, several(request, "select")) for info in page]

        return JsonResponse(await run_in_threadpool(work))

    async def get(self, request: Request) -> JsonResponse:
        """`GET /threads/{thread}/runs/{run}`."""
        run = await self._run(request)
        return JsonResponse(_shown(await run_in_threadpool(lambda: run.info)))

    async def join(self, request: Request) -> Response:
        """`GET /threads/{thread}/runs/{run}/join`."""
        return self._waited(await self._run(request), cancels=False)

    async def join_stream(self, request: Request) -> Response:
        """`GET /threads/{thread}/runs/{run}/stream`."""
        modes = several(request, "stream_mode")
        for mode in modes:
            if mode not in get_args(StreamMode):
                expected = ", ".join(map(repr, get_args(StreamMode)))
                raise HTTPException(422, f"stream_mode must be one of {expected}, got {mode!r}.")
        run = await self._run(request)
        after = last_event_id(request, run.thread_id)
        return stream_response(
            run,
            modes or None,
            subgraphs=True,
            after=None if after == "-1" else after,
            cancels=request.query_params.get("cancel_on_disconnect") in ("true", "1"),
        )

    async def cancel(self, request: Request) -> Response:
        """`POST /threads/{thread}/runs/{run}/cancel`."""
        await self._cancel(request, [await self._run(request)])
        return Response(status_code=204)

    async def cancel_many(self, request: Request) -> Response:
        """`POST /runs/cancel`."""
        body, tenant = await read_body(request, Cancelled), request.state.principal.tenant
        if (body.run_ids is None) == (body.status is None):
            raise HTTPException(422, "Pass run_ids, or the status of the runs.")
        # Runs that have ended cannot be cancelled, so "all" leaves them out.
        statuses = _ACTIVE if body.status in ("all", None) else (body.status,)

        def work() -> list[Run]:
            if body.run_ids is not None:
                runs = [self._service.run(run_id, tenant=tenant) for run_id in body.run_ids]
                for run in runs:
                    # Before any is cancelled: a list with a wrong id changes nothing.
                    _check_thread(run, body.thread_id or run.thread_id)
                return runs
            ids = None if body.thread_id is None else [body.thread_id]
            busy = ("queued", "running", "waiting")  # messages may wait behind a review
            threads = self._service.threads(tenant=tenant, ids=ids, status=busy, limit=1000)
            runs = [run for thread in threads for run in self._service.runs(thread.id, limit=1000)]
            return [run for run in runs if _STATUS[run.status] in statuses]

        await self._cancel(request, await run_in_threadpool(work))
        return Response(status_code=204)

    async def _cancel(self, request: Request, runs: list[Run]) -> None:
        action = request.query_params.get("action", "interrupt")
        if action not in ("interrupt", "rollback"):
            raise HTTPException(422, f"action must be 'interrupt' or 'rollback', got {action!r}.")
        for run in runs:
            await run.acancel(by=request.state.principal.name, roll_back=action == "rollback")

    async def _run(self, request: Request) -> Run:
        thread, tenant = request.path_params.get("thread"), request.state.principal.tenant
        run = await run_in_threadpool(
            partial(self._service.run, request.path_params["run"], tenant=tenant)
        )
        _check_thread(run, thread or run.thread_id)
        return run

    def _waited(
        self, run: Run, *, cancels: bool, finally_: Callable[[], Awaitable[None]] | None = None
    ) -> StreamingResponse:
        """The result of a run, as JSON that comes once it is there."""

        async def content() -> AsyncIterator[str]:
            result = asyncio.ensure_future(run.aresult())
            try:
                while not (await asyncio.wait([result], timeout=PING_SECONDS))[0]:
                    yield "\n"  # JSON allows it, and no proxy takes the connection for dead
                # A run that pauses before a node has nothing to answer: LangGraph leaves that out.
                output = result.result().items()
                yield to_json({key: v for key, v in output if key != INTERRUPT or v})
            except (RunFailed, RunCancelled) as error:
                # The status was sent before: clients of LangGraph look for this key.
                failed = {"error": type(error).__name__, "message": str(error)}
                yield to_json({"__error__": failed})
            except asyncio.CancelledError:
                if cancels:
                    # This task is cancelled: without a shield, so would be the call.
                    await asyncio.shield(run.acancel(by="the client has gone"))
                raise
            finally:
                result.cancel()
                if finally_ is not None:
                    await finally_()

        # Clients that are cut off ask there for the result.
        headers = {"Content-Location": _place(run), "Location": f"{_place(run)}/join"}
        return StreamingResponse(content(), headers=headers, media_type="application/json")


def _check_thread(run: Run, thread: str) -> None:
    if run.thread_id != thread:
        raise NotFound(f"run {run.id!r}", f"is not one of thread {thread!r}.")


def _place(run: Run) -> str:
    return f"/threads/{quote(run.thread_id, safe='')}/runs/{run.id}"


def _shown(info: RunInfo) -> dict[str, object]:
    created = time_text(info.created_at)
    return {
        "run_id": info.id,
        "thread_id": info.thread_id,
        "assistant_id": assistant_id(info.agent),
        "created_at": created,
        # A run has no other time.
        "updated_at": created,
        "status": _STATUS[info.status],
        "metadata": info.metadata,
        "multitask_strategy": "enqueue",
        "error": info.error,
    }
