"""Routes of assistants: the agents of the service, and agents with settings of tenants."""

from __future__ import annotations

from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from agent_factory.serve.body import number
from agent_factory.serve.json_response import JsonResponse, search_response, time_text
from agent_factory.serve.langgraph.requests import (
    AssistantChange,
    AssistantSearch,
    AssistantVersion,
    AssistantVersionSearch,
    NewAssistant,
    NewRun,
)
from agent_factory.service import AlreadyExists, Assistant, Service
from agent_factory.service import Assistants as TenantAssistants
from agent_factory.types import Graph

Run = TypeVar("Run", bound=NewRun)

_PAGE = 100


class Assistants:
    """Answers requests about assistants."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def get_assistant(self, assistant: str, tenant: str) -> Assistant:
        """An assistant of a tenant, by its id or the name of an agent.

        Raises:
            NotFound: There is no such assistant.
        """
        return self._service.assistants(tenant).get(assistant)

    def create(self, request: Request, body: NewAssistant) -> JsonResponse:
        """Create an assistant: an agent with settings."""
        assistants = self._of(request)
        try:
            created = assistants.create(
                body.graph_id,
                assistant=body.assistant_id,
                name=body.name,
                description=body.description,
                config=body.config,
                context=body.context,
                metadata=body.metadata,
            )
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
        return JsonResponse(_shown(self._assistant(request)))

    def change(self, request: Request, body: AssistantChange) -> JsonResponse:
        """Write a new version of an assistant."""
        id = request.path_params["assistant"]
        return JsonResponse(_shown(self._of(request).change(id, **body.settings)))

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
        graph = self._graph(request)
        return JsonResponse(graph.get_graph(xray=xray).to_json())

    def schemas(self, request: Request) -> JsonResponse:
        """Get the schemas of an assistant."""
        name = (self._assistant(request)).agent
        return JsonResponse({"graph_id": name, **_schemas(self._service.agents[name])})

    def subgraphs(self, request: Request) -> JsonResponse:
        """Get the graphs inside that of an assistant."""
        recurse = request.query_params.get("recurse", "false").lower() in ("true", "1")
        namespace = request.path_params.get("namespace")
        graph = self._graph(request)
        subgraphs = graph.get_subgraphs(namespace=namespace, recurse=recurse)
        return JsonResponse(
            {name: {"graph_id": name, **_schemas(inner)} for name, inner in subgraphs}
        )

    def _graph(self, request: Request) -> Graph:
        return self._service.agents[(self._assistant(request)).agent]

    def _assistant(self, request: Request) -> Assistant:
        return self._of(request).get(request.path_params["assistant"])

    def _of(self, request: Request) -> TenantAssistants:
        """The assistants of the caller's tenant."""
        return self._service.assistants(request.state.principal.tenant)


def with_settings(body: Run, assistant: Assistant) -> Run:
    """A run with the settings of its assistant, where the request has none."""
    asked = {"config": body.config, "context": body.context, "metadata": body.metadata}
    return body.model_copy(update=assistant.settings_of(asked))


def _schemas(graph: Any) -> dict[str, object]:
    """The schemas of a graph, without private keys."""
    return {
        "input_schema": graph.get_input_jsonschema(),
        "output_schema": graph.get_output_jsonschema(),
        # The same: the schema of the whole state has private keys.
        "state_schema": graph.get_output_jsonschema(),
        "config_schema": None,
        "context_schema": graph.get_context_jsonschema(),
    }


def _shown(assistant: Assistant) -> dict[str, Any]:
    return {
        "assistant_id": assistant.id,
        "graph_id": assistant.agent,
        "name": assistant.name,
        "description": assistant.description,
        "config": assistant.config,
        "context": assistant.context,
        "metadata": assistant.metadata,
        "version": assistant.version,
        "created_at": time_text(assistant.created_at),
        "updated_at": time_text(assistant.updated_at),
    }
