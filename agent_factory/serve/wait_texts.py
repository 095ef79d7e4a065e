"""Texts and data about waits, for clients of the agents."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from starlette.requests import Request

from agent_factory.serve.client_tools import is_client_call
from agent_factory.serve.json_response import time_text, to_json
from agent_factory.service import Wait


def may_decide_about(request: Request, wait: Wait) -> bool:
    """Return True if the principal of a request may decide about a wait that is not claimed."""
    principal, may_decide = request.state.principal, request.state.may_decide
    is_theirs = wait.is_for(principal.name, principal.roles)
    # The result of a call that the client runs is not a decision.
    return is_theirs and (may_decide is None or is_client_call(wait) or may_decide(wait))


def inbox_of(request: Request) -> str:
    """The URL of the inbox; "" where the server has none."""
    return f"{request.base_url}inbox" if "inbox" in request.app.state.doors else ""


def waits_text(waits: Iterable[Wait], inbox: str) -> str:
    """Describe waits, in a line each, with the page in the inbox."""
    people = [wait for wait in waits if not is_client_call(wait)]
    if not people:
        return "This conversation waits for the results of calls that its client runs."
    lines = ["This conversation waits for a person, and goes on once they have decided:"]
    for wait in people:
        asks = "asks a question" if wait.kind == "question" else "waits for a review"
        lines.append(f"- {wait.tool} {asks}{inbox and f': {inbox}/{wait.id}'}")
    return "\n".join(lines)


def question_text(wait: Wait) -> str:
    """The question of a wait, in words for a person."""
    if wait.kind == "question":
        return wait.question if isinstance(wait.question, str) else to_json(wait.question)
    call = f"{wait.tool}({to_json(wait.args)})"
    if not isinstance(wait.question, str):
        return f"May {call} run?"
    # By default, a description is the call.
    return wait.question.partition(f"\n\nTool: {wait.tool}\nArgs: ")[0] + f"\n{call}"


def wait_data(wait: Wait, inbox: str) -> dict[str, Any]:
    """A wait as JSON, for programs."""
    names = ("id", "tool", "kind", "args", "question", "allowed")
    data = {
        **{name: getattr(wait, name) for name in names},
        "url": f"{inbox}/{wait.id}" if inbox else None,
        "expires_at": None if wait.deadline is None else time_text(wait.deadline),
    }
    # Through JSON: arguments may have values of other types.
    plain: dict[str, Any] = json.loads(to_json(data))
    return plain
