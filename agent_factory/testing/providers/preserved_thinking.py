"""Signatures of Anthropic's thoughts, and the check of the prefix that a thought was made with.

A signature holds digests of the thought and of its prefix. So each server can check a signature
from another one: a thread may go on in the next test.

https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from itertools import groupby

from agent_factory.testing.providers.rules import Json
from agent_factory.testing.providers.server import digest

BETA = "thinking-binding-controls-2026-08-01"
"""The value of the header `anthropic-beta` for `prefix_mismatch_behavior`."""

KEYS = {"thinking": "signature", "redacted_thinking": "data"}
"""The field with the signature, by the type of a thought."""


def sign(content: Sequence[Json], request: Json) -> None:
    """Sign the thoughts of an answer that have no signature."""
    messages = request.get("messages") or []
    previous = [digest(signature) for _, _, signature in _signatures(messages)][-1:]
    for position, block in enumerate(content):
        if (key := KEYS.get(block.get("type", ""))) and not block.get(key):
            prefix = _prefix(request, [*messages, _assistant(content[:position])])
            values = {"thought": thought(block), **prefix, "previous": (previous or [""])[-1]}
            block[key] = base64.b64encode(json.dumps(values).encode()).decode()
            previous = [digest(block[key])]


def read(signature: object) -> Json | None:
    """The digests in a signature, or None for another text."""
    try:
        values = json.loads(base64.b64decode(str(signature), validate=True))
    except ValueError:
        return None
    return values if isinstance(values, dict) and "thought" in values else None


def thought(block: Json) -> str:
    """Digest of the text of a thought."""
    return digest(block.get("thinking", ""))


def mismatches(request: Json) -> Iterator[tuple[str, list[str]]]:
    """Place of each thought whose prefix has changed, and the changed parts of the prefix."""
    messages = request["messages"]
    previous = ""
    for index, position, signature in _signatures(messages):
        values = read(signature)
        if values is None:
            continue
        before = [*messages[:index], _assistant(messages[index]["content"][:position])]
        prefix = _prefix(request, before)
        changes = [part for part in prefix if prefix[part] != values[part]]
        # Thoughts may be taken out from the first one on, but not between others.
        if not changes and previous and values["previous"] != previous:
            changes = ["thinking"]
        if changes:
            yield f"messages.{index}.content.{position}", changes
        previous = digest(signature)


def _signatures(messages: Sequence[Json]) -> Iterator[tuple[int, int, str]]:
    for index, message in enumerate(messages):
        if isinstance(message["content"], list):
            for position, block in enumerate(message["content"]):
                if key := KEYS.get(block.get("type", "")):
                    yield index, position, block.get(key, "")


def _assistant(content: Sequence[Json]) -> Json:
    return {"role": "assistant", "content": [*content]}


def _prefix(request: Json, messages: Sequence[Json]) -> dict[str, str]:
    system = request.get("system") or []
    tools = sorted(digest(_plain(tool)) for tool in request.get("tools") or ())
    plain = [(message["role"], _content(message["content"])) for message in messages]
    merged = [
        [role, [block for _, content in turns for block in content]]
        for role, turns in groupby([turn for turn in plain if turn[1]], key=lambda turn: turn[0])
    ]
    return {"system": digest(_content(system)), "tools": digest(tools), "messages": digest(merged)}


def _content(content: object) -> list[object]:
    """Blocks without thoughts; a text is a block."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    blocks = content if isinstance(content, list) else []
    return [_plain(block) for block in blocks if block.get("type") not in KEYS]


def _plain(value: object) -> object:
    """A value without cache marks and defaults."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {key: _plain(item) for key, item in value.items() if key != "cache_control"}
    if plain.get("is_error") is False:
        del plain["is_error"]
    if value.get("type") == "tool_result":
        plain["content"] = _content(value.get("content"))
    return plain
