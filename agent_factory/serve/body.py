"""Bodies and queries of requests, checked before anything is done."""

from __future__ import annotations

import json
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from agent_factory.serve.mistakes import explained
from agent_factory.state import DEEPEST, json_fault, place_of


class Keeps:
    """Annotation of an optional field: empty values that differ from an absent field.

    Args:
        *values: Some of None, `[]` and `{}`.
    """

    def __init__(self, *values: object) -> None:
        self.values = values


class RequestPart(BaseModel):
    """Part of a request. An optional field that is null, `[]` or `{}` is absent.

    Clients of LangGraph send such a field for arguments that their caller leaves out.
    """

    @model_validator(mode="before")
    @classmethod
    def _leave_out(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        fields = cls.model_fields
        # As a tuple: lists and dicts cannot be hashed.
        empty: tuple[object, ...] = (None, [], {})

        def is_absent(name: str, part: object) -> bool:
            # An unsupported field without a value asks for nothing.
            if part not in empty or name not in fields:
                return part in empty
            notes = (note for note in fields[name].metadata if isinstance(note, Keeps))
            # A required field stays: the value is wrong, not missing.
            return not (fields[name].is_required() or any(part in note.values for note in notes))

        return {name: part for name, part in value.items() if not is_absent(name, part)}


class StrictBody(RequestPart):
    """Body without unsupported fields: to ignore a field would break a promise."""

    model_config = ConfigDict(extra="forbid")


Body = TypeVar("Body", bound=BaseModel)

_LONG = 100_000
"""Bytes of a body for which a thread is used."""


async def read_body(request: Request, kind: type[Body]) -> Body:
    """The body of a request.

    Raises:
        HTTPException: 422 if the body does not fit `kind`, or cannot be stored. 415 if the body is
            not sent as JSON.
    """
    value = await read_json(request)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise HTTPException(422, explained(error, kind, value)) from error


async def read_json(request: Request) -> object:
    """The body of a request as JSON that can be stored; raises as `read_body` does."""
    content = await request.body()
    # A form of another site can only send the types of forms. JSON makes a browser ask first.
    sent_as = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content and sent_as != "application/json":
        raise HTTPException(415, f"Send the body as application/json, not as {sent_as!r}.")

    def read() -> object:
        # Without a body, fields have their defaults.
        value = json_value("The body", content or b"{}")
        if (fault := json_fault(value)) is not None:
            path, reason = fault
            raise HTTPException(422, f"{place_of(path) or 'The body'} {reason}")
        return value

    # A long body takes up to seconds, in which other requests go on.
    return read() if len(content) < _LONG else await run_in_threadpool(read)


def json_value(name: str, content: str | bytes) -> object:
    """JSON of a request, in which no object has a key twice.

    Args:
        name: The name of the value, for the error.
        content: The text, or bytes in UTF-8.

    Raises:
        HTTPException: 422 for other content.
    """

    def pairs(members: list[tuple[str, object]]) -> dict[str, object]:
        value: dict[str, object] = {}
        for key, part in members:
            # Programs disagree about which of two counts.
            if key in value:
                text = f"{name} has the key {key!a:.60} twice in an object."
                raise HTTPException(422, text)
            value[key] = part
        return value

    try:
        text = content if isinstance(content, str) else content.decode()
        # Python limits the digits that it reads, and `json_fault` refuses far fewer.
        parsed: object = json.loads(
            text, object_pairs_hook=pairs, parse_int=lambda digits: int(digits[:30])
        )
    except UnicodeDecodeError as error:
        raise HTTPException(422, f"{name} is not UTF-8 at byte {error.start}.") from error
    except json.JSONDecodeError as error:
        raise HTTPException(422, f"{name} is not JSON: {error}.") from error
    except RecursionError as error:
        text = f"{name} must not be nested more than {DEEPEST} levels deep."
        raise HTTPException(422, text) from error
    return parsed


def choice(request: Request, name: str, *choices: str) -> str | None:
    """A choice from the query of a request; None if the request does not say so."""
    value = request.query_params.get(name)
    if value not in (None, *choices):
        text = f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r:.100}."
        raise HTTPException(422, text)
    return value


def number(request: Request, name: str, default: int) -> int:
    """A number from the query of a request."""
    text = request.query_params.get(name)
    value = default if text is None else whole_number(text)
    if value is None:
        raise HTTPException(422, f"{name} must be a number of at most 9 digits, got {text!r:.30}.")
    return value


def whole_number(text: str) -> int | None:
    """A number of at most 9 digits; None for another text.

    Bounded, since databases refuse numbers of more than 64 bits, and Python more than 4,300 digits.
    """
    return int(text) if text.isdecimal() and len(text) <= 9 else None


def several(request: Request, name: str) -> list[str]:
    """The values of a name in the query of a request: repeated, or a list as JSON.

    Raises:
        HTTPException: 422 if a list is not JSON.
    """
    values: list[str] = []
    for text in request.query_params.getlist(name):
        # The client for JavaScript sends lists as JSON; Python's repeats the name.
        items = json_value(name, text) if text.startswith("[") else [text]
        assert isinstance(items, list)  # by its first character
        values += map(str, items)
    # A name without a value, as in `?select=`, asks for nothing.
    return [value for value in values if value]
