"""Where personal data stands in messages: their text, in every form, and the calls they make."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langgraph.types import Command, Overwrite

from agent_factory.middleware._shared.redaction.rules import RedactionRule

Path = tuple[Hashable, ...]
"""The way to a string: keys, and for the members of lists what they are merged by."""

EXTRAS = "additional_kwargs"

Visit = Callable[[Path, str], str]
"""Gives a string's place and the string, and receives what is to stand there."""

MessageT = TypeVar("MessageT", bound=BaseMessage)

CALLS = frozenset(
    {
        "custom_tool_call",
        "function_call",
        "input_json_delta",
        "invalid_tool_call",
        "mcp_call",
        "server_tool_call",
        "server_tool_call_chunk",
        "server_tool_use",
        "tool_call",
        "tool_call_chunk",
        "tool_use",
    }
)
"""Types of content blocks that are calls; what they say belongs to the call, not to the text."""

CALL_KEYS = frozenset({"tool_calls", "function_call"})
"""Where `additional_kwargs` repeat the calls as the provider sent them."""

_ARGUMENTS = frozenset({"args", "arguments", "input", "partial_json"})

_IN_BLOCKS = frozenset(
    {
        "annotations",
        "citations",
        "content",
        "output",
        "reasoning",
        "reasoning_content",
        "refusal",
        "summary",
        "text",
        "thinking",
        "transcript",
        "value",
    }
)
"""Keys of content blocks, and of `additional_kwargs`, under which there is text."""

_NO_TEXT = frozenset(
    {
        "base64",
        "data",
        "encrypted_content",
        "encrypted_index",
        "file",
        "file_id",
        "id",
        "image_url",
        "index",
        "media_type",
        "mime_type",
        "signature",
        "source",
        "tool_use_id",
        "type",
    }
)
"""Keys that hold text to no one: what a provider must get back as it was, and files."""


def walk(value: Any, visit: Visit, path: Path = ("content",)) -> Any:
    """The text in a message's content, or in another part of it, rewritten."""
    if isinstance(value, str):
        return visit(path, value)
    if isinstance(value, list):
        return [walk(item, visit, (*path, *_place(item))) for item in value]
    if not isinstance(value, dict) or is_call(value):
        return value
    within = path[0] == EXTRAS or any(step in _IN_BLOCKS for step in path[1:])
    return {
        key: walk(part, visit, (*path, key)) if _has_text(key, within) else part
        for key, part in value.items()
    }


def _place(item: Any) -> Path:
    """What a member of a list is merged by when chunks are added; a bare text is a text block."""
    if isinstance(item, str):
        return ((("type", "text"),), "text")
    if not isinstance(item, dict):
        return ((),)
    return (tuple((key, item[key]) for key in ("type", "index") if key in item),)


def _has_text(key: Any, within: bool) -> bool:
    return key in _IN_BLOCKS or (within and key not in _NO_TEXT)


def redacted(message: MessageT, apply: Callable[[str], str]) -> MessageT:
    """The message with its text rewritten, itself where nothing changes; calls stay as made."""
    content = walk(message.content, lambda path, text: apply(text))
    if content == message.content:
        return message
    return message.model_copy(update={"content": content})


def redacted_value(value: Any, apply: Callable[[str], str]) -> Any:
    """Every string in a value of JSON, the keys of dicts too."""
    if isinstance(value, str):
        return apply(value)
    if isinstance(value, list):
        return [redacted_value(item, apply) for item in value]
    if isinstance(value, dict):
        return {
            redacted_value(key, apply): redacted_value(item, apply) for key, item in value.items()
        }
    return value


def _redacted_arguments(arguments: Any, apply: Callable[[str], str]) -> Any:
    """Arguments as values, or as the JSON that providers send."""
    if not isinstance(arguments, str):
        return redacted_value(arguments, apply)
    try:
        value = json.loads(arguments)
    except ValueError:
        return apply(arguments)
    new = redacted_value(value, apply)
    return arguments if new == value else json.dumps(new, ensure_ascii=False)


@dataclass(frozen=True)
class Guard:
    """What of a model's answer a rule is applied to.

    Args:
        rule: The rule.
        text: Whether to the text: content, reasoning, refusals.
        all_calls: Whether to the arguments of every call.
        calls: The tools whose calls it is applied to in any case.
    """

    rule: RedactionRule
    text: bool
    all_calls: bool = False
    calls: frozenset[str] = frozenset()

    @property
    def guards_calls(self) -> bool:
        """Whether there are calls to be looked at."""
        return self.all_calls or bool(self.calls)

    def answer(self, message: AIMessage) -> AIMessage:
        """The model's answer, complete, with the rule applied."""
        update: dict[str, Any] = {"content": message.content, EXTRAS: message.additional_kwargs}
        if self.text:
            said = walk(spoken(message.additional_kwargs), self._apply, (EXTRAS,))
            update["content"] = walk(message.content, self._apply)
            update[EXTRAS] = {**message.additional_kwargs, **said}
        if self.guards_calls:
            update["content"] = self.blocks(update["content"])
            update[EXTRAS] = self.raw_calls(update[EXTRAS])
            update["tool_calls"] = self.blocks(message.tool_calls)
            update["invalid_tool_calls"] = self.blocks(message.invalid_tool_calls)
        changed = {key: value for key, value in update.items() if getattr(message, key) != value}
        return message.model_copy(update=changed) if changed else message

    def _apply(self, path: Path, text: str) -> str:
        return self.rule.apply(text)

    def blocks(self, blocks: Any) -> Any:
        """Content or calls, with the calls among them rewritten."""
        if not isinstance(blocks, list):
            return blocks
        return [self._call(block) if is_call(block) else block for block in blocks]

    def raw_calls(self, extras: Mapping[str, Any]) -> dict[str, Any]:
        """`additional_kwargs` with the calls in them rewritten."""
        return {
            key: self._raw(value) if key in CALL_KEYS else value for key, value in extras.items()
        }

    def _raw(self, calls: Any) -> Any:
        if isinstance(calls, list):
            return [self._raw(call) for call in calls]
        if isinstance(calls, dict) and isinstance(calls.get("function"), dict):
            return {**calls, "function": self._call(calls["function"])}
        return self._call(calls) if isinstance(calls, dict) else calls

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        if not (self.all_calls or call.get("name") in self.calls):
            return dict(call)
        return {
            key: _redacted_arguments(value, self.rule.apply) if key in _ARGUMENTS else value
            for key, value in call.items()
        }


def is_call(block: Any) -> bool:
    """Whether a content block is a call."""
    return isinstance(block, dict) and block.get("type") in CALLS


def spoken(extras: Mapping[str, Any]) -> dict[str, Any]:
    """What in a message's `additional_kwargs` is text of the model."""
    return {key: value for key, value in extras.items() if key in _IN_BLOCKS or key == "audio"}


def redacted_result(result: Any, apply: Callable[[str], str]) -> Any:
    """What a tool gave, in any of its forms, with the text of its messages rewritten."""
    if isinstance(result, Command):
        return _redacted_command(result, apply)
    if isinstance(result, list):
        return [redacted_result(item, apply) for item in result]
    return redacted(result, apply) if isinstance(result, BaseMessage) else result


def _redacted_command(command: Command[Any], apply: Callable[[str], str]) -> Command[Any]:
    update = command.update
    if isinstance(update, Mapping):
        told: Any = {key: _written(key, value, apply) for key, value in update.items()}
    elif isinstance(update, Sequence) and not isinstance(update, str):
        told = [(key, _written(key, value, apply)) for key, value in update]
    else:
        return command
    return replace(command, update=told)


def _written(key: str, value: Any, apply: Callable[[str], str]) -> Any:
    if key != "messages" or value is None:
        return value
    if isinstance(value, Overwrite):
        return Overwrite(_written(key, value.value, apply))
    messages = convert_to_messages(value if isinstance(value, list) else [value])
    return [redacted(message, apply) for message in messages]
