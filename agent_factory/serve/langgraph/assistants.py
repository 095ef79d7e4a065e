"""Routes of assistants: the agents of the service, and what tenants create for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from agent_factory.serve.body import number
from agent_factory.serve.json_response import JsonResponse, page_response, selected, time_text
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

T = TypeVar("T")
Run = TypeVar("Run", bound=NewRun)

_PAGE = 100


class Assistants:
    """Answers requests about assistants."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def get_assistant(self, assistant: str, tenant: str) -> Assistant:
        """An assistant of a tenant.

        Args:
            assistant: Its id, or the name of an agent.
            tenant: The tenant.

        Raises:
            NotFound: There is no such assistant.
        """
        return self._service.assistants(tenant).get(assistant)

    async def create(self, request: Request, body: NewAssistant) -> JsonResponse:
        """Create an assistant: an agent with settings."""

        def work(assistants: TenantAssistants) -> Assistant:
            try:
                return assistants.create(
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
                return assistants.get(body.assistant_id)

        return JsonResponse(_shown(await self._do(request, work)))

    async def search(self, request: Request, body: AssistantSearch) -> JsonResponse:
        """Search for assistants."""
        sort_by: Any = "agent" if body.sort_by == "graph_id" else body.sort_by

        def work(assistants: TenantAssistants) -> tuple[list[Assistant], int]:
            page = assistants.search(
                **body.filters,
                sort_by=sort_by,
                descending=body.sort_order == "desc",
                limit=body.limit,
                offset=body.offset,
            )
            return page, assistants.count(**body.filters)

        page, total = await self._do(request, work)
        rows = [selected(_shown(assistant), body.select) for assistant in page]
        return page_response(rows, total, body.offset)

    async def count(self, request: Request, body: AssistantSearch) -> JsonResponse:
        """Count assistants."""
        return JsonResponse(
            await self._do(request, lambda assistants: assistants.count(**body.filters))
        )

    async def get(self, request: Request) -> JsonResponse:
        """Get an assistant."""
        return JsonResponse(_shown(await self._assistant(request)))

    async def change(self, request: Request, body: AssistantChange) -> JsonResponse:
        """Write a new version of an assistant."""
        id = request.path_params["assistant"]
        changed = await self._do(request, lambda assistants: assistants.change(id, **body.settings))
        return JsonResponse(_shown(changed))

    async def delete(self, request: Request) -> Response:
        """Delete an assistant; with `delete_threads=true`, its threads, too."""
        principal, id = request.state.principal, request.path_params["assistant"]
        also_threads = request.query_params.get("delete_threads", "").lower() in ("true", "1")

        def work(assistants: TenantAssistants) -> None:
            assistants.delete(id)
            filters: dict[str, Any] = {"tenant": principal.tenant, "metadata": {"assistant_id": id}}
            # No offset: those on the page before do not exist any more.
            while also_threads and (page := self._service.threads.search(**filters, limit=_PAGE)):
                for thread in page:
                    self._service.threads.delete(
                        thread.id, by=principal.name, tenant=principal.tenant
                    )

        await self._do(request, work)
        return Response(status_code=204)

    async def versions(self, request: Request, body: AssistantVersionSearch) -> JsonResponse:
        """List the versions of an assistant, the newest first."""
        id, options = request.path_params["assistant"], body.model_dump()
        rows = await self._do(request, lambda assistants: assistants.versions(id, **options))
        return JsonResponse([_shown(row) for row in rows])

    async def set_latest(self, request: Request, body: AssistantVersion) -> JsonResponse:
        """Let runs take a version of an assistant."""
        id = request.path_params["assistant"]
        changed = await self._do(
            request, lambda assistants: assistants.set_latest(id, body.version)
        )
        return JsonResponse(_shown(changed))

    # Graphs

    async def graph(self, request: Request) -> JsonResponse:
        """Get the graph of an assistant."""
        inner = request.query_params.get("xray", "false")
        # LangGraph takes a depth, or True for all.
        xray: int | bool = inner.lower() == "true"
        if inner.isdecimal():
            xray = number(request, "xray", 0)
        graph = await self._graph(request)
        return JsonResponse(graph.get_graph(xray=xray).to_json())

    async def schemas(self, request: Request) -> JsonResponse:
        """Get the schemas of an assistant."""
        name = (await self._assistant(request)).agent
        return JsonResponse({"graph_id": name, **_schemas(self._service.agents[name])})

    async def subgraphs(self, request: Request) -> JsonResponse:
        """Get the graphs inside that of an assistant."""
        recurse = request.query_params.get("recurse", "false").lower() in ("true", "1")
        namespace = request.path_params.get("namespace")
        graph = await self._graph(request)
        subgraphs = graph.get_subgraphs(namespace=namespace, recurse=recurse)
        return JsonResponse(
            {name: {"graph_id": name, **_schemas(inner)} for name, inner in subgraphs}
        )

    async def _graph(self, request: Request) -> Graph:
        return self._service.agents[(await self._assistant(request)).agent]

    async def _assistant(self, request: Request) -> Assistant:
        id = request.path_params["assistant"]
        return await self._do(request, lambda assistants: assistants.get(id))

    async def _do(self, request: Request, work: Callable[[TenantAssistants], T]) -> T:
        """Run `work` with the assistants of the caller's tenant, and return its result."""
        tenant = request.state.principal.tenant
        return await run_in_threadpool(lambda: work(self._service.assistants(tenant)))


def with_settings(body: Run, assistant: Assistant) -> Run:
    """A run as it is asked for, with the settings of its assistant where it has none."""
    asked = {"config": body.config, "context": body.context, "metadata": body.metadata}
    return body.model_copy(update=assistant.settings_of(asked))


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
