"""What a hook, a layer, a tool or a route decided, read off what it was given and returned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from inspect import isawaitable
from typing import Any

from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from agent_factory.decisions.log import REASON, Decision, Outcome
from agent_factory.errors import BadReturn
from agent_factory.topology.model import MODEL, TOOLS, Hook, Layer
from agent_factory.types import ExtendedModelResponse, ModelRequest, ModelResponse


def make_decision(
    who: str, hook: str, outcome: Outcome, detail: str = "", *, request: Any = None, **more: Any
) -> Decision:
    """A decision, still without the place where it was made."""
    call = getattr(request, "tool_call", None)
    if call:
        more |= {"tool": str(call["name"]), "call_id": str(call["id"] or "")}
    return Decision("", None, 0, who, hook, outcome, detail, **more)


def _failed(error: BaseException) -> tuple[Outcome, str]:
    if isinstance(error, GraphInterrupt):
        return Outcome.INTERRUPTED, ""
    if isinstance(error, GraphBubbleUp):
        return Outcome.HANDED_OVER, ""
    return Outcome.RAISED, type(error).__name__


# Hooks


def classify_hook(
    definition: Hook,
    finish: Callable[[Any], Any],
    reasoned: bool,
    result: Any,
    error: BaseException | None,
) -> Decision:
    """What a node hook decided.

    Args:
        definition: The hook.
        finish: What the node makes of the result; raises where it refuses that.
        reasoned: Whether an update may say why.
        result: What it returned.
        error: What it raised.
    """
    owner, hook = definition.owner, str(definition.phase)
    try:
        if error is None:
            finish(result)
    except Exception as refused:
        error = refused
    if error is not None:
        return make_decision(owner, hook, *_failed(error), contents=error)
    if isinstance(result, Command) and result.graph is not None:
        return make_decision(owner, hook, Outcome.HANDED_OVER, contents=result)
    update = _update_of(result)
    said = update.pop(REASON, "") if reasoned else ""
    reason = str(getattr(result, "reason", "") or said)
    more: dict[str, Any] = {"reason": reason, "changed": _changed(update), "contents": result}
    if jump := update.get("jump_to"):
        return make_decision(owner, hook, Outcome.JUMPED, str(jump), **more)
    return make_decision(owner, hook, Outcome.WROTE if update else Outcome.PASSED, **more)


def _update_of(result: Any) -> dict[str, Any]:
    return dict((result.update if isinstance(result, Command) else result) or {})


def _changed(update: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(_key(key, value) for key, value in update.items() if key != "jump_to")


def _key(key: str, value: Any) -> str:
    if key != "messages":
        return key
    written = value if isinstance(value, list) else [value]
    removals = [message for message in written if isinstance(message, RemoveMessage)]
    every = any(removal.id == REMOVE_ALL_MESSAGES for removal in removals)
    return f"messages +{len(written) - len(removals)} -{'all' if every else len(removals)}"


# Layers


class Inward:
    """The call inward from a layer, with what it was given, what came back and what failed.

    Args:
        handler: The call.
        apart: Within it, what is called inward says nothing in the layer's name.
    """

    def __init__(
        self, handler: Callable[[Any], Any], apart: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        self._handler = handler
        self._apart = apart
        self.requests: list[dict[str, Any]] = []
        self.answers: list[list[Any]] = []
        self.errors: list[BaseException] = []
        self.failed = False

    def __call__(self, request: Any) -> Any:
        """Call inward."""
        self.requests.append(fields_of(request))
        try:
            with self._apart():
                result = self._handler(request)
        except BaseException as error:
            self._fail(error)
            raise
        if isawaitable(result):
            return self._later(result)
        self._keep(result)
        return result

    async def _later(self, result: Awaitable[Any]) -> Any:
        try:
            with self._apart():
                value = await result
        except BaseException as error:
            self._fail(error)
            raise
        self._keep(value)
        return value

    def _fail(self, error: BaseException) -> None:
        self.errors.append(error)
        self.failed = True

    def _keep(self, result: Any) -> None:
        # Its parts, since a layer may change the list it was given.
        self.answers.append(_parts(result))
        self.failed = False


def fields_of(request: Any) -> dict[str, Any]:
    """The fields of a request as they are now, whatever is set on it later."""
    if isinstance(request, ModelRequest):
        return dict(vars(request))
    names = ("tool_call", "tool", "state", "runtime")
    return {name: getattr(request, name, None) for name in names}


def _parts(result: Any) -> list[Any]:
    """What a layer gives, in parts to compare: it says the same however it is wrapped."""
    if isinstance(result, ExtendedModelResponse):
        return _parts(result.model_response)
    if isinstance(result, ModelResponse):
        return [*result.result, result.structured_response]
    if isinstance(result, AIMessage):
        return [result, None]
    return list(result) if isinstance(result, list) else [result]


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    try:
        return bool(one == other)
    except Exception:  # whatever it is, it cannot be compared
        return False


def classify_layer(
    definition: Layer,
    request: Any,
    before: Mapping[str, Any],
    inward: Inward,
    result: Any,
    error: BaseException | None,
) -> Decision:
    """What a layer decided.

    Args:
        definition: The layer.
        request: The request.
        before: Its fields as they were given.
        inward: What it called.
        result: What it returned.
        error: What it raised.
    """
    owner, method = definition.owner, definition.method
    if error is not None:
        reason = "from within" if any(error is inner for inner in inward.errors) else ""
        more: dict[str, Any] = {"reason": reason, "contents": error}
        return make_decision(owner, method, *_failed(error), request=request, **more)
    command = result.command if isinstance(result, ExtendedModelResponse) else None
    changed = _written(command)
    outcome, detail = _verdict(before, inward, result)
    if changed and outcome is Outcome.PASSED:
        outcome = Outcome.WROTE
    more = {"changed": changed, "contents": result}
    return make_decision(owner, method, outcome, detail, request=request, **more)


def _written(command: Any) -> tuple[str, ...]:
    try:
        return _changed(_update_of(command)) if isinstance(command, Command) else ()
    except (TypeError, ValueError):  # no update at all: the engine will say so
        return ()


_RETURNS = (ModelResponse, ExtendedModelResponse, AIMessage, ToolMessage, Command, list)
"""What a layer may return; anything else is refused where layers are composed."""


def _verdict(before: Mapping[str, Any], inward: Inward, result: Any) -> tuple[Outcome, str]:
    if not isinstance(result, _RETURNS):
        return Outcome.RAISED, BadReturn.__name__
    calls = len(inward.requests)
    if not calls:
        return Outcome.ANSWERED, ""
    kinds = ", ".join(dict.fromkeys(type(error).__name__ for error in inward.errors))
    if inward.failed:
        return Outcome.RECOVERED, kinds
    parts = _parts(result)
    fields = [f for f in before if any(not _same(before[f], r[f]) for r in inward.requests)]
    if not any(_same(parts, answer) for answer in inward.answers):
        fields.append("response")
    if calls > 1:
        after = [f"after {kinds}"] if kinds else []
        return Outcome.REPEATED, ", ".join([f"{calls} times", *fields, *after])
    if fields == ["response"]:
        return Outcome.CHANGED_RESPONSE, ""
    return (Outcome.CHANGED_REQUEST, ", ".join(fields)) if fields else (Outcome.PASSED, "")


# Tools


def classify_tool(
    request: Any, told: Sequence[str], before: int, result: Any, error: BaseException | None
) -> Decision | None:
    """What became of a tool's call; None where it went well, or was recorded already.

    Args:
        request: The call.
        told: The types of the exceptions that the model was told of.
        before: How many those were when it began.
        result: What it gave.
        error: What it raised.
    """
    if error is not None:
        return make_decision("", TOOLS, *_failed(error), request=request, contents=error)
    failed = isinstance(result, ToolMessage) and result.status == "error"
    if not failed or len(told) > before:
        return None
    detail = "" if request.tool else "unknown tool"
    return make_decision(
        "", TOOLS, Outcome.ERROR_REPORTED, detail, request=request, contents=result
    )


# The model, and routes


def classify_repair(before: Sequence[Any], after: Sequence[Any]) -> Decision:
    """How a history was mended."""
    old, new = ({id(message) for message in messages} for messages in (before, after))
    counts = Counter(added=len(new - old), removed=len(old - new))
    detail = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return make_decision("", MODEL, Outcome.REPAIRED, detail or "reordered")


def classify_route(
    source: str,
    why: Callable[[str, str], str],
    jump: str,
    chosen: Any,
    error: BaseException | None,
) -> Decision:
    """Where a route led.

    Args:
        source: The node it left.
        why: Its reason, from the node that was chosen and what is known of a jump.
        jump: What is known of a jump.
        chosen: A node, or tasks for one.
        error: What it raised.
    """
    if error is not None:
        return make_decision("", source, *_failed(error), contents=error)
    if not isinstance(chosen, list):
        return make_decision("", source, Outcome.ROUTED, str(chosen), reason=why(str(chosen), jump))
    target = chosen[0].node
    tasks = f"{len(chosen)} task{'s' * (len(chosen) != 1)}"
    return make_decision(
        "", source, Outcome.ROUTED, f"{target} ({tasks})", reason=why(target, jump)
    )
