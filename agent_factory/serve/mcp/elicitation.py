"""Elicitation of MCP: a wait as a form, and the filled form as a decision."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mcp_types import ClientCapabilities, ElicitRequest, ElicitRequestFormParams, InputRequest
from starlette.requests import Request

from agent_factory.errors import ArgumentError
from agent_factory.serve.json_response import to_json
from agent_factory.serve.wait_texts import may_decide_about, question_text
from agent_factory.service import Wait


def takes_forms(client: ClientCapabilities | None) -> bool:
    """Return True if a client shows forms to its user."""
    if client is None or client.elicitation is None:
        return False
    # Without a mode, a client shows forms: the only mode before 2025-11-25.
    return client.elicitation.form is not None or client.elicitation.url is None


def forms_for(request: Request, waits: Iterable[Wait]) -> dict[str, InputRequest]:
    """Forms for the waits that the user may decide about, by their digests."""
    name = request.state.principal.name
    return {
        wait.digest: to_form(wait)
        for wait in waits
        if wait.claimed_by in (None, name) and may_decide_about(request, wait)
    }


def to_form(wait: Wait) -> ElicitRequest:
    """A wait as a form, which has texts and choices only."""
    properties: dict[str, Any]
    if wait.kind == "question":
        properties, required = {"answer": {"type": "string", "title": "Answer"}}, ["answer"]
    else:
        properties = {"decision": {"type": "string", "enum": [*wait.allowed]}}
        required = ["decision"]
        if "edit" in wait.allowed:
            properties["arguments"] = {
                "type": "string",
                "description": "With edit: all arguments of the call, as JSON.",
                "default": to_json(wait.args),
            }
        takers = [kind for kind in ("reject", "respond") if kind in wait.allowed]
        if takers:
            properties["message"] = {
                "type": "string",
                "description": f"With {' or '.join(takers)}: what the agent reads.",
            }
    schema = {"type": "object", "properties": properties, "required": required}
    return ElicitRequest(
        params=ElicitRequestFormParams(message=question_text(wait), requested_schema=schema)
    )


def to_decision(wait: Wait, form: Mapping[str, object]) -> dict[str, object]:
    """The decision of a filled form.

    Raises:
        ArgumentError: The arguments of an edit are not JSON.
    """
    if wait.kind == "question":
        return {"type": "respond", "message": form.get("answer")}
    kind, message = form.get("decision"), form.get("message")
    decision: dict[str, object] = {"type": kind}
    if kind == "edit":
        try:
            decision["edited_action"] = {"args": json.loads(str(form.get("arguments")))}
        except ValueError as error:
            raise ArgumentError(
                "arguments", f"must be JSON: {error}.", f"Send {to_json(wait.args)}, for example."
            ) from error
    # A form may also send fields of other decisions.
    elif kind in ("reject", "respond") and message:
        decision["message"] = message
    return decision
