"""Developer: the state of a thread, to be edited, and breakpoints for the next run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.serve.body import json_value
from agent_factory.serve.endpoints import Endpoints
from agent_factory.serve.pages.history import id_of
from agent_factory.serve.pages.rendering import Values, pretty
from agent_factory.service import ThreadInfo
from agent_factory.types import Graph

LONGEST = 20_000
"""Most characters of a value on the page; a longer value is cut, and cannot be edited."""

_PREFIX = "state."


@dataclass(slots=True)
class StateKey:
    """Key of a state, on a page.

    Args:
        text: The value as JSON, at most `LONGEST` characters; "" without a value.
        length: The number of all characters.
        before: The text of the state; `text` differs after an edit.
        error: The fault of the text.
    """

    name: str
    text: str
    length: int
    before: str
    error: str = ""

    @property
    def is_cut(self) -> bool:
        """True if the value is too long to be edited."""
        return self.length > LONGEST


class DeveloperPages(Endpoints):
    """Answers requests for the state of a thread.

    They are open to each principal of the thread's tenant, as `POST /threads/{thread}/state` is,
    and write the same keys.
    """

    def show(self, request: Request) -> Values:
        """`GET /studio/threads/{thread}/developer`: the state, and the nodes of the agent."""
        return self._page(request)

    def write(self, request: Request) -> Values:
        """`POST /studio/threads/{thread}/state`: write the edited keys."""
        form, info = request.state.form, self._thread(request)
        state, agent = self._service.threads.state(info.id), self._service.agents[info.agent]
        # Somebody else, or a run, may have written meanwhile.
        if form.get("checkpoint") != id_of(state):
            text = "The state has changed since it was shown. Look at it, and edit it again."
            return self._page(request, problem=text)
        keys = keys_of(agent, state.values)
        values = read_state(schema_of(agent), keys, form)
        if any(key.error for key in keys):
            return self._page(request, keys=keys, problem="Nothing is written.")
        if not values:
            return self._page(request, problem="Nothing is written: no value was edited.")
        self._service.threads.update_state(
            info.id,
            values,
            as_node=str(form.get("as_node", "")) or None,
            tenant=info.tenant,
            by=request.state.principal.name,
        )
        return self._page(request, note=f"Written: {', '.join(values)}.")

    def _thread(self, request: Request) -> ThreadInfo:
        info = super()._thread(request)
        if info.agent not in self._service.agents:
            raise HTTPException(404, f"The agent {info.agent!r} is not in this service.")
        return info

    def _page(
        self,
        request: Request,
        *,
        keys: list[StateKey] | None = None,
        problem: str = "",
        note: str = "",
    ) -> Values:
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


def schema_of(agent: Graph) -> Mapping[str, Any]:
    """The JSON schema of the public state of an agent; without one, a schema for any state."""
    try:
        schema: Mapping[str, Any] = agent.get_output_jsonschema()
    # Pydantic raises different errors for types without a schema.
    except Exception:
        return {}
    return schema


def keys_of(agent: Graph, values: Mapping[str, object]) -> list[StateKey]:
    """The keys of the public state of an agent but for the messages, which are in the page."""
    names = agent.output_channels
    keys = []
    for name in sorted({names} if isinstance(names, str) else {*names}):
        if name == "messages":
            continue
        text = pretty(values[name]) if name in values else ""
        keys.append(StateKey(name, text[:LONGEST], len(text), text[:LONGEST]))
    return keys


def read_state(
    schema: Mapping[str, Any], keys: list[StateKey], form: Mapping[str, object]
) -> dict[str, object]:
    """The edited values. Faults are noted at their keys."""
    values: dict[str, object] = {}
    for key in keys:
        text = str(form.get(_PREFIX + key.name, key.before)).replace("\r\n", "\n")
        # Browsers change the ends of lines.
        if key.is_cut or text.strip() == key.before.strip():
            continue
        key.text = text
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
