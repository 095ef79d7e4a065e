"""Routes of agents, which LangGraph's API calls assistants."""

from __future__ import annotations

import time
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.serve.body import number, read_body
from agent_factory.serve.json_response import JsonResponse, time_text
from agent_factory.serve.langgraph.requests import AgentSearch
from agent_factory.service import Service

_STARTED = time.time()


class Agents:
    """Answers requests about the agents of a service. Agents are added in code, not by requests."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def name(self, assistant: str) -> str:
        """The name of an agent.

        Args:
            assistant: Its name, or the id that clients know it by.

        Raises:
            HTTPException: 404 if there is no such agent.
        """
        for name in self._service.agents:
            if assistant in (name, assistant_id(name)):
                return name
        known = ", ".join(self._service.agents)
        raise HTTPException(404, f"There is no agent {assistant!r}. There are: {known}.")

    async def search(self, request: Request) -> JsonResponse:
        """`POST /assistants/search`."""
        found = await self._found(request)
        body = await read_body(request, AgentSearch)
        return JsonResponse([_shown(name) for name in found[body.offset :][: body.limit]])

    async def count(self, request: Request) -> JsonResponse:
        """`POST /assistants/count`."""
        return JsonResponse(len(await self._found(request)))

    async def _found(self, request: Request) -> list[str]:
        body = await read_body(request, AgentSearch)
        asked = [name for name in (body.graph_id, body.name) if name is not None]
        return [name for name in self._service.agents if all(name == one for one in asked)]

    async def get(self, request: Request) -> JsonResponse:
        """`GET /assistants/{assistant}`."""
        return JsonResponse(_shown(self.name(request.path_params["assistant"])))

    async def graph(self, request: Request) -> JsonResponse:
        """`GET /assistants/{assistant}/graph`."""
        inner = request.query_params.get("xray", "false")
        xray: Any = inner.lower() == "true"
        if inner.isdecimal():
            xray = number(request, "xray", 0)
        return JsonResponse(self._agent(request).get_graph(xray=xray).to_json())

    async def schemas(self, request: Request) -> JsonResponse:
        """`GET /assistants/{assistant}/schemas`."""
        agent = self._agent(request)
        return JsonResponse(
            {
                "graph_id": self.name(request.path_params["assistant"]),
                "input_schema": agent.get_input_jsonschema(),
                "output_schema": agent.get_output_jsonschema(),
                "state_schema": agent.get_output_jsonschema(),
                "config_schema": None,
                "context_schema": agent.get_context_jsonschema(),
            }
        )

    def _agent(self, request: Request) -> Any:
        return self._service.agents[self.name(request.path_params["assistant"])]


def assistant_id(name: str) -> str:
    """The id by which clients know an agent; the same on all machines."""
    return str(uuid5(NAMESPACE_URL, f"agent_factory:{name}"))


def _shown(name: str) -> dict[str, Any]:
    started = time_text(_STARTED)
    return {
        "assistant_id": assistant_id(name),
        "graph_id": name,
        "name": name,
        "description": None,
        "config": {},
        "context": {},
        "metadata": {"created_by": "system"},
        "version": 1,
        "created_at": started,
        "updated_at": started,
    }
