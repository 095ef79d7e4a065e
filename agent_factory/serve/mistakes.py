"""Mistakes in the body of a request, in sentences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel, RootModel, ValidationError
from pydantic.fields import FieldInfo

_WORDS = {str: "string", dict: "object", int: "number", float: "number", Any: "value"}


def explained(error: ValidationError, kind: type[BaseModel], body: bytes) -> str:
    """What is wrong with a body, in a sentence for each field.

    Args:
        error: The mistakes.
        kind: What the body was read as.
        body: The body.
    """
    return " ".join(dict.fromkeys(_sentence(mistake, kind, body) for mistake in error.errors()))


def _sentence(mistake: Any, kind: type[BaseModel], body: bytes) -> str:
    place = ".".join(map(str, mistake["loc"])) or "The body"
    if mistake["type"] == "json_invalid":
        return f"The body is not JSON: {mistake['msg']}."
    if mistake["type"] == "value_error":
        return str(mistake["ctx"]["error"])
    path, model, field = _field_at(kind, mistake["loc"])
    if mistake["type"] == "missing":
        return f"{place} is missing."
    if mistake["type"] == "extra_forbidden":
        close = get_close_matches(str(mistake["loc"][-1]), model.model_fields, 1, cutoff=0.8)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        return f"{place} is not supported by this server.{hint}"
    others = mistake["loc"][len(path) :]
    if field is None or any(isinstance(part, int) for part in others[1:]):
        return f"{place}: {mistake['msg']}, got {mistake['input']!r:.100}."
    value = json.loads(body)
    for part in path:
        value = value[part]
    expected = _expected(field.annotation, field.metadata)
    return f"{'.'.join(map(str, path)) or 'The body'} must be {expected}, got {value!r:.100}."


def _field_at(
    model: type[BaseModel], loc: Sequence[int | str]
) -> tuple[list[int | str], type[BaseModel], FieldInfo | None]:
    """The path of the field that a mistake is in, its model, and the field.

    Places that Pydantic adds for the members of a union are left out.
    """
    path: list[int | str] = []
    field: FieldInfo | None = None
    left = list(loc)
    if issubclass(model, RootModel):
        field = model.model_fields["root"]
        if left and isinstance(left[0], int):
            path.append(left.pop(0))
            model = next(_models_in(field.annotation))
            field = None
    while left:
        by_name = {known.alias or name: known for name, known in model.model_fields.items()}
        if left[0] not in by_name:
            break
        path.append(left.pop(0))
        field = by_name[str(path[-1])]
        models = {one.__name__: one for one in _models_in(field.annotation)}
        if left and left[0] in models:  # the member of a union
            left.pop(0)
        inner = next((one for one in models.values() if left and left[0] in one.model_fields), None)
        if inner is None:
            break
        model = inner
    return path, model, field


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _expected(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """What a field takes, in words."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _expected(parts[0], parts[1:])
    if origin is Literal:
        *words, last = (json.dumps(one) if one is False else repr(one) for one in parts)
        return f"{', '.join(words)} or {last}" if words else last
    if annotation is list or origin is list:
        item = _expected(parts[0]) if parts else "a value"
        return f"a list of {item.removeprefix('a ').removeprefix('an ')}" + "s" * (item[0] == "a")
    if parts and origin is not dict:  # a union
        choices = [_expected(one, metadata) for one in parts if one is not NoneType]
        if len(choices) == 2 and choices[1] == f"a list of {choices[0]}":
            choices[1] = "a list of them"
        return " or ".join(choices)
    if annotation is bool:
        return "true or false"
    word = _WORDS.get(origin or annotation, "object")
    least = next((f" from {one.ge}" for one in metadata if isinstance(one, Ge)), "")
    most = next((f" to {one.le}" for one in metadata if isinstance(one, Le)), "")
    return f"{'an' if word == 'object' else 'a'} {word}{least}{most}"
