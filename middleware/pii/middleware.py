"""The PII middleware: hooks, layers, and the places of the rule."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import compress
from operator import or_
from typing import Annotated, Any, Literal, NotRequired, cast

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.runtime import Runtime

from agent_factory import (
    AgentState,
    Flow,
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    Ordering,
    PrivateStateAttr,
    ToolCallRequest,
    stream_through,
)
from agent_factory.middleware._shared.checked_messages import digest_of
from agent_factory.middleware._shared.invocable import plain_hook
from agent_factory.middleware._shared.payload_free import PayloadFree
from agent_factory.middleware._shared.redaction import DetectorLike, PIIMatch, RedactionRule

from .events import event_redaction
from .guard import RuleWithMemory, ThreadGuard
from .messages import Guard, has_role, redact_answer, redact_value


class PIIState(AgentState):
    """State of an agent whose input is guarded.

    Attributes:
        pii_looked_at: The last message checked by each guard: its id, and a digest of the
            messages up to it, which changes with each of these messages.
    """

    pii_looked_at: NotRequired[Annotated[dict[str, list[str]], or_, PrivateStateAttr]]


class PIIMiddleware(PayloadFree[PIIState]):
    """Keeps one type of personal data out of an agent.

    Args:
        pii_type: "email", "credit_card", "ip", "mac_address", "url", "phone", "name", or any other
            name together with a detector.
        strategy: "redact" writes `[REDACTED_EMAIL]` instead of the data; "mask" keeps the part by
            which people recognise the data, such as a card's last four digits; "hash" writes
            `<email_hash:9f86d081>`, the same for the same value; "block" raises an error.
        detector: A regular expression, or a function of a text that returns a list of `PIIMatch`,
            of which only `start` and `end` are read. Default: the built-in detector of the type.
        apply_to_input: Redact the input of users: every message with its name, once.
        apply_to_output: Redact the output of the model: text, reasoning, and a structured answer;
            streamed tokens, too.
        apply_to_tool_results: Redact results of tools, before model and thread get them, and
            results in the input and of background tools.
        apply_to_tool_calls: Redact arguments of tool calls, before tools get them. Unreadable
            calls reach no tool: the two arguments above apply to them, too.
        hash_key: Secret key for "hash", as bytes or str. Default: a random key of this process, so
            that hashes differ between processes.
        name: Default: `PIIMiddleware[pii_type]`, so that guards of several types need no names.

    Raises:
        ValueError: The type is unknown and has no detector, the strategy is unknown, a regular
            expression does not compile, or all `apply_to_*` are False.
        TypeError: The detector or the key has the wrong type.
        ImportError: A package for the detector is not installed.

    >>> PIIMiddleware("email", strategy="mask", apply_to_output=True).name
    'PIIMiddleware[email]'
    """

    state_schema = PIIState
    keyed_by_name = ("pii_looked_at",)
    kept_flows = ("around_model", "around_tool")
    guard_settings = ("pii_type", "strategy", "rule.detector")
    unused: Collection[str] = ()
    message_guard: ThreadGuard

    def __init__(
        self,
        pii_type: str,
        *,
        strategy: Literal["redact", "block", "mask", "hash"] = "redact",
        detector: DetectorLike | None = None,
        apply_to_input: bool = True,
        apply_to_output: bool = False,
        apply_to_tool_results: bool = False,
        apply_to_tool_calls: bool = False,
        hash_key: bytes | str | None = None,
        name: str | None = None,
    ) -> None:
        self.rule = RedactionRule(pii_type, strategy, detector, hash_key)
        self.pii_type, self.strategy, self.hash_key = pii_type, self.rule.strategy, hash_key
        super().__init__(name=name)
        places = (apply_to_input, apply_to_output, apply_to_tool_results, apply_to_tool_calls)
        if not any(places):
            raise ValueError(
                f"{self.name} is applied to nothing. Set apply_to_input, apply_to_output, "
                "apply_to_tool_results or apply_to_tool_calls to True."
            )
        self.apply_to_input = apply_to_input
        self.apply_to_output = apply_to_output
        self.apply_to_tool_results = apply_to_tool_results
        self.apply_to_tool_calls = apply_to_tool_calls
        aspects = ("user_messages", "answers", "tool_results", "tool_calls")
        self.ordering = Ordering(sanitizes=[*compress(aspects, places)])
        # An agent leaves these out, and has no nodes for them.
        hooks = ("before_model", "after_model", "around_tool")
        self.unused = [*compress(hooks, (not apply_to_input, True, not any(places[2:])))]
        rule = RuleWithMemory(self.rule)
        self._answers = Guard(rule, apply_to_output, apply_to_tool_calls)
        self._guards_answers = any(places[1:])
        self._results = Guard(rule, text=True)
        self.message_guard = ThreadGuard(
            rule,
            self._answers if self._guards_answers else None,
            users=apply_to_input,
            results=apply_to_tool_results,
        )
        if apply_to_output:
            self.transformers = [event_redaction(self.message_guard.shown_answers)]

    @cached_property
    def name(self) -> str:
        """The class, with the kind of data."""
        return f"{type(self).__name__}[{self.pii_type}]"

    def detector(self, content: str) -> list[PIIMatch]:
        """Return the matches in a text, in order and without overlap."""
        return self.rule.find(content)

    @plain_hook
    def before_agent(self, state: PIIState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Redact messages of the thread from before this guard.

        All other messages were redacted on the way into the thread. With "block", nothing changes.
        """
        marks = state.get("pii_looked_at", {})
        messages, count = self._covered(state)
        redacted, error = self.message_guard.admit(messages[count:])
        pairs = zip(messages[count:], redacted, strict=True)
        # The agent finds blocked data again in the update, which it admits as any other.
        changed = [new if error is None else old for old, new in pairs if new is not old]
        update: dict[str, Any] = {"messages": changed} if changed else {}
        if not self.apply_to_input and redacted:  # nothing runs before the model
            update |= self._mark([*messages[:count], *redacted], count)
        elif self.name not in marks:
            # Without a message, the mark shows that this hook has run.
            update["pii_looked_at"] = {self.name: ["", ""]}
        return update or None

    @plain_hook
    def before_model(self, state: PIIState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Mark new messages as checked.

        Without a call of `before_agent`, as in a run paused before the agent had this guard, it
        redacts all messages and returns the whole list of them if one changes.
        """
        marks = state.get("pii_looked_at", {})
        if self.name not in marks:
            return _changed(state, list(map(self.message_guard.redacted, state["messages"])))
        last_id, _ = marks[self.name]
        for message in reversed(state["messages"]):
            if message.id == last_id:
                break
            # A run's own messages are scanned at each of its turns, so the scan calls no function.
            if type(message) in (AIMessage, ToolMessage):
                continue
            if self.message_guard.covers(message):
                return self._mark(*self._covered(state))
        return None

    @plain_hook
    def after_model(self, state: PIIState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Redact the last answer of the model.

        In an agent `around_model` has done so, before anybody saw the answer. Therefore an agent
        calls this hook only in a subclass that overrides it.
        """
        messages = list(state["messages"])
        for index in range(len(messages) - 1, -1, -1):
            if self._guards_answers and has_role(messages[index], AIMessage):
                messages[index] = self._answers.redact_output(messages[index])
                break
        return _changed(state, messages)

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelCallResult]:
        """Guard the requested model, and redact answers of other layers."""
        marks = cast("PIIState", request.state).get("pii_looked_at", {})
        if self.name not in marks:  # as in `before_model`
            messages = [*map(self.message_guard.redacted, request.messages)]
            request = request.override(messages=messages)
        if not self._guards_answers:
            response: ModelResponse = yield request
            return response
        # A structured answer is a call of one of these tools.
        by_tool = getattr(request.response_format, "by_tool", request.response_format)
        output_tools = frozenset(getattr(by_tool, "bindings", ()) if self.apply_to_output else ())
        guard = replace(self._answers, calls=output_tools)
        flow = partial(redact_answer, guard)
        redaction = partial(stream_through, flow=flow, cache_key=repr(guard))
        response = yield request.wrapped(redaction)
        return replace(response, result=[guard.redact_output(m) for m in response.result])

    def around_tool(self, request: ToolCallRequest) -> Flow[Any]:
        """Redact the arguments of a call before the tool runs, and the result of the tool."""
        if self.apply_to_tool_calls:
            call = request.tool_call
            arguments = redact_value(call["args"], self.rule.apply)
            request = request.override(tool_call={**call, "args": arguments})
        result = yield request
        return self._results.redact_result(result) if self.apply_to_tool_results else result

    def _covered(self, state: PIIState) -> tuple[list[AnyMessage], int]:
        """The guarded messages, and the number of checked messages from the first on."""
        last_id, digest = state.get("pii_looked_at", {}).get(self.name, ("", ""))
        messages = list(filter(self.message_guard.covers, state["messages"]))
        count = next((n for n, message in enumerate(messages, 1) if message.id == last_id), 0)
        # None is checked, if one of them has been replaced.
        return messages, count if count and digest_of(messages[:count]) == digest else 0

    def _mark(self, messages: Sequence[AnyMessage], count: int) -> dict[str, Any]:
        """The update to mark messages as checked; as many, from the first, were marked."""
        self.message_guard.forget(messages[count:])
        return {"pii_looked_at": {self.name: [messages[-1].id, digest_of(messages)]}}


def _changed(state: PIIState, messages: list[AnyMessage]) -> dict[str, object] | None:
    """The update for messages redacted outside of a run, where they may have no ids."""
    same = all(new is old for new, old in zip(messages, state["messages"], strict=True))
    return None if same else {"messages": messages}
