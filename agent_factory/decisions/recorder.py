"""Recorders: wrap the hooks, layers, tools and routes of an agent, to log decisions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter, time
from typing import Any, NamedTuple, TypeVar

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command, Send

from agent_factory.decisions.classification import (
    DecisionFields,
    HandlerCalls,
    classify_hook,
    classify_layer,
    classify_prefix,
    classify_repair,
    classify_route,
    classify_run_layer,
    classify_tool,
    classify_usage,
    decision_fields,
    fields_of,
    messages_written,
)
from agent_factory.decisions.log import Author, Decision, DecisionLog, Outcome, author, place_in_run
from agent_factory.decisions.prefix.change import Culprit
from agent_factory.decisions.prefix.tracker import PrefixTracker, SentRequest, Trail
from agent_factory.hooks.flows import is_awaitable, then
from agent_factory.hooks.introspection import Bound
from agent_factory.state.history import Repair
from agent_factory.structured_output.strategies import Strategy
from agent_factory.topology.model import MODEL, TOOLS, Call, Hook, Layer
from agent_factory.types import setting as setting
from agent_factory.upstream import current_config, in_runtime, super_step

Choice = Callable[..., str | list[Send]]
"""Function of the state, and of the config if it needs that, that returns where a run continues."""

Method = Callable[[Any, Any], Any]
"""Function of a state or request, and of a runtime, rules or a handler."""

_T = TypeVar("_T")


class _Place(NamedTuple):
    """Place in a run where something is decided."""

    runtime: Runtime[Any] | None
    step: int = 0
    config: RunnableConfig | None = None


def _here(runtime: Runtime[Any] | None = None) -> _Place:
    config = current_config.get()
    if config is None:  # the context is lost, as in a thread of a layer
        return author.get().place or _Place(runtime)
    return _Place(get_runtime(), super_step(config), config)


OnEnd = Callable[[Any, BaseException | None], None]
"""Function of what a call has returned, or of the exception that it has raised."""


def _observe(
    place: _Place,
    reasons: list[str] | None,
    on_end: OnEnd,
    call: Callable[..., Any],
    *arguments: object,
) -> object:
    """Make a call, sync or async, and pass the result or the exception to `on_end`.

    In the call, `_here` knows the place without a context, and reasons are added to a list.
    """
    here = Author(place, reasons)
    try:
        with setting(author, here):
            result = call(*arguments)
    # Also a cancellation, which ends a call as an error does.
    except BaseException as error:
        on_end(None, error)
        raise
    if result is None or not is_awaitable(result):  # nearly each hook returns None
        on_end(result, None)
        return result

    async def awaited() -> object:
        with setting(author, here):
            return await result

    def finish(value: object) -> object:
        on_end(value, None)
        return value

    def fail(error: BaseException) -> object:
        on_end(None, error)
        raise error

    return then(awaited(), finish, fail)


Classify = Callable[[Any, BaseException | None], DecisionFields | None]
"""Function of a result, or of the exception in its place, that returns what was decided."""


@dataclass(frozen=True, slots=True)
class _ToolCall:
    """The running tool call, with the types of the exceptions reported to the model."""

    request: object
    reported_errors: list[str]


_tool_call: ContextVar[_ToolCall | None] = ContextVar("tool_call", default=None)

_trail: ContextVar[Trail | None] = ContextVar("trail", default=None)
"""The requests of the model call that is under way."""


class RunLayerRecord:
    """Records the decision of a layer around a run, if there is a log."""

    def __init__(
        self, definition: Layer, record: Callable[..., None] | None = None, place: Any = None
    ) -> None:
        self._definition, self._record, self._place = definition, record, place
        self._reasons: list[str] = []
        self._start = perf_counter()

    def advance(self, call: Callable[[object], _T], value: object) -> _T:
        """Call a method of the flow, which may give a reason."""
        if self._record is None:
            return call(value)
        with setting(author, Author(author.get().place, self._reasons)):
            return call(value)

    def ended(self, flow: object, update: Mapping[str, object] | None = None) -> None:
        """Record the decision of the flow, and the returned update."""
        if self._record is not None:
            fields = classify_run_layer(self._definition, flow, update)
            self._record(fields, self._place, perf_counter() - self._start, self._reasons)


class Recorder:
    """Wraps the parts of an agent, to log their decisions.

    Without a log each part is returned unchanged, so no node, layer or route asks for a log.
    """

    JUMPS = 1024
    """Maximum number of jumps whose route has not been recorded yet; the oldest is evicted."""

    def __init__(
        self,
        log: DecisionLog | None = None,
        agent: str | None = None,
        shown: Callable[[Any], Any] | None = None,
    ) -> None:
        self.enabled = log is not None
        self._shown = shown  # the function by which guards filter contents
        self._log = log
        self._agent = agent or ""
        self._jumps: OrderedDict[tuple[str, int], str] = OrderedDict()
        self._model_layers: dict[int, Culprit] = {}
        # Exact positions need the bytes of prompts, which only a log with contents may keep.
        self._prefixes = PrefixTracker(exact=log.contents) if log is not None else None

    def _record(
        self,
        fields: DecisionFields,
        place: _Place,
        seconds: float = 0.0,
        reasons: Sequence[str] = (),
    ) -> None:
        """Record a decision; the last reason of its author counts."""
        log = self._log
        assert log is not None  # parts without a record never get here
        if reasons:
            fields = {**fields, "reason": reasons[-1]}
        if not log.contents and "contents" in fields:
            fields = {**fields, "contents": None}
        elif self._shown is not None and "contents" in fields:
            fields = {**fields, "contents": self._shown(fields["contents"])}
        runtime, step, config = place
        run, thread, namespace = place_in_run(runtime)
        decision = Decision(
            run=run,
            thread=thread,
            step=step,
            seconds=seconds,
            agent=self._agent,
            namespace=namespace,
            at=time(),
            **fields,
        )
        # Where the context was lost, the log still finds the config of the call.
        if current_config.get() is config:
            log.send(decision)
        else:
            with setting(current_config, config):
                log.send(decision)

    def _recorded(
        self, classify: Classify, place: _Place, call: Callable[..., object], *arguments: object
    ) -> Any:
        """Make a call, sync or async, and record the decision from `classify`."""
        reasons: list[str] = []
        start = perf_counter()

        def ended(result: object, error: BaseException | None) -> None:
            seconds = perf_counter() - start
            if (fields := classify(result, error)) is not None:
                self._record(fields, place, seconds, reasons)

        return _observe(place, reasons, ended, call, *arguments)

    def hook(self, bound: Bound[Hook], finish: Method, *, reads_reason: bool) -> Bound[Hook]:
        """Return the hook, recorded; `finish` is the node's function of a state and a result."""
        if not self.enabled:
            return bound
        owner, name = bound.definition.owner, str(bound.definition.phase)
        # Made once: nearly each call of a hook passes.
        decision = decision_fields(owner, name, Outcome.PASSED)

        def classify(
            state: object, place: _Place, result: object, error: BaseException | None
        ) -> DecisionFields:
            if result is None and error is None:
                return decision
            finish_here = partial(finish, state)
            fields = classify_hook(owner, name, finish_here, reads_reason, result, error)
            if fields["outcome"] is Outcome.JUMPED:
                self._remember_jump(place, f"jump to {fields['detail']} by {owner}")
            if fields.get("changed"):
                self._note_edit(place, Culprit(owner, name), state, result)
            return fields

        def recorded(method: Method, state: object, runtime: Any) -> object:
            config = current_config.get()
            # A hook has a runtime at hand, which `_here` would look up for each call.
            place = _Place(runtime, super_step(config), config) if config else _here(runtime)
            return self._recorded(partial(classify, state, place), place, method, state, runtime)

        func, afunc = (f and partial(recorded, f) for f in (bound.func, bound.afunc))
        return replace(bound, func=func, afunc=afunc)

    def _note_edit(self, place: _Place, culprit: Culprit, state: Any, result: Any) -> None:
        """Note who changed or removed messages of the thread, if a result does so."""
        if (new_messages := messages_written(result)) and place.runtime is not None:
            assert self._prefixes is not None  # see `_record`
            messages = state.get("messages") or ()
            self._prefixes.edited(place.runtime, culprit, messages, new_messages)

    def _remember_jump(self, place: _Place, reason: str) -> None:
        if place.runtime is None or (info := place.runtime.execution_info) is None:
            return
        # By the step too: the nodes of a fused step may share a task.
        self._jumps[info.task_id, place.step] = reason
        if len(self._jumps) > self.JUMPS:
            self._jumps.popitem(last=False)

    def pending_exit(self, owner: str, hook: str, pending: Method, why: Method) -> Method:
        """Return the check for a pending exit, recorded when a node skips its work."""
        if not self.enabled:
            return pending

        def recorded(state: object, rules: object) -> object:
            if exits := pending(state, rules):
                reason, place = why(state, rules), _here()
                self._remember_jump(place, reason)
                self._record(decision_fields(owner, hook, Outcome.SKIPPED, reason=reason), place)
            return exits

        return recorded

    def layer(self, definition: Layer, method: Method, index: int) -> Method:
        """Return the layer, recorded; `index` is the position among the layers of its kind."""
        if not self.enabled:
            return method
        is_model = definition.call is Call.MODEL
        culprit = Culprit(definition.owner, definition.method)
        if is_model:
            self._model_layers[index] = culprit

        def recorded(request: Any, handler: Callable[[object], object]) -> object:
            place, calls, before = _here(request.runtime), HandlerCalls(), fields_of(request)

            def call_handler(request: Any) -> object:
                if is_model and (trail := _trail.get()) is not None:
                    trail.passed[index] = request
                calls.requests.append(fields_of(request))
                # Without a list: a reason from further in does not belong to this layer.
                return _observe(place, None, calls.ended, handler, request)

            def classify(result: object, error: BaseException | None) -> DecisionFields:
                command = getattr(result, "command", None)
                if is_model and command is not None:
                    self._note_edit(place, culprit, request.state, command)
                return classify_layer(definition, request, before, calls, result, error)

            return self._recorded(classify, place, method, request, call_handler)

        return recorded

    def run_layer(
        self, definition: Layer, runtime: Runtime[Any], config: RunnableConfig, **_: Any
    ) -> RunLayerRecord:
        """Return the recorder for a run of a layer around the agent, with the place."""
        if not self.enabled:
            return RunLayerRecord(definition)
        place = _Place(runtime, 0, in_runtime(config, runtime))
        return RunLayerRecord(definition, self._record, place)

    def tools(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the call of a tool with all layers; errors are recorded."""
        if not self.enabled:
            return call

        def recorded(request: Any) -> object:
            # Never reset: ToolNode calls the error handler later, in this context.
            _tool_call.set(_ToolCall(request, []))

            def finish(result: object) -> object:
                for part in result if isinstance(result, list) else [result]:
                    if isinstance(part, Command):
                        culprit = Culprit("", TOOLS, str(request.tool_call["name"]))
                        self._note_edit(_here(), culprit, request.state or {}, part)
                return result

            return then(call(request), finish)

        return recorded

    def execution(self, execute: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the execution of a tool inside the layers, recorded if it fails."""
        if not self.enabled:
            return execute

        def recorded(request: Any) -> object:
            running = _tool_call.get()
            errors = running.reported_errors if running else []
            classify = partial(classify_tool, request, errors, len(errors))
            place = _here(request.runtime)
            return self._recorded(classify, place, execute, request)

        return recorded

    def handler(self, handler: Any) -> Any:
        """Return the handler of tool errors, recorded when an error is reported to the model."""
        if not self.enabled or not callable(handler):
            return handler

        def recorded(error: Exception) -> str:
            text: str = handler(error)
            kind, request = type(error).__name__, None
            if running := _tool_call.get():
                request = running.request
                running.reported_errors.append(kind)
            fields = decision_fields("", TOOLS, Outcome.ERROR_REPORTED, kind, request=request)
            self._record(fields, _here())
            return text

        return recorded

    def refusing(
        self, refuse: Callable[..., ToolMessage], node: str, reason: str
    ) -> Callable[..., ToolMessage]:
        """Return the function for answers to calls without a run, recorded."""
        if not self.enabled:
            return refuse

        def recorded(call: Mapping[str, object], *more: object) -> ToolMessage:
            tool_fields = {"tool": str(call["name"]), "call_id": str(call["id"])}
            fields = decision_fields("", node, Outcome.ERROR_REPORTED, reason, **tool_fields)
            self._record(fields, _here())
            return refuse(call, *more)

        return recorded

    def repairing(self, repair: Callable[..., Repair | None]) -> Callable[..., Repair | None]:
        """Return the repair of histories, recorded when a history changes."""
        if not self.enabled:
            return repair

        def recorded(messages: Sequence[object], start: int = 0) -> Repair | None:
            history_repair = repair(messages, start)
            if history_repair is not None:
                self._record(classify_repair(messages, history_repair.messages), _here())
            return history_repair

        return recorded

    def begins(self, messages: Sequence[Any], request: Any, layers: int) -> None:
        """Note the request of a new model call, and the messages before a repair."""
        # Never reset: the context belongs to the node's task.
        _trail.set(Trail(messages, request, layers))

    def asks(self, request: Any, strategy: Strategy, messages: Sequence[Any]) -> SentRequest | None:
        """Return the sent request, for `answered`; None if the caller is unknown."""
        if (trail := _trail.get()) is None:
            return None
        # In the thread of a layer, the context is lost, or belongs to another call.
        if trail.request.runtime is not request.runtime or None in trail.passed:
            return None
        requests: Any = (trail.request, *trail.passed)
        return SentRequest(trail.given, requests, strategy, messages)

    def answered(self, sent_request: SentRequest, answer: object) -> None:
        """Record changes of the prefix by the request, and the use of the provider's cache."""
        if not isinstance(answer, AIMessage):  # the model node raises BadReturn
            return
        assert self._prefixes is not None  # see `_record`
        changes = self._prefixes.answered(sent_request, answer, self._model_layers)
        if not changes and not answer.usage_metadata:
            return  # nearly always
        place = _here(sent_request.passed[0].runtime)
        for fields in (*map(classify_prefix, changes), *classify_usage(answer)):
            self._record(fields, place)

    def explained(self, times: int) -> None:
        """Record an explanation for the model of an invalid answer."""
        if self.enabled:
            detail = f"{times} time{'s' * (times != 1)}"
            self._record(decision_fields("", MODEL, Outcome.EXPLAINED, detail), _here())

    def ended(self, why: str) -> None:
        """Record the end of the requests to the model, and the reason."""
        if self.enabled:
            self._record(decision_fields("", MODEL, Outcome.SKIPPED, reason=why), _here())

    def route(self, source: str, choose: Choice, why: Callable[[Any, str, str], str]) -> Choice:
        """Return the route, recorded; `why` takes the state, the target and a pending jump."""
        if not self.enabled:
            return choose

        def recorded(state: object, config: RunnableConfig | None = None) -> str | list[Send]:
            # LangGraph passes the config to a route without making it current.
            with setting(current_config, config):
                place = _here()
                info = place.runtime.execution_info if place.runtime else None
                jump = self._jumps.pop((info.task_id, place.step), "") if info else ""
                classify = partial(classify_route, source, partial(why, state), jump)
                choice: str | list[Send] = self._recorded(classify, place, choose, state)
            return choice

        return recorded


NO_RECORDER = Recorder()
