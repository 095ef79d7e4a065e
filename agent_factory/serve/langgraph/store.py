"""Routes of the store: items of agents across threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langgraph.store.base import BaseStore, InvalidNamespaceError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from agent_factory.serve.endpoints import Endpoints
from agent_factory.serve.json_response import JsonResponse
from agent_factory.serve.langgraph.requests import ItemPlace, ItemSearch, NamespaceSearch, NewItem


class Store(Endpoints):
    """Answers requests about the items of a tenant."""

    def put(self, request: Request, body: NewItem) -> Response:
        """Store an item."""
        options: dict[str, Any] = {} if body.ttl is None else {"ttl": body.ttl}
        with self._of(request) as store:
            if options and not store.supports_ttl:
                raise HTTPException(422, "ttl is not supported: items stay until they are deleted.")
            if body.index:
                _check_index(store, "index")
            store.put(tuple(body.namespace), body.key, body.value, body.index, **options)
        return Response(status_code=204)

    def get(self, request: Request) -> JsonResponse:
        """Get an item."""
        place = tuple(request.query_params.get("namespace", "").split("."))
        key = request.query_params.get("key")
        if key is None:
            raise HTTPException(422, "key is missing: the key of the item.")
        with self._of(request) as store:
            item = store.get(place, key)
        return JsonResponse(None if item is None else item.dict())

    def delete(self, request: Request, body: ItemPlace) -> Response:
        """Delete an item."""
        with self._of(request) as store:
            store.delete(tuple(body.namespace), body.key)
        return Response(status_code=204)

    def search(self, request: Request, body: ItemSearch) -> JsonResponse:
        """Search for items."""
        which = body.model_dump(include={"filter", "limit", "offset", "query"})
        with self._of(request) as store:
            if body.query is not None:
                _check_index(store, "query")
            items = store.search(tuple(body.namespace_prefix), **which)
        return JsonResponse({"items": [item.dict() for item in items]})

    def namespaces(self, request: Request, body: NamespaceSearch) -> JsonResponse:
        """List namespaces."""
        with self._of(request) as store:
            return JsonResponse({"namespaces": store.list_namespaces(**body.model_dump())})

    @contextmanager
    def _of(self, request: Request) -> Iterator[BaseStore]:
        """The store of the caller's tenant."""
        try:
            yield self._service.store(request.state.principal.tenant)
        except InvalidNamespaceError as error:
            raise HTTPException(422, f"namespace: {error}") from error


def _check_index(store: BaseStore, field: str) -> None:
    """Raise HTTPException if a field of a request needs an index that the store lacks."""
    if getattr(store, "index_config", None) is None:
        text = "the store of this server has no index of meanings. Search with filter."
        raise HTTPException(422, f"{field} is not supported: {text}")
