"""Messages that a guard has checked, known by their ids and contents in any position.

The state holds a digest for each group of some 16 messages in a row. If a message changes or leaves
the thread, the rest of its group is checked again, as it is in another process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, takewhile
from typing import Any, Final
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from typing_extensions import TypedDict

from agent_factory import ModelCallResult, ModelRequest, ModelResponse

from .mailbox import BACKGROUND
from .models import with_update

_NOTICE: Final = "[This message was blocked.]"

_MOST_KEYS: Final = 10_000


class GuardRecord(TypedDict):
    """Messages of a thread that a guard has checked. A key is an id and a digest of the content."""

    checked: list[str]  # a digest for each group of messages in the last request
    answers: list[str]  # the keys of the last answers of the model, which are not checked
    blocked: dict[str, str]  # by the key, why no model reads a message any more


class RequestCheck:
    """Check of the messages of one request that a guard covers.

    The memory has the keys of messages that were checked in this process. `notice` returns the text
    in place of a blocked message, also in the thread, for the message and the reason; with None the
    model reads the usual text. `unchecked` is the rest.
    """

    def __init__(
        self,
        request: ModelRequest[Any],
        name: str,
        covered: Sequence[AnyMessage],
        memory: dict[str, None],
        notice: Callable[[AnyMessage, str], str] | None,
    ) -> None:
        state: Any = request.state
        self._request, self._name, self._memory, self._notice = request, name, memory, notice
        record: Any = (state.get("guard_records") or {}).get(name) or {}
        self._blocked: dict[str, str] = {**record.get("blocked", {})}
        self._known, checked = {*record.get("answers", ())}, {*record.get("checked", ())}
        self._messages = [(message, key_of(message)) for message in covered]
        for group in _groups(key for _, key in self._messages):
            while group and group[-1][1] not in checked:
                group.pop()
            self._known.update(key for key, _ in group)
        self.unchecked = [m for m, key in self._messages if not self._knows(key)]

    def _knows(self, key: str) -> bool:
        return key in self._known or key in self._memory or key in self._blocked

    @property
    def objection(self) -> str | None:
        """Reason of a blocked message without an answer so far; None without such a message."""
        for message, key in reversed(self._messages):
            if key in self._blocked or isinstance(message, AIMessage):
                return self._blocked.get(key)
        return None

    def settle(self, messages: Sequence[AnyMessage], objection: str | None) -> None:
        """Note the result of a check."""
        if objection is None:
            remember(self._memory, messages)
            return
        # The thread may have a longer form of a message that a layer has shortened.
        ids, thread = {m.id for m in messages if m.id}, self._request.state.get("messages", ())
        versions = chain(messages, (message for message in thread if message.id in ids))
        self._blocked |= {key_of(message): objection for message in versions}

    def allowed(self) -> ModelRequest[Any]:
        """Return the request with a notice in place of each blocked message."""
        blocked = {id(message): key for message, key in self._messages if key in self._blocked}
        if not blocked:
            return self._request
        messages: list[AnyMessage] = []
        dropped_calls: set[str | None] = set()
        for message in self._request.messages:
            key = blocked.get(id(message))
            if isinstance(message, AIMessage):
                ids = {call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)}
                dropped_calls = dropped_calls | ids if key else dropped_calls - ids
            # Providers refuse a result without its call.
            if not isinstance(message, ToolMessage) or message.tool_call_id not in dropped_calls:
                messages.append(self._replaced(message, key) if key else message)
        return self._request.override(messages=messages)

    def noted(self, response: ModelResponse) -> ModelCallResult:
        """Return the response with the record of this check."""
        answers = [message for message in response.result if isinstance(message, AIMessage)]
        for answer in answers:
            answer.id = answer.id or str(uuid4())
        replaces = self._notice and self._blocked
        thread = self._request.state.get("messages", ()) if replaces else ()
        pairs = ((message, key_of(message)) for message in thread)
        notices = {key: self._replaced(m, key) for m, key in pairs if key in self._blocked}
        remember(self._memory, notices.values())
        keys = (key_of(notices[key]) if key in notices else key for _, key in self._messages)
        known = ([*takewhile(lambda pair: self._knows(pair[0]), group)] for group in _groups(keys))
        record = GuardRecord(
            checked=[group[-1][1] for group in known if group],
            answers=[*map(key_of, answers)],
            blocked=self._blocked,
        )
        update: dict[str, object] = {"guard_records": {self._name: record}}
        if notices:
            update["messages"] = [*notices.values()]
        return with_update(self._request, response, update)

    def _replaced(self, message: AnyMessage, key: str) -> AnyMessage:
        reason = self._blocked[key]
        return _with_notice(message, self._notice(message, reason) if self._notice else _NOTICE)


def readable_messages(state: Mapping[str, Any]) -> Sequence[AnyMessage]:
    """Return the messages of a thread, with a notice in place of each blocked message."""
    messages: Sequence[AnyMessage] = state.get("messages", ())
    records: Iterable[GuardRecord] = (state.get("guard_records") or {}).values()
    if not (blocked := {key for record in records for key in record["blocked"]}):
        return messages
    return [_with_notice(m, _NOTICE) if key_of(m) in blocked else m for m in messages]


def _with_notice(message: AnyMessage, text: str) -> AnyMessage:
    if isinstance(message, ToolMessage):
        call, name = message.tool_call_id, message.name
        return ToolMessage(text, tool_call_id=call, name=name, status="error", id=message.id)
    if result_tool(message) is not None:  # stays a result
        return message.model_copy(update={"content": text})
    kind = type(message) if isinstance(message, AIMessage | SystemMessage) else HumanMessage
    return kind(text, id=message.id, additional_kwargs={"lc_source": "guard"})


def result_tool(message: AnyMessage) -> str | None:
    """Return the tool of a result: empty if unknown, None for any other message."""
    if isinstance(message, ToolMessage):
        return message.name or ""
    if message.additional_kwargs.get("lc_source") != BACKGROUND:
        return None
    job = message.additional_kwargs.get(BACKGROUND)  # a client may have written anything
    return str(job.get("tool") or "") if isinstance(job, dict) else ""


def remember(memory: dict[str, None], messages: Iterable[AnyMessage]) -> None:
    """Add the keys of messages to the memory of a process, and drop the oldest above a limit."""
    memory.update(dict.fromkeys(map(key_of, messages)))
    for key in [*memory][:-_MOST_KEYS]:
        memory.pop(key, None)  # another thread may have dropped it


def key_of(message: AnyMessage) -> str:
    """Return the id of a message with a digest of all parts for a model."""
    # A result has no id before it is in the thread.
    id = message.tool_call_id if isinstance(message, ToolMessage) else message.id
    calls = [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]
    calls = [(call["name"], call["args"], call["id"]) for call in calls]
    kind = message.type.removesuffix("MessageChunk").lower()
    parts = (id, kind, message.name, message.content, calls, message.additional_kwargs)
    return f"{id}:{_hash(repr(parts))}"


def digest_of(messages: Iterable[AnyMessage]) -> str:
    """Return a digest of several messages."""
    return _hash(" ".join(map(key_of, messages)))


def _groups(keys: Iterable[str]) -> Iterator[list[tuple[str, str]]]:
    """Yield keys in groups, each with the digest of the group up to the key.

    A key itself decides whether its group ends there, so that each group stays the same if earlier
    messages leave the thread.
    """
    group, digest = list[tuple[str, str]](), ""
    for key in keys:
        digest = _hash(digest + key)
        group.append((key, digest))
        if key.endswith("0"):
            yield group
            group, digest = [], ""
    yield group


def _hash(text: str) -> str:
    # Half of a surrogate pair, which a message may hold, is refused by strict UTF-8.
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
