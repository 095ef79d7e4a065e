"""Check a value against a JSON schema: the keywords that structured answers use.

Covered: `type`, `enum`, `const`, `required`, `properties`, `patternProperties`,
`additionalProperties`, `prefixItems`, `items`, `minItems`, `maxItems`, `minLength`, `maxLength`,
`pattern`, `minimum`, `maximum`,
`exclusiveMinimum`, `exclusiveMaximum`, `anyOf`, `oneOf`, `allOf` and local `$ref`. Other keywords
are annotations here: they do not reject a value. Source of the meanings: JSON Schema 2020-12.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Any

Schema = Mapping[str, Any] | bool


def validation_errors(value: Any, schema: Schema) -> list[str]:
    """What is wrong with a value, one line each; empty where it fits.

    >>> schema = {"type": "object", "properties": {"age": {"type": "integer"}}}
    >>> validation_errors({"age": "x"}, schema)
    ['age: "x" is not of type integer']
    """
    root = schema if isinstance(schema, Mapping) else {}
    return list(_check(value, schema, "", root))


def schema_errors(schema: Any) -> list[str]:
    """What makes a schema unusable, one line each; empty where values can be checked against it.

    >>> schema_errors({"type": "objekt"})
    ["'objekt' is no type"]
    """
    return list(_flaws(schema, schema if isinstance(schema, Mapping) else {}))


def _flaws(schema: Any, root: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield f"{schema!r} is no schema"
        return
    types = schema.get("type", [])
    for name in [types] if isinstance(types, str) else types:
        if name not in _TYPES:
            yield f"{name!r} is no type"
    if not isinstance(schema.get("required", []), list):
        yield f"required is {schema['required']!r} and no list"
    yield from _bad_patterns(schema)
    yield from _bad_reference(schema, root)
    for inner in _inner(schema):
        yield from _flaws(inner, root)


def _bad_patterns(schema: Mapping[str, Any]) -> Iterator[str]:
    patterns = [schema["pattern"]] if "pattern" in schema else []
    named = schema.get("patternProperties", {})
    for pattern in [*patterns, *(named if isinstance(named, Mapping) else ())]:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            yield f"{pattern!r} is no pattern: {error}"


def _bad_reference(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    followed = set()
    while isinstance(schema, Mapping) and "$ref" in schema:
        reference = schema["$ref"]
        if not isinstance(reference, str) or not reference.startswith("#"):
            yield f"{reference!r} is no reference within the schema"
            return
        if reference in followed:
            yield f"{reference!r} refers to itself"
            return
        followed.add(reference)
        try:
            schema = _resolve(reference, root)  # type: ignore[assignment]  # checked above
        except (KeyError, TypeError):
            yield f"{reference!r} leads nowhere"
            return


def _inner(schema: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas that a schema holds."""
    for keyword in ("properties", "patternProperties", "$defs", "definitions"):
        held = schema.get(keyword, {})
        # What should hold schemas and does not is itself shown as the schema that it is not.
        yield from held.values() if isinstance(held, Mapping) else [held]
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        yield from schema.get(keyword, ())
    items = schema.get("items", True)
    yield from items if isinstance(items, list) else [items]
    yield schema.get("additionalProperties", True)


def _check(value: Any, schema: Schema, path: str, root: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(schema, bool):
        if not schema:
            yield f"{_at(path)}nothing is allowed here"
        return
    if "$ref" in schema:
        yield from _check(value, _resolve(schema["$ref"], root), path, root)
    yield from _check_own(value, schema, path)
    yield from _check_combined(value, schema, path, root)
    if isinstance(value, Mapping):
        yield from _check_members(value, schema, path, root)
    elif isinstance(value, list):
        for index, (item, inner) in enumerate(zip(value, _item_schemas(schema), strict=False)):
            yield from _check(item, inner, f"{path}[{index}]", root)


def _item_schemas(schema: Mapping[str, Any]) -> Iterator[Schema]:
    """A schema for each item: first those by position, then the one for all others."""
    items = schema.get("items", True)
    # Before 2020-12 a list of items was what prefixItems is now.
    first, rest = (items, True) if isinstance(items, list) else ((), items)
    yield from schema.get("prefixItems", first)
    yield from repeat(rest)


def _at(path: str) -> str:
    return f"{path}: " if path else ""


def _resolve(reference: str, root: Mapping[str, Any]) -> Schema:
    found: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        if part:
            found = found[part.replace("~1", "/").replace("~0", "~")]
    return found  # type: ignore[no-any-return]  # a schema, by the schema's own reference


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _number(value) and (isinstance(value, int) or value.is_integer()),
    "number": _number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, Mapping),
}


_LIMITS: dict[str, tuple[Callable[[Any], bool], Callable[[Any, Any], bool], str]] = {
    "minimum": (_number, lambda value, limit: value >= limit, "is less than"),
    "maximum": (_number, lambda value, limit: value <= limit, "is more than"),
    "exclusiveMinimum": (_number, lambda value, limit: value > limit, "is not more than"),
    "exclusiveMaximum": (_number, lambda value, limit: value < limit, "is not less than"),
    "minLength": (_TYPES["string"], lambda value, limit: len(value) >= limit, "is shorter than"),
    "maxLength": (_TYPES["string"], lambda value, limit: len(value) <= limit, "is longer than"),
    "minItems": (_TYPES["array"], lambda value, limit: len(value) >= limit, "is shorter than"),
    "maxItems": (_TYPES["array"], lambda value, limit: len(value) <= limit, "is longer than"),
    "pattern": (
        _TYPES["string"],
        lambda value, limit: bool(re.search(limit, value)),
        "is not like",
    ),
}


def _check_own(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    shown = _shown(value)
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(_TYPES.get(name, lambda _: True)(value) for name in types):
        yield f"{_at(path)}{shown} is not of type {' or '.join(types)}"
        return
    if "enum" in schema and not any(_same(value, option) for option in schema["enum"]):
        yield f"{_at(path)}{shown} is not one of {schema['enum']}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{_at(path)}{shown} is not {schema['const']!r}"
    for keyword, (applies, fits, words) in _LIMITS.items():
        if keyword in schema and applies(value) and not fits(value, schema[keyword]):
            yield f"{_at(path)}{shown} {words} {schema[keyword]}"


def _same(one: Any, other: Any) -> bool:
    """Equality as JSON has it: true is not 1, and 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)


def _shown(value: Any) -> str:
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _check_combined(
    value: Any, schema: Mapping[str, Any], path: str, root: Mapping[str, Any]
) -> Iterator[str]:
    for part in schema.get("allOf", ()):
        yield from _check(value, part, path, root)
    for keyword in ("anyOf", "oneOf"):
        if options := schema.get(keyword):
            fitting = sum(not list(_check(value, option, path, root)) for option in options)
            if fitting == 0:
                yield f"{_at(path)}{_shown(value)} fits none of the alternatives"
            elif fitting > 1 and keyword == "oneOf":
                yield f"{_at(path)}{_shown(value)} fits more than one alternative"


def _check_members(
    value: Mapping[str, Any], schema: Mapping[str, Any], path: str, root: Mapping[str, Any]
) -> Iterator[str]:
    properties = schema.get("properties", {})
    rest = schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{_at(path)}{name} is required"
    patterns = schema.get("patternProperties", {})
    for name, member in value.items():
        inner = f"{path}.{name}" if path else str(name)
        known = [properties[name]] if name in properties else []
        known += [part for pattern, part in patterns.items() if re.search(pattern, name)]
        if not known and rest is False:
            yield f"{inner}: is not a known key"
            continue
        for part in known or [rest]:
            yield from _check(member, part, inner, root)
