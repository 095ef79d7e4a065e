"""Models of Anthropic: with a name alone, and with thoughts that its written rules check."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import PrivateAttr

from agent_factory.testing import ScriptedChatModel

RULES = "platform.claude.com, build-with-claude/preserved-thinking/prefix-checks"


def thoughts_in(messages: list[BaseMessage]) -> list[str]:
    """The signatures of all thoughts, in their order."""
    return [
        block["signature"]
        for message in messages
        for block in message.content
        if isinstance(block, dict) and block["type"] == "thinking"
    ]


class Claude(ScriptedChatModel):
    """A scripted model that LangChain knows as Anthropic's."""

    def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
        return {**super()._get_ls_params(stop, **kwargs), "ls_provider": "anthropic"}


class ThinkingClaude(Claude):
    """Thinks before each answer; refuses thoughts behind a changed beginning, or after a gap."""

    model: str = "claude-opus-5-5"
    _made: dict[str, tuple[str, list[str]]] = PrivateAttr(default_factory=dict)

    def _respond(self, messages: Any, stop: Any, kwargs: Mapping[str, Any]) -> Any:
        response = super()._respond(messages, stop, dict(kwargs))
        tools = kwargs.get("tools")
        self._check(messages, tools)
        signature = f"s{len(self._made)}"
        self._made[signature] = (self._before(messages, tools), thoughts_in(messages))
        thought = {"type": "thinking", "thinking": "Hm.", "signature": signature}
        answer = response.message
        text = [{"type": "text", "text": answer.text}] if answer.text else []
        return replace(response, message=answer.model_copy(update={"content": [thought, *text]}))

    def _check(self, messages: list[BaseMessage], tools: object) -> None:
        sent: list[str] = []
        for index, message in enumerate(messages):
            for signature in thoughts_in([message]):
                before, earlier = self._made[signature]
                if before != self._before(messages[:index], tools):
                    raise ValueError(f"{signature} is bound to a different conversation: {RULES}")
                # Thoughts may be left out from the beginning on, and not in the middle.
                if sent and sent != earlier[-len(sent) :]:
                    raise ValueError(f"a thought before {signature} is left out: {RULES}")
                sent.append(signature)

    def _before(self, messages: list[BaseMessage], tools: object) -> str:
        parts: list[object] = [tools]
        for message in messages:
            blocks = [b for b in message.content if not isinstance(b, dict) or b["type"] == "text"]
            texts = [block if isinstance(block, str) else block["text"] for block in blocks]
            calls = message.tool_calls if isinstance(message, AIMessage) else None
            parts.append(("".join(texts), calls, getattr(message, "tool_call_id", None)))
        return json.dumps(parts, sort_keys=True, default=repr)
