"""Routes of runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, get_args

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agent_factory.serve.body import choice, number, several
from agent_factory.serve.endpoints import Endpoints, check_thread
from agent_factory.serve.errors import text_of
from agent_factory.serve.exchange import ENDED, Exchange
from agent_factory.serve.json_response import JsonResponse, failure_of, selected, time_text, to_json
from agent_factory.serve.langgraph.requests import Batch, Cancelled, NewRun, StreamMode
from agent_factory.serve.langgraph.start import start_run
from agent_factory.serve.langgraph.stream import (
    PING_SECONDS,
    last_event_id,
    place_of,
    stream_response,
)
from agent_factory.serve.webhooks import Webhooks
from agent_factory.service import (
    NotFound,
    Run,
    RunCancelled,
    RunFailed,
    Service,
    Webhook,
    assistant_id,
)
from agent_factory.upstream import INTERRUPT

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
_OPEN = ("queued", "running", "waiting")
"""Status of a run that has not ended, and of its thread."""
_AS_SUBMITTED = ("input", "subgraphs", "interrupt_before", "interrupt_after")


class Runs(Endpoints):
    """Answers requests about the runs of a service."""

    def __init__(self, service: Service, webhooks: Webhooks) -> None:
        super().__init__(service)
        self._webhooks = webhooks
        # Event loops forget tasks without a reference.
        self._tidying: set[asyncio.Task[None]] = set()

    # New runs

    def create(self, request: Request, body: NewRun) -> JsonResponse:
        """Begin a run."""
        run = self.start(request, body)
        return JsonResponse(shown(run), headers={"Content-Location": place_of(run)})

    async def stream(self, request: Request, body: NewRun) -> Response:
        """Begin a run and stream its events."""
        run = await run_in_threadpool(self.start, request, body)
        return stream_response(
            run,
            body.modes,
            subgraphs=body.stream_subgraphs,
            cancels=body.on_disconnect == "cancel",
            finally_=partial(self._tidy, request, body, run),
        )

    async def wait(self, request: Request, body: NewRun) -> Response:
        """Begin a run and wait for its result."""
        run = await run_in_threadpool(self.start, request, body)
        tidy = partial(self._tidy, request, body, run)
        return _waited(run, cancels=body.on_disconnect == "cancel", finally_=tidy)

    def create_batch(self, request: Request, body: Batch) -> JsonResponse:
        """Begin several runs."""
        # In order, for messages of one thread.
        runs = [self.start(request, each, each.thread_id) for each in body.root]
        return JsonResponse([shown(run) for run in runs])

    def start(self, request: Request, body: NewRun, thread: str | None = None) -> Run:
        """Begin a run with the settings of its assistant, or carry a command out.

        Args:
            thread: The thread; None is the thread in the path, or else a new one.

        Raises:
            NotFound: There is no such thread, and the run needs a thread.
        """
        principal, threads = request.state.principal, self._service.threads
        thread = request.path_params.get("thread") if thread is None else thread
        if body.webhook is not None:
            self._webhooks.check(body.webhook)
        assistant = self._assistant(request, body.assistant_id)
        body = body.model_copy(update=assistant.settings_of(dict(body)))
        # Read once; None if the run creates the thread.
        info, earlier = None, []
        if thread is not None:
            try:
                info = threads.get(thread, tenant=principal.tenant)
            except NotFound:
                if body.if_not_exists == "reject" or body.command is not None:
                    raise
        # A thread that waits is not busy: its run ends, and its messages stay.
        if body.multitask_strategy == "rollback" and info and info.status != "waiting":
            earlier = threads.runs(info.id, status=_OPEN, limit=1000)
        exchange = Exchange(self._service, request, assistant.agent, thread, "langgraph")
        run = start_run(exchange, info, body)
        for other in earlier:
            # As on LangGraph's own server: rolled-back runs are not listed.
            if other.id != run.id and other.status == "cancelled":
                other.delete(by=principal.name)
        if body.webhook is not None:
            self._service.webhooks.add(run.id, body.webhook)
        # Noted with the thread, for searches by the last assistant.
        noted = None if info is None else info.metadata.get("assistant_id")
        # Runs of the agent itself replace a note, and write none.
        if noted != assistant.id and not (noted is None and assistant.is_agent):
            with suppress(NotFound):  # somebody has deleted the thread
                threads.change(run.thread_id, metadata={"assistant_id": assistant.id})
        return run

    async def _tidy(self, request: Request, body: NewRun, run: Run) -> None:
        """Delete a temporary thread at the end of its run.

        Where the client goes away, the server waits for the end.
        """
        if "thread" in request.path_params or body.on_completion == "keep":
            return

        async def work() -> None:
            with suppress(NotFound):  # somebody has deleted the thread
                if await run_in_threadpool(lambda: run.status) in ("queued", "running"):
                    with suppress(RunFailed, RunCancelled):
                        await run.aresult()
                # A run that waits goes on in the thread.
                if await run_in_threadpool(lambda: run.status) in ENDED:
                    await run_in_threadpool(self._service.threads.delete, run.thread_id)

        # The task of the request ends as soon as the client has gone.
        task = asyncio.create_task(work())
        self._tidying.add(task)
        task.add_done_callback(self._tidying.discard)
        await asyncio.shield(task)

    # Known runs

    def search(self, request: Request) -> JsonResponse:
        """List the runs of a thread, the newest first."""
        limit, offset = number(request, "limit", 10), number(request, "offset", 0)
        status = choice(request, "status", *sorted({*_STATUS.values(), "timeout"}))
        thread, tenant = request.path_params["thread"], request.state.principal.tenant
        part: dict[str, Any] = {"tenant": tenant, "limit": limit, "offset": offset}
        if status is not None:
            part["status"] = [ours for ours, theirs in _STATUS.items() if theirs == status]
        rows = map(shown, self._service.threads.runs(thread, **part))
        return JsonResponse([selected(row, several(request, "select")) for row in rows])

    def get(self, request: Request) -> JsonResponse:
        """Get a run."""
        return JsonResponse(shown(self._run(request)))

    def delete(self, request: Request) -> Response:
        """Delete a run. What it has written stays in the thread."""
        self._run(request).delete(by=request.state.principal.name)
        return Response(status_code=204)

    async def join(self, request: Request) -> Response:
        """Wait for the result of a run."""
        run = await run_in_threadpool(self._run, request)
        return _waited(run, cancels=_ends_with_client(request))

    async def join_stream(self, request: Request) -> Response:
        """Stream the events of a run."""
        modes = several(request, "stream_mode")
        for mode in modes:
            if mode not in get_args(StreamMode):
                expected = ", ".join(map(repr, get_args(StreamMode)))
                raise HTTPException(422, f"stream_mode must be one of {expected}, got {mode!r}.")
        run = await run_in_threadpool(self._run, request)
        after = last_event_id(request, run.thread_id)
        return stream_response(
            run,
            modes or None,
            subgraphs=True,
            after=None if after == "-1" else after,
            cancels=_ends_with_client(request),
        )

    def cancel(self, request: Request) -> Response:
        """Cancel a run; with `action=rollback`, go back to before it."""
        run = self._run(request)
        _cancel(request, [run])
        if request.query_params.get("wait", "0").lower() in ("0", "false"):
            return Response(status_code=204)
        # A cancelled run has ended: nothing to wait for.
        return JsonResponse({}, headers=_places(run))

    def cancel_many(self, request: Request, body: Cancelled) -> Response:
        """Cancel several runs."""
        tenant, threads = request.state.principal.tenant, self._service.threads
        if (body.run_ids is None) == (body.status is None):
            raise HTTPException(422, "Pass run_ids, or the status of the runs.")
        if body.run_ids is not None:
            runs = [self._service.run(run_id, tenant=tenant) for run_id in body.run_ids]
            for run in runs:
                # Before any is cancelled: a list with a wrong id changes nothing.
                check_thread(run, body.thread_id or run.thread_id)
        else:
            # "all" is all active runs.
            statuses = _ACTIVE if body.status == "all" else (body.status,)
            ids = None if body.thread_id is None else [body.thread_id]
            # Messages may wait behind a review.
            page = threads.search(tenant=tenant, ids=ids, status=_OPEN, limit=1000)
            runs = [run for thread in page for run in threads.runs(thread.id, limit=1000)]
            runs = [run for run in runs if _STATUS[run.status] in statuses]
        _cancel(request, runs)
        return Response(status_code=204)


def _ends_with_client(request: Request) -> bool:
    """Return True if a run is to end when its reader goes away."""
    return request.query_params.get("cancel_on_disconnect") in ("true", "1")


def _cancel(request: Request, runs: list[Run]) -> None:
    action = request.query_params.get("action", "interrupt")
    if action not in ("interrupt", "rollback"):
        raise HTTPException(422, f"action must be 'interrupt' or 'rollback', got {action!r}.")
    roll_back, name = action == "rollback", request.state.principal.name
    active = [run for run in runs if run.status not in ENDED]
    if not active:
        raise HTTPException(404, "There is no such run to cancel: none that has not ended.")
    # The newest first: a cancelled run lets the next message begin.
    active.sort(key=lambda run: run.info.created_at, reverse=True)
    for run in active:
        run.cancel(by=name, roll_back=roll_back)
        if roll_back:
            run.delete(by=name)


def _waited(
    run: Run, *, cancels: bool = False, finally_: Callable[[], Awaitable[None]] | None = None
) -> StreamingResponse:
    """The result of a run as JSON, sent at the end of the run."""

    async def content() -> AsyncIterator[str]:
        result = asyncio.ensure_future(run.aresult())
        try:
            while not (await asyncio.wait([result], timeout=PING_SECONDS))[0]:
                yield "\n"  # JSON allows blanks, and no proxy takes the connection for dead
            # LangGraph leaves out empty interrupts of a pause before a node.
            output = result.result().items()
            yield to_json({key: v for key, v in output if key != INTERRUPT or v})
        except (RunFailed, RunCancelled, NotFound) as error:
            failure = {"error": type(error).__name__, "message": text_of(error)}
            if isinstance(error, RunFailed):
                reason = (await run_in_threadpool(lambda: run.info)).error
                failure = failure_of(reason) if reason else failure
            # The status was sent before: clients of LangGraph look for this key.
            yield to_json({"__error__": failure})
        except asyncio.CancelledError:
            if cancels:
                # This task is cancelled: without a shield, so would be the call.
                await asyncio.shield(run.acancel(by="the client has gone"))
            raise
        finally:
            result.cancel()
            if finally_ is not None:
                await finally_()

    return StreamingResponse(content(), headers=_places(run), media_type="application/json")


def _places(run: Run) -> dict[str, str]:
    """Headers with the addresses of a run and of its result."""
    return {"Content-Location": place_of(run), "Location": f"{place_of(run)}/join"}


def shown(run: Run) -> dict[str, object]:
    """A run, for clients of LangGraph."""
    info, asked = run.info, run.request
    busy = asked.get("busy")
    return {
        "run_id": info.id,
        "thread_id": info.thread_id,
        # Runs of a tenant's assistant note the assistant.
        "assistant_id": info.metadata.get("assistant_id") or assistant_id(info.agent),
        "created_at": time_text(info.created_at),
        "updated_at": time_text(info.updated_at),
        "status": _STATUS[info.status],
        "metadata": info.metadata,
        "multitask_strategy": "enqueue" if busy == "queue" else busy,
        "kwargs": {
            "config": asked.get("config", {}),
            "checkpoint_id": asked.get("checkpoint"),
            "stream_mode": asked.get("stream"),
            **{name: asked.get(name) for name in _AS_SUBMITTED},
        },
        "error": info.error,
    }


def outcome(webhook: Webhook) -> dict[str, object]:
    """Content of a webhook: the run, with the values of the state.

    Raises:
        TimeoutError: The run has gone on since.
    """
    row, sent_at = shown(webhook.run), time_text(time.time())
    # Without waiting: a resumed run sends the outcome at its end.
    try:
        values = webhook.run.result(timeout=0)
    except (RunFailed, RunCancelled):
        values = None
    error = row["error"] and failure_of(str(row["error"]))
    return {**row, "values": values, "error": error, "webhook_sent_at": sent_at}
