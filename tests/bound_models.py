"""Models that keep the tools they are bound to, named as those of providers."""

from __future__ import annotations

from typing import Any

from pydantic import PrivateAttr

from agent_factory.testing import ScriptedChatModel


class Bound(ScriptedChatModel):
    """Keeps the tools it is bound to, and the tools of each request."""

    _bound: list[list[Any]] = PrivateAttr(default_factory=list)
    _sent: list[list[Any]] = PrivateAttr(default_factory=list)

    @property
    def bound(self) -> list[list[Any]]:
        return self._bound

    @property
    def sent(self) -> list[list[Any]]:
        return self._sent

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        self._bound.append(list(tools))
        return super().bind_tools(tools, **kwargs, bound=len(self._bound) - 1)

    def _respond(self, messages: Any, stop: Any, kwargs: Any) -> Any:
        self._sent.append(self._bound[kwargs.pop("bound")] if "bound" in kwargs else [])
        return super()._respond(messages, stop, kwargs)


class ChatAnthropic(Bound):
    """Named as that of langchain-anthropic."""


class ChatOpenAI(Bound):
    """Named as that of langchain-openai."""


def made(kind: Any, steps: list[Any], **fields: Any) -> Any:
    """A model; mypy does not know what a subclass of a pydantic model is made with."""
    return kind(steps, **fields)
