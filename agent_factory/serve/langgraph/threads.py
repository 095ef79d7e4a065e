"""Routes of threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot, StateUpdate
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from agent_factory.serve.body import several
from agent_factory.serve.endpoints import Endpoints
from agent_factory.serve.json_response import (
    JsonResponse,
    failure_of,
    search_response,
    selected,
    time_text,
)
from agent_factory.serve.langgraph.requests import (
    Checkpoint,
    NewThread,
    StateChange,
    StatePlace,
    StateSearch,
    StateWrite,
    ThreadChange,
    ThreadPrune,
    ThreadSearch,
)
from agent_factory.serve.langgraph.stream import PING_SECONDS, follow_thread, last_event_id
from agent_factory.serve.principal import Principal
from agent_factory.service import AlreadyExists, ThreadInfo, assistant_id

_STATUS = {
    "idle": "idle",
    "queued": "busy",
    "running": "busy",
    "waiting": "interrupted",
    "failed": "error",
}


class Threads(Endpoints):
    """Answers requests about the threads of a service."""

    def create(self, request: Request, body: NewThread) -> JsonResponse:
        """Create a thread, with the states of `supersteps` if there are some."""
        principal, threads = request.state.principal, self._service.threads
        metadata, agent = self._noted(request, body.metadata)
        if body.supersteps and agent is None:
            text = "supersteps need the graph that they are for. Send metadata.graph_id."
            raise HTTPException(422, text)
        new: dict[str, Any] = {"metadata": metadata, "tenant": principal.tenant, "agent": agent}
        try:
            info = threads.create(body.thread_id, **new, exist_ok=False)
        except AlreadyExists:
            if body.if_exists == "raise":
                raise
            info = threads.get(str(body.thread_id), tenant=principal.tenant)
            return JsonResponse(self._with_values(info))
        if body.supersteps:
            try:
                self._write(info, [step.updates for step in body.supersteps], None, principal)
            except Exception:
                # The client does not know the id, and would create another thread.
                threads.delete(info.id, by=principal.name)
                raise
            info = threads.get(info.id)
        return JsonResponse(self._with_values(info))

    def _noted(
        self, request: Request, metadata: Mapping[str, object]
    ) -> tuple[dict[str, object], str | None]:
        """Metadata of a thread in the database, and the agent, by its graph or its assistant."""
        notes = dict(metadata)
        graph, assistant = notes.pop("graph_id", None), notes.get("assistant_id")
        if assistant is None:
            return notes, None if graph is None else str(graph)
        chosen = self._assistant(request, str(assistant))
        if graph not in (None, chosen.agent):
            text = f"The assistant {assistant!r} is one of graph {chosen.agent!r}."
            raise HTTPException(422, text)
        if chosen.is_agent:
            del notes["assistant_id"]
        return notes, chosen.agent

    def get(self, request: Request) -> JsonResponse:
        """Get a thread."""
        return JsonResponse(self._with_values(self._thread(request)))

    def change(self, request: Request, body: ThreadChange) -> Response:
        """Add to the metadata of a thread."""
        thread, tenant = request.path_params["thread"], request.state.principal.tenant
        metadata, agent = self._noted(request, body.metadata)
        change: dict[str, Any] = {"metadata": metadata, "tenant": tenant, "agent": agent}
        row = self._with_values(self._service.threads.change(thread, **change))
        is_minimal = request.headers.get("prefer") == "return=minimal"
        return Response(status_code=204) if is_minimal else JsonResponse(row)

    def delete(self, request: Request) -> Response:
        """Delete a thread as a whole."""
        thread, principal = request.path_params["thread"], request.state.principal
        self._service.threads.delete(thread, by=principal.name, tenant=principal.tenant)
        return Response(status_code=204)

    def copy(self, request: Request) -> JsonResponse:
        """Copy a thread."""
        thread, principal = request.path_params["thread"], request.state.principal
        info = self._service.threads.copy(thread, by=principal.name, tenant=principal.tenant)
        return JsonResponse(self._with_values(info))

    def prune(self, request: Request, body: ThreadPrune) -> JsonResponse:
        """Delete several threads."""
        principal, ids = request.state.principal, body.thread_ids
        found = self._service.threads.search(ids=ids, tenant=principal.tenant, limit=len(ids))
        for thread in found:
            self._service.threads.delete(thread.id, by=principal.name, tenant=principal.tenant)
        return JsonResponse({"pruned_count": len(found)})

    def search(self, request: Request, body: ThreadSearch) -> JsonResponse:
        """Search for threads."""
        # Reading a state takes time.
        of_state = {"values", "interrupts", "state_updated_at"}
        show = self._with_values if of_state & {*(body.select or of_state)} else _shown
        return search_response(self._service.threads, body, self._filters(request, body), show)

    def count(self, request: Request, body: ThreadSearch) -> JsonResponse:
        """Count threads."""
        return JsonResponse(self._service.threads.count(**self._filters(request, body)))

    def _filters(self, request: Request, body: ThreadSearch) -> dict[str, Any]:
        """Arguments of `Service.threads.search` for a search."""
        metadata, agent = self._noted(request, body.metadata)
        statuses = [ours for ours, theirs in _STATUS.items() if theirs == body.status]
        return {
            "tenant": request.state.principal.tenant,
            "ids": body.ids,
            "status": statuses or None,
            "agent": agent,
            "metadata": metadata,
        }

    async def stream(self, request: Request) -> Response:
        """Stream the events of all runs of a thread."""
        # LangGraph's clients and its description have two names.
        modes = {*several(request, "stream_mode"), *several(request, "stream_modes")}
        if modes - {"run_modes"}:
            raise HTTPException(422, "stream_mode of a thread must be 'run_modes'.")
        info = await run_in_threadpool(self._thread, request)
        after = last_event_id(request, info.id)
        events = follow_thread(self._service, info.id, info.tenant, after)
        return EventSourceResponse(events, ping=PING_SECONDS)

    # State

    def state(self, request: Request) -> JsonResponse:
        """Get the state of a thread, the newest or that of a checkpoint."""
        subgraphs = request.query_params.get("subgraphs", "false").lower() not in ("false", "0")
        checkpoint = request.path_params.get("checkpoint")
        state = self._state(request, checkpoint, subgraphs)
        return JsonResponse(selected(state, several(request, "select")))

    def state_at(self, request: Request, body: StatePlace) -> JsonResponse:
        """Get the state of a thread at a checkpoint."""
        place, namespace = body.checkpoint.place, body.checkpoint.checkpoint_ns or ""
        state = self._state(request, place, body.subgraphs, namespace)
        return JsonResponse(selected(state, body.select))

    def change_state(self, request: Request, body: StateChange) -> JsonResponse:
        """Write to the state of a thread."""
        checkpoint = body.checkpoint.place if body.checkpoint else body.checkpoint_id
        info, principal = self._thread(request), request.state.principal
        place = self._write(info, [[body]], checkpoint, principal)
        return JsonResponse({"checkpoint": place, "configurable": place, **place})

    def _write(
        self,
        info: ThreadInfo,
        steps: Sequence[Sequence[StateWrite]],
        checkpoint: str | None,
        principal: Principal,
    ) -> dict[str, object]:
        """Write to the state of a thread, and return the place of the new state."""
        if not info.agent:
            raise HTTPException(
                400,
                f"The thread {info.id!r} has no graph yet. Send a message first, or its graph as "
                "metadata.graph_id of the thread.",
            )
        changed = self._service.threads.update_states(
            info.id,
            [[StateUpdate(write.values, write.as_node) for write in step] for step in steps],  # type: ignore[arg-type]  # or a list
            checkpoint=checkpoint,
            tenant=principal.tenant,
            by=principal.name,
            # Hidden keys cannot be written.
            public=True,
        )
        return _place(changed)

    def history(self, request: Request, body: StateSearch) -> JsonResponse:
        """List the states of a thread, the newest first."""
        before = body.before.place if isinstance(body.before, Checkpoint) else body.before
        info = self._thread(request)
        if not info.agent:
            return JsonResponse([])
        # Metadata are compared here, so more states may have to be read.
        most = None if body.metadata else body.limit
        states: Iterable[StateSnapshot]
        # Without a tenant, which `_thread` has checked.
        if body.checkpoint is not None and (place := body.checkpoint.place) is not None:
            states = [self._service.threads.state(info.id, checkpoint=place)]
        else:
            states = self._service.threads.history(info.id, before=before, limit=most)
        conditions = body.metadata.items()
        fitting = (state for state in states if conditions <= {**(state.metadata or {})}.items())
        rows = map(state_shown, islice(fitting, body.limit))
        return JsonResponse([selected(row, body.select) for row in rows])

    def _state(
        self, request: Request, checkpoint: str | None, subgraphs: bool, namespace: str = ""
    ) -> dict[str, object]:
        info = self._thread(request)
        if not info.agent:  # no message yet
            config: RunnableConfig = {"configurable": {"thread_id": info.id}}
            return state_shown(StateSnapshot({}, (), config, None, None, None, (), ()))
        options: dict[str, Any] = {"namespace": namespace, "subgraphs": subgraphs}
        return state_shown(self._service.threads.state(info.id, checkpoint=checkpoint, **options))

    def _with_values(self, info: ThreadInfo) -> dict[str, object]:
        """A thread with its state."""
        if info.agent not in self._service.agents:
            return _shown(info)
        state = self._service.threads.state(info.id)
        interrupts = {task.id: list(task.interrupts) for task in state.tasks if task.interrupts}
        shown = {**_shown(info), "values": state.values, "interrupts": interrupts}
        if state.created_at:  # a new thread has no state, and keeps its own time
            shown["state_updated_at"] = state.created_at
        return shown


def _shown(info: ThreadInfo) -> dict[str, object]:
    agent = {}
    if info.agent:
        agent = {"graph_id": info.agent, "assistant_id": assistant_id(info.agent)}
    return {
        "thread_id": info.id,
        "created_at": time_text(info.created_at),
        "updated_at": time_text(info.updated_at),
        "state_updated_at": time_text(info.created_at),
        # The thread notes a tenant's assistant.
        "metadata": {**agent, **info.metadata},
        "status": _STATUS[info.status],
        "config": {},
        "values": {},
        "interrupts": {},
        "error": None if info.error is None else failure_of(info.error),
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
                # Of an agent in the node: the place of the state, or the state.
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
    """Place of a state in the history of a thread."""
    names = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
    place = {name: config["configurable"].get(name) for name in names}
    known = {key: value for key, value in place.items() if value is not None}
    return {"checkpoint_ns": "", **known}
