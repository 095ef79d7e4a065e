"""The prefix of requests, which providers cache: what changed it between model calls, and who.

A provider reads a request in one order: the tools, the system prompt, the messages. What begins
like the request before is read from its cache. A change loses everything after it.

Only digests are kept of what was sent. They are Python's own hashes, which mean nothing in another
process.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import is_
from threading import Lock
from typing import Any, Final, Literal, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage
from langchain_core.runnables.base import RunnableBinding
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime

from agent_factory.structured_output.strategies import ProviderStrategy, Strategy, ToolStrategy
from agent_factory.types import ModelRequest
from agent_factory.upstream import run_identity

Part = Literal["model", "tools", "response_format", "system_prompt", "settings", "messages"]
"""Part of a request, in the order in which providers read them."""

CHARACTERS_PER_TOKEN: Final = 4
"""The estimate where a provider reports no usage: the same as langchain-core's."""

BLOCK: Final = 64
"""Bytes of the system prompt that share a digest, so that a change is found within them."""

_IMAGE: Final = 6_000
"""The most characters that a block other than text counts for: about 1,500 tokens, as an image."""

_MARKS: Final = frozenset({"cache_control", "cachePoint", "cache_point"})
"""Keys that mark where a provider should cache; they are not part of what it reads."""

_NOT_READ: Final = frozenset(
    {
        "max_completion_tokens", "max_output_tokens", "max_tokens", "metadata", "n", "seed", "stop",
        "stop_sequences", "stream", "stream_options", "temperature", "timeout", "top_k", "top_p",
        "user",
    }
)  # fmt: skip
"""Settings of a call that do not change what the model reads."""


Digest = tuple[int, int]
"""Digest of a message: its hash, and its size in characters. A class would take as long to make."""


class ToolDigest(NamedTuple):
    """Digest of the schema of a tool."""

    name: str
    hash: int
    size: int


class PromptDigest(NamedTuple):
    """Digest of a system prompt, with what is needed to find the byte of a change."""

    hash: int
    size: int
    blocks: Sequence[int]  # digests of blocks, or the bytes themselves
    block: int  # bytes of a block


NO_PROMPT: Final = PromptDigest(0, 0, (), 1)


class Head(NamedTuple):
    """Digests of what comes before the messages."""

    model: str
    tools: tuple[ToolDigest, ...]
    response_format: int
    system_prompt: PromptDigest
    settings: tuple[tuple[str, int], ...]


class Prefix(NamedTuple):
    """Digests of the parts of a request."""

    head: Head
    messages: tuple[Digest, ...]

    def part(self, name: Part) -> Any:
        """Return the digests of a part."""
        return self.messages if name == "messages" else getattr(self.head, name)

    def sizes(self) -> list[int]:
        """Return the characters of the tools, the system prompt and the messages."""
        tools = sum(tool.size for tool in self.head.tools)
        return [tools, self.head.system_prompt.size, sum(size for _, size in self.messages)]


class Change(NamedTuple):
    """What is not the same in two requests: the part, the position in it, and that in words."""

    part: Part
    at: int
    text: str
    kept: int  # characters before it, of the earlier request


class Culprit(NamedTuple):
    """What changed a prefix: a middleware and its method, or a node and the name of a tool."""

    middleware: str
    hook: str
    tool: str = ""


class PrefixChange(NamedTuple):
    """A change of the prefix, who made it, and what it costs in tokens."""

    culprit: Culprit
    text: str
    lost: int
    cached: int
    followers: tuple[str, ...] = ()  # middleware further in that change the same part


INPUT: Final = Culprit("", "input")
"""The caller: the input of a run, or `update_state`."""

REPAIR: Final = Culprit("", "model")
"""The model node, which repairs histories."""


# Digests


def digest_of(message: Any) -> Digest:
    """Return the digest of what a provider reads of a message, without marks for its cache."""
    # By the type that is written in it: an `isinstance` takes as long as all the rest.
    kind = getattr(message, "type", None)
    if kind is None:  # a layer may pass a dict or a pair
        text = repr(message)
        return hash(text), len(text)
    content = message.content
    text, size = (content, len(content)) if type(content) is str else _text_of(content)
    more = ""
    if kind == "tool":
        more = f"{message.tool_call_id} {message.status}"
    elif kind == "ai" or kind == "AIMessageChunk":
        kind, calls = "ai", message.tool_calls
        if message.invalid_tool_calls:
            calls = [*calls, *message.invalid_tool_calls]
        if calls:
            more = repr([(call["name"], call["args"], call["id"]) for call in calls])
    return hash((kind, text, message.name, more)), size + len(more)


def _text_of(content: Any) -> tuple[str, int]:
    """Return content as one text, and its size; a single block of text equals the plain text."""
    parts, size = [], 0
    for block in content:
        most = None
        if isinstance(block, dict):
            block = {key: value for key, value in block.items() if key not in _MARKS}
            if block.keys() == {"type", "text"}:
                block = block["text"]
            elif block:
                block, most = repr(block), _IMAGE
        if block:
            parts.append(block)
            size += len(block[:most])
    return "\0".join(parts), size


class _ByIdentity(tuple[Any, ...]):
    """Objects as a key that compares them by identity, and keeps them, so no id is used again."""

    def __hash__(self) -> int:
        return hash(tuple(map(id, self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and len(self) == len(other) and all(map(is_, self, other))


def _digests_of_tools(tools: Iterable[Any]) -> tuple[ToolDigest, ...]:
    found = []
    for tool in tools:
        is_own = isinstance(tool, dict) and tool.get("type") != "function"
        try:
            schema = tool if is_own else convert_to_openai_tool(tool)
        except Exception:  # a form that only the model's own `bind_tools` knows
            schema = {"name": getattr(tool, "name", type(tool).__name__), "tool": repr(tool)}
        schema = {key: value for key, value in schema.items() if key not in _MARKS}
        text = json.dumps(schema, default=str)
        name = schema.get("function", schema).get("name") or schema.get("type")
        # What a provider is passed besides the schema, such as a mark for deferred loading.
        extras = {k: v for k, v in (getattr(tool, "extras", None) or {}).items() if k not in _MARKS}
        found.append(ToolDigest(str(name), hash((text, repr(extras or ""))), len(text)))
    return tuple(found)


def _name_of_model(model: Iterable[Any]) -> str:
    """Return the name of a model, with what is bound to it."""
    (inner,), bound = model, ""
    while isinstance(inner, RunnableBinding):
        read = {key: value for key, value in inner.kwargs.items() if key not in _NOT_READ}
        bound += f" with {', '.join(read)} ({hash(repr(read)) & 0xFFFF:04x})" if read else ""
        inner = inner.bound
    names = (getattr(inner, key, None) for key in ("model_name", "model", "model_id"))
    name = next((name for name in names if isinstance(name, str)), None)
    return f"{name or type(inner).__name__}{bound}"


def _digest_of_format(given: Iterable[Any]) -> int:
    (strategy,) = given
    if isinstance(strategy, ProviderStrategy):
        return hash(repr(strategy.to_model_kwargs()))
    if isinstance(strategy, ToolStrategy):
        return hash(_digests_of_tools(binding.tool for binding in strategy.bindings.values()))
    # The request of a layer may hold a schema, or a strategy that depends on the model.
    return hash(repr(getattr(strategy, "schema", strategy)))


class PrefixReader:
    """Reads requests into digests; the same objects are read once.

    Args:
        exact: Keep the bytes of system prompts, to find the very byte of a change.
    """

    SIZE = 64
    """How many models, lists of tools, formats and system prompts are remembered."""

    def __init__(self, *, exact: bool) -> None:
        def prompt(messages: _ByIdentity) -> PromptDigest:
            (message,) = messages
            if message is None:
                return NO_PROMPT
            content = message.content
            text: str = content if type(content) is str else _text_of(content)[0]
            data = text.encode(errors="replace")
            if exact:
                return PromptDigest(hash(text), len(text), data, 1)
            blocks = [hash(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)]
            return PromptDigest(hash(text), len(text), blocks, BLOCK)

        remembered = lru_cache(self.SIZE)
        self._model = remembered(_name_of_model)
        self._tools = remembered(_digests_of_tools)
        self._format = remembered(_digest_of_format)
        self._prompt = remembered(prompt)
        self._last: tuple[ModelRequest[Any], Head] | None = None

    def read_first(self, request: ModelRequest[Any], messages: tuple[Digest, ...]) -> Prefix:
        """Return the digests of the node's request, which is the same in each call but for those
        of its messages."""
        if self._last is not None:
            last, known = self._last
            if (
                request.model is last.model
                and request.system_message is last.system_message
                and request.response_format is last.response_format
                and len(request.tools) == len(last.tools)
                and all(map(is_, request.tools, last.tools))
            ):
                return Prefix(known, messages)
        prefix = self.read(request, messages)
        self._last = request.override(messages=(), state=None, runtime=None), prefix.head
        return prefix

    def read(self, request: ModelRequest[Any], messages: tuple[Digest, ...]) -> Prefix:
        """Return the digests of a request, whose messages have these."""
        head = Head(
            self._model(_ByIdentity((request.model,))),
            self._tools(_ByIdentity(request.tools)),
            self._format(_ByIdentity((request.response_format,))),
            self._prompt(_ByIdentity((request.system_message,))),
            _digest_of_settings(request),
        )
        return Prefix(head, messages)

    def read_inner(
        self, request: ModelRequest[Any], around: ModelRequest[Any], known: Prefix
    ) -> Prefix:
        """Return the digests of a request that a layer made of one whose digests are known."""
        digests, head = known.messages, known.head
        if request.messages is not around.messages:
            digests = digests_among(request.messages, around.messages, digests)
        if request.system_message is not around.system_message:
            prompt = self._prompt(_ByIdentity((request.system_message,)))
            head = Head(*head[:3], prompt, head.settings)
        if (
            request.model is around.model
            and request.tools is around.tools
            and request.response_format is around.response_format
            and request.tool_choice is around.tool_choice
            and request.model_settings is around.model_settings
        ):
            return Prefix(head, digests)
        return self.read(request, digests)

    def read_sent(self, known: Prefix, strategy: Strategy, messages: tuple[Digest, ...]) -> Prefix:
        """Return the digests of what is sent in the end, with the strategy for the model."""
        if strategy is None and messages is known.messages:
            return known
        response_format = self._format(_ByIdentity((strategy,)))
        return Prefix(known.head._replace(response_format=response_format), messages)


def _digest_of_settings(request: ModelRequest[Any]) -> tuple[tuple[str, int], ...]:
    if request.tool_choice is None and not request.model_settings:
        return ()
    settings = {k: v for k, v in request.model_settings.items() if k not in _NOT_READ}
    if request.tool_choice is not None:
        settings["tool_choice"] = request.tool_choice
    return tuple(sorted((str(key), hash(repr(value))) for key, value in settings.items()))


def digests_among(
    messages: Sequence[BaseMessage], known: Sequence[BaseMessage], digests: tuple[Digest, ...]
) -> tuple[Digest, ...]:
    """Return digests of messages, of which many may be the same objects as the known ones."""
    count = len(known)
    if not count:
        return tuple(map(digest_of, messages))
    if _begins_with(messages, known):
        return digests + tuple(map(digest_of, messages[count:]))
    same = list(map(is_, messages, known))
    at = same.index(False) if False in same else len(same)
    by_id = dict(zip(map(id, known[at:]), digests[at:], strict=True))
    rest = [by_id.get(id(message)) or digest_of(message) for message in messages[at:]]
    return digests[:at] + tuple(rest)


def _begins_with(messages: Sequence[BaseMessage], known: Sequence[BaseMessage]) -> bool:
    """Whether a list begins with messages that are known; false where that takes long to say."""
    count = len(known)
    # Lists of the same objects are compared fast. Where the ends are not, others are not likely
    # to be, and would be compared by value.
    return (
        len(messages) >= count
        and messages[count - 1] is known[-1]
        and messages[0] is known[0]
        and messages[:count] == known
    )


# Changes


def change_of(part: Part, old: Prefix, new: Prefix) -> Change | None:
    """Return what is not the same in one part of two requests, except for messages at the end."""
    before, after = old.part(part), new.part(part)
    if before == after:
        return None
    tools, system, _ = old.sizes()
    if part == "model":
        return Change(part, 0, f"calls {after} in place of {before}", 0)
    if part == "tools":
        at = _first_difference(before, after)
        return Change(part, at, _change_of_tools(before, after), sum(t.size for t in before[:at]))
    if part == "response_format":
        return Change(part, 0, "changes the response format", tools)
    if part == "system_prompt":
        if not (before.size and after.size):
            verb = "removes" if before.size else "adds"
            return Change(part, 0, f"{verb} the system prompt", tools)
        at = _first_difference(before.blocks, after.blocks) * before.block
        about = "" if before.block == 1 else "about "
        return Change(part, at, f"changes the system prompt at {about}byte {at}", tools + at)
    if part == "settings":
        names = sorted({name for name, _ in {*before} ^ {*after}})
        return Change(part, 0, f"changes {', '.join(names)}", tools + system)
    at = _first_difference(before, after)
    if at == len(before):
        return None
    kept = tools + system + sum(size for _, size in before[:at])
    return Change(part, at, _change_of_messages(before, after, at), kept)


PARTS: Final[tuple[Part, ...]] = (
    "model", "tools", "response_format", "system_prompt", "settings", "messages",
)  # fmt: skip


def _first_difference(one: Sequence[Any], other: Sequence[Any]) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _change_of_tools(before: Sequence[ToolDigest], after: Sequence[ToolDigest]) -> str:
    old, new = ([tool.name for tool in tools] for tools in (before, after))
    added, removed = ([n for n in a if n not in b] for a, b in ((new, old), (old, new)))
    if added or removed:
        said = [("adds", added), ("removes", removed)]
        return " and ".join(f"{verb} {_tools(names)}" for verb, names in said if names)
    if old != new:
        at = _first_difference(old, new)
        return f"changes the order of the tools from {new[at]} on"
    changed = [a.name for a, b in zip(after, before, strict=True) if a != b]
    return f"changes the schema of {_tools(changed)}"


def _tools(names: Sequence[str]) -> str:
    return f"the tool{'s' * (len(names) > 1)} {', '.join(names)}"


def _change_of_messages(before: Sequence[Digest], after: Sequence[Digest], at: int) -> str:
    """Return what was done to messages from an index on, after which they continue alike."""
    old, new = before[at:], after[at:]
    # The last message may be another one each time, so what is alike may end before it.
    for end in range(len(old), max(0, len(old) - 2), -1):
        alike = 0
        for place in (index for index, one in enumerate(new) if one == old[end - 1]):
            count = 1
            while count < min(end, place + 1) and old[end - 1 - count] == new[place - count]:
                count += 1
            if count > alike:
                alike, removed, added = count, end - count, place + 1 - count
        if alike:
            return _edit(at, removed, added)
    return _edit(at, 1, 1) if len(old) == 1 else f"changes all messages from messages[{at}] on"


def _edit(at: int, removed: int, added: int) -> str:
    named = f"messages[{at}]" if removed <= 1 else f"messages[{at}] to messages[{at + removed - 1}]"
    if not added:
        return f"removes {named}"
    if not removed:
        return f"inserts {added} message{'s' * (added > 1)} at {named}"
    if removed == added == 1:
        return f"edits {named}"
    return f"replaces {named} by {added} message{'s' * (added > 1)}"


# Who changed it


def culprit_at(change: Change, old: Sequence[Prefix], new: Sequence[Prefix]) -> int:
    """Return the outermost place from which on, inward, a change is found in each place.

    Args:
        change: The change in what was sent: at the innermost place.
        old: The digests of the earlier request at each place, the outermost first.
        new: Those of the later one.
    """

    def is_same(outer: Change, place: int) -> bool:
        """Whether a change of messages further out is this one, by the message or its index."""
        inner = len(new) - 1
        if change.part != "messages":
            return True
        if all(len(of[place].messages) == len(of[inner].messages) for of in (old, new)):
            return outer.at == change.at
        # A layer has moved messages.
        return any(
            outer.at < len(of[place].messages)
            and change.at < len(of[inner].messages)
            and of[place].messages[outer.at] == of[inner].messages[change.at]
            for of in (old, new)
        )

    index = len(new) - 1
    while index:
        outer = change_of(change.part, old[index - 1], new[index - 1])
        if outer is None or not is_same(outer, index - 1):
            break
        index -= 1
    return index


class Edit(NamedTuple):
    """A write to the messages of a thread that did more than append."""

    culprit: Culprit
    at: int


def edited_from(messages: Sequence[Any], written: Any) -> int | None:
    """Return the index of the first message that an update changes or removes; None if none."""
    written = written if isinstance(written, list) else [written]
    removals = [index for index, one in enumerate(written) if isinstance(one, RemoveMessage)]
    every = [index for index in removals if written[index].id == REMOVE_ALL_MESSAGES]
    if every:
        rest = written[every[-1] + 1 :]
        if not all(isinstance(one, BaseMessage) for one in rest):
            return 0
        at = _first_difference(*(list(map(digest_of, some)) for some in (messages, rest)))
        return at if at < len(messages) else None
    index_of = {message.id: index for index, message in enumerate(messages)}
    found = []
    for one in written:
        if not isinstance(one, BaseMessage) or one.id not in index_of:
            continue
        index = index_of[one.id]
        if isinstance(one, RemoveMessage) or digest_of(one) != digest_of(messages[index]):
            found.append(index)
    return min(found, default=None)


@dataclass(slots=True)
class _Thread:
    """What is remembered of a thread: its last request at each place, and edits since then."""

    places: Sequence[Prefix] = ()
    input_tokens: int = 0  # of the last request, if its provider reports them
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
    """A request that is sent to the model, and the ones further out."""

    given: Sequence[BaseMessage]
    passed: Sequence[ModelRequest[Any]]  # of the node, and of each layer
    strategy: Strategy
    messages: Sequence[BaseMessage]


class PrefixTracker:
    """Finds what changed the prefix of requests, by thread.

    Args:
        exact: Find the very byte of a change, for which system prompts are kept as they are.
    """

    THREADS = 1024
    """How many threads are remembered; the one that called the model longest ago is forgotten."""

    RUNS = 64
    """Of how many runs that are under way the messages themselves are kept, to read each once."""

    def __init__(self, *, exact: bool) -> None:
        self._reader = PrefixReader(exact=exact)
        self._threads: OrderedDict[Any, _Thread] = OrderedDict()
        self._read: OrderedDict[Any, tuple[list[BaseMessage], tuple[Digest, ...]]] = OrderedDict()
        self._lock = Lock()

    def edited(self, runtime: Any, culprit: Culprit, messages: Sequence[Any], written: Any) -> None:
        """Note who changed or removed messages of a thread."""
        with self._lock:
            thread = self._threads.get(_key(runtime))
        if thread is not None and (at := edited_from(messages, written)) is not None:
            thread.edits.append(Edit(culprit, at))

    def answered(
        self, sent: SentRequest, answer: AIMessage, layers: Mapping[int, Culprit]
    ) -> list[PrefixChange]:
        """Return what a request changed that was answered, compared with the one before it."""
        request = sent.passed[0]
        with self._lock:
            key = _key(request.runtime)
            if (thread := self._threads.get(key)) is None:
                thread = self._threads[key] = _Thread()
                if len(self._threads) > self.THREADS:
                    self._threads.popitem(last=False)
            self._threads.move_to_end(key)
            read = self._read.pop(key, ([], ()))
        found: list[PrefixChange] = []
        known, digests = read
        goes_on = bool(answer.tool_calls)
        if not (goes_on and self._repeats(sent, thread.places, known)):
            if len(digests) < len(known):
                # Since they were read, all places have passed on the thread's messages.
                digests += tuple(map(digest_of, known[len(digests) :]))
                thread.places = [Prefix(place.head, digests) for place in thread.places]
            old, new = thread.places, self._places(sent, known, digests)
            if len(old) == len(new) and not _is_stable(old, new):
                found = self._changes(thread, old, new, layers)
            thread.places, digests = new, new[0].messages
        if goes_on:  # with the same objects
            with self._lock:
                self._read[key] = list(sent.given), digests
                if len(self._read) > self.RUNS:
                    self._read.popitem(last=False)
        thread.input_tokens = answer.usage_metadata["input_tokens"] if answer.usage_metadata else 0
        if thread.edits:
            thread.edits.clear()
        return found

    def _repeats(
        self, sent: SentRequest, places: Sequence[Prefix], known: Sequence[BaseMessage]
    ) -> bool:
        """Whether only messages were added, by objects: then they need not be read yet.

        It is so in most calls of a run. Both requests have passed all places as they were.
        """
        request, *inner = sent.passed
        return (
            bool(known)
            and sent.given is request.messages is sent.messages
            and len(places) == len(inner) + 3
            and places[0] is places[-1]
            and all(passed is request for passed in inner)
            and self._reader.read_first(request, ()).head is places[0].head
            and _begins_with(sent.given, known)
        )

    def _places(
        self, sent: SentRequest, known: Sequence[BaseMessage], digests: tuple[Digest, ...]
    ) -> list[Prefix]:
        """Return the digests of a request at each place, the outermost first."""
        reader, (request, *inner) = self._reader, sent.passed
        given = digests_among(sent.given, known, digests)
        prefix = reader.read_first(request, given)
        places = [prefix]
        if request.messages is not sent.given:
            repaired = digests_among(request.messages, sent.given, given)
            prefix = prefix if repaired == given else prefix._replace(messages=repaired)
        places.append(prefix)
        for passed in inner:
            if passed is not request:
                prefix, request = reader.read_inner(passed, request, prefix), passed
            places.append(prefix)
        messages = prefix.messages
        if sent.messages is not request.messages:
            messages = digests_among(sent.messages, request.messages, messages)
        places.append(reader.read_sent(prefix, sent.strategy, messages))
        return places

    def _changes(
        self,
        thread: _Thread,
        old: Sequence[Prefix],
        new: Sequence[Prefix],
        layers: Mapping[int, Culprit],
    ) -> list[PrefixChange]:
        found: list[PrefixChange] = []
        cached = sum(old[-1].sizes())
        scale = thread.input_tokens / cached if cached else 0
        for part in PARTS:
            change = change_of(part, old[-1], new[-1])
            if change is None:
                continue
            index = culprit_at(change, old, new)
            # What a layer shows in the last message only, such as a list of tasks, is another one
            # in each call. The thread's own messages stay.
            if index and part == "messages" and change.at == len(old[-1].messages) - 1:
                continue
            culprit = layers.get(index - 2, REPAIR)
            if index == 0 and (given := change_of(part, old[0], new[0])) is not None:
                edits = [edit.culprit for edit in thread.edits if edit.at <= given.at]
                culprit = edits[-1] if edits else INPUT
            rate = scale or 1 / CHARACTERS_PER_TOKEN
            lost, tokens = round((cached - change.kept) * rate), round(cached * rate)
            followers: tuple[str, ...] = ()
            if part in ("tools", "system_prompt"):
                followers = tuple(
                    layers[place - 2].middleware
                    for place in range(max(index, 1) + 1, len(new) - 1)
                    if new[place].part(part) != new[place - 1].part(part)
                )
            found.append(PrefixChange(culprit, change.text, lost, tokens, followers))
            if part == "model":
                break  # the cache of another model is another one
        return found


def _is_stable(old: Sequence[Prefix], new: Sequence[Prefix]) -> bool:
    """Whether a request begins like the one before it: the usual case, seen without `_changes`."""
    head, before = old[-1]
    if head is not new[-1].head and head != new[-1].head:
        return False
    after = new[-1].messages
    if before is after or before == after[: len(before)]:
        return True
    # Another last message, which is not the thread's own.
    given = old[0].messages
    return before[:-1] == after[: len(before) - 1] and given == new[0].messages[: len(given)]


def _key(runtime: Runtime[Any]) -> Any:
    """Return what identifies the thread of a graph; without one, its run."""
    info = runtime.execution_info
    if info is None or info.thread_id is None:
        return run_identity(runtime)
    return info.thread_id, info.checkpoint_ns.rpartition("|")[0]
