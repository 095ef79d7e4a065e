"""Classification: read decisions off the input and the result of a hook, layer, tool or route."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Required, TypedDict, cast

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolMessage
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from agent_factory.decisions.log import REASON, Outcome
from agent_factory.decisions.prefix.change import PrefixChange
from agent_factory.errors import BadReturn
from agent_factory.hooks.flows import RunPaused
from agent_factory.topology.model import MODEL, TOOLS, Layer
from agent_factory.types import ExtendedModelResponse, ModelRequest, ModelResponse


class DecisionFields(TypedDict, total=False):
    """Fields of a `Decision` about the decision itself, without the position in the run."""

    middleware: Required[str]
    hook: Required[str]
    outcome: Required[Outcome]
    detail: str
    reason: str
    tool: str
    call_id: str
    changed: tuple[str, ...]
    tokens: Mapping[str, int]
    calls: tuple[str, ...]
    contents: Any


def decision_fields(
    owner: str,
    hook: str,
    outcome: Outcome,
    detail: str = "",
    *,
    request: object = None,
    **more: object,
) -> DecisionFields:
    """Return the fields of a decision; `request` identifies the call of a tool."""
    call = getattr(request, "tool_call", None)
    if call:
        more |= {"tool": str(call["name"]), "call_id": str(call["id"] or "")}
    fields = {"middleware": owner, "hook": hook, "outcome": outcome, "detail": detail, **more}
    return cast("DecisionFields", fields)


def _failed(error: BaseException) -> tuple[Outcome, str]:
    # First: an interrupt is a GraphBubbleUp as well, as is a command to the parent graph.
    if isinstance(error, GraphInterrupt):
        return Outcome.INTERRUPTED, ""
    if isinstance(error, GraphBubbleUp):
        return Outcome.HANDED_OVER, ""
    return Outcome.RAISED, type(error).__name__


def classify_hook(
    owner: str,
    hook: str,
    finish: Callable[[object], object],
    reads_reason: bool,
    result: object,
    error: BaseException | None,
) -> DecisionFields:
    """Return the decision of a node hook; `finish` raises if the node refuses the result."""
    try:
        if error is None:
            finish(result)
    except Exception as refused:
        error = refused
    if error is not None:
        return decision_fields(owner, hook, *_failed(error), contents=error)
    if isinstance(result, Command) and result.graph is not None:
        return decision_fields(owner, hook, Outcome.HANDED_OVER, contents=result)
    update = _update_of(result)
    written_reason = update.pop(REASON, "") if reads_reason else ""
    reason = str(getattr(result, "reason", "") or written_reason)
    more: dict[str, Any] = {"reason": reason, "changed": _changed(update), "contents": result}
    if jump := update.get("jump_to"):
        return decision_fields(owner, hook, Outcome.JUMPED, str(jump), **more)
    return decision_fields(owner, hook, Outcome.WROTE if update else Outcome.PASSED, **more)


def _update_of(result: Any) -> dict[str, object]:
    return dict((result.update if isinstance(result, Command) else result) or {})


def _changed(update: Mapping[str, object]) -> tuple[str, ...]:
    changed = []
    for key, value in update.items():
        if key == "messages":
            messages = value if isinstance(value, list) else [value]
            removals = [message for message in messages if isinstance(message, RemoveMessage)]
            every = any(removal.id == REMOVE_ALL_MESSAGES for removal in removals)
            removal_count = "all" if every else len(removals)
            changed.append(f"messages +{len(messages) - len(removals)} -{removal_count}")
        elif key != "jump_to":
            changed.append(key)
    return tuple(changed)


@dataclass(slots=True)
class HandlerCalls:
    """The calls of a handler by a layer; `failed` if the last call raised."""

    requests: list[dict[str, object]] = field(default_factory=list)
    # In parts: a layer may change the list of a response.
    responses: list[list[object]] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    failed: bool = False

    def ended(self, result: object, error: BaseException | None) -> None:
        """Note the result or the exception of a call."""
        self.failed = error is not None
        if error is None:
            self.responses.append(_parts(result))
        else:
            self.errors.append(error)


def fields_of(request: object) -> dict[str, object]:
    """Return the fields of a request as they are now; some are set again later."""
    if isinstance(request, ModelRequest):
        return dict(vars(request))
    names = ("tool_call", "tool", "state", "runtime")
    return {name: getattr(request, name, None) for name in names}


def _parts(result: object) -> list[object]:
    """Return a layer's result in parts that compare equal in any wrapping."""
    if isinstance(result, ExtendedModelResponse):
        return _parts(result.model_response)
    if isinstance(result, ModelResponse):
        return [*result.result, result.structured_response]
    if isinstance(result, AIMessage):
        return [result, None]
    return list(result) if isinstance(result, list) else [result]


def _same(first: object, other: object) -> bool:
    if first is other:
        return True
    try:
        return bool(first == other)
    except Exception:  # an array, for example: a comparison of arrays has no truth value
        return False


def classify_layer(
    definition: Layer,
    request: object,
    before: Mapping[str, object],
    calls: HandlerCalls,
    result: object,
    error: BaseException | None,
) -> DecisionFields:
    """Return the decision of a layer; `before` has the fields of the given request."""
    owner, method = definition.owner, definition.method
    if error is not None:
        reason = "from within" if any(error is inner for inner in calls.errors) else ""
        more: dict[str, Any] = {"reason": reason, "contents": error}
        return decision_fields(owner, method, *_failed(error), request=request, **more)
    changed: tuple[str, ...] = ()
    if isinstance(result, ExtendedModelResponse) and isinstance(result.command, Command):
        with suppress(TypeError, ValueError):  # not an update: the model node raises BadReturn
            changed = _changed(_update_of(result.command))
    outcome, detail = _layer_outcome(before, calls, result)
    if changed and outcome is Outcome.PASSED:
        outcome = Outcome.WROTE
    more = {"changed": changed, "contents": result}
    return decision_fields(owner, method, outcome, detail, request=request, **more)


# Allowed results of a layer. Composition raises BadReturn for other results.
_LAYER_RESULTS = (ModelResponse, ExtendedModelResponse, AIMessage, ToolMessage, Command, list)


def _layer_outcome(
    before: Mapping[str, object], calls: HandlerCalls, result: object
) -> tuple[Outcome, str]:
    if not isinstance(result, _LAYER_RESULTS):
        return Outcome.RAISED, BadReturn.__name__
    if not calls.requests:
        return Outcome.ANSWERED, ""
    kinds = ", ".join(dict.fromkeys(type(error).__name__ for error in calls.errors))
    if calls.failed:
        return Outcome.RECOVERED, kinds
    parts = _parts(result)
    fields = [f for f in before if any(not _same(before[f], r[f]) for r in calls.requests)]
    if not any(_same(parts, response) for response in calls.responses):
        fields.append("response")
    if len(calls.requests) > 1:
        after = [f"after {kinds}"] if kinds else []
        return Outcome.REPEATED, ", ".join([f"{len(calls.requests)} times", *fields, *after])
    if fields == ["response"]:
        return Outcome.CHANGED_RESPONSE, ""
    return (Outcome.CHANGED_REQUEST, ", ".join(fields)) if fields else (Outcome.PASSED, "")


def classify_run_layer(
    definition: Layer, flow: Any, update: Mapping[str, object] | None
) -> DecisionFields:
    """Return the decision of a layer around a run; `flow` is a LayerFlow."""
    owner, method = definition.owner, definition.method
    signal = flow.signal
    if signal is not None and isinstance(signal.thrown, RunPaused):
        return decision_fields(owner, method, Outcome.INTERRUPTED)
    if (error := flow.error or (signal and signal.error)) is not None:
        reason = "from within" if error is flow.caught or signal is not None else ""
        return decision_fields(owner, method, *_failed(error), reason=reason, contents=error)
    more: dict[str, Any] = {"changed": _changed(update or {}), "contents": flow.returned}
    if flow.passed is None:
        return decision_fields(owner, method, Outcome.ANSWERED, **more)
    if flow.caught is not None:
        return decision_fields(owner, method, Outcome.RECOVERED, type(flow.caught).__name__, **more)
    before, after = flow.state, flow.passed
    fields = [key for key in after if key not in before or after[key] is not before[key]]
    if fields:
        return decision_fields(owner, method, Outcome.CHANGED_REQUEST, ", ".join(fields), **more)
    return decision_fields(owner, method, Outcome.WROTE if update else Outcome.PASSED, **more)


def classify_tool(
    request: Any,
    reported_errors: Sequence[str],
    before: int,
    result: object,
    error: BaseException | None,
) -> DecisionFields | None:
    """Return the failure of a tool call; None for a success, or if reported since `before`."""
    if error is not None:
        return decision_fields("", TOOLS, *_failed(error), request=request, contents=error)
    failed = isinstance(result, ToolMessage) and result.status == "error"
    if not failed or len(reported_errors) > before:
        return None
    detail = "" if request.tool else "unknown tool"
    more = {"request": request, "contents": result}
    return decision_fields("", TOOLS, Outcome.ERROR_REPORTED, detail, **more)


def classify_repair(before: Sequence[object], after: Sequence[object]) -> DecisionFields:
    """Return the repair of a history."""
    # By identity: a message may have no id, and a repair keeps the unchanged messages.
    old, new = ({id(message) for message in messages} for messages in (before, after))
    counts = Counter(added=len(new - old), removed=len(old - new))
    detail = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return decision_fields("", MODEL, Outcome.REPAIRED, detail or "reordered")


def messages_written(result: Any) -> list[object]:
    """Return the messages with an id, and removals, in the update of a hook, layer or tool."""
    update = result
    if isinstance(result, Command):
        update = result.update if result.graph is None else None
    pairs = update.items() if isinstance(update, Mapping) else update or ()  # may be pairs
    values: list[object] = []
    with suppress(TypeError, ValueError):  # not an update, which the node refuses
        for key, value in pairs:
            if key == "messages":
                values += value if isinstance(value, list) else [value]
    return [message for message in values if isinstance(message, BaseMessage) and message.id]


def classify_prefix(change: PrefixChange) -> DecisionFields:
    """Return the author of a change of the prefix, and the loss."""
    culprit, followers = change.culprit, ", ".join(change.followers)
    where = f"{change.text}, before what {followers} adds" if followers else change.text
    return decision_fields(
        culprit.middleware,
        culprit.hook,
        Outcome.CHANGED_PREFIX,
        f"{where}; about {change.lost:,} of {change.cached:,} cached tokens are lost",
        tool=culprit.tool,
        tokens={"lost": change.lost, "cached": change.cached},
    )


def classify_usage(answer: AIMessage) -> list[DecisionFields]:
    """Return the provider's report about the cache, in a list; empty without a report."""
    usage: Mapping[str, Any] = answer.usage_metadata or {}
    details = usage.get("input_token_details") or {}
    cache_tokens = {key: details[key] for key in ("cache_read", "cache_creation") if key in details}
    if not cache_tokens:
        return []
    tokens = {"input": usage["input_tokens"], **cache_tokens}
    detail = f"{cache_tokens.get('cache_read') or 0:,} of {tokens['input']:,} input tokens read"
    if created := cache_tokens.get("cache_creation"):
        detail += f", {created:,} written"
    return [decision_fields("", MODEL, Outcome.USED_CACHE, detail, tokens=tokens)]


def classify_route(
    source: str,
    why: Callable[[str, str], str],
    jump: str,
    choice: object,
    error: BaseException | None,
) -> DecisionFields:
    """Return the target of a route: a node, or tasks for a node."""
    if error is not None:
        return decision_fields("", source, *_failed(error), contents=error)
    target, detail = choice, str(choice)
    calls: list[Any] = []
    if isinstance(choice, list):
        for task in choice:  # of create_react_agent a task is a dict, with a single call
            calls += task.arg if isinstance(task.arg, list) else [task.arg["tool_call"]]
        target = choice[0].node
        detail = f"{target} ({len(choice)} task{'s' * (len(choice) != 1)})"
    more = {"reason": why(str(target), jump), "calls": tuple(str(call["name"]) for call in calls)}
    return decision_fields("", source, Outcome.ROUTED, detail, **more)
