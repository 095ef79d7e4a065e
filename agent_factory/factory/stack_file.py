"""A stack of middleware as a TOML file, and back: for reviews of what is deployed.

Settings that are plain values are in the file. Code is named there and never guessed: functions,
models and other objects. `load_stack` gets it from its caller.
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sized
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product
from operator import attrgetter
from pathlib import Path, PurePath
from typing import Any, Final, cast

from agent_factory.errors import ArgumentError, describe, did_you_mean
from agent_factory.factory.settings import is_secret, setting_names, setting_value, settings_of
from agent_factory.hooks.base import AgentMiddleware, Middleware
from agent_factory.hooks.introspection import hooks_of, layers_of

__all__ = ["dump_stack", "load_stack"]

FORMAT: Final = "agent_factory.stack"
VERSION: Final = 1
"""The version of the format. It grows when an older reader would misread a file."""

_BUILT_INS = "agent_factory.middleware"

_VALUES: Final = (
    *("BubblewrapExecutionPolicy", "ClearToolUsesEdit", "CodexSandboxExecutionPolicy"),
    *("DockerExecutionPolicy", "HostExecutionPolicy", "Limits", "ModelChoice", "Price"),
    *("RedactionRule", "Rule", "ToolPolicy"),
)
"""The dataclasses of the built-ins that a file may hold. Nothing else is called."""

_MARKS: Final = frozenset({"class", "code", "dict", "none", "path", "tuple"})
"""Keys of tables that stand for what TOML has no form for."""

_FORMER: Final = frozenset({"max_tokens_before_summary", "messages_to_keep", "summary_prefix"})
"""Former names of parameters, whose values other attributes hold."""

_LONG = 80
"""Letters of a text that is left out if it is the default of its setting."""


def dump_stack(
    middleware: Iterable[Middleware], tools: Iterable[object] = (), *, title: str = "A stack"
) -> str:
    """Write a stack of middleware as TOML; `load_stack` reads it back.

    Each middleware has its class and its settings: parameters of its constructor that are public
    attributes, too. What is code is named, with the key under which `load_stack` gets it: functions
    and classes by "module:name", models and other objects by the middleware and the setting.
    Secrets are never written. A middleware that its settings would not build again is code as a
    whole. Long texts that are defaults are left out.

    Args:
        middleware: The stack.
        tools: The tools of the agent, which the file names.
        title: What the stack is of, for the first line.

    >>> from agent_factory.middleware import ModelCallLimitMiddleware
    >>> text = dump_stack([ModelCallLimitMiddleware(run_limit=5)])
    >>> load_stack(text)[0].run_limit
    5
    """
    head = f"# {title}. For reviews: what is deployed. See agent_factory.load_stack."
    format_and_version = f"format = {_text(FORMAT)}\nversion = {VERSION}"
    parts = [" ".join(head.split()), format_and_version, *map(_entry, middleware)]
    for tool in tools:
        name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
        if isinstance(tool, Mapping):
            name = tool.get("name") or tool.get("type")
        function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or tool
        entry = {"name": str(name or describe(tool)), "function": _path(function)}
        parts.append(_table("tools", entry))
    return "\n\n".join(parts) + "\n"


def load_stack(
    file: str | Path, code: Mapping[str, Any] | None = None
) -> list[AgentMiddleware[Any, Any]]:
    """Build the middleware of a file that `dump_stack` or `agent-factory show --format toml` wrote.

    The plan of it has the same digest as that of the stack that was written, and the same settings.
    Only classes of middleware, and a few dataclasses of the library, are made of the file. Their
    modules are imported: load files that you trust as you trust your code.

    Args:
        file: The path of the file, or its text.
        code: What the file names: `{"shop.desk:is_open": is_open, "Summary.model": model}`. None
            as a value is the default of a setting.

    Raises:
        ArgumentError: The file is not a stack; an entry names a class that is missing or is not a
            middleware, a setting that it does not have, or code that is not passed; or `code` has
            a key that the file does not name.
        FileNotFoundError: The file does not exist.

    >>> load_stack('format = "agent_factory.stack"\\nversion = 1')
    []
    """
    # A path has no line break, and a stack has at least two lines.
    is_text = isinstance(file, str) and "\n" in file
    source = "the stack" if is_text else str(file)
    try:
        text = str(file) if is_text else Path(file).read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ArgumentError(source, f"is not valid TOML: {error}.", _HINT) from None
    if data.get("format") != FORMAT:
        raise ArgumentError(source, "does not hold a stack.", _HINT)
    if data.get("version") != VERSION:
        reason = f"has version {data.get('version')!r} of the format, expected {VERSION}."
        raise ArgumentError(source, reason, "Upgrade agent-factory, or write the file again.")
    reader = _Reader(source, dict(code or {}))
    entries = data.get("middleware", [])
    if not isinstance(entries, list):
        reason = f"must have tables named middleware, got {describe(entries)}."
        raise ArgumentError(source, reason, "Write [[middleware]].")
    stack = [reader.member(n, entry) for n, entry in enumerate(entries, 1)]
    # A key that nobody asks for is a misspelt one: its setting would have the default.
    if unknown := reader.code.keys() - reader.keys:
        hint = did_you_mean(min(unknown), reader.keys, "Leave it out.", repr)
        raise ArgumentError(f"code[{min(unknown)!r}]", f"is not named in {source}.", hint)
    return stack


_HINT = "Write it with dump_stack(middleware), or agent-factory show TARGET --format toml."


# Writing


@dataclass(slots=True)
class _Writer:
    """Values as data of TOML; what is code goes into `code`, by the key that names it."""

    owner: str
    code: dict[str, object] = field(default_factory=dict)

    def data(self, value: object, path: str) -> object:
        """A value as data: tables stand for what TOML has no form for. See `_Reader.value`."""
        kind = type(value)
        match value:
            case None:
                return {"none": True}
            case bool() | int() | float() if kind in (bool, int, float):
                return value
            case _ if is_secret(path):
                return self.reference(value, path)
            case str() if kind is str and _is_encodable(value):
                return value
            case PurePath():
                return {"path": str(value)}
            case list():
                return [self.data(item, f"{path}.{n}") for n, item in enumerate(value)]
            case tuple():
                return {"tuple": self.data(list(value), path)}
            case set() | frozenset() if all(type(item) is str for item in value):
                return sorted(value)
            case Mapping() if all(type(key) is str and _is_encodable(key) for key in value):
                table = {key: self.data(item, f"{path}.{key}") for key, item in value.items()}
                return {"dict": table} if _MARKS & table.keys() else table
        if kind.__name__ in _VALUES and _built_in(kind.__name__) is kind:
            return {"class": kind.__name__, **self.fields(value, path)}
        return self.reference(value, path)

    def fields(self, value: object, path: str) -> dict[str, object]:
        """The arguments of a value that are not the default."""
        fields: dict[str, object] = {}
        for name, parameter in inspect.signature(type(value)).parameters.items():
            argument = _argument(getattr(value, name), parameter)
            if not _is_same(argument, parameter.default):
                fields[name] = self.data(argument, f"{path}.{name}")
        return fields

    def reference(self, value: object, path: str) -> dict[str, str]:
        """The name of code, and what it is."""
        # What can be imported has the name it is imported by; a model, for example, cannot.
        where = _path(value)
        key = where or f"{self.owner}.{path}"
        self.code[key] = value
        return {"code": key} if where else {"code": key, "is": type(value).__name__}


def _entry(member: Middleware) -> str:
    """A middleware as a table of the file."""
    whole = {"code": member.name, "is": type(member).__name__}
    if not (where := _path(type(member))):
        return _table("middleware", whole)
    writer, attributes = _Writer(member.name), dict(setting_names(member))
    settings: dict[str, object] = {}
    least: dict[str, object] = {}
    unread: dict[str, str] = {}
    for name, parameter in inspect.signature(type(member).__init__).parameters.items():
        is_options = parameter.kind is parameter.VAR_KEYWORD
        if name in ("self", "name") or name in _FORMER or is_options:
            continue
        # A constructor need not keep what it was given.
        if name not in attributes:
            unread[name] = f"{member.name}.{name}"
            continue
        value = _argument(setting_value(member, attributes[name]), parameter)
        is_plain = isinstance(value, bool | int | float | str) and not is_secret(name)
        is_short = is_plain and len(str(value)) <= _LONG
        if _is_same(value, parameter.default) and not is_short:
            continue
        settings[name] = writer.data(value, name)
        # Many constructors keep None as an empty list, and refuse an empty one.
        if parameter.default is not None or not isinstance(value, Sized) or len(value):
            least[name] = settings[name]
    code = {**writer.code, **dict.fromkeys(unread.values())}
    likeness = _likeness(member)
    # The shortest form that builds an equal middleware is written.
    for values, names in product((least, settings), ({}, {"name": member.name})):
        entry = {"class": where, **names, "unread": unread, "settings": values}
        with suppress(Exception):  # its constructor takes other values than its attributes hold
            if _likeness(_Reader("", code).member(1, entry)) == likeness:
                return _table("middleware", entry)
    return _table("middleware", whole)


def _argument(value: Any, parameter: inspect.Parameter) -> Any:
    """What a parameter was given, of what an instance holds: a list for `*values`."""
    return list(value) if parameter.kind is parameter.VAR_POSITIONAL else value


def _likeness(member: Middleware) -> object:
    """What two equal middleware have in common."""
    declared = tuple(member.guards), tuple(member.limits), member.ordering
    tools = sorted(member.expected_tools), sorted(member.covered_tools or ())
    methods = [bound.definition for bound in (*hooks_of(member), *layers_of(member))]
    return member.name, settings_of([member]), declared, tools, methods


def _table(name: str, entry: Mapping[str, Any]) -> str:
    """An entry of the file as TOML, without what is empty."""
    lines = [f"[[{name}]]"]
    for key, value in entry.items():
        if key == "unread" and value:
            lines.append("# Not in this file; pass them in code:")
        if key != "settings" and value:
            lines.append(f"{key} = {_toml(value)}")
    if settings := entry.get("settings"):
        lines.append(f"[{name}.settings]")
        lines += (f"{_key(key)} = {_toml(value, 0)}" for key, value in settings.items())
    return "\n".join(lines)


def _toml(value: Any, depth: int = 1) -> str:
    """A value as TOML; lists of tables have one a line, long texts their lines."""
    match value:
        case bool() | int() | float():
            return str(value).lower()  # true and false
        case str() if "\n" in value and not depth:
            # Line by line: only line breaks may stand as they are.
            return '"""\n' + "\n".join(_text(line)[1:-1] for line in value.split("\n")) + '"""'
        case str():
            return _text(value)
        case list() if any(isinstance(item, dict) for item in value):
            return "[\n" + "".join(f"    {_toml(item)},\n" for item in value) + "]"
        case list():
            return f"[{', '.join(map(_toml, value))}]"
    pairs = ", ".join(f"{_key(name)} = {_toml(item)}" for name, item in value.items())
    return f"{{ {pairs} }}" if pairs else "{}"


def _text(text: str) -> str:
    # JSON's escapes are TOML's, except for DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _is_encodable(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)  # half of a surrogate pair


def _is_same(value: object, default: object) -> bool:
    """Return True if a value is a default; equal values of other types are others."""
    if value is default:
        return True
    return type(value) is type(default) and isinstance(value, _COMPARED) and value == default


_COMPARED = (bool, int, float, str, tuple, list, dict, frozenset, set)


def _path(value: Any) -> str:
    """Where a function or a class can be imported from: "module:name"; empty if it cannot."""
    module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
    try:
        if module.startswith(f"{_BUILT_INS}.") and _built_in(name) is value:
            module = _BUILT_INS
        return f"{module}:{name}" if _imported(module, name) is value else ""
    except Exception:  # nothing of that name, or a module that cannot be imported
        return ""


def _imported(module: str, name: str) -> Any:
    return attrgetter(name)(import_module(module))


def _built_in(name: str) -> Any:
    """What the built-ins export by a name; None if they do not."""
    return getattr(import_module(_BUILT_INS), name, None)


# Reading


@dataclass(slots=True)
class _Reader:
    """Middleware and values of the tables of a file."""

    source: str
    code: dict[str, Any]
    keys: set[str] = field(default_factory=set)
    place: str = ""

    def member(self, number: int, entry: Any) -> AgentMiddleware[Any, Any]:
        """The middleware of an entry."""
        kind = entry.get("class", entry.get("code")) if isinstance(entry, dict) else None
        self.place = f"{self.source}, middleware {number} ({kind})"
        if not isinstance(kind, str):
            raise self.error("names neither a class nor code.", 'Write class = "module:Class".')
        keys = {"class", "settings", "name", "unread"} if "class" in entry else {"code", "is"}
        if unknown := entry.keys() - keys:
            raise self.error(f"has {min(unknown)!r}, which is unknown.", "Leave it out.")
        if "class" not in entry:
            member = self.passed(kind)
            if not isinstance(member, AgentMiddleware):
                reason = f"needs a middleware as code[{kind!r}], got {describe(member)}."
                raise self.error(reason)
            return member
        for table in ("settings", "unread"):
            if not isinstance(entry.get(table, {}), dict):
                reason = f"must have a table as {table}, got {describe(entry[table])}."
                raise self.error(reason, f"Write [middleware.{table}].")
        cls = self.middleware_class(kind)
        parameters = inspect.signature(cls.__init__).parameters
        settings = entry.get("settings", {})
        for name in settings:
            if name not in parameters or name == "self":
                hint = did_you_mean(name, parameters, f"It has {', '.join(parameters)}.")
                raise self.error(f"does not have a setting {name!r}.", hint)
        values = {name: self.value(value, name) for name, value in settings.items()}
        for name, key in entry.get("unread", {}).items():
            if (value := self.passed(key, may_be_none=True)) is not None:
                values[name] = value
        if entry.get("name") and "name" in parameters:
            values["name"] = entry["name"]
        return cast("AgentMiddleware[Any, Any]", self.built(cls, values, ""))

    def middleware_class(self, path: str) -> Any:
        """The class of a path, if it is one of middleware."""
        module, _, name = path.partition(":")
        try:
            cls = _imported(module, name)
        except (ImportError, AttributeError, ValueError) as error:
            raise self.error(f"cannot be imported: {error}.", "Correct its class.") from None
        if not inspect.isclass(cls) or not issubclass(cls, AgentMiddleware):
            reason = "is not a class of middleware, so it is not called."
            raise self.error(reason, 'Write class = "module:Class" of a middleware.')
        return cls

    def value(self, data: Any, path: str) -> Any:
        """A value of its data."""
        match data:
            case list():
                return [self.value(item, f"{path}.{n}") for n, item in enumerate(data)]
            case {"class": name, **fields}:
                if name in _VALUES:
                    return self.built(_built_in(name), self.table(fields, path), f" {path}")
                hint = f"A file may hold {', '.join(_VALUES)}."
                raise self.error(f"has {name!r} as {path}.", hint)
            case {"code": key, **rest} if rest.keys() <= {"is"}:
                return self.passed(key)
            case {"none": _} if len(data) == 1:
                return None
            case {"path": text} if len(data) == 1:
                return Path(str(text))
            case {"tuple": list(items)} if len(data) == 1:
                return tuple(self.value(items, path))
            case {"dict": dict(table)} if len(data) == 1:
                return self.table(table, path)
            case dict():
                return self.table(data, path)
        return data

    def table(self, data: Mapping[str, Any], path: str) -> dict[str, Any]:
        """The values of a table."""
        return {key: self.value(item, f"{path}.{key}") for key, item in data.items()}

    def built(self, cls: Any, values: dict[str, Any], what: str) -> Any:
        """An instance of a class."""
        args: list[Any] = []
        parameters = inspect.signature(cls).parameters
        for index, (name, parameter) in enumerate(parameters.items()):
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL and name in values:
                for other in list(parameters.values())[:index]:
                    args.append(values.pop(other.name, other.default))
                    if args[-1] is other.empty:
                        raise self.error(f"lacks the setting {other.name!r}.", "Write it.")
                args += values.pop(name)
        try:
            return cls(*args, **values)
        except Exception as error:
            raise self.error(f"cannot be built{what}: {error}") from error

    def passed(self, key: str, *, may_be_none: bool = False) -> Any:
        """Code that the caller passes."""
        self.keys.add(key)
        if key not in self.code:
            end = ", or None for the default." if may_be_none else "."
            raise self.error(f"needs {key!r}, which is code.", f"Pass code={{{key!r}: ...}}{end}")
        return self.code[key]

    def error(self, reason: str, hint: str = "") -> ArgumentError:
        return ArgumentError(self.place, reason, hint)
