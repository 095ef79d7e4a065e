"""Tracker: the last request of each thread, and the changes in the next request."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.runtime import Runtime

from agent_factory.decisions.prefix.change import (
    INPUT,
    PARTS,
    REPAIR,
    Culprit,
    Edit,
    PrefixChange,
    change_of,
    culprit_at,
    edited_from,
)
from agent_factory.decisions.prefix.digest import (
    Digest,
    Prefix,
    PrefixReader,
    digests_among,
)
from agent_factory.structured_output.strategies import Strategy
from agent_factory.types import ModelRequest
from agent_factory.upstream import run_identity

CHARACTERS_PER_TOKEN: Final = 4
"""The estimate where a provider reports no usage: the same as langchain-core's."""


@dataclass(slots=True)
class _Thread:
    """Memory of a thread: the last request at each place, and edits since then."""

    places: Sequence[Prefix] = ()
    input_tokens: int = 0  # of the last request, if reported by the provider
    edits: deque[Edit] = field(default_factory=lambda: deque(maxlen=64))


class Trail:
    """The requests of a model call on their way inward: of the node, and of each layer."""

    __slots__ = ("given", "passed", "request")

    def __init__(
        self, given: Sequence[BaseMessage], request: ModelRequest[Any], layers: int
    ) -> None:
        self.given = given  # before the repair
        self.request = request
        self.passed: list[ModelRequest[Any] | None] = [None] * layers


class SentRequest(NamedTuple):
    """A request to the model, and the requests further out."""

    given: Sequence[BaseMessage]
    passed: Sequence[ModelRequest[Any]]  # of the node, and of each layer
    strategy: Strategy
    messages: Sequence[BaseMessage]


class PrefixTracker:
    """Finder of changes of the prefix, by thread.

    Args:
        exact: Find the very byte of a change, for which system prompts are kept as they are.
    """

    THREADS = 1024
    """How many threads are remembered; the one that called the model longest ago is forgotten."""

    RUNS = 64
    """Of how many runs that are under way the messages themselves are kept, to read each once."""

    def __init__(self, *, exact: bool) -> None:
        self._reader = PrefixReader(exact=exact)
        self._threads: OrderedDict[object, _Thread] = OrderedDict()
        self._read: OrderedDict[object, tuple[list[BaseMessage], tuple[Digest, ...]]] = (
            OrderedDict()
        )
        self._lock = Lock()

    def edited(
        self, runtime: Any, culprit: Culprit, messages: Sequence[object], update: object
    ) -> None:
        """Note who changed or removed messages of a thread."""
        with self._lock:
            thread = self._threads.get(_key(runtime))
        # Outside of the lock: digests take a while, and `append` of a deque is atomic.
        if thread is not None and (at := edited_from(messages, update)) is not None:
            thread.edits.append(Edit(culprit, at))

    def answered(
        self, sent_request: SentRequest, answer: AIMessage, layers: Mapping[int, Culprit]
    ) -> list[PrefixChange]:
        """Return the changes of an answered request, compared with the request before."""
        request = sent_request.passed[0]
        with self._lock:
            key = _key(request.runtime)
            if (thread := self._threads.get(key)) is None:
                thread = self._threads[key] = _Thread()
                if len(self._threads) > self.THREADS:
                    self._threads.popitem(last=False)
            self._threads.move_to_end(key)
            # Taken out: only a run with the same objects puts the entry back.
            read = self._read.pop(key, ([], ()))
        changes: list[PrefixChange] = []
        old, new = thread.places, self._places(sent_request, *read)
        if len(old) == len(new) and not _is_stable(old, new):
            changes = self._changes(thread, old, new, layers)
        thread.places = new
        if answer.tool_calls:  # the run goes on with the same objects
            with self._lock:
                self._read[key] = list(sent_request.given), new[0].messages
                if len(self._read) > self.RUNS:
                    self._read.popitem(last=False)
        thread.input_tokens = answer.usage_metadata["input_tokens"] if answer.usage_metadata else 0
        if thread.edits:
            thread.edits.clear()
        return changes

    def _places(
        self,
        sent_request: SentRequest,
        previous: Sequence[BaseMessage],
        digests: tuple[Digest, ...],
    ) -> list[Prefix]:
        """Return the digests of a request at each place, the outermost first."""
        reader, (request, *inner) = self._reader, sent_request.passed
        thread_digests = digests_among(sent_request.given, previous, digests)
        prefix = reader.read(request, thread_digests)
        places = [prefix]
        if request.messages is not sent_request.given:
            repaired_digests = digests_among(request.messages, sent_request.given, thread_digests)
            prefix = (
                prefix
                if repaired_digests == thread_digests
                else prefix._replace(messages=repaired_digests)
            )
        places.append(prefix)
        for inner_request in inner:
            if inner_request is not request:
                prefix, request = reader.read_inner(inner_request, request, prefix), inner_request
            places.append(prefix)
        messages = prefix.messages
        if sent_request.messages is not request.messages:
            messages = digests_among(sent_request.messages, request.messages, messages)
        places.append(reader.read_sent(prefix, sent_request.strategy, messages))
        return places

    def _changes(
        self,
        thread: _Thread,
        old: Sequence[Prefix],
        new: Sequence[Prefix],
        layers: Mapping[int, Culprit],
    ) -> list[PrefixChange]:
        changes: list[PrefixChange] = []
        cached = sum(old[-1].sizes())
        scale = thread.input_tokens / cached if cached else 0
        for part in PARTS:
            change = change_of(part, old[-1], new[-1])
            if change is None:
                continue
            index = culprit_at(change, old, new)
            # A message that a layer only shows at the end, such as a list of tasks, is new
            # in each call. The thread's own messages stay.
            if index and part == "messages" and change.at == len(old[-1].messages) - 1:
                continue
            # Places 0 and 1 are the thread and the repair; the layers follow.
            culprit = layers.get(index - 2, REPAIR)
            if index == 0 and (thread_change := change_of(part, old[0], new[0])) is not None:
                edits = [edit.culprit for edit in thread.edits if edit.at <= thread_change.at]
                culprit = edits[-1] if edits else INPUT
            # Without the provider's count of tokens, their number is estimated by characters.
            rate = scale or 1 / CHARACTERS_PER_TOKEN
            lost_tokens, tokens = round((cached - change.kept) * rate), round(cached * rate)
            followers: tuple[str, ...] = ()
            if part in ("tools", "system_prompt"):
                followers = tuple(
                    layers[place - 2].middleware
                    for place in range(max(index, 1) + 1, len(new) - 1)
                    if new[place].part(part) != new[place - 1].part(part)
                )
            changes.append(PrefixChange(culprit, change.text, lost_tokens, tokens, followers))
            if part == "model":
                break  # another model has another cache
        return changes


def _is_stable(old: Sequence[Prefix], new: Sequence[Prefix]) -> bool:
    """Return True if a request begins like the request before, which is the usual case."""
    head, before = old[-1]
    if head is not new[-1].head and head != new[-1].head:
        return False
    after = new[-1].messages
    if before is after or before == after[: len(before)]:
        return True
    # Another last message, which is not the thread's own.
    messages = old[0].messages
    return before[:-1] == after[: len(before) - 1] and messages == new[0].messages[: len(messages)]


def _key(runtime: Runtime[Any]) -> object:
    """Return the key of a graph's thread; without a thread, of the run."""
    info = runtime.execution_info
    if info is None or info.thread_id is None:
        return run_identity(runtime)
    return info.thread_id, info.checkpoint_ns.rpartition("|")[0]
