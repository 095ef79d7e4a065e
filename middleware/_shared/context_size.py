"""Amounts of conversation: how they are written, checked and measured."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from operator import is_
from typing import Any, Literal
from weakref import ref

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from typing_extensions import TypedDict

from agent_factory import ModelRequest

ContextSize = (
    tuple[Literal["fraction"], float]
    | tuple[Literal["tokens"], int]
    | tuple[Literal["messages"], int]
)
"""An amount of conversation: a part of the model's window (0 to 1), tokens, or messages."""


class TriggerClause(TypedDict, total=False):
    """Thresholds that must all be reached.

    >>> TriggerClause(tokens=4000, messages=10)
    {'tokens': 4000, 'messages': 10}
    """

    tokens: int
    messages: int
    fraction: float


TokenCounter = Callable[[Sequence[BaseMessage]], int]
"""Counts the tokens of some messages."""

DEFAULT_TRIGGER: tuple[str, float] = ("fraction", 0.8)
"""Leaves a fifth of the window to the answer and to what a token counter misjudges."""

_UNITS = ("fraction", "tokens", "messages")


class Load:
    """How large a request is; tokens are counted once, and only where a trigger asks."""

    def __init__(self, request: ModelRequest[Any], count: TokenCounter, window: int | None) -> None:
        self._request = request
        self._count = count
        self._window = window

    def reaches(self, clause: Mapping[str, float]) -> bool:
        """Whether all thresholds of a clause are reached."""
        return all(self._reaches(unit, amount) for unit, amount in clause.items())

    def _reaches(self, unit: str, amount: float) -> bool:
        if unit == "messages":
            return len(self._request.messages) >= amount
        if unit == "fraction":
            return self._window is not None and self.tokens >= amount * self._window
        return self.tokens >= amount

    @cached_property
    def tokens(self) -> int:
        """Tokens of all that is sent."""
        return tokens_sent(self._request, self._request.messages, self._count)


def tokens_sent(
    request: ModelRequest[Any], messages: Sequence[BaseMessage], count: TokenCounter
) -> int:
    """Tokens of a request with these messages: the system prompt and the tool schemas with them."""
    overhead = [] if request.system_message is None else [request.system_message]
    if request.tools:
        overhead.append(_SCHEMAS.told(request.tools))
    return counted([*overhead, *messages], count)


def counted(messages: Sequence[BaseMessage], count: TokenCounter) -> int:
    """The tokens of messages.

    LangChain's own counter counts each message by itself and adds up; so of each message it is
    asked once, and a long conversation is not counted anew at each call. A message that is
    changed is another object: who would change one in place would change what others hold.
    """
    if count is not count_tokens_approximately:
        return count(messages)
    return _COUNTS.of(messages)


class _Counts:
    """What each message has been counted at, as long as there is the message."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[BaseMessage], Any, int]] = {}

    def of(self, messages: Sequence[BaseMessage]) -> int:
        """The tokens of messages."""
        total, known = 0, self._known
        for message in messages:  # all that was said, at each call of a model: so without calls
            found = known.get(id(message))
            if found and found[0]() is message and found[1] is message.content:
                total += found[2]
            else:
                total += self._count(message)
        return total

    def _count(self, message: BaseMessage) -> int:
        key, tokens = id(message), count_tokens_approximately([message])
        self._known[key] = ref(message, partial(self._forget, key)), message.content, tokens
        return tokens

    def _forget(self, key: int, _: object) -> None:
        self._known.pop(key, None)


_COUNTS = _Counts()


class _Schemas:
    """What models are told of tools, as JSON; of each tool it is written once."""

    SIZE = 1024

    def __init__(self) -> None:
        # A tool cannot be hashed; held here, its id is not given to another one.
        self._texts: OrderedDict[int, tuple[Any, str]] = OrderedDict()
        self._last: tuple[list[Any], list[str], SystemMessage] = [], [], SystemMessage("[]")

    def told(self, tools: Sequence[BaseTool | dict[str, Any]]) -> SystemMessage:
        """All of them in one message; the same one for the same tools, so that it is counted once.

        Args:
            tools: The tools of a request.
        """
        held, known, told = self._last
        if all(map(is_, tools, held)) and len(tools) == len(held):
            return told
        texts = [self._text(tool) for tool in tools]
        if texts != known:
            told = SystemMessage(f"[{', '.join(texts)}]")
        # A dict is the caller's, who may change it.
        fixed = all(isinstance(tool, BaseTool) for tool in tools)
        self._last = list(tools) if fixed else [], texts, told
        return told

    def _text(self, tool: BaseTool | dict[str, Any]) -> str:
        if isinstance(tool, dict):
            return json.dumps(tool, default=str)
        known = self._texts.get(id(tool))
        if known is None:
            known = tool, json.dumps(convert_to_openai_tool(tool), default=str)
            self._texts[id(tool)] = known
            if len(self._texts) > self.SIZE:
                self._texts.popitem(last=False)
        return known[1]


_SCHEMAS = _Schemas()


def window_of(model: Any) -> int | None:
    """The most tokens a model takes, if its profile says."""
    profile = getattr(model, "profile", None)
    size = profile.get("max_input_tokens") if isinstance(profile, Mapping) else None
    return size if isinstance(size, int) and size > 0 else None


def checked_trigger(trigger: Any, window: int | None) -> list[dict[str, float]]:
    """Every alternative of a trigger as thresholds that must all be reached.

    Args:
        trigger: What a user wrote.
        window: The tokens a model takes, or None where that is not known.

    Raises:
        ValueError: It is no trigger.
    """
    if trigger is None:
        return [dict([DEFAULT_TRIGGER])] if window else []
    single = isinstance(trigger, Mapping) or _is_size(trigger)
    alternatives = [trigger] if single else trigger
    if not isinstance(alternatives, list | tuple) or not alternatives:
        raise ValueError(
            "trigger must be a size such as ('tokens', 4000), thresholds such as "
            "{'tokens': 4000, 'messages': 10}, or a list of them; "
            f"got {trigger!r}."
        )
    return [_clause(alternative) for alternative in alternatives]


def _clause(trigger: Any) -> dict[str, float]:
    sizes = trigger.items() if isinstance(trigger, Mapping) else [trigger]
    clause = dict(checked_size("trigger", size) for size in sizes)
    if not clause:
        raise ValueError("trigger must not be an empty dict: that would always hold.")
    return clause


def _is_size(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def checked_size(parameter: str, value: Any) -> tuple[str, float]:
    """An amount with its unit.

    Raises:
        ValueError: It is none; the message names the parameter.
    """
    if not _is_size(value) or value[0] not in _UNITS:
        raise ValueError(
            f"{parameter} must be one of {', '.join(map(repr, _UNITS))} with an amount, such as "
            f"('messages', 20); got {value!r}."
        )
    unit, amount = value
    check_amount(parameter, unit, amount)
    return unit, amount


def check_amount(parameter: str, unit: str, amount: Any) -> None:
    """Refuse an amount that its unit does not allow.

    Raises:
        ValueError: With the name of the parameter.
    """
    number = isinstance(amount, int | float) and not isinstance(amount, bool)
    if unit == "fraction" and not (number and 0 < amount <= 1):
        raise ValueError(f"{parameter}: a fraction is more than 0 and at most 1, not {amount!r}.")
    if unit != "fraction" and not (number and isinstance(amount, int) and amount >= 1):
        raise ValueError(f"{parameter}: {unit} is a whole number of at least 1, not {amount!r}.")
