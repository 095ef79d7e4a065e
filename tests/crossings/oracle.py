"""Events of a crossing, recorded outside of the library, and the promises that hold for all."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage

from agent_factory.guarantees import counterexamples

OUTER, INNER, HELPER = "outer", "inner", "helper"
"""Who asks a model: the agent with the features, an agent in one of its tools, a middleware."""

_WORD = re.compile(r"(?:plain|poison|mail)-\d+(?!\d)")


def word(kind: str, number: int) -> str:
    """A text that stands for one message, result, error or answer: "poison" is objected to."""
    return f"mail-{number}@example.com" if kind == "mail" else f"{kind}-{number}"


def words(text: str) -> set[str]:
    """The words in a text, those of addresses without their domain."""
    return set(_WORD.findall(text))


def text_of(messages: Sequence[BaseMessage]) -> str:
    """All that a model reads of messages: their texts, and the calls of tools."""
    parts = [(m.content, getattr(m, "tool_calls", ())) for m in messages]
    return json.dumps(parts, default=str)


SOURCES = {
    "sent": "message",
    "said": "answer",
    "asked": "call",
    "gave": "result",
    "raised": "error",
}
"""Events with which a text enters the agent: from users, its model and tools."""


@dataclass(frozen=True)
class Event:
    """Something that happened.

    Args:
        kind: One of SOURCES; "read" (a model was asked) or "broke" (it failed); "started" (a tool);
            "checked" (a guard); "approved" or "rejected" (a call); "failed" or "forked" (a run).
        by: The agent, the tool or the feature.
        text: All that was said, read or checked.
        number: The number of a call.
        late: The tool works in the background.
        objects: The guard objects.
        messages: The request to a model.
    """

    kind: str
    by: str = ""
    text: str = ""
    number: int = -1
    late: bool = False
    objects: bool = False
    messages: tuple[BaseMessage, ...] = field(default=(), compare=False)

    @property
    def source(self) -> str:
        return f"{'late ' if self.late else ''}{SOURCES.get(self.kind, '')}"


class Fault(NamedTuple):
    """A broken promise about a source of texts, a tool, or what is counted."""

    promise: str
    subject: str
    text: str


class Streamed(NamedTuple):
    """One run in a stream mode: the thread before and after it, the messages of the user, the
    chunks, and the calls of `fetch`."""

    mode: str
    changes: frozenset[str]
    before: Sequence[AnyMessage]
    sent: Sequence[AnyMessage]
    after: Sequence[AnyMessage] = ()
    chunks: Sequence[Any] = ()
    fetched: Sequence[int] = ()


@dataclass
class Record:
    """One run of a crossing.

    Args:
        changes: What the features may leave out.
        events: What happened.
        kept: The messages of the thread at the end; None if nobody sees it.
        since: The number of events before a fork: the thread at the end shows those after it.
        streams: What was streamed.
        answers: Answers of a protocol, and the last texts of the thread then.
        plan: The plan of the agent.
        refused: Why the crossing could not be built, or run in this mode.
        warnings: What the build said about it.
        loose: The last run ended with an error, or waits.
        separate: Each message of the user begins a thread.
    """

    changes: frozenset[str] = frozenset()
    events: list[Event] = field(default_factory=list)
    kept: Sequence[AnyMessage] | None = None
    since: int = 0
    streams: list[Streamed] = field(default_factory=list)
    answers: list[tuple[str, str]] = field(default_factory=list)
    plan: Any = None
    refused: str = ""
    warnings: tuple[str, ...] = ()
    loose: bool = False
    separate: bool = False

    def write(self, kind: str, by: str = "", text: str = "", number: int = -1, **more: Any) -> None:
        """Add an event, from any thread."""
        self.events.append(Event(kind, by, text, number, **more))

    def fork(self, messages: Sequence[BaseMessage]) -> None:
        """Begin a branch with the messages of its checkpoint; its model has read some of them."""
        answers = [place for place, message in enumerate(messages) if message.type == "ai"]
        self.write("forked", text=text_of(messages[: max(answers, default=0)]))
        self.since = len(self.events)

    def of(self, *kinds: str, by: str = "") -> Iterator[tuple[int, Event]]:
        """The events of these kinds, with their places."""
        events = enumerate(list(self.events))
        return ((p, e) for p, e in events if e.kind in kinds and by in ("", e.by))

    @property
    def texts(self) -> Iterator[tuple[int, Event, str]]:
        """Each word that entered the agent, with the place of its event."""
        for place, event in self.of(*SOURCES):
            yield from ((place, event, name) for name in words(event.text))

    @property
    def shown(self) -> set[str]:
        """The words that users see, in the thread or a stream."""
        return words(text_of(self.kept or ()) + "".join(str(s.chunks) for s in self.streams))

    @property
    def runs(self) -> Iterator[list[Event]]:
        """The events of each message of the user."""
        starts = [place for place, _ in self.of("sent", "forked")]
        for start, end in zip(starts, [*starts[1:], len(self.events)], strict=True):
            yield self.events[start:end]

    @property
    def threads(self) -> Iterator[list[Event]]:
        """The events of each thread."""
        yield from self.runs if self.separate else [self.events]


class Promise(Protocol):
    """A promise that a row of the table declares."""

    def faults(self, record: Record) -> Iterator[Fault]: ...


# Promises of features


@dataclass(frozen=True)
class Decides:
    """No call of a tool starts without an approval of this call.

    With `after`, this holds once the model has read a result of that tool.
    """

    tool: str
    after: str = ""

    def faults(self, record: Record) -> Iterator[Fault]:
        for events in record.threads:
            approved: set[int] = set()
            for place, event in enumerate(events):
                if event.kind == "approved":
                    approved.add(event.number)
                if event.kind != "started" or event.by != self.tool or event.number in approved:
                    continue
                if not self.after or self._has_seen(events[:place]):
                    yield Fault("decided", self.tool, f"call {event.number} started unapproved")

    def _has_seen(self, events: Sequence[Event]) -> bool:
        fork = max((place for place, e in enumerate(events) if e.kind == "forked"), default=0)
        branch, gave = events[fork:], ("gave", self.after)
        reads = [
            p for p, e in enumerate(branch) if (e.kind, e.by) in (("read", OUTER), ("forked", ""))
        ]
        if any((e.kind, e.by) == gave for e in branch[: max(reads, default=0)]):
            return True
        # A branch may begin before a result: then its model has not read the result.
        earlier = {w for e in events[:fork] if (e.kind, e.by) == gave for w in words(e.text)}
        return any(earlier & words(branch[place].text) for place in reads)


@dataclass(frozen=True)
class Checks:
    """A guard checks each text of these sources before the model reads it.

    The model reads no text that the guard objects to.

    With `shown`, the same holds for users. With `meanwhile`, the model may read while it checks.
    """

    feature: str
    sources: tuple[str, ...]
    shown: bool = True
    meanwhile: bool = False

    def faults(self, record: Record) -> Iterator[Fault]:
        shown = record.shown if self.shown else set()
        checks = [*record.of("checked", by=self.feature)]
        for place, event, name in record.texts:
            if event.source not in self.sources:
                continue
            # A call that runs again may bring what was checked.
            checked = [p for p, check in checks if name in words(check.text)]
            reads = [
                p for p, e in record.of("read", by=OUTER) if p > place and name in words(e.text)
            ]
            # A late text is streamed when it arrives, and checked before the model reads it.
            is_shown = name in shown and not event.late
            first = min(reads, default=len(record.events))
            if (reads or is_shown) and (not checked or (checked[0] > first and not self.meanwhile)):
                yield Fault("checked", event.source, f"{name} is read unchecked")
            objection = [p for p, e in checks if p in checked and e.objects]
            if not objection or not name.startswith("poison"):
                continue
            # A branch from before the objection checks it again.
            runs = [p for p, _ in record.of("sent") if p > objection[-1]]
            later = (runs or [len(record.events)])[0] if self.meanwhile else objection[0]
            if any(p > later for p in reads):
                yield Fault("blocked", event.source, f"{name} is read after the objection")
            if is_shown:
                yield Fault("blocked", event.source, f"{name} is shown after the objection")


@dataclass(frozen=True)
class Redacts:
    """No address of these sources reaches a model, a tool, the thread or a stream.

    With `agents`, this is about the requests of these alone.
    """

    sources: tuple[str, ...]
    agents: tuple[str, ...] = ()

    def faults(self, record: Record) -> Iterator[Fault]:
        shown = record.shown
        for place, event, name in record.texts:
            if not name.startswith("mail") or event.source not in self.sources:
                continue
            later = record.events[place + 1 :]
            for kind, by in {(e.kind, e.by) for e in later if name in words(e.text)}:
                if kind in ("read", "started") and by in (self.agents or (OUTER, HELPER, "refund")):
                    yield Fault("redacted", event.source, f"{name} is {kind} by {by}")
            if name in shown and not self.agents:
                yield Fault("redacted", event.source, f"{name} is shown")


@dataclass(frozen=True)
class Limits:
    """A run, or a thread, has at most so many "model calls", "tool calls" or "calls of refund"."""

    most: int
    unit: str = "model calls"
    thread: bool = False

    @property
    def sentence(self) -> str:
        return f"at most {self.most} {self.unit}{' a thread' if self.thread else ''}"

    def faults(self, record: Record) -> Iterator[Fault]:
        runs = [*(record.threads if self.thread else record.runs)]
        most = max((self._count(run, OUTER) for run in runs), default=0)
        if most > self.most:
            yield Fault("limited", self.unit, f"{most}, not {self.sentence}")
        all_agents = max((self._count(run, OUTER, INNER) for run in runs), default=0)
        if all_agents > max(self.most, most) and not counterexamples(record.plan, [self.sentence]):
            yield Fault("proven", self.unit, f"{all_agents}, and {self.sentence!r} holds")

    def _count(self, events: Sequence[Event], *agents: str) -> int:
        if self.unit == "model calls":
            return sum(e.kind == "read" and e.by in agents for e in events)
        tools = [e for e in events if e.kind == "started" and (INNER in agents or e.by != "dig")]
        return sum(self.unit in ("tool calls", f"calls of {e.by}") for e in tools)


@dataclass(frozen=True)
class Once:
    """No call of a tool starts twice."""

    tool: str

    def faults(self, record: Record) -> Iterator[Fault]:
        starts = Counter(event.number for _, event in record.of("started", by=self.tool))
        for number, times in starts.items():
            if times > 1:
                yield Fault("once", self.tool, f"call {number} started {times} times")


# Promises that hold for all


def history_faults(messages: Sequence[BaseMessage]) -> Iterator[str]:
    """What providers refuse: calls without a result behind them, results without a call, and ids
    that are there twice."""
    calls: set[str | None] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in calls:
                yield f"the result {message.tool_call_id} has no call"
            calls.discard(message.tool_call_id)
            continue
        yield from (f"the call {id} has no result" for id in calls)
        calls = {c["id"] for c in message.tool_calls} if isinstance(message, AIMessage) else set()
    yield from (f"the call {id} has no result" for id in calls)
    ids = Counter(message.id for message in messages if message.id is not None)
    yield from (f"the id {id} is there {n} times" for id, n in ids.items() if n > 1)


def valid(record: Record) -> Iterator[Fault]:
    """The history of each request, and of a thread that is not in the middle of a turn."""
    for _, event in record.of("read"):
        for fault in history_faults(event.messages):
            yield Fault("valid", f"request of {event.by}", fault)
    if record.kept is not None and not record.loose:
        yield from (Fault("valid", "thread", fault) for fault in history_faults(record.kept))


def kept(record: Record) -> Iterator[Fault]:
    """Each message of the user, and each result that a tool gave, is in the thread."""
    if record.kept is None:
        return
    thread = words(text_of(record.kept))
    failed = any(record.of("failed", by="ValueError"))
    for place, event, name in record.texts:
        group = "messages" if event.kind == "sent" else "results"
        if event.kind in ("said", "asked") or place < record.since or group in record.changes:
            continue
        waits = event.late and (record.loose or "late results" in record.changes)
        if waits or (event.kind == "raised" and failed):
            continue
        if name not in thread and name.startswith("plain"):
            yield Fault("kept", event.source, f"{name} is lost")


def completed(record: Record) -> Iterator[Fault]:
    """A run ends, or fails for a reason that the script or a feature gives."""
    for _, event in record.of("failed"):
        if event.by not in ("ConnectionError", "ValueError"):
            yield Fault("completed", event.by, event.text)


def same(one: Record, other: Record) -> Iterator[Fault]:
    """A sync and an async run do the same, whatever the order of parallel calls."""
    free = "requests" in one.changes or any(event.late for event in one.events)
    # A tool that ends the run ends it while others work.
    if free or one.refused or other.refused or any(one.of("failed", by="ValueError")):
        return
    first, second = (
        Counter((e.kind, e.by, e.number) for _, e in r.of("started", "read")) for r in (one, other)
    )
    if first != second:
        yield Fault("same", "events", f"sync: {first - second}, async: {second - first}")
    if one.kept is not None and other.kept is not None and not one.loose and not other.loose:
        texts, others = ([(m.type, m.text) for m in r.kept or ()] for r in (one, other))
        if texts != others:
            yield Fault("same", "thread", f"sync: {texts}, async: {others}")
