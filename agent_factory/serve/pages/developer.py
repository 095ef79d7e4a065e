"""Developer: the state of a thread, to be edited, and breakpoints for the next run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from jsonschema import Draft202012Validator
from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.serve.body import json_value
from agent_factory.serve.endpoints import Endpoints
from agent_factory.serve.pages.forms import Field
from agent_factory.serve.pages.history import id_of
from agent_factory.serve.pages.rendering import Values, pretty
from agent_factory.service import ThreadInfo
from agent_factory.types import Graph

LONGEST = 20_000
"""Most characters of a value on the page; a longer value is cut, and cannot be edited."""


class DeveloperPages(Endpoints):
    """Answers requests for the state of a thread.

    They are open to each principal of the thread's tenant, as `POST /threads/{thread}/state` is,
    and write the same keys.
    """

    def write(self, request: Request) -> Values:
        """`POST /studio/threads/{thread}/state`: write the edited keys."""
        form, info = request.state.form, self._thread(request)
        state, agent = self._service.threads.state(info.id), self._service.agents[info.agent]
        # Somebody else, or a run, may have written meanwhile.
        if form.get("checkpoint") != id_of(state):
            text = "The state has changed since it was shown. Look at it, and edit it again."
            return self.show(request, problem=text)
        keys, schema = keys_of(agent, state.values), dict[str, Any]()
        # Pydantic raises different errors for types without a schema.
        with suppress(Exception):
            schema = agent.get_output_jsonschema()
        values = read_state(schema, keys, form)
        if any(key.error for key in keys):
            return self.show(request, keys=keys, problem="Nothing is written.")
        if not values:
            return self.show(request, problem="Nothing is written: no value was edited.")
        self._service.threads.update_state(
            info.id,
            values,
            as_node=str(form.get("as_node", "")) or None,
            tenant=info.tenant,
            by=request.state.principal.name,
        )
        return self.show(request, note=f"Written: {', '.join(values)}.")

    def _thread(self, request: Request) -> ThreadInfo:
        info = super()._thread(request)
        if info.agent not in self._service.agents:
            raise HTTPException(404, f"The agent {info.agent!r} is not in this service.")
        return info

    def show(
        self,
        request: Request,
        *,
        keys: list[Field] | None = None,
        problem: str = "",
        note: str = "",
    ) -> Values:
        """`GET /studio/threads/{thread}/developer`: the state, and the nodes of the agent."""
        info = self._thread(request)
        state, agent = self._service.threads.state(info.id), self._service.agents[info.agent]
        return {
            "thread": info,
            "keys": keys_of(agent, state.values) if keys is None else keys,
            # Without nodes of LangGraph, such as `__start__`.
            "nodes": [name for name in agent.nodes if not name.startswith("__")],
            "checkpoint": id_of(state),
            "is_at_work": info.status in ("queued", "running"),
            "waits": info.status == "waiting",
            "problem": problem,
            "note": note,
        }


def keys_of(agent: Graph, values: Mapping[str, object]) -> list[Field]:
    """The keys of the public state of an agent but for the messages, which are in the page."""
    names = agent.output_channels
    keys = []
    for name in sorted({names} if isinstance(names, str) else {*names}):
        if name == "messages":
            continue
        text = pretty(values[name]) if name in values else ""
        cut = max(0, len(text) - LONGEST)
        keys.append(Field(name, "json", text[:LONGEST], before=text[:LONGEST], cut=cut))
    return keys


def read_state(
    schema: Mapping[str, Any], keys: list[Field], form: Mapping[str, object]
) -> dict[str, object]:
    """The edited values. Faults are noted at their keys. Without a schema, any value fits."""
    values: dict[str, object] = {}
    for key in keys:
        text = str(form.get(f"state.{key.name}", key.before)).replace("\r\n", "\n")
        # Browsers change the ends of lines.
        if key.cut or text.strip() == key.before.strip():
            continue
        key.value = text
        if not text.strip():
            key.error = "Write a value as JSON, such as null: a key of a state cannot be removed."
            continue
        try:
            value = json_value(key.name, text)
        except HTTPException as error:
            key.error = str(error.detail)
            continue
        part = (schema.get("properties") or {}).get(key.name, {})
        # The part of a key refers to definitions of the whole schema.
        rules = Draft202012Validator({"$defs": schema.get("$defs", {}), "allOf": [part]})
        faults = [
            f"{'.'.join(map(str, fault.absolute_path)) or key.name}: {fault.message}"
            for fault in rules.iter_errors(value)
        ]
        key.error = "; ".join(faults[:5])
        values[key.name] = value
    return values
