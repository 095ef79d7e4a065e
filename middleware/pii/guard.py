"""Guard of an agent's messages against a type of personal data: in the thread, and in views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass, replace
from threading import Lock
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable
from langgraph.errors import GraphBubbleUp
from langgraph.types import Send
from pydantic import BaseModel

from agent_factory.middleware._shared.redaction import PIIDetectionError, PIIMatch, RedactionRule

from .messages import AnswerStream, Guard, TextStream, has_role, redact_message, redact_value

_ITERABLES = (list, tuple, set, frozenset)
_REMEMBERED = 1_000_000
"""Characters to remember of texts that were redacted and are not yet marked in their thread."""


@dataclass(unsafe_hash=True, repr=False)
class RuleWithMemory:
    """Redaction rule with a memory of returned texts, which are not searched again.

    A message passes the rule at its origin, and again where it is written. Two such rules are
    equal if their inner rules are.
    """

    rule: RedactionRule
    _texts: dict[str, None] = field(default_factory=dict, compare=False)
    _size: int = field(default=0, compare=False)
    _lock: Any = field(default_factory=Lock, compare=False)

    def __repr__(self) -> str:
        return repr(self.rule)  # part of the key of a cache

    def find(self, text: str) -> list[PIIMatch]:
        """Return the matches in a text; none in a returned text."""
        return [] if text in self._texts else self.rule.find(text)

    def settled(self, text: str) -> int:
        return self.rule.settled(text)

    def apply(self, text: str) -> str:
        """Return the text with each match replaced, as `RedactionRule.apply`."""
        return text if text in self._texts else self.remember(self.rule.apply(text))

    def remember(self, text: str) -> str:
        """Return a redacted text, and remember it."""
        with self._lock:
            if text not in self._texts:
                self._texts[text] = None
                self._size += len(text)
            while self._size > _REMEMBERED:
                oldest = next(iter(self._texts))
                del self._texts[oldest]
                self._size -= len(oldest)
        return text

    def forget(self, text: str) -> str:
        """Return a text of a message marked as checked in its thread, and forget the text."""
        with self._lock:
            if text in self._texts:
                del self._texts[text]
                self._size -= len(text)
        return text


class ThreadGuard:
    """The `message_guard` of a `PIIMiddleware`: of messages of users, answers, results of tools."""

    def __init__(
        self, rule: RuleWithMemory, answers: Guard | None, *, users: bool, results: bool
    ) -> None:
        self._rule, self._answers = rule, answers
        self._users, self._results = users, results
        # An error in place of an event would end the run, so views are redacted in any case.
        self._shown_rule: Any = rule
        if rule.rule.strategy == "block":
            self._shown_rule = RuleWithMemory(replace(rule.rule, strategy="redact"))
        self.shown_answers = Guard(self._shown_rule, text=True, all_calls=True)
        # A tool shows a result in the making, or the answers of a subagent's model.
        self._shows_all = (answers is not None and answers.text) or results

    # Messages of the thread

    def covers(self, message: BaseMessage) -> bool:
        """Return True if the guard redacts anything of a message."""
        return (
            (self._users and has_role(message, HumanMessage))
            or (self._results and has_role(message, ToolMessage))
            or (self._answers is not None and has_role(message, AIMessage))
        )

    def admit(self, messages: Sequence[AnyMessage]) -> tuple[Sequence[AnyMessage], Any]:
        """Return the messages with the data redacted; with "block", also the error."""
        if self._rule.rule.strategy != "block":
            return [self.redacted(message) for message in messages], None
        matches: list[PIIMatch] = []
        # The data is still not stored, so that the next run is not blocked by it.
        rule: Any = _CollectingRule(self._rule, self._shown_rule, matches)
        answers = self._answers and replace(self._answers, rule=rule)
        guard = ThreadGuard(rule, answers, users=self._users, results=self._results)
        admitted = [guard.redacted(message) for message in messages]
        error = PIIDetectionError(self._rule.rule.pii_type, matches) if matches else None
        return admitted, error

    def redacted(self, message: Any) -> Any:
        """Return a message with the data redacted, or itself if nothing changes.

        Raises:
            PIIDetectionError: There is a match, and the strategy is "block".
        """
        if not self.covers(message):
            return message
        if self._answers is not None and has_role(message, AIMessage):
            return self._answers.redact_output(message)
        return redact_message(message, self._rule.apply)

    def forget(self, messages: Iterable[BaseMessage]) -> None:
        """Forget texts marked as checked by the thread."""
        for message in messages:
            redact_value(message.content, self._rule.forget)

    # Views

    def text(self) -> Any:
        """Return a filter for a tool's text in pieces."""
        return TextStream(self._shown_rule) if self._shows_all else _Unchanged()

    def answer(self) -> Any:
        """Return a filter for a tool's answer in chunks."""
        return AnswerStream(self.shown_answers) if self._shows_all else _Unchanged()

    def shown(self, value: Any) -> Any:
        """Return a value as it may be shown; the value itself if nothing changes."""
        if isinstance(value, str):
            return self._shown_rule.apply(value) if self._shows_all else value
        if isinstance(value, BaseMessage):
            return self._shown_message(value)
        if isinstance(value, BaseException):
            return self._shown_error(value)
        if isinstance(value, bytes):
            text = value.decode(errors=(escape := "surrogateescape"))
            return value if (new := self.shown(text)) == text else new.encode(errors=escape)
        if isinstance(value, _ITERABLES):
            return self._shown_items(value)
        if isinstance(value, Mapping):
            # The keys of arguments may hold data, too.
            shown, items = self.shown, value.items()
            new = {shown(k) if isinstance(k, str) else k: shown(v) for k, v in items}
            return value if new == value else new
        if isinstance(value, Send):
            return self._with_fields(value, ("arg",))
        # Such as a Document, a Generation or an LLMResult. Models and tools have no data.
        if isinstance(value, BaseModel) and not isinstance(value, Runnable):
            return self._with_fields(value, [name for name, _ in value])
        if is_dataclass(value) and not isinstance(value, type):
            return self._with_fields(value, [f.name for f in fields(value)])
        return value

    def _shown_message(self, message: BaseMessage) -> Any:
        if not self._shows_all:
            guarded = self._users and has_role(message, HumanMessage)
            return redact_message(message, self._shown_rule.apply) if guarded else message
        if isinstance(message, AIMessage):
            return self.shown_answers.redact_answer(message)
        message = redact_message(message, self._shown_rule.apply)
        return self._with_fields(message, ["artifact"] * isinstance(message, ToolMessage))

    def _shown_items(self, values: Any) -> Any:
        new = [self.shown(item) for item in values]
        if all(item is old for item, old in zip(new, values, strict=True)):
            return values
        kind = next(kind for kind in _ITERABLES if isinstance(values, kind))
        # A named tuple takes its fields one by one.
        return type(values)(*new) if hasattr(values, "_fields") else kind(new)

    def _with_fields(self, value: Any, names: Iterable[str]) -> Any:
        """Return a copy of an object in which these attributes are as they may be shown."""
        pairs = [(name, getattr(value, name, None)) for name in names]
        changes = {name: new for name, old in pairs if (new := self.shown(old)) is not old}
        if not changes:
            return value
        if isinstance(value, BaseModel):
            return value.model_copy(update=changes)
        result = copy(value)
        for name, attribute in changes.items():
            object.__setattr__(result, name, attribute)
        return result

    def _shown_error(self, error: BaseException) -> BaseException:
        if isinstance(error, GraphBubbleUp) or not self._shows_all:
            return error
        text, redacted = str(error), self._shown_rule.apply(str(error))
        notes = getattr(error, "__notes__", ())
        if redacted == text and not (error.__cause__ or error.__context__ or notes):
            return error
        # Without the cause and the traceback, which show the original text.
        shown = type(error).__new__(type(error))
        shown.args = self._shown_items(error.args)
        with suppress(Exception):  # the text may need attributes from `__init__`
            if str(shown) == redacted:
                return shown
        return RuntimeError(f"{type(error).__name__}: {redacted}")


class _CollectingRule:
    """Rule that redacts in place of a blocking rule, and notes the matches."""

    def __init__(self, rule: RuleWithMemory, redacting: Any, matches: list[PIIMatch]) -> None:
        self.rule, self._rule, self._redacting, self._matches = rule.rule, rule, redacting, matches

    def apply(self, text: str) -> str:
        self._matches.extend(self._rule.find(text))
        result: str = self._redacting.apply(text)
        return self._rule.remember(result)


class _Unchanged:
    def feed(self, piece: Any) -> Any:
        return piece if isinstance(piece, str) else [piece]

    def close(self) -> Any:
        return ""
