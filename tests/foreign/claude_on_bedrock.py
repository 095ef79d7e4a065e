"""Fake of a Claude with preserved thinking on Amazon Bedrock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent_factory.testing.providers import BedrockServer, preserved_thinking
from agent_factory.testing.providers.rules import Json, documented


class PreservingBedrockServer(BedrockServer):
    """Bedrock's Converse API, with the check of the prefix by Anthropic's rules."""

    def sign(self, response: Json, request: Json) -> None:
        content = response["output"]["message"]["content"]
        blocks = [_block(block) for block in content]
        preserved_thinking.sign(blocks, _request_of(request))
        for block, signed in zip(content, blocks, strict=True):
            if "reasoningContent" in block:
                block["reasoningContent"]["reasoningText"]["signature"] = signed["signature"]

    @documented(
        "https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks"
    )
    def prefix_is_unchanged(self, body: Json) -> Iterator[str]:
        """System, tools and messages before a preserved thought stay as they were."""
        for place, parts in preserved_thinking.mismatches(_request_of(body)):
            yield f"{place}: a thought is bound to a different conversation: {', '.join(parts)}"


def _request_of(body: Json) -> Json:
    """A request of Converse in the form of the Messages API."""
    messages = [
        {"role": message["role"], "content": _blocks(message["content"])}
        for message in body.get("messages") or ()
    ]
    tools = (body.get("toolConfig") or {}).get("tools") or ()
    return {
        "system": _blocks(body.get("system") or ()),
        "tools": [tool for tool in tools if "cachePoint" not in tool],
        "messages": messages,
    }


def _blocks(content: Any) -> list[Json]:
    return [_block(block) for block in content if "cachePoint" not in block]


def _block(block: Json) -> Json:
    """A content block in the form of the Messages API, as far as a digest reads the form."""
    if thought := block.get("reasoningContent"):
        values = thought["reasoningText"]
        return {"type": "thinking", "thinking": values["text"], "signature": values["signature"]}
    return {"type": "block", **block}
