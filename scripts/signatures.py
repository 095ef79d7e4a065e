"""Classes and functions as lines of Markdown: a signature, and the start of the docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, is_typeddict

LONGEST_DEFAULT = 30
"""Defaults with more characters, such as prompts, are left out of a signature."""

LONGEST_ALIAS = 100
"""Aliases of types with more characters keep their names."""


def line_of(name: str, value: Any) -> str:
    """An item of a list: the signature of a class or a function, and the first paragraph."""
    return f"- `{name}{parameters(value)}`: {summary(value)}".removesuffix(": ")


def lines_of(name: str, value: Any) -> Iterator[str]:
    """The item of a class or a function, and the items of the methods of a class."""
    yield line_of(name, value)
    if inspect.isclass(value) and not issubclass(value, BaseException):
        for key, method in vars(value).items():
            if not key.startswith("_") and inspect.isfunction(method) and method.__doc__:
                yield f"  {line_of(key, method)}"


def parameters(value: Any) -> str:
    """Parameters of a callable with types and defaults; empty for an unknown signature."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    # Protocols take anything, and the signature of a TypedDict depends on the version of Python.
    if is_typeddict(value) or list(signature.parameters) == ["args", "kwargs"]:
        return ""
    function = value.__init__ if inspect.isclass(value) else value
    namespace = getattr(inspect.unwrap(function), "__globals__", {})
    texts: list[str] = []
    needs_mark = True
    for name, parameter in signature.parameters.items():
        if name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and needs_mark:
            texts.append("*")
        needs_mark &= parameter.kind not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        texts.append(_parameter(parameter, namespace))
    return f"({', '.join(texts)})"


def _parameter(parameter: inspect.Parameter, namespace: dict[str, Any]) -> str:
    text = str(parameter.replace(annotation=parameter.empty, default=parameter.empty))
    if isinstance(parameter.annotation, str):
        annotation = re.sub(
            r"\w+", lambda word: _alias(word[0], namespace.get(word[0])), parameter.annotation
        )
        text += f": {annotation}"
    if parameter.default is not parameter.empty:
        default = repr(parameter.default)
        # The address of a function would change with each process.
        fits = len(default) <= LONGEST_DEFAULT and not default.startswith("<")
        text += f" = {default if fits else '...'}"
    return text


def _alias(name: str, value: Any) -> str:
    """The value of an alias of a type, if short and clearer than the name."""
    origin = get_origin(value)
    # Python 3.14 writes a union in another way than earlier versions.
    parts = get_args(value) if origin in (Union, UnionType) else [value]
    text = re.sub(r"\b([a-z_]+\.)+(?=[A-Z])", "", " | ".join(map(_type_name, parts)))
    readable = origin is not None and "~" not in text and len(text) <= LONGEST_ALIAS
    return text if readable else name


def _type_name(value: Any) -> str:
    if get_origin(value) is Literal:
        # Unions of equal literals are the same object, in the order of the first literal.
        return f"Literal[{', '.join(sorted(map(repr, get_args(value))))}]"
    return value.__name__ if isinstance(value, type) and not get_origin(value) else str(value)


def summary(value: Any) -> str:
    """The first paragraph of a docstring, in a line."""
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
