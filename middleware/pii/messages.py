"""Redaction of messages: their text, in every form, and the calls they make, whole or streamed.

Of a streamed answer, text that a match may begin or continue in is held back until it is
complete; all other text is released at once. The released pieces, joined, are the redacted whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    InvalidToolCall,
    ToolMessage,
    convert_to_messages,
)
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.outputs import ChatGenerationChunk
from langgraph.types import Command, Overwrite

from agent_factory import Flow, NextChunk
from agent_factory.middleware._shared.checked_messages import result_tool
from agent_factory.middleware._shared.messages import CALL_BLOCKS, INPUT_KEYS
from agent_factory.providers.thoughts import THOUGHT_BLOCKS

TextPath = tuple[Hashable, ...]
"""Path to a string in a message: keys, and for list items what chunks are merged by."""

EXTRAS = "additional_kwargs"

Redact = Callable[[str], str]


class Rule(Protocol):
    """Rule by which texts are redacted, such as a `RedactionRule`."""

    def apply(self, text: str) -> str:
        """Return the text with each match replaced."""

    def settled(self, text: str) -> int:
        """Return how many leading characters are redacted alike, however the text continues."""


MessageT = TypeVar("MessageT", bound=BaseMessage)
AnswerT = TypeVar("AnswerT", bound=AIMessage)

_ROLES: Mapping[type[BaseMessage], Sequence[str]] = {
    HumanMessage: ("user", "human"),
    AIMessage: ("assistant", "ai"),
    ToolMessage: ("tool", "function"),
}

# Types of content blocks that are calls. Their strings are arguments, not text.
_CALL_TYPES = (
    CALL_BLOCKS
    | {"custom_tool_call", "mcp_call"}
    | {"server_tool_call", "server_tool_call_chunk", "server_tool_use"}
)

_CALL_KEYS = frozenset({"tool_calls", "function_call"})
"""Keys of `additional_kwargs` that repeat the calls as the provider sent them."""

# Keys of content blocks, and of `additional_kwargs`, that hold text.
_TEXT_KEYS = frozenset(
    {"content", "output", "refusal", "text", "transcript", "value"}
    | {"reasoning", "reasoning_content", "summary", "thinking"}
    | {"annotations", "citations"}
)

# Keys that hold no text: files, and what a provider must get back unchanged.
_OPAQUE_KEYS = frozenset(
    {"base64", "data", "file", "file_id", "image_url", "media_type", "mime_type", "source"}
    | {"encrypted_content", "encrypted_index", "signature"}
    | {"id", "index", "tool_use_id", "type"}
)

# Held text is examined again when it has grown by an eighth: so a text that never settles takes
# time proportional to its length.
_GROWTH = 8

# Parts of blocks that arrive as a whole, not piece by piece.
_WHOLE_KEYS = frozenset({"annotations", "citations", "output", "value"})


def map_text(
    value: object, replace_text: Callable[[TextPath, str], str], path: TextPath = ("content",)
) -> Any:
    """Return a part of a message, at this path, with each text replaced."""
    if isinstance(value, str):
        return replace_text(path, value)
    if isinstance(value, list):
        items = []
        for item in value:
            # Chunks are merged by type and index. A plain string counts as a text block.
            step: TextPath = ((),)
            if isinstance(item, str):
                step = ((("type", "text"),), "text")
            elif isinstance(item, dict):
                step = (tuple((key, item[key]) for key in ("type", "index") if key in item),)
            items.append(map_text(item, replace_text, (*path, *step)))
        return items
    if not isinstance(value, dict) or is_call(value):
        return value
    within_text = path[0] == EXTRAS or any(step in _TEXT_KEYS for step in path[1:])
    return {
        key: map_text(part, replace_text, (*path, key))
        if key in _TEXT_KEYS or (within_text and key not in _OPAQUE_KEYS)
        else part
        for key, part in value.items()
    }


def has_role(message: Any, kind: type[BaseMessage]) -> bool:
    """Return True if a message is of a class, or of another class in the same role.

    The result of a background tool is a message of a user, too: a client may have written the mark.
    """
    if kind is ToolMessage and result_tool(message) is not None:
        return True
    if isinstance(message, ChatMessage):
        return message.role.lower() in _ROLES[kind]
    return isinstance(message, FunctionMessage if kind is ToolMessage else kind)


def redact_message(message: MessageT, redact: Redact) -> MessageT:
    """Return the message with the text redacted, or itself if nothing changes; calls stay.

    The name of a user is redacted too. Other messages have the name of a tool or of an agent.
    """
    update = {"content": map_text(message.content, lambda _, text: redact(text))}
    if message.name and has_role(message, HumanMessage):
        update["name"] = redact(message.name)
    changed = {key: value for key, value in update.items() if getattr(message, key) != value}
    return message.model_copy(update=changed) if changed else message


def redact_value(value: object, redact: Redact) -> Any:
    """Redact every string and integer in a JSON value, including the keys of dicts."""
    if isinstance(value, str):
        return redact(value)
    if type(value) is int:  # such as the number of a card
        return value if (text := redact(str(value))) == str(value) else text
    if isinstance(value, list):
        return [redact_value(item, redact) for item in value]
    if isinstance(value, dict):
        return {redact_value(k, redact): redact_value(item, redact) for k, item in value.items()}
    return value


def is_call(block: object) -> bool:
    """Return whether a content block is a call."""
    return isinstance(block, dict) and block.get("type") in _CALL_TYPES


def map_answer(message: AIMessage, replace_text: Callable[[TextPath, str], str]) -> dict[str, Any]:
    """Return the fields of an answer with text of the model, with the texts replaced."""
    extras = message.additional_kwargs
    texts = {key: value for key, value in extras.items() if key in _TEXT_KEYS or key == "audio"}
    extras = {**extras, **map_text(texts, replace_text, (EXTRAS,))}
    return {EXTRAS: extras, "content": map_text(message.content, replace_text)}


def signature(thought: Any) -> str | None:
    """Return the signature of a block with a thought; None without one."""
    if not isinstance(thought, dict) or thought.get("type") not in THOUGHT_BLOCKS:
        return None
    # Anthropic, Bedrock, and LangChain's standard form.
    parts = (thought, thought.get("reasoning_content"), thought.get("extras"))
    return next((p["signature"] for p in parts if isinstance(p, dict) and "signature" in p), None)


@dataclass(frozen=True)
class Guard:
    """Rule, and the parts of a model's answer under the rule."""

    rule: Rule
    text: bool  # redact content, reasoning and refusals
    all_calls: bool = False  # redact the arguments of every call
    calls: frozenset[str] = frozenset()  # tools whose calls are redacted in any case

    @property
    def redacts_calls(self) -> bool:
        """True if any valid calls are redacted."""
        return self.all_calls or bool(self.calls)

    def redact_answer(self, message: AnswerT) -> AnswerT:
        """Return a complete answer with the rule applied.

        Unreadable calls, and the errors in them, are redacted by every guard: they reach
        the model, and no tool.
        """
        update: dict[str, Any] = {"content": message.content, EXTRAS: message.additional_kwargs}
        if self.text:
            update = map_answer(message, lambda _, text: self.rule.apply(text))
            if isinstance(message.content, list):
                # Providers refuse a signed thought with another text, so it goes. An empty
                # signature is that of a thought that has changed in a stream.
                pairs = zip(message.content, update["content"], strict=True)
                update["content"] = [new for old, new in pairs if new == old or not signature(old)]
                update["content"] = [b for b in update["content"] if signature(b) != ""]
        invalid = message.invalid_tool_calls
        if self.redacts_calls or invalid:
            update = {
                "content": self.redact_calls(update["content"], invalid),
                EXTRAS: self.redact_raw_calls(update[EXTRAS], invalid),
                "tool_calls": self.redact_calls(message.tool_calls, invalid),
                "invalid_tool_calls": self.redact_calls(invalid, invalid),
            }
        changed = {key: value for key, value in update.items() if getattr(message, key) != value}
        return message.model_copy(update=changed) if changed else message

    def redact_output(self, message: MessageT) -> MessageT:
        """Redact a message of the model; other messages stay."""
        if isinstance(message, AIMessage):
            return self.redact_answer(message)
        if self.text and has_role(message, AIMessage):
            return redact_message(message, self.rule.apply)
        return message

    def redact_name(self, message: MessageT) -> MessageT:
        """Redact the name of an answer."""
        if not (self.text and message.name):
            return message
        return message.model_copy(update={"name": self.rule.apply(message.name)})

    def redact_result(self, result: object) -> object:
        """Redact the messages in the result of a tool: a message, a Command, or a list of these."""
        if isinstance(result, list):
            return [self.redact_result(item) for item in result]
        if isinstance(result, AIMessage):
            return self.redact_answer(result)
        if isinstance(result, BaseMessage):
            return redact_message(result, self.rule.apply)
        if not isinstance(result, Command):
            return result

        def redact_messages(key: str, value: Any) -> object:
            if key != "messages" or value is None:
                return value
            # Overwrite replaces the list in the state, instead of adding to it.
            if isinstance(value, Overwrite):
                return Overwrite(redact_messages(key, value.value))
            messages = value if isinstance(value, list) else [value]
            return self.redact_result(convert_to_messages(messages))

        update: object = result.update
        if isinstance(update, Mapping):
            update = {key: redact_messages(key, value) for key, value in update.items()}
        # LangGraph also takes an update as a list of pairs.
        elif isinstance(update, Sequence) and not isinstance(update, str):
            update = [(key, redact_messages(key, value)) for key, value in update]
        else:
            return result
        return replace(result, update=update)

    def redact_calls(self, blocks: object, invalid: Sequence[InvalidToolCall]) -> Any:
        """Redact the calls among content blocks or tool calls; the `invalid` ones in any case."""
        if not isinstance(blocks, list):
            return blocks
        return [self.redact_call(b, self._covers(b, invalid)) if is_call(b) else b for b in blocks]

    def redact_raw_calls(
        self, extras: Mapping[str, object], invalid: Sequence[InvalidToolCall]
    ) -> dict[str, object]:
        """Redact the calls in `additional_kwargs`."""

        def redact(calls: object) -> object:
            if isinstance(calls, list):
                return [redact(call) for call in calls]
            if not isinstance(calls, dict):
                return calls
            function = calls.get("function")
            if not isinstance(function, dict):
                return self.redact_call(calls, self._covers(calls, invalid))
            is_covered = self._covers({**calls, **function}, invalid)
            return {**calls, "function": self.redact_call(function, is_covered)}

        return {key: redact(value) if key in _CALL_KEYS else value for key, value in extras.items()}

    def _covers(self, call: Mapping[str, object], invalid: Sequence[InvalidToolCall]) -> bool:
        """Return True if a call, in any form, is redacted."""
        # Some forms have no id.
        identity = call.get("call_id") or call.get("id") or call.get("name")
        if self.all_calls or call.get("name") in self.calls:
            return True
        return any(identity in (each["id"], each["name"]) for each in invalid)

    def redact_call(self, call: Mapping[str, object], is_covered: bool = True) -> dict[str, object]:
        """Redact the arguments of a covered call in any form."""
        result = dict(call)
        for key in (INPUT_KEYS | {"error"}) & call.keys() if is_covered else ():
            arguments = call[key]
            if not isinstance(arguments, str):
                result[key] = redact_value(arguments, self.rule.apply)
                continue
            # Providers send arguments as JSON: redact the strings, not the syntax.
            try:
                value = json.loads(arguments)
            except ValueError:
                result[key] = self.rule.apply(arguments)
                continue
            new = redact_value(value, self.rule.apply)
            # JSON without a match stays as the model has written it.
            result[key] = arguments if new == value else json.dumps(new, ensure_ascii=False)
        return result


class TextStream:
    """Redaction of a text in pieces.

    >>> from agent_factory.middleware import RedactionRule
    >>> stream = TextStream(RedactionRule("email"))
    >>> [stream.feed(piece) for piece in ("Ask ada@", "example.", "com or ")], stream.close()
    (['Ask ', '', '[REDACTED_EMAIL] or '], '')
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._tail: list[str] = []
        self._size = 0
        self._next_look = 0
        self.has_changed = False

    def feed(self, piece: str) -> str:
        """Add the next piece; return the part to release now."""
        self._tail.append(piece)
        self._size += len(piece)
        if self._size < self._next_look:
            return ""
        text = "".join(self._tail)
        cut = self._rule.settled(text)
        self._tail, self._size = [text[cut:]], len(text) - cut
        self._next_look = self._size + self._size // _GROWTH
        return self._apply(text[:cut])

    def close(self) -> str:
        """End the text; return the rest."""
        text = "".join(self._tail)
        self._tail, self._size, self._next_look = [], 0, 0
        return self._apply(text)

    def _apply(self, text: str) -> str:
        redacted = self._rule.apply(text)
        self.has_changed = self.has_changed or redacted != text
        return redacted


def redact_answer(guard: Guard) -> Flow[None]:
    """Redact an answer, whole or chunk by chunk."""
    stream = AnswerStream(guard)
    while (message := (yield NextChunk())) is not None:
        if not isinstance(message, AIMessageChunk):
            yield guard.redact_name(guard.redact_answer(message))
            return
        for part in stream.feed(ChatGenerationChunk(message=message)):
            yield part.message
    for part in stream.close():
        yield part.message


class AnswerStream:
    """Redaction of an answer in chunks, each with parts of several texts and calls."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._texts: dict[TextPath, TextStream] = {}
        self._changed: set[object] = set()  # positions of blocks whose text has changed
        self._ready: list[AIMessageChunk] = []
        self._calls: list[AIMessageChunk] = []  # redacted at the end, when they are complete
        self._last: list[AIMessageChunk] = []
        self._id: str | None = None

    def feed(self, chunk: ChatGenerationChunk) -> Iterator[ChatGenerationChunk]:
        """Add the next chunk; return the chunks to release now."""
        message = chunk.message
        if not isinstance(message, AIMessageChunk):
            kind = type(message).__name__
            raise TypeError(f"a chat model must stream AIMessageChunks, got {kind}.")
        # Some chunks come without the id, and chunks of held text need it.
        self._id = message.id or self._id
        if message.chunk_position:
            # The position marks the last chunk: keep it for the end.
            empty: Any = "" if isinstance(message.content, str) else []
            position = message.chunk_position
            self._last = [AIMessageChunk(content=empty, id=message.id, chunk_position=position)]
            message = message.model_copy(update={"chunk_position": None})
        message = self._without_calls(self._guard.redact_name(message))
        if self._guard.text:
            update = map_answer(message, self._redact_piece)
            update[EXTRAS] = {key: value for key, value in update[EXTRAS].items() if value != ""}
            if isinstance(update["content"], list):
                blocks = [b for b in update["content"] if not _is_empty_block(b)]
                update["content"] = list(map(self._unsigned, blocks))
            message = message.model_copy(update=update)
        chunks, self._ready = self._ready, []
        # A chunk of which everything is held back is left out.
        if (
            message.content
            or message.tool_call_chunks
            or message.additional_kwargs
            or message.response_metadata
            or message.usage_metadata
            or (chunk.generation_info and not chunks)
        ):
            chunks.append(message)
        parts = [ChatGenerationChunk(message=part) for part in chunks]
        # Details of the generation, such as the finish reason, go with the last chunk.
        if chunk.generation_info:
            parts[-1].generation_info = chunk.generation_info
        return iter(parts)

    def close(self) -> Iterator[ChatGenerationChunk]:
        """End the answer; return the remaining chunks."""
        self._end_texts()
        chunks = self._ready
        if self._calls:
            calls, guard = add_ai_message_chunks(*self._calls), self._guard
            invalid = calls.invalid_tool_calls
            chunks.append(
                AIMessageChunk(
                    id=self._id,
                    content=guard.redact_calls(calls.content, invalid),
                    additional_kwargs=guard.redact_raw_calls(calls.additional_kwargs, invalid),
                    tool_call_chunks=guard.redact_calls(calls.tool_call_chunks, invalid),
                )
            )
        return (ChatGenerationChunk(message=part) for part in [*chunks, *self._last])

    def _redact_piece(self, path: TextPath, text: str) -> str:
        """Feed the next piece of the text at a path; return the part to release."""
        if not text or not _WHOLE_KEYS.isdisjoint(path):
            return self._guard.rule.apply(text)
        if path not in self._texts:
            # Texts follow one another: where the answer begins, the reasoning before it is over.
            if any(other[:2] != path[:2] for other in self._texts):
                self._end_texts()
            self._texts[path] = TextStream(self._guard.rule)
        return self._texts[path].feed(text)

    def _unsigned(self, block: Any) -> object:
        """Return a block of a chunk, with an empty signature if the text of its thought changed."""
        if not signature(block):
            return block
        self._end_texts()  # a signature is the end of a thought
        if block.get("index") not in self._changed:
            return block
        parts: dict[str, Any] = {"signature": ""}
        nested = {k: {**v, **parts} for k, v in block.items() if isinstance(v, dict)}
        return {**block, **(nested or parts)}

    def _end_texts(self) -> None:
        steps: Any  # of strings and pairs
        for steps, stream in self._texts.items():
            if rest := stream.close():
                # Nest the rest at its path, to be merged into the released text.
                value: Any = rest
                for step in reversed(steps):
                    value = {step: value} if isinstance(step, str) else [{**dict(step), **value}]
                self._ready.append(AIMessageChunk(id=self._id, **{"content": "", **value}))
            if stream.has_changed and steps[0] == "content" != steps[-1]:
                self._changed.add(dict(steps[1]).get("index"))
        self._texts.clear()

    def _without_calls(self, message: AIMessageChunk) -> AIMessageChunk:
        """Return the chunk without calls: only at the end, unreadable calls are known."""
        calls: Any = ""
        content: object = message.content
        if isinstance(content, list):
            # Calls that the provider runs stay before their results if the guard may leave them.
            every = self._guard.redacts_calls
            calls = [b for b in content if is_call(b) and (every or b["type"] in CALL_BLOCKS)]
            content = [block for block in content if block not in calls]
        extras = message.additional_kwargs
        raw_calls = {key: value for key, value in extras.items() if key in _CALL_KEYS}
        if not (calls or raw_calls or message.tool_call_chunks):
            return message
        fields = {"content": calls, EXTRAS: raw_calls, "tool_call_chunks": message.tool_call_chunks}
        self._calls.append(AIMessageChunk(**fields))
        empty: dict[str, Any] = {"tool_call_chunks": [], "tool_calls": [], "invalid_tool_calls": []}
        extras = {key: value for key, value in extras.items() if key not in raw_calls}
        return message.model_copy(update={**empty, "content": content, EXTRAS: extras})


def _is_empty_block(block: object) -> bool:
    """Return True if all text of a block is held back, and nothing else is in the block."""
    if isinstance(block, dict):
        values = [value for key, value in block.items() if key not in ("type", "index")]
        return bool(values) and all(value in ("", []) for value in values)
    return bool(block == "")
