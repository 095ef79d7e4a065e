"""Read a middleware once: its node hooks, its layers, their colours and the jumps they declare.

What looks like a hook and is none, or could not be called as one, is refused here by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

from langgraph.types import TracePolicy

from agent_factory.errors import ArgumentError, SpecError, describe
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.flows import FlowLayer, adrive, drive
from agent_factory.hooks.ordering import Ordering, are_texts
from agent_factory.topology.model import JUMPS, Call, Hook, Layer, Phase

DefinitionT = TypeVar("DefinitionT", Hook, Layer)

_WRAP = {Call.MODEL: "wrap_model_call", Call.TOOL: "wrap_tool_call"}
_FLOW = {Call.MODEL: "around_model", Call.TOOL: "around_tool"}
_ARGUMENTS = {
    **{phase.value: ("state", "runtime") for phase in Phase},
    **dict.fromkeys(_WRAP.values(), ("request", "handler")),
}
_SLOTS = {
    **_ARGUMENTS,
    **{f"a{name}": arguments for name, arguments in _ARGUMENTS.items()},
    **dict.fromkeys(_FLOW.values(), ("request",)),
}
"""Every method the engine calls, with the arguments it passes."""

_ATTRIBUTES: dict[str, tuple[type[Any], ...]] = {
    "tools": (Sequence,),
    "transformers": (Sequence,),
    "trace_policy": (TracePolicy, type(None)),
    "ordering": (Ordering,),
    "needs_checkpointer": (bool,),
}

_LOOKS_LIKE_A_HOOK = (
    "before_",
    "after_",
    "abefore_",
    "aafter_",
    "wrap_",
    "awrap_",
    "around_",
    "aaround_",
)


@dataclass(frozen=True, slots=True)
class Bound(Generic[DefinitionT]):
    """A hook or a layer of the plan with the functions that run it, sync and async.

    Args:
        definition: The hook or the layer.
        owner: The middleware it belongs to.
        func: Its sync function, or None.
        afunc: Its async function, or None.
    """

    definition: DefinitionT
    owner: AgentMiddleware[Any, Any]
    func: Callable[..., Any] | None
    afunc: Callable[..., Any] | None


def hooks_of(middleware: AgentMiddleware[Any, Any]) -> list[Bound[Hook]]:
    """The node hooks a middleware's class defines, in the order of a run."""
    found = []
    for phase in Phase:
        func, afunc = _method(middleware, phase), _method(middleware, f"a{phase}")
        if (func or afunc) and phase not in middleware.unused:
            jumps = frozenset(map(str, (*_declared_jumps(func), *_declared_jumps(afunc))))
            found.append(Bound(Hook(middleware.name, phase, jumps), middleware, func, afunc))
    return found


def layers_of(middleware: AgentMiddleware[Any, Any]) -> list[Bound[Layer]]:
    """The layers a middleware's class defines: its wraps and its flows."""
    found = (bound for call in Call for bound in _layer(middleware, call))
    return [bound for bound in found if bound.definition.method not in middleware.unused]


def _layer(middleware: AgentMiddleware[Any, Any], call: Call) -> Iterator[Bound[Layer]]:
    name = _WRAP[call]
    if flow := _method(middleware, _FLOW[call]):
        definition = Layer(middleware.name, call, _FLOW[call])
        yield Bound(definition, middleware, FlowLayer(flow, drive), FlowLayer(flow, adrive))
        return
    func, afunc = _method(middleware, name), _method(middleware, f"a{name}")
    if func or afunc:
        yield Bound(Layer(middleware.name, call, name), middleware, func, afunc)


def _method(middleware: AgentMiddleware[Any, Any], name: str) -> Callable[..., Any] | None:
    """The bound method, if the class has one of its own."""
    if getattr(type(middleware), name) is getattr(AgentMiddleware, name):
        return None
    method: Callable[..., Any] = getattr(middleware, name)
    return method


def _declared_jumps(method: Callable[..., Any] | None) -> list[Any]:
    declared = getattr(method, "__can_jump_to__", ())
    # Whatever else was given is one mistake, not one for each letter.
    return list(declared) if isinstance(declared, list | tuple | set | frozenset) else [declared]


def mistakes_of(middleware: AgentMiddleware[Any, Any]) -> Iterator[SpecError]:
    """Everything about a middleware's methods that could not work."""
    yield from _wrong_attributes(middleware)
    yield from _on_the_instance(middleware)
    yield from _misspelt(middleware)
    yield from _flow_and_wrap(middleware)
    for name, arguments in _SLOTS.items():
        if method := _method(middleware, name):
            subject = f"{middleware.name}.{name}"
            yield from _wrong_colour(subject, name, method)
            yield from _wrong_signature(subject, arguments, method)
            yield from _unknown_jumps(subject, method)


def _wrong_attributes(middleware: AgentMiddleware[Any, Any]) -> Iterator[SpecError]:
    for name, kinds in _ATTRIBUTES.items():
        value = getattr(middleware, name)
        if not isinstance(value, kinds):
            yield ArgumentError(
                f"{type(middleware).__name__}.{name}",
                f"is {describe(value)}.",
                f"Give {' or '.join(kind.__name__ for kind in kinds)}.",
            )
    for name in ("expected_tools", "unused"):
        if not are_texts(getattr(middleware, name)):
            yield ArgumentError(
                f"{type(middleware).__name__}.{name}",
                f"is {describe(getattr(middleware, name))}.",
                "Give a tuple of names.",
            )
            return
    for name in sorted(set(middleware.unused) - _SLOTS.keys()):
        yield SpecError(
            f"{middleware.name}.unused",
            f"leaves out {name!r}, which is no hook, layer or flow.",
            f"It can leave out {', '.join([*_ARGUMENTS, *_FLOW.values()])}.",
            code="AF105",
        )


def _on_the_instance(middleware: AgentMiddleware[Any, Any]) -> Iterator[SpecError]:
    for name in vars(middleware).keys() & _SLOTS.keys():
        yield SpecError(
            f"{middleware.name}.{name}",
            "is set on the instance, and hooks are read from the class: it would never run.",
            f"Define it in the class, or decorate a function with {name.removeprefix('a')}.",
            code="AF105",
        )


def _misspelt(middleware: AgentMiddleware[Any, Any]) -> Iterator[SpecError]:
    own = {name for cls in type(middleware).__mro__ for name in vars(cls)} - set(
        dir(AgentMiddleware)
    )
    for name in sorted(own):
        if name.startswith(_LOOKS_LIKE_A_HOOK) and callable(getattr(middleware, name, None)):
            for meant in get_close_matches(name, _SLOTS, n=1, cutoff=0.75):
                yield SpecError(
                    f"{middleware.name}.{name}",
                    "is not a hook, so it would never run.",
                    f"Did you mean {meant}? A helper of your own can start with an underscore.",
                    code="AF105",
                )


def _flow_and_wrap(middleware: AgentMiddleware[Any, Any]) -> Iterator[SpecError]:
    for call, flow in _FLOW.items():
        wraps = [n for n in (_WRAP[call], f"a{_WRAP[call]}") if _method(middleware, n)]
        if wraps and _method(middleware, flow):
            yield SpecError(
                middleware.name,
                f"defines both {flow} and {' and '.join(wraps)} for the same call.",
                f"Keep {flow} alone: it serves synchronous and asynchronous runs.",
                code="AF108",
            )


def _wrong_colour(subject: str, name: str, method: Callable[..., Any]) -> Iterator[SpecError]:
    twin = name[1:] if name.startswith("a") and name[1:] in _SLOTS else f"a{name}"
    coroutine = inspect.iscoroutinefunction(method)
    if name in _FLOW.values():
        if not inspect.isgeneratorfunction(method):
            yield ArgumentError(
                subject,
                "is not a generator, so there is nothing to drive.",
                "Call inward with `response = yield request`.",
                code="AF107",
            )
    elif inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        flows = " or ".join(_FLOW.values())
        yield ArgumentError(
            subject, "is a generator.", f"Only a flow is one: {flows}.", code="AF107"
        )
    elif name in _ARGUMENTS and coroutine:
        yield ArgumentError(
            subject, "is a coroutine in a synchronous slot.", f"Name it {twin}.", code="AF107"
        )
    elif (
        name not in _ARGUMENTS
        and not coroutine
        and inspect.isfunction(getattr(method, "__func__", None))
    ):
        yield ArgumentError(
            subject,
            "is no coroutine, and will be awaited.",
            f"Use `async def`, or name it {twin}.",
            code="AF107",
        )


def _wrong_signature(
    subject: str, arguments: tuple[str, ...], method: Callable[..., Any]
) -> Iterator[SpecError]:
    if _plainly_takes(method, len(arguments)):
        return
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError as error:
        yield ArgumentError(
            subject,
            f"is called with ({', '.join(arguments)}), and does not take that: {error}.",
            f"Write `def {subject.rpartition('.')[2]}(self, {', '.join(arguments)})`.",
            code="AF106",
        )
    except ValueError:  # a callable without a signature: only its call can tell
        return


def _plainly_takes(method: Any, count: int) -> bool:
    """Whether a method takes so many arguments, by a look at its code that costs nothing."""
    function = getattr(method, "__func__", None)
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__") or hasattr(function, "__signature__"):
        return False
    return bool(code.co_argcount == count + 1 and not code.co_kwonlyargcount)


def _unknown_jumps(subject: str, method: Callable[..., Any]) -> Iterator[SpecError]:
    for jump in _declared_jumps(method):
        if jump not in JUMPS:
            yield SpecError(
                subject,
                f"declares a jump to {describe(jump)}.",
                f"A hook can jump to {', '.join(map(repr, JUMPS))}.",
                code="AF110",
            )


def sync_async_error(bound: Bound[Any], *, asynchronous: bool) -> tuple[str, str, str]:
    """Culprit, reason and remedy where a run's colour meets a method that lacks it."""
    fact = bound.definition
    name = fact.phase.value if isinstance(fact, Hook) else fact.method
    kind = type(bound.owner).__name__
    if isinstance(fact, Hook):
        return (
            f"{kind}.a{name}",
            f'No synchronous function provided to "a{name}".',
            f"Define {name} as well, or run the agent with ainvoke or astream.",
        )
    missing, runs = (f"a{name}", "asynchronous") if asynchronous else (name, "synchronous")
    flow = "around_model" if fact.call is Call.MODEL else "around_tool"
    return (
        kind,
        f"has no {missing}, and this run is {runs}.",
        f"Define {missing}, or write {flow}, which serves both.",
    )
