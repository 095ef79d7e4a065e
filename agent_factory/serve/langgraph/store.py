"""Routes of the store: what agents keep across threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from langgraph.store.base import BaseStore, InvalidNamespaceError, Item
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from agent_factory.serve.body import read_body
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

    async def put(self, request: Request) -> Response:
        """`PUT /store/items`."""
        body = await read_body(request, NewItem)
        place = tuple(body.namespace)
        await self._do(request, lambda store: store.put(place, body.key, body.value))
        return Response(status_code=204)

    async def get(self, request: Request) -> JsonResponse:
        """`GET /store/items`."""
        place = tuple(request.query_params.get("namespace", "").split("."))
        key = request.query_params.get("key")
        if key is None:
            raise HTTPException(422, "key is missing: the key of the item.")
        item = await self._do(request, lambda store: store.get(place, key))
        return JsonResponse(None if item is None else _shown(item))

    async def delete(self, request: Request) -> Response:
        """`DELETE /store/items`."""
        body = await read_body(request, ItemPlace)
        await self._do(request, lambda store: store.delete(tuple(body.namespace), body.key))
        return Response(status_code=204)

    async def search(self, request: Request) -> JsonResponse:
        """`POST /store/items/search`."""
        body = await read_body(request, ItemSearch)
        place, which = (
            tuple(body.namespace_prefix),
            body.model_dump(include={"filter", "limit", "offset"}),
        )
        items = await self._do(request, lambda store: store.search(place, **which))
        return JsonResponse({"items": [{**_shown(item), "score": item.score} for item in items]})

    async def namespaces(self, request: Request) -> JsonResponse:
        """`POST /store/namespaces`."""
        body = await read_body(request, NamespaceSearch)
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


def _shown(item: Item) -> dict[str, object]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }
