"""Routes of assistants: the agents of the service, and agents with settings of tenants."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from agent_factory.serve.body import number
from agent_factory.serve.endpoints import Endpoints
from agent_factory.serve.json_response import JsonResponse, search_response, time_text
from agent_factory.serve.langgraph.requests import (
    AssistantChange,
    AssistantSearch,
    AssistantVersion,
    AssistantVersionSearch,
    NewAssistant,
)
from agent_factory.service import AlreadyExists, Assistant
from agent_factory.service import Assistants as TenantAssistants
from agent_factory.types import Graph

_PAGE = 100


class Assistants(Endpoints):
    """Answers requests about assistants."""

    def create(self, request: Request, body: NewAssistant) -> JsonResponse:
        """Create an assistant: an agent with settings."""
        assistants = self._of(request)
        try:
            created = assistants.create(**body.model_dump(exclude={"if_exists"}, by_alias=True))
        except AlreadyExists:
            if body.assistant_id is None or body.if_exists == "raise":
                raise
            created = assistants.get(body.assistant_id)
        return JsonResponse(_shown(created))

    def search(self, request: Request, body: AssistantSearch) -> JsonResponse:
        """Search for assistants."""
        return search_response(self._of(request), body, body.filters, _shown)

    def count(self, request: Request, body: AssistantSearch) -> JsonResponse:
        """Count assistants."""
        return JsonResponse(self._of(request).count(**body.filters))

    def get(self, request: Request) -> JsonResponse:
        """Get an assistant."""
        return JsonResponse(_shown(self._in_path(request)))

    def change(self, request: Request, body: AssistantChange) -> JsonResponse:
        """Write a new version of an assistant."""
        id = request.path_params["assistant"]
        change = body.model_dump(exclude_unset=True, by_alias=True)
        return JsonResponse(_shown(self._of(request).change(id, **change)))

    def delete(self, request: Request) -> Response:
        """Delete an assistant; with `delete_threads=true`, its threads, too."""
        principal, id = request.state.principal, request.path_params["assistant"]
        also_threads = request.query_params.get("delete_threads", "").lower() in ("true", "1")
        self._of(request).delete(id)
        filters: dict[str, Any] = {"tenant": principal.tenant, "metadata": {"assistant_id": id}}
        threads = self._service.threads
        # No offset: the page before is deleted.
        while also_threads and (page := threads.search(**filters, limit=_PAGE)):
            for thread in page:
                threads.delete(thread.id, by=principal.name, tenant=principal.tenant)
        return Response(status_code=204)

    def versions(self, request: Request, body: AssistantVersionSearch) -> JsonResponse:
        """List the versions of an assistant, the newest first."""
        id = request.path_params["assistant"]
        rows = self._of(request).versions(id, **body.model_dump())
        return JsonResponse([_shown(row) for row in rows])

    def set_latest(self, request: Request, body: AssistantVersion) -> JsonResponse:
        """Let runs take a version of an assistant."""
        id = request.path_params["assistant"]
        return JsonResponse(_shown(self._of(request).set_latest(id, body.version)))

    # Graphs

    def graph(self, request: Request) -> JsonResponse:
        """Get the graph of an assistant."""
        inner = request.query_params.get("xray", "false")
        # LangGraph takes a depth, or True for all.
        xray: int | bool = inner.lower() == "true"
        if inner.isdecimal():
            xray = number(request, "xray", 0)
        return JsonResponse(self._graph(request).get_graph(xray=xray).to_json())

    def schemas(self, request: Request) -> JsonResponse:
        """Get the schemas of an assistant."""
        name = self._in_path(request).agent
        return JsonResponse(_schemas(name, self._service.agents[name]))

    def subgraphs(self, request: Request) -> JsonResponse:
        """Get the graphs inside that of an assistant."""
        recurse = request.query_params.get("recurse", "false").lower() in ("true", "1")
        namespace = request.path_params.get("namespace")
        subgraphs = self._graph(request).get_subgraphs(namespace=namespace, recurse=recurse)
        return JsonResponse({name: _schemas(name, inner) for name, inner in subgraphs})

    def _graph(self, request: Request) -> Graph:
        return self._service.agents[self._in_path(request).agent]

    def _in_path(self, request: Request) -> Assistant:
        return self._assistant(request, request.path_params["assistant"])

    def _of(self, request: Request) -> TenantAssistants:
        """The assistants of the caller's tenant."""
        return self._service.assistants(request.state.principal.tenant)


def _schemas(name: str, graph: Any) -> dict[str, object]:
    """The schemas of a graph, without private keys."""
    return {
        "graph_id": name,
        "input_schema": graph.get_input_jsonschema(),
        "output_schema": graph.get_output_jsonschema(),
        # The same: the schema of the whole state has private keys.
        "state_schema": graph.get_output_jsonschema(),
        "config_schema": None,
        "context_schema": graph.get_context_jsonschema(),
    }


def _shown(assistant: Assistant) -> dict[str, Any]:
    names = ("name", "description", "config", "context", "metadata", "version")
    return {
        "assistant_id": assistant.id,
        "graph_id": assistant.agent,
        **{name: getattr(assistant, name) for name in names},
        "created_at": time_text(assistant.created_at),
        "updated_at": time_text(assistant.updated_at),
    }
