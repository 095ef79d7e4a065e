"""Read the class of a middleware: its hooks and layers, and the mistakes in them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from operator import attrgetter
from types import FunctionType, MethodType
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary, ref

from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.types import TracePolicy
from typing_extensions import is_typeddict

from agent_factory.errors import ArgumentError, SpecError, describe
from agent_factory.hooks.base import (
    NODE_HOOKS,
    AgentMiddleware,
    FunctionMiddleware,
    Middleware,
)
from agent_factory.hooks.flows import FlowLayer, adrive, drive
from agent_factory.hooks.langchain_names import PRIVATE_METHODS
from agent_factory.hooks.ordering import Ordering, is_strings
from agent_factory.hooks.streams import stream_layer
from agent_factory.topology.declarations import Access, AccessKind, ToolGuard, UsageLimit
from agent_factory.topology.model import JUMPS, Call, Hook, Layer, Phase
from agent_factory.types import AgentState

DefinitionT = TypeVar("DefinitionT", Hook, Layer)

_WRAP = {Call.MODEL: "wrap_model_call", Call.TOOL: "wrap_tool_call"}
_FLOW = {Call.MODEL: "around_model", Call.TOOL: "around_tool"}
RUN_FLOW = "around_agent"
"""The flow around a whole run."""
STREAM_FLOW = "around_stream"
"""The flow of the chunks of an answer."""
_FLOWS = (*_FLOW.values(), STREAM_FLOW, RUN_FLOW)
"""The methods that have to be flows; a node hook may be a flow."""
_LAYER_NAMES = (*_FLOW.values(), *_WRAP.values(), *(f"a{name}" for name in _WRAP.values()))
_HOOK_ARGUMENTS = ("state", "runtime")
_ARGUMENTS = {
    **{phase.value: _HOOK_ARGUMENTS for phase in Phase},
    **dict.fromkeys(_WRAP.values(), ("request", "handler")),
}
_PAIRS = [(name, f"a{name}") for name in _ARGUMENTS]
"""The sync and the async form of each hook and wrap."""
_SLOTS = {
    **_ARGUMENTS,
    **{f"a{name}": arguments for name, arguments in _ARGUMENTS.items()},
    **dict.fromkeys((*_FLOW.values(), STREAM_FLOW), ("request",)),
    RUN_FLOW: ("state",),
}
"""Every method that an agent calls, with its arguments."""

# One attrgetter reads all slots in a single call, for each middleware of a build.
_functions_of: Callable[[type[object]], tuple[object, ...]] = attrgetter(*_SLOTS)
_NOT_DEFINED = dict(zip(_SLOTS, _functions_of(AgentMiddleware), strict=True))
"""The methods of the base class, which do nothing."""

_DECORATORS = {
    **{f"a{name}": name for name in _ARGUMENTS},
    **{_FLOW[call]: _WRAP[call] for call in _FLOW},
}
"""The decorators that make a method; each other method has a decorator of its name."""

_ATTRIBUTES: dict[str, tuple[type[object], ...]] = {
    "tools": (Sequence,),
    "transformers": (Sequence,),
    "trace_policy": (TracePolicy, type(None)),
    "ordering": (Ordering,),
    "guards": (Sequence,),
    "limits": (Sequence,),
    "needs_checkpointer": (bool,),
}
_NAMES = ("expected_tools", "unused", "kept_flows")
_ATTRIBUTE_NAMES = (*_ATTRIBUTES, "most_attempts", "message_guard", "state_schema", *_NAMES)
"""Every attribute of a middleware that a build reads, except for its name."""

_PREFIXES = ("before_", "after_", "wrap_", "around_")
_LOOKS_LIKE_A_HOOK = (*_PREFIXES, *(f"a{prefix}" for prefix in _PREFIXES))
_OTHER_NAMES = {
    "pre_model_hook": "before_model",
    "post_model_hook": "after_model",
    "modify_model_request": "wrap_model_call",
    "on_model_call": "wrap_model_call",
    **dict.fromkeys(
        (
            *("on_tool_call", "on_tool_start", "on_tool_end", "before_tool", "after_tool"),
            *("before_tools", "after_tools", "before_tool_call", "after_tool_call"),
        ),
        "wrap_tool_call",
    ),
}
"""Hooks of other agent builders, by the name of ours. A hook around tool calls is a layer."""


@dataclass(frozen=True, slots=True)
class Bound(Generic[DefinitionT]):
    """A hook or a layer of the plan with the functions that run it, sync and async."""

    definition: DefinitionT
    owner: Middleware
    func: Callable[..., Any] | None
    afunc: Callable[..., Any] | None


class _HookMethods(NamedTuple):
    """The methods of a hook, None for a missing method."""

    phase: Phase
    func: str | None
    afunc: str | None
    jumps: frozenset[str]


class _Mistake(NamedTuple):
    """An error in a method, or in several of a class."""

    kind: type[SpecError]
    method: str  # with a dot before it; empty for several
    reason: str
    hint: str
    code: str


class Methods(NamedTuple):
    """Methods that an agent calls, as the class of a middleware defines them.

    The value does not refer to the class or its functions, so that a cache does not keep them.
    """

    names: frozenset[str]
    hooks: tuple[_HookMethods, ...]  # in the order of a run
    mistakes: tuple[_Mistake, ...]


_classes: WeakKeyDictionary[object, tuple[tuple[ref[object], ...], Methods]] = WeakKeyDictionary()
"""Methods by class, with their functions: reading takes longer than all other work of a build
with a class. Nothing refers to the class, which a request may have made."""


def methods_of(middleware: Middleware) -> Methods:
    """Read the methods of a middleware. A build reads them once, for the functions below."""
    cls = type(middleware)
    functions = _functions_of(cls)
    # Only plain functions of the class depend on the class alone. A property, or a method of the
    # instance, may differ for each instance, so its result is not cached.
    if {*map(type, functions)} == {FunctionType} and _SLOTS.keys().isdisjoint(vars(middleware)):
        # Weak references: a function may refer to its class, which is the key of the cache and
        # would never be freed.
        references = tuple(map(ref, functions))
        # A test, for example, may replace a method of a class that was read before.
        if (entry := _classes.get(cls)) is None or entry[0] != references:
            # The methods are examined and not called, so they may be bound to anything.
            methods = _read_methods(
                cls, functions, lambda name: MethodType(getattr(cls, name), cls)
            )
            entry = _classes[cls] = references, methods
        return entry[1]
    return _read_methods(cls, functions, partial(getattr, middleware))  # a property, for example


def _read_methods(
    cls: type[object],
    functions: tuple[object, ...],
    bind: Callable[[str], Callable[..., object] | None],
) -> Methods:
    # The function of the base class is compared and not the method: each access binds a new method.
    pairs = zip(_SLOTS, functions, strict=True)
    bound = {
        name: method
        for name, function in pairs
        # A class or a property may set a method to None, which counts as missing.
        if function is not _NOT_DEFINED[name] and (method := bind(name))
    }
    jumps = {name: _declared_jumps(cls, name, bound.get(name)) for name in _SLOTS}
    # Only the forms of the most derived class run: a run of the other kind must not go past an
    # override, to the form of a base class.
    for forms in _PAIRS:
        if len(both := [name for name in forms if name in bound]) == 2:
            definer = _definer(cls, *both).__dict__
            bound = {name: bound[name] for name in bound if name not in both or name in definer}
    hooks = []
    # Both forms are one hook, and a run of either kind may follow the jumps of both.
    for phase in Phase:
        names = (phase.value, f"a{phase.value}")
        func, afunc = (name if name in bound else None for name in names)
        if func or afunc:
            targets = frozenset(str(jump) for name in names for jump in jumps[name])
            hooks.append(_HookMethods(phase, func, afunc, targets))
    return Methods(frozenset(bound), tuple(hooks), tuple(_method_errors(cls, bound, jumps)))


def hooks_of(middleware: Middleware, methods: Methods | None = None) -> list[Bound[Hook]]:
    """Node hooks that the class of a middleware defines, in the order of a run."""
    hooks = []
    for phase, name, aname, jumps in (methods or methods_of(middleware)).hooks:
        if not (middleware.unused and _is_unused(middleware, phase, f"a{phase}")):
            func = inject(getattr(middleware, name)) if name else None
            afunc = inject(getattr(middleware, aname)) if aname else None
            hooks.append(Bound(Hook(middleware.name, phase, jumps), middleware, func, afunc))
    return hooks


def layers_of(middleware: Middleware, methods: Methods | None = None) -> list[Bound[Layer]]:
    """Layers that a middleware defines, each in the form of the most derived class.

    A flow of `kept_flows` is a layer outside of the wraps that override it.
    """
    layers: list[Bound[Layer]] = []
    attempts = middleware.most_attempts
    names = (methods or methods_of(middleware)).names
    for call, wrap in _WRAP.items():
        forms = (_FLOW[call], wrap, f"a{wrap}")
        if names.isdisjoint(forms) or _is_unused(middleware, *forms):
            continue
        flow, func, afunc = (getattr(middleware, name) if name in names else None for name in forms)
        method = wrap
        # The most derived class with any of the three forms decides which form runs.
        if _FLOW[call] in _definer(type(middleware), *forms).__dict__:
            assert flow is not None
            method, func, afunc = _FLOW[call], FlowLayer(flow, drive), FlowLayer(flow, adrive)
        elif flow and _FLOW[call] in middleware.kept_flows and _FLOW[call] not in middleware.unused:
            outer = Layer(middleware.name, call, _FLOW[call], attempts)
            layers.append(Bound(outer, middleware, FlowLayer(flow, drive), FlowLayer(flow, adrive)))
        layer = Layer(middleware.name, call, method, attempts)
        layers.append(Bound(layer, middleware, func, afunc))
    if STREAM_FLOW in names and not _is_unused(middleware, STREAM_FLOW):
        # A layer around the model, inside of the middleware's other layers: they see the chunks
        # that pass, and the flow sees the model that they choose.
        flow = partial(stream_layer, getattr(middleware, STREAM_FLOW))
        around_stream = Layer(middleware.name, Call.MODEL, STREAM_FLOW)
        layers.append(
            Bound(around_stream, middleware, FlowLayer(flow, drive), FlowLayer(flow, adrive))
        )
    if RUN_FLOW in names and not _is_unused(middleware, RUN_FLOW):
        around_run = Layer(middleware.name, Call.AGENT, RUN_FLOW)
        start = inject_run(getattr(middleware, RUN_FLOW))
        layers.append(Bound(around_run, middleware, start, start))
    return layers


def _definer(cls: type[object], *names: str) -> type[object]:
    """Return the most derived class with any of the names."""
    return next(base for base in cls.__mro__ if not base.__dict__.keys().isdisjoint(names))


def _is_unused(middleware: Middleware, *names: str) -> bool:
    """Return True if a middleware leaves a method out. An override of a subclass is used."""
    if not middleware.unused or set(names).isdisjoint(middleware.unused):
        return False
    # A class earlier in the order of resolution is more derived.
    mro = type(middleware).__mro__
    declares = _definer(type(middleware), "unused")
    # If no subclass has `unused` in its body, the instance has set it, and means all methods.
    set_by_instance = declares is AgentMiddleware
    return set_by_instance or mro.index(declares) <= mro.index(_definer(mro[0], *names))


_INJECTED: dict[str, Callable[[Any], object]] = {
    "runtime": lambda runtime: runtime,
    "config": lambda _: get_config(),
    "store": lambda runtime: runtime.store,
    "writer": lambda runtime: runtime.stream_writer,
}
"""Parameters by which LangGraph nodes, and therefore hooks, receive values."""


def inject(method: Callable[..., object]) -> Callable[..., object]:
    """Return a hook as a function of `(state, runtime)`, which passes the parameters of the hook.

    A method with other parameters is returned unchanged, so that a build reports its signature.
    """
    function = getattr(method, "__func__", None)
    code = getattr(function, "__code__", None)
    # The form of a flow passes its arguments on, and has the flow as `__wrapped__`.
    if code is not None and code.co_flags & inspect.CO_VARARGS:
        code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    if (
        code is not None
        and not code.co_kwonlyargcount
        and code.co_varnames[1 : code.co_argcount] == _HOOK_ARGUMENTS
    ):
        return method
    try:
        parameters = list(inspect.signature(method).parameters.values())
        names = [parameter.name for parameter in parameters[1:] if parameter.name in _INJECTED]
        inspect.signature(method).bind("state", **dict.fromkeys(names))
    except (TypeError, ValueError):  # e.g. the runtime has another name
        return method
    # `*args` takes state and runtime by position, so nothing has to be passed by name.
    if parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return method

    def hook(state: object, runtime: object) -> Any:
        return method(state, **{name: _INJECTED[name](runtime) for name in names})

    async def ahook(state: object, runtime: object) -> object:
        return await hook(state, runtime)

    # A build tells sync from async by the function, so the wrapper must be of the same kind.
    return ahook if inspect.iscoroutinefunction(method) else hook


def declarations_of(members: Iterable[Middleware]) -> dict[str, list[Any]]:
    """Guards, limits and accesses of middleware, as the fields of a shape."""
    kinds = ("guards", "limits", "accesses", "ledgers", "idle_guards")
    declared: dict[str, list[Any]] = {kind: [] for kind in kinds}
    for member in members:
        defines_guards = type(member).guards is not AgentMiddleware.guards
        if not member.guards and (defines_guards or "guards" in vars(member)):
            declared["idle_guards"].append(member.name)
        if (ledger := getattr(member, "ledger", None)) is not None:
            declared["ledgers"].append((member.name, id(ledger)))
        for name, kind in (("guards", ToolGuard), ("limits", UsageLimit)):
            for item in getattr(member, name):
                if isinstance(item, kind):  # anything else has been reported
                    if isinstance(item, UsageLimit):
                        item = replace(item, attempts=member.counts_attempts)
                    declared[name].append(replace(item, owner=member.name))
        # A value of another type has been reported, and most middleware have the default.
        if isinstance(member.ordering, Ordering) and member.ordering != AgentMiddleware.ordering:
            # The kinds of access are named as the fields of an ordering.
            for access in AccessKind:
                if aspects := getattr(member.ordering, access):
                    parts = tuple(sorted(aspects))
                    declared["accesses"].append(Access(member.name, access, parts))
    return declared


RUN_INJECTED = ("runtime", "config", "store", "resumed")
"""Parameters by which a flow around a run receives values."""


def inject_run(method: Callable[..., object]) -> Callable[..., object]:
    """Return a flow around a run as a function of the state, with the named parameters it takes.

    A method with other parameters is returned unchanged, so that a build reports its signature.
    """
    try:
        signature = inspect.signature(method)
        # Parameters of other names stay out, so that `bind` fails for a parameter without a
        # default.
        names = [name for name in [*signature.parameters][1:] if name in RUN_INJECTED]
        signature.bind("state", **dict.fromkeys(names))
    except (TypeError, ValueError):
        return method

    def start(state: object, **values: Any) -> object:
        return method(state, **{name: values[name] for name in names if name in values})

    return start


def is_empty(middleware: Middleware) -> bool:
    """Return True if a middleware defines nothing for an agent, and misspells nothing."""
    _, base = _written(middleware)
    for name in _ATTRIBUTE_NAMES:
        defaults = (getattr(AgentMiddleware, name), getattr(base, name, None))
        if (value := getattr(middleware, name)) and not any(
            value is default for default in defaults
        ):
            return False
    return not methods_of(middleware).names and not _misspelt(middleware)


def _written(middleware: Middleware) -> tuple[type[object], type[object]]:
    """Return the class that an author wrote, and its base class of middleware."""
    # An adapter of a LangChain middleware has the class of its author, and LangChain's base.
    return getattr(middleware, "_class_and_base", None) or (type(middleware), AgentMiddleware)


def _declared_jumps(cls: type[object], name: str, method: object) -> list[object]:
    """The jumps of a method, and of the methods it overrides: it may return their updates."""
    jumps: list[object] = []
    originals = [base.__dict__[name] for base in cls.__mro__[1:] if name in base.__dict__]
    for source in (method, *originals):
        targets = getattr(source, "__can_jump_to__", ())
        # A string is a single wrong value, not a wrong value for each letter.
        several = isinstance(targets, list | tuple | set | frozenset)
        jumps += targets if several else [targets]
    return jumps


def validate_middleware(
    middleware: Middleware, methods: Methods | None = None
) -> Iterator[SpecError]:
    """Yield an error for each faulty attribute and method of a middleware."""
    yield from _attribute_errors(middleware)
    yield from _name_errors(middleware)
    for kind, method, reason, hint, code in (methods or methods_of(middleware)).mistakes:
        yield kind(f"{middleware.name}{method}", reason, hint, code=code)


def _method_errors(
    cls: type[object], bound: Mapping[str, Callable[..., object]], jumps: Mapping[str, list[object]]
) -> Iterator[_Mistake]:
    for call, flow in _FLOW.items():
        names = (_WRAP[call], f"a{_WRAP[call]}")
        # A subclass may override either form; only a class with both is ambiguous.
        members = _definer(cls, flow, *names).__dict__
        both = [name for name in names if name in members]
        if both and flow in members and flow in bound:
            reason = f"defines both {flow} and {' and '.join(both)} for the same call."
            hint = f"Keep {flow} only; it works in sync and async runs."
            yield _Mistake(SpecError, "", reason, hint, "AF108")
    for hook in NODE_HOOKS:
        # Of a flow alone, the class has made both forms.
        if f"a{hook}" in bound and inspect.isgeneratorfunction(bound.get(hook)):
            reason = f"defines a{hook} next to {hook}, a flow that async runs use as well."
            hint = f"Keep {hook} only; it works in sync and async runs."
            yield _Mistake(SpecError, "", reason, hint, "AF108")
            bound = {name: method for name, method in bound.items() if name != hook}
    for name, arguments in _SLOTS.items():
        if (method := bound.get(name)) is None:
            continue
        if wrong_mode := _mode_error(name, method):
            yield _Mistake(ArgumentError, f".{name}", *wrong_mode, "AF107")
        function = inject(method) if arguments == _HOOK_ARGUMENTS else method
        function = inject_run(method) if name == RUN_FLOW else function
        if wrong_signature := _signature_error(name, arguments, function):
            reason, hint = wrong_signature
            if issubclass(cls, FunctionMiddleware):
                hint = f"Write `def {cls.__name__}({', '.join(arguments)})`."
            yield _Mistake(ArgumentError, f".{name}", reason, hint, "AF106")
        for jump in jumps[name]:
            if jump not in JUMPS:
                hint = f"A hook can jump to {', '.join(map(repr, JUMPS))}."
                reason = f"declares a jump to {describe(jump)}."
                yield _Mistake(SpecError, f".{name}", reason, hint, "AF110")


def _attribute_errors(middleware: Middleware) -> Iterator[SpecError]:
    owner = type(middleware).__name__
    for name, kinds in _ATTRIBUTES.items():
        value = getattr(middleware, name)
        if not isinstance(value, kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            reason = f"must be {expected}, got {describe(value)}."
            # A method would be true wherever the flag is read, whatever its result.
            hint = f"Decorate `def {name}` with @property." if inspect.ismethod(value) else ""
            yield ArgumentError(f"{owner}.{name}", reason, hint)
    if type(most := middleware.most_attempts) is not int or most < 1:
        reason = f"must be a whole number of at least 1, got {describe(most)}."
        yield ArgumentError(f"{owner}.most_attempts", reason)
    for name, kind in (("guards", ToolGuard), ("limits", UsageLimit)):
        for item in value if isinstance(value := getattr(middleware, name), Sequence) else ():
            if not isinstance(item, kind):
                reason = f"must contain only {kind.__name__}, got {describe(item)}."
                yield ArgumentError(f"{owner}.{name}", reason)
    for name in _NAMES:
        value = getattr(middleware, name)
        if value != () and not is_strings(value):  # () is the default, in nearly every class
            reason = f"must be a tuple of strings, got {describe(value)}."
            yield ArgumentError(f"{owner}.{name}", reason)
            return
    # Reached only if `unused` holds strings: anything else has been reported above.
    for name in sorted(set(middleware.unused) - _SLOTS.keys()) if middleware.unused else ():
        reason = f"contains {name!r}, which is not a hook, a layer or a flow."
        hint = f"It can contain {', '.join([*_ARGUMENTS, *_FLOWS])}."
        yield SpecError(f"{middleware.name}.unused", reason, hint, code="AF105")


def _name_errors(middleware: Middleware) -> Iterator[SpecError]:
    """Yield an error for each name that looks like a hook and would never run."""
    for name in vars(middleware).keys() & _SLOTS.keys():
        yield SpecError(
            f"{middleware.name}.{name}",
            "is set on the instance, but hooks are read from the class: it would never run.",
            "Define it in the class."
            if name == RUN_FLOW
            else f"Define it in the class, or decorate a function with "
            f"{_DECORATORS.get(name, name)}.",
            code="AF105",
        )
    cls = type(middleware)
    for base in cls.__mro__[1:]:
        is_built_in = base.__module__.startswith("agent_factory.middleware")
        for name in PRIVATE_METHODS.get(base.__name__, "").split() if is_built_in else ():
            if hasattr(cls, name):
                methods = [m for m in (*NODE_HOOKS, *_FLOWS) if m in vars(base)]
                yield SpecError(
                    f"{middleware.name}.{name}",
                    f"is a method of LangChain's {base.__name__}, which agent_factory's does not "
                    "have, so it would never run.",
                    f"Override {' or '.join(methods)}, or use the arguments of the constructor: "
                    f"{', '.join([*inspect.signature(base).parameters])}. Give a helper another "
                    "name.",
                    code="AF105",
                )
    for name, suggestion in dict([*_misspelt(middleware), *_misnamed(middleware)]).items():
        reason, hint = "is not a hook, so it would never run.", f"Did you mean {suggestion}?"
        if suggestion in _ATTRIBUTE_NAMES:
            reason = "is not an attribute of a middleware, so nothing would read it."
        elif suggestion in ("wrap_tool_call", "awrap_tool_call") and "wrap" not in name.lower():
            hint += " It is around each call; the flow around_tool serves sync and async runs."
        hint += " Start the name of a helper with an underscore."
        yield SpecError(f"{middleware.name}.{name}", reason, hint, code="AF105")


def _misnamed(middleware: Middleware) -> Iterator[tuple[str, str]]:
    """Yield attributes with a value for another attribute, and the name of this attribute."""
    cls, _ = _written(middleware)
    # A class may keep its schema, or a tool for a layer, under another name too.
    if middleware.state_schema is AgentState:
        values = (*vars(cls).items(), *vars(middleware).items())
        for name, value in values:
            is_schema = isinstance(value, type) and is_typeddict(value) and value is not AgentState
            if is_schema and (name == "state" or "messages" in value.__annotations__):
                yield name, "state_schema"
    tool = vars(cls).get("tool")
    tools = tool if isinstance(tool, list | tuple) and tool else [tool]
    is_unread = not middleware.tools and all(isinstance(entry, BaseTool) for entry in tools)
    if is_unread and methods_of(middleware).names.isdisjoint(_LAYER_NAMES):
        yield "tool", "tools"


_names: WeakKeyDictionary[type[object], list[tuple[str, str]]] = WeakKeyDictionary()
"""Misspelt names by class: comparing names takes longer than all other checks of a class."""


def _misspelt(middleware: Middleware) -> list[tuple[str, str]]:
    """Return names of a class that resemble methods and attributes, and the intended names."""
    cls, base = _written(middleware)
    if (names := _names.get(cls)) is not None:
        return names
    names = _names[cls] = []
    for name in sorted(set(dir(cls)) - {*dir(AgentMiddleware), *dir(base)}):
        if suggestion := meant_by(name, is_method=callable(getattr(cls, name))):
            names.append((name, suggestion))
    return names


def meant_by(name: str, *, is_method: bool) -> str | None:
    """Return the hook, layer or attribute of a middleware that a name resembles, or None."""
    if name.startswith("_"):
        return None
    # `beforeModel` is the name in LangChain.js, and `async_...` a usual prefix.
    spelling = re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
    spelling = re.sub("^(async|a)_", "a", spelling)
    if spelling in _OTHER_NAMES:
        spelling = _OTHER_NAMES[spelling]
    elif spelling.startswith("a") and spelling[1:] in _OTHER_NAMES:
        spelling = f"a{_OTHER_NAMES[spelling[1:]]}"
    # `tool` is a common attribute, and 0.89 like `tools`.
    candidates, cutoff = list(_ATTRIBUTE_NAMES), 0.9
    if is_method and spelling.startswith(_LOOKS_LIKE_A_HOOK):
        candidates, cutoff = list(_SLOTS), 0.75
    return next(iter(get_close_matches(spelling, candidates, 1, cutoff)), None)


def _mode_error(name: str, method: Callable[..., object]) -> tuple[str, str] | None:
    """Return reason and hint for a sync method that is a coroutine function, and the like."""
    coroutine, generator = inspect.iscoroutinefunction(method), inspect.isgeneratorfunction(method)
    if name in _FLOWS:
        if not generator:
            hint = "Call the inner layer with `response = yield request`."
            if name == RUN_FLOW:
                hint = "Run the agent with `result = yield state`."
            if name == STREAM_FLOW:
                hint = "Receive a chunk with `chunk = yield NextChunk()`."
            return "must be a generator function.", hint
    elif generator or inspect.isasyncgenfunction(method):
        # A generator under the name of a node hook was not in the body of the class.
        flows = ", ".join((*NODE_HOOKS, *_FLOWS))
        return "is a generator function.", f"In the body of a class, these may be flows: {flows}."
    elif name in _ARGUMENTS:
        if coroutine:
            return "is a coroutine function, and sync runs call it.", f"Name it a{name}."
    # A callable object may return an awaitable without being a coroutine function.
    elif not coroutine and inspect.isfunction(getattr(method, "__func__", None)):
        hint = f"Use `async def`, or name it {name[1:]}."
        return "is not a coroutine function, and async runs await it.", hint
    return None


def _signature_error(
    name: str, arguments: tuple[str, ...], method: Callable[..., object]
) -> tuple[str, str] | None:
    """Return reason and hint for a method that does not accept what it is called with."""
    function = getattr(method, "__func__", None)
    code = getattr(function, "__code__", None)
    plain = not hasattr(function, "__wrapped__") and not hasattr(function, "__signature__")
    # Read the common case from the code object: inspect.signature takes much longer.
    if code and plain and (code.co_argcount, code.co_kwonlyargcount) == (len(arguments) + 1, 0):
        return None
    listing = ", ".join(arguments)
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError as error:
        reason = f"is called with ({listing}), but does not accept that: {error}."
        return reason, f"Write `def {name}(self, {listing})`."
    except ValueError:  # Some callables have no signature; only calling them would tell.
        return None
    return None


def sync_async_error(
    bound: Bound[Hook] | Bound[Layer], *, asynchronous: bool
) -> tuple[str, str, str]:
    """Return subject, reason and hint for a run in a mode that a method lacks."""
    definition, owner = bound.definition, type(bound.owner).__name__
    if isinstance(definition, Hook):
        name = definition.phase.value
        return (
            f"{owner}.a{name}",
            f'No synchronous function provided to "a{name}".',
            f"Define {name} as well, or run the agent with ainvoke or astream.",
        )
    missing, mode = definition.method, "synchronous"
    if asynchronous:
        missing, mode = f"a{missing}", "asynchronous"
    return (
        owner,
        f"has no {missing}, and this run is {mode}.",
        f"Define {missing}, or write {_FLOW[definition.call]}, which serves both.",
    )
