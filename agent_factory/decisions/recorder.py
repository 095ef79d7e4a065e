"""Hooks, layers, routes and tools that record what they decide, each in its own colour."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Send

from agent_factory.decisions.classification import (
    Inward,
    classify_hook,
    classify_layer,
    classify_repair,
    classify_route,
    classify_tool,
    fields_of,
    make_decision,
)
from agent_factory.decisions.log import Decision, DecisionLog, Outcome, _reasons
from agent_factory.hooks.flows import is_awaitable
from agent_factory.hooks.introspection import Bound
from agent_factory.state.history import Repair
from agent_factory.topology.model import MODEL, TOOLS, Hook, Layer

Note = Callable[[Any, BaseException | None], Decision | None]
"""Reads a decision off what a call returned or raised."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a run something is decided.

    Args:
        runtime: The run, as LangGraph knows it.
        step: The super-step.
        config: Its config.
    """

    runtime: Runtime[Any] | None
    step: int = 0
    config: RunnableConfig | None = None


_place: ContextVar[Place | None] = ContextVar("place", default=None)


def here(runtime: Runtime[Any] | None = None) -> Place:
    """The place of the call under way.

    Args:
        runtime: What else is known of it.
    """
    config: RunnableConfig | None = var_child_runnable_config.get()
    if config is None:  # the context is lost, as in a thread that a layer started
        return _place.get() or Place(runtime)
    return Place(get_runtime(), config.get("metadata", {}).get("langgraph_step", 0), config)


@contextmanager
def _current(config: RunnableConfig | None) -> Iterator[None]:
    token = var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


@contextmanager
def _within(said: list[str] | None) -> Iterator[None]:
    """Reasons that are given inside are heard by this list, or by nobody."""
    before = _reasons.get()
    _reasons.set(said)
    try:
        yield
    finally:
        # Not by a token: a coroutine that is dropped may be closed in another context.
        _reasons.set(before)


@contextmanager
def _inward(place: Place) -> Iterator[None]:
    """Within a layer's call inward: the place stays known, and nobody speaks in its name."""
    before = _place.get()
    _place.set(place)
    try:
        with _within(None):
            yield
    finally:
        _place.set(before)


@dataclass(frozen=True, slots=True)
class _Running:
    """The call of a tool under way.

    Args:
        request: What was asked for.
        told: The types of the exceptions that the model was told of.
    """

    request: Any
    told: list[str]


_running: ContextVar[_Running | None] = ContextVar("running", default=None)


class DecisionRecorder:
    """Makes the parts of one agent record what they decide.

    Args:
        log: Where it goes.
        agent: The agent's name, or None.
    """

    REMEMBERED = 1024
    """How many jumps wait for their route; one whose route never comes is forgotten in time."""

    def __init__(self, log: DecisionLog, agent: str | None) -> None:
        self._log = log
        self._agent = agent or ""
        self._jumps: OrderedDict[str, str] = OrderedDict()

    # What is common to all

    def _tell(self, decision: Decision, place: Place, **known: Any) -> None:
        with _current(place.config):
            self._log.record(decision, place.runtime, step=place.step, agent=self._agent, **known)

    def _watched(self, note: Note, place: Place, call: Callable[[], Any]) -> Any:
        """Make a call in either colour, and record what it decided."""
        told = _Told(self, note, place)
        try:
            with _within(told.reasons):
                result = call()
        except BaseException as error:
            told(None, error)
            raise
        if is_awaitable(result):
            return self._watched_later(told, result)
        told(result, None)
        return result

    async def _watched_later(self, told: _Told, result: Awaitable[Any]) -> Any:
        try:
            with _within(told.reasons):
                value = await result
        except BaseException as error:
            told(None, error)
            raise
        told(value, None)
        return value

    # Hooks

    def hook(
        self, bound: Bound[Hook], finish: Callable[[Any, Any], Any], *, reasoned: bool
    ) -> Bound[Hook]:
        """The hook, recording what it decides.

        Args:
            bound: The hook.
            finish: What the node makes of a state and what the hook returned; raises where it
                refuses that.
            reasoned: Whether an update may say why; not where the state has such a key.
        """
        made = partial(self._hook, bound.definition, finish, reasoned)
        func, afunc = (method and made(method) for method in (bound.func, bound.afunc))
        return replace(bound, func=func, afunc=afunc)

    def _hook(
        self,
        definition: Hook,
        finish: Callable[[Any, Any], Any],
        reasoned: bool,
        method: Callable[[Any, Any], Any],
    ) -> Callable[[Any, Any], Any]:
        def watching(state: Any, runtime: Any) -> Any:
            note = partial(classify_hook, definition, partial(finish, state), reasoned)
            place = here(runtime)
            remembering = partial(self._remembering, note, place)
            return self._watched(remembering, place, partial(method, state, runtime))

        return watching

    def _remembering(
        self, note: Note, place: Place, result: Any, error: BaseException | None
    ) -> Decision | None:
        decision = note(result, error)
        if decision is not None and decision.outcome is Outcome.JUMPED:
            self._remember(place, f"jump to {decision.detail} by {decision.middleware}")
        return decision

    def _remember(self, place: Place, reason: str) -> None:
        if place.runtime is None or (info := place.runtime.execution_info) is None:
            return
        self._jumps[info.task_id] = reason
        if len(self._jumps) > self.REMEMBERED:
            self._jumps.popitem(last=False)

    def passing(
        self,
        owner: str,
        hook: str,
        pending_exit: Callable[[Any, Any], Any],
        why: Callable[[Any, Any], str],
    ) -> Callable[[Any, Any], Any]:
        """What a node hands on without working, recorded where there is something."""

        def watching(state: Any, rules: Any) -> Any:
            passed = pending_exit(state, rules)
            if passed:
                reason, place = why(state, rules), here()
                self._remember(place, reason)
                self._tell(make_decision(owner, hook, Outcome.SKIPPED, reason=reason), place)
            return passed

        return watching

    # Layers

    def layer(
        self, definition: Layer, method: Callable[[Any, Any], Any]
    ) -> Callable[[Any, Any], Any]:
        """A layer that records what it decides."""

        def watching(request: Any, handler: Callable[[Any], Any]) -> Any:
            place = here(request.runtime)
            inward = Inward(handler, partial(_inward, place))
            note = partial(classify_layer, definition, request, fields_of(request), inward)
            return self._watched(note, place, partial(method, request, inward))

        return watching

    # Tools

    def tools(self, wrap: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """All layers around a call of a tool, with the call itself recorded where it fails."""

        def watching(request: Any, execute: Callable[[Any], Any]) -> Any:
            # Left as it is at the end: ToolNode asks its handler after that, in this context.
            _running.set(_Running(request, []))
            return wrap(request, partial(self._execute, execute))

        return watching

    def _execute(self, execute: Callable[[Any], Any], request: Any) -> Any:
        running = _running.get()
        told = running.told if running else []
        note = partial(classify_tool, request, told, len(told))
        return self._watched(note, here(request.runtime), partial(execute, request))

    def handler(self, handler: Any) -> Any:
        """A handler of tools' errors, recording what it tells the model of."""
        if not callable(handler):
            return handler

        def watching(error: Exception) -> str:
            text: str = handler(error)
            self._told(type(error).__name__)
            return text

        return watching

    def _told(self, kind: str) -> None:
        request = None
        if running := _running.get():
            request = running.request
            running.told.append(kind)
        self._tell(make_decision("", TOOLS, Outcome.ERROR_REPORTED, kind, request=request), here())

    def refusing(
        self, refuse: Callable[[dict[str, Any]], ToolMessage]
    ) -> Callable[[dict[str, Any]], ToolMessage]:
        """What answers a call that cannot be read, recorded."""

        def watching(call: dict[str, Any]) -> ToolMessage:
            where = {"tool": str(call["name"]), "call_id": str(call["id"])}
            self._tell(
                make_decision("", TOOLS, Outcome.ERROR_REPORTED, "unreadable arguments", **where),
                here(),
            )
            return refuse(call)

        return watching

    # The model

    def repairing(self, repair: Callable[..., Repair | None]) -> Callable[..., Repair | None]:
        """A repair of histories, recorded where there was something to mend."""

        def watching(messages: Sequence[Any], start: int = 0) -> Repair | None:
            mended = repair(messages, start)
            if mended is not None:
                self._tell(classify_repair(messages, mended.messages), here())
            return mended

        return watching

    def explained(self, times: int) -> None:
        """The model is told what is wrong with its structured answer."""
        detail = f"{times} time{'s' * (times != 1)}"
        self._tell(make_decision("", MODEL, Outcome.EXPLAINED, detail), here())

    # Routes

    def route(
        self,
        source: str,
        choose: Callable[[Any], str | list[Send]],
        why: Callable[[Any, str, str], str],
    ) -> Callable[[Any, RunnableConfig | None], str | list[Send]]:
        """A route that records where it leads.

        Args:
            source: The node it leaves.
            choose: The decision.
            why: Its reason, from the state, the node that was chosen, and what is known of a jump.
        """

        def route(state: Any, config: RunnableConfig | None) -> str | list[Send]:
            # LangGraph hands the config to a route and does not make it current.
            with _current(config):
                place = here()
                note = partial(classify_route, source, partial(why, state), self._recall(place))
                chosen: str | list[Send] = self._watched(note, place, partial(choose, state))
            return chosen

        return route

    def _recall(self, place: Place) -> str:
        info = place.runtime.execution_info if place.runtime else None
        return self._jumps.pop(info.task_id, "") if info else ""


class _Told:
    """Records one decision, with how long it took and the reasons that were given on the way."""

    __slots__ = ("_note", "_place", "_start", "_watch", "reasons")

    def __init__(self, recorder: DecisionRecorder, note: Note, place: Place) -> None:
        self._watch = recorder
        self._note = note
        self._place = place
        self.reasons: list[str] = []
        self._start = perf_counter()

    def __call__(self, value: Any, error: BaseException | None) -> None:
        seconds = perf_counter() - self._start
        decision = self._note(value, error)
        if decision is None:
            return
        reason = self.reasons[-1] if self.reasons else decision.reason
        self._watch._tell(decision, self._place, seconds=seconds, reason=reason)


def recorder_for(log: DecisionLog | None, agent: str | None) -> DecisionRecorder | None:
    """What watches an agent; None where nothing is recorded."""
    return None if log is None else DecisionRecorder(log, agent)
