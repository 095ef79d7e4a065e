"""Objects of incomplete JSON texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial, reduce
from typing import Any
from urllib.parse import unquote

from pydantic_core import from_json

_ESCAPE = re.compile(r"\\.", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")


def partial_object(text: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    r"""Return the object that the beginning of a JSON text holds; None without an object.

    A string is there from its first character on, unless the schema lists its values. All other
    values are there when they are complete.

    >>> partial_object('{"name": "Ad', {})
    {'name': 'Ad'}
    >>> partial_object('{"name": "Ad', {"properties": {"name": {"enum": ["Ada", "Adam"]}}})
    {}
    >>> partial_object('{"ages": [36, 3', {})
    {'ages': [36]}
    """
    if not text.lstrip().startswith("{"):
        return None
    escape = partial(_CONTROL.sub, lambda character: f"\\u{ord(character[0]):04x}")
    # LangChain reads line breaks inside of strings, which are not JSON.
    for form in (str, partial(_STRING.sub, lambda string: escape(string[0]))):
        with suppress(ValueError, TypeError):  # a TypeError for half of a surrogate pair
            value: dict[str, Any] = _parsed(form(text), schema)
            return value
    return None


def grows(before: Any, after: Any) -> bool:
    """Return True if a value continues the value before: no part of `before` is lost or changed.

    >>> grows({"a": "x", "b": [1]}, {"a": "xy", "b": [1, 2], "c": None})
    True
    >>> grows({"a": 1}, {"a": 12})
    False
    """
    match before, after:
        case dict(), dict():
            return all(key in after and grows(before[key], after[key]) for key in before)
        case list(), list():
            return len(before) <= len(after) and all(map(grows, before, after))
        case str(), str():
            return after.startswith(before)
    return bool(before == after)


def _parsed(text: str, schema: Mapping[str, Any]) -> Any:
    # An odd number of quotes, apart from those behind a backslash.
    if _ESCAPE.sub("", text).count('"') % 2:  # the text ends inside a string
        value = from_json(text, allow_partial="trailing-strings")
        if not _ends_with_enum(value, schema):
            return value
    elif (head := text.rstrip("0123456789+-.eE")) != text and text[len(head)] in "-0123456789":
        text = head  # more digits may follow
    return from_json(text, allow_partial=True)


def _ends_with_enum(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether the last value is a string, and its schema lists the values."""
    nodes = [*_alternatives(schema, schema)]
    while value and isinstance(value, dict | list):
        key = next(reversed(value)) if isinstance(value, dict) else len(value) - 1
        value = value[key]
        inner = [child for node in nodes for child in _children(node, key)]
        nodes = [node for child in inner for node in _alternatives(schema, child)]
    return isinstance(value, str) and any("enum" in node or "const" in node for node in nodes)


def _children(node: Mapping[str, Any], key: str | int) -> list[Any]:
    """The schemas of a field or of an item."""
    if isinstance(key, int):
        items = node.get("items")
        # Before draft 2020-12, `items` may list the schemas of the first items.
        first = items if isinstance(items, list) else node.get("prefixItems", [])
        rest = node.get("additionalItems") if isinstance(items, list) else items
        return [first[key]] if key < len(first) else [rest]
    patterns = node.get("patternProperties", {}).items()
    children = [inner for pattern, inner in patterns if re.search(pattern, key)]
    if key in (fields := node.get("properties", {})):
        children.append(fields[key])
    return children or [node.get("additionalProperties")]


def _alternatives(root: Mapping[str, Any], node: Any) -> Iterator[Mapping[str, Any]]:
    """A schema, and all schemas in its combinations and references."""
    pending, visited = [node], set()
    while pending:
        node = pending.pop()
        if not isinstance(node, Mapping) or id(node) in visited:
            continue  # schemas may be True or False, and refer to themselves
        visited.add(id(node))
        yield node
        for key in ("anyOf", "oneOf", "allOf"):
            pending += node.get(key, ())
        pending += [node.get("then"), node.get("else"), _target(root, node.get("$ref"))]


def _target(root: Mapping[str, Any], reference: Any) -> Any:
    """The schema that a reference such as "#/$defs/Point" points to; None for other forms."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    names = [name.replace("~1", "/").replace("~0", "~") for name in unquote(reference).split("/")]
    try:
        return reduce(lambda node, name: node[name], names[1:], root)
    except (KeyError, TypeError):
        return None
