"""Waits as pages show them: the call, its form, and what may be decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from agent_factory.errors import ArgumentError
from agent_factory.factory import tools_of
from agent_factory.serve.pages.conversation import in_one_line
from agent_factory.serve.pages.forms import Field, fields_of
from agent_factory.service import Service
from agent_factory.service.inbox import Wait, is_reviewer

SPANS = {3600: "an hour", 86400: "a day", 7 * 86400: "seven days", 30 * 86400: "30 days"}
"""For how long people can approve later calls, in seconds."""

KINDS = {
    "review": "wants to call",
    "result": "wants to return the result of",
    "question": "asks",
    "pause": "stopped before",
}
"""What an agent does that waits, by the kind of the wait."""


@dataclass(frozen=True, slots=True)
class ShownWait:
    """A wait, with the fields of its form.

    Args:
        wait: The wait.
        description: What the tool does.
        fields: The arguments, to be edited.
        question: What is asked, as text.
        may_decide: Whether the person who looks at it may decide about it.
    """

    wait: Wait
    description: str
    fields: tuple[Field, ...]
    question: str
    may_decide: bool = True

    @property
    def does(self) -> str:
        """What the agent does that waits."""
        return KINDS.get(self.wait.kind, "waits at")

    @property
    def short(self) -> str:
        """The arguments in one line."""
        return in_one_line(self.wait.args)

    @property
    def spans(self) -> list[tuple[int, str]]:
        """For how long later calls can be approved, in seconds and in words."""
        most = self.wait.remember or 0
        found = [(seconds, text) for seconds, text in SPANS.items() if seconds <= most]
        if most and most not in SPANS:
            found.append((int(most), f"{most:,.0f} seconds"))
        return found

    @property
    def is_open(self) -> bool:
        """Whether it can still be decided."""
        return self.wait.decided_at is None


def shown_wait(
    service: Service, wait: Wait, request: Request, fields: list[Field] | None = None
) -> ShownWait:
    """A wait as pages show it.

    Args:
        service: The service.
        wait: The wait.
        request: Who looks at it.
        fields: The fields as somebody has filled them in; None takes them from the call.
    """
    schema, description = schema_of(service, wait)
    if fields is None:
        fields = fields_of(schema, wait.args)
    question = _text(wait.question)
    if wait.kind == "review":  # what a description says by default is on the page already
        question = question.partition(f"\n\nTool: {wait.tool}\nArgs: ")[0]
    principal, may_decide = request.state.principal, request.state.may_decide
    is_theirs = is_reviewer(wait.reviewers, principal.name, principal.roles)
    is_theirs = is_theirs and (may_decide is None or may_decide(wait))
    return ShownWait(wait, description, tuple(fields), question, is_theirs)


def schema_of(service: Service, wait: Wait) -> tuple[Mapping[str, Any] | None, str]:
    """The JSON schema of a call's arguments, if it is known, and what the tool does."""
    try:
        tool = tools_of(service.agents[wait.agent])[wait.tool]
    except (ArgumentError, KeyError):  # another library's graph, or a tool of a subagent
        return None, ""
    schema: Any = tool.tool_call_schema
    about = tool.description.partition("\n\n")[0]
    return (schema if isinstance(schema, dict) else schema.model_json_schema()), about


def _text(question: Any) -> str:
    """What is asked: a text, or the one value of an object."""
    if isinstance(question, Mapping) and len(question) == 1:
        (question,) = question.values()
    if question is None:
        return ""
    return question if isinstance(question, str) else repr(question)
