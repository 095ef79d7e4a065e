"""Search attributes: fields of a job by which people find its activity in Temporal."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError

from agent_factory.service.engines.engine import SEARCH_ATTRIBUTES, JobRef

_KEYWORD = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
_LONGEST = 255  # characters of a keyword, in databases of Temporal


class SearchAttributes:
    """The search attributes that a namespace has: a start with others would be refused."""

    def __init__(self) -> None:
        self._keys: dict[SearchAttributeKey[str], str] = {}

    async def find(self, client: Client) -> None:
        """Ask which the namespace of a client has; none, if the client may not ask."""
        request = ListSearchAttributesRequest(namespace=client.namespace)
        types: Mapping[str, int] = {}
        with suppress(RPCError):
            answer = await client.operator_service.list_search_attributes(request)
            types = answer.custom_attributes
        keyword = SearchAttributeKey.for_keyword
        self._keys = {
            keyword(name): field
            for name, field in SEARCH_ATTRIBUTES.items()
            if types.get(name) == _KEYWORD
        }

    def of(self, job: JobRef) -> TypedSearchAttributes:
        """Search attributes of a job."""
        values = {key: str(getattr(job, field)) for key, field in self._keys.items()}
        return TypedSearchAttributes(
            [SearchAttributePair(k, text) for k, text in values.items() if len(text) <= _LONGEST]
        )
