"""Routes of the store: what agents keep across threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from langgraph.store.base import BaseStore, InvalidNamespaceError, Item, SearchItem
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from agent_factory.serve.json_response import JsonResponse
from agent_factory.serve.langgraph.requests import (
    ItemPlace,
    ItemSearch,
    NamespaceSearch,
    NewItem,
)
from agent_factory.service import Service

T = TypeVar("T")


class Store:
    """Answers requests about the items of a tenant."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def put(self, request: Request, body: NewItem) -> Response:
        """Store an item."""
        place = tuple(body.namespace)

        def put(store: BaseStore) -> None:
            if body.ttl is not None and not store.supports_ttl:
                raise HTTPException(422, "ttl is not supported: items stay until they are deleted.")
            if body.index:
                _check_index(store, "index")
            options: dict[str, Any] = {} if body.ttl is None else {"ttl": body.ttl}
            store.put(place, body.key, body.value, body.index, **options)

        await self._do(request, put)
        return Response(status_code=204)

    async def get(self, request: Request) -> JsonResponse:
        """Get an item."""
        place = tuple(request.query_params.get("namespace", "").split("."))
        key = request.query_params.get("key")
        if key is None:
            raise HTTPException(422, "key is missing: the key of the item.")
        item = await self._do(request, lambda store: store.get(place, key))
        return JsonResponse(None if item is None else _shown(item))

    async def delete(self, request: Request, body: ItemPlace) -> Response:
        """Delete an item."""
        await self._do(request, lambda store: store.delete(tuple(body.namespace), body.key))
        return Response(status_code=204)

    async def search(self, request: Request, body: ItemSearch) -> JsonResponse:
        """Search for items."""
        place = tuple(body.namespace_prefix)
        which = body.model_dump(include={"filter", "limit", "offset", "query"})

        def search(store: BaseStore) -> list[SearchItem]:
            if body.query is not None:
                _check_index(store, "query")
            return store.search(place, **which)

        items = await self._do(request, search)
        return JsonResponse({"items": [{**_shown(item), "score": item.score} for item in items]})

    async def namespaces(self, request: Request, body: NamespaceSearch) -> JsonResponse:
        """List namespaces."""
        which: Any = body.model_dump()
        namespaces = await self._do(request, lambda store: store.list_namespaces(**which))
        return JsonResponse({"namespaces": namespaces})

    async def _do(self, request: Request, work: Callable[[BaseStore], T]) -> T:
        """Run `work` with the store of the caller's tenant, and return its result."""
        tenant = request.state.principal.tenant
        try:
            return await run_in_threadpool(lambda: work(self._service.store(tenant)))
        except InvalidNamespaceError as error:
            raise HTTPException(422, f"namespace: {error}") from error


def _check_index(store: BaseStore, field: str) -> None:
    """Raise HTTPException if a field of a request needs an index that the store does not have."""
    if getattr(store, "index_config", None) is None:
        text = "the store of this server has no index of meanings. Search with filter."
        raise HTTPException(422, f"{field} is not supported: {text}")


def _shown(item: Item) -> dict[str, object]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }
