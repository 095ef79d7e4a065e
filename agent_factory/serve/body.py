"""Bodies and queries of requests, checked before anything is done."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.serve.mistakes import explained

EMPTY_COUNTS = "an empty value is a value"
"""Annotation of an optional field whose null, `[]` and `{}` are values like others."""


class RequestPart(BaseModel):
    """A part of a request. An optional field that is null, `[]` or `{}` is absent.

    Clients of LangGraph send such a field for what their caller has left out.
    """

    @model_validator(mode="before")
    @classmethod
    def _leave_out(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        counts = {
            name
            for name, field in cls.model_fields.items()
            if field.is_required() or EMPTY_COUNTS in field.metadata
        }
        absent: tuple[Any, ...] = (None, [], {})
        return {k: part for k, part in value.items() if k in counts or part not in absent}


class StrictBody(RequestPart):
    """A body whose fields are all supported: one that is ignored would be a broken promise."""

    model_config = ConfigDict(extra="forbid")


Body = TypeVar("Body", bound=BaseModel)


async def read_body(request: Request, kind: type[Body]) -> Body:
    """The body of a request.

    Raises:
        HTTPException: 422 if it is not what `kind` says. 415 if it is not sent as JSON: what a
            page of another site sends without asking first never is.
    """
    given = await request.body()
    sent_as = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given and sent_as != "application/json":
        raise HTTPException(415, f"Send the body as application/json, not as {sent_as!r}.")
    try:
        return kind.model_validate_json(given or b"{}")
    except ValidationError as error:
        raise HTTPException(422, explained(error, kind, given)) from error


def number(request: Request, name: str, default: int) -> int:
    """A number from the query of a request."""
    given = request.query_params.get(name)
    if given is None:
        return default
    if not given.isdecimal() or len(given) > 9:
        raise HTTPException(422, f"{name} must be a number of at most 9 digits, got {given!r:.30}.")
    return int(given)


def several(request: Request, name: str) -> list[str]:
    """The values of a name in the query of a request: repeated, or a list as JSON.

    Raises:
        HTTPException: 422 if a list is not JSON.
    """
    found: list[str] = []
    for given in request.query_params.getlist(name):
        try:
            found += map(str, json.loads(given)) if given.startswith("[") else [given]
        except ValueError as error:
            raise HTTPException(422, f"{name} must be a list as JSON, got {given!r}.") from error
    return [one for one in found if one]
