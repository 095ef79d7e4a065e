"""Tools that a client sends with a request, and results of calls that the client runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from langchain_core.messages import BaseMessage
from starlette.exceptions import HTTPException

from agent_factory import ClientTool, tools_of
from agent_factory.errors import ArgumentError
from agent_factory.factory import middleware_of
from agent_factory.middleware.client_tools import (
    CLIENT_RESPONSE_FORMAT,
    CLIENT_TOOL_CHOICE,
    CLIENT_TOOLS,
    ClientToolsMiddleware,
    client_request,
)
from agent_factory.service import Run, Wait
from agent_factory.types import Graph

DIGEST = "client_tools"
"""Key in the metadata of a run: the digest of the client's tools."""


def client_settings(
    graph: Graph,
    agent: str,
    tools: Sequence[Mapping[str, object]],
    choice: str | None = None,
    response_format: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """The part of a run's `configurable` for the client; empty for nothing.

    Tools that the agent leaves to its client are left out: a client lists all tools it can run.

    Args:
        tools: The tools of the client, with `name`, `description` and `parameters`.
        choice: "required", or the name of the tool that the model has to call.
        response_format: The JSON schema of the answer.

    Raises:
        HTTPException: 422 if the agent takes nothing from its clients, or not this.
    """
    try:
        own_tools = tools_of(graph)
    except ArgumentError:  # another library has built the graph
        own_tools = {}
    tools = [tool for tool in tools if not isinstance(own_tools.get(str(tool["name"])), ClientTool)]
    parts: dict[str, object] = {
        CLIENT_TOOLS: tools,
        CLIENT_TOOL_CHOICE: choice,
        CLIENT_RESPONSE_FORMAT: response_format,
    }
    settings = {name: part for name, part in parts.items() if part}
    if not settings:
        return {}
    fields = " and ".join(name.removeprefix("client_") for name in settings)
    if (member := taker_of(graph)) is None:
        names = ", ".join(str(tool["name"]) for tool in tools)
        got = f", got {names}" if names else ""
        text = f"{fields}: agent {agent!r} takes none from its clients{got}. "
        hint = "Add ClientToolsMiddleware() to the middleware of the agent."
        raise HTTPException(422, text + hint)
    for tool in tools:
        if tool["name"] in own_tools:
            text = f"tools: {tool['name']!r} is the name of a tool of agent {agent!r}. Rename it."
            raise HTTPException(422, text)
    try:
        known = member.tools_from(tools)
        # With a choice, a call comes first.
        member.format_from(response_format, {*known, *own_tools} if choice is None else ())
    except ArgumentError as error:
        reason = error.subject.replace("client_tool ", "tools: ").removeprefix("client_")
        raise HTTPException(422, f"{reason}: {error.reason} {error.hint}".rstrip()) from error
    if choice not in (None, "required", *known):
        names = ", ".join(known) or "none"
        text = f"tool_choice must be a tool of the request, got {choice!r}. It has {names}."
        raise HTTPException(422, text)
    return settings


def taker_of(graph: Graph) -> ClientToolsMiddleware | None:
    """The middleware by which an agent, or an agent in one of its nodes, takes tools of clients."""
    for part in (graph, *(inner for _, inner in graph.get_subgraphs(recurse=True))):
        with suppress(ArgumentError):  # another library has built the graph
            for member in middleware_of(part):  # type: ignore[arg-type]
                if isinstance(member, ClientToolsMiddleware):
                    return member
    return None


def digest_of(settings: Mapping[str, object]) -> dict[str, str]:
    """Metadata of a run with the digest of the client's tools; empty for none."""
    if not settings:
        return {}
    # JSON has no order of keys, and the same tools must have the same digest.
    text = json.dumps(settings, sort_keys=True)
    return {DIGEST: hashlib.sha256(text.encode()).hexdigest()[:16]}


def is_client_call(wait: Wait) -> bool:
    """Return True if a wait is for the client, not for a person."""
    return wait.kind == "client"


def result_decisions(
    waits: Iterable[Wait], results: Mapping[str, object]
) -> dict[str, dict[str, object]]:
    """Results of calls as decisions, by the ids of the waits.

    Args:
        results: The results by the ids of the calls.
    """
    return {
        wait.id: {"type": "respond", "message": results[wait.call_id]}
        for wait in waits
        if is_client_call(wait) and wait.call_id in results
    }


def with_settings(
    decisions: Mapping[str, dict[str, Any]],
    settings: Mapping[str, object],
    run: Run,
    messages: Sequence[BaseMessage],
) -> dict[str, dict[str, Any]]:
    """Decisions with the settings of the client, if these are new to the run.

    Args:
        decisions: Results of calls, see `result_decisions`.
    """
    history: Sequence[Any] = messages
    previous = client_request(history)
    # Also without tools: else the tools from before stay.
    now = {CLIENT_TOOLS: [], **settings}
    # Without a change since the begin, the run has the tools of its digest.
    is_known = (
        run.info.metadata.get(DIGEST) == digest_of(settings).get(DIGEST)
        if previous is None
        else previous == now
    )
    # A choice holds for one answer of the model.
    if is_known and CLIENT_TOOL_CHOICE not in settings:
        return dict(decisions)
    complete = {}
    for id, decision in decisions.items():
        result = decision["message"]
        parts = result if isinstance(result, Mapping) else {"content": result}
        complete[id] = {**decision, "message": {**parts, "request": now}}
    return complete
