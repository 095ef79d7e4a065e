"""JSON for clients of LangGraph's API: messages are plain objects."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

TYPES = {
    "Any": "a value",
    "bool": "true or false",
    "datetime": "a time",
    "dict": "an object",
    "float": "a number",
    "int": "a number",
    "list": "a list",
    "NoneType": "null",
    "str": "a string",
}
"""JSON's words for Python's types."""


def to_json(value: object) -> str:
    """A value as JSON; other types become an object or a string."""
    return json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":"))


class JsonResponse(Response):
    """A response whose content is JSON."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """The content as bytes."""
        return to_json(content).encode()


def search_response(
    nouns: Any, body: Any, filters: Mapping[str, Any], shown: Callable[[Any], Mapping[str, Any]]
) -> JsonResponse:
    """The part of a list for a search, with headers for its length and the begin of the rest.

    Args:
        nouns: The list of the service, with `search` and `count`.
        body: The search, with `order`, `offset` and `select`.
        filters: Conditions of the list.
        shown: Writes a row for clients of LangGraph.
    """
    rows = [selected(shown(row), body.select) for row in nouns.search(**filters, **body.order)]
    total, end = nouns.count(**filters), body.offset + len(rows)
    headers = {"X-Pagination-Total": str(total)}
    if end < total:
        headers["X-Pagination-Next"] = str(end)
    return JsonResponse(rows, headers=headers)


def failure_of(error: str) -> dict[str, str]:
    """The error of a run as an object: the name of its class, and its message.

    Args:
        error: As `RunInfo.error` has it.

    >>> failure_of("ValueError: the model is out of order")
    {'error': 'ValueError', 'message': 'the model is out of order'}
    >>> failure_of("[AF350] refund: is not allowed.")
    {'error': 'RunFailed', 'message': '[AF350] refund: is not allowed.'}
    """
    name, colon, message = error.partition(": ")
    if colon and name.replace(".", "_").isidentifier():
        return {"error": name, "message": message}
    return {"error": "RunFailed", "message": error}


def time_text(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def selected(data: Mapping[str, Any], names: Collection[str] | None) -> dict[str, object]:
    """The fields that a client selects, or all. `values.key` is one key of the values."""
    if not names:
        return dict(data)
    result = {name: data[name] for name in names if name in data}
    inner = {name.removeprefix("values.") for name in names if name.startswith("values.")}
    if inner and "values" not in result:
        result["values"] = {key: value for key, value in data["values"].items() if key in inner}
    return result


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump()
    if is_dataclass(value) and not isinstance(value, type):
        # Not `asdict`: json.dumps asks again for inner values.
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, BaseException):
        return {"error": type(value).__name__, "message": str(value)}
    return str(value)
