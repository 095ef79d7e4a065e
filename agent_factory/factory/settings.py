"""The settings of middleware, as a plan shows them: the arguments of their constructors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from hashlib import sha256
from operator import attrgetter
from pathlib import PurePath
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from agent_factory.compat.langchain import LangChainAdapter
from agent_factory.hooks.base import Middleware
from agent_factory.runtime.spec import AgentSpec
from agent_factory.topology.model import Setting
from agent_factory.topology.topology import Topology

_SECRET = re.compile(r"key|secret|password|credential|authorization|token$|env$", re.IGNORECASE)
"""Names of settings whose values are not shown."""

_LONGEST, _DEEPEST = 80, 8
"""The most letters of a string, and the most levels of nested values, in a setting."""


def plan_of(spec: AgentSpec, *, settings: bool = False) -> Topology:
    """The plan of an agent with its name, its pauses, and the settings of its guards, or all."""
    shown = [
        *pauses_of(spec.nodes),
        *(s for s in settings_of(spec.middleware) if settings or s.guards),
    ]
    for name, inside in spec.toolbox.specs_inside.items():
        for setting in plan_of(inside, settings=settings).settings:
            shown.append(replace(setting, owner=f"{name}/{setting.owner}"))
    return replace(spec.topology, name=spec.name or "", settings=tuple(shown))


def settings_of(members: Iterable[Middleware]) -> tuple[Setting, ...]:
    """The settings of middleware: parameters of a constructor that are public attributes, too."""
    settings: list[Setting] = []
    for member in members:
        source = member.inner if isinstance(member, LangChainAdapter) else member
        guarding = getattr(member, "guard_settings", ())
        attributes = dict(setting_names(source))
        # A part of a setting, such as the judge of a policy.
        attributes |= {p: p for p in guarding if "." in p and p not in attributes.values()}
        for name, attribute in attributes.items():
            value = _shown(setting_value(source, attribute), name)
            guards = name in guarding or attribute in guarding
            settings.append(Setting(member.name, name, value, guards))
    return tuple(settings)


def pauses_of(nodes: Mapping[str, Any]) -> tuple[Setting, ...]:
    """The pauses of an agent as settings, so that a snapshot shows a missing pause."""
    return tuple(
        Setting("agent", name, repr(names if names == "*" else sorted(names)), guards=True)
        for name in ("interrupt_before", "interrupt_after")
        if (names := nodes[name])
    )


def is_secret(name: str) -> bool:
    """Return True for the name of a setting whose value is not shown."""
    return _SECRET.search(name) is not None


def setting_names(source: object) -> Iterator[tuple[str, str]]:
    """Yield the settings of a middleware, and their attributes."""
    guarding = getattr(source, "guard_settings", ())
    paths = {path.rpartition(".")[2]: path for path in guarding if "." in path}
    for name in inspect.signature(type(source).__init__).parameters:
        # The attribute `tools` holds the tools that a middleware adds. Built-ins for some tools of
        # the agent keep the names of the tools, in `tool_names` or `searchable_tool_names`.
        names_of_tools = f"{name.removesuffix('s')}_names"
        attribute = names_of_tools if hasattr(source, names_of_tools) else paths.get(name, name)
        try:
            value = attrgetter(attribute)(source)
        except Exception:  # not an attribute, or an unreadable property
            continue
        is_own_method = getattr(value, "__self__", None) is source
        if name not in ("self", "name") and not name.startswith("_") and not is_own_method:
            yield name, attribute


def setting_value(source: object, attribute: str) -> object:
    """The value of a setting in a middleware, or the argument if the value has another form."""
    value = attrgetter(attribute)(source)
    if isinstance(getattr(type(value), "argument", None), property):
        return value.argument
    return value


def _shown(value: object, name: str = "", depth: int = 0) -> str:
    """A value in one line, equal on every machine; else the type of the value."""

    def inner(values: Iterable[object]) -> list[str]:
        return [_shown(item, name, depth + 1) for item in values]

    # Before the names: a number such as `max_tokens`, or a function, is not a secret.
    if isinstance(value, bool | int | float | None):
        return repr(value)
    if isinstance(value, type) or inspect.isroutine(value):
        return str(value.__name__)
    if depth > _DEEPEST or is_secret(name):
        return type(value).__name__
    match value:
        case Enum():
            return _shown(value.value, name, depth + 1)
        case str() if len(value) > _LONGEST:
            # Two long prompts often begin alike. The digest shows the difference.
            digest = sha256(value.encode(errors="replace")).hexdigest()[:8]
            start = f"{value[: _LONGEST // 2]}..."
            return f"{start!r} ({len(value)} characters, sha256 {digest})"
        case str():
            return repr(value)
        case PurePath():
            # The parents of a path differ from machine to machine.
            return f".../{value.name}" if value.name else str(value)
        case BaseTool():
            return f"tool {value.name!r}"
        case BaseChatModel():
            model = getattr(value, "model_name", None) or getattr(value, "model", None)
            return f"{type(value).__name__}({repr(model) if isinstance(model, str) else ''})"
        case Mapping():
            pairs = (f"{_shown(k)}: {_shown(v, str(k), depth + 1)}" for k, v in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list():
            return f"[{', '.join(inner(value))}]"
        case tuple():
            return f"({', '.join(inner(value))}{',' if len(value) == 1 else ''})"
        # Sorted, because the order of strings in a set differs from process to process.
        case set() | frozenset():
            return f"{{{', '.join(sorted(inner(value)))}}}"
    names = getattr(type(value), "guard_settings", ())
    # Not the repr, which has fields that are private, secret or without a stable form.
    if is_dataclass(value):
        names = [f.name for f in fields(value) if f.init and not f.name.startswith("_")]
    shown = ", ".join(f"{n}={_shown(getattr(value, n, None), n, depth + 1)}" for n in names)
    is_bare = not names and not is_dataclass(value)
    return type(value).__name__ if is_bare else f"{type(value).__name__}({shown})"
