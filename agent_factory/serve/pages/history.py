"""History: the moments of a thread, and what is different between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph.types import StateSnapshot
from starlette.requests import Request
from starlette.responses import Response

from agent_factory.serve.pages.comparison import compare
from agent_factory.serve.pages.moments import (
    Wording,
    id_of,
    moments_of,
    parent_of,
    time_of,
)
from agent_factory.serve.pages.queue import queue_of
from agent_factory.serve.pages.rendering import Pages, is_partial, page
from agent_factory.serve.principal import LOCAL
from agent_factory.service import NotFound, Service, ThreadInfo

PAGE = 50
"""Checkpoints that are loaded at once."""


class HistoryPages(Pages):
    """Answers requests about earlier moments of threads."""

    def history(self, request: Request) -> Response:
        """`GET /studio/threads/{thread}/history`: the moments, and a comparison of two of them."""
        query, service, info = request.query_params, self._service, self._thread(request)
        context: dict[str, Any] = {"thread": info, "moments": [], "at": query.get("at")}
        context |= {"more": None, "columns": "", "newest": "", "comparison": None, "ends": ()}
        template = "history.html" if is_partial(request) else "history_page.html"
        if info.agent not in service.agents:
            return page(request, template, **context)
        # Nobody is authenticated, so the one who looks is the one who writes.
        wording = Wording(info.agent, "you" if request.state.principal == LOCAL else "the user")
        columns = query.get("columns", "").split(",") if query.get("columns") else []
        context |= part_of(service, info, wording, query.get("before"), columns)
        checkpoints = [row.checkpoint for row in context["moments"] if row.checkpoint]
        if checkpoints:
            context |= {"newest": checkpoints[0], "chosen": (checkpoints[-1], checkpoints[0])}
        if first := query.get("from"):
            states = [state_at(service, info, id) for id in (first, query.get("to") or None)]
            # The earlier one first, whichever was chosen first.
            states.sort(key=time_of)
            context["comparison"] = compare(states[0].values, states[1].values, info.agent)
            # A moment further back than the part of the history has its time alone.
            words = {step.id: row.words for row in context["moments"] for step in row.steps}
            context["ends"] = [
                (id_of(state), time_of(state), words.get(id_of(state), "")) for state in states
            ]
            context["chosen"] = [id for id, *_ in context["ends"]]
        return page(request, template, **context)


def part_of(
    service: Service, info: ThreadInfo, wording: Wording, before: str | None, columns: Sequence[str]
) -> dict[str, Any]:
    """A part of a history, with where the next part begins ("more") and its columns.

    Args:
        service: The service.
        info: The thread.
        wording: The words for what has happened.
        before: The id of the last checkpoint of the part before, which is newer, if there is one.
        columns: The columns with which that part has ended.
    """
    # One more than is shown: the state before the last one that is.
    states = list(service.threads.history(info.id, before=before, limit=PAGE + 1))
    loaded = {id_of(state): state for state in states}
    states, has_more = states[:PAGE], len(states) > PAGE
    # A branch can come from a state that is further back.
    missing = {parent_of(state) for state in states} - loaded.keys() - {None}
    parents = {id: state_at(service, info, id) for id in missing if id is not None}
    moments, ends = moments_of(
        states,
        wording,
        service.inbox(info.tenant).find(threads=[info.id]),
        () if before else queue_of(service, info, states[0] if states else None),
        parents=loaded | parents,
        columns=columns,
    )
    more = id_of(states[-1]) if has_more else None
    return {"moments": moments, "more": more, "columns": ",".join(ends)}


def state_at(service: Service, info: ThreadInfo, checkpoint: str | None) -> StateSnapshot:
    """The state of a thread at a checkpoint; None takes the newest.

    Raises:
        NotFound: The thread does not have the checkpoint.
    """
    state = service.threads.state(info.id, checkpoint=checkpoint, tenant=info.tenant)
    # LangGraph returns an empty state for a checkpoint that does not exist.
    if checkpoint is not None and state.created_at is None:
        raise NotFound(f"checkpoint {checkpoint!r}", "is not one of this thread.")
    return state
