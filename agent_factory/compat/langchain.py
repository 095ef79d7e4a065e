"""Adapters for middleware that derive from LangChain's AgentMiddleware.

They are recognized by that base class, without importing LangChain. What a class defines beyond the
base becomes hooks and layers, so the rest of the library does not know about adapters.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from agent_factory.compat.conversion import (
    from_langchain_request,
    from_langchain_response,
    to_langchain_request,
    to_langchain_response,
)
from agent_factory.errors import BuildWarning
from agent_factory.hooks.base import AgentMiddleware, Middleware
from agent_factory.hooks.flows import then
from agent_factory.hooks.ordering import Ordering
from agent_factory.topology.declarations import GuardPlace, ToolGuard
from agent_factory.topology.model import Phase
from agent_factory.types import ModelRequest

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

Method = Callable[..., Any]


class LangChainMiddleware(Protocol):
    """Middleware of LangChain's base class, as far as type checkers need to know it."""

    @property
    def tools(self) -> Sequence[BaseTool]:
        """The tools. This library's middleware may have functions and dicts, so no type matches."""

    @property
    def name(self) -> str:
        """Name of nodes and spans."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Wrap each model call."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Wrap each tool call."""


AnyMiddleware = Middleware | LangChainMiddleware
"""Member of a stack."""

_HOOKS = (*Phase, *(f"a{phase}" for phase in Phase))
_MODEL_LAYERS = ("wrap_model_call", "awrap_model_call")
_METHODS = (*_HOOKS, *_MODEL_LAYERS, "wrap_tool_call", "awrap_tool_call")


def langchain_base(cls: type[object]) -> type[object] | None:
    """Return LangChain's AgentMiddleware if among the bases of a class."""
    for base in cls.__mro__:
        if base.__name__ == "AgentMiddleware" and base.__module__.startswith("langchain.agents."):
            return base
    return None


def from_langchain_middleware(member: object) -> Any:
    """Wrap a LangChain middleware in an adapter; return anything else unchanged."""
    if langchain_base(type(member)) is None:
        return member
    return _adapter_class(type(member))(member)


GUARD_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "FilesystemFileSearchMiddleware": ("root_path",),
    "ModelCallLimitMiddleware": ("thread_limit", "run_limit", "exit_behavior"),
    "PIIMiddleware": (
        *("pii_type", "strategy", "detector"),
        *("apply_to_input", "apply_to_output", "apply_to_tool_results"),
    ),
    "ToolCallLimitMiddleware": ("tool_name", "thread_limit", "run_limit", "exit_behavior"),
    "ToolRetryMiddleware": ("retry_on",),
}
"""Settings of LangChain's built-ins that guard or limit, and that no declaration has."""

_DECISIONS = {"approve", "edit", "reject", "respond"}


def _review_guards(review: Any) -> tuple[ToolGuard, ...]:
    """The guards of LangChain's HumanInTheLoopMiddleware."""
    # About a turn it asks in a hook, which a jump to the tools bypasses; about one call in a layer.
    # The layer also carries out edits of people in the hook.
    in_layer = getattr(review, "interrupt_mode", "batched") == "per_call"
    place: GuardPlace = "around_tool" if in_layer else "after_model"
    guards = []
    for tool, config in getattr(review, "interrupt_on", {}).items():
        when, decisions = config.get("when"), set(config["allowed_decisions"])
        calls = f"{getattr(when, '__name__', type(when).__name__)}()" if when else ""
        some = () if decisions >= _DECISIONS else tuple(sorted(decisions))
        options: dict[str, Any] = {"decisions": some, "decides_again": not in_layer}
        guards.append(ToolGuard(tool, "ask", calls, place=place, **options))
    return tuple(guards)


class LangChainAdapter(AgentMiddleware[Any, Any]):
    """Base class of adapters. Each LangChain middleware class gets a subclass of the same name."""

    def __init__(self, inner: Any) -> None:
        # LangChain's `name` is a property, which a class may compute: read only once.
        super().__init__(name=inner.name)
        self.inner = inner
        # Hooks are read from the adapter's class, misspelt hooks from the class of the author.
        self._class_and_base = type(inner), langchain_base(type(inner))
        self.state_schema = inner.state_schema
        # LangChain's base class lacks some of these, and its __init__ need not have been called.
        self.tools = getattr(inner, "tools", None) or []
        self.transformers = getattr(inner, "transformers", None) or ()
        self.trace_policy = getattr(inner, "trace_policy", None)
        bases = [base for base in type(inner).__mro__ if base.__module__.startswith("langchain.")]
        names = [base.__name__ for base in bases]
        settings = (GUARD_SETTINGS[name] for name in names if name in GUARD_SETTINGS)
        self.guard_settings = getattr(inner, "guard_settings", next(settings, ()))
        # A subclass need not have called the constructor that sets the attributes.
        if "HumanInTheLoopMiddleware" in names:
            self.guards = _review_guards(inner)
            self.expected_tools = tuple(guard.tool for guard in self.guards)
            edits = any(not g.decisions or "edit" in g.decisions for g in self.guards)
            writes = ("tool_calls",) if edits else ()
            self.ordering = Ordering(reads=("tool_calls",), writes=writes)
        if "ModelFallbackMiddleware" in names:
            self.most_attempts = 1 + len(getattr(inner, "models", ()))
        if {"ModelRetryMiddleware", "ToolRetryMiddleware"} & {*names}:
            self.most_attempts = 1 + getattr(inner, "max_retries", 0)
        if "PIIMiddleware" in names:
            aspects = ("user_messages", "answers", "tool_results")
            places = ("apply_to_input", "apply_to_output", "apply_to_tool_results")
            applies = zip(aspects, (getattr(inner, place, False) for place in places), strict=True)
            self.ordering = Ordering(sanitizes=tuple(aspect for aspect, does in applies if does))
        if "ToolCallLimitMiddleware" in names and getattr(inner, "tool_name", None) is not None:
            self.expected_tools = (inner.tool_name,)

    def build_findings(self, tools: object) -> Iterator[BuildWarning]:
        """A review of no tool. A subclass may decide by anything."""
        if vars(self).get("guards") == () and type(self.inner).__module__.startswith("langchain."):
            hint = 'Name a tool, such as {"refund": True}, or remove it from the stack.'
            yield BuildWarning(
                self.name, "does nothing: it asks about no tool.", hint, code="AF212"
            )

    def adapted(self, name: str) -> Method:
        """Return a method of the inner middleware, adapted."""
        method: Method = getattr(self.inner, name)
        if name in _MODEL_LAYERS:
            return _adapt_model_layer(method, self)
        return method  # Hooks are the same, and requests of tool calls are LangGraph's own.


_adapter_classes: WeakKeyDictionary[type[Any], type[LangChainAdapter]] = WeakKeyDictionary()


def _adapter_class(cls: type[object]) -> type[LangChainAdapter]:
    """Return the adapter class of a middleware class, with adapted base classes."""
    if cls not in _adapter_classes:
        base = langchain_base(cls)
        assert base is not None
        # The bases are adapted under their names, by which an `Ordering` may mean them.
        parents = [b for b in cls.__bases__ if b is not base and issubclass(b, base)]
        members: dict[str, object] = {"__module__": cls.__module__, "__doc__": cls.__doc__}
        for name in _METHODS:
            # Only overrides: which form of a hook runs depends on the class that defines it. A
            # class may derive from our base as well, and inherit the method from there.
            inherited = [getattr(b, name, None) for b in (base, AgentMiddleware, *parents)]
            if not any(getattr(cls, name, None) is method for method in inherited):
                # A property, because a method is adapted for each instance.
                members[name] = property(methodcaller("adapted", name))
        bases = tuple(map(_adapter_class, parents)) or (LangChainAdapter,)
        _adapter_classes[cls] = type(cls.__name__, bases, members)
    return _adapter_classes[cls]


def _adapt_model_layer(method: Method, member: LangChainAdapter) -> Method:
    """Return a layer that converts requests and responses in both directions."""
    base = langchain_base(type(member.inner))
    assert base is not None
    types = sys.modules[base.__module__]

    def layer(request: ModelRequest[Any], handler: Callable[[Any], Any]) -> Any:
        def inner_handler(changed: object) -> object:
            response = handler(from_langchain_request(changed, request))
            return then(response, lambda response: to_langchain_response(response, types))

        result = method(to_langchain_request(request, types), inner_handler)
        return then(result, from_langchain_response)

    async def alayer(request: ModelRequest[Any], handler: Callable[[Any], object]) -> object:
        return await layer(request, handler)

    # A build checks whether a method is a coroutine function.
    return wraps(method)(alayer if inspect.iscoroutinefunction(method) else layer)
