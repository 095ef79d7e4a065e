"""Routes of agents, which LangGraph's API calls assistants."""

from __future__ import annotations

import time
from operator import itemgetter
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.serve.body import number, read_body
from agent_factory.serve.json_response import JsonResponse, selected, time_text
from agent_factory.serve.langgraph.requests import AgentSearch
from agent_factory.service import Service
from agent_factory.types import Graph

_START_TIME = time.time()


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
        names = ", ".join(self._service.agents)
        raise HTTPException(404, f"There is no agent {assistant!r}. There are: {names}.")

    async def search(self, request: Request) -> JsonResponse:
        """`POST /assistants/search`."""
        body, agents = await self._found(request)
        page = [selected(agent, body.select) for agent in agents[body.offset :][: body.limit]]
        end = body.offset + body.limit
        return JsonResponse(
            page, headers={"X-Pagination-Next": str(end)} if end < len(agents) else None
        )

    async def count(self, request: Request) -> JsonResponse:
        """`POST /assistants/count`."""
        _, agents = await self._found(request)
        return JsonResponse(len(agents))

    async def _found(self, request: Request) -> tuple[AgentSearch, list[dict[str, object]]]:
        body = await read_body(request, AgentSearch)
        # An agent is a graph and an assistant at once, so both are its name.
        filters = [name for name in (body.graph_id, body.name) if name is not None]
        names = (name for name in self._service.agents if all(name == value for value in filters))
        agents = [
            agent
            for agent in map(_shown, names)
            if body.metadata.items() <= agent["metadata"].items()
        ]
        if body.sort_by is not None:
            agents.sort(key=itemgetter(body.sort_by), reverse=body.sort_order == "desc")
        return body, agents

    async def get(self, request: Request) -> JsonResponse:
        """`GET /assistants/{assistant}`."""
        return JsonResponse(_shown(self.name(request.path_params["assistant"])))

    async def graph(self, request: Request) -> JsonResponse:
        """`GET /assistants/{assistant}/graph`."""
        inner = request.query_params.get("xray", "false")
        # LangGraph takes a depth, or True for all.
        xray: int | bool = inner.lower() == "true"
        if inner.isdecimal():
            xray = number(request, "xray", 0)
        return JsonResponse(self._agent(request).get_graph(xray=xray).to_json())

    async def schemas(self, request: Request) -> JsonResponse:
        """`GET /assistants/{assistant}/schemas`."""
        name = self.name(request.path_params["assistant"])
        return JsonResponse({"graph_id": name, **_schemas(self._agent(request))})

    async def subgraphs(self, request: Request) -> JsonResponse:
        """`GET /assistants/{assistant}/subgraphs` and `.../subgraphs/{namespace}`."""
        recurse = request.query_params.get("recurse", "false").lower() in ("true", "1")
        namespace = request.path_params.get("namespace")
        subgraphs = self._agent(request).get_subgraphs(namespace=namespace, recurse=recurse)
        return JsonResponse(
            {name: {"graph_id": name, **_schemas(graph)} for name, graph in subgraphs}
        )

    def _agent(self, request: Request) -> Graph:
        return self._service.agents[self.name(request.path_params["assistant"])]


def assistant_id(name: str) -> str:
    """The id by which clients know an agent; the same on all machines."""
    return str(uuid5(NAMESPACE_URL, f"agent_factory:{name}"))


def _schemas(graph: Any) -> dict[str, object]:
    """The schemas of a graph. Private keys of its state are in none of them."""
    return {
        "input_schema": graph.get_input_jsonschema(),
        "output_schema": graph.get_output_jsonschema(),
        # The same: the schema of the whole state has private keys.
        "state_schema": graph.get_output_jsonschema(),
        "config_schema": None,
        "context_schema": graph.get_context_jsonschema(),
    }


def _shown(name: str) -> dict[str, Any]:
    start_time = time_text(_START_TIME)
    return {
        "assistant_id": assistant_id(name),
        "graph_id": name,
        "name": name,
        "description": None,
        "config": {},
        "context": {},
        "metadata": {"created_by": "system"},
        "version": 1,
        "created_at": start_time,
        "updated_at": start_time,
    }
