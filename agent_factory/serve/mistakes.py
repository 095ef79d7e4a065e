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

from agent_factory.serve.json_response import TYPES


def explained(error: ValidationError, kind: type[BaseModel], body: object) -> str:
    """Describe the mistakes in a body, in a sentence for each field."""
    sentences = []
    for mistake in error.errors():
        loc, reason = mistake["loc"], mistake["type"]
        place = ".".join(map(str, loc)) or "The body"
        path, model, field = _field_at(kind, loc)
        in_part = any(isinstance(part, int) for part in loc[len(path) :])
        if reason == "value_error":
            sentence = str(mistake["ctx"]["error"])
        elif reason == "too_long":
            sentence = f"{place} must have at most {mistake['ctx']['max_length']} items."
        elif reason == "missing":
            sentence = f"{place} is missing."
        elif reason == "extra_forbidden":
            close = get_close_matches(str(loc[-1]), model.model_fields, 1, cutoff=0.8)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            sentence = f"{place} is not supported by this server.{hint}"
        elif field is None or (in_part and any(_models_in(field.annotation))):
            # Pydantic's own words begin so, or say something else.
            words = mistake["msg"].replace("Input should be", "must be", 1)
            link = " " if words.startswith("must be") else ": "
            sentence = f"{place}{link}{words}, got {mistake['input']!r:.100}."
        else:
            # Of the whole field: Pydantic has the value of the innermost part.
            value: Any = body
            for part in path:
                value = value[part]
            name = ".".join(map(str, path)) or "The body"
            expected = _expected(field.annotation, field.metadata)
            sentence = f"{name} must be {expected}, got {value!r:.100}."
        sentences.append(sentence)
    # Once each: Pydantic reports a mistake for each member of a union.
    return " ".join(dict.fromkeys(sentences))


def _field_at(
    model: type[BaseModel], loc: Sequence[int | str]
) -> tuple[list[int | str], type[BaseModel], FieldInfo | None]:
    """The path of the field with a mistake, its model, and the field.

    Places that Pydantic adds for members of a union are left out.
    """
    path: list[int | str] = []
    field: FieldInfo | None = None
    left = list(loc)
    # A list of models, where a place begins with a number.
    if issubclass(model, RootModel):
        field = model.model_fields["root"]
        if left and isinstance(left[0], int):
            path.append(left.pop(0))
            model = next(_models_in(field.annotation))
            field = None
    while left:
        # Pydantic names a place by its alias.
        by_name = {info.alias or name: info for name, info in model.model_fields.items()}
        if left[0] not in by_name:
            break
        path.append(left.pop(0))
        field = by_name[str(path[-1])]
        models = {member.__name__: member for member in _models_in(field.annotation)}
        if left and left[0] in models:  # the member of a union
            left.pop(0)
        inner = next(
            (member for member in models.values() if left and left[0] in member.model_fields), None
        )
        if inner is None:
            break
        model = inner
    return path, model, field


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _expected(annotation: Any, metadata: Sequence[object] = ()) -> str:
    """Describe the values of a field."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _expected(parts[0], parts[1:])
    if origin is Literal:
        # False as in JSON: the other choices are texts.
        *words, last = (json.dumps(choice) if choice is False else repr(choice) for choice in parts)
        return f"{', '.join(words)} or {last}" if words else last
    if annotation is list or origin is list:
        # In the plural, which "true or false" does not have.
        item = _expected(parts[0]) if parts else "a value"
        return f"a list of {item.removeprefix('a ').removeprefix('an ')}" + "s" * (item[0] == "a")
    if parts and origin is not dict:  # a union
        choices = [_expected(part, metadata) for part in parts if part is not NoneType]
        if len(choices) == 2 and choices[1] == f"a list of {choices[0]}":
            choices[1] = "a list of them"
        return " or ".join(choices)
    value = TYPES.get((origin or annotation).__name__, "an object")
    least = next((f" from {bound.ge}" for bound in metadata if isinstance(bound, Ge)), "")
    most = next((f" to {bound.le}" for bound in metadata if isinstance(bound, Le)), "")
    return f"{value}{least}{most}"
