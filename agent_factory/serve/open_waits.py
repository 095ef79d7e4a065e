"""What threads wait for, as clients of their agents see it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from starlette.requests import Request

from agent_factory.serve.json_response import time_text, to_json
from agent_factory.service import Run, Service, Wait
from agent_factory.service.inbox import is_reviewer


def open_waits(service: Service, run: Run) -> list[Wait]:
    """The undecided waits of a run."""
    waits = service.inbox().waits(thread=run.thread_id, limit=1000)
    return [wait for wait in waits if wait.run == run.id]


def may_answer(request: Request, wait: Wait) -> bool:
    """Return True if the one who makes a request may decide about a wait now."""
    principal, may_decide = request.state.principal, request.state.may_decide
    return (
        is_reviewer(wait.reviewers, principal.name, principal.roles)
        and wait.claimed_by in (None, principal.name)
        and (may_decide is None or may_decide(wait))
    )


def wait_url(request: Request, wait: Wait) -> str:
    """The page of the inbox where people decide about a wait."""
    return f"{request.base_url}inbox/{wait.id}"


def waits_text(request: Request, waits: Iterable[Wait]) -> str:
    """Describe waits, in a line for each."""
    lines = ["This conversation waits for a person, and goes on once they have decided:"]
    for wait in waits:
        asks = "asks a question" if wait.kind == "question" else "waits for a review"
        lines.append(f"- {wait.tool} {asks}: {wait_url(request, wait)}")
    return "\n".join(lines)


def question_text(wait: Wait) -> str:
    """The question of a wait, in words for a person."""
    if wait.kind == "question":
        return wait.question if isinstance(wait.question, str) else to_json(wait.question)
    call = f"{wait.tool}({to_json(wait.args)})"
    if not isinstance(wait.question, str):
        return f"May {call} run?"
    # What a description says by default is the call itself.
    return wait.question.partition(f"\n\nTool: {wait.tool}\nArgs: ")[0] + f"\n{call}"


def wait_data(request: Request, wait: Wait) -> dict[str, Any]:
    """A wait as JSON, for programs."""
    data = {
        "id": wait.id,
        "tool": wait.tool,
        "kind": wait.kind,
        "args": wait.args,
        "question": wait.question,
        "allowed": wait.allowed,
        "url": wait_url(request, wait),
        "expires_at": None if wait.deadline is None else time_text(wait.deadline),
    }
    # Through JSON, since arguments may have values that JSON does not know.
    plain: dict[str, Any] = json.loads(to_json(data))
    return plain
