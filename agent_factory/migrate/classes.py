"""Classes and hooks of a source that agent_factory would refuse, or never call."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

import libcst as cst

from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.introspection import meant_by
from agent_factory.migrate.bindings import Binding
from agent_factory.migrate.moves import AGENT, MIDDLEWARE, home_of
from agent_factory.migrate.source import Source, descendants, dotted
from agent_factory.migrate.values import Finding, Symbol
from agent_factory.topology.model import Phase

_HOOKS = {*map(str, Phase), *(f"a{phase}" for phase in Phase)}
_DECORATORS = {Symbol(MIDDLEWARE, str(phase)) for phase in Phase}
_NO_DICTS = {"BaseModel", "dataclass"}


@dataclass(frozen=True)
class Classes:
    """Classes and functions of a source, with the names of imports in agent_factory."""

    source: Source
    bindings: Sequence[Binding]

    def findings(self) -> Iterator[Finding]:
        """Yield the decisions about middleware classes, hooks and state schemas."""
        for cls in self.source.every(cst.ClassDef):
            if base := self._middleware_of(cls):
                names = {f.name.value for c in self._ancestors(cls) for f in _functions(c)}
                yield from _method_findings(self.source, cls, base, names)
        for typed in self.source.every(cst.Subscript):
            symbol = self._symbols.get(typed.value)
            if symbol and (base := _built_in(symbol)) and not getattr(base, "__parameters__", ()):
                text = self.source.text(typed)
                yield self.source.finding(typed, text, "no types", name=symbol.name)
        for schema in self._schemas:
            value = self.source.value_of(schema)
            if isinstance(value, cst.ClassDef) and not _NO_DICTS.isdisjoint(_marks(value)):
                what = f"state_schema={self.source.text(schema)}"
                yield self.source.finding(schema, what, "schema")
        for function in self.source.every(cst.FunctionDef):
            yield from self._hook_findings(function)

    @cached_property
    def _symbols(self) -> Mapping[cst.CSTNode, Symbol]:
        return {
            use.node: home
            for binding in self.bindings
            for use in binding.uses
            if use.symbol and (home := home_of(use.symbol))
        }

    @cached_property
    def _schemas(self) -> list[cst.BaseExpression]:
        """Values of every `state_schema`, as an argument or in a class."""
        arguments = self.source.every(cst.Arg)
        schemas = [
            arg.value for arg in arguments if arg.keyword and arg.keyword.value == "state_schema"
        ]
        for assign in self.source.every(cst.Assign):
            schemas += [assign.value for t in assign.targets if dotted(t.target) == "state_schema"]
        for field in self.source.every(cst.AnnAssign):
            if field.value and dotted(field.target) == "state_schema":
                schemas.append(field.value)
        return schemas

    @cached_property
    def _keys(self) -> set[str] | None:
        """The state keys of this source; None if other files may declare more."""
        classes = list(self.source.every(cst.ClassDef))
        calls = {call.func for call in self.source.every(cst.Call)}
        if not any(symbol == AGENT and node in calls for node, symbol in self._symbols.items()):
            return None
        symbols = set(self._symbols.values())
        names = {"AgentState", "MessagesState", "TypedDict", *(symbol.name for symbol in symbols)}
        names.update(cls.name.value for cls in classes)
        for schema in self._schemas:
            cls = self.source.value_of(schema)
            # A schema or a base from another file may declare any keys.
            if not isinstance(cls, cst.ClassDef) or not names.issuperset(_bases(cls)):
                return None
        keys = {dotted(f.target) for cls in classes for f in descendants(cls.body, cst.AnnAssign)}
        for symbol in symbols:  # a state schema, or a middleware with a schema
            value = getattr(import_module(symbol.module), symbol.name)
            schema = getattr(value, "state_schema", value)
            keys.update(getattr(schema, "__annotations__", ()))
        return keys | {"jump_to", "messages", "structured_response"}

    def _middleware_of(self, cls: cst.CSTNode | None) -> type[object] | None:
        """The middleware class of agent_factory among the bases of a class."""
        bases = [base for c in (cls, *self._ancestors(cls)) for base in _base_nodes(c)]
        classes = [_built_in(symbol) for base in bases if (symbol := self._symbols.get(base))]
        return next(filter(None, classes), None)

    def _ancestors(self, cls: cst.CSTNode | None) -> list[cst.CSTNode]:
        """The classes of the source among the bases of a class."""
        found = [*map(self.source.value_of, _base_nodes(cls))]
        for base in found:  # which grows
            more = map(self.source.value_of, _base_nodes(base))
            # Two classes of a source can derive from each other: Python fails only at run time.
            found += [value for value in more if value not in (cls, *found)]
        return found

    def _hook_findings(self, function: cst.FunctionDef) -> Iterator[Finding]:
        """The updates of a hook with errors in agent_factory."""
        # Around a method is the body of its class, and around the body the class.
        around = self.source.parent(self.source.parent(function) or function)
        base = self._middleware_of(around) if function.name.value in _HOOKS else None
        decorators = [decorator.decorator for decorator in function.decorators]
        calls = [node for node in decorators if isinstance(node, cst.Call)]
        names = {*decorators, *(call.func for call in calls)}
        if base is None and _DECORATORS.isdisjoint(map(self._symbols.get, names)):
            return
        jumps = "can_jump_to" in {a.keyword.value for c in calls for a in c.args if a.keyword}
        keys = self._keys
        for update in descendants(function.body, cst.Return):
            for item in update.value.elements if isinstance(update.value, cst.Dict) else ():
                if not isinstance(item, cst.DictElement) or not isinstance(
                    item.key, cst.SimpleString
                ):
                    continue
                key = item.key.raw_value
                if key == "jump_to" and not jumps and dotted(item.value) != "None":
                    yield self.source.finding(item, key, "jump")
                elif keys is not None and key not in keys:
                    yield self.source.finding(item, key, "state key")


def _built_in(symbol: Symbol) -> type[object] | None:
    """The middleware class of agent_factory with the name of a symbol."""
    value = getattr(import_module(symbol.module), symbol.name, None)
    is_class = isinstance(value, type) and issubclass(value, AgentMiddleware)
    return value if is_class and symbol.module == MIDDLEWARE else None


def _functions(cls: cst.CSTNode) -> list[cst.FunctionDef]:
    """The methods in the body of a class."""
    body = cls.body.body if isinstance(cls, cst.ClassDef) else ()
    return [node for node in body if isinstance(node, cst.FunctionDef)]


def _base_nodes(cls: cst.CSTNode | None) -> list[cst.BaseExpression]:
    """The base classes, without type arguments."""
    args = cls.bases if isinstance(cls, cst.ClassDef) else ()
    values = (arg.value for arg in args if arg.keyword is None)
    return [value.value if isinstance(value, cst.Subscript) else value for value in values]


def _bases(cls: cst.ClassDef) -> list[str]:
    """The last names of the base classes."""
    return [dotted(base).rpartition(".")[2] for base in _base_nodes(cls)]


def _marks(cls: cst.ClassDef) -> list[str]:
    """The last names of the base classes and the decorators."""
    nodes = (decorator.decorator for decorator in cls.decorators)
    names = (dotted(node.func if isinstance(node, cst.Call) else node) for node in nodes)
    return [*_bases(cls), *(name.rpartition(".")[2] for name in names)]


def _method_findings(
    source: Source, cls: cst.ClassDef, base: type[object], inherited: Collection[str]
) -> Iterator[Finding]:
    """The methods of a middleware class without a caller; `inherited` are methods of the source."""
    class_name = cls.name.value
    methods = {
        node.name.value: node.name
        for node in _functions(cls)
        if not any(dotted(d.decorator).endswith("property") for d in node.decorators)
    }
    for method, definition in methods.items():
        # Only names are compared, as a build does: a class of a source is never executed.
        if not hasattr(AgentMiddleware, method) and meant_by(method, is_method=True):
            what = f"{class_name}.{method}"
            yield source.finding(definition, what, "misspelt", name=method)
    # With several bases, a name may come from a foreign class.
    if base is AgentMiddleware or len(cls.bases) > 1:
        return
    accesses = [
        node
        for node in descendants(cls.body, cst.Attribute)
        if source.text(node.value) in ("self", "super()", "cls")
    ]
    assignments = {
        node.attr.value for node in accesses if isinstance(source.parent(node), cst.AssignTarget)
    }
    uses = {node.attr.value for node in accesses if source.text(node.value) != "super()"}
    private: list[tuple[str, cst.CSTNode]] = [
        (name, node) for name, node in methods.items() if name not in uses
    ]
    private += [
        (name, node)
        for node in accesses
        if (name := node.attr.value) not in assignments
        if source.text(node.value) == "super()" or name not in methods
    ]
    for name, node in private:
        is_known = name in inherited or hasattr(base, name)
        if name.startswith("_") and not name.startswith("__") and not is_known:
            yield source.finding(node, f"{class_name}.{name}", "private", name=base.__name__)
