"""Middleware written for LangChain's base class become members of a stack like any other.

They are recognised by that base among their classes, and LangChain is never imported. What a class
defines beyond that base is its hooks and layers. The rest of the engine does not know of them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from langgraph.config import get_config

from agent_factory.compat.conversion import (
    foreign_request,
    foreign_response,
    native_request,
    native_response,
)
from agent_factory.hooks.base import AgentMiddleware
from agent_factory.hooks.flows import then
from agent_factory.topology.model import Phase
from agent_factory.types import ModelRequest

Method = Callable[..., Any]


class ForeignMiddleware(Protocol):
    """A middleware of LangChain's base class, as far as a type checker has to know it."""

    @property
    def name(self) -> str:
        """The name its nodes and spans carry."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """As ours."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """As ours."""


AnyMiddleware = AgentMiddleware[Any, Any] | ForeignMiddleware
"""What a stack may hold."""

_HOOKS = (*Phase, *(f"a{phase}" for phase in Phase))
_MODEL_LAYERS = ("wrap_model_call", "awrap_model_call")
_SLOTS = (*_HOOKS, *_MODEL_LAYERS, "wrap_tool_call", "awrap_tool_call")


def foreign_base(kind: type[Any]) -> type[Any] | None:
    """LangChain's AgentMiddleware among the classes that a class derives from."""
    for base in kind.__mro__:
        if base.__name__ == "AgentMiddleware" and base.__module__.startswith("langchain.agents."):
            return base
    return None


def adapted(member: Any) -> Any:
    """A middleware of theirs as one of ours; anything else stays what it is."""
    return member if foreign_base(type(member)) is None else _kind_of(type(member))(member)


class LangChainAdapter(AgentMiddleware[Any, Any]):
    """A middleware of theirs as one of ours. Each has a class of its own, named as theirs is.

    Args:
        inner: The middleware.
    """

    def __init__(self, inner: Any) -> None:
        super().__init__(name=inner.name)
        self.inner = inner
        self.state_schema = inner.state_schema
        # Their base class has only some of these, and an __init__ need not have called it.
        self.tools = getattr(inner, "tools", None) or ()
        self.transformers = getattr(inner, "transformers", None) or ()
        self.trace_policy = getattr(inner, "trace_policy", None)


class _Slot:
    """A method of theirs where we look for one of ours.

    Args:
        name: The method's name, which is the same in both.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, member: LangChainAdapter | None, kind: type[Any]) -> Any:
        if member is None:
            return self
        method = getattr(member.inner, self._name)
        if self._name in _HOOKS:
            return _injected(method)
        # Tool calls are LangGraph's in both.
        return _translated(method, member) if self._name in _MODEL_LAYERS else method


_kinds: WeakKeyDictionary[type[Any], type[LangChainAdapter]] = WeakKeyDictionary()


def _kind_of(theirs: type[Any]) -> type[LangChainAdapter]:
    """A class of ours for a class of theirs, with the same names to derive from."""
    if theirs not in _kinds:
        base = foreign_base(theirs)
        assert base is not None  # only such classes come here
        bases = [_kind_of(b) for b in theirs.__bases__ if b is not base and issubclass(b, base)]
        slots = {name: _Slot(name) for name in _SLOTS if _defines(theirs, name, base)}
        about = {"__module__": theirs.__module__, "__doc__": theirs.__doc__}
        _kinds[theirs] = type(theirs.__name__, tuple(bases) or (LangChainAdapter,), about | slots)
    return _kinds[theirs]


def _defines(theirs: type[Any], name: str, base: type[Any]) -> bool:
    """Whether a class has a method of its own; one that derives from both families may not."""
    inherited = (getattr(base, name, None), getattr(AgentMiddleware, name))
    return not any(getattr(theirs, name, None) is method for method in inherited)


def _translated(method: Method, member: LangChainAdapter) -> Method:
    """Their model layer: it gets requests and responses of its own family, and we get ours."""
    base = foreign_base(type(member.inner))
    assert base is not None
    types = sys.modules[base.__module__]

    def layer(request: ModelRequest[Any], handler: Callable[[Any], Any]) -> Any:
        inward = _inward(request, handler, types)
        return then(method(foreign_request(request, types), inward), native_response)

    async def alayer(request: ModelRequest[Any], handler: Callable[[Any], Any]) -> Any:
        return await layer(request, handler)

    # The checks of a build tell the two apart.
    return wraps(method)(alayer if inspect.iscoroutinefunction(method) else layer)


def _inward(
    ours: ModelRequest[Any], handler: Callable[[Any], Any], types: ModuleType
) -> Callable[[Any], Any]:
    def inward(request: Any) -> Any:
        response = handler(native_request(request, ours))
        return then(response, lambda response: foreign_response(response, types))

    return inward


_INJECTED: dict[str, Callable[[Any], Any]] = {
    "runtime": lambda runtime: runtime,
    "config": lambda _: get_config(),
    "store": lambda runtime: runtime.store,
    "writer": lambda runtime: runtime.stream_writer,
}
"""What LangGraph gives to a node that names it among its parameters, and so to their hooks."""


def _injected(method: Method) -> Method:
    """Their hook, called with the state and with what it names beside it."""
    wanted = _wanted(method)
    if wanted is None or wanted == ["runtime"]:
        return method

    def hook(state: Any, runtime: Any) -> Any:
        return method(state, **{name: _INJECTED[name](runtime) for name in wanted})

    async def ahook(state: Any, runtime: Any) -> Any:
        return await hook(state, runtime)

    return _as(method, ahook if inspect.iscoroutinefunction(method) else hook)


def _as(method: Method, made: Method) -> Method:
    """A function with another one's name and declared jumps, and a signature of its own."""
    made = wraps(method)(made)
    del made.__wrapped__
    return made


def _wanted(method: Method) -> list[str] | None:
    """What a hook names beside the state; None where that does not suffice to call it."""
    try:
        signature = inspect.signature(method)
        wanted = [name for name in list(signature.parameters)[1:] if name in _INJECTED]
        signature.bind("state", **dict.fromkeys(wanted))
    except (TypeError, ValueError):
        return None
    return wanted
