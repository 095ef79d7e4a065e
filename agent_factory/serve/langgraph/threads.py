"""Routes of threads."""

from __future__ import annotations

from itertools import islice
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from agent_factory.serve.body import read_body, several
from agent_factory.serve.json_response import JsonResponse, selected, time_text
from agent_factory.serve.langgraph.agents import Agents, assistant_id
from agent_factory.serve.langgraph.requests import (
    Checkpoint,
    NewThread,
    StateChange,
    StatePlace,
    StateSearch,
    ThreadChange,
    ThreadPrune,
    ThreadSearch,
)
from agent_factory.serve.langgraph.stream import PING_SECONDS, follow_thread, last_event_id
from agent_factory.service import NotFound, Service, ThreadInfo
from agent_factory.service.public_state import PublicState

_STATUS = {
    "idle": "idle",
    "queued": "busy",
    "running": "busy",
    "waiting": "interrupted",
    "failed": "error",
}


class Threads:
    """Answers requests about the threads of a service."""

    def __init__(self, service: Service, agents: Agents) -> None:
        self._service, self._agents = service, agents

    async def create(self, request: Request) -> JsonResponse:
        """`POST /threads`."""
        body, tenant = await read_body(request, NewThread), request.state.principal.tenant

        def work() -> ThreadInfo:
            if body.thread_id is not None and body.if_exists == "raise":
                try:
                    self._service.thread(body.thread_id, tenant=tenant)
                except NotFound:
                    pass
                else:
                    raise HTTPException(409, f"The thread {body.thread_id!r} exists.")
            return self._service.create_thread(
                body.thread_id, metadata=body.metadata, tenant=tenant
            )

        return JsonResponse(_shown(await run_in_threadpool(work)))

    async def get(self, request: Request) -> JsonResponse:
        """`GET /threads/{thread}`."""
        return JsonResponse(await run_in_threadpool(self._with_values, self._info(request)))

    async def change(self, request: Request) -> JsonResponse:
        """`PATCH /threads/{thread}`."""
        body = await read_body(request, ThreadChange)
        thread, tenant = request.path_params["thread"], request.state.principal.tenant

        def work() -> dict[str, object]:
            changed = self._service.change_thread(thread, metadata=body.metadata, tenant=tenant)
            return self._with_values(changed)

        return JsonResponse(await run_in_threadpool(work))

    async def delete(self, request: Request) -> Response:
        """`DELETE /threads/{thread}`."""
        thread, principal = request.path_params["thread"], request.state.principal

        def work() -> None:
            self._service.delete_thread(thread, by=principal.name, tenant=principal.tenant)

        await run_in_threadpool(work)
        return Response(status_code=204)

    async def copy(self, request: Request) -> JsonResponse:
        """`POST /threads/{thread}/copy`."""
        thread, principal = request.path_params["thread"], request.state.principal

        def work() -> dict[str, object]:
            info = self._service.copy_thread(thread, by=principal.name, tenant=principal.tenant)
            return self._with_values(info)

        return JsonResponse(await run_in_threadpool(work))

    async def prune(self, request: Request) -> JsonResponse:
        """`POST /threads/prune`."""
        body, principal = await read_body(request, ThreadPrune), request.state.principal

        def work() -> int:
            filters = {"ids": body.thread_ids, "tenant": principal.tenant}
            threads = self._service.threads(**filters, limit=len(body.thread_ids))
            for thread in threads:
                self._service.delete_thread(thread.id, by=principal.name, tenant=principal.tenant)
            return len(threads)

        return JsonResponse({"pruned_count": await run_in_threadpool(work)})

    async def search(self, request: Request) -> JsonResponse:
        """`POST /threads/search`."""
        body = await read_body(request, ThreadSearch)

        def work() -> list[ThreadInfo]:
            filters = self._wanted(request, body)
            # The service has one time for both.
            column: Any = "updated_at" if body.sort_by == "state_updated_at" else body.sort_by
            return self._service.threads(
                **filters,
                sort_by=column,
                descending=body.sort_order == "desc",
                limit=body.limit,
                offset=body.offset,
            )

        threads = await run_in_threadpool(work)
        # A state takes time to read, so only if the client asks for it.
        fields = set(body.select or ("values", "interrupts"))
        show = self._with_values if fields & {"values", "interrupts"} else _shown
        rows = await run_in_threadpool(lambda: [show(thread) for thread in threads])
        return JsonResponse([selected(row, body.select) for row in rows])

    async def count(self, request: Request) -> JsonResponse:
        """`POST /threads/count`."""
        body = await read_body(request, ThreadSearch)
        filters = self._wanted(request, body)
        return JsonResponse(await run_in_threadpool(lambda: self._service.count_threads(**filters)))

    def _wanted(self, request: Request, body: ThreadSearch) -> dict[str, Any]:
        """Arguments of `Service.threads` for a search."""
        metadata = dict(body.metadata)
        # Noted by us, not by the product.
        agent, assistant = metadata.pop("graph_id", None), metadata.pop("assistant_id", None)
        if assistant is not None:
            agent = self._agents.name(assistant)
        statuses = [ours for ours, theirs in _STATUS.items() if theirs == body.status]
        return {
            "tenant": request.state.principal.tenant,
            "ids": body.ids,
            "status": statuses or None,
            "agent": agent,
            "metadata": metadata,
        }

    async def stream(self, request: Request) -> Response:
        """`GET /threads/{thread}/stream`."""
        if set(several(request, "stream_mode")) - {"run_modes"}:
            raise HTTPException(422, "stream_mode of a thread must be 'run_modes'.")
        info = await run_in_threadpool(self._info, request)
        after = last_event_id(request, info.id)
        events = follow_thread(self._service, info.id, info.tenant, after)
        return EventSourceResponse(events, ping=PING_SECONDS)

    # State

    async def state(self, request: Request) -> JsonResponse:
        """`GET /threads/{thread}/state` and `GET /threads/{thread}/state/{checkpoint}`."""
        subgraphs = request.query_params.get("subgraphs", "false").lower() not in ("false", "0")
        checkpoint = request.path_params.get("checkpoint")
        state = await run_in_threadpool(self._state, request, checkpoint, subgraphs)
        return JsonResponse(selected(state, several(request, "select")))

    async def state_at(self, request: Request) -> JsonResponse:
        """`POST /threads/{thread}/state/checkpoint`."""
        body = await read_body(request, StatePlace)
        place, namespace = body.checkpoint.place, body.checkpoint.checkpoint_ns or ""
        state = await run_in_threadpool(self._state, request, place, body.subgraphs, namespace)
        return JsonResponse(selected(state, body.select))

    async def change_state(self, request: Request) -> JsonResponse:
        """`POST /threads/{thread}/state`."""
        body, principal = await read_body(request, StateChange), request.state.principal
        checkpoint = body.checkpoint.place if body.checkpoint else body.checkpoint_id

        def work() -> dict[str, object]:
            info = self._info(request)
            if not info.agent:
                raise NotFound(f"thread {info.id!r}", "has no message yet.", "Send one first.")
            agent = self._service.agents.get(info.agent)
            # Keys that no state shows cannot be written either.
            private = agent and {key for key in body.keys if key not in PublicState(agent)}
            if private:
                names = ", ".join(sorted(private))
                raise HTTPException(422, f"values: {names} is not in the output of {info.agent!r}.")
            changed = self._service.update_state(
                info.id,
                body.values,
                as_node=body.as_node,
                checkpoint=checkpoint,
                tenant=principal.tenant,
                by=principal.name,
            )
            return _place(changed)

        place = await run_in_threadpool(work)
        return JsonResponse({"checkpoint": place, "configurable": place, **place})

    async def history(self, request: Request) -> JsonResponse:
        """`POST /threads/{thread}/history`."""
        body = await read_body(request, StateSearch)
        before = body.before.place if isinstance(body.before, Checkpoint) else body.before

        def work() -> list[dict[str, object]]:
            info = self._info(request)
            if not info.agent:
                return []
            # Metadata are compared here, so more states may have to be read.
            most = None if body.metadata else body.limit
            # Without a tenant, which `_info` has checked.
            states = self._service.history(info.id, before=before, limit=most)
            conditions = body.metadata.items()
            fitting = (
                state for state in states if conditions <= {**(state.metadata or {})}.items()
            )
            rows = map(state_shown, islice(fitting, body.limit))
            return [selected(row, body.select) for row in rows]

        return JsonResponse(await run_in_threadpool(work))

    def _info(self, request: Request) -> ThreadInfo:
        tenant = request.state.principal.tenant
        return self._service.thread(request.path_params["thread"], tenant=tenant)

    def _state(
        self, request: Request, checkpoint: str | None, subgraphs: bool, namespace: str = ""
    ) -> dict[str, object]:
        info = self._info(request)
        if not info.agent:  # it has no message yet
            config: RunnableConfig = {"configurable": {"thread_id": info.id}}
            return state_shown(StateSnapshot({}, (), config, None, None, None, (), ()))
        options: dict[str, Any] = {"namespace": namespace, "subgraphs": subgraphs}
        return state_shown(self._service.state(info.id, checkpoint=checkpoint, **options))

    def _with_values(self, info: ThreadInfo) -> dict[str, object]:
        """A thread with its state."""
        if info.agent not in self._service.agents:
            return _shown(info)
        state = self._service.state(info.id)
        interrupts = {task.id: list(task.interrupts) for task in state.tasks if task.interrupts}
        return {**_shown(info), "values": state.values, "interrupts": interrupts}


def _shown(info: ThreadInfo) -> dict[str, object]:
    agent = {}
    if info.agent:
        agent = {"graph_id": info.agent, "assistant_id": assistant_id(info.agent)}
    return {
        "thread_id": info.id,
        "created_at": time_text(info.created_at),
        "updated_at": time_text(info.updated_at),
        "metadata": {**info.metadata, **agent},
        "status": _STATUS[info.status],
        "config": {},
        "values": {},
        "interrupts": {},
        "error": info.error,
    }


def state_shown(state: StateSnapshot) -> dict[str, object]:
    """A state of a thread."""
    # Of a thread without a message, an object, too: LangGraph's RemoteGraph cannot read null.
    place = {"checkpoint_id": None, **_place(state.config)}
    parent = _place(state.parent_config) if state.parent_config else None
    return {
        "values": state.values,
        "next": state.next,
        "tasks": [
            {
                "id": task.id,
                "name": task.name,
                "path": task.path,
                # Clients of LangGraph expect a text.
                "error": None if task.error is None else str(task.error),
                "interrupts": list(task.interrupts),
                # Of an agent that is the node: the place of its state, or the state.
                "checkpoint": _place(task.state) if isinstance(task.state, dict) else None,
                "state": state_shown(task.state) if isinstance(task.state, StateSnapshot) else None,
                "result": task.result,
            }
            for task in state.tasks
        ],
        "interrupts": list(state.interrupts),
        "metadata": state.metadata or {},
        "created_at": state.created_at,
        "checkpoint": place,
        "checkpoint_id": place["checkpoint_id"],
        "parent_checkpoint": parent,
        "parent_checkpoint_id": parent and parent["checkpoint_id"],
    }


def _place(config: Any) -> dict[str, object]:
    """Place of a state in the history of its thread."""
    names = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
    place = {name: config["configurable"].get(name) for name in names}
    known = {key: value for key, value in place.items() if value is not None}
    return {"checkpoint_ns": "", **known}
