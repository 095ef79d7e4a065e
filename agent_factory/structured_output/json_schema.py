"""Validate values against JSON schemas, with the package jsonschema.

jsonschema is imported when the first schema is read, because the import takes long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ALTERNATIVES = ("anyOf", "oneOf", "allOf")
"""Keywords that combine schemas."""

NOT_AT_TOP = frozenset((*ALTERNATIVES, "not", "enum", "const", "if", "$ref"))
"""Keywords that providers refuse at the top of a schema, whose type has to be "object".

OpenAI: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top
level" (error `invalid_function_parameters`; the guide to structured outputs says the same of
`response_format`). Anthropic, on Bedrock as well: "input_schema does not support oneOf, allOf, or
anyOf at the top level".
"""


def is_object(schema: Mapping[str, Any]) -> bool:
    """Return True if each provider accepts the top of a JSON schema."""
    return schema.get("type") == "object" and NOT_AT_TOP.isdisjoint(schema)


class JsonSchema:
    """JSON schema to validate values against.

    Its `$schema` names the draft. Without `$schema`, the draft is 2020-12, or 7 if the schema is
    valid only there. References can only point into the schema itself. An invalid
    schema is a ValueError.

    >>> schema = JsonSchema({"type": "object", "properties": {"age": {"type": "integer"}}})
    >>> schema.errors({"age": "x"})
    ["age: 'x' is not of type 'integer'"]
    """

    def __init__(self, schema: object) -> None:
        from jsonschema import Draft7Validator, Draft202012Validator
        from jsonschema.exceptions import best_match
        from jsonschema.validators import validator_for
        from referencing import Registry
        from referencing.jsonschema import specification_with

        drafts: list[Any] = [Draft202012Validator, Draft7Validator]
        if isinstance(schema, Mapping) and "$schema" in schema:
            # The schema names its draft, so no other is tried.
            drafts = [validator_for(schema, default=Draft202012Validator)]
        first = None
        for draft in drafts:
            meta = draft(draft.META_SCHEMA, format_checker=draft.FORMAT_CHECKER)
            problem = best_match(meta.iter_errors(schema))
            if problem is None:
                break
            # If no draft accepts the schema, the error of the newest draft is reported.
            first = first or problem
        else:
            raise ValueError(_line(first))
        dialect = draft.META_SCHEMA["$schema"]
        resource = specification_with(dialect).create_resource(schema)
        # An empty registry: jsonschema's default registry downloads remote references.
        registry = Registry()
        _check_references(resource, registry.resolver_with_root(resource))
        self._validator = draft(schema, registry=registry)

    def errors(self, value: object) -> list[str]:
        """Return the problems of a value, a line each; empty for a valid value."""
        return list(map(_line, self._validator.iter_errors(value)))


def _line(error: Any) -> str:
    message, value = error.message, repr(error.instance)
    # jsonschema quotes the whole value, which may be a long text of the model.
    if len(value) > 60:
        message = message.replace(value, f"{value[:57]}...")
    if error.validator in ("minLength", "maxLength", "minItems", "maxItems"):
        message += f" ({error.validator} is {error.validator_value})"  # "is too long" leaves it out
    path = error.json_path.removeprefix("$").removeprefix(".")
    return f"{path}: {message}" if path else str(message)


def _check_references(resource: Any, resolver: Any) -> None:
    """Raise a ValueError for a reference that would fail or never end during validation."""
    from referencing.exceptions import Unresolvable

    schema, references = resource.contents, []
    while isinstance(schema, Mapping) and "$ref" in schema:
        reference = schema["$ref"]
        if reference in references:
            raise ValueError(f"the reference {reference!r} refers to itself")
        references.append(reference)
        try:
            schema = resolver.lookup(reference).contents
        except Unresolvable as error:
            reason = f"the reference {reference!r} does not resolve within the schema"
            raise ValueError(reason) from error
    for inner in resource.subresources():
        _check_references(inner, resolver)
