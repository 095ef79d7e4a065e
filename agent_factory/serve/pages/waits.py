"""Waits of pages: the call, the form, and the possible decisions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request

from agent_factory.errors import ArgumentError
from agent_factory.factory import tools_of
from agent_factory.serve.pages.forms import Field, fields_of
from agent_factory.serve.pages.history import QueuedMessage, held_messages
from agent_factory.serve.pages.thread_rows import in_a_row
from agent_factory.serve.pages.wording import changes
from agent_factory.serve.wait_texts import may_decide_about
from agent_factory.service import NotFound, Service, Wait

SPANS = {3600: "an hour", 86400: "a day", 7 * 86400: "seven days", 30 * 86400: "30 days"}
"""For how long people can approve later calls, in seconds."""

PREFIX = "Tool execution requires approval"
"""Text of a review by default."""


@dataclass(frozen=True, slots=True)
class ShownWait:
    """Wait with the fields of its form.

    Args:
        description: The purpose of the tool.
        title: The first words of the user in the thread.
        held: Messages of the user since then.
        words: The last words of the user.
    """

    wait: Wait
    description: str
    fields: Sequence[Field]
    question: str
    may_decide: bool = True
    title: str = ""
    held: Sequence[QueuedMessage] = ()
    words: str = ""

    @property
    def changes(self) -> str:
        """Changes that an edit has made to the call."""
        action = (self.wait.decision or {}).get("edited_action")
        if action is None:
            return ""
        tool = "" if action["name"] == self.wait.tool else f"{action['name']} in place of it. "
        return tool + changes(self.wait.args, action["args"])

    @property
    def spans(self) -> list[tuple[int, str]]:
        """For how long later calls can be approved, in seconds and in words."""
        most = self.wait.remember or 0
        options = [(seconds, text) for seconds, text in SPANS.items() if seconds <= most]
        if most and most not in SPANS:
            # The policy may allow another time, which is offered as well.
            options.append((int(most), f"{most:,.0f} seconds"))
        return options

    def obstacle(self, kind: str, name: str) -> str:
        """Reason why somebody cannot make a decision of this type; "" if they can."""
        wait = self.wait
        if wait.decided_at is not None:
            return f"was decided before, by {wait.decided_by}"
        if not self.may_decide:
            return "you may not decide about it"
        if wait.claimed_by not in (None, name):
            return f"is claimed by {wait.claimed_by}"
        return "" if kind in wait.allowed else f"takes no {kind!r}, only {', '.join(wait.allowed)}"


def shown_waits(service: Service, waits: Sequence[Wait], request: Request) -> list[ShownWait]:
    """Waits of any threads as a list shows them, with the words of the users."""
    ids, tenant = {wait.thread_id for wait in waits}, request.state.principal.tenant
    titles, words = titles_of(service, ids, tenant), service.threads.last_words(ids, tenant=tenant)
    return [
        replace(
            shown_wait(service, wait, request),
            title=titles.get(wait.thread_id) or "",
            words=in_a_row(words.get(wait.thread_id, ""), ""),
        )
        for wait in waits
    ]


def titles_of(service: Service, ids: Collection[str], tenant: str) -> dict[str, str | None]:
    """The titles of threads, by the ids of the threads."""
    # Without threads, no query is needed.
    threads = service.threads.search(tenant=tenant, ids=ids, limit=len(ids)) if ids else ()
    return {thread.id: thread.title for thread in threads}


def held_with(service: Service, wait: Wait) -> Sequence[QueuedMessage]:
    """Messages of the user since a wait came up; none once the wait is decided."""
    if wait.decided_at is None:
        with suppress(NotFound):  # the thread was deleted
            return held_messages(service, wait.thread_id, wait.tenant)
    return ()


def shown_wait(
    service: Service,
    wait: Wait,
    request: Request,
    *,
    fields: Sequence[Field] | None = None,
    held: Sequence[QueuedMessage] = (),
) -> ShownWait:
    """A wait as pages show it.

    Args:
        fields: The fields as somebody has filled them in; None takes the arguments of the call.
        held: Messages of the user since then.
    """
    schema, description = schema_of(service, wait)
    if fields is None:
        fields = fields_of(schema, wait.args)
    value = wait.question  # a text, or an object with one value
    if isinstance(value, Mapping) and len(value) == 1:
        (value,) = value.values()
    question = "" if value is None else value if isinstance(value, str) else repr(value)
    if wait.kind == "review":  # the page has the default description already
        prefix, _, rest = question.partition(f"\n\nTool: {wait.tool}\nArgs: ")
        # The arguments are one line; the reason follows.
        parts = ("" if prefix == PREFIX else prefix, rest.partition("\n")[2])
        question = "\n".join(filter(None, parts))
    may_decide = may_decide_about(request, wait)
    return ShownWait(wait, description, fields, question, may_decide, held=held)


def schema_of(service: Service, wait: Wait) -> tuple[Mapping[str, object] | None, str]:
    """The JSON schema of a call's arguments, if known, and the purpose of the tool."""
    try:
        tool = tools_of(service.agents[wait.agent])[wait.tool]
    except (ArgumentError, KeyError):  # another library's graph, or a tool of a subagent
        return None, ""
    # Without injected arguments, which no model writes and no person edits.
    schema: Any = tool.tool_call_schema
    about = tool.description.partition("\n\n")[0]
    # Tools of MCP servers have a JSON schema, and others a model of Pydantic.
    return (schema if isinstance(schema, dict) else schema.model_json_schema()), about
