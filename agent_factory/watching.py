"""Hooks, layers and routes that record what they decide, each in its own colour."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from time import perf_counter
from typing import Any

from langchain_core.messages import RemoveMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.runtime import get_runtime
from langgraph.types import Command, Send

from agent_factory.decisions import REASON, Decision, DecisionLog, Verdict
from agent_factory.types import ExtendedModelResponse, ModelRequest

Noted = Callable[[Any, BaseException | None], Decision]
"""Reads a decision off what a call returned or raised."""


def watched(log: DecisionLog, note: Noted, call: Callable[[], Any]) -> Any:
    """Make a call in either colour, and record what it decided."""
    start = perf_counter()
    try:
        result = call()
    except BaseException as error:
        _told(log, note, start, None, error)
        raise
    if isawaitable(result):
        return _watched_later(log, note, start, result)
    _told(log, note, start, result, None)
    return result


async def _watched_later(
    log: DecisionLog, note: Noted, start: float, result: Awaitable[Any]
) -> Any:
    try:
        value = await result
    except BaseException as error:
        _told(log, note, start, None, error)
        raise
    _told(log, note, start, value, None)
    return value


def _told(
    log: DecisionLog, note: Noted, start: float, value: Any, error: BaseException | None
) -> None:
    noted = replace(note(value, error), seconds=perf_counter() - start)
    config = var_child_runnable_config.get()
    step = (config or {}).get("metadata", {}).get("langgraph_step", 0)
    log.record(noted, get_runtime() if config else None, step)


def _failed(error: BaseException) -> tuple[Verdict, str]:
    if isinstance(error, GraphInterrupt):
        return Verdict.INTERRUPTED, "waits for an answer"
    if isinstance(error, GraphBubbleUp):
        return Verdict.INTERRUPTED, "handed over"
    return Verdict.RAISED, type(error).__name__


def _noted(who: str, hook: str, verdict: Verdict, detail: str = "", **more: Any) -> Decision:
    return Decision("", None, 0, who, hook, verdict, detail, **more)


# Hooks


def watched_hook(
    log: DecisionLog, owner: str, hook: str, method: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """A node hook that records what it decides, in the colour of the hook."""
    note = partial(_note_hook, owner, hook)
    return lambda state, runtime: watched(log, note, partial(method, state, runtime))


def _note_hook(owner: str, hook: str, result: Any, error: BaseException | None) -> Decision:
    if error is not None:
        return _noted(owner, hook, *_failed(error))
    update = _update_of(result)
    more = {"reason": _reason_of(result, update), "changed": _changed(update), "contents": result}
    if jump := update.get("jump_to"):
        return _noted(owner, hook, Verdict.JUMPED, str(jump), **more)
    return _noted(owner, hook, Verdict.WROTE if update else Verdict.PASSED, **more)


def _update_of(result: Any) -> dict[str, Any]:
    if isinstance(result, Command):
        result = result.update
    try:
        return dict(result or {})
    except (TypeError, ValueError):  # no update at all: the node will say so
        return {}


def _reason_of(result: Any, update: Mapping[str, Any]) -> str:
    return str(getattr(result, "reason", "") or update.get(REASON, ""))


def _changed(update: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        _key(key, value) for key, value in update.items() if key not in (REASON, "jump_to")
    )


def _key(key: str, value: Any) -> str:
    if key != "messages":
        return key
    written = value if isinstance(value, list) else [value]
    removed = sum(isinstance(message, RemoveMessage) for message in written)
    return f"messages +{len(written) - removed} -{removed}"


# Layers


def watched_layer(
    log: DecisionLog, owner: str, method: str, layer: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """A layer that records what it decides, in the colour of the layer."""

    def watching(request: Any, handler: Callable[[Any], Any]) -> Any:
        inward = _Inward(handler)
        note = partial(_note_layer, owner, method, request, inward)
        return watched(log, note, partial(layer, request, inward))

    return watching


class _Inward:
    """The call inward, with what it was given and what came back."""

    def __init__(self, handler: Callable[[Any], Any]) -> None:
        self._handler = handler
        self.requests: list[Any] = []
        self.responses: list[Any] = []

    def __call__(self, request: Any) -> Any:
        self.requests.append(request)
        result = self._handler(request)
        if isawaitable(result):
            return self._later(result)
        self.responses.append(result)
        return result

    async def _later(self, result: Awaitable[Any]) -> Any:
        value = await result
        self.responses.append(value)
        return value


def _note_layer(
    owner: str,
    method: str,
    request: Any,
    inward: _Inward,
    result: Any,
    error: BaseException | None,
) -> Decision:
    subject = _subject(request)
    if error is not None:
        return _noted(owner, method, *_failed(error), subject=subject)
    command = result.command if isinstance(result, ExtendedModelResponse) else None
    changed = _changed(_update_of(command)) if command else ()
    verdict, detail = _layer_verdict(request, inward, result)
    more = {"subject": subject, "changed": changed, "contents": result}
    return _noted(owner, method, verdict, detail, **more)


def _layer_verdict(request: Any, inward: _Inward, result: Any) -> tuple[Verdict, str]:
    if not inward.requests:
        return Verdict.ANSWERED, ""
    if len(inward.requests) > 1:
        return Verdict.REPEATED, f"{len(inward.requests)} times"
    if fields := _differing(request, inward.requests[0]):
        return Verdict.CHANGED_REQUEST, ", ".join(fields)
    plain = result.model_response if isinstance(result, ExtendedModelResponse) else result
    if not any(plain is response for response in inward.responses):
        return Verdict.CHANGED_RESPONSE, ""
    return Verdict.PASSED, ""


def _differing(before: Any, after: Any) -> list[str]:
    """The fields in which two requests differ; what one layer did not touch is the same object."""
    if before is after:
        return []
    if isinstance(before, ModelRequest):
        old, new = vars(before), vars(after)
        return [field for field in old if old[field] is not new[field]]
    names = ("tool_call", "tool", "state", "runtime")
    return [n for n in names if getattr(before, n, None) is not getattr(after, n, None)]


def _subject(request: Any) -> str:
    call = getattr(request, "tool_call", None)
    return f"{call['name']} {call['id']}" if call else ""


# Routes


def watched_route(
    log: DecisionLog,
    source: str,
    choose: Callable[[Any], str | list[Send]],
    reasons: Mapping[str, str],
) -> Callable[[Any, RunnableConfig | None], str | list[Send]]:
    """A route that records where it leads.

    Args:
        log: The log.
        source: The node it leaves.
        choose: The decision.
        reasons: For each target, why it may be taken.
    """
    note = partial(_note_route, source, reasons)

    def route(state: Any, config: RunnableConfig | None) -> str | list[Send]:
        # LangGraph hands the config to a route and does not make it current.
        token = var_child_runnable_config.set(config)
        try:
            jump = state.get("jump_to")
            chosen: str | list[Send] = watched(log, partial(note, jump), partial(choose, state))
        finally:
            var_child_runnable_config.reset(token)
        return chosen

    return route


def _note_route(
    source: str,
    reasons: Mapping[str, str],
    jump: str | None,
    chosen: Any,
    error: BaseException | None,
) -> Decision:
    if error is not None:
        return _noted("", source, *_failed(error))
    sends: Sequence[Any] = chosen if isinstance(chosen, list) else []
    target = sends[0].node if sends else str(chosen)
    detail = f"{target} ({len(sends)} task{'s' * (len(sends) != 1)})" if sends else target
    reason = f"jump to {jump}" if jump else reasons.get(target, "")
    return _noted("", source, Verdict.ROUTED, detail, reason=reason)
