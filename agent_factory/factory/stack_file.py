"""A stack of middleware as a TOML file, and back: for reviews of deployed stacks.

Settings that are plain values are in the file. Code is named there and never guessed: functions,
models and other objects. `load_stack` gets the code from its caller.
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
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
"""The version of the format. The number grows when an older reader would misread a file."""

_BUILT_INS = "agent_factory.middleware"

_VALUES: Final = (
    *("BubblewrapExecutionPolicy", "ClearToolUsesEdit", "CodexSandboxExecutionPolicy"),
    *("DockerExecutionPolicy", "HostExecutionPolicy", "Limits", "ModelChoice", "Price"),
    *("RedactionRule", "Rule", "ToolPolicy"),
)
"""The dataclasses of the built-ins that a file may hold. No other class is called."""

_MARKS: Final = frozenset({"class", "code", "dict", "none", "path", "tuple"})
"""Keys of tables that stand for values without a form in TOML."""

_FORMER: Final = frozenset({"max_tokens_before_summary", "messages_to_keep", "summary_prefix"})
"""Former names of parameters, whose values other attributes hold."""

_LONG = 80
"""Letters of a text that is left out if it is the default of its setting."""


def dump_stack(
    middleware: Iterable[Middleware], tools: Iterable[object] = (), *, title: str = "A stack"
) -> str:
    """Write a stack of middleware as TOML; `load_stack` reads it back.

    Each middleware has its class and its settings: parameters of its constructor that are public
    attributes, too. Code is named, by its key in the `code` of `load_stack`: functions and classes
    by "module:name", models and other objects by the middleware and the setting. Secrets are never
    written. If the settings would not build the middleware again, which is tried once, the whole
    middleware is code, and a comment gives the reason. Long texts that are defaults are left out.

    Args:
        middleware: The stack.
        tools: The tools of the agent, which the file names.
        title: The title of the stack, for the first line.

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
        where = _path(getattr(tool, "func", None) or getattr(tool, "coroutine", None) or tool)
        function = f"\nfunction = {_text(where)}" if where else ""
        parts.append(f"[[tools]]\nname = {_text(str(name or describe(tool)))}{function}")
    return "\n\n".join(parts) + "\n"


def load_stack(
    file: str | Path, code: Mapping[str, Any] | None = None
) -> list[AgentMiddleware[Any, Any]]:
    """Build the middleware of a file that `dump_stack` or `agent-factory show --format toml` wrote.

    The plan of the stack has the same digest and settings as the plan of the written stack. Only
    classes of middleware, and a few dataclasses of the library, are made of the file. Their modules
    are imported: trust the files that you load as you trust your code.

    Args:
        file: The path of the file, or its text.
        code: The code named in the file: `{"shop.desk:is_open": is_open, "Summary.model": model}`.
            None as a value is the default of a setting.

    Raises:
        ArgumentError: The file is not a stack; a key is unknown; an entry names a class that is
            missing or is not a middleware, a setting or a name that the class does not take, or
            code that is not passed; or `code` has a key that the file does not name.
        FileNotFoundError: The file does not exist.

    >>> load_stack('format = "agent_factory.stack"\\nversion = 1')
    []
    """
    # A path has no line break, and a stack has at least two lines.
    is_text = isinstance(file, str) and "\n" in file
    source = "the stack" if is_text else str(file)
    try:
        data = tomllib.loads(str(file) if is_text else Path(file).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ArgumentError(source, f"is not valid TOML: {error}.", _HINT) from None
    if data.get("format") != FORMAT:
        raise ArgumentError(source, "does not hold a stack.", _HINT)
    if data.get("version") != VERSION:
        reason = f"has version {data.get('version')!r} of the format, expected {VERSION}."
        raise ArgumentError(source, reason, "Upgrade agent-factory, or write the file again.")
    _check_keys(source, data, ("format", "version", "middleware", "tools"))
    reader = _Reader(dict(code or {}))
    for name in ("middleware", "tools"):
        if not isinstance(entries := data.setdefault(name, []), list):
            reason = f"must have tables named {name}, got {describe(entries)}."
            raise ArgumentError(source, reason, f"Write [[{name}]].")
    for tool in data["tools"]:
        _check_keys(f"{source}, tools", tool, ("name", "function"))
    entries = enumerate(data["middleware"], 1)
    stack = [reader.member(item, f"{source}, middleware {n}") for n, item in entries]
    # An unused key is a misspelt key: its setting would have the default.
    if unknown := reader.code.keys() - reader.keys:
        hint = did_you_mean(min(unknown), reader.keys, "Leave it out.", repr)
        raise ArgumentError(f"code[{min(unknown)!r}]", f"is not named in {source}.", hint)
    return stack


_HINT = "Write it with dump_stack(middleware), or agent-factory show TARGET --format toml."


# Writing


@dataclass(slots=True)
class _Writer:
    """Values as TOML; code goes into `code`, by the key that names the code."""

    owner: str
    code: dict[str, object] = field(default_factory=dict)

    def value(self, value: object, path: str) -> str:
        """A value as TOML, with tables for values without a form; read by `_Reader.value`."""
        kind = type(value)
        match value:
            case None:
                return "{ none = true }"
            case bool() | int() | float() if kind in (bool, int, float):
                return str(value).lower()  # true and false
            case _ if is_secret(path):  # by its last name: a secret is not looked into
                return self.reference(value, path)
            case str() if kind is str and _is_encodable(value):
                # Only a setting itself has several lines, of which each is escaped.
                lines = [_text(line)[1:-1] for line in value.split("\n")]
                is_long = len(lines) > 1 and "." not in path
                return '"""\n' + "\n".join(lines) + '"""' if is_long else _text(value)
            case PurePath():
                return _table({"path": _text(str(value))})
            case list():
                return _list([self.value(item, f"{path}.{n}") for n, item in enumerate(value)])
            case tuple():
                return _table({"tuple": self.value(list(value), path)})
            case set() | frozenset() if all(type(item) is str for item in value):
                return _list([_text(item) for item in sorted(value)])
            case Mapping() if all(type(key) is str and _is_encodable(key) for key in value):
                table = _table({k: self.value(item, f"{path}.{k}") for k, item in value.items()})
                return _table({"dict": table}) if _MARKS & value.keys() else table
        if kind.__name__ not in _VALUES or _built_in(kind.__name__) is not kind:
            return self.reference(value, path)
        pairs = {"class": _text(kind.__name__)}
        for name, parameter in inspect.signature(kind).parameters.items():
            argument = _argument(getattr(value, name), parameter)
            if not _is_same(argument, parameter.default):
                pairs[name] = self.value(argument, f"{path}.{name}")
        return _table(pairs)

    def reference(self, value: object, path: str) -> str:
        """The name of code, and its type."""
        # The name of importable code is its import path; a model, for example, has none.
        where = _path(value)
        key = where or f"{self.owner}.{path}"
        self.code[key] = value
        pairs = {"code": _text(key)}
        return _table(pairs if where else {**pairs, "is": _text(type(value).__name__)})


def _entry(member: Middleware) -> str:
    """A middleware as a table of the file."""
    where = _path(type(member))
    whole = f"[[middleware]]\ncode = {_text(member.name)}\nis = {_text(type(member).__name__)}"
    if not where:
        return whole
    writer, attributes = _Writer(member.name), dict(setting_names(member))
    settings: list[str] = []
    least: list[str] = []
    left_out: dict[str, object] = {}
    unread: dict[str, str] = {}
    parameters = inspect.signature(type(member).__init__).parameters
    for name, parameter in parameters.items():
        if name in {"self", "name", *_FORMER} or parameter.kind is parameter.VAR_KEYWORD:
            continue
        # A constructor need not keep its arguments.
        if name not in attributes:
            unread[name] = _text(key := f"{member.name}.{name}")
            writer.code[key] = None
            continue
        value = _argument(setting_value(member, attributes[name]), parameter)
        is_short = isinstance(value, bool | int | float | str) and len(str(value)) <= _LONG
        if _is_same(value, parameter.default) and (is_secret(name) or not is_short):
            continue
        settings.append(f"{_key(name)} = {writer.value(value, name)}")
        # Many constructors keep None as an empty list, and refuse an empty list.
        if parameter.default is not None or not isinstance(value, Sized) or len(value):
            least.append(settings[-1])
        else:
            left_out[attributes[name]] = value
    passed = ["# Not in this file; pass them in code:", f"unread = {_table(unread)}"]
    lines = ["[[middleware]]", f"class = {_text(where)}"]
    default: object = type(member).name
    default = default.func(member) if isinstance(default, cached_property) else default
    if "name" in parameters and default != member.name:
        lines.append(f"name = {_text(member.name)}")
    lines += passed if unread else []
    likeness, reason = _likeness(member), "another middleware"
    for entries in (least, settings):
        text = "\n".join([*lines, *(["[middleware.settings]"] if entries else []), *entries])
        (entry,) = tomllib.loads(text)["middleware"]
        try:  # the constructor may take other values than the attributes hold
            again = _Reader(writer.code).member(entry)
            if _likeness(again) == likeness:
                return text
        except Exception as error:  # whose text may hold a secret
            reason = type(error.__cause__ or error).__name__
            break
        # Once more only if an empty list that was left out did not stand for None.
        if all(setting_value(again, name) == value for name, value in left_out.items()):
            break
    return f"# Not written by its settings, which build {reason}.\n{whole}"


def _argument(value: Any, parameter: inspect.Parameter) -> Any:
    """The argument of a parameter, from the value in an instance: a list for `*values`."""
    return list(value) if parameter.kind is parameter.VAR_POSITIONAL else value


def _likeness(member: Middleware) -> object:
    """The values that two equal middleware share."""
    declared = tuple(member.guards), tuple(member.limits), member.ordering
    tools = sorted(member.expected_tools)
    hooks = [bound.definition for bound in hooks_of(member)]
    layers = [bound.definition for bound in layers_of(member)]
    return member.name, settings_of([member]), declared, tools, hooks, layers


def _list(items: list[str]) -> str:
    """A list as TOML; a list of tables has an item a line."""
    if any(item.startswith("{") for item in items):
        return "[\n" + "".join(f"    {item},\n" for item in items) + "]"
    return f"[{', '.join(items)}]"


def _table(items: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{_key(name)} = {item}" for name, item in items.items())
    return f"{{ {pairs} }}" if pairs else "{}"


def _text(text: str) -> str:
    # JSON's escapes are TOML's, except for DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _is_encodable(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)  # half of a surrogate pair


def _is_same(value: object, default: object) -> bool:
    """Return True if a value is a default; an equal value of another type is not."""
    is_equal = type(value) is type(default) and isinstance(value, _COMPARED) and value == default
    return value is default or is_equal


_COMPARED = (bool, int, float, str, tuple, list, dict, frozenset, set)


def _path(value: Any) -> str:
    """The import path of a function or a class, "module:name"; empty if it cannot be imported."""
    module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
    try:
        if module.startswith(f"{_BUILT_INS}.") and _built_in(name) is value:
            module = _BUILT_INS
        return f"{module}:{name}" if attrgetter(name)(import_module(module)) is value else ""
    except Exception:  # nothing of this name, or a module that cannot be imported
        return ""


def _built_in(name: str) -> Any:
    """The value that the built-ins export by a name; None without."""
    return getattr(import_module(_BUILT_INS), name, None)


# Reading


def _check_keys(place: str, table: object, known: Collection[str]) -> None:
    """Refuse an unknown key, which would be lost."""
    if not isinstance(table, dict):
        raise ArgumentError(place, f"must be a table, got {describe(table)}.", "Write [[tools]].")
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known, f"It takes {', '.join(known)}.")
            raise ArgumentError(place, f"has {key!r}, which is unknown.", hint)


@dataclass(slots=True)
class _Reader:
    """Middleware and values of the tables of a file."""

    code: dict[str, Any]
    keys: set[str] = field(default_factory=set)
    place: str = ""

    def member(self, entry: Any, place: str = "") -> AgentMiddleware[Any, Any]:
        """The middleware of an entry."""
        kind = entry.get("class", entry.get("code")) if isinstance(entry, dict) else None
        self.place = f"{place} ({kind})"
        if not isinstance(kind, str):
            raise self.error("names neither a class nor code.", 'Write class = "module:Class".')
        keys = ("class", "settings", "name", "unread") if "class" in entry else ("code", "is")
        _check_keys(self.place, entry, keys)
        if "class" not in entry:
            if isinstance(member := self.passed(kind), AgentMiddleware):
                return member
            raise self.error(f"needs a middleware as code[{kind!r}], got {describe(member)}.")
        for table in ("settings", "unread"):
            if not isinstance(entry.get(table, {}), dict):
                reason = f"must have a table as {table}, got {describe(entry[table])}."
                raise self.error(reason, f"Write [middleware.{table}].")
        cls = self.middleware_class(kind)
        settings, names = entry.get("settings", {}), [*inspect.signature(cls.__init__).parameters]
        _check_keys(f"{self.place}, settings", {**settings, **entry.get("unread", {})}, names[1:])
        values = {name: self.value(value, name) for name, value in settings.items()}
        for name, key in entry.get("unread", {}).items():
            if (value := self.passed(key, may_be_none=True)) is not None:
                values[name] = value
        if "name" in entry and "name" not in names:
            hint = "Leave it out, or add `name` to its constructor."
            raise self.error(f"has the name {entry['name']!r}, and its class takes none.", hint)
        values |= {"name": entry["name"]} if "name" in entry else {}
        return cast("AgentMiddleware[Any, Any]", self.built(cls, values, ""))

    def middleware_class(self, path: str) -> Any:
        """The class of a path, if the class is a middleware."""
        module, _, name = path.partition(":")
        try:
            cls = attrgetter(name)(import_module(module))
        except (ImportError, AttributeError, ValueError) as error:
            raise self.error(f"cannot be imported: {error}.", "Correct its class.") from None
        if not inspect.isclass(cls) or not issubclass(cls, AgentMiddleware):
            reason = "is not a class of middleware, so it is not called."
            raise self.error(reason, 'Write class = "module:Class" of a middleware.')
        return cls

    def value(self, data: Any, path: str) -> Any:
        """A value from its data."""
        match data:
            case list():
                return [self.value(item, f"{path}.{n}") for n, item in enumerate(data)]
            case {"class": name, **fields}:
                if name in _VALUES:
                    cls = _built_in(name)
                    _check_keys(f"{self.place}, {path}", fields, inspect.signature(cls).parameters)
                    return self.built(cls, self.table(fields, path), f" {path}")
                hint = f"A file may hold {', '.join(_VALUES)}."
                raise self.error(f"has {name!r} as {path}.", hint)
            case {"code": key, **rest} if rest.keys() <= {"is"}:
                return self.passed(key)
            case {"none": True} if len(data) == 1:
                return None
            case {"path": text} if len(data) == 1:
                return Path(str(text))
            case {"tuple": list(items)} if len(data) == 1:
                return tuple(self.value(items, path))
            case {"dict": dict(table)} if len(data) == 1:
                return self.table(table, path)
            case dict() if marks := _MARKS & data.keys():
                hint = "Write { dict = { ... } } for a table with this key."
                raise self.error(f"has {min(marks)!r} with other keys or values as {path}.", hint)
        return self.table(data, path) if isinstance(data, dict) else data

    def table(self, data: Mapping[Any, Any], path: str) -> dict[str, Any]:
        """The values of a table."""
        return {key: self.value(item, f"{path}.{key}") for key, item in data.items()}

    def built(self, cls: Any, values: dict[str, Any], what: str) -> Any:
        """An instance of a class."""
        args: list[Any] = []
        parameters = inspect.signature(cls).parameters
        for index, (name, parameter) in enumerate(parameters.items()):
            if parameter.kind is parameter.VAR_POSITIONAL and name in values:
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
        """Code from the caller."""
        if not isinstance(key, str):
            reason = f"names code by {describe(key)}, expected a text."
            raise self.error(reason, 'Write "module:name", or the key of a value in `code`.')
        self.keys.add(key)
        if key not in self.code:
            end = ", or None for the default." if may_be_none else "."
            raise self.error(f"needs {key!r}, which is code.", f"Pass code={{{key!r}: ...}}{end}")
        return self.code[key]

    def error(self, reason: str, hint: str = "") -> ArgumentError:
        return ArgumentError(self.place, reason, hint)
