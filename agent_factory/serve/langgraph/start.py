"""How a request becomes a run of a thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from langgraph.constants import END
from starlette.exceptions import HTTPException

from agent_factory.serve.langgraph.requests import NewRun
from agent_factory.serve.principal import Principal
from agent_factory.service import Run, Service, Wait

_BUSY = {"reject": "reject", "interrupt": "interrupt", "rollback": "rollback", "enqueue": "queue"}


def start_run(
    service: Service,
    agent: str,
    thread: str | None,
    body: NewRun,
    principal: Principal,
    may_decide: Callable[[Wait], bool] | None,
) -> Run:
    """Submit what a body says, or carry its command out.

    Raises:
        HTTPException: 422 if the body has nothing to do, or not what the thread waits for.
    """
    tenant, modes = principal.tenant, recorded_modes(body)
    resume: Callable[..., Run] = partial(
        service.resume,
        by=principal.name,
        roles=principal.roles,
        stream=modes,
        tenant=tenant,
        may_decide=may_decide,
    )
    if thread is not None and body.if_not_exists == "reject":
        service.thread(thread, tenant=tenant)
    message: Any = body.input
    if body.command is not None:
        if thread is None:
            raise HTTPException(422, "A command needs the thread that waits.")
        if body.command.goto is None:
            return resume(thread, body.command.resume)
        service.update_state(thread, None, as_node=END, tenant=tenant, by=principal.name)
    elif message is None and body.place is None:
        if thread is None or not _can_go_on(service, thread, tenant):
            raise HTTPException(422, "input is missing: the message, such as {'messages': []}.")
        if service.thread(thread, tenant=tenant).status == "waiting":
            return resume(thread, None)
    busy: Any = body.multitask_strategy and _BUSY[body.multitask_strategy]
    return service.submit(
        agent,
        thread=thread,
        message=message,
        checkpoint=body.place,
        tenant=tenant,
        busy=busy,
        # On LangGraph's own server, a thread that waits for an answer is not busy.
        waiting="interrupt",
        by=principal.name,
        context=body.context,
        config=body.settings,
        stream=modes,
        subgraphs=body.stream_subgraphs,
        metadata=body.metadata,
        interrupt_before=body.interrupt_before,
        interrupt_after=body.interrupt_after,
        delay=body.after_seconds,
    )


def recorded_modes(body: NewRun) -> set[str]:
    """The modes of LangGraph's streams that show what a client wants to see."""
    return {"messages" if mode == "messages-tuple" else mode for mode in body.modes}


def _can_go_on(service: Service, thread: str, tenant: str) -> bool:
    """Whether a thread goes on without a message: it has failed, or is paused at a node.

    Raises:
        HTTPException: 422 if it waits for an answer.
    """
    info = service.thread(thread, tenant=tenant)
    if info.status == "waiting":
        waits = service.inbox(tenant).waits(thread=thread, limit=1000)
        if any(wait.kind not in ("pause", "result") for wait in waits):
            raise HTTPException(
                422, "The thread waits for an answer. Pass command={'resume': ...}, or a message."
            )
        return True
    return bool(info.agent and service.state(thread, tenant=tenant).next)
